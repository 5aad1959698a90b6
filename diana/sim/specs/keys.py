"""Unknown keys and words, found before msgspec sees the file, so that the error can name the nearest known one."""

from __future__ import annotations

import types
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from diana.sim.specs.names import known as check_known


def check_keys(value: Any, wanted: Any, at: str) -> None:
    """ValueError when a table has a key its struct type has not, or a text is none of those it may be. Wrong types are
    left to msgspec."""
    if isinstance(value, str):
        words = _words(wanted)
        if words and value not in words:
            check_known(value, words, at)
    elif get_origin(wanted) in (Union, types.UnionType):
        for choice in get_args(wanted):
            check_keys(value, choice, at)
    elif get_origin(wanted) is tuple and isinstance(value, list):
        for number, item in enumerate(value):
            check_keys(item, get_args(wanted)[0], f"{at}[{number}]")
    elif isinstance(wanted, type) and issubclass(wanted, msgspec.Struct) and isinstance(value, dict):
        known = _fields(wanted)
        for key, item in value.items():
            if key not in known:
                near = get_close_matches(key, sorted(known), 1, 0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                raise ValueError(f"unknown key {key!r}{' in ' + at if at else ''}; {hint}")
            check_keys(item, known[key], f"{at}.{key}" if at else key)


@cache
def _words(wanted: Any) -> tuple[str, ...]:
    """Words that a text may be; none: anything, or there may be no text."""
    if get_origin(wanted) is Literal:
        return tuple(word for word in get_args(wanted) if isinstance(word, str))
    if get_origin(wanted) in (Union, types.UnionType):
        choices = get_args(wanted)
        return () if str in choices else tuple(word for choice in choices for word in _words(choice))
    return ()


@cache
def _fields(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Name in the file -> type."""
    hints = get_type_hints(struct)
    pairs = zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True)
    return {encoded: hints[name] for encoded, name in pairs}
