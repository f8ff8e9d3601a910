"""The report: whole, self-contained, readable without seeing, and opened in a real browser."""

import csv
import json
import shutil
import subprocess
from html.parser import HTMLParser

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import pytest
from helpers import Numbers, asking

from iclzoo.inspect.checkpoint import Checkpoint
from iclzoo.inspect.estimates.plain import plain
from iclzoo.inspect.instrument import in_order
from iclzoo.inspect.report.page import SectionError, write_report
from iclzoo.inspect.weights.conserved_quantities import conserved_quantities
from iclzoo.inspect.weights.interpolation import interpolation
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.errors import CheckpointError, ExistsError, NotApplicable, ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.storage.checkpoint import checkpoint_folder, load, save

# The sections that take seconds, not a minute; tests of their own hold the others to account.
QUICK = [
    s
    for s in in_order()
    if s.name in {"metrics", "weights", "structure", "exact-loss", "weight-path", "landscapes", "copying"}
]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    told = []
    page = write_report(Checkpoint("lsa-fast"), folder, QUICK, num_tasks=200, progress=told.append)
    assert told == [section.title for section in QUICK]
    return page


class Page(HTMLParser):
    """What a page refers to."""

    def __init__(self, text: str):
        super().__init__()
        self.images, self.references, self.sections, self.scripts = [], [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "img":
            self.images.append(attributes)
        if tag == "section":
            self.sections.append(attributes["id"])
        self.scripts += tag == "script"
        self.references += [attributes[name] for name in ("src", "href") if name in attributes]


def test_the_page_is_self_contained_and_every_figure_has_words(report):
    page = Page(report.read_text(encoding="utf-8"))
    assert set(page.sections) == {*(section.name for section in QUICK), "card"}
    assert page.sections[-3:] == ["landscapes", "copying", "card"]  # what does not apply comes last
    assert len(page.images) == 5
    for image in page.images:
        assert image["src"].startswith("data:image/png;base64,")
        assert len(image["alt"]) > 20
    assert page.scripts == 0
    assert not [r for r in page.references if r.startswith(("http", "//"))]
    for reference in page.references:
        if not reference.startswith(("#", "data:")):
            assert (report.parent / reference).stat().st_size > 0


def test_sections_that_do_not_apply_say_why(report):
    text = report.read_text(encoding="utf-8")
    assert "Does not apply: a landscape needs input_dim 2, but the task has 10." in text
    assert "Does not apply: LSA has x and y in one token, so there is nothing to copy." in text


def refuse_constant(constant: str):
    pytest.fail(f"{constant} is no JSON")


def test_numbers_are_valid_json_and_csv(report):
    files = sorted((report.parent / "numbers").iterdir())
    assert {file.suffix for file in files} == {".json", ".csv"}
    for file in files:
        if file.suffix == ".json":
            numbers = json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse_constant)
            with file.with_suffix(".csv").open(encoding="utf-8") as table:
                rows = list(csv.reader(table))
            assert len(rows) > 1
            assert all(len(row) == len(rows[0]) for row in rows)
            assert numbers["about"]["learner"] == "lsa-fast"


def test_numbers_that_are_not_finite_become_null():
    assert plain({"a": jnp.array([jnp.nan, 1.0]), "b": (float("inf"), True)}) == {"a": [None, 1.0], "b": [None, True]}


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium on the PATH; CI installs it")
@pytest.mark.parametrize("size", ["1200,2000", "390,844"], ids=["desk", "phone"])
def test_a_browser_opens_it_without_network_or_complaint(report, size, tmp_path):
    result = subprocess.run(
        [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--window-size={size}",
            f"--screenshot={tmp_path / 'page.png'}",
            report.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (tmp_path / "page.png").stat().st_size > 20_000
    assert "CONSOLE" not in result.stderr
    assert "ERR_" not in result.stderr


def test_models_that_are_zero_or_broken_have_reports(tmp_path):
    model = create("lsa", input_dim=3, key=jr.key(0))
    broken = eqx.tree_at(lambda m: m.attention.W_V, model, model.attention.W_V.at[0, 0, 0].set(jnp.nan))
    for name, odd in (("zero", jax.tree.map(jnp.zeros_like, model)), ("broken", broken)):
        save(tmp_path / name, odd)
        with pytest.warns(UserWarning, match=r"all zero|not finite"):
            page = write_report(Checkpoint(tmp_path / name), tmp_path / f"{name}-report", QUICK, num_tasks=20)
        assert "the card names no recipe" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", ["model.safetensors", "steps/1.safetensors"])
def test_a_damaged_checkpoint_has_no_report(file, tmp_path):
    shutil.copytree(checkpoint_folder("lsa-fast"), tmp_path / "bad")
    with (tmp_path / "bad" / file).open("ab") as damaged:
        damaged.write(b"x")
    with pytest.raises(CheckpointError, match="2249 bytes, but 2248 are the most"):
        write_report(Checkpoint(tmp_path / "bad"), tmp_path / "report", QUICK)
    assert not (tmp_path / "report").exists()


def test_every_section_has_a_name_of_its_own():
    assert len({section.name for section in in_order()}) == len(in_order())
    assert all(callable(section.measure) and section.question.endswith(".") for section in in_order())


def test_a_report_survives_its_sections_and_says_which_failed(tmp_path):
    sections = [
        asking("assertion", "A.", AssertionError()),
        asking("reason", "B.", NotApplicable("not \x1b[31m\nthis one")),
        asking("numbers", "C.", Numbers({1, 2})),
        asking("nothing", "N.", None),
        asking("last", "D is here.", Numbers()),
    ]
    with pytest.raises(
        SectionError,
        match=r"assertion \(AssertionError: \); numbers \(TypeError: .*set.*nothing \(ContractError: .*NoneType",
    ) as failure:
        write_report(Checkpoint("lsa"), tmp_path / "new", sections)
    assert isinstance(failure.value.__cause__, AssertionError)
    text = (tmp_path / "new" / "index.html").read_text(encoding="utf-8")
    assert "Failed: AssertionError" in text
    assert r"Does not apply: not \x1b[31m this one." in text
    assert "D is here." in text


NOTHING = [asking("x", "X.", Numbers())]


def test_a_report_overwrites_nothing_but_a_report(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("site", "notes", "file"):
        with pytest.raises(ExistsError, match=name):
            write_report(Checkpoint("lsa"), tmp_path / name, [asking("x", "X.", SystemExit("measured"))])
    assert (tmp_path / "site" / "index.html").read_text(encoding="utf-8") == "mine"

    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".index.html.x1y2z3a4.unfinished").touch()  # the first write of a report that was killed
    page = write_report(Checkpoint("lsa"), tmp_path / "empty", NOTHING)
    assert write_report(Checkpoint("lsa"), tmp_path / "empty", NOTHING) == page
    (tmp_path / "empty" / "numbers").mkdir(exist_ok=True)
    (tmp_path / "empty" / "numbers" / "mine.txt").write_text("mine")
    with pytest.raises(ExistsError, match=r"holds what was not written with it \(numbers/mine\.txt\)"):
        write_report(Checkpoint("lsa"), tmp_path / "empty", NOTHING)

    (tmp_path / "link").symlink_to("elsewhere")
    write_report(Checkpoint("lsa"), tmp_path / "link", NOTHING)
    assert (tmp_path / "elsewhere" / "index.html").exists()


def test_a_report_that_was_cut_short_is_written_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_report(Checkpoint("lsa"), tmp_path / "report", [*NOTHING, asking("y", "Y.", KeyboardInterrupt())])
    cut_short = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "(not measured yet)" in cut_short
    assert "Some numbers." in cut_short  # what was measured is there
    assert "not measured yet" not in write_report(Checkpoint("lsa"), tmp_path / "report", NOTHING).read_text(
        encoding="utf-8"
    )


def test_a_checkpoint_has_a_name_whatever_path_leads_to_it(tmp_path, monkeypatch):
    (tmp_path / "mine" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "mine" / "sub")
    names = {"lsa": "lsa", "..": "mine", ".": "sub", "../": "mine", "/": "checkpoint", "../x[y]\x1b": r"x[y]\x1b"}
    assert {path: Checkpoint(path).name for path in names} == names


def test_layers_without_factors_have_reasons():
    model = load("sparse-lsa-2-isotropic")
    with pytest.raises(ZooError, match="no pair of factors"):
        conserved_quantities({0: model})
    with pytest.raises(ZooError, match="cannot take other products"):
        interpolation(model, model, LinearRegression(input_dim=model.input_dim), num_tasks=2, key=jr.key(0))
