"""Results by outcome: pages of a large group, which read the chunks they have rows in and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diana.adapters.sqlite_store.store import SqliteStore
from diana.engine.journal import columns
from diana.engine.journal.events import Ask
from diana.engine.views import ended
from diana.model.facts import Facts, FactsKey, Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import FinishedSet, IndexSet
from diana.model.trust.principal import Principal, Role
from diana.model.views.views import ENDINGS, EndedJobs
from diana.node.api import chunks, ended_logs
from diana.node.api import ended as pages
from diana.ports import Batch
from diana.wire.client import messages as wire

GROUP = GroupId("alpha-1")
JOBS, CHUNK = 100_000, 1000


class Counted(SqliteStore):
    read = 0

    def numbered_chunk(self, group: GroupId, number: int) -> tuple[FactsKey, Facts] | None:
        self.read += 1
        return super().numbered_chunk(group, number)


def chunk(store: SqliteStore, batch: int, indices: list[int], site: str, outcome: Outcome, part: int = 0) -> None:
    count = len(indices)
    facts = columns.never_ran(SiteId(site), indices, [1 + part] * count, [int(outcome)] * count, 1, [], 5.0)
    key = FactsKey(group=GROUP, subgroup=SubgroupId(f"{GROUP}/{part}"), epoch=1 + part, batch=batch)
    store.commit(Batch(at_s=1.0, records=(b"r",), facts=((key, facts),)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Counted]:
    made = Counted(tmp_path / "journal.db")
    yield made
    made.close()


def read(store: SqliteStore, places: chunks.Places, page: EndedJobs) -> list[tuple[str, list[int], list[str]]]:
    found = chunks.read(store, places, GROUP, page)
    return [(facts.site, facts.indices, [Outcome(one).name for one in facts.outcomes]) for facts in found]


def failed(*indices: int, jobs: int = JOBS) -> EndedJobs:
    return EndedJobs(jobs=jobs, by_ending=(("failed", IndexSet.of(indices)),))


def test_a_page_reads_the_chunks_it_has_rows_in_and_no_others(store: Counted) -> None:
    for batch in range(JOBS // CHUNK):
        # As results arrive: in no order.
        indices = [(index * 7919) % JOBS for index in range(batch * CHUNK, (batch + 1) * CHUNK)]
        chunk(store, batch, indices, "beta" if batch % 2 else "alpha", Outcome.FAILED)
    places = chunks.Places()
    where = {(k * 7919) % JOBS: k // CHUNK for k in range(JOBS)}
    wanted = sorted(index for index, batch in where.items() if batch in (3, 4))[:40]
    found = read(store, places, failed(*wanted))
    assert [site for site, _, _ in found] == ["alpha", "beta"]
    assert sorted(index for _, indices, _ in found for index in indices) == wanted
    assert all(indices == sorted(indices) for _, indices, _ in found)
    assert store.read == 2
    # What came since is learned without a second look at what was there.
    chunk(store, JOBS // CHUNK, [wanted[0]], "gamma", Outcome.TIMED_OUT)
    assert read(store, places, failed(wanted[0])) == [("gamma", [wanted[0]], ["TIMED_OUT"])]
    assert store.read == 3


def test_what_was_tried_again_shows_its_newest_result_and_what_never_ran_shows_as_that(store: Counted) -> None:
    chunk(store, 0, [0, 1, 2], "alpha", Outcome.FAILED)
    chunk(store, 0, [1], "beta", Outcome.FAILED, part=1)
    part = SubgroupId(f"{GROUP}/0")
    page = EndedJobs(
        jobs=6,
        by_ending=(("failed", IndexSet.of((0, 1))), ("cancelled", IndexSet.of((2, 5)))),
        superseded=((part, IndexSet.of((1, 2))),),
    )
    assert read(store, chunks.Places(), page) == [
        ("alpha", [0], ["FAILED"]),
        ("beta", [1], ["FAILED"]),
        # Job 2 was cancelled before it ran again: its old result counts no more.
        ("", [2, 5], ["CANCELLED", "CANCELLED"]),
    ]


def test_what_ended_with_its_gang_says_so_unless_it_has_a_line_of_its_own(store: Counted) -> None:
    chunk(store, 0, [0, 1, 2], "alpha", Outcome.CANCELLED)
    why = ((0, "ended with its gang"), (3, "ended with its gang, too"))
    page = EndedJobs(jobs=6, by_ending=(("cancelled", IndexSet.of((0, 1, 3))),), with_gangs=why)
    found = chunks.read(store, chunks.Places(), GROUP, page)
    assert [(facts.indices, [(one.index, one.text) for one in facts.errors]) for facts in found] == [
        ([0, 1], [why[0]]),
        ([3], [why[1]]),
    ]


def test_a_merge_command_is_no_job_and_few_groups_are_kept_in_mind(
    store: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk(store, 0, [0, 1], "alpha", Outcome.DONE)
    chunk(store, 0, [2], "alpha", Outcome.DONE, part=1)
    monkeypatch.setattr(chunks, "MOST_KEPT_JOBS", 1)
    monkeypatch.setattr(chunks._Known, "__init__", lambda *_: pytest.fail("room for all jobs of a group too large"))
    places = chunks.Places()
    for _ in range(2):
        assert read(store, places, failed(0, 1, jobs=2)) == [("alpha", [0, 1], ["DONE", "DONE"])]
    assert not places._groups


def test_a_page_of_a_group_too_large_to_be_kept_in_mind_reads_what_it_has_rows_in(
    store: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MOST_KEPT_JOBS", 100)
    for batch in range(20):
        # Jobs end about in their order.
        chunk(store, batch, [*range(batch * 50, batch * 50 + 60, 2), batch * 50 + 1], "alpha", Outcome.FAILED)
    chunk(store, 0, [500], "beta", Outcome.FAILED, part=1)
    places = chunks.Places()
    assert read(store, places, failed(*range(400, 410, 2))) == [("alpha", [*range(400, 410, 2)], ["FAILED"] * 5)]
    assert store.read == 2
    learned: list[int] = []
    monkeypatch.setattr(chunks._Spans, "learn", lambda _, number, __: learned.append(number))
    assert [site for site, *_ in read(store, places, failed(500, 502))] == ["alpha", "beta"]
    assert store.read <= 5 and not learned
    assert read(store, places, failed(501)) == [("alpha", [501], ["FAILED"])]


def test_one_log_of_a_large_group_is_found_in_one_chunk(store: Counted) -> None:
    for batch in range(10):
        chunk(store, batch, list(range(batch * CHUNK, (batch + 1) * CHUNK)), "alpha", Outcome.FAILED)
    desk: Any = SimpleNamespace(door=SimpleNamespace(store=store), places=chunks.Places())
    view: Any = SimpleNamespace(group=GROUP, indices=10 * CHUNK, superseded=())
    assert list(ended_logs.spots_of(desk, view, range(4711, 4712))) == [4711]
    assert store.read == 1
    assert len(ended_logs.spots_of(desk, view, range(2 * CHUNK, 4 * CHUNK))) == 2 * CHUNK
    assert store.read == 3


def a_group(jobs: int, **endings: IndexSet) -> Any:
    made = SimpleNamespace(jobs=jobs, subgroups={}, spec=SimpleNamespace(is_gang=False))
    for name in ENDINGS:
        some = FinishedSet()
        some.add_set(endings.get(name, IndexSet()))
        setattr(made, name, some)
    return made


def test_pages_of_the_engine_leave_nothing_out_and_give_nothing_twice() -> None:
    jobs = 300_000
    lost = IndexSet.of((3, 5000, 70_000, 299_998))
    group = a_group(jobs, done=IndexSet.span(0, jobs) - lost, failed=lost)
    for outcome, most, wanted in (("failed", 1, lost), ("failed", 3, lost), ("ended", 0, IndexSet.span(0, jobs))):
        first, seen, asked = 0, IndexSet(), 0
        while first >= 0:
            page = ended.page(group, outcome, first, most)
            here = IndexSet.union(some for _, some in page.by_ending)
            assert not seen & here and len(here) <= (most or ended.MOST_JOBS)
            assert page.next < 0 or page.next > first
            seen, first, asked = seen | here, page.next, asked + 1
        assert seen == wanted
        assert asked <= len(wanted) // (most or ended.MOST_JOBS) + 1
    assert ended.page(group, "held", 0, 10).next == -1
    assert ended.page(group, "failed", jobs + 5, 10).next == -1


@pytest.mark.parametrize(("most", "told"), [(0, 10_000), (3 * pages.PAGE_JOBS, 3 * pages.PAGE_JOBS), (2500, 2500)])
def test_all_pages_of_a_large_group_are_told_once_and_end(store: Counted, most: int, told: int) -> None:
    jobs, asked = 10_000, 0
    group = a_group(jobs, cancelled=IndexSet.span(0, jobs))

    async def answer(_: object, make: Callable[[int], Ask]) -> EndedJobs:
        nonlocal asked
        asked += 1
        assert asked < 10, "it asks for ever"
        ask = make(asked)
        return ended.page(group, ask.outcome, ask.first, ask.limit)

    async def all_pages() -> list[int]:
        desk: Any = SimpleNamespace(request=answer, door=SimpleNamespace(store=store), places=chunks.Places())
        caller = Principal(Role.USER, "ann@alpha-vo")
        request = wire.ResultsRequest(group=GROUP, outcome="ended", most=most)
        found = pages.pages(desk, caller, GROUP, request)
        return [index async for _, facts in found for index in facts.indices]

    assert asyncio.run(all_pages()) == list(range(told))
