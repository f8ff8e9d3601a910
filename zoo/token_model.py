"""Learners made of residual layers over tokens."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .checks.gate import gated
from .checks.values import one_of
from .errors import ConfigError
from .frozen import Frozen
from .prompt import Prompt

Token = Float[Array, " embed_dim"]
Tokens = Float[Array, "num_tokens embed_dim"]
Context = Float[Array, "num_context embed_dim"]
AttentionMap = Float[Array, "num_heads num_queries num_context"]
Prediction = Float[Array, " output_dim"]
QueryInitName = Literal["zero", "known", "learned"]
QueryInit = Float[Array, "output_dim input_dim"] | Frozen | None


@runtime_checkable
class TokenLayer(Protocol):
    """A layer: the update of each query token, given the context tokens it may attend to."""

    def __call__(self, queries: Tokens, context: Context) -> Tokens: ...

    def attend(self, queries: Tokens, context: Context) -> tuple[AttentionMap, AttentionMap]:
        """The attention scores of the layer and the pattern made of them."""
        ...


class TokenModel(eqx.Module):
    """Interface of a learner made of residual layers over tokens. The query token is last.

        tokens ← embed(prompt);  tokens ← advance(tokens, layer(tokens, context)) for each layer;  readout(query token)

    A model says how a prompt becomes tokens (`embed`), which layers are applied (`stack`) and how the query's token
    becomes a prediction (`readout`). The last layer updates the query token alone, for no other token is read out.
    """

    input_dim: eqx.AbstractVar[int]
    output_dim: eqx.AbstractVar[int]
    query_in_context: eqx.AbstractVar[bool]

    @property
    @abstractmethod
    def stack(self) -> Sequence[TokenLayer]:
        """The layers in the order they are applied; a recurrent model names one layer several times."""

    @abstractmethod
    def embed(self, prompt: Prompt) -> Tokens:
        """The tokens of a prompt, the query token last."""

    def readout(self, token: Token) -> Prediction:
        """The prediction held by the query token: minus its last `output_dim` entries."""
        return -token[-self.output_dim :]

    @property
    def subspaces(self) -> Mapping[str, slice]:
        """Where in a token "x", "y" and its "position" stand; empty where coordinates have no such meaning."""
        return {}

    @property
    def example_tokens(self) -> tuple[str, ...]:
        """What each token of an example holds: "xy", or "x" and "y" where they have tokens of their own."""
        return ("xy",)

    @property
    def joint(self) -> tuple[slice, slice] | None:
        """Where x and y stand if every token is an (x, y), as in the constructions; `None` if tokens are of another kind."""
        return (self.subspaces["x"], self.subspaces["y"]) if self.subspaces and self.example_tokens == ("xy",) else None

    @property
    def token_labels(self) -> tuple[str, ...]:
        """A name for each coordinate of a token, for the ticks of a heatmap; empty where coordinates have no meaning."""
        return ()

    def advance(self, tokens: Tokens, update: Tokens) -> Tokens:
        """The tokens after a layer's update: eⱼ ← eⱼ + update."""
        return tokens + update

    @property
    def update_scale(self) -> float | None:
        """The λ of `advance` where it is eⱼ ← eⱼ + λ·update for every update; `None` where it does anything else, or does not say."""
        return 1.0 if type(self).advance is TokenModel.advance else None

    def context(self, tokens: Tokens) -> Context:
        """The tokens that keys and values are made of: all but the query, unless `query_in_context`."""
        return tokens if self.query_in_context else tokens[:-1]

    @gated
    def __call__(self, prompt: Prompt) -> Prediction:
        """The prediction for the query of one prompt; batches come from `jax.vmap`.

        **Raises** `ShapeError` if the prompt has other dimensions than the model reads.
        """
        tokens = self.embed(prompt)
        *body, last = self.stack
        for layer in body:
            tokens = self.advance(tokens, layer(tokens, self.context(tokens)))
        query = tokens[-1:]
        return self.readout(self.advance(query, last(query, self.context(tokens)))[0])


class ConcatenatingModel(TokenModel):
    """Interface of token models that put x and y into one token, as the paper's construction does.

        eᵢ = (xᵢ, yᵢ) for the examples,  e_query = (x_query, −W₀ x_query),  prediction = −(y entries of e_query)

    `W_0` is `None` for W₀ = 0 (`query_init="zero"`), `Frozen` where it is known (`"known"`), or a parameter (`"learned"`).
    von Oswald et al. 2023, Proposition 1.
    """

    W_0: eqx.AbstractVar[QueryInit]

    @property
    def initial_weights(self) -> Float[Array, "output_dim input_dim"] | None:
        """W₀, whether known or learned; `None` for 0."""
        return self.W_0.value if isinstance(self.W_0, Frozen) else self.W_0

    @property
    def query_init(self) -> str:
        """Where W₀ comes from: "zero", "known" or "learned"."""
        return "zero" if self.W_0 is None else "known" if isinstance(self.W_0, Frozen) else "learned"

    @property
    def subspaces(self) -> Mapping[str, slice]:
        if type(self).embed is not ConcatenatingModel.embed:
            return {}
        return {"x": slice(self.input_dim), "y": slice(self.input_dim, self.input_dim + self.output_dim)}

    @property
    def token_labels(self) -> tuple[str, ...]:
        return concatenated_labels(self.input_dim, self.output_dim)

    def embed(self, prompt: Prompt) -> Tokens:
        W_0 = self.initial_weights
        y_query = jnp.zeros(self.output_dim, prompt.ys.dtype) if W_0 is None else -W_0 @ prompt.query
        return concatenate(prompt, y_query)


class EmbeddingModel(TokenModel):
    """Interface of token models that send each concatenated token through an `embedding`: eᵢ = m(xᵢ, yᵢ), e_query = m(x_query, 0).

    **Raises** `ConfigError` for an embedding too small to hold a prediction.
    """

    embedding: eqx.AbstractVar[Any]
    embed_dim: eqx.AbstractVar[Any]

    def __check_init__(self):
        if self.embed_dim < self.output_dim:
            raise ConfigError(f"embed_dim must be at least output_dim, got {self.embed_dim} and {self.output_dim}")

    def embed(self, prompt: Prompt) -> Tokens:
        return jax.vmap(self.embedding)(concatenate(prompt, jnp.zeros(self.output_dim, prompt.ys.dtype)))


class OneLayerModel(TokenModel):
    """Interface of token models with one layer of attention, their field `attention`."""

    attention: eqx.AbstractVar[Any]

    @property
    def num_heads(self) -> int:
        return self.attention.num_heads

    @property
    def head_dim(self) -> int:
        return self.attention.head_dim

    @property
    def stack(self) -> Sequence[TokenLayer]:
        return (self.attention,)


class LayeredModel(TokenModel):
    """Interface of token models with several layers of one shape, each with weights of its own."""

    layers: eqx.AbstractVar[tuple[Any, ...]]

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    @property
    def num_heads(self) -> int:
        return self.layers[0].num_heads

    @property
    def head_dim(self) -> int:
        return self.layers[0].head_dim

    @property
    def stack(self) -> Sequence[TokenLayer]:
        return self.layers


def clipped(tokens: Tokens, clip: float | None) -> Tokens:
    """Every entry brought into ±`clip`, where there is one: deep models diverge on some tasks while they are trained."""
    return tokens if clip is None else jnp.clip(tokens, -clip, clip)


def initial_query(query_init: str, output_dim: int, input_dim: int) -> QueryInit:
    """The field `W_0` of a `ConcatenatingModel`, at zero, for a `query_init`. **Raises** `ConfigError` for any other name."""
    match one_of("query_init", query_init, get_args(QueryInitName)):
        case "zero":
            return None
        case "known":
            return Frozen(jnp.zeros((output_dim, input_dim)))
        case _:
            return jnp.zeros((output_dim, input_dim))


def concatenate(prompt: Prompt, y_query: Float[Array, " output_dim"]) -> Tokens:
    """The tokens (xᵢ, yᵢ) of the examples, and (x_query, y_query) last."""
    context = jnp.concatenate([prompt.xs, prompt.ys], axis=1)
    query = jnp.concatenate([prompt.query, y_query])
    return jnp.concatenate([context, query[None]])


def concatenated_labels(input_dim: int, output_dim: int) -> tuple[str, ...]:
    """x1 … xd, y: the coordinates of a concatenated token."""
    ys = ("y",) if output_dim == 1 else tuple(f"y{i + 1}" for i in range(output_dim))
    return tuple(f"x{i + 1}" for i in range(input_dim)) + ys
