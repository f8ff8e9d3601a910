"""The settings of the theory: merged parameters, Gaussian inputs, preconditioned steps, ReLU attention."""

from dataclasses import replace

from ..schedule import Ends, Every, Logarithmic
from ..tasks.inputs import Gaussian, RandomCovariance
from ..tasks.regression import LinearRegression
from ..tasks.teachers import AnisotropicTeacher
from .optimisers import DECAYING_ADAM
from .recipe import Recipe

VARIANCES = (1.0, 1.0, 0.5, 0.25, 0.0625)

MERGED = Recipe(
    name="merged-lsa-anisotropic",
    description="One layer parametrised by its products, for Gaussian inputs whose coordinates differ in variance.",
    reference="Zhang et al. 2024, Theorem 4.1; Ahn et al. 2023, Theorem 1",
    model="merged_lsa",
    hyperparameters={"input_dim": 5, "init_scale": 0.005},
    task=LinearRegression(input_dim=5, num_examples=20, inputs=Gaussian(VARIANCES)),
    optimiser=DECAYING_ADAM,
    batch_size=2048,
    num_steps=4000,
    log=Every(500),
    keep=Logarithmic(5),
    baselines=("gd-1", "preconditioned-gd"),
)
# The prior of Ahn et al.: x ~ N(0, Λ) and w ~ N(0, Λ⁻¹), so that every direction of the whitened task is alike.
_WHITENED = LinearRegression(
    input_dim=5,
    num_examples=20,
    inputs=Gaussian(VARIANCES),
    teacher=AnisotropicTeacher(tuple(1 / v for v in VARIANCES)),
)
SPARSE = Recipe(
    name="sparse-lsa-3",
    description="Three layers of the sparse pattern of the theory, with updates of the inputs: preconditioned GD++.",
    reference="Ahn et al. 2023, Theorem 4 and Figure 3",
    model="sparse_lsa",
    hyperparameters={"input_dim": 5, "num_layers": 3},
    task=_WHITENED,
    optimiser=replace(DECAYING_ADAM, learning_rate=0.1, b2=0.98, clip_norm=1.0),
    batch_size=2048,
    num_steps=10_000,
    log=Every(1000),
    keep=Logarithmic(5),
    baselines=("preconditioned-gd",),
)

RECIPES = (
    MERGED,
    replace(
        MERGED,
        name="merged-lsa-random-covariance",
        description="One layer for prompts that each have a covariance of their own: it learns one fixed preconditioner.",
        reference="Zhang et al. 2024, section 5",
        hyperparameters={"input_dim": 3, "init_scale": 0.005},
        task=LinearRegression(input_dim=3, num_examples=100, inputs=RandomCovariance()),
        batch_size=1024,
        num_steps=3000,
        keep=Ends(),
        baselines=("gd-1",),
    ),
    SPARSE,
    replace(
        SPARSE,
        name="sparse-lsa-3-no-input-update",
        description="Three layers of the sparse pattern that leave the inputs as they are: preconditioned gradient descent.",
        reference="Ahn et al. 2023, Theorem 3 and Figure 2",
        hyperparameters={"input_dim": 5, "num_layers": 3, "input_updates": False},
    ),
    replace(
        SPARSE,
        name="sparse-lsa-2-isotropic",
        description="Two layers of the sparse pattern for isotropic inputs, where some optimum is diagonal.",
        reference="Ahn et al. 2023, Theorem 2",
        hyperparameters={"input_dim": 5, "num_layers": 2, "input_updates": False},
        task=LinearRegression(input_dim=5, num_examples=20, inputs=Gaussian()),
        num_steps=4000,
        log=Every(500),
        baselines=("gd-2",),
    ),
    Recipe(
        name="relu-attention",
        description="One layer of ReLU attention for isotropic Gaussian inputs.",
        reference="Ahn et al. 2023, section on ReLU attention",
        model="relu_attention",
        hyperparameters={"input_dim": 5, "mean_over_context": True, "init_scale": 0.05},
        task=LinearRegression(input_dim=5, num_examples=20, inputs=Gaussian()),
        optimiser=DECAYING_ADAM,
        batch_size=2048,
        num_steps=4000,
        log=Every(500),
        baselines=("gd-1",),
    ),
)
