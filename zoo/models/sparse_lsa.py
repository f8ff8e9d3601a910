"""Linear self-attention whose products are zero but for a block each."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ..checks.annotations import InitScale, Repeats, Size
from ..factory import register_model
from ..layers.attention import Context, Product, Queries, Scores, SelfAttention, linear_update
from ..token_model import ConcatenatingModel, LayeredModel, QueryInit, QueryInitName, initial_query

Block = Float[Array, "input_dim input_dim"]


class SparseLinearSelfAttention(SelfAttention):
    """Linear self-attention that reads the inputs alone, W_KQ = [[A, 0], [0, 0]], and sums W_PV = [[B, 0], [0, I]] over the mean.

        xⱼ ← xⱼ + (1/N) B Σᵢ xᵢ xᵢᵀ A xⱼ,   yⱼ ← yⱼ + (1/N) Σᵢ yᵢ xᵢᵀ A xⱼ

    A = −η I and B = 0 take a step of gradient descent. `B` is `None` where the inputs stay as they are. Ahn et al. 2023.
    """

    A: Block
    B: Block | None
    output_dim: int = eqx.field(static=True)

    def __init__(
        self, *, input_dim: Size, output_dim: Size, input_updates: bool, init_scale: InitScale, key: PRNGKeyArray
    ):
        draw = jax.nn.initializers.variance_scaling(init_scale, "fan_in", "truncated_normal", in_axis=1, out_axis=0)
        key_A, key_B = jr.split(key)
        self.A = draw(key_A, (input_dim, input_dim))
        self.B = draw(key_B, (input_dim, input_dim)) if input_updates else None
        self.output_dim = output_dim

    @property
    def W_KQ(self) -> Product:  # pyright: ignore[reportIncompatibleVariableOverride]
        return jnp.pad(self.A, (0, self.output_dim))[None]

    @property
    def W_PV(self) -> Product:  # pyright: ignore[reportIncompatibleVariableOverride]
        B = jnp.zeros_like(self.A) if self.B is None else self.B
        return jax.scipy.linalg.block_diag(B, jnp.eye(self.output_dim, dtype=B.dtype))[None]

    def pattern(self, scores: Scores) -> Scores:
        return scores / scores.shape[-1]

    def __call__(self, queries: Queries, context: Context) -> Queries:
        return linear_update(self.W_PV, self.W_KQ, queries, context) / len(context)


@register_model("sparse_lsa")
class SparseLSA(LayeredModel, ConcatenatingModel):
    """`num_layers` linear self-attention layers of the sparse pattern; trained, they take preconditioned steps.

        xⱼ ← xⱼ + (1/N) B⁽ᵏ⁾ Σᵢ xᵢ xᵢᵀ A⁽ᵏ⁾ xⱼ,   yⱼ ← yⱼ + (1/N) Σᵢ yᵢ xᵢᵀ A⁽ᵏ⁾ xⱼ,   k = 1 … num_layers

    Without `input_updates`, B = 0 and each layer is a step of gradient descent preconditioned by −A; with them, of GD++. The last
    layer has no B: nothing reads the inputs after it.
    Ahn et al. 2023, Theorems 3 and 4.
    """

    layers: tuple[SparseLinearSelfAttention, ...]
    W_0: QueryInit
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    input_updates: bool = eqx.field(static=True)
    query_in_context: bool = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    def __init__(
        self,
        *,
        input_dim: Size = 10,
        output_dim: Size = 1,
        num_layers: Repeats = 3,
        input_updates: bool = True,
        query_init: QueryInitName = "zero",
        query_in_context: bool = False,
        init_scale: InitScale = 0.002,
        key: PRNGKeyArray,
    ):
        """A and B are drawn with variance `init_scale` / `input_dim`."""
        self.layers = tuple(
            SparseLinearSelfAttention(
                input_dim=input_dim,
                output_dim=output_dim,
                input_updates=input_updates and index < num_layers - 1,
                init_scale=init_scale,
                key=layer_key,
            )
            for index, layer_key in enumerate(jr.split(key, num_layers))
        )
        self.W_0 = initial_query(query_init, output_dim, input_dim)
        self.input_dim, self.output_dim, self.input_updates = input_dim, output_dim, input_updates
        self.query_in_context, self.init_scale = query_in_context, init_scale
