"""numpy, loaded when a function of it is first called: a site where nothing waits and nothing is placed has no arrays,
and numpy takes 16 MiB and a tenth of a second.

Annotations (`NDArray`, `Floats`) load nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

__all__ = ["Bools", "Floats", "Ints", "NDArray", "nothing", "noughts", "np", "ones", "whole"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
else:

    class _Numpy:
        """The module's attributes, each looked up once."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    class NDArray:
        def __class_getitem__(cls, _: object) -> type:
            return cls

    np = _Numpy()
    Bools = Floats = Ints = NDArray


def noughts(rows: int) -> cached_property[Floats]:
    """Attribute that is an array of so many zeros once it is asked for."""
    return cached_property(lambda _: np.zeros(rows))


def ones(rows: int) -> cached_property[Floats]:
    return cached_property(lambda _: np.ones(rows))


def whole(rows: int) -> cached_property[Ints]:
    """As `noughts`, of whole numbers."""
    return cached_property(lambda _: np.zeros(rows, dtype=np.int64))


def nothing(rows: int) -> cached_property[Bools]:
    """As `noughts`, of False."""
    return cached_property(lambda _: np.zeros(rows, dtype=bool))
