"""The `[[events]]` of a scenario: things that happen at a given time, in the simulator and on real nodes alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from diana.sim.specs.names import known, unique

EventKind = Literal["kill", "stop", "restart", "partition", "heal", "load", "drain", "undrain", "slots"]


class EventSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that happens for sure, unlike `faults`, which are drawn."""

    at_s: float
    """Time when it happens."""
    kind: EventKind
    """`kill`: the machines of these sites lose power, jobs and all; of a site with a standby the one that leads.
    `stop`: their nodes are stopped (SIGSTOP) for `for_s`, jobs go on. `restart`: those that were killed are started
    again, the nodes of others end and start anew while their jobs go on. `partition`: these sites are cut from all
    others. `heal`: partitions of these sites end. `load`: what runs or starts there takes `times` as long, since others
    use those machines; in the simulator alone. `drain`: their operators have them take no new work. `undrain`: they
    take work again. `slots`: their own machines have so many from then on; in the simulator alone, and
    not at sites with a standby."""
    sites: tuple[str, ...] = ()
    """Sites it happens to; empty: all, for `restart` (those that were killed) and `heal`; the others want at least
    one."""
    for_s: float = 0.0
    """Seconds until a `kill`, `stop`, `partition`, `load` or `drain` is over by itself; 0: until a `restart`, `heal` or
    `undrain`."""
    times: float = 1.0
    """How many times as long jobs take under a `load`."""
    slots: int = 0
    """How many slots there are from then on; of `slots` alone."""


def check_events(events: Sequence[EventSpec], sites: Sequence[str]) -> None:
    """ValueError names the event, the key and the range."""
    for number, event in enumerate(events):
        at = f"events[{number}] ({event.kind})"
        for site in event.sites:
            known(site, sites, f"{at}: sites")
        unique(event.sites, f"{at}: sites")
        if not (0 <= event.at_s <= 1e9 and 0 <= event.for_s <= 1e9):
            raise ValueError(f"{at}: at_s = {event.at_s}, for_s = {event.for_s}: want 0 to 1e+09")
        if event.kind not in ("restart", "heal") and not event.sites:
            raise ValueError(f"{at}: sites: none; name at least one")
        if event.kind == "partition" and len(event.sites) >= len(sites):
            raise ValueError(f"{at}: sites: all {len(sites)} of them; leave at least one on the other side")
        if not (1 <= event.times <= 1000) or (event.kind != "load" and event.times != 1):
            raise ValueError(f"{at}: times = {event.times:g}: want 1 to 1000, of a load alone")
        if not (0 <= event.slots <= 1_000_000) or (event.kind != "slots" and event.slots):
            raise ValueError(f"{at}: slots = {event.slots}: want 0 to 1000000, of a change of slots alone")
        if event.kind == "stop" and event.for_s <= 0:
            raise ValueError(f"{at}: for_s = {event.for_s:g}: want how long, above 0")
        if event.kind in ("restart", "heal", "undrain", "slots") and event.for_s:
            raise ValueError(f"{at}: for_s = {event.for_s:g}: it happens at once; leave for_s out")
