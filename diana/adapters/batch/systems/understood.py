"""Text that a batch system prints, as far as it can be understood: it is bounded, its oddities are `BatchUnreachable`.

Names and comments in it are users' own, so that its readers see hostile text without a hostile cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from diana.adapters.batch.systems.system import BatchUnreachable, ClusterCapacity
from diana.bounds import MOST_COUNT
from diana.errors import one_line

MOST_LINE = 1 << 14
"""Characters of a line; patterns take the square of it."""
_ODDITIES = (ValueError, OverflowError, ArithmeticError, LookupError, RecursionError, OSError)
P = ParamSpec("P")
T = TypeVar("T")


def understood(who: str, *, lines: bool = True) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Guard a reader of texts that `who` printed. `lines`: they consist of lines that a person could read."""

    def around(read: Callable[P, T]) -> Callable[P, T]:
        @wraps(read)
        def reading(*said: P.args, **how: P.kwargs) -> T:
            if lines and any(_is_long(text) for text in said if isinstance(text, str)):
                raise BatchUnreachable(f"{who} says a line of more than {MOST_LINE:,} characters")
            try:
                found = read(*said, **how)
            except _ODDITIES as oddity:
                raise BatchUnreachable(f"{who} says what is not understood here: {_shown(oddity)}") from None
            if isinstance(found, ClusterCapacity):
                _check(found, who)
            return found

        return reading

    return around


def _is_long(text: str) -> bool:
    return len(text) > MOST_LINE and max(map(len, text.splitlines()), default=0) > MOST_LINE


def _shown(oddity: BaseException) -> str:
    return one_line(str(oddity))[:100] or type(oddity).__name__


def _check(found: ClusterCapacity, who: str) -> None:
    counts = [getattr(found, name) for name in found.__struct_fields__ if name not in ("version", "licences")]
    if not all(0 <= count <= MOST_COUNT for count in (*counts, *(count for _, count in found.licences))):
        raise BatchUnreachable(f"{who} tells of more than there can be")
