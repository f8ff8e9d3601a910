"""One layer of self-attention, in every form the literature compares.

Tokens are rows eᵢ. With W_KQ = W_Kᵀ W_Q and W_PV = W_P W_V for each head, a layer's update of eⱼ is

    Σ_heads Σᵢ W_PV eᵢ · f(eᵢᵀ W_KQ eⱼ)

where i runs over the context tokens. The layers of this file differ in f, a pure function of the scores, and in whether
the two products are stored as factors or as themselves. A layer returns its update; the model adds it.
"""

from abc import abstractmethod
from typing import ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ..checks.annotations import InitScale, InverseTemperature, Size, checked
from ..checks.memory import check_draw
from ..errors import NotApplicable

Weights = Float[Array, "num_heads head_dim embed_dim"]
Projection = Float[Array, "num_heads embed_dim head_dim"]
Product = Float[Array, "num_heads embed_dim embed_dim"]
Tokens = Float[Array, "num_tokens embed_dim"]
Queries = Float[Array, "num_queries embed_dim"]
Context = Float[Array, "num_context embed_dim"]
Scores = Float[Array, "num_heads num_queries num_context"]
Named = tuple[str, Float[Array, "num_heads _ _"]]


class SelfAttention(eqx.Module):
    """Interface: the products W_KQ and W_PV of each head, and the pattern f(scores).

    What an instrument needs to know of a layer, the layer says.
    """

    is_linear: ClassVar[bool] = False  # f(s) = s, so that (c·W_KQ, W_PV/c) is the same head for every c ≠ 0
    is_homogeneous: ClassVar[bool] = False  # f(c·s) = c·f(s) for every c > 0
    products_are_parameters: ClassVar[bool] = False  # and not made of factors

    W_KQ: eqx.AbstractVar[Product]
    W_PV: eqx.AbstractVar[Product]

    @property
    def num_heads(self) -> int:
        return self.W_KQ.shape[0]

    @property
    def embed_dim(self) -> int:
        return self.W_KQ.shape[-1]

    def scores(self, queries: Queries, context: Context) -> Scores:
        """eᵢᵀ W_KQ eⱼ for context token i and query token j."""
        return jnp.einsum("nb,hbd,qd->hqn", context, self.W_KQ, queries, optimize="optimal")

    @abstractmethod
    def pattern(self, scores: Scores) -> Scores:
        """f(scores): the weight of each context token in the update of each query token."""

    def attend(self, queries: Queries, context: Context) -> tuple[Scores, Scores]:
        """The scores and the pattern made of them."""
        scores = self.scores(queries, context)
        return scores, self.pattern(scores)

    def with_products(self, W_KQ: Product, W_PV: Product) -> "SelfAttention":
        """The same layer with these products. **Raises** `NotApplicable` for one that cannot take any."""
        raise NotApplicable(
            f"{type(self).__name__} cannot take other products: it does not say how its parameters hold them"
        )

    def conserved_pairs(self, x: slice | None, y: slice | None) -> tuple[tuple[Named, Named], ...]:
        """Pairs of factors of each head, the difference of whose squared norms gradient flow conserves, each with its symbol.

        `x` and `y` are their entries in the tokens of a model of this layer alone. **Raises** `NotApplicable` where no pair is known.
        """
        raise NotApplicable(
            f"no law is known that gradient flow keeps in {type(self).__name__}: it names no pair of factors"
        )

    def __call__(self, queries: Queries, context: Context) -> Queries:
        """The update of each query token: Σ_heads Σᵢ W_PV eᵢ · f(eᵢᵀ W_KQ eⱼ)."""
        _, pattern = self.attend(queries, context)
        return jnp.einsum("hab,nb,hqn->qa", self.W_PV, context, pattern, optimize="optimal")


class FactoredSelfAttention(SelfAttention):
    """Interface: attention that stores W_K, W_Q, W_V and W_P, as it is trained in the literature."""

    W_K: eqx.AbstractVar[Weights]
    W_Q: eqx.AbstractVar[Weights]
    W_V: eqx.AbstractVar[Weights]
    W_P: eqx.AbstractVar[Projection]

    @property
    def num_heads(self) -> int:
        return self.W_K.shape[0]

    @property
    def embed_dim(self) -> int:
        return self.W_K.shape[2]

    @property
    def head_dim(self) -> int:
        return self.W_K.shape[1]

    @property
    def W_KQ(self) -> Product:  # pyright: ignore[reportIncompatibleVariableOverride]
        """W_Kᵀ W_Q of each head: key side on the left."""
        return jnp.einsum("hkb,hkd->hbd", self.W_K, self.W_Q)

    @property
    def W_PV(self) -> Product:  # pyright: ignore[reportIncompatibleVariableOverride]
        """W_P W_V of each head: output on the left, input on the right."""
        return jnp.einsum("hak,hkb->hab", self.W_P, self.W_V)

    def with_products(self, W_KQ: Product, W_PV: Product) -> "SelfAttention":
        """W_Q holds W_KQ and W_V holds W_PV, beside W_K = W_P = I: the parameters are then the products."""
        W_Q, W_V = W_KQ.astype(self.W_Q.dtype), W_PV.astype(self.W_V.dtype)
        identity = jnp.broadcast_to(jnp.eye(self.embed_dim, dtype=W_Q.dtype), W_Q.shape)
        return eqx.tree_at(lambda a: (a.W_K, a.W_Q, a.W_V, a.W_P), self, (identity, W_Q, W_V, identity))

    def conserved_pairs(self, x: slice | None, y: slice | None) -> tuple[tuple[Named, Named], ...]:
        pairs = ((("W_K", self.W_K), ("W_Q", self.W_Q)), (("W_P", self.W_P), ("W_V", self.W_V)))
        return (*pairs, (("W_P", self.W_P), ("W_K", self.W_K))) if self.is_homogeneous else pairs


def draw_factors(
    *, embed_dim: int, num_heads: int, head_dim: int | None, init_scale: float, key: PRNGKeyArray
) -> tuple[Weights, Weights, Weights, Projection]:
    """W_K, W_Q, W_V and W_P from truncated normals of variance `init_scale` / fan-in (Haiku's rule).

    `head_dim` is `embed_dim` unless given.
    """
    head_dim = embed_dim if head_dim is None else head_dim
    draw = jax.nn.initializers.variance_scaling
    project = draw(init_scale, "fan_in", "truncated_normal", in_axis=2, out_axis=1, batch_axis=0)
    gather = draw(init_scale, "fan_in", "truncated_normal", in_axis=(0, 2), out_axis=1)
    shape = (num_heads, head_dim, embed_dim)
    check_draw(f"attention of embed_dim {embed_dim}, num_heads {num_heads}, head_dim {head_dim}", *[shape] * 4, key=key)
    key_K, key_Q, key_V, key_P = jr.split(key, 4)
    W_P = gather(key_P, (num_heads, embed_dim, head_dim))
    return project(key_K, shape), project(key_Q, shape), project(key_V, shape), W_P


def linear_update(W_PV: Product, W_KQ: Product, queries: Queries, context: Context) -> Queries:
    """Σ_heads W_PV (Σᵢ eᵢ eᵢᵀ) W_KQ eⱼ, in time linear in the number of context tokens.

    The order of contraction is the cheapest for the shapes: many queries share the second moment Σᵢ eᵢ eᵢᵀ, of size
    embed_dim²; a single query needs only its own scores.
    """
    return jnp.einsum("hab,nb,nc,hcd,qd->qa", W_PV, context, context, W_KQ, queries, optimize="optimal")


class LinearSelfAttention(FactoredSelfAttention):
    """Linear self-attention: f(s) = s, no softmax and no scale.

        eⱼ ← eⱼ + Σ_heads W_P W_V (Σᵢ eᵢ eᵢᵀ) W_Kᵀ W_Q eⱼ

    von Oswald et al. 2023, section 2; fast weights in Schlag et al. 2021.
    """

    is_linear: ClassVar[bool] = True
    is_homogeneous: ClassVar[bool] = True

    W_K: Weights
    W_Q: Weights
    W_V: Weights
    W_P: Projection

    @checked
    def __init__(
        self,
        *,
        embed_dim: Size,
        num_heads: Size = 1,
        head_dim: Size | None = None,
        init_scale: InitScale,
        key: PRNGKeyArray,
    ):
        self.W_K, self.W_Q, self.W_V, self.W_P = draw_factors(
            embed_dim=embed_dim, num_heads=num_heads, head_dim=head_dim, init_scale=init_scale, key=key
        )

    def pattern(self, scores: Scores) -> Scores:
        return scores

    def __call__(self, queries: Queries, context: Context) -> Queries:
        return linear_update(self.W_PV, self.W_KQ, queries, context)


class SoftmaxSelfAttention(FactoredSelfAttention):
    """Softmax self-attention with inverse temperature c: f(s)ᵢ = exp(c sᵢ) / Σₖ exp(c sₖ), k over the context tokens.

        eⱼ ← eⱼ + Σ_heads Σᵢ W_P W_V eᵢ · softmax_i(c · eᵢᵀ W_Kᵀ W_Q eⱼ)

    c = 1/√head_dim unless given. As c → ∞ each query token takes the context token of its largest score alone.
    Vaswani et al. 2017.
    """

    W_K: Weights
    W_Q: Weights
    W_V: Weights
    W_P: Projection
    inverse_temperature: float = eqx.field(static=True)

    @checked
    def __init__(
        self,
        *,
        embed_dim: Size,
        num_heads: Size = 1,
        head_dim: Size | None = None,
        inverse_temperature: InverseTemperature | None = None,
        init_scale: InitScale,
        key: PRNGKeyArray,
    ):
        self.W_K, self.W_Q, self.W_V, self.W_P = draw_factors(
            embed_dim=embed_dim, num_heads=num_heads, head_dim=head_dim, init_scale=init_scale, key=key
        )
        self.inverse_temperature = self.head_dim**-0.5 if inverse_temperature is None else inverse_temperature

    def pattern(self, scores: Scores) -> Scores:
        # The largest score goes first: times a large c, neither overflow nor rounding may blur the differences.
        largest = scores.max(axis=-1, keepdims=True, initial=-jnp.inf)
        return jax.nn.softmax(self.inverse_temperature * (scores - jax.lax.stop_gradient(largest)), axis=-1)


@runtime_checkable
class SoftmaxLayer(Protocol):
    """Interface: a layer of attention on its tokens whose pattern is a softmax of `inverse_temperature` times the scores."""

    W_KQ: Product
    W_PV: Product
    inverse_temperature: float

    def attend(self, queries: Queries, context: Context) -> tuple[Scores, Scores]: ...


class ReLUSelfAttention(FactoredSelfAttention):
    """ReLU self-attention: f(s) = max(s, 0), divided by the number of context tokens where `mean_over_context`.

        eⱼ ← eⱼ + Σ_heads Σᵢ W_P W_V eᵢ · relu(eᵢᵀ W_Kᵀ W_Q eⱼ)

    Ahn et al. 2023 take the mean; the sum leaves the 1/N to W_P, as in `LinearSelfAttention`.
    """

    is_homogeneous: ClassVar[bool] = True

    W_K: Weights
    W_Q: Weights
    W_V: Weights
    W_P: Projection
    mean_over_context: bool = eqx.field(static=True)

    @checked
    def __init__(
        self,
        *,
        embed_dim: Size,
        num_heads: Size = 1,
        head_dim: Size | None = None,
        mean_over_context: bool = False,
        init_scale: InitScale,
        key: PRNGKeyArray,
    ):
        self.W_K, self.W_Q, self.W_V, self.W_P = draw_factors(
            embed_dim=embed_dim, num_heads=num_heads, head_dim=head_dim, init_scale=init_scale, key=key
        )
        self.mean_over_context = mean_over_context

    def pattern(self, scores: Scores) -> Scores:
        pattern = jax.nn.relu(scores)
        return pattern / scores.shape[-1] if self.mean_over_context else pattern


class MergedLinearSelfAttention(SelfAttention):
    """Linear self-attention whose parameters are the products W_KQ and W_PV themselves.

    The form the theory works with: Ahn et al. 2023; Zhang et al. 2024.
    """

    is_linear: ClassVar[bool] = True
    is_homogeneous: ClassVar[bool] = True
    products_are_parameters: ClassVar[bool] = True

    W_KQ: Product
    W_PV: Product

    @checked
    def __init__(self, *, embed_dim: Size, num_heads: Size = 1, init_scale: InitScale, key: PRNGKeyArray):
        """Draw both products from a truncated normal of variance `init_scale` / `embed_dim`."""
        draw = jax.nn.initializers.variance_scaling(
            init_scale, "fan_in", "truncated_normal", in_axis=2, out_axis=1, batch_axis=0
        )
        shape = (num_heads, embed_dim, embed_dim)
        check_draw(f"attention of embed_dim {embed_dim}, num_heads {num_heads}", shape, shape, key=key)
        key_KQ, key_PV = jr.split(key)
        self.W_KQ, self.W_PV = draw(key_KQ, shape), draw(key_PV, shape)

    def pattern(self, scores: Scores) -> Scores:
        return scores

    def __call__(self, queries: Queries, context: Context) -> Queries:
        return linear_update(self.W_PV, self.W_KQ, queries, context)

    def with_products(self, W_KQ: Product, W_PV: Product) -> "SelfAttention":
        new = W_KQ.astype(self.W_KQ.dtype), W_PV.astype(self.W_PV.dtype)
        return eqx.tree_at(lambda layer: (layer.W_KQ, layer.W_PV), self, new)

    def conserved_pairs(self, x: slice | None, y: slice | None) -> tuple[tuple[Named, Named], ...]:
        """With u = W_PV[y, y] and U = W_KQ[x, x]: u² − ‖U‖² where all other entries start at zero. Zhang et al. 2024, Theorem 4.1."""
        pairs = ((("W_PV", self.W_PV), ("W_KQ", self.W_KQ)),)
        if x is None or y is None:
            return pairs
        return (*pairs, (("u", self.W_PV[:, y, y]), ("U", self.W_KQ[:, x, x])))
