"""Linear maps with Haiku's initial weights, and the multi-layer perceptrons made of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ..checks.annotations import InitScale, Size, checked
from ..checks.memory import check_draw


@checked
def draw_linear(in_dim: Size, out_dim: Size, *, init_scale: InitScale, key: PRNGKeyArray) -> eqx.nn.Linear:
    """t ↦ W t + b with W from a truncated normal of variance `init_scale` / `in_dim` and b = 0 (Haiku's rule)."""
    check_draw(f"a linear map from {in_dim} to {out_dim} entries", (out_dim, in_dim), key=key)
    draw = jax.nn.initializers.variance_scaling(init_scale, "fan_in", "truncated_normal", in_axis=1, out_axis=0)
    linear = eqx.filter_eval_shape(eqx.nn.Linear, in_dim, out_dim, key=key)  # its own initial weights are not drawn
    return eqx.tree_at(
        lambda linear: (linear.weight, linear.bias), linear, (draw(key, (out_dim, in_dim)), jnp.zeros(out_dim))
    )


class MLP(eqx.Module):
    """One hidden layer of GELU units (the tanh approximation): h ↦ W₂ gelu(W₁ h + b₁) + b₂."""

    inner: eqx.nn.Linear
    outer: eqx.nn.Linear

    @checked
    def __init__(self, *, embed_dim: Size, hidden_dim: Size, init_scale: InitScale, key: PRNGKeyArray):
        key_inner, key_outer = jr.split(key)
        self.inner = draw_linear(embed_dim, hidden_dim, init_scale=init_scale, key=key_inner)
        self.outer = draw_linear(hidden_dim, embed_dim, init_scale=init_scale, key=key_outer)

    def __call__(self, h: Float[Array, " embed_dim"]) -> Float[Array, " embed_dim"]:
        return self.outer(jax.nn.gelu(self.inner(h)))


class MLPEmbedding(eqx.Module):
    """An affine embedding followed by a residual MLP: m(t) = h + MLP(h) with h = A t + a.

    von Oswald et al. 2023, Proposition 2 and appendix A.7.
    """

    affine: eqx.nn.Linear
    mlp: MLP

    @checked
    def __init__(self, *, in_dim: Size, embed_dim: Size, hidden_dim: Size, init_scale: InitScale, key: PRNGKeyArray):
        key_affine, key_mlp = jr.split(key)
        self.affine = draw_linear(in_dim, embed_dim, init_scale=init_scale, key=key_affine)
        self.mlp = MLP(embed_dim=embed_dim, hidden_dim=hidden_dim, init_scale=init_scale, key=key_mlp)

    @property
    def embed_dim(self) -> int:
        return self.mlp.inner.weight.shape[1]

    @property
    def hidden_dim(self) -> int:
        return self.mlp.inner.weight.shape[0]

    def __call__(self, t: Float[Array, " in_dim"]) -> Float[Array, " embed_dim"]:
        h = self.affine(t)
        return h + self.mlp(h)
