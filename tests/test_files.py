"""Files and folders: whatever happens while they are written, nothing is lost, and nothing of anybody else's is touched."""

import errno
import os
import stat
from contextlib import suppress
from itertools import count
from threading import Thread

import jax
import numpy as np
import pytest
from helpers import everything, trees_equal

from iclzoo.zoo import errors
from iclzoo.zoo.factory import create
from iclzoo.zoo.storage import files, folders
from iclzoo.zoo.storage.card import Card
from iclzoo.zoo.storage.checkpoint import load, read_card, save, write_card
from iclzoo.zoo.storage.files import located, write_atomically

SYSTEM_CALLS = ("open", "replace", "rename", "fsync", "unlink", "rmdir", "mkdir", "chmod")


@pytest.fixture(params=["exchanged at once", "exchanged by two renames"])
def exchange(request, monkeypatch):
    """Both ways to exchange a folder: that of a local file system, and that of one which cannot do it at once."""
    if request.param == "exchanged by two renames":
        monkeypatch.setattr(folders, "_exchanged_at_once", lambda new, path: False)


@pytest.fixture
def model(getkey):
    return create("lsa", key=getkey(), input_dim=3)


def scaled(model, factor):
    return jax.tree.map(lambda w: factor * w, model)


class Killed(BaseException):
    """The process has ended: no clean-up of its own comes any further, either."""


def dying(monkeypatch, fatal_call):
    """Let the process end at a system call that writes; returns how many there were."""
    calls = count()

    def fatal(function):
        def call(*args, **kwargs):
            if next(calls) >= fatal_call:
                raise Killed
            return function(*args, **kwargs)

        return call

    for name in SYSTEM_CALLS:
        monkeypatch.setattr(os, name, fatal(getattr(os, name)))


@pytest.mark.parametrize("fatal_call", range(28))
def test_life_goes_on_after_a_kill_anywhere_in_a_save(fatal_call, exchange, model, tmp_path):
    """What loads is the old state or the new one; the next save works, and what is there afterwards is the checkpoint alone."""
    folder = save(tmp_path / "a[1]*", model, steps={0: model})
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, fatal_call)
        with suppress(Killed):
            save(folder, scaled(model, 2.0), overwrite=True)
    loaded = load(folder)
    assert trees_equal(loaded, model) or trees_equal(loaded, scaled(model, 2.0))
    save(folder, scaled(model, 3.0), overwrite=True)
    assert trees_equal(load(folder), scaled(model, 3.0))
    assert [entry.name for entry in tmp_path.iterdir()] == [folder.name]


@pytest.mark.parametrize("fatal_call", range(18))
def test_no_old_weights_come_back_in_place_of_a_folder_that_was_removed(fatal_call, model, tmp_path):
    folder = save(tmp_path / "x", model)
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, fatal_call)
        with suppress(Killed):
            save(folder, scaled(model, 2.0), overwrite=True)
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(errors.UnknownNameError):
        load(folder)
    save(folder, scaled(model, 3.0))
    assert trees_equal(load(folder), scaled(model, 3.0))


@pytest.mark.parametrize("fatal_call", range(10))
def test_life_goes_on_after_a_kill_anywhere_in_a_write(fatal_call, model, tmp_path):
    folder = save(tmp_path / "x", model)
    card = read_card(folder)
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, fatal_call)
        with suppress(Killed):
            write_card(folder, Card(**(vars(card) | {"description": "new"})))
    assert read_card(folder).description in ("", "new")
    write_card(folder, Card(**(vars(card) | {"description": "newer"})))
    assert read_card(folder).description == "newer"
    assert sorted(entry.name for entry in folder.iterdir()) == ["config.json", "model.safetensors"]
    save(folder, scaled(model, 2.0), overwrite=True)
    assert trees_equal(load(folder), scaled(model, 2.0))


@pytest.mark.parametrize("good_calls", range(8))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_is_full_or_broken_leaves_what_was_there(code, good_calls, exchange, model, tmp_path):
    folder = save(tmp_path / "x", model)
    (tmp_path / "picture.png").write_bytes(b"old")
    before, calls = everything(tmp_path), count()

    def failing(function):
        def call(*args, **kwargs):
            if next(calls) >= good_calls:
                raise OSError(code, os.strerror(code))
            return function(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "mkdir"):
            patch.setattr(os, name, failing(getattr(os, name)))
        with suppress(errors.WriteError):
            save(folder, scaled(model, 2.0), overwrite=True)
            write_atomically(tmp_path / "picture.png", b"new")
    loaded = load(folder)
    assert trees_equal(loaded, model) or trees_equal(loaded, scaled(model, 2.0))
    assert (tmp_path / "picture.png").read_bytes() in (b"old", b"new")
    assert everything(tmp_path).keys() == before.keys()


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.WriteError, match=rf"cannot write to {tmp_path}/x.png: No space left on device"):
        write_atomically(tmp_path / "x.png", b"new")


def test_links_are_followed_to_where_they_lead(model, tmp_path):
    folder = save(tmp_path / "data" / "x", model)
    link, dangling = tmp_path / "link", tmp_path / "dangling"
    link.symlink_to(folder)
    dangling.symlink_to(tmp_path / "data" / "y")
    for factor in (2.0, 3.0):
        save(link, scaled(model, factor), overwrite=True)
        save(dangling, scaled(model, factor), overwrite=True)
        assert link.is_symlink()
        assert dangling.is_symlink()
        assert trees_equal(load(folder), scaled(model, factor))
        assert trees_equal(load(link), scaled(model, factor))
        assert trees_equal(load(tmp_path / "data" / "y"), scaled(model, factor))
    (tmp_path / "report.png").symlink_to(tmp_path / "data" / "report.png")
    write_atomically(tmp_path / "report.png", b"a picture")
    assert (tmp_path / "data" / "report.png").read_bytes() == b"a picture"
    assert (tmp_path / "report.png").is_symlink()


def test_a_file_of_a_checkpoint_that_is_a_link_is_not_what_is_deleted(model, tmp_path):
    folder = save(tmp_path / "x", model, steps={0: model})
    blob = tmp_path / "blob"
    (folder / "model.safetensors").rename(blob)
    (folder / "model.safetensors").symlink_to(blob)
    kept = blob.read_bytes()
    save(folder, scaled(model, 2.0), overwrite=True)
    assert blob.read_bytes() == kept
    assert trees_equal(load(folder), scaled(model, 2.0))
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "5.safetensors").write_text("precious")
    (folder / "steps").symlink_to(tmp_path / "steps")
    with pytest.raises(errors.ExistsError, match="its card does not list steps/5"):
        save(folder, model, overwrite=True)
    assert (tmp_path / "steps" / "5.safetensors").read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", '{"architectures": ["GPT2"]}', "'architectures' that no card has"),
        ("config.json", "{", "not valid JSON"),
        ("config.json", "", "is empty"),
        ("thesis.txt", "years of work", r"holds what was not written with it \(thesis.txt\)"),
        ("steps/notes.txt", "years of work", "its card does not list steps/notes.txt"),
        ("steps/-1.safetensors", "years of work", "its card does not list steps/-1.safetensors"),
        (".hidden", "years of work", r"\(.hidden\)"),
        ("run.json", "{}", r"\(run.json\)"),
        ("model.safetensors/x", "years of work", r"\(model.safetensors, model.safetensors/x\)"),
    ],
)
def test_only_a_checkpoint_with_nothing_else_in_it_is_overwritten(name, text, message, model, tmp_path):
    folder = save(tmp_path / "x", model)
    if name.startswith("model.safetensors/"):
        (folder / "model.safetensors").unlink()
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    before = everything(tmp_path)
    with pytest.raises(errors.ExistsError, match=message):
        save(folder, model, overwrite=True)
    assert everything(tmp_path) == before


def test_only_what_a_card_lists_is_deleted_with_it(model, tmp_path):
    for name, place in (("notes", "steps"), ("mine", "steps/7.safetensors")):
        folder = save(tmp_path / name, model)
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text("precious")
        with pytest.raises(errors.ExistsError, match=r"steps|its card does not list"):
            save(folder, scaled(model, 2.0), overwrite=True)
        assert (folder / place).read_text() == "precious"


def test_folders_of_others_are_not_moved_in_place_of_one(model, tmp_path):
    """A folder that looks like what is left of an exchange, and is not; and names that would look like it."""
    (tmp_path / ".thesis.previous").mkdir()
    (tmp_path / ".thesis.previous" / "thesis.tex").write_text("precious")
    (tmp_path / ".link.previous").symlink_to(save(tmp_path / "other", model))
    with pytest.raises(errors.UnknownNameError):
        load(tmp_path / "link")
    for name in ("thesis", "link"):
        save(tmp_path / name, scaled(model, 2.0))
        assert trees_equal(load(tmp_path / name), scaled(model, 2.0))
    assert (tmp_path / ".thesis.previous" / "thesis.tex").read_text() == "precious"
    assert trees_equal(load(tmp_path / "other"), model)
    for name in (".mine.previous", ".mine.abcdefgh.unfinished"):
        with pytest.raises(errors.PathError, match="a name for what is half written"):
            save(tmp_path / name, model)


def test_where_one_works_is_not_exchanged(model, tmp_path, monkeypatch):
    folder = save(tmp_path / "x", model, steps={0: model})
    for place in (folder, folder / "steps"):
        monkeypatch.chdir(place)
        with pytest.raises(errors.ExistsError, match="is where this process works"):
            save(folder, scaled(model, 2.0), overwrite=True)
        assert trees_equal(load(folder), model)


def test_what_others_left_beside_a_checkpoint_stays(model, tmp_path):
    folder = save(tmp_path / "x", model)
    for name in (".x.notes.unfinished", ".x.abcdefgh.unfinished", ".notes.unfinished", ".x.previous"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").write_text("years of work")
    save(folder, scaled(model, 2.0), overwrite=True)
    assert len(list(tmp_path.glob(".*/precious"))) == 4


def test_reading_never_writes(model, tmp_path, monkeypatch):
    """Not even beside what a killed save left."""
    folder = save(tmp_path / "x", model)
    os.rename(folder, tmp_path / ".x.previous")
    before, calls = everything(tmp_path), count()
    for name in SYSTEM_CALLS[1:]:
        monkeypatch.setattr(os, name, lambda *_, **__: next(calls))
    assert trees_equal(load(folder), model)
    assert read_card(folder).model == "lsa"
    monkeypatch.undo()
    assert next(calls) == 0
    assert everything(tmp_path) == before


def test_readers_beside_a_writer_see_the_old_state_or_the_new(exchange, model, tmp_path):
    """The short form of `python tests/robustness/together.py`."""
    folder, seen, failed = save(tmp_path / "x", model), [], []
    writing = Thread(target=lambda: [save(folder, scaled(model, float(n)), overwrite=True) for n in range(1, 41)])

    def read():
        while writing.is_alive():
            try:
                seen.append(float(np.asarray(load(folder).attention.W_K / model.attention.W_K).mean()))
            except Exception as error:
                failed.append(error)

    readers = [Thread(target=read) for _ in range(3)]
    writing.start()
    for reader in readers:
        reader.start()
    for thread in (writing, *readers):
        thread.join()
    assert not failed
    assert len(seen) > 40
    assert trees_equal(load(folder), scaled(model, 40.0))


def test_the_umask_is_honoured_and_permissions_stay(model, tmp_path):
    old = os.umask(0o077)
    try:
        folder = save(tmp_path / "private", model, steps={0: model})
        write_atomically(tmp_path / "private.png", b"a picture")
        modes = {
            stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (folder, *folder.rglob("*"), tmp_path / "private.png")
        }
    finally:
        os.umask(old)
    assert modes == {0}
    save(folder, model, overwrite=True)
    write_atomically(tmp_path / "private.png", b"a picture")
    assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE((tmp_path / "private.png").stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE((folder / "model.safetensors").stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("place", ["folder", "pipe", "file/x"])
def test_what_is_no_file_is_not_replaced(place, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.WriteError, match=f"cannot write to {tmp_path / place}: "):
        write_atomically(tmp_path / place, b"new")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("name", ["a\0b", "x" * 250, "x" * 5000, "\ud800"])
def test_names_that_no_folder_can_have(name, model, tmp_path):
    path = f"{tmp_path}/{name}"
    with pytest.raises((errors.WriteError, errors.PathError), match=r"cannot write to|leads nowhere"):
        save(path, model)
    with pytest.raises(errors.ZooError):
        load(path)
    assert not list(tmp_path.iterdir())


def test_the_home_is_expanded(model, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert save("~/ck", model) == tmp_path / "home" / "ck"
    assert trees_equal(load("~/ck"), model)
    assert not (tmp_path / "~").exists()
    with pytest.raises(errors.PathError, match="there is no such user here"):
        save("~nobody-of-that-name/ck", model)
    assert [entry.name for entry in tmp_path.iterdir()] == ["home"]


def test_a_lock_is_made_of_a_file_where_folders_cannot_be_locked(model, tmp_path, monkeypatch):
    def no_locks(handle, operation, flock=files.fcntl.flock):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(handle, operation)

    monkeypatch.setattr(files.fcntl, "flock", no_locks)
    save(tmp_path / "x", model)
    save(tmp_path / "x", scaled(model, 2.0), overwrite=True)
    assert trees_equal(load(tmp_path / "x"), scaled(model, 2.0))


def test_a_card_is_not_put_on_other_weights(model, tmp_path):
    """Two processes: one measures a checkpoint, the other overwrites it meanwhile."""
    folder = save(tmp_path / "x", model)
    card = read_card(folder)
    save(folder, scaled(model, 2.0), overwrite=True)
    with pytest.raises(errors.MismatchError, match="files of the new card is not that of the checkpoint there"):
        write_card(folder, card)
    assert trees_equal(load(folder), scaled(model, 2.0))


def test_where_a_path_leads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert located("x/../y") == tmp_path / "y"
    with pytest.raises(errors.PathError, match="leads nowhere"):
        located("a\0b")
