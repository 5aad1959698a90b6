"""Verdicts on a site, a link or a set of sites: the conjuncts of a group's requirements that each does not meet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from diana.model.views.conditions import Judgement
from diana.model.views.decision import FailedRequirement
from diana.policy.requirements.conjuncts import conjuncts, sides
from diana.policy.requirements.expressions import Constants, Expression, Untold, read
from diana.policy.requirements.names import ALL_DECLARED, SITE_PROPERTY, Value

MOST_EXPRESSIONS = 64
"""Expressions of a group, all keys together, and conditions under one key."""
MOST_CHARACTERS = 32 * 1024
"""Characters of all expressions of a group."""
MOST_SHOWN = 200
"""Characters of a conjunct, and of its values, that are told."""
_PLAIN = re.compile(r"""[\d.eE+-]+|'[^']*'|"[^"]*"|true|false|\[[^()]*\]""")
"""A value that is told by its text."""
_BLANKS = {ord("\n"): " ", ord("\t"): " "}
WHOLLY = 2.0
"""Shortfall of a condition that is no comparison of two numbers; that of one which is comes to no more."""


class Shortfall(NamedTuple):
    """How far a set of sites is from what is wanted of it; the less the better. None: it meets all."""

    conditions: int = 0
    """Conditions that do not hold."""
    relative: float = 0.0
    """Their shortfalls together, as `Conjunct.shortfall` has them."""


class Conjunct:
    """A condition that is told by itself."""

    def __init__(self, text: str, scope: str, constants: Constants) -> None:
        self.expression = read(text, scope, constants)
        self._sides: tuple[Expression, str, Expression] | None = None
        cut = sides(text)
        if cut is not None:
            try:
                left, right = read(cut[0], scope, constants), read(cut[2], scope, constants)
            except ValueError:
                return
            self._sides = (left, cut[1], right)

    @property
    def told(self) -> str:
        """Its text, as it is told."""
        return _cut(self.expression.text)

    def failed(self, values: Mapping[str, Value]) -> FailedRequirement | None:
        """Return what does not hold, with the values; None: it holds."""
        found = self.expression.value(values)
        if found is True:
            return None
        text = self.told
        if isinstance(found, Untold):
            return FailedRequirement(text=text, found=_cut(found.why))
        if self._sides is None:
            return FailedRequirement(text=text, found=self._told(values))
        left, operator, right = self._sides
        first, second = left.value(values), right.value(values)
        if isinstance(first, Untold) or isinstance(second, Untold):
            return FailedRequirement(text=text, found=self._told(values))
        shown = f"{_shown(first)} {operator} {_shown(second)} does not hold"
        return FailedRequirement(text=text, found=_cut(shown), near=_cut(self._near(first, second)))

    def judged(self, values: Mapping[str, Value]) -> Judgement:
        """Judge it, and tell the value of the side that is not the author's own, or of each name."""
        lacks = self.failed(values)
        has = self._has(values)
        if lacks is None:
            return Judgement(holds=True, found=has)
        return Judgement(found=has or lacks.found, near=lacks.near)

    def wants(self, own: Mapping[str, Value]) -> str:
        """Return the value of the author's own side of a comparison, where it is more than a number or a text; empty:
        there is none. `own`: values of the names that speak of the group."""
        if self._sides is None:
            return ""
        left, _, right = self._sides
        side = next((one for one in (right, left) if _own(one) and not _own(right if one is left else left)), None)
        if side is None or _PLAIN.fullmatch(side.text):
            return ""
        found = side.value(own)
        return "" if isinstance(found, Untold) else _cut(_shown(found))

    def _has(self, values: Mapping[str, Value]) -> str:
        """Return the values that it was judged by; empty: some are not told, or it names none."""
        if self._sides is not None:
            left, operator, right = self._sides
            found = [side.value(values) for side in (left, right) if not _own(side)]
            told = [_shown(one) for one in found if not isinstance(one, Untold)]
            return _cut(f" {operator} ".join(told)) if len(told) == len(found) else ""
        names = [name for name in self.expression.names if _of_site(name)]
        if len(names) == 1 and names[0] in values:
            return _cut(_shown(values[names[0]]))
        return self._told(values)

    def shortfall(self, values: Mapping[str, Value]) -> float:
        """Return how far the two sides of a comparison that does not hold are apart, relative to the larger: 0 to
        `WHOLLY`."""
        first, second = (self._sides[0].value(values), self._sides[2].value(values)) if self._sides else ("", "")
        if not (isinstance(first, float) and isinstance(second, float) and isfinite(first) and isfinite(second)):
            return WHOLLY
        larger = max(abs(first), abs(second))
        return abs(first / larger - second / larger) if larger else 0.0

    def _near(self, first: bool | float | str, second: bool | float | str) -> str:
        """Return the comparison that would just hold, where one side is the author's own number."""
        assert self._sides is not None
        left, operator, right = self._sides
        if operator not in (">", "<", ">=", "<=") or isinstance(first, bool | str) or isinstance(second, bool | str):
            return ""
        loose = operator[0] + "="
        if _own(right) and not _own(left) and isfinite(first):
            return f"{left.text} {loose} {_exact(first)}"
        if _own(left) and not _own(right) and isfinite(second):
            return f"{_exact(second)} {loose} {right.text}"
        return ""

    def _told(self, values: Mapping[str, Value]) -> str:
        return _cut(", ".join(f"{name} = {_shown(values[name])}" for name in self.expression.names if name in values))


class Requirements:
    """All expressions under one key of a group."""

    def __init__(self, texts: Sequence[str], scope: str, constants: Constants = ()) -> None:
        """ValueError: one line on the first expression that is none."""
        self.conjuncts = tuple(one for text in texts for one in _read(text, scope, constants))
        if len(self.conjuncts) > MOST_EXPRESSIONS:
            raise ValueError(f"{len(self.conjuncts)} conditions; a group has at most {MOST_EXPRESSIONS}")
        self.names = frozenset(name for one in self.conjuncts for name in one.expression.names)
        """Names that they hold."""
        self.characters = sum(len(one.expression.text) for one in self.conjuncts)
        """Characters of all of them: the cost of judging them once grows with it."""
        self._known: dict[tuple[int, tuple[Value | None, ...]], bool] = {}

    def __bool__(self) -> bool:
        return bool(self.conjuncts)

    def failed(self, values: Mapping[str, Value]) -> tuple[FailedRequirement, ...]:
        """Return each conjunct that does not hold."""
        if self.holds(values):
            return ()
        return tuple(failed for one in self.conjuncts if (failed := one.failed(values)) is not None)

    def holds(self, values: Mapping[str, Value]) -> bool:
        """True if each conjunct holds."""
        return all(self._holds(at, values) for at in range(len(self.conjuncts)))

    def shortfall(self, values: Mapping[str, Value]) -> Shortfall:
        """Return how far these values are from meeting all of it."""
        failing = [one for at, one in enumerate(self.conjuncts) if not self._holds(at, values)]
        return Shortfall(len(failing), sum(one.shortfall(values) for one in failing))

    def may_hold(self, values: Mapping[str, Value]) -> bool:
        """True unless a conjunct surely fails by the values that are known so far."""
        return not self.first_lacking(values)

    def first_lacking(self, values: Mapping[str, Value]) -> str:
        """Return the first conjunct that fails by the values that are known so far; empty: none surely does."""
        return next((self.conjuncts[at].told for at in self._known_by(values) if not self._holds(at, values)), "")

    def surely_failed(self, values: Mapping[str, Value]) -> tuple[FailedRequirement, ...]:
        """Return each conjunct that fails by the values that are known so far, whatever the others are."""
        some = (self.conjuncts[at].failed(values) for at in self._known_by(values) if not self._holds(at, values))
        return tuple(failed for failed in some if failed is not None)

    def _known_by(self, values: Mapping[str, Value]) -> Iterator[int]:
        """Yield the conjuncts of which all names are known. What a site does not declare is known where it told all
        that it does."""
        told = ALL_DECLARED in values
        for at, one in enumerate(self.conjuncts):
            if all(name in values or (told and name.startswith(SITE_PROPERTY)) for name in one.expression.names):
                yield at

    def _holds(self, at: int, values: Mapping[str, Value]) -> bool:
        """Evaluate once for all sites that are alike in the names of this conjunct."""
        expression = self.conjuncts[at].expression
        key = (at, tuple(values.get(name) for name in expression.names))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = expression.value(values) is True
        return known


class Rank:
    """The order that a group wants its sites in; the highest first."""

    def __init__(self, text: str, constants: Constants = ()) -> None:
        """ValueError: one line on a text that is no number."""
        self._expression = read(text, "rank", constants)
        if self._expression.result != "double":
            raise ValueError("it gives no number; write one, such as site.speed")

    def of(self, values: Mapping[str, Value]) -> float | Untold:
        """Return the rank, or why there is none by these values: one of them is not told, or it is no finite number."""
        found = self._expression.value(values)
        if isinstance(found, Untold):
            return found
        assert not isinstance(found, bool | str)
        return found if isfinite(found) else Untold(f"{found:g} is no rank")

    def lacking(self, untold: Untold) -> FailedRequirement:
        """Return the line on a site that has none."""
        return FailedRequirement(text=_cut(f"no rank by {self._expression.text}"), found=_cut(untold.why))


def _read(text: str, scope: str, constants: Constants) -> tuple[Conjunct, ...]:
    whole = Conjunct(text, scope, constants)
    if whole.expression.result != "bool":
        raise ValueError("it is neither true nor false; write a comparison, such as site.memory_bytes >= 8e9")
    pieces = conjuncts(text)
    if len(pieces) < 2:
        return (whole,)
    try:
        cut = tuple(Conjunct(piece, scope, constants) for piece in pieces)
    except ValueError:
        return (whole,)
    return cut if all(one.expression.result == "bool" for one in cut) else (whole,)


def _own(side: Expression) -> bool:
    """True if the side is about the group alone, so that its author may change it."""
    return not any(map(_of_site, side.names))


def _of_site(name: str) -> bool:
    return name == "set" or name.startswith(("site.", "link.", "set."))


def _shown(value: Value | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(one) for one in value[:8])}{', ...' * (len(value) > 8)}]"
    return f"{value:.12g}" if isinstance(value, float | int) else repr(value)


def _exact(value: float) -> str:
    """A number in the fewest digits that read as it: rounded, the comparison would not hold."""
    return f"{value:.12g}" if float(f"{value:.12g}") == value else repr(value).removesuffix(".0")


def _cut(text: str) -> str:
    """A text as it is told: in one line, and not too long."""
    text = text.translate(_BLANKS)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."
