"""Patterns by which a job's outputs are found: `*` and `?` within a name, `[...]` one of some characters, `**` any
folders. What a pattern names is kept: a file, or all that lies in a folder.

As in a shell, no wildcard stands for the dot that a hidden name begins with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache

MOST_FOUND = 10_000
"""Files of one job that its patterns and folders may find together."""
MOST_NAME_BYTES = 1 << 20
"""Bytes of their names together: with the rest that is told of each, they fit into one message."""
_DEEP = "**"
_WILD = re.compile(r"[*?[]")
_WILDCARD = re.compile(r"\[!?\]?[^]]*\]|[*?]+|\[")

State = frozenset[int]
"""Places in a pattern that the components of a path led to; empty: it cannot find anything below that path."""


def is_pattern(text: str) -> bool:
    return _WILD.search(text) is not None


def is_found(text: str) -> bool:
    """True for an item of `collect` that names files by what is there: a pattern, or a folder by the slash behind
    it."""
    return is_pattern(text) or text.endswith("/")


def literal(params: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values as they are to stand in a pattern: each character for itself."""
    return {name: escaped(value) for name, value in params.items()}


def escaped(text: str) -> str:
    """Return the pattern that finds this path alone."""
    return _WILD.sub(r"[\g<0>]", text)


def loosened(pattern: str, any_text: str) -> str:
    """Return the pattern with `any_text` for each wildcard."""
    return _WILDCARD.sub(any_text, pattern)


class Pattern:
    """A compiled pattern, walked by one component of a path after the other."""

    __slots__ = ("_components", "_end")

    def __init__(self, parts: Sequence[str]) -> None:
        self._components = tuple(None if part == _DEEP else _component(part) for part in parts)
        self._end = len(self._components)

    def start(self) -> State:
        return self._closed({0})

    def step(self, state: State, name: str) -> State:
        if self._end in state:
            # It lies in a folder that was found.
            return state
        hidden = name.startswith(".")
        after = set()
        for at in state:
            component = self._components[at]
            if component is None:
                if not hidden:
                    after.add(at)
            elif component.match(name):
                after.add(at + 1)
        return self._closed(after)

    def finds(self, state: State) -> bool:
        """True if what the components led to is found."""
        return self._end in state

    def matches(self, parts: Iterable[str]) -> bool:
        """True if the file is found, by itself or in a folder."""
        state = self.start()
        for part in parts:
            state = self.step(state, part)
        return self.finds(state)

    def _closed(self, places: set[int]) -> State:
        """`**` stands for no folder, too."""
        for at in tuple(places):
            while at < self._end and self._components[at] is None:
                at += 1
                places.add(at)
        return frozenset(places)


@lru_cache(1024)
def pattern(path: str) -> Pattern:
    """Return the pattern of a path with single slashes."""
    return Pattern(path.split("/"))


def whole_folder() -> Pattern:
    """Return the pattern that finds all there is."""
    return Pattern(())


@lru_cache(4096)
def _component(part: str) -> re.Pattern[str]:
    visible = "" if part.startswith(".") else r"(?!\.)"
    return re.compile(visible + translate(part))
