"""Words for the error lines about wrong values of `site.toml`."""

from __future__ import annotations

import types
from typing import Any, Literal, get_args, get_origin


def shown(value: object) -> str:
    """The value as it stands in the file, in at most 60 characters."""
    text = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else repr(value)
    return text if text is not None and len(text) <= 60 else f"{str(text)[:57]}..."


_KINDS = {
    int: "a whole number; write it without quotes and point",
    float: "a number; write it without quotes",
    bool: "true or false; write it without quotes",
    str: "a text; write it in quotes",
}


def kind_of(wanted: Any) -> str:
    """The kind of value wanted for this type, and how to write it."""
    if get_origin(wanted) is tuple:
        return 'a list of texts; write ["...", "..."]'
    if get_origin(wanted) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(wanted))
    if get_origin(wanted) is dict and get_args(wanted)[1] is float:
        return "a table of numbers; write NAME = 1.0 under a [heading]"
    if get_origin(wanted) is dict:
        return (
            "a table; write it under a [heading]"
            if get_args(wanted)[1] is Any
            else ('a table of texts; write NAME = "..." under a [heading]')
        )
    if isinstance(wanted, types.UnionType):
        wanted = get_args(wanted)[0]
    return _KINDS.get(getattr(wanted, "__supertype__", wanted), f"{wanted}")


def range_line(text: str) -> str:
    """`slots = -1: want 0 to 1e+06` -> `slots: -1 is out of range; want 0 to 1e+06`."""
    key, _, rest = text.partition(" = ")
    value, _, wish = rest.partition(": ")
    return f"{key}: {value} is out of range; {wish}"
