"""Stacks of LSTMs that read the examples one after the other and the query last."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from ..checks.annotations import InitScale, Repeats, Size
from ..checks.gate import gated
from ..factory import register_model
from ..prompt import Prompt
from ..token_model import Prediction, concatenate

Sequence = Float[Array, "num_tokens dim"]


def draw_cell(*, input_size: Size, hidden_size: Size, init_scale: InitScale, key: PRNGKeyArray) -> eqx.nn.LSTMCell:
    """Input weights from a normal of variance `init_scale` / fan-in, orthogonal recurrent ones, biases 0, of the forget gate 1.

    With small input weights a stack is all but linear, which predicts 0 on a task that asks for products of x and y, and stays there
    for thousands of steps. Forget gates: Jozefowicz et al. 2015.
    """
    key_input, key_recurrent = jr.split(key)
    draw = jax.nn.initializers.variance_scaling(init_scale, "fan_in", "normal", in_axis=1, out_axis=0)
    gates = [jax.nn.initializers.orthogonal()(k, (hidden_size, hidden_size)) for k in jr.split(key_recurrent, 4)]
    bias = jnp.zeros(4 * hidden_size).at[hidden_size : 2 * hidden_size].set(1.0)  # input, forget, cell, output
    cell = eqx.nn.LSTMCell(input_size, hidden_size, key=key)
    weights = draw(key_input, (4 * hidden_size, input_size)), jnp.concatenate(gates), bias
    return eqx.tree_at(lambda cell: (cell.weight_ih, cell.weight_hh, cell.bias), cell, weights)


def run(cell: eqx.nn.LSTMCell, tokens: Sequence) -> Float[Array, "num_tokens hidden_size"]:
    """The hidden state after each token, from a state of zeros."""

    def step(state, token):
        state = cell(token, state)
        return state, state[0]

    zero = jnp.zeros(cell.hidden_size, tokens.dtype)
    _, hidden = jax.lax.scan(step, (zero, zero), tokens)
    return hidden


def run_backward(cell: eqx.nn.LSTMCell, tokens: Sequence) -> Float[Array, "num_tokens hidden_size"]:
    """`run` from the last token to the first: entry i has seen the tokens from i on."""
    return run(cell, tokens[::-1])[::-1]


class RecurrentNetwork(eqx.Module):
    """Interface of networks that read the tokens one after the other, and the prediction off their hidden states by a linear map."""

    readout: eqx.AbstractVar[eqx.nn.Linear]
    input_dim: eqx.AbstractVar[int]
    output_dim: eqx.AbstractVar[int]

    @property
    def order_sensitive(self) -> bool:
        return True

    @abstractmethod
    def hidden(self, tokens: Sequence) -> Sequence:
        """The last layer's hidden states at each token."""

    @abstractmethod
    def final(self, hidden: Sequence) -> Float[Array, " dim"]:
        """What of them the prediction is read off."""

    @gated
    def __call__(self, prompt: Prompt) -> Prediction:
        """The prediction for the query of one prompt.

        **Raises** `ShapeError` if the prompt has other dimensions than the model reads.
        """
        tokens = concatenate(prompt, jnp.zeros(self.output_dim, prompt.ys.dtype))
        return self.readout(self.final(self.hidden(tokens)))


@register_model("lstm")
class LSTM(RecurrentNetwork):
    """`num_layers` LSTMs, each reading the whole hidden sequence of the one before.

        e₁ … e_N = (xᵢ, yᵢ),  e_{N+1} = (x_query, 0),  h⁽ᵏ⁾ = LSTM⁽ᵏ⁾(h⁽ᵏ⁻¹⁾) with h⁽⁰⁾ = e,  ŷ = A h_query + a

    The read-out is a linear map of the last layer's hidden state at the query, the last token. The order of the examples
    matters. Hochreiter and Schmidhuber 1997; compared with gradient descent in a study that reproduces von Oswald et al. 2023.
    """

    cells: tuple[eqx.nn.LSTMCell, ...]
    readout: eqx.nn.Linear
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    def __init__(
        self,
        *,
        input_dim: Size = 10,
        output_dim: Size = 1,
        num_layers: Repeats = 1,
        hidden_size: Size = 64,
        init_scale: InitScale = 9.0,
        key: PRNGKeyArray,
    ):
        """Cells are drawn by `draw_cell`, the read-out as Equinox draws it, uniform within ±1/√fan-in."""
        key_readout, *keys = jr.split(key, num_layers + 1)
        sizes = [input_dim + output_dim] + [hidden_size] * (num_layers - 1)
        self.cells = tuple(
            draw_cell(input_size=size, hidden_size=hidden_size, init_scale=init_scale, key=k)
            for size, k in zip(sizes, keys, strict=True)
        )
        self.readout = eqx.nn.Linear(hidden_size, output_dim, key=key_readout)
        self.input_dim, self.output_dim, self.init_scale = input_dim, output_dim, init_scale

    @property
    def num_layers(self) -> int:
        return len(self.cells)

    @property
    def hidden_size(self) -> int:
        return self.cells[0].hidden_size

    def hidden(self, tokens: Sequence) -> Float[Array, "num_tokens hidden_size"]:
        """The last layer's hidden state at each token; it depends on this token and those before it."""
        for cell in self.cells:
            tokens = run(cell, tokens)
        return tokens

    def final(self, hidden: Sequence) -> Float[Array, " hidden_size"]:
        return hidden[-1]


@register_model("bidirectional_lstm")
class BidirectionalLSTM(RecurrentNetwork):
    """`num_layers` pairs of LSTMs that read the tokens of `LSTM` in both directions; the next layer reads both.

        h⁽ᵏ⁾ = [f⁽ᵏ⁾, b⁽ᵏ⁾],  f⁽ᵏ⁾ = LSTM→⁽ᵏ⁾(h⁽ᵏ⁻¹⁾),  b⁽ᵏ⁾ = LSTM←⁽ᵏ⁾(h⁽ᵏ⁻¹⁾),  ŷ = A [f_query, b₁] + a

    The read-out is a linear map of the last layer's final states, that of the forward direction at the query and that of the
    backward direction at the first example: each has read every token. At the query, the backward direction has read
    nothing but the query. Schuster and Paliwal 1997.
    """

    forward_cells: tuple[eqx.nn.LSTMCell, ...]
    backward_cells: tuple[eqx.nn.LSTMCell, ...]
    readout: eqx.nn.Linear
    input_dim: int = eqx.field(static=True)
    output_dim: int = eqx.field(static=True)
    init_scale: float = eqx.field(static=True)

    def __init__(
        self,
        *,
        input_dim: Size = 10,
        output_dim: Size = 1,
        num_layers: Repeats = 1,
        hidden_size: Size = 64,
        init_scale: InitScale = 9.0,
        key: PRNGKeyArray,
    ):
        """Cells are drawn by `draw_cell`, the read-out as Equinox draws it, uniform within ±1/√fan-in."""
        key_readout, key_forward, key_backward = jr.split(key, 3)
        sizes = [input_dim + output_dim] + [2 * hidden_size] * (num_layers - 1)
        self.forward_cells, self.backward_cells = (
            tuple(
                draw_cell(input_size=size, hidden_size=hidden_size, init_scale=init_scale, key=k)
                for size, k in zip(sizes, jr.split(direction, num_layers), strict=True)
            )
            for direction in (key_forward, key_backward)
        )
        self.readout = eqx.nn.Linear(2 * hidden_size, output_dim, key=key_readout)
        self.input_dim, self.output_dim, self.init_scale = input_dim, output_dim, init_scale

    @property
    def num_layers(self) -> int:
        return len(self.forward_cells)

    @property
    def hidden_size(self) -> int:
        return self.forward_cells[0].hidden_size

    def hidden(self, tokens: Sequence) -> Float[Array, "num_tokens two_hidden_size"]:
        """The last layer's hidden states at each token, forward then backward; together they depend on every token."""
        for forward, backward in zip(self.forward_cells, self.backward_cells, strict=True):
            tokens = jnp.concatenate([run(forward, tokens), run_backward(backward, tokens)], axis=1)
        return tokens

    def final(self, hidden: Sequence) -> Float[Array, " two_hidden_size"]:
        return jnp.concatenate([hidden[-1, : self.hidden_size], hidden[0, self.hidden_size :]])
