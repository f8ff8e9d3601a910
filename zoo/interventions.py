"""Interventions: a token model run with some of its parts changed, and what its heads add to the prediction.

A part is named by a site. All functions are pure: they work under `jax.jit`, `jax.vmap` and `jax.grad`, and leave the model as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .checks.arguments import layered
from .checks.gate import gate
from .checks.values import one_of
from .errors import ArgumentError, HeadError, NotApplicable, ShapeError
from .layers.attention import SelfAttention
from .prompt import Prompt
from .token_model import TokenModel

Change = Array | Callable[[Array], Array]  # what stands at a site instead, or a function of what stood there


@dataclass(frozen=True)
class Residual:
    """The residual stream after `layer` layers, 0 being the embedded prompt: [num_tokens, embed_dim], or one `token` of it."""

    layer: int
    token: int | None = None


@dataclass(frozen=True)
class Pattern:
    """f(scores) of a head, before it weighs the values: [num_queries, num_context]. The last layer has the query alone."""

    layer: int
    head: int


@dataclass(frozen=True)
class HeadOutput:
    """What a head adds to the tokens: [num_queries, embed_dim]. The last layer has the query alone."""

    layer: int
    head: int


@dataclass(frozen=True)
class Block:
    """A block of a product of weights, of every head: the rows and columns of "x" or "y", [num_heads, rows, columns].

    W_PV[x, ·] is what a layer does to the inputs, W_PV[y, ·] what it does to the labels.
    """

    layer: int
    product: Literal["W_KQ", "W_PV"]
    rows: Literal["x", "y"]
    columns: Literal["x", "y"]


Site = Residual | Pattern | HeadOutput | Block


class Run(eqx.Module):
    """A forward pass: the prediction, and what stood at the recorded sites, in their order, after every change."""

    prediction: Float[Array, " output_dim"]
    values: tuple[Array, ...]


class Contributions(eqx.Module):
    """What each part adds to the prediction; all of them sum to it."""

    embedding: Float[Array, " output_dim"]  # the prediction of the embedded prompt
    heads: Float[Array, "num_layers num_heads num_context output_dim"]  # of each context token by each head
    rest: Float[Array, "num_layers output_dim"]  # of what else a layer does: its MLP, a clip

    @property
    def prediction(self) -> Float[Array, " output_dim"]:
        """The sum of all."""
        return self.embedding + self.heads.sum(axis=(0, 1, 2)) + self.rest.sum(axis=0)


@gate(model=layered)
def run_with(
    model: TokenModel, prompt: Prompt, changes: Mapping[Any, Change] | None = None, *, record: Sequence[Site] = ()
) -> Run:
    """Run `model` on one prompt with other values at some sites.

    Args:
        model: a model of layers over tokens.
        prompt: one prompt; batches come from `jax.vmap`.
        changes: by site, the array that stands there instead, or a function of what stands there: `jnp.zeros_like` ablates it.
        record: sites whose values are kept.

    Returns:
        The prediction, and the recorded values. A run with its own values at any sites is the same run, bit for bit.

    Raises:
        HeadError: there is no such layer or head.
        NotApplicable: a layer has no heads, or takes no other products.
        ShapeError: a value has another shape than what it replaces.

    Example:
        >>> model = iclzoo.load("deep-lsa-2")
        >>> prompt, _ = iclzoo.LinearRegression().sample(jax.random.key(0))
        >>> without = iclzoo.run_with(model, prompt, {iclzoo.HeadOutput(1, 0): jax.numpy.zeros_like}).prediction
    """
    changes = dict(changes or {})
    _check([*changes, *record], model)
    values: dict[Site, Array] = {}

    def at(site: Site, value: Array) -> Array:
        if site in changes:
            change = changes[site]
            new = change(value) if callable(change) else jnp.asarray(change, value.dtype)
            if new.shape != value.shape:
                raise ShapeError(f"{site} has the shape {value.shape}, and what replaces it {new.shape}")
            value = new
        if site in record:
            values[site] = value
        return value

    asked = {*changes, *record}
    layers = list(model.stack)
    tokens = _at_residual(model.embed(prompt), 0, asked, at)
    for k, layer in enumerate(layers):
        last = k == len(layers) - 1
        layer = _with_sites(layer, k, model, asked, at)
        queries = tokens[-1:] if last else tokens
        tokens = model.advance(queries, layer(queries, model.context(tokens)))
        tokens = _at_residual(tokens, k + 1, asked, at)
    return Run(model.readout(tokens[-1]), tuple(values[site] for site in record))


@gate(model=layered)
def value_at(model: TokenModel, prompt: Prompt, site: Site) -> Array:
    """What stands at a site in the run of one prompt: to patch another run with, or to average over prompts for a mean ablation.

    Example:
        >>> site = iclzoo.HeadOutput(0, 0)
        >>> model, task = iclzoo.load("deep-lsa-2"), iclzoo.LinearRegression()
        >>> prompts, _ = task.sample_batch(jax.random.key(0), 100)
        >>> mean = jax.vmap(lambda prompt: iclzoo.value_at(model, prompt, site))(prompts).mean(axis=0)
        >>> iclzoo.run_with(model, task.sample(jax.random.key(1))[0], {site: mean}).prediction.shape
        (1,)
    """
    return run_with(model, prompt, record=(site,)).values[0]


@gate(model=layered)
def contributions(model: TokenModel, prompt: Prompt) -> Contributions:
    """What each context token adds to the prediction of one prompt, by each head.

        prediction = read(embed) + Σ_layers Σ_heads Σᵢ read(W_PV eᵢ f(eᵢᵀ W_KQ e_query)) + rest

    `read` is the read-out, which must be linear in the query's token. What a head does to the query through later layers is not its own
    contribution but theirs: `run_with` asks for that.

    Raises:
        NotApplicable: a layer has no heads, or the read-out is not linear.
    """
    if type(model).readout is not TokenModel.readout:
        raise NotApplicable(f"{type(model).__name__} has a read-out of its own, which need not be linear")
    heads, rest, layers = [], [], list(model.stack)
    tokens = model.embed(prompt)
    embedding = model.readout(tokens[-1])
    for k, layer in enumerate(layers):
        last = k == len(layers) - 1
        seen: list[Array] = []
        layer = _mapped_attention(layer, lambda attention, seen=seen: _Watched(attention, seen))
        queries = tokens[-1:] if last else tokens
        after = model.advance(queries, layer(queries, model.context(tokens)))
        if not seen:
            raise NotApplicable(f"layer {k} of {type(model).__name__} has no heads of attention")
        read = jax.vmap(jax.vmap(model.readout))(seen[0])  # [num_heads, num_context, output_dim]
        heads.append(read)
        rest.append(model.readout(after[-1]) - model.readout(queries[-1]) - read.sum(axis=(0, 1)))
        tokens = after
    if len({one.shape for one in heads}) != 1:
        raise NotApplicable("the layers have different numbers of heads")
    return Contributions(embedding, jnp.stack(heads), jnp.stack(rest))


@dataclass(frozen=True)
class _Watched:
    """Attention that also tells what each context token adds to the last query token, by each head."""

    attention: SelfAttention
    seen: list[Array]

    def __call__(self, queries: Array, context: Array) -> Array:
        _, pattern = self.attention.attend(queries[-1:], context)
        self.seen.append(jnp.einsum("hab,nb,hn->hna", self.attention.W_PV, context, pattern[:, -1], optimize="optimal"))
        return self.attention(queries, context)


@dataclass(frozen=True)
class _Changed:
    """Attention with other patterns and head outputs: what they differ by is added to the update, nothing where they are the same."""

    attention: SelfAttention
    layer: int
    asked: set[Site]
    at: Callable[[Site, Array], Array]

    def __call__(self, queries: Array, context: Array) -> Array:
        update = self.attention(queries, context)
        _, patterns = self.attention.attend(queries, context)
        for head in range(self.attention.num_heads):
            pattern, output = Pattern(self.layer, head), HeadOutput(self.layer, head)
            if pattern in self.asked or output in self.asked:
                of = lambda weights, head=head: jnp.einsum(  # noqa: E731
                    "ab,nb,qn->qa", self.attention.W_PV[head], context, weights, optimize="optimal"
                )
                own = changed = of(patterns[head])
                if pattern in self.asked:
                    changed = own + of(self.at(pattern, patterns[head]) - patterns[head])
                update = update + ((self.at(output, changed) if output in self.asked else changed) - own)
        return update


def _with_sites(layer: Any, k: int, model: TokenModel, asked: set[Site], at: Callable[[Site, Array], Array]) -> Any:
    """The layer with the changes at its sites."""
    blocks = [site for site in asked if isinstance(site, Block) and site.layer == k]
    if blocks:
        layer = _mapped_attention(layer, lambda attention: _with_blocks(attention, blocks, model, at))
    if any(isinstance(site, Pattern | HeadOutput) and site.layer == k for site in asked):
        layer = _mapped_attention(layer, lambda attention: _Changed(attention, k, asked, at))
    return layer


def _with_blocks(
    attention: SelfAttention, blocks: Sequence[Block], model: TokenModel, at: Callable[[Site, Array], Array]
) -> SelfAttention:
    products = {"W_KQ": attention.W_KQ, "W_PV": attention.W_PV}
    same = dict(products)
    for site in blocks:
        place = (slice(None), model.subspaces[site.rows], model.subspaces[site.columns])
        products[site.product] = products[site.product].at[place].set(at(site, products[site.product][place]))
    if all(products[name] is same[name] for name in products):
        return attention
    return attention.with_products(products["W_KQ"], products["W_PV"])


def _mapped_attention(layer: Any, change: Callable[[SelfAttention], Any]) -> Any:
    return jax.tree.map(lambda node: change(node) if _is_attention(node) else node, layer, is_leaf=_is_attention)


def heads_of(model: TokenModel) -> list[HeadOutput]:
    """The output of every head of every layer, in order. **Raises** `NotApplicable` for a layer without heads."""
    return [
        HeadOutput(k, head) for k, layer in enumerate(model.stack) for head in range(_attention(layer, k).num_heads)
    ]


def _attention(layer: Any, k: int) -> SelfAttention:
    found = [node for node in jax.tree.leaves(layer, is_leaf=_is_attention) if _is_attention(node)]
    if len(found) != 1:
        raise NotApplicable(f"layer {k} ({type(layer).__name__}) has no heads of attention that could be changed")
    return found[0]


def _at_residual(tokens: Array, layer: int, asked: set[Site], at: Callable[[Site, Array], Array]) -> Array:
    for site in sorted((s for s in asked if isinstance(s, Residual) and s.layer == layer), key=lambda s: s.token or 0):
        place = slice(None) if site.token is None else site.token
        tokens = tokens.at[place].set(at(site, tokens[place]))
    return tokens


def _check(sites: Sequence[Site], model: TokenModel) -> None:
    """**Raises** an error for a site that this model does not have."""
    num_layers = len(model.stack)
    for site in sites:
        if not isinstance(site, Residual | Pattern | HeadOutput | Block):
            raise ArgumentError(f"a site is a Residual, a Pattern, a HeadOutput or a Block, got {site!r:.60}")
        most = num_layers if isinstance(site, Residual) else num_layers - 1
        if not 0 <= site.layer <= most:
            raise HeadError(f"{type(model).__name__} has layers 0 … {most} for {type(site).__name__}, got {site.layer}")
        if isinstance(site, Pattern | HeadOutput):
            num_heads = _attention(model.stack[site.layer], site.layer).num_heads
            if not 0 <= site.head < num_heads:
                raise HeadError(f"layer {site.layer} has heads 0 … {num_heads - 1}, got head {site.head}")
        if isinstance(site, Block):
            one_of("product", site.product, ("W_KQ", "W_PV"))
            for side in (site.rows, site.columns):
                if side not in model.subspaces:
                    raise NotApplicable(f"the tokens of {type(model).__name__} have no entries of {side!r}")


def _is_attention(node: Any) -> bool:
    return isinstance(node, SelfAttention)
