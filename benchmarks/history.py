"""A store as a busy site has it: a million jobs known, half of them finished in random order, 1 % failed.

Jobs start in order of their index, some ten thousand run at once, and any of these may end next. Written with the
engine's own records into a real node's journal, since running them would take the benchmark minutes.
"""

from __future__ import annotations

import random
from pathlib import Path

from diana.adapters.sqlite_store.store import SqliteStore
from diana.engine.journal import codec, records
from diana.model.facts import Facts, Outcome
from diana.model.ids import GroupId, SiteId, subgroup_id
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir
from diana.ports import Batch

BATCH = 5_000
RUNNING = 10_000
FIRST = 1_000
"""Indices below are left to the node, which has started some of them."""


def finish_at_random(data: Path, site: SiteId, group: GroupId, jobs: int, seed: int = 1) -> int:
    """Gives half the jobs of a group placed whole at home their results, while its node is down; how many. Those that
    were running then come back as jobs nobody knows the end of."""
    rng = random.Random(seed)
    running: list[int] = []
    store = SqliteStore(DataDir(data).journal)
    try:
        store.load()
        for number, start in enumerate(range(FIRST, FIRST + jobs // 2 + RUNNING, BATCH)):
            running += range(start, start + BATCH)
            rng.shuffle(running)
            count = BATCH if len(running) > RUNNING else 0
            ended, running = sorted(running[:count]), running[count:]
            store.commit(_batch(site, group, number, IndexSet.span(start, start + BATCH), ended))
    finally:
        store.close()
    return start + BATCH - FIRST - len(running)


def _batch(site: SiteId, group: GroupId, number: int, started: IndexSet, indices: list[int]) -> Batch:
    subgroup = subgroup_id(group, 0)
    ended = IndexSet.of(indices)
    failed = IndexSet.of(index for index in indices if index % 100 == 0)
    told: tuple[records.Record, ...] = (
        records.RunsStarted(subgroup=subgroup, epoch=1, indices=started),
        records.RunsEnded(subgroup=subgroup, epoch=1, batch=number, ended=ended),
        records.ResultAccepted(
            subgroup=subgroup,
            epoch=1,
            batch=number,
            done=ended - failed,
            failed=failed,
            first_start_s=0.1,
            last_end_s=9.0,
        ),
    )
    key = records.facts_key(subgroup, 1, number)
    return Batch(
        at_s=1000.0 + number,
        records=tuple(codec.encode(record) for record in told),
        facts=((key, _facts(site, indices, failed)),),
    )


def _facts(site: SiteId, indices: list[int], failed: IndexSet) -> Facts:
    count = len(indices)
    codes = [int(index in failed) for index in indices]
    return Facts(
        site=site,
        indices=indices,
        attempts=[1] * count,
        outcomes=[Outcome.FAILED if code else Outcome.DONE for code in codes],
        exit_codes=codes,
        started_s=[5.0] * count,
        ended_s=[9.0] * count,
        cpu_s=[3.5] * count,
        max_rss_bytes=[8 << 20] * count,
        log_segments=["" for _ in indices],
        log_offsets=[0] * count,
        log_lengths=[0] * count,
        log_truncated=[False] * count,
    )
