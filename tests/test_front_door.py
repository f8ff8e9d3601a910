"""The front door: names, instruments by one interface, what a notebook shows."""

import ast
import io
import json
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import jax.random as jr
import matplotlib.figure
import numpy as np
import pytest

import iclzoo
from iclzoo.inspect.instrument import INSTRUMENTS, MEASURING_SEED, in_order
from iclzoo.inspect.pictures.style import figure_of
from iclzoo.zoo.determinism import key_of
from iclzoo.zoo.errors import ArgumentError, NotApplicable

ROOT = Path(__file__).parents[1]
FAST = "lsa-fast"


def stub_names() -> list[str]:
    stub = ast.parse((ROOT / "src/iclzoo/__init__.pyi").read_text(encoding="ascii"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(stub.body), "the stub holds imports alone"
    assert all(alias.asname == alias.name for node in imports for alias in node.names), (
        "each name is exported as itself"
    )
    return sorted(alias.name for node in imports for alias in node.names)


def test_the_front_door_shows_the_names_of_its_stub_and_nothing_else():
    assert sorted(dir(iclzoo)) == sorted(iclzoo.__all__) == stub_names()
    for name in iclzoo.__all__:
        thing = getattr(iclzoo, name)
        if isinstance(thing, type | FunctionType):
            assert (thing.__doc__ or "").strip(), f"{name} has no docstring"


def test_importing_is_light():
    code = (
        "import sys, iclzoo, iclzoo.__main__; print(*(m for m in ('jax', 'matplotlib', 'scipy') if m in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


def test_cards_are_shown_without_jax():
    code = "import sys; from iclzoo.__main__ import run; run(['show', 'lsa-fast']); sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_every_shipped_instrument_is_a_function_of_the_front_door():
    for one in in_order():
        if one.measure.__module__.startswith("iclzoo."):
            function = getattr(iclzoo, one.name.replace("-", "_"))
            assert function.__doc__ == one.measure.__doc__
            assert isinstance(function, FunctionType)  # so that help() shows its arguments
            assert one.cost


def test_instruments_have_the_order_of_arguments_of_the_conventions():
    """Learners, then the task, then keyword-only settings, `num_tasks`, and `key` last."""
    for one in in_order():
        names = list(one.parameters)
        assert names[0] in ("learner", "model", "learners", "training", "task", "checkpoint")
        positional = [name for name, p in one.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert positional == [name for name in names if name in (names[0], "other", "task")]
        for last, before in (("key", "num_tasks"),):
            if last in names:
                assert names[-1] == last
                assert before not in names or names[-2] == before


def test_a_missing_key_and_task_are_those_that_are_documented():
    by_default = iclzoo.read_outs(FAST, num_tasks=11)
    card_task = iclzoo.Checkpoint(FAST).task
    assert by_default == iclzoo.read_outs(iclzoo.load(FAST), card_task, num_tasks=11, key=key_of(MEASURING_SEED))
    assert by_default != iclzoo.read_outs(FAST, num_tasks=11, key=jr.key(0))
    assert str(MEASURING_SEED) in (ROOT / "docs/instruments.md").read_text(encoding="utf-8")


def test_another_task_than_that_of_the_card_is_said_in_the_result_and_on_the_picture():
    longer = iclzoo.LinearRegression(num_examples=20)
    measured = iclzoo.read_outs(FAST, longer, num_tasks=11)
    assert measured.about.note == "measured on tasks with num_examples 20, trained with num_examples 10"
    assert measured.about.note in measured.plot().get_title()
    assert measured.to_dict()["about"]["note"] == measured.about.note
    assert iclzoo.read_outs(FAST, iclzoo.Checkpoint(FAST).task, num_tasks=11).about.note == ""
    of_figure = iclzoo.alignment(FAST, "gd-1", longer, num_tasks=11)
    assert of_figure.about.note in figure_of(of_figure.plot()).get_suptitle()


def test_what_is_missing_is_asked_for_in_the_order_of_the_function():
    with pytest.raises(
        ArgumentError, match=r"read_outs\(\) needs task: pass it, or begin with the name of a checkpoint"
    ):
        iclzoo.read_outs(iclzoo.load(FAST))
    with pytest.raises(ArgumentError, match=r"alignment\(\) needs other"):
        iclzoo.alignment(iclzoo.load(FAST))
    with pytest.raises(ArgumentError, match=r"metrics\(\) needs a checkpoint, got 'LSA'"):
        iclzoo.metrics(iclzoo.load(FAST))
    with pytest.raises(ArgumentError, match="'patterns' looks at one learner"):
        INSTRUMENTS["patterns"].of(iclzoo.Checkpoint(FAST), other="gd-1")
    with pytest.raises(ArgumentError, match="'weights' draws no tasks"):
        INSTRUMENTS["weights"].of(iclzoo.Checkpoint(FAST), num_tasks=3)


def test_learners_in_a_list_are_all_measured_also_where_they_are_called_alike():
    task = iclzoo.LinearRegression(input_dim=2, num_examples=3)
    two = [iclzoo.GradientDescent(0.5), iclzoo.GradientDescent(2.0)]
    found = iclzoo.shifts(two, task, num_tasks=5).found["half_width"]
    assert list(found.half_mse) == ["GradientDescent", "GradientDescent (2)"]
    assert found.half_mse["GradientDescent"] != found.half_mse["GradientDescent (2)"]


def test_a_checkpoint_is_one_object():
    checkpoint = iclzoo.Checkpoint(FAST)
    assert checkpoint.card == iclzoo.read_card(FAST) == iclzoo.read_card(checkpoint)
    assert repr(iclzoo.load(checkpoint)) == repr(checkpoint.model)
    assert [*checkpoint.steps] == [*checkpoint.card.steps]
    first = checkpoint.card.steps[0]
    assert np.array_equal(iclzoo.Checkpoint(FAST, first).model.attention.W_Q, checkpoint.at(first).attention.W_Q)
    assert iclzoo.Checkpoint(FAST, first).name == f"{FAST} at step {first}"
    in_memory = iclzoo.Checkpoint.of(checkpoint.model, checkpoint.task, name="mine")
    assert iclzoo.read_outs(in_memory, num_tasks=5) == iclzoo.read_outs(FAST, num_tasks=5)
    with pytest.raises(NotApplicable, match="no baseline"):
        iclzoo.alignment(in_memory)
    with pytest.raises(iclzoo.CheckpointError, match="keeps the steps none"):
        in_memory.at(3)


def test_a_measurement_goes_home_as_a_table_records_and_json():
    measured = iclzoo.alignment(FAST, "gd-1", num_tasks=50)
    (row,) = measured.records()
    assert row["learner"] == FAST
    assert row["other"] == "gd-1"
    assert row["prediction_distance"] == measured.prediction_distance.value
    assert row["prediction_distance_standard_error"] == measured.prediction_distance.standard_error
    assert "±" in measured.table().rows[0][2]
    assert json.loads(json.dumps(measured.to_dict()))["num_tasks"] == 50
    assert repr(measured).startswith(f"<Alignment of {FAST} and gd-1: ")
    assert "prediction_distance" in str(measured).replace("\n", "") or "alignment" in str(measured)
    assert "<td>" in measured.table()._repr_html_()


def test_pictures_go_where_they_are_told():
    figure = matplotlib.figure.Figure(layout="constrained")
    left, right = figure.subfigures(1, 2)  # pyright: ignore[reportGeneralTypeIssues]
    ax = left.subplots()
    assert iclzoo.read_outs(FAST, num_tasks=5).plot(ax=ax) is ax
    assert iclzoo.alignment(FAST, "gd-1", num_tasks=5).plot(figure=right) is right
    assert iclzoo.heatmap(FAST, product="W_PV", ax=right.add_subplot()).get_xlabel() == "input"
    with pytest.raises(ArgumentError, match="ax holds one panel"):
        iclzoo.heatmap(FAST, ax=left.add_subplot())
    figure.savefig(io.BytesIO())


def test_weights_are_subtracted_with_gauge_and_heads_matched():
    """A model minus itself with another gauge and another order of its heads is nothing."""
    model = iclzoo.create("lsa", input_dim=3, num_heads=2, init_scale=1.0, key=jr.key(0))
    layer, order = iclzoo.products(model)[0], [1, 0]
    c = np.array([3.0, -0.5])[:, None, None]
    other = iclzoo.from_arrays(
        model,
        {name: a[order] for name, a in iclzoo.to_arrays(model).items()},
    )
    other = iclzoo.from_arrays(
        other,
        iclzoo.to_arrays(other)
        | {
            "attention.W_Q": (iclzoo.to_arrays(other)["attention.W_Q"] * c).astype(np.float32),
            "attention.W_V": (iclzoo.to_arrays(other)["attention.W_V"] / c).astype(np.float32),
        },
    )
    difference = iclzoo.weights(model, minus=other)
    assert max(abs(head.W_KQ).max() for head in difference.heads) < 1e-5 * abs(layer.W_KQ).max() * 10
    assert max(abs(head.W_PV).max() for head in difference.heads) < 1e-4


def test_many_heads_stand_in_a_grid_with_a_limit_that_is_said():
    model = iclzoo.create("deep_lsa", input_dim=2, num_layers=13, num_heads=4, key=jr.key(0))
    figure = iclzoo.heatmap(model, name="deep")
    width, height = figure.get_size_inches()
    assert height < 2 * width
    assert "the first 48 of 52 heads" in figure.get_suptitle()


def test_a_figure_shows_itself_and_what_is_printed_is_short():
    assert iclzoo.heatmap(FAST)._repr_png_().startswith(b"\x89PNG")
    assert iclzoo.read_outs(FAST, num_tasks=5)._repr_png_().startswith(b"\x89PNG")
    checkpoint = iclzoo.Checkpoint(FAST)
    for thing in (checkpoint, checkpoint.card, checkpoint.recipe, checkpoint.task, *iclzoo.products(FAST)):
        assert len(repr(thing)) < 300
    for thing in (checkpoint, checkpoint.card, checkpoint.recipe, checkpoint.task):
        assert "<td>" in thing._repr_html_()
    assert "num_examples=10" in repr(checkpoint.task)


@pytest.mark.slow
def test_a_notebook_shows_pictures_tables_and_a_bar(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    from nbclient import NotebookClient

    cells = [
        "import iclzoo",
        "iclzoo.heatmap('lsa-fast')",
        "iclzoo.alignment('lsa-fast', 'gd-1', num_tasks=20)",
        "iclzoo.Checkpoint('lsa-fast')",
        "from dataclasses import replace\nfit = iclzoo.fit(replace(iclzoo.recipe('lsa-fast'), num_steps=40))",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [[output.get("data", {}) for output in cell.outputs] for cell in notebook.cells]
    assert any("image/png" in data for data in shown[1])
    assert any("image/png" in data for data in shown[2])
    assert any("text/html" in data for data in shown[3])
    assert any("40/40" in data.get("text/plain", "") for data in shown[4])
    streams = [output.text for cell in notebook.cells for output in cell.outputs if output.output_type == "stream"]
    assert not [text for text in streams if "ipywidgets" in text or "Traceback" in text]


def test_the_catalogue_has_a_row_for_every_checkpoint():
    rows = iclzoo.catalogue()
    assert [row["name"] for row in rows] == iclzoo.list_checkpoints()
    (lsa,) = iclzoo.catalogue("lsa")
    assert lsa["parameters"] == 4 * 11 * 11
    assert (lsa["num_examples"], lsa["input_dim"], lsa["nearest"]) == (10, 10, "gd-1")
    assert lsa["half_mse"] == iclzoo.read_card("lsa").metrics["half_mse"]["value"]
    assert all(isinstance(value, str | int | float | None) for row in rows for value in row.values())
