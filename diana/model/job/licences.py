"""Licences that jobs want, by name and number. Between sites they travel among the names of what jobs need of a site
(`model/job/software.py`), so that a release that knows none of them has none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

COUNTED_THERE = "licences"
"""Name offered by a machine that counts its own licences, as a batch system does; all other machines share the
site's."""
MOST_LICENCES = 16
"""Kinds of licences that a job may want."""
MOST_OF_ONE = 1_000_000
_BEGINS = "licence "
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]{0,99}", re.ASCII)
NAMES = "letters, digits and . _ @ + -"

Counts = tuple[tuple[str, int], ...]
"""(name, how many), by name."""


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def check(licences: Mapping[str, int], where: str, least: int = 1) -> Counts:
    """Check the names and counts and return them in order of name. ValueError names the bad entry."""
    if len(licences) > MOST_LICENCES and least:
        raise ValueError(f"{where}: names {len(licences)}; want at most {MOST_LICENCES}")
    for name, count in licences.items():
        if not is_name(name):
            raise ValueError(f"{where}.{name[:60]}: no name of a licence; want {NAMES}")
        if not least <= count <= MOST_OF_ONE:
            raise ValueError(f"{where}.{name} = {count}: want {least} to {MOST_OF_ONE}")
    return tuple(sorted(licences.items()))


def plain(licences: Counts) -> bool:
    """True if these counts may stand in a spec, which may come from anywhere."""
    try:
        return check(dict(licences), "") == licences
    except (ValueError, TypeError):
        return False


def named(licences: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Names under which these counts, offered or wanted, travel between sites."""
    return tuple(f"{_BEGINS}{name} {count}" for name, count in licences if count > 0)


def is_licence(name: str) -> bool:
    return name.startswith(_BEGINS)


@lru_cache(1024)
def among(names: tuple[str, ...]) -> Counts:
    """The licences among these names, each with its largest count. Names that cannot be read are left out."""
    found: dict[str, int] = {}
    for one in names:
        name, _, count = one.removeprefix(_BEGINS).rpartition(" ") if is_licence(one) else ("", "", "")
        if is_name(name) and len(count) < 8 and count.isdecimal() and count.isascii() and int(count):
            found[name] = max(found.get(name, 0), int(count))
    return tuple(sorted(found.items()))


def lacking(offered: Iterable[str], asked: str) -> str:
    """Say why a site with these offers lacks the asked licence; empty: it has it."""
    wanted = among((asked,))
    if not wanted:
        return "has no such licence"
    ((name, count),) = wanted
    total = dict(among(tuple(sorted(one for one in offered if is_licence(one))))).get(name, 0)
    if total >= count:
        return ""
    return f"has {total} of the {count} licences of {name} a job needs" if total else f"has no licence of {name}"


def shown(name: str) -> str:
    """Return a licence's name as people read it; any other name unchanged."""
    return " and ".join(f"{count} of {kind}" for kind, count in among((name,))) or name
