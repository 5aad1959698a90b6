"""Power cuts, played on a recording: at each moment that is wanted, each image that a cut may leave is given to the
real readers."""

from __future__ import annotations

import random
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from diana.adapters.lrm.spawner.claims.claimlog import LogDamaged
from diana.adapters.lrm.spawner.claims.logmark import boot_id
from diana.errors import DianaError
from tests.real.durable.calls import Call
from tests.real.durable.disk import NAMES, SYNCS, WRITES
from tests.real.durable.images import Image, booted, images, write
from tests.real.durable.kept import FILES, lacking, missing_records, read
from tests.real.durable.rules import SENDS, SiteRules

_IN_MEMORY = Path("/dev/shm")
_MOST_SHOWN = 12

Moments = Iterable[tuple[Call, bool]]


@dataclass
class Node:
    """A recorded node. `leader`: for a standby, that of its site: what that one acknowledged since both are in sync
    must be here."""

    name: str
    site: str
    rules: SiteRules
    leader: SiteRules | None = None


@dataclass
class Verdict:
    cuts: int = 0
    images: int = 0
    lost: list[str] = field(default_factory=list)
    cautious: int = 0
    """Images whose claim log has a hole, so that jobs are held that never began."""

    def figures(self) -> str:
        return (
            f"{self.cuts} moments, {self.images} images; {len(self.lost)} losses, {self.cautious} holes in claim logs"
        )

    def story(self) -> str:
        """One of each kind of loss."""
        alike = {re.sub(r"[0-9a-f/-]*\d[\w/.-]*", "N", line): line for line in reversed(self.lost)}
        return "\n".join(list(alike.values())[-_MOST_SHOWN:])


def is_moment(call: Call, end: bool, *, every_write: bool) -> bool:
    """Before and after each sync, and whenever something leaves or starts; also after each write, where wanted."""
    if call.name in SYNCS:
        return True
    if call.name in SENDS or call.name == "execve":
        return not end
    return every_write and end and (call.name in WRITES or call.name in NAMES)


def wanted(moments: list[tuple[Call, bool]], most: int, chance: random.Random) -> set[int]:
    """`most`: so many of them, by chance; 0: all there are."""
    places = [at for at, (call, end) in enumerate(moments) if is_moment(call, end, every_write=not most)]
    return set(places if not most or most >= len(places) else chance.sample(places, most))


def cut(
    moments: list[tuple[Call, bool]],
    of: Mapping[int, Node],
    most: int,
    chance: random.Random,
) -> Verdict:
    """`of`: whose calls a recording holds, by its number."""
    verdict, places, seen = Verdict(), wanted(moments, most, chance), dict[int, tuple[int, ...]]()
    for at, (call, end) in enumerate(moments):
        source = call.began[1] >> 40
        node = of[source]
        rules = node.rules
        rules.feed(call, end)
        if at not in places:
            continue
        now = _state(rules) + (_state(node.leader) if node.leader is not None else ())
        if seen.get(source) == now:
            continue
        seen[source] = now
        verdict.cuts += 1
        for kind, made in images(rules.disk, chance, FILES):
            verdict.images += 1
            for why in _judged(made, node, verdict):
                verdict.lost.append(f"cut {at} at {node.name} ({kind}; {call.name} {call.on}): {why}")
    return verdict


def _state(rules: SiteRules) -> tuple[int, ...]:
    told = (rules.told_groups, rules.told_done, rules.executed, rules.ordered, rules.told_datasets, rules.told_steps)
    return (rules.disk.changes, *map(len, told), len(rules.clusters.submitted))


def _judged(made: Image, node: Node, verdict: Verdict) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="diana-cut-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as name:
        write(booted(made, boot_id()), Path(name))
        try:
            kept = read(Path(name), node.site)
        except (DianaError, LogDamaged, sqlite3.Error) as fault:
            yield f"refused: {fault}"
            return
        verdict.cautious += kept.cautious
        if node.leader is None:
            yield from lacking(kept, node.rules)
        else:
            yield from missing_records(kept, node.leader, node.leader.in_sync_s)
