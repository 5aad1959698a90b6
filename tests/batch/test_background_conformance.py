"""A cluster over a batch system of plain processes, which is a plug-in: the example's."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from diana.adapters.batch.array import script
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.system import BatchRefused, BatchUnreachable, ClusterCapacity, Seen, Stage
from diana.engine.journal.effects import RenewLease
from diana.engine.journal.events import LrmSized, RunsSeen
from diana.model.facts import Outcome
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from tests.batch.cluster_builders import ClusterSite
from tests.batch.conforming import *  # noqa: F403
from tests.batch.holding import *  # noqa: F403
from tests.batch.plugin import installed
from tests.contract.lrm_builders import Site, shell
from tests.runs import SOAK

ORIGIN = SiteId("beta")


@pytest.fixture(autouse=True)
def plugin(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On a machine of four processors, whichever this one is."""
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    with installed(tmp_path_factory.mktemp("plugin")):
        yield


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made: list[ClusterSite] = []

    async def make(slots: int = 2) -> ClusterSite:
        place = str(tmp_path / f"background-{len(made)}")
        settings = ClusterSettings(kind="background", config=place, slots=slots, look_s=0.1, ask_s=0.3, settle_s=0.5)
        made.append(ClusterSite(tmp_path / str(len(made)), settings))
        made[-1].brief_s = 1.5
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


async def leased(at: ClusterSite, until_s: float) -> Outcome:
    """How a job of ten minutes ended that runs under a lease which stands for so long."""
    if until_s:
        at.lrm.lease(RenewLease(origin=ORIGIN, until_s=time.monotonic() + until_s))
    at.start(shell("sleep 600"), 0, lease=ORIGIN)
    (end,) = await at.ended(1)
    return end.outcome


async def test_a_job_without_a_lease_does_not_start(site: Site) -> None:
    assert await leased(await site(), 0.0) is Outcome.LEASE_OVER


async def test_a_job_ends_with_its_lease_though_the_node_is_away(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "LEASE_LOOK_S", 0.2)
    at = await site()
    began_s = time.monotonic()
    assert await leased(at, 2.0) is Outcome.LEASE_OVER
    took_s = time.monotonic() - began_s
    assert took_s > 1.0 and (not SOAK or took_s < 12.0)


async def test_a_job_that_ends_before_its_lease_is_done(site: Site) -> None:
    at = await site()
    at.lrm.lease(RenewLease(origin=ORIGIN, until_s=time.monotonic() + 600.0))
    at.start(shell("exit 4"), 0, lease=ORIGIN)
    (end,) = await at.ended(1)
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 4)


async def test_what_any_job_is_refused_goes_back_to_the_site(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    at = await site()

    def refuse(*_: object) -> str:
        raise BatchRefused("no such account", every=True)

    monkeypatch.setattr(type(at.lrm._system), "submit", refuse)  # type: ignore[attr-defined]
    at.start(shell("true"), 0, 1)
    await at.until(lambda: at.readies() == 2)
    assert (at.ready().slots, at.losses()) == (0, 1)
    assert at.ready().trouble == "background refuses: no such account"
    assert {end.outcome for end in await at.ended(2)} == {Outcome.UNBEGUN}


async def test_a_cluster_full_of_others_jobs_tells_when_it_would_start_one_until_some_of_ours_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await site()
    system = type(at.lrm._system)  # type: ignore[attr-defined]
    monkeypatch.setattr(system, "starts_in_s", lambda _: 120.0)
    monkeypatch.setattr(system, "capacity", lambda _: ClusterCapacity(version="1", slots=4, others=4, widest=4))
    sizes = lambda: [event for event in at.events if isinstance(event, LrmSized)]  # noqa: E731
    await at.until(lambda: bool(sizes()) and sizes()[-1].delay_s == 120.0)
    assert sizes()[-1].slots == 1
    at.start(shell("sleep 600"), 0)
    await at.until(lambda: sizes()[-1].delay_s == 0.0)


async def test_only_jobs_that_listings_showed_for_a_while_are_told_as_seen_to_run(site: Site) -> None:
    at = await site()
    assert at.ready().looks
    at.start(shell("[ $DIANA_INDEX = 1 ] || sleep 600; exit 1"), 0, 1)
    seen = lambda: [event.ages for event in at.events if isinstance(event, RunsSeen)]  # noqa: E731
    await at.until(lambda: bool(seen()) and seen()[-1][-1][0] >= 5.0)
    assert [sum(jobs for age_s, jobs in ages if age_s >= 4.0) for ages in seen()][-1] == 1
    assert all(sum(jobs for age_s, jobs in ages if age_s >= 4.0) <= 1 for ages in seen())
    assert seen()[0][0][0] < 4.0
    # Told when it is news, not at each look.
    assert len(seen()) == len(set(seen()))


async def test_what_waits_at_the_barrier_is_told_again_once_the_cluster_is_ready_again(site: Site) -> None:
    at = await site()
    at.start(shell("true"), 0, barrier_s=time.monotonic() + 600.0)
    await at.until(lambda: at.at_barrier() == {0})
    asked_s = at.lrm._asked_s  # type: ignore[attr-defined]
    await at.until(lambda: at.lrm._asked_s > asked_s + 0.5)  # type: ignore[attr-defined]
    assert not any(event.ages for event in at.events if isinstance(event, RunsSeen)), "nothing of it has run"
    at.events.clear()
    at.lrm._lose("it does not answer")  # type: ignore[attr-defined]
    await at.until(lambda: at.at_barrier() == {0})
    assert at.readies() == 1
    at.go(0)
    assert [end.outcome for end in await at.ended(1)] == [Outcome.DONE]


async def test_the_operators_lines_come_before_each_job_and_a_scratch_directory_goes_after_it(tmp_path: Path) -> None:
    settings = ClusterSettings(
        kind="background",
        config=str(tmp_path / "b"),
        slots=1,
        look_s=0.1,
        setup=("GREETING='hello you'; export GREETING",),
    )
    at = ClusterSite(tmp_path / "site", settings)
    await at.up()
    at.start(shell('echo "$GREETING, $PWD"; touch left; [ "$PWD" = "$TMPDIR" ]'), 0)
    (end,) = await at.ended(1)
    told, _, scratch = at.log(end).strip().partition(", ")
    assert (end.outcome, told) == (Outcome.DONE, "hello you")
    assert not Path(scratch).exists()
    await at.down()


async def test_an_end_is_told_though_the_batch_system_falls_silent_in_the_same_turn(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await site()
    system = type(at.lrm._system)  # type: ignore[attr-defined]

    def never(_: object) -> list[Seen]:
        held = at.lrm._book._arrays.values()  # type: ignore[attr-defined]
        return [Seen("1", array.token, IndexSet.of([0]), Stage.WAITING, never=True) for array in held]

    def silent(*_: object) -> None:
        raise BatchUnreachable("socket timed out")

    monkeypatch.setattr(system, "submit", lambda *_: "1")
    monkeypatch.setattr(system, "listing", never)
    monkeypatch.setattr(system, "cancel", silent)
    at.start(shell("true"), 0)
    (end,) = await at.ended(1)
    assert (end.outcome, at.losses()) == (Outcome.NOT_STARTED, 0)
