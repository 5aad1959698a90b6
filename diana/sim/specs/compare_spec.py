"""The comparisons of a scenario: which policies, under which loads, over how many seeds."""

from __future__ import annotations

from typing import Literal

import msgspec

SettingsTable = dict[str, float | int | bool | str | dict[str, float | int | str]]
"""Keys of diana/model/settings.py."""


class BrokerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The broker of `central = "egee"`."""

    job_s: float = 0.25
    """Time that each job takes of it: four jobs a second, which favours the broker. gLite's is said to have reached
    that in bulk submission at best."""
    refresh_s: float = 60.0
    """Time between two publications of the sites, which are then all as old as that. LCG's took minutes, for jobs of
    hours."""


class PolicySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to place the same work."""

    name: str
    """Name for the report, and for `compare`."""
    settings: SettingsTable = {}
    """Settings at every site, over the scenario's `settings` and the sites' own."""
    central: Literal["", "min-min", "sufferage", "first-start", "egee"] = ""
    """A central scheduler instead of the engine; only the simulator has it. The first three see everything at no cost;
    `egee` is a broker by old information."""
    broker: BrokerSpec = BrokerSpec()
    """Cost and knowledge of the broker of `egee`."""


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
