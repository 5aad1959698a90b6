"""Counts as names of needs: `licence matlab 2`, `resource fpga 1`. So they travel among the names of what jobs need of
a site (`model/job/software.py`), and a release that knows none of a kind has none of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

Counts = tuple[tuple[str, int], ...]
"""(name, how many), by name."""


def with_own(group: Counts, own: Counts) -> Counts:
    """Return the counts of a group, those of the same names replaced by a component's own."""
    return tuple(sorted({**dict(group), **dict(own)}.items())) if own else group


def least(some: Sequence[Counts]) -> Counts:
    """Return the names that all of these ask for, each with its least count."""
    counts = [dict(each) for each in some]
    return tuple((name, min(each[name] for each in counts)) for name, _ in some[0] if all(name in e for e in counts))


def few(count: int) -> str:
    """Return a number in a few characters, however large it is."""
    return str(count) if abs(count) < 10**18 else f"about {'-' if count < 0 else ''}2^{count.bit_length() - 1}"


def is_checked(check: Callable[[dict[str, int], str], Counts], counts: Counts) -> bool:
    """True if these counts are as the check of names and numbers gives them; they may come from anywhere."""
    try:
        return check(dict(counts), "") == counts
    except (ValueError, TypeError):
        return False


class CountNames:
    """The names of one kind: a word, the counted thing's own name, and a number above 0 of 7 digits at most."""

    def __init__(self, word: str, is_name: Callable[[str], bool], why: Callable[[str, int, int], str]) -> None:
        """`why`: says of (own name, how many are wanted, how many there are) what lacks."""
        self._word = word
        self._begins = word + " "
        self._is_name = is_name
        self._why = why
        self.among = lru_cache(1024)(self._among)
        """The counts among such names, each with its largest count. Names that cannot be read are left out."""

    def named(self, counts: Iterable[tuple[str, int]]) -> tuple[str, ...]:
        return tuple(f"{self._begins}{name} {count}" for name, count in counts if count > 0)

    def is_one(self, name: str) -> bool:
        return name.startswith(self._begins)

    def lacking(self, offered: Iterable[str], asked: str) -> str:
        """Say why a site with these offers lacks the asked one; empty: it has it."""
        for name, wanted in self.among((asked,)):
            had = dict(self.among(tuple(sorted(filter(self.is_one, offered))))).get(name, 0)
            return "" if had >= wanted else self._why(name, wanted, had)
        return f"has no such {self._word}"

    def _among(self, names: tuple[str, ...]) -> Counts:
        found: dict[str, int] = {}
        for one in names:
            name, _, count = one.removeprefix(self._begins).rpartition(" ") if self.is_one(one) else ("", "", "")
            if self._is_name(name) and len(count) < 8 and count.isdecimal() and count.isascii() and int(count):
                found[name] = max(found.get(name, 0), int(count))
        return tuple(sorted(found.items()))
