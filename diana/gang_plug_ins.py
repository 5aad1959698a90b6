"""Placement policies of gangs by name: those of the papers, and those that an operator installed under the entry-point
group `diana.gang_policies` (SPEC K2). Nodes and the simulator hand the engine what `policies` returns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from diana.errors import said
from diana.policy.gang.installed import broken, checked
from diana.policy.gang.policies import OWN_NAMES, POLICIES, GangPolicy, unknown

GROUP = "diana.gang_policies"
"""Group of entry points, each a `GangPolicy`. A name that diana has itself stays diana's."""


@cache
def policies() -> Mapping[str, GangPolicy]:
    """Return all policies by name, read once. One that does not load says so where it is asked for a place."""
    own = {one.name: _loaded(one) for one in entry_points(group=GROUP) if one.name not in OWN_NAMES}
    return {**own, **POLICIES}


def _loaded(point: EntryPoint) -> GangPolicy:
    try:
        found = point.load()
    except (Exception, SystemExit) as fault:  # A plug-in's module may raise anything.
        return broken(point.name, said(fault))
    return checked(point.name, found) if callable(found) else broken(point.name, f"{point.value} is no function")


def check(name: str, where: str) -> None:
    """Check a name that a file gives, empty for none. ValueError: one line with the nearest name."""
    if name and name not in OWN_NAMES and name not in policies():
        raise ValueError(f"{where}: {unknown(name, {*OWN_NAMES, *policies()})}")
