"""Properties that an operator declares of a site (`[properties]` in `site.toml`), and that requirements of groups name
as `site.properties.NAME`. They are texts; expressions make numbers of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite

MOST_PROPERTIES = 16
"""Properties of a site, and properties that one expression may name."""
MOST_NAME = 40
"""Characters of a name."""
MOST_TEXT = 100
"""Characters of a value."""
MOST_BYTES = 512
"""Bytes of all names and values of a site: they travel in its summary, which every site keeps."""
NAMES = f"letters, digits and _, no digit first, {MOST_NAME} at most"
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MOST_NAME - 1}}}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORDS = """
as break const continue else false for function if import in let loop namespace null package return true var void while
site set link job group component gang size sum min max suffix double int uint string bool bytes type list map
"""
WORDS = frozenset(_WORDS.split())
"""Words of the language of expressions, which name nothing else there."""


def declared(table: Mapping[str, object]) -> dict[str, str]:
    """Return what a settings file declares as texts, in order of the names. ValueError names the bad entry."""
    return check({name: _text(name, value) for name, value in table.items()})


def check(properties: Mapping[str, str]) -> dict[str, str]:
    """Return them in order of the names. ValueError names the bad entry: `properties.NAME: what; the mend`."""
    if len(properties) > MOST_PROPERTIES:
        raise ValueError(f"properties: {len(properties)} of them; want at most {MOST_PROPERTIES}")
    for name, value in properties.items():
        where = f"properties.{name[:60]}"
        if name in WORDS:
            raise ValueError(f"{where}: a word of the language of requirements; choose another name")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{where}: no name of a property; want {NAMES}")
        if len(value) > MOST_TEXT:
            raise ValueError(f"{where}: {len(value):,} characters; want at most {MOST_TEXT}")
        if not value.isprintable():
            raise ValueError(f"{where}: it holds a character that cannot be printed; remove it")
    if (total := size_bytes(properties)) > MOST_BYTES:
        raise ValueError(
            f"properties: {total:,} bytes of names and values; they travel to all sites, want at most {MOST_BYTES}"
        )
    return dict(sorted(properties.items()))


def sane(told: Mapping[str, str]) -> dict[str, str]:
    """Return what a peer tells of its own, without what makes no sense: well-formed names, printable texts, as many as
    a site may have, the first by name."""
    kept: dict[str, str] = {}
    left = MOST_BYTES
    for name, value in sorted(told.items()):
        fine = _NAME.fullmatch(name) and name not in WORDS and len(value) <= MOST_TEXT and value.isprintable()
        if not fine or len(kept) >= MOST_PROPERTIES or (size := size_bytes({name: value})) > left:
            continue
        kept[name] = value
        left -= size
    return kept


def size_bytes(properties: Mapping[str, str]) -> int:
    """Return the bytes of all names and values."""
    return sum(len(name) + len(value.encode(errors="replace")) for name, value in properties.items())


def number_of(text: str) -> float:
    """Return the number that a text reads as. ValueError: it is none, or no finite one."""
    found = float(text) if _NUMBER.fullmatch(text) else float("nan")
    if not isfinite(found):
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise ValueError(f"{shown!r} is no number")
    return found


def _text(name: str, value: object) -> str:
    """A value as the file has it: texts as they are, numbers as short as they can be written, booleans as TOML has
    them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and isfinite(value):
        return repr(value).removesuffix(".0")
    raise ValueError(f"properties.{name[:60]}: {_shown(value)} is no text and no finite number; write one")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else repr(value)[:60]
