"""Licences that jobs want, by name and number."""

from __future__ import annotations

import re
from collections.abc import Mapping

from diana.model.job.counts import CountNames, few, is_checked
from diana.model.job.counts import Counts as Counts

COUNTED_THERE = "licences"
"""Name offered by a machine that counts its own licences, as a batch system does; all other machines share the
site's."""
MOST_LICENCES = 16
"""Kinds of licences that a job may want."""
MOST_OF_ONE = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]{0,99}", re.ASCII)
NAMES = "letters, digits and . _ @ + -"


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
            raise ValueError(f"{where}.{name} = {few(count)}: want {least} to {MOST_OF_ONE}")
    return tuple(sorted(licences.items()))


def plain(counts: Counts) -> bool:
    """True if these counts may stand in a spec."""
    return is_checked(check, counts)


def why(name: str, wanted: int, had: int) -> str:
    """Say what there is of a licence and what is wanted, in words that follow the name of a site."""
    return f"has {had} of the {wanted} licences of {name} a job needs" if had else f"has no licence of {name}"


_AS_NAMES = CountNames("licence", is_name, why)
named, is_licence, among, lacking = _AS_NAMES.named, _AS_NAMES.is_one, _AS_NAMES.among, _AS_NAMES.lacking
"""Licences, offered or wanted, among the names of what jobs need of a site (`model/job/counts.py`)."""
