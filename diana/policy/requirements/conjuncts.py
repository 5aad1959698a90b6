"""A requirement cut into its conjuncts, and a comparison into its two sides, so that each can be told by itself.

The library reads every piece again: a text that is not surely cut where `&&` or the comparison stands stays whole.
Cuts are remembered, as compiled expressions are: cutting is dearer than all else that a known expression costs, and the
groups at a site that changed are all read in one turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_OPEN, _CLOSED = "([{", ")]}"
_OPERATORS = ("&&", "||", "//", ">=", "<=", "==", "!=", ">", "<", "?")
COMPARISONS = frozenset({">=", "<=", "==", "!=", ">", "<"})
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")


@lru_cache(maxsize=1024)
def conjuncts(text: str) -> tuple[str, ...]:
    """Return the texts that hold together where the whole holds."""
    found = _operators(text)
    if found is None or any(operator in ("||", "//", "?") for operator, _ in found):
        return (text,)
    pieces, begun = [], 0
    for operator, at in found:
        if operator == "&&":
            pieces.append(text[begun:at].strip())
            begun = at + 2
    return (*pieces, text[begun:].strip())


@lru_cache(maxsize=1024)
def sides(text: str) -> tuple[str, str, str] | None:
    """Return (left side, operator, right side) of a comparison; None: it is none, or more than one."""
    found = _operators(text)
    if found is None or len(found) != 1 or found[0][0] not in COMPARISONS:
        return None
    operator, at = found[0]
    return text[:at].strip(), operator, text[at + len(operator) :].strip()


def _operators(text: str) -> list[tuple[str, int]] | None:
    """Return the operators outside of quotes and brackets, and where they stand; None: the text is not cut, since its
    quotes are not simple."""
    if "\\" in text or "'''" in text or '"""' in text:
        return None
    return list(_outer(_QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)))


def _outer(text: str) -> Iterator[tuple[str, int]]:
    depth = at = 0
    while at < len(text):
        if text[at] in _OPEN:
            depth += 1
        elif text[at] in _CLOSED:
            depth -= 1
        elif depth == 0:
            operator = next((one for one in _OPERATORS if text.startswith(one, at)), "")
            if operator:
                yield operator, at
                at += len(operator)
                continue
        at += 1
