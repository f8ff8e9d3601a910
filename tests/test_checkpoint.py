"""Checkpoints come back as they were, or with an error that says what happened to them."""

import json
import shutil
from contextlib import suppress
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import trees_equal
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError

from iclzoo.zoo import errors
from iclzoo.zoo.factory import MODELS, create
from iclzoo.zoo.layers.attention import LinearSelfAttention
from iclzoo.zoo.storage.card import Card
from iclzoo.zoo.storage.checkpoint import checkpoint_folder, list_checkpoints, load, read_card, save, write_card
from iclzoo.zoo.storage.tensors import from_bytes, named_arrays, to_bytes


@pytest.fixture
def model(getkey):
    return create("deep_lsa", key=getkey(), input_dim=3, num_layers=2)


@pytest.fixture
def folder(model, getkey, tmp_path):
    steps = {0: create("deep_lsa", key=getkey(), input_dim=3, num_layers=2), 900: model, 1000: model}
    return save(tmp_path / "my.model-1.5", model, Card(description="a test"), steps=steps)


def edit_card(folder, **changes):
    card = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(card | changes))


def test_a_checkpoint_needs_nothing_but_its_folder(folder, model):
    assert trees_equal(load(folder), model)
    assert trees_equal(load(str(folder)), model)
    card = read_card(folder)
    assert (card.model, card.hyperparameters["num_layers"], card.description) == ("deep_lsa", 2, "a test")
    assert card.tensors["layers.1.W_K"] == "float32[1,4,4]"
    assert set(card.versions) >= {"jax", "equinox", "optax"}


def test_steps_sort_as_numbers(folder, model):
    assert read_card(folder).steps == (0, 900, 1000)
    assert trees_equal(load(folder, step=1000), model)
    assert not trees_equal(load(folder, step=0), model)


def test_saving_is_by_name_and_strict(folder):
    """Two layers do not load as one, and K never becomes Q."""
    edit_card(folder, hyperparameters={"input_dim": 3, "num_layers": 1})
    with pytest.raises(errors.MismatchError, match=r"unexpected layers\.1\.W_K"):
        load(folder)
    edit_card(folder, hyperparameters={"input_dim": 3, "num_layers": 3})
    with pytest.raises(errors.MismatchError, match=r"missing layers\.2\.W_V"):
        load(folder)


def truncate(file):
    file.write_bytes(file.read_bytes()[:-4])


def flip(file):
    data = bytearray(file.read_bytes())
    data[-7] ^= 16
    file.write_bytes(data)


def point(file):
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


def hollow(file):
    file.unlink()
    file.mkdir()


DAMAGES = {
    "empty": (lambda file: file.write_bytes(b""), errors.EmptyFileError, "is empty"),
    "truncated": (truncate, errors.TruncatedFileError, r"ends after \d+ of \d+ bytes"),
    "one byte flipped": (flip, errors.CorruptFileError, "SHA-256 hash differs"),
    "a Git-LFS pointer": (point, errors.GitLFSPointerError, "git lfs pull"),
    "a directory": (hollow, errors.NotACheckpointError, "is a directory"),
    "gone": (lambda file: file.unlink(), errors.MissingFileError, "is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_has_its_own_error(folder, damage):
    act, error, message = DAMAGES[damage]
    act(folder / "model.safetensors")
    with pytest.raises(error, match=message) as caught:
        load(folder)
    assert "model.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_ways_to_miss_a_checkpoint(folder, tmp_path):
    with pytest.raises(errors.MissingStepError, match="keeps no step 5; the steps it keeps: 0, 900, 1000"):
        load(folder, step=5)
    with pytest.raises(errors.UnknownNameError, match="did you mean 'lsa'"):
        load("lsaa")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(errors.NotACheckpointError, match=r"directory without config\.json"):
        load(tmp_path / "nothing")
    with pytest.raises(errors.NotACheckpointError, match="is a file"):
        load(folder / "config.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "holds a JSON list"),
        ('{"format": 1, "hyperparametrs": {}}', "did you mean 'hyperparameters'"),
        ('{"format": 99}', "format 99"),
        ('{"format": 1, "steps": {}}', "'steps' must be a list"),
        ('{"format": 1, "steps": ["../../x"]}', "whole numbers"),
        ('{"format": 1, "model": "lsaa"}', "unknown model 'lsaa'; did you mean 'lsa'"),
        ('{"format": 1, "model": "lsa", "hyperparameters": {"input_dmi": 3}}', "did you mean 'input_dim'"),
        (
            '{"format": 1, "model": "lsa", "hyperparameters": {"input_dim": "ten"}}',
            "input_dim must be a whole number from 1 to 2147483647, got 'ten'",
        ),
        (
            '{"format": 1, "model": "lsa", "hyperparameters": {"input_dim": -4}}',
            "input_dim must be a whole number from 1 to 2147483647, got -4",
        ),
    ],
)
def test_bad_cards(folder, text, message):
    entries = json.loads((folder / "config.json").read_text())
    if text.startswith('{"format": 1,'):
        text = json.dumps(entries | json.loads(text))
    (folder / "config.json").write_text(text)
    with pytest.raises(errors.CheckpointError, match=message):
        load(folder)


def test_a_card_edited_by_hand(folder):
    edit_card(folder, hyperparameters={"input_dim": 5, "num_layers": 2})
    with pytest.raises(errors.MismatchError, match=r"layers\.0\.W_K is \[1, 4, 4\], expected \[1, 6, 6\]"):
        load(folder)


def test_nothing_is_overwritten_unasked(folder, model, tmp_path):
    with pytest.raises(errors.ExistsError, match="overwrite=True"):
        save(folder, model)
    other = jax.tree.map(lambda w: 2 * w, model)
    save(folder, other, overwrite=True)
    assert trees_equal(load(folder), other)
    assert [entry.name for entry in tmp_path.iterdir()] == [folder.name]
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "draft.txt").write_text("years of work")
    with pytest.raises(errors.ExistsError, match=r"holds no config\.json"):
        save(precious, model, overwrite=True)
    assert (precious / "draft.txt").exists()


def test_every_stride_comes_back_equal():
    """safetensors 0.8.0 scrambles arrays that are not C-contiguous; ours do not pass through it so."""
    w = np.arange(35, dtype=np.float32).reshape(5, 7)
    views = {
        "w": w,
        "w.T": w.T,
        "w[::2]": w[::2],
        "w[:, ::-1]": w[:, ::-1],
        "broadcast": np.broadcast_to(w[0], (3, 7)),
        "0-d": w[1, 1],
    }
    back = from_bytes(to_bytes(views))
    for name, view in views.items():
        assert np.array_equal(back[name], view), name
        assert back[name].shape == np.shape(view)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 3, 1), (0, 2)])
def test_shapes_and_dtypes_survive(dtype, shape):
    array = jnp.ones(shape, dtype)
    back = from_bytes(to_bytes({"a": array}))["a"]
    assert (back.shape, back.dtype) == (array.shape, array.dtype)


def test_bfloat16_models_survive(model, tmp_path):
    half = jax.tree.map(lambda w: w.astype(jnp.bfloat16), model)
    assert trees_equal(load(save(tmp_path / "half", half)), half)


def test_float64_needs_x64(tmp_path):
    with jax.enable_x64(True):
        wide = create("lsa", key=jr.key(0), input_dim=3)
        save(tmp_path / "wide", wide)
        assert trees_equal(load(tmp_path / "wide"), wide)
    with pytest.raises(errors.PrecisionError, match="jax_enable_x64"):
        load(tmp_path / "wide")


def test_loading_never_opens_the_network(folder, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr("socket.socket", refuse)
    load(folder)
    load("lsa")


def test_unregistered_models_cannot_be_saved(tmp_path):
    class Stranger(eqx.Module):
        w: jax.Array

        def __call__(self, prompt):
            return self.w

    with pytest.raises(errors.ContractError, match=r"iclzoo\.register"):
        save(tmp_path / "stranger", Stranger(jnp.zeros(3)))
    assert list(tmp_path.iterdir()) == []


class Damped(eqx.Module):
    """A model with numbers of all kinds that no hyperparameter decides."""

    w: jax.Array
    damping: float
    setting: str = eqx.field(static=True)
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    width: float = eqx.field(static=True)

    def __init__(self, *, input_dim: int = 3, output_dim: int = 1, width: float = 0.5, key):
        self.w, self.damping, self.setting = jr.normal(key, (output_dim, input_dim)), 1.0, "mild"
        self.input_dim, self.output_dim, self.width = input_dim, output_dim, width

    def __call__(self, prompt):
        return self.damping * self.w @ prompt.query


@pytest.fixture
def damped(getkey, monkeypatch):
    monkeypatch.setattr(MODELS, "_things", {**MODELS._things, "damped": Damped})
    return Damped(key=getkey())


def reset(model, name, value):
    copy = jax.tree.map(lambda leaf: leaf, model)
    object.__setattr__(copy, name, value)
    return copy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: reset(m, "damping", 0.25), r"damping is 0\.25, and built anew 1\.0"),
        (lambda m: reset(m, "damping", np.float32(1.0)), "unexpected damping"),
        (lambda m: reset(m, "damping", True), "damping is True, and built anew 1.0"),
        (lambda m: reset(m, "damping", jnp.ones(())), "unexpected damping"),
        (lambda m: reset(m, "setting", "wild"), "setting is 'wild', and built anew 'mild'"),
        (
            lambda m: reset(m, "width", np.float32(0.5)),
            r"its hyperparameter width is np\.float32\(0\.5\), and a card .*; make it 0\.5",
        ),
        (lambda m: reset(m, "width", float("nan")), "not JSON compliant"),
        (lambda m: reset(m, "w", jnp.ones((2, 1, 3))), r"w is \[2, 1, 3\], expected \[1, 3\]"),
        (lambda m: reset(m, "w", jnp.ones((1, 3), jnp.int32)), "w holds int32, expected float32"),
        (lambda m: reset(m, "w", [jnp.ones((1, 3))]), r"missing w.*unexpected w\.0"),
        (lambda m: eqx.filter_vmap(lambda k: Damped(key=k))(jr.split(jr.key(0), 2)), r"w is \[2, 1, 3\], expected"),
    ],
)
def test_what_could_not_be_loaded_again_is_not_saved(change, message, damped, tmp_path):
    with pytest.raises((errors.ContractError, errors.CardError), match=message):
        save(tmp_path / "x", change(damped))
    assert list(tmp_path.iterdir()) == []
    assert trees_equal(load(save(tmp_path / "x", damped)), damped)
    of_numpy = reset(damped, "w", np.asarray(damped.w))
    assert trees_equal(load(save(tmp_path / "y", of_numpy)), damped)


def test_a_layer_with_more_heads_is_not_saved(model, getkey, tmp_path):
    more = LinearSelfAttention(embed_dim=4, num_heads=3, init_scale=1.0, key=getkey())
    other = eqx.tree_at(lambda m: m.layers[1], model, more)
    with pytest.raises(errors.ContractError, match=r"layers\.1\.W_K is \[3, 4, 4\], expected \[1, 4, 4\]"):
        save(tmp_path / "x", other)
    with pytest.raises(errors.ContractError, match="does not hold the tensors its card lists"):
        save(tmp_path / "x", model, steps={0: other})


@pytest.mark.parametrize("step", [-5, 1.5, True, "3", None, float("nan"), 10**18, np.float32(3)])
def test_steps_are_whole_numbers(step, model, tmp_path):
    with pytest.raises(errors.ConfigError, match="a key of steps must be a whole number from 0"):
        save(tmp_path / "x", model, steps={step: model})
    folder = save(tmp_path / "x", model, steps={np.int64(3): model, 10**18 - 1: model})
    assert read_card(folder).steps == (3, 10**18 - 1)
    assert trees_equal(load(folder, step=np.int64(3)), model)
    if step is not None:
        with pytest.raises((errors.ConfigError, errors.MissingStepError)):
            load(folder, step=step)


@pytest.mark.parametrize(
    "entries",
    [
        {"description": "\ud800"},
        {"metrics": {"a": float("nan")}},
        {"metrics": {"a": np.float32(1)}},
        {"task": {"a": object()}},
        {"description": 5},
        {"training": [1]},
        {"format": 3},
        {"reference": None},
    ],
)
def test_a_card_that_could_not_be_read_again_is_not_written(entries, model, tmp_path):
    with pytest.raises((errors.CardError, errors.ConfigError)):
        save(tmp_path / "x", model, Card(**entries))
    assert list(tmp_path.iterdir()) == []
    folder = save(tmp_path / "x", model)
    text = (folder / "config.json").read_bytes()
    with pytest.raises((errors.CardError, errors.ConfigError)):
        write_card(folder, replace(read_card(folder), **entries))
    assert (folder / "config.json").read_bytes() == text


def test_entries_given_twice_are_no_card(folder):
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"format": 2', '"format": 2, "format": 2'))
    with pytest.raises(errors.CardError, match="the entry 'format' is given twice"):
        read_card(folder)
    (folder / "config.json").write_text(text.replace('"num_layers": 2', '"num_layers": 1, "num_layers": 2'))
    with pytest.raises(errors.CardError, match="the entry 'num_layers' is given twice"):
        load(folder)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "steps/900.safetensors"])
def test_a_terabyte_is_not_read(file, folder):
    with (folder / file).open("r+b") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(errors.CheckpointError, match=f"{file} has 1099511627776 bytes, but [0-9]+ are the most"):
        load(folder, step=900) if "steps" in file else load(folder)


def test_nor_one_that_the_card_promises(folder):
    with (folder / "model.safetensors").open("r+b") as sparse:
        sparse.truncate(2**40)
    files = json.loads((folder / "config.json").read_text())["files"]
    edit_card(folder, files=files | {"model.safetensors": {"bytes": 2**40, "sha256": "0" * 64}})
    with pytest.raises(
        errors.CardError, match=r"records 1099511627776 bytes of model\.safetensors, but its tensors take"
    ):
        load(folder)
    edit_card(
        folder,
        tensors={"layers.0.W_K": f"float32[{2**20},{2**20}]"},
        files={"model.safetensors": {"bytes": 2**40, "sha256": "0" * 64}},
    )
    with pytest.raises(errors.CheckpointError):
        load(folder)


def test_a_step_that_was_not_kept_names_the_nearest(model, tmp_path):
    folder = save(tmp_path / "x", model, steps=dict.fromkeys(range(0, 3000, 30), model))
    with pytest.raises(errors.MissingStepError) as caught:
        load(folder, step=100)
    assert str(caught.value).endswith("the nearest of its 100: 0, 30, 60, 90, 120, 150, 180, 210, 240, 270")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_fuzzed_tensor_files_never_crash(data):
    """Any change to the bytes gives a clear error, or arrays: nothing else."""
    good = to_bytes(named_arrays(create("lsa", key=jr.key(0), input_dim=3)))
    bad = bytearray(good[: data.draw(st.integers(0, len(good)))])
    for _ in range(data.draw(st.integers(0, 4))):
        if bad:
            bad[data.draw(st.integers(0, min(len(bad) - 1, 400)))] = data.draw(st.integers(0, 255))
    with suppress(SafetensorError, ValueError, OverflowError):
        assert all(isinstance(array, np.ndarray) for array in from_bytes(bytes(bad)).values())


def test_shipped_names():
    assert {"lsa", "lsa-fast", "recurrent-lsa-2", "deep-lsa-2"} <= set(list_checkpoints())
    assert list_checkpoints("lsa*") == [name for name in list_checkpoints() if name.startswith("lsa")]
    assert checkpoint_folder("lsa").name == "lsa"


def test_a_folder_of_the_same_name_does_not_hide_a_shipped_checkpoint(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, tmp_path / "lsa")
    with pytest.warns(errors.ZooWarning, match=r"the folder .*/lsa is another one: for that, write './lsa'"):
        assert read_card("lsa").description != "a test"
    assert read_card("./lsa").description == "a test"
