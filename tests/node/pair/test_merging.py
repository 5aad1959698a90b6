"""A merge command of a site with two machines starts once, is killed once, and its end is told whatever comes between
(SPEC J5, D8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from diana.adapters.staging.outputs.beside import Beside
from diana.engine.journal import effects as fx
from diana.engine.journal.events import Event, JobsEnded
from diana.model.facts import Outcome, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from diana.node.pair.merging import Merging
from tests.adapters.staging_grid import GROUP, TestSite, grid, sha, write

MERGE = SubgroupId("alpha-1/1")
START = fx.Start(
    session=1,
    subgroup=MERGE,
    epoch=2,
    owner="ann",
    spec=GroupSpec(argv=("sh", "-c", "cat a > all")),
    indices=IndexSet.span(4, 5),
    attempts=((4, 1),),
    directory=fx.GATHERED,
)
KILL = fx.KillRuns(subgroup=MERGE, epoch=2, indices=IndexSet.span(4, 5))
MAIN = SiteId("alpha.main")


class Told:
    """The engine's news of the merge."""

    def __init__(self) -> None:
        self.ends: list[tuple[Outcome, str]] = []

    def __call__(self, event: Event) -> None:
        assert isinstance(event, JobsEnded) and event.subgroup == MERGE
        (outcome,), errors = event.facts.outcomes, event.facts.errors
        self.ends.append((Outcome(outcome), errors[0].text if errors else ""))


@asynccontextmanager
async def merging(
    root: Path,
    outputs: Callable[[GroupId], Iterator[OutputFile]] = lambda _: iter(()),
    retried: IndexSet = IndexSet(),  # noqa: B008
) -> AsyncIterator[tuple[Merging, Told, TestSite]]:
    """A node of alpha, whose machine main is away."""
    async with grid(root, "alpha") as (alpha,):
        alpha.stager.stand_beside(Beside(alpha.site, MAIN, "main", lambda: False))
        told = Told()
        made = Merging(alpha.site, alpha.stager, outputs, told, lambda: 1.0, lambda _: retried)
        try:
            yield made, told, alpha
        finally:
            await made.stop()


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0.002)


async def over(merges: Merging) -> None:
    """Until each has started or never will."""
    async with asyncio.timeout(60):
        while merges._waiting:
            await asyncio.sleep(0.002)
    await turns(2)


async def test_a_kill_in_the_turn_of_the_start_goes_to_who_runs_it(tmp_path: Path) -> None:
    async with merging(tmp_path) as (merges, told, _):
        heard: list[bool] = []

        def start() -> None:
            asyncio.get_running_loop().call_soon(lambda: heard.append(merges.kill(KILL)))

        merges.begin(START, start, None)
        await over(merges)
        assert heard == [False] and not told.ends


async def test_a_merge_that_waits_is_killed_once_and_never_starts(tmp_path: Path) -> None:
    async with merging(tmp_path) as (merges, told, _):
        started: list[bool] = []
        lease = asyncio.Event()

        async def passage() -> None:
            await lease.wait()

        merges.begin(START, lambda: started.append(True), passage)
        await turns(5)
        assert merges.kill(KILL) and merges.kill(KILL)
        lease.set()
        await over(merges)
        assert told.ends == [(Outcome.CANCELLED, "")] and not started
        assert not merges.kill(KILL)


async def test_a_fault_of_ours_before_the_start_ends_the_merge(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def outputs(group: GroupId) -> Iterator[OutputFile]:
        raise KeyError(group)

    async with merging(tmp_path, outputs) as (merges, told, _):
        merges.begin(START, lambda: None, None)
        await over(merges)
        ((outcome, why),) = told.ends
        assert outcome == Outcome.STAGING_FAILED and "internal error" in why and "the node's log" in why
        assert "the merge of alpha-1 failed on a fault of ours" in caplog.text


@pytest.mark.parametrize("retried", [IndexSet(), IndexSet.span(0, 1)])
@pytest.mark.parametrize("there", [b"new", b"old", b"older", None])
async def test_a_merge_in_the_users_folder_runs_over_what_was_gathered_only(
    tmp_path: Path, there: bytes | None, retried: IndexSet
) -> None:
    """The content is looked at where a job was tried again: else the size tells enough."""
    folder = tmp_path / "results"
    folder.mkdir()
    if there is not None:
        write(folder / "a", there)
    output = OutputFile(0, "a", 3, sha(b"new"))
    async with merging(tmp_path, lambda _: iter([output]), retried) as (merges, told, _):
        started: list[bool] = []
        merges.begin(msgspec.structs.replace(START, directory=str(folder)), lambda: started.append(True), None)
        await over(merges)
        if there == b"new" or (there == b"old" and not retried):
            assert started and not told.ends
        else:
            ((outcome, why),) = told.ends
            assert outcome == Outcome.STAGING_FAILED and "output a is not in" in why and "retry" in why
            assert not started


async def test_a_merge_waits_for_what_an_older_attempt_left_under_its_name_here(tmp_path: Path) -> None:
    output = OutputFile(0, "a", 3, sha(b"new"))
    async with merging(tmp_path, lambda _: iter([output]), IndexSet.span(0, 1)) as (merges, told, alpha):
        started: list[bool] = []
        write(alpha.data.gathered(GROUP) / "a", b"old")
        merges.begin(START, lambda: started.append(True), None)
        await turns()
        assert not started and not told.ends
