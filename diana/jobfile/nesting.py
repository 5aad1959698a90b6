"""Bounds on how deep a job file is, and how long once its aliases are written out, kept before a parser builds it.

libyaml's composer descends on the stack of C, where nothing stops it but the end of the process; aliases name a
thousand things in a line; and the keys of TOML cost the square of their dots.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

MOST_DEPTH = 64
"""Levels; a job file has five."""
MOST_ALIASED = 1 << 20
"""Characters and nodes that the aliases of one file stand for."""

TOO_DEEP = f"nested too deeply; want at most {MOST_DEPTH} levels"

_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
_DEEP_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*+(?:{_PART}\.[ \t]*+){{{MOST_DEPTH}}}", re.MULTILINE)


def check_keys(text: str) -> str:
    """Why the keys of a TOML text are too much; empty: they are not."""
    found = _DEEP_KEY.search(text)
    return f"line {text.count(chr(10), 0, found.end()) + 1}: {TOO_DEEP}" if found else ""


class _Open:
    """A list or map whose end is still to come, or a scalar: nodes and characters in it, and its levels."""

    def __init__(self, anchor: str | None, size: int) -> None:
        self.anchor = anchor
        self.size = size
        self.depth = 1


def check_events(text: str, loader: Any) -> None:
    """Read the events of a YAML text, which takes no stack. yaml.YAMLError where it is too much, or no YAML."""
    named: dict[str, _Open] = {}
    path = [_Open(None, 0)]
    aliased = 0
    node: _Open | None
    for event in yaml.parse(text, Loader=loader):
        match event:
            case yaml.ScalarEvent():
                node = _Open(event.anchor, 1 + len(event.value))
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                path.append(_Open(event.anchor, 1))
                node = None
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                node = path.pop()
            case yaml.AliasEvent():
                if any(each.anchor == event.anchor for each in path):
                    raise _wrong(event, "an alias within what it names")
                # One that names nothing is the composer's to refuse.
                node = named.get(str(event.anchor), _Open(None, 1))
                aliased += node.size
            case _:
                continue
        if len(path) - 1 + (node.depth if node else 0) > MOST_DEPTH:
            raise _wrong(event, TOO_DEEP)
        if aliased > MOST_ALIASED:
            raise _wrong(event, "aliases that write out to more than 1 MiB")
        if node is not None:
            path[-1].size += node.size
            path[-1].depth = max(path[-1].depth, node.depth + 1)
            if not isinstance(event, yaml.AliasEvent) and node.anchor is not None:
                named[node.anchor] = node


def _wrong(event: Any, why: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=why, problem_mark=event.start_mark)
