"""Resources that operators declare of their machines by a name of their own (`[resources]` in `site.toml`), and that
jobs ask for by the same name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice

from diana.model.job.counts import CountNames, Counts, few, is_checked

MOST_DECLARED = 16
"""Declared resources of one machine, or that one job may ask for."""
MOST_AMOUNT = 1_000_000
"""Units of a resource that one machine may have, but for sizes in bytes."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
NAMES = "a small letter, then small letters, digits, - and _, 40 at most"
_TAKEN = (
    "cpus", "processors", "memory", "memory_bytes", "time", "gpus", "licences", "scratch", "scratch_bytes", "work",
    "retries", "max_parallel", "max_subgroup", "division",
)  # fmt: skip
"""Names that job files have for something else."""
_MEANT = {"cores": "cpus", "mem": "memory", "ram": "memory", "walltime": "time"}
"""Names that other systems have for those."""


def check_name(name: str) -> None:
    """ValueError for what cannot be the name of a declared resource, or looks like a slip of the pen."""
    if name in _TAKEN:
        raise ValueError("has a key of its own; leave it out here")
    if close := nearest(name):
        raise ValueError(f"too near to another key; did you mean {close}?")
    if not _NAME.fullmatch(name):
        raise ValueError(f"no name of a resource; want {NAMES}")


def may_be(name: str) -> bool:
    """True if `check_name` has nothing against it."""
    try:
        check_name(name)
    except ValueError:
        return False
    return True


def nearest(name: str) -> str:
    """Return the key that a slip of the pen looks like; empty: none."""
    # Two letters changed places: by its ratio such a word is as far from the key as another one of its length.
    swapped = (key for key in _TAKEN if sorted(key) == sorted(name))
    close = get_close_matches(name[:60], _TAKEN, 1, 0.8)
    return _MEANT.get(name) or next(swapped, "") or next(iter(close), "")


def check(counts: Mapping[str, int], where: str, least: int = 1) -> Counts:
    """Check declared names and counts and return them in order, those of 0 left out. ValueError names the bad entry."""
    if len(counts) > MOST_DECLARED:
        raise ValueError(f"{where}: names {len(counts)} resources; want at most {MOST_DECLARED}")
    for name, count in counts.items():
        try:
            check_name(name)
        except ValueError as error:
            raise ValueError(f"{where}.{name[:60]}: {error}") from None
        if not least <= count <= MOST_AMOUNT:
            raise ValueError(f"{where}.{name}: {few(count)} is out of range; want {least} to {MOST_AMOUNT}")
    return tuple(sorted((name, count) for name, count in counts.items() if count > 0))


def plain(counts: Counts) -> bool:
    """True if these counts may stand in a spec."""
    return is_checked(check, counts)


def sane(told: Iterable[tuple[str, int]]) -> Counts:
    """Return what a peer or machine tells of declared resources, without what makes no sense: at most `MOST_DECLARED`,
    none above `MOST_AMOUNT`."""
    good = ((name, min(count, MOST_AMOUNT)) for name, count in told if count > 0 and _NAME.fullmatch(name))
    return tuple(sorted(dict(islice((one for one in good if one[0] not in _TAKEN), MOST_DECLARED)).items()))


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def why(name: str, wanted: int, had: int) -> str:
    """Say what there is of a resource and what is wanted, in words that follow the name of a site or machine."""
    return f"has {had} of the {wanted} {name} a job needs" if had else f"has no {name}"


_AS_NAMES = CountNames("resource", _is_name, why)
named, is_named, among, lacking = _AS_NAMES.named, _AS_NAMES.is_one, _AS_NAMES.among, _AS_NAMES.lacking
"""Declared amounts among the names of what jobs need of a site (`model/job/counts.py`)."""
