"""The sections of a report: one for each instrument, in the order of a first look."""

from dataclasses import asdict
from typing import Any

from ..train.tasks import LinearRegression
from ..zoo.errors import ZooError
from .balance import balance_path
from .balance_plot import balance_figure
from .copying import copying_path, token_map
from .copying_plot import copying_figure
from .fitted_steps import fitted_steps
from .fitted_steps_plot import fitted_steps_figure
from .heatmap import heatmap
from .identification import identify
from .identification_plot import identification_figure
from .interpolation import interpolation, read_construction
from .interpolation_plot import interpolation_figure
from .landscapes import landscapes
from .landscapes_plot import landscapes_figure
from .patterns import mean_patterns
from .patterns_plot import patterns_figure
from .report import Content, Section
from .rollouts import read_outs, rollouts
from .rollouts_plot import read_outs_figure, rollouts_figure
from .shifts import shifts
from .shifts_plot import shifts_figure
from .softmax_heads import softmax_heads
from .softmax_heads_plot import softmax_heads_figure
from .subject import Subject
from .tables import blocks_table, figures_tables, identification_tables
from .theory import loss_path, preconditioned_risk
from .theory_plot import loss_path_figure, risk_figure
from .training_path import alignment_path, block_shares, weight_path
from .training_path_plot import spectrum_figure, training_figure, weight_path_figure
from .weights import gauge_fixed, spectra

MOST_HEADS = 8  # a report draws the weights of models with more heads only in the command `iclzoo heatmap`


def _card(subject: Subject) -> Content:
    if not subject.card.figures:
        raise ZooError("the card has no figures; measure them with iclzoo.inspect.figures.measure_checkpoint")
    return Content(numbers=subject.card.figures, tables=figures_tables(subject.card))


def _identification(subject: Subject) -> Content:
    found = identify(subject.model, subject.task, num_tasks=min(subject.num_tasks, 5_000), key=subject.key)
    return Content(
        figure=identification_figure(found),
        alternative=f"Agreement of each algorithm with {subject.name}. {found.reason}",
        numbers={"verdict": found.verdict, "reason": found.reason, "ranking": [_candidate(c) for c in found.ranking]},
        tables=identification_tables(found),
    )


def _candidate(candidate: Any) -> dict[str, Any]:
    """A candidate without the algorithm itself."""
    return {name: value for name, value in vars(candidate).items() if name != "algorithm"} | {
        "agreements": [asdict(agreement) for agreement in candidate.agreements]
    }


def _weights(subject: Subject) -> Content:
    layers = gauge_fixed(subject.model)
    heads = sum(layer.num_heads for layer in layers)
    if heads > MOST_HEADS:
        raise ZooError(f"{heads} heads are too many for a page; see them with iclzoo heatmap {subject.name} --head K")
    try:
        beside = read_construction(subject.model)
    except ZooError:
        beside = None
    return Content(
        figure=heatmap(subject.model, beside=beside, names=(subject.name, "the steps it spells")),
        alternative=f"Heatmaps of W_KQ and W_PV of {subject.name}, gauge fixed.",
        numbers=layers,
    )


def _structure(subject: Subject) -> Content:
    found = spectra(subject.model)
    numbers: dict[str, Any] = {"spectra": found}
    try:
        shares = block_shares(subject.model)
        numbers["block_shares"], tables = shares, (blocks_table(shares),)
    except ZooError as reason:
        numbers["block_shares"], tables = str(reason), ()
    return Content(
        figure=spectrum_figure(found), alternative="Singular values of the products.", numbers=numbers, tables=tables
    )


def _training(subject: Subject) -> Content:
    name, baseline = next(iter(subject.baselines.items()))
    weights = weight_path(subject.steps)
    aligned = alignment_path(
        subject.steps, name, baseline, subject.task, num_tasks=min(subject.num_tasks, 2_000), key=subject.key
    )
    return Content(
        figure=training_figure(weights, aligned),
        alternative=f"Loss, alignment with {name}, and the steps that the weights spell, over training.",
        numbers={"alignment": aligned, "readings": weights.readings},
    )


def _weight_path(subject: Subject) -> Content:
    path = weight_path(subject.steps)
    return Content(
        figure=weight_path_figure(path),
        alternative="W_KQ and W_PV of the first head at six stored steps.",
        numbers=path,
    )


def _theory(subject: Subject) -> Content:
    path = loss_path(subject.steps, subject.task)
    return Content(figure=loss_path_figure(path), alternative="Exact half-MSE over training.", numbers=path)


def _risk(subject: Subject) -> Content:
    task = subject.task
    if not isinstance(task, LinearRegression):
        raise ZooError("the risk of a preconditioned step is known for linear regression, and the task is another")
    risk = preconditioned_risk(task)
    return Content(
        figure=risk_figure(risk),
        alternative="Risk of the best preconditioned step against the length of the prompt: bias, variance and noise.",
        numbers=risk,
    )


def _balance(subject: Subject) -> Content:
    path = balance_path(subject.steps)
    return Content(figure=balance_figure(path), alternative="Differences that gradient flow conserves.", numbers=path)


def _fitted_steps(subject: Subject) -> Content:
    fit = fitted_steps(subject.model, subject.task, key=subject.key)
    return Content(
        figure=fitted_steps_figure(fit),
        alternative="How each layer maps the eigenvalues of the examples, and the condition numbers it leaves.",
        numbers=fit,
    )


def _interpolation(subject: Subject) -> Content:
    construction = read_construction(subject.model)
    path = interpolation(subject.model, construction, subject.task, num_tasks=subject.num_tasks, key=subject.key)
    names = (subject.name, "construction")
    return Content(
        figure=interpolation_figure(path, names=names),
        alternative=f"Half-MSE on the line from {names[0]} to the {names[1]}, with the gauge removed and without.",
        numbers=path,
    )


def _rollouts(subject: Subject) -> Content:
    found = rollouts(subject.model, subject.task, num_tasks=subject.num_tasks, key=subject.key)
    return Content(
        figure=rollouts_figure(found, name=subject.name),
        alternative="Half-MSE against repeated application, for several dampings; and the share of diverging tasks.",
        numbers=found,
    )


def _read_outs(subject: Subject) -> Content:
    found = read_outs(subject.model, subject.task, num_tasks=subject.num_tasks, key=subject.key)
    return Content(
        figure=read_outs_figure(found, name=subject.name),
        alternative="Half-MSE of the prediction read out after every layer.",
        numbers=found,
    )


def _shifts(subject: Subject) -> Content:
    learners = {subject.name: subject.model, **subject.baselines}
    found, missing = shifts(learners, subject.task, num_tasks=subject.num_tasks, key=subject.key)
    if not found:
        raise ZooError("; ".join(missing.values()))
    return Content(
        figure=shifts_figure(found),
        alternative="Half-MSE of the model and its baselines under shifts of the task.",
        numbers={"found": found, "missing": missing},
    )


def _landscapes(subject: Subject) -> Content:
    found = landscapes(subject.model, subject.task, key=subject.key)
    return Content(
        figure=landscapes_figure(found, name=subject.name),
        alternative="The quadratic loss of six tasks, with the learner's step and the gradient step as arrows.",
        numbers=found,
    )


def _patterns(subject: Subject) -> Content:
    found = mean_patterns(subject.model, subject.task, num_tasks=min(subject.num_tasks, 2_000), key=subject.key)
    heads = sum(len(layer.pattern) for layer in found.layers)
    if heads > MOST_HEADS:
        raise ZooError(f"{heads} heads are too many for a page; draw them with iclzoo.inspect.patterns_plot")
    return Content(
        figure=patterns_figure(found, quantity="pattern_size"),
        alternative="Where each token attends, root mean square over tasks.",
        numbers=found,
    )


def _softmax_heads(subject: Subject) -> Content:
    found = softmax_heads(subject.model, subject.task, num_tasks=subject.num_tasks, key=subject.key)
    return Content(
        figure=softmax_heads_figure(found),
        alternative="Differences of key-query products, the offset of each head, and the linear part left.",
        numbers=found,
    )


def _copying(subject: Subject) -> Content:
    path = copying_path(subject.steps, subject.task, key=subject.key)
    tokens = token_map(subject.model, subject.task, key=subject.key)
    return Content(
        figure=copying_figure(path, tokens),
        alternative="Derivative norms of the first layer over training, and token by token at the end.",
        numbers={"path": path, "tokens": tokens},
    )


SECTIONS = (
    Section(
        "figures",
        "Figures of the card",
        "The learner beside its baselines, each at its best, on the same tasks.",
        _card,
    ),
    Section(
        "identification",
        "Which algorithm is it?",
        "Each algorithm is tuned to the learner; agreement is the share of its predictions and sensitivities that it explains, inside "
        "and outside the training distribution.",
        _identification,
    ),
    Section(
        "weights",
        "Weights",
        "The products that decide what a layer does, gauge fixed; below, the step of GD++ that they spell, and nothing else.",
        _weights,
    ),
    Section(
        "structure",
        "Spectrum and blocks",
        "Singular values of the products, with their effective rank; and how the squared norm divides between blocks.",
        _structure,
    ),
    Section(
        "weight-path", "Weights over training", "The first head at six of the stored steps, on one scale.", _weight_path
    ),
    Section(
        "training",
        "Training",
        "Half-MSE, alignment with the first baseline, and the steps that the weights spell, at every stored step.",
        _training,
    ),
    Section(
        "theory", "Exact loss", "The population half-MSE from the weights, by moments and without sampling.", _theory
    ),
    Section(
        "risk",
        "Risk of the best one-layer step",
        "One step through Γ⁻¹, the best a layer can learn on this task, against the length of the test prompt: squared bias and variance.",
        _risk,
    ),
    Section(
        "balance",
        "Conserved quantities",
        "Differences of norms that gradient flow conserves; Adam need not.",
        _balance,
    ),
    Section(
        "fitted-steps",
        "Layers as steps of GD++",
        "η and γ fitted to what each layer does to the tokens, the map of eigenvalues λ(1 − γλ)² this implies, and the condition "
        "number of the examples before and after each layer.",
        _fitted_steps,
    ),
    Section(
        "interpolation",
        "Interpolation",
        "Half-MSE on the line to the construction, in product space with the gauge removed; beside it the naive line.",
        _interpolation,
    ),
    Section(
        "rollouts",
        "Repeated application",
        "The layer applied again and again with damping λ, beside as many damped steps of gradient descent.",
        _rollouts,
    ),
    Section("read-outs", "Read-out after every layer", "What the query's token predicts on its way.", _read_outs),
    Section(
        "shifts", "Shifts", "Half-MSE where one setting of the task changes; the training point is marked.", _shifts
    ),
    Section(
        "landscapes",
        "Task landscapes",
        "The quadratic loss of single tasks of two inputs, with the learner's implied step and the gradient step.",
        _landscapes,
    ),
    Section(
        "patterns",
        "Attention patterns",
        "Where each token attends: the root mean square over tasks, for a linear pattern changes its sign.",
        _patterns,
    ),
    Section(
        "softmax-heads",
        "Softmax heads",
        "The difference of the heads' key-query products, each head's offset at zero scores, and the linear part that is left.",
        _softmax_heads,
    ),
    Section(
        "copying",
        "Copying phase",
        "How the first layer's output at an input's token moves with that token, with its label's and with others.",
        _copying,
    ),
)
