"""Numbers that may be arrays of JAX, so that a sweep over them compiles once."""

from typing import Annotated

from jaxtyping import Array, Float

from .values import Scalar

Number = float | Float[Array, ""]
FiniteNumber = Annotated[Number, Scalar()]
PositiveNumber = Annotated[Number, Scalar(above=0)]
