"""The short list of a placement comes from a table kept in step with summaries (SPEC D1; PERFORMANCE P3)."""

from __future__ import annotations

import time
from statistics import median

import pytest

from diana.engine.engine import Engine
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.engine.placement import quote_round
from diana.engine.placement.candidates import NOT_ASKED
from diana.engine.placement.draft import Draft, Probe
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from tests.engine.bench import Grid
from tests.engine.builders import spec, whole

PROBE = Probe(lambda _: None)


def hello(site: str) -> ms.Hello:
    return ms.Hello(
        site=SiteId(site),
        protocol=1,
        release="t",
        capabilities=(),
        db_uuid=f"db-{site}",
        generation=1,
        boot_nonce=site,
        seq=0,
        term=0,
        data_address="",
    )


def summary(site: str, counter: int, slots: int, ahead_s: float, datasets: tuple[str, ...] = ()) -> ms.Summary:
    return ms.Summary(
        site=SiteId(site),
        generation=1,
        counter=counter,
        seq=0,
        slots=slots,
        free_slots=0,
        speed=1.0,
        queued_jobs=0,
        running_jobs=0,
        work_ahead_s=ahead_s,
        datasets=datasets,
        accepting=True,
    )


def many(sites: int) -> tuple[Grid, Engine]:
    grid = Grid(alpha=1)
    engine = grid["alpha"].engine
    for n in range(sites):
        peer = engine.core.view.met(hello(f"s{n}"))
        peer.up, peer.last_heard_s = True, grid.now
        peer.summary = summary(f"s{n}", 1, 10 + n % 7, 100.0 * n)
        engine.core.roster.touch(SiteId(f"s{n}"))
    return grid, engine


def short_list(engine: Engine, wanted: GroupSpec, jobs: int, refs: tuple[tuple[str, IndexSet], ...] = ()) -> list[str]:
    return list(quote_round._short_list(engine.core, Draft(1, wanted, whole(jobs), refs, owner="", purpose=PROBE)))


def test_those_are_asked_where_the_group_would_end_first() -> None:
    _, engine = many(200)
    asked = short_list(engine, spec(10, work_s=10.0), 10)
    assert len(asked) == quote_round.SHORT_LIST
    assert "s0" in asked
    # Nobody far behind.
    assert max(int(site[1:]) for site in asked) < 40


def test_the_table_follows_summaries_ends_of_streams_and_silence() -> None:
    grid, engine = many(200)
    engine.handle(ev.PeerDown(SiteId("s0")), grid.now)
    engine.handle(ev.Received(SiteId("s1"), summary("s1", 2, 10, 1e9)), grid.now)
    engine.handle(ev.Received(SiteId("s150"), summary("s150", 2, 500, 0.0)), grid.now)
    asked = short_list(engine, spec(10, work_s=10.0), 10)
    assert "s150" in asked
    assert "s0" not in asked
    assert "s1" not in asked
    later = grid.now + engine.core.state.settings.suspect_after_s + 1.0
    engine.handle(ev.Received(SiteId("s160"), summary("s160", 2, 10, 0.0)), later)
    assert short_list(engine, spec(10, work_s=10.0), 10) in ([], ["s160"]), "the others have fallen silent"


def test_who_holds_data_is_asked_however_busy_and_who_is_named_too() -> None:
    grid, engine = many(200)
    engine.handle(ev.Received(SiteId("s190"), summary("s190", 2, 10, 1e9, ("big",))), grid.now)
    assert "s190" in short_list(engine, spec(10), 10, (("dataset:big/f", whole(10)),))
    assert short_list(engine, spec(10, sites=("s180", "s170", "nowhere")), 10) == ["s170", "s180"]


def test_a_decision_in_a_large_grid_has_rows_of_those_asked_and_counts_the_rest() -> None:
    grid, engine = many(200)
    alpha = grid["alpha"]
    alpha.submit(spec(1), 1, 5, plan_only=True, settle=False)
    grid.post_box.clear()
    grid.now += engine.core.state.settings.quote_wait_s + 0.1
    alpha.handle(ev.Tick())
    made = alpha.replies[5]
    decision = made.decision  # type: ignore[attr-defined]
    assert len(decision.candidates) == 1 + quote_round.SHORT_LIST
    assert [(r.reason, r.sites) for r in decision.reasons] == [(NOT_ASKED, 200 - quote_round.SHORT_LIST)]


@pytest.mark.parametrize("sites", [10_000])
def test_ten_thousand_sites_are_no_loop(sites: int) -> None:
    """Coarse; the goal of P3 is measured by the benchmarks."""
    _, engine = many(sites)
    wanted = spec(10, work_s=10.0)
    short_list(engine, wanted, 10)
    times = []
    for _ in range(15):
        began = time.thread_time()
        short_list(engine, wanted, 10)
        times.append(time.thread_time() - began)
    assert median(times) < 0.01
