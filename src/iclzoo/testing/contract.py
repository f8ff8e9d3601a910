"""A contract: clauses that everything of a kind keeps, each a small function that fails where it is broken."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from ..zoo.errors import ContractError, NotApplicable, said_by
from ..zoo.prompt import Prompt

Clause = Callable[..., None]

# How far two ways to the same number may be apart, relative to the largest entry: rounding, summed over a few hundred terms.
TOLERANCE = {np.dtype("float32"): 1e-5, np.dtype("float64"): 1e-10}


class Contract:
    """The clauses that every `kind` of thing keeps, by name, in the order they are checked."""

    def __init__(self, kind: str):
        self.kind = kind
        self.clauses: dict[str, Clause] = {}

    def clause(self, mend: str) -> Callable[[Clause], Clause]:
        """Decorator: add a clause, a function of the thing's name and settings that raises where it is broken.

        `mend` says what to do then.

        Its docstring is the clause. Promotion is strict while it is checked.
        """

        def add(function: Clause) -> Clause:
            def checked(name: str, **settings: Any) -> None:
                try:
                    with strict():
                        function(name, **settings)
                except NotApplicable:
                    pass  # the thing says itself that there is nothing to check
                except Exception as error:
                    raise ContractError(
                        f"the {self.kind} {name!r} breaks the contract: {said_by_clause(function)} "
                        f"({type(error).__name__}: {said_by(error) or 'no reason given'}). {mend}"
                    ) from error

            self.clauses[function.__name__] = checked
            return checked

        return add

    def check(self, name: str, **settings: Any) -> None:
        """Check every clause. **Raises** `ContractError` at the first that is broken: which it is, and how to mend it."""
        for clause in self.clauses.values():
            clause(name, **settings)


def said_by_clause(function: Clause) -> str:
    """What a clause asks for, in a sentence."""
    return " ".join((function.__doc__ or function.__name__).split()).rstrip(".")


@contextmanager
def strict() -> Iterator[None]:
    """JAX promotes neither dtypes nor ranks by itself: what users may have set, too."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


def keys(seed: int = 2027) -> Iterator[PRNGKeyArray]:
    """A new random key each time, always the same ones."""
    return iter(jr.split(jr.key(seed), 100))


def random_prompt(
    key: PRNGKeyArray, *, num_examples: int = 7, input_dim: int = 5, output_dim: int = 1, scale: float = 0.5
) -> Prompt:
    """A prompt without any structure."""
    key_x, key_y, key_query = jr.split(key, 3)
    return Prompt(
        xs=scale * jr.normal(key_x, (num_examples, input_dim)),
        ys=jr.normal(key_y, (num_examples, output_dim)),
        query=scale * jr.normal(key_query, (input_dim,)),
    )


def require(condition: Any, detail: str) -> None:
    """**Raises** `AssertionError` with the detail, also where Python leaves its asserts out."""
    if not condition:
        raise AssertionError(detail)


def require_close(actual: Any, expected: Any, what: str, *, tolerance: float | None = None) -> None:
    """**Raises** `AssertionError` unless two arrays are equal up to rounding, relative to the largest entry."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    require(actual.shape == expected.shape, f"{what}: shape {actual.shape} instead of {expected.shape}")
    scale = max(np.abs(expected).max(initial=0.0), np.finfo(expected.dtype).tiny)
    error = np.abs(actual - expected).max(initial=0.0) / scale
    require(
        error <= (TOLERANCE[expected.dtype] if tolerance is None else tolerance), f"{what}: relative error {error:.2e}"
    )


def require_prediction(prediction: Any, output_dim: int) -> None:
    """**Raises** `AssertionError` unless this is a finite prediction of as many outputs."""
    shape = getattr(prediction, "shape", None)
    require(shape == (output_dim,), f"a prediction of shape {shape} instead of ({output_dim},)")
    require(jnp.issubdtype(prediction.dtype, jnp.floating), f"a prediction of {prediction.dtype}")
    require(jnp.isfinite(prediction).all(), f"the prediction {prediction}")


def same_bits(left: Any, right: Any) -> bool:
    """The same structure and the same bits."""
    same = jax.tree.structure(left) == jax.tree.structure(right)
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=False)
    return same and all(jnp.asarray(a).dtype == jnp.asarray(b).dtype and bool(jnp.array_equal(a, b)) for a, b in pairs)
