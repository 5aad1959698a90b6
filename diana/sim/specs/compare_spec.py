"""The comparisons of a scenario: which policies, under which loads, over how many seeds."""

from __future__ import annotations

from typing import Literal

import msgspec

SettingsTable = dict[str, float | int | bool | str | dict[str, float]]
"""Keys of diana/model/settings.py."""


class PolicySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to place the same work."""

    name: str
    """Name for the report, and for `compare`."""
    settings: SettingsTable = {}
    """Settings at every site, over the scenario's `settings` and the sites' own."""
    central: Literal["", "min-min", "sufferage", "first-start"] = ""
    """A scheduler that sees everything at no cost, instead of the engine; only the simulator has it."""


class CompareSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every policy under every load and seed."""

    policies: tuple[str, ...] = ()
    """Names of `[[policies]]`, in the order shown; empty: all of them."""
    loads: tuple[float, ...] = (1.0,)
    """Factors by which work comes faster; of a workload with `load = 1.0` these are the loads themselves."""
    seeds: int = 10
    """Number of seeds each policy is run with."""
    warm_up: float = 0.1
    """Share of the time, at its beginning and at its end, whose submitted jobs are not measured."""
    baseline: str = ""
    """The policy that the others' differences are taken from; empty: the first."""
