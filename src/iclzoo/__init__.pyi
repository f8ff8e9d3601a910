# The names for everyday use, and where each is: the front door loads them from here when they are first asked for (lazy_loader).
from .inspect.activations.ablations import ablations as ablations
from .inspect.activations.attention_patterns import (
    patterns as patterns,
)
from .inspect.activations.attention_patterns import (
    prompt_patterns as prompt_patterns,
)
from .inspect.activations.layers_as_steps import fitted_steps as fitted_steps
from .inspect.activations.softmax_heads import softmax_heads as softmax_heads
from .inspect.activations.token_jacobians import copying as copying
from .inspect.behaviour.alignment import (
    alignment as alignment,
)
from .inspect.behaviour.alignment import (
    sensitivity as sensitivity,
)
from .inspect.behaviour.landscapes import landscapes as landscapes
from .inspect.behaviour.rollouts import (
    read_outs as read_outs,
)
from .inspect.behaviour.rollouts import (
    rollouts as rollouts,
)
from .inspect.behaviour.shifts import (
    shift as shift,
)
from .inspect.behaviour.shifts import (
    shifts as shifts,
)
from .inspect.behaviour.spectral_filter import spectral_filter as spectral_filter
from .inspect.behaviour.training_path import training_path as training_path
from .inspect.checkpoint import Checkpoint as Checkpoint
from .inspect.estimates.estimate import Estimate as Estimate
from .inspect.identification.verdict import identify as identify
from .inspect.instrument import (
    FIRST_BASELINE as FIRST_BASELINE,
)
from .inspect.instrument import (
    FIXED_KEY as FIXED_KEY,
)
from .inspect.instrument import (
    OWN_TASK as OWN_TASK,
)
from .inspect.instrument import (
    instruments as instruments,
)
from .inspect.instrument import (
    register_instrument as register_instrument,
)
from .inspect.measurement import (
    Measurement as Measurement,
)
from .inspect.measurement import (
    OnAxes as OnAxes,
)
from .inspect.measurement import (
    OnFigure as OnFigure,
)
from .inspect.report.catalogue import catalogue as catalogue
from .inspect.report.metrics import (
    measure_checkpoint as measure_checkpoint,
)
from .inspect.report.metrics import (
    metrics as metrics,
)
from .inspect.theory.exact_losses import exact_loss as exact_loss
from .inspect.theory.population_loss import population_loss as population_loss
from .inspect.theory.risk import risk as risk
from .inspect.weights.conserved_quantities import conserved_quantities as conserved_quantities
from .inspect.weights.heatmap import (
    heatmap as heatmap,
)
from .inspect.weights.heatmap import (
    weights as weights,
)
from .inspect.weights.heatmap_plot import product_heatmap as product_heatmap
from .inspect.weights.interpolation import (
    implied_construction as implied_construction,
)
from .inspect.weights.interpolation import (
    interpolation as interpolation,
)
from .inspect.weights.spectrum import structure as structure
from .inspect.weights.weight_path import weight_path as weight_path
from .inspect.weights.weight_products import (
    gauge_fixed as gauge_fixed,
)
from .inspect.weights.weight_products import (
    product_distance as product_distance,
)
from .inspect.weights.weight_products import (
    products as products,
)
from .train.losses import half_mse as half_mse
from .train.optimiser import Adam as Adam
from .train.recipes.catalogue import (
    list_recipes as list_recipes,
)
from .train.recipes.catalogue import (
    recipe as recipe,
)
from .train.recipes.recipe import Recipe as Recipe
from .train.run import (
    fit as fit,
)
from .train.run import (
    fit_ensemble as fit_ensemble,
)
from .train.tasks.inputs import (
    Exponential as Exponential,
)
from .train.tasks.inputs import (
    Gaussian as Gaussian,
)
from .train.tasks.inputs import (
    Inputs as Inputs,
)
from .train.tasks.inputs import (
    Laplace as Laplace,
)
from .train.tasks.inputs import (
    RandomCovariance as RandomCovariance,
)
from .train.tasks.inputs import (
    Uniform as Uniform,
)
from .train.tasks.regression import (
    LinearRegression as LinearRegression,
)
from .train.tasks.regression import (
    PromptPool as PromptPool,
)
from .train.tasks.regression import (
    SineRegression as SineRegression,
)
from .train.tasks.task import (
    Task as Task,
)
from .train.tasks.task import (
    list_tasks as list_tasks,
)
from .train.tasks.task import (
    register_task as register_task,
)
from .train.tasks.teachers import (
    GaussianTeacher as GaussianTeacher,
)
from .train.tasks.teachers import (
    PooledTeacher as PooledTeacher,
)
from .train.tasks.teachers import (
    Teacher as Teacher,
)
from .train.tuning.baselines import best_baseline as best_baseline
from .train.tuning.step_size import optimal_step_size as optimal_step_size
from .zoo.algorithm import (
    Algorithm as Algorithm,
)
from .zoo.algorithm import (
    list_algorithms as list_algorithms,
)
from .zoo.algorithm import (
    register_algorithm as register_algorithm,
)
from .zoo.algorithms.gradient_descent import (
    GradientDescent as GradientDescent,
)
from .zoo.algorithms.gradient_descent import (
    GradientDescentPlusPlus as GradientDescentPlusPlus,
)
from .zoo.algorithms.least_squares import (
    LeastSquares as LeastSquares,
)
from .zoo.algorithms.least_squares import (
    Ridge as Ridge,
)
from .zoo.algorithms.least_squares import (
    ZeroPredictor as ZeroPredictor,
)
from .zoo.algorithms.newton_schulz import NewtonSchulz as NewtonSchulz
from .zoo.algorithms.one_step import fitted_step_size as fitted_step_size
from .zoo.algorithms.preconditioned import PreconditionedGradientDescent as PreconditionedGradientDescent
from .zoo.algorithms.smoothing import (
    KNearestNeighbours as KNearestNeighbours,
)
from .zoo.algorithms.smoothing import (
    NadarayaWatson as NadarayaWatson,
)
from .zoo.algorithms.smoothing import (
    SoftmaxSmoother as SoftmaxSmoother,
)
from .zoo.checks.gate import gated as gated
from .zoo.constructions.gd_plus_plus import gd_plus_plus_lsa as gd_plus_plus_lsa
from .zoo.constructions.gradient_descent_step import gradient_descent_lsa as gradient_descent_lsa
from .zoo.errors import (
    CheckpointError as CheckpointError,
)
from .zoo.errors import (
    NotApplicable as NotApplicable,
)
from .zoo.errors import (
    ZooError as ZooError,
)
from .zoo.factory import (
    create as create,
)
from .zoo.factory import (
    list_models as list_models,
)
from .zoo.factory import (
    register_model as register_model,
)
from .zoo.frozen import Frozen as Frozen
from .zoo.interleaving import InterleavingModel as InterleavingModel
from .zoo.interventions import (
    Block as Block,
)
from .zoo.interventions import (
    HeadOutput as HeadOutput,
)
from .zoo.interventions import (
    Pattern as Pattern,
)
from .zoo.interventions import (
    Residual as Residual,
)
from .zoo.interventions import (
    contributions as contributions,
)
from .zoo.interventions import (
    run_with as run_with,
)
from .zoo.interventions import (
    value_at as value_at,
)
from .zoo.layers.attention import (
    LinearSelfAttention as LinearSelfAttention,
)
from .zoo.layers.attention import (
    MergedLinearSelfAttention as MergedLinearSelfAttention,
)
from .zoo.layers.attention import (
    ReLUSelfAttention as ReLUSelfAttention,
)
from .zoo.layers.attention import (
    SelfAttention as SelfAttention,
)
from .zoo.layers.attention import (
    SoftmaxSelfAttention as SoftmaxSelfAttention,
)
from .zoo.prompt import (
    Learner as Learner,
)
from .zoo.prompt import (
    Prompt as Prompt,
)
from .zoo.storage.arrays import (
    from_arrays as from_arrays,
)
from .zoo.storage.arrays import (
    from_torch_state as from_torch_state,
)
from .zoo.storage.arrays import (
    to_arrays as to_arrays,
)
from .zoo.storage.arrays import (
    to_torch_state as to_torch_state,
)
from .zoo.storage.card import Card as Card
from .zoo.storage.checkpoint import (
    list_checkpoints as list_checkpoints,
)
from .zoo.storage.checkpoint import (
    load as load,
)
from .zoo.storage.checkpoint import (
    read_card as read_card,
)
from .zoo.storage.checkpoint import (
    save as save,
)
from .zoo.storage.official import from_official as from_official
from .zoo.token_model import (
    ConcatenatingModel as ConcatenatingModel,
)
from .zoo.token_model import (
    TokenModel as TokenModel,
)
from .zoo.trace import (
    Trace as Trace,
)
from .zoo.trace import (
    trace as trace,
)
