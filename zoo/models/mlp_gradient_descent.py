"""The control for an MLP before linear attention: features meta-learned through one explicit step of gradient descent."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..algorithms.gradient_descent import descended
from ..checks.annotations import InitScale, Size
from ..checks.gate import gated
from ..factory import register_model
from ..layers.mlp import MLPEmbedding
from ..prompt import Prompt
from ..token_model import Prediction


@register_model("mlp_gradient_descent")
class MLPGradientDescent(eqx.Module):
    """The embedding m of `MLPLSA`, on x alone, and one step of gradient descent on a linear read-out of its features.

        W₁ = W₀ − (η/N) Σᵢ (W₀ m(xᵢ) − yᵢ) m(xᵢ)ᵀ,   ŷ = W₁ m(x_query)

    m, η and W₀ are learned through the step; η starts at 1 and W₀ at 0. It is not the control of the official code, which
    is `MLPLSA` with constructed, fixed attention: there the features see y too, and one of them is the label.
    von Oswald et al. 2023, Figure 4 and appendix A.7.
    """

    features: MLPEmbedding
    step_size: Float[Array, ""]
    W_0: Float[Array, "output_dim embed_dim"]
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    def __init__(
        self,
        *,
        input_dim: Size = 1,
        output_dim: Size = 1,
        embed_dim: Size = 40,
        hidden_dim: Size = 160,
        init_scale: InitScale = 0.002,
        key: PRNGKeyArray,
    ):
        self.features = MLPEmbedding(
            in_dim=input_dim, embed_dim=embed_dim, hidden_dim=hidden_dim, init_scale=init_scale, key=key
        )
        self.step_size, self.W_0 = jnp.ones(()), jnp.zeros((output_dim, embed_dim))
        self.input_dim, self.output_dim, self.init_scale = input_dim, output_dim, init_scale

    @property
    def embed_dim(self) -> int:
        return self.features.embed_dim

    @property
    def hidden_dim(self) -> int:
        return self.features.hidden_dim

    @gated
    def __call__(self, prompt: Prompt) -> Prediction:
        """The prediction for the query of one prompt.

        **Raises** `ShapeError` if the prompt has other dimensions than the model reads.
        """
        query = self.features(prompt.query)
        mapped = Prompt(xs=jax.vmap(self.features)(prompt.xs), ys=prompt.ys, query=query)
        return descended(self.W_0, self.step_size[None], mapped) @ query
