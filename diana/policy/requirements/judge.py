"""Verdicts on a site, a link or a set of sites: the conjuncts of a group's requirements that each does not meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from diana.model.views.decision import FailedRequirement
from diana.policy.requirements.conjuncts import conjuncts, sides
from diana.policy.requirements.expressions import Constants, Expression, Untold, read
from diana.policy.requirements.names import SITE_PROPERTY, Value

MOST_EXPRESSIONS = 64
"""Expressions of a group, all keys together, and conditions under one key."""
MOST_CHARACTERS = 32 * 1024
"""Characters of all expressions of a group."""
MOST_SHOWN = 200
"""Characters of a conjunct, and of its values, that are told."""


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

    def failed(self, values: Mapping[str, Value]) -> FailedRequirement | None:
        """Return what does not hold, with the values; None: it holds."""
        found = self.expression.value(values)
        if found is True:
            return None
        text = _cut(self.expression.text)
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

    def _near(self, first: bool | float | str, second: bool | float | str) -> str:
        """Return the comparison that would just hold, where one side is the author's own number."""
        assert self._sides is not None
        left, operator, right = self._sides
        if operator not in (">", "<", ">=", "<=") or isinstance(first, bool | str) or isinstance(second, bool | str):
            return ""
        loose = operator[0] + "="
        if _own(right) and not _own(left) and isfinite(first):
            return f"{left.text} {loose} {_shown(first)}"
        if _own(left) and not _own(right) and isfinite(second):
            return f"{_shown(second)} {loose} {right.text}"
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

    def may_hold(self, values: Mapping[str, Value]) -> bool:
        """True unless a conjunct surely fails by the values that are known so far. A property that is not among them is
        none that the site declares: it tells all of them at once."""
        return all(
            self._holds(at, values)
            for at, one in enumerate(self.conjuncts)
            if all(name in values or name.startswith(SITE_PROPERTY) for name in one.expression.names)
        )

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
    return not any(name == "set" or name.startswith(("site.", "link.", "set.")) for name in side.names)


def _shown(value: Value | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(one) for one in value[:8])}{', ...' * (len(value) > 8)}]"
    return f"{value:.12g}" if isinstance(value, float | int) else repr(value)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."
