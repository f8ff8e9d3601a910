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

from iclzoo.inspect.estimates.plain import plain
from iclzoo.inspect.instrument import MOST_HEADS, Content, Instrument, instruments
from iclzoo.inspect.report.page import SectionError, flattened, write_report
from iclzoo.inspect.subject import Subject
from iclzoo.inspect.weights.conserved_quantities import conserved_path
from iclzoo.inspect.weights.interpolation import interpolation
from iclzoo.train.tasks.regression import LinearRegression
from iclzoo.zoo.errors import CheckpointError, ExistsError, NotApplicable, ZooError
from iclzoo.zoo.factory import create
from iclzoo.zoo.storage.checkpoint import checkpoint_folder, load, save

# The sections that take seconds, not a minute; tests of their own hold the others to account.
QUICK = [
    s
    for s in instruments()
    if s.name in {"metrics", "weights", "structure", "theory", "weight-path", "landscapes", "copying"}
]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    told = []
    page = write_report(Subject("lsa-fast", num_tasks=200), folder, QUICK, progress=told.append)
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
    assert page.sections == [section.name for section in QUICK] + ["card"]
    assert len(page.images) == 4
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
            assert rows[0] == ["quantity", "value"]
            assert len(rows) - 1 == len(list(flattened(numbers)))


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
            page = write_report(Subject(tmp_path / name, num_tasks=20), tmp_path / f"{name}-report", QUICK)
        assert "the card names no recipe" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", ["model.safetensors", "steps/1.safetensors"])
def test_a_damaged_checkpoint_has_no_report(file, tmp_path):
    shutil.copytree(checkpoint_folder("lsa-fast"), tmp_path / "bad")
    with (tmp_path / "bad" / file).open("ab") as damaged:
        damaged.write(b"x")
    with pytest.raises(CheckpointError, match="2249 bytes, but 2248 are the most"):
        write_report(Subject(tmp_path / "bad"), tmp_path / "report", QUICK)
    assert not (tmp_path / "report").exists()


def test_every_section_has_a_name_of_its_own():
    assert len({section.name for section in instruments()}) == len(instruments())
    assert all(callable(section.measure) and section.question.endswith(".") for section in instruments())


def raising(error):
    def look(subject):
        raise error

    return look


def test_a_report_survives_its_sections_and_says_which_failed(tmp_path):
    sections = [
        Instrument("assertion", "A", "A.", raising(AssertionError())),
        Instrument("reason", "B", "B.", raising(NotApplicable("not \x1b[31m\nthis one"))),
        Instrument("numbers", "C", "C.", lambda subject: Content(numbers={"x": {1, 2}})),
        Instrument("last", "D", "D is here.", lambda subject: Content()),
    ]
    with pytest.raises(SectionError, match=r"assertion \(AssertionError: \); numbers \(TypeError: .*set") as failure:
        write_report(Subject("lsa"), tmp_path / "new", sections)
    assert isinstance(failure.value.__cause__, AssertionError)
    text = (tmp_path / "new" / "index.html").read_text(encoding="utf-8")
    assert "Failed: AssertionError" in text
    assert r"Does not apply: not \x1b[31m this one." in text
    assert "D is here." in text


NOTHING = [Instrument("x", "X", "X.", lambda subject: Content())]


def test_a_report_overwrites_nothing_but_a_report(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("site", "notes", "file"):
        with pytest.raises(ExistsError, match=name):
            write_report(Subject("lsa"), tmp_path / name, [Instrument("x", "X", "X.", raising(SystemExit("measured")))])
    assert (tmp_path / "site" / "index.html").read_text(encoding="utf-8") == "mine"

    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".index.html.x1y2z3a4.unfinished").touch()  # the first write of a report that was killed
    page = write_report(Subject("lsa"), tmp_path / "empty", NOTHING)
    assert write_report(Subject("lsa"), tmp_path / "empty", NOTHING) == page
    (tmp_path / "empty" / "numbers").mkdir(exist_ok=True)
    (tmp_path / "empty" / "numbers" / "mine.txt").write_text("mine")
    with pytest.raises(ExistsError, match=r"holds what was not written with it \(numbers/mine\.txt\)"):
        write_report(Subject("lsa"), tmp_path / "empty", NOTHING)

    (tmp_path / "link").symlink_to("elsewhere")
    write_report(Subject("lsa"), tmp_path / "link", NOTHING)
    assert (tmp_path / "elsewhere" / "index.html").exists()


def test_a_report_that_was_cut_short_is_written_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_report(
            Subject("lsa"), tmp_path / "report", [*NOTHING, Instrument("y", "Y", "Y.", raising(KeyboardInterrupt()))]
        )
    assert "not finished" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "not finished" not in write_report(Subject("lsa"), tmp_path / "report", NOTHING).read_text(encoding="utf-8")


def test_a_subject_has_a_name_whatever_path_leads_to_it(tmp_path, monkeypatch):
    (tmp_path / "mine" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "mine" / "sub")
    names = {"lsa": "lsa", "..": "mine", ".": "sub", "../": "mine", "/": "checkpoint", "../x[y]\x1b": r"x[y]\x1b"}
    assert {path: Subject(path).name for path in names} == names


def test_layers_without_factors_have_reasons():
    model = load("sparse-lsa-2-isotropic")
    with pytest.raises(ZooError, match="no pair of factors"):
        conserved_path({0: model})
    with pytest.raises(ZooError, match="cannot take other products"):
        interpolation(model, model, LinearRegression(input_dim=model.input_dim), num_tasks=2, key=jr.key(0))


def test_reports_of_many_heads_leave_the_weights_to_the_command(tmp_path):
    save(tmp_path / "many", create("lsa", input_dim=3, num_heads=MOST_HEADS + 1, key=jr.key(0)))
    weights = [section for section in instruments() if section.name == "weights"]
    page = write_report(Subject(tmp_path / "many"), tmp_path / "report", weights)
    assert "9 heads are too many for a page" in page.read_text(encoding="utf-8")
