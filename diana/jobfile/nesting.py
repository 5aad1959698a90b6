"""Bounds on how deep a YAML file is, and how long once its aliases are written out, kept before a parser builds it.

libyaml's composer descends on the stack of C, where nothing stops it but the end of the process, and aliases name a
thousand things in a line.
"""

from __future__ import annotations

from typing import Any

import yaml

from diana.bounds import MOST_DEPTH, TOO_DEEP

MOST_ALIASED = 1 << 20
"""Characters and nodes that the aliases of one file stand for."""


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
