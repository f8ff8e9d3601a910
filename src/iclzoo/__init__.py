"""iclzoo: a zoo of small sequence models that learn in context, the trainer that made them, and the instruments to look inside.

The names used every day are here. Everything else is imported from its module, as in `from iclzoo.inspect.weights.spectrum import spectra`.
Pictures are imported when they are first asked for, so that `import iclzoo` stays light.
"""

import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

_package = Path(__file__).resolve().parent
if not (_package / "zoo").is_dir() and (_package.parents[1] / "zoo").is_dir():
    __path__.append(str(_package.parents[1]))  # a checkout without symbolic links

# ruff: noqa: E402 — the path comes first
from .moved import announce

announce()

from .inspect.behaviour.alignment import alignment, sensitivity
from .inspect.identification.verdict import identify
from .inspect.instrument import INSTRUMENTS as instruments
from .inspect.instrument import Content, register_instrument
from .inspect.subject import Subject
from .inspect.theory.population_loss import population_loss
from .inspect.weights.weight_products import gauge_fixed, product_distance, products
from .train.losses import half_mse
from .train.optimiser import Adam
from .train.recipes.catalogue import list_recipes, recipe
from .train.recipes.recipe import Recipe
from .train.run import fit, fit_ensemble
from .train.tasks.inputs import Exponential, Gaussian, Inputs, Laplace, RandomCovariance, Uniform
from .train.tasks.regression import LinearRegression, PromptPool, SineRegression
from .train.tasks.task import Task, list_tasks, register_task
from .train.tasks.teachers import GaussianTeacher, PooledTeacher, Teacher
from .train.tuning.baselines import best_baseline
from .train.tuning.step_size import optimal_step_size
from .zoo.algorithm import Algorithm, list_algorithms, register_algorithm
from .zoo.algorithms.gradient_descent import GradientDescent, GradientDescentPlusPlus
from .zoo.algorithms.least_squares import LeastSquares, Ridge, ZeroPredictor
from .zoo.algorithms.one_step import fitted_step_size
from .zoo.algorithms.preconditioned import PreconditionedGradientDescent
from .zoo.algorithms.smoothing import KNearestNeighbours, NadarayaWatson, SoftmaxSmoother
from .zoo.checks.gate import gated
from .zoo.constructions.gd_plus_plus import gd_plus_plus_lsa
from .zoo.constructions.gradient_descent_step import gradient_descent_lsa
from .zoo.errors import CheckpointError, NotApplicable, ZooError
from .zoo.factory import create, list_models, register_model
from .zoo.factory import register_model as register  # its name before 0.2
from .zoo.frozen import Frozen
from .zoo.interleaving import InterleavingModel
from .zoo.layers.attention import (
    LinearSelfAttention,
    MergedLinearSelfAttention,
    ReLUSelfAttention,
    SelfAttention,
    SoftmaxSelfAttention,
)
from .zoo.prompt import Learner, Prompt
from .zoo.storage.card import Card
from .zoo.storage.checkpoint import list_checkpoints, load, read_card, save
from .zoo.token_model import ConcatenatingModel, TokenModel
from .zoo.trace import Trace, trace

if TYPE_CHECKING:
    from .inspect.weights.heatmap import heatmap, product_heatmap

_RENAMED = {"TaskPool": "PromptPool", "Zero": "ZeroPredictor"}  # for one version
_LAZY = {"heatmap": ".inspect.weights.heatmap", "product_heatmap": ".inspect.weights.heatmap"}

__all__ = [
    "Adam",
    "Algorithm",
    "Card",
    "CheckpointError",
    "ConcatenatingModel",
    "Content",
    "Exponential",
    "Frozen",
    "Gaussian",
    "GaussianTeacher",
    "GradientDescent",
    "GradientDescentPlusPlus",
    "Inputs",
    "InterleavingModel",
    "KNearestNeighbours",
    "Laplace",
    "Learner",
    "LeastSquares",
    "LinearRegression",
    "LinearSelfAttention",
    "MergedLinearSelfAttention",
    "NadarayaWatson",
    "NotApplicable",
    "PooledTeacher",
    "PreconditionedGradientDescent",
    "Prompt",
    "PromptPool",
    "RandomCovariance",
    "ReLUSelfAttention",
    "Recipe",
    "Ridge",
    "SelfAttention",
    "SineRegression",
    "SoftmaxSelfAttention",
    "SoftmaxSmoother",
    "Subject",
    "Task",
    "Teacher",
    "TokenModel",
    "Trace",
    "Uniform",
    "ZeroPredictor",
    "ZooError",
    "alignment",
    "best_baseline",
    "create",
    "fit",
    "fit_ensemble",
    "fitted_step_size",
    "gated",
    "gauge_fixed",
    "gd_plus_plus_lsa",
    "gradient_descent_lsa",
    "half_mse",
    "heatmap",
    "identify",
    "instruments",
    "list_algorithms",
    "list_checkpoints",
    "list_models",
    "list_recipes",
    "list_tasks",
    "load",
    "optimal_step_size",
    "population_loss",
    "product_distance",
    "product_heatmap",
    "products",
    "read_card",
    "recipe",
    "register",
    "register_algorithm",
    "register_instrument",
    "register_model",
    "register_task",
    "save",
    "sensitivity",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    if name in _RENAMED:
        warnings.warn(f"iclzoo.{name} is now iclzoo.{_RENAMED[name]}", DeprecationWarning, stacklevel=2)
        return globals()[_RENAMED[name]]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
