"""Writing weights into models, block by block."""

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from ..algorithms.gradient_descent import InitialWeights
from ..checks.annotations import checked
from ..checks.memory import check_result
from ..checks.values import Reals
from ..errors import ShapeError
from ..frozen import Frozen
from ..layers.attention import FactoredSelfAttention, LinearSelfAttention
from ..models.deep_lsa import DeepLSA
from ..models.lsa import LSA
from ..token_model import ConcatenatingModel

Layer = TypeVar("Layer", bound=FactoredSelfAttention)
PerHead = Float[Array, "num_heads rows columns"]
Construction = TypeVar("Construction", bound=Callable)
StepSizes = Annotated[Float[Array, " num_steps"] | Any, Reals("a list of numbers, one a step", axes=(1,))]


def construction(make: Construction) -> Construction:
    """Decorator of what writes the weights of a model: its arguments are checked, and that the model fits into this machine."""

    @wraps(make)
    def checking(*args, **kwargs):
        sizes = ", ".join(f"{name} {value}" for name, value in kwargs.items() if isinstance(value, int))
        check_result(f"{make.__name__} of {sizes or 'these sizes'}", lambda: make(*args, **kwargs))
        return make(*args, **kwargs)

    return checked(checking)  # pyright: ignore[reportReturnType]


def write_attention(layer: Layer, *, W_K: PerHead, W_Q: PerHead, W_V: PerHead, W_P: PerHead) -> Layer:
    """`layer` with these weights. **Raises** `ShapeError` where a shape is not that of the layer."""
    old = (layer.W_K, layer.W_Q, layer.W_V, layer.W_P)
    new = (W_K, W_Q, W_V, W_P)
    for name, before, after in zip(("W_K", "W_Q", "W_V", "W_P"), old, new, strict=True):
        if before.shape != after.shape:
            raise ShapeError(f"{name} of this layer is {before.shape}, got {after.shape}")
    return eqx.tree_at(lambda layer: (layer.W_K, layer.W_Q, layer.W_V, layer.W_P), layer, new)


def linear_attention(
    *,
    W_K: Float[Array, "head_dim embed_dim"],
    W_Q: Float[Array, "head_dim embed_dim"],
    W_V: Float[Array, "head_dim embed_dim"],
    W_P: Float[Array, "embed_dim head_dim"],
) -> LinearSelfAttention:
    """A linear self-attention layer of one head with the given weights."""
    head_dim, embed_dim = W_K.shape
    blank = LinearSelfAttention(embed_dim=embed_dim, head_dim=head_dim, init_scale=1.0, key=jr.key(0))
    return write_attention(blank, W_K=W_K[None], W_Q=W_Q[None], W_V=W_V[None], W_P=W_P[None])


def block(
    rows: int, columns: int, at: tuple[slice, slice], value: Float[Array, "m n"]
) -> Float[Array, "{rows} {columns}"]:
    """A matrix that is zero but for one block."""
    return jnp.zeros((rows, columns)).at[at].set(value)


def stack_layers(
    layers: tuple[LinearSelfAttention, ...], *, input_dim: int, output_dim: int, W_0: InitialWeights = None
) -> ConcatenatingModel:
    """An `LSA` (one layer) or a `DeepLSA` (several) of the given layers, with its query initialised by W₀."""
    dims: dict[str, Any] = {"input_dim": input_dim, "output_dim": output_dim, "head_dim": layers[0].head_dim}
    query_init = "zero" if W_0 is None else "known"
    if len(layers) == 1:
        model = LSA(**dims, query_init=query_init, key=jr.key(0))
        model = eqx.tree_at(lambda m: m.attention, model, layers[0])
    else:
        model = DeepLSA(**dims, num_layers=len(layers), query_init=query_init, key=jr.key(0))
        model = eqx.tree_at(lambda m: m.layers, model, layers)
    if W_0 is not None:
        model = eqx.tree_at(lambda m: m.W_0, model, Frozen(jnp.asarray(W_0)))
    return model
