"""Rules that every stager keeps, the real one between real sites and its simulated twin alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from diana.engine.journal.effects import Gather, LookUp, RegisterOutputs, StageIn
from diana.engine.journal.events import Event, LookedUp, OutputsInCatalogue, StageDone
from diana.engine.messages.messages import Hello, Message
from diana.model.data import Fetch
from diana.model.facts import Facts
from diana.model.ids import SiteId, SubgroupId
from diana.ports import Stager
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.specs.fault_spec import FaultsSpec
from diana.sim.twins.network import Network
from diana.sim.twins.pipes import Pipes
from diana.sim.twins.stager import SimStager
from tests.adapters.staging_grid import GROUP, SUBGROUP, collect, facts, facts_key, fetch, grid, write

ALPHA, BETA = SiteId("alpha"), SiteId("beta")
CONTENT = b"x" * 5000
OUTPUTS = {"hist/0.json": b"{}", "hist/1.json": b"[]"}


class Stand(Protocol):
    """Two sites; alpha's stager is under test, beta holds the dataset file `dataset:events/a` with `CONTENT`."""

    stager: Stager
    other: Stager

    def collect_at_beta(self) -> Facts:
        """Collected outputs of `facts_key()` stand at beta."""
        ...

    async def looked_up(self, *refs: str) -> LookedUp:
        """The files among these that alpha holds."""
        ...

    async def registered(self, ticket: int, told: Facts) -> OutputsInCatalogue:
        """The answer to an order to register these outputs, which alpha gathered, as the dataset `made`."""
        ...

    async def settled(self) -> list[StageDone]:
        """All that was emitted since the last call, once nothing is under way."""
        ...


@asynccontextmanager
async def real(folder: Path) -> AsyncIterator[Stand]:
    async with grid(folder, "alpha", "beta") as (alpha, beta):
        await beta.stager.register("events", [write(folder / "in" / "a", CONTENT)])

        class Real:
            stager: Stager = alpha.stager
            other: Stager = beta.stager

            def collect_at_beta(self) -> Facts:
                return collect(beta, OUTPUTS)

            async def looked_up(self, *refs: str) -> LookedUp:
                return await alpha.look_up(*refs)

            async def registered(self, ticket: int, told: Facts) -> OutputsInCatalogue:
                alpha.stager.register_outputs(register(ticket), lambda: iter(told.outputs))
                return await asyncio.wait_for(alpha.catalogued.get(), 60)

            async def settled(self) -> list[StageDone]:
                await asyncio.wait_for(alpha.idle(), 60)
                await asyncio.wait_for(beta.idle(), 60)
                return [alpha.events.get_nowait() for _ in range(alpha.events.qsize())]

        yield Real()


class LivingSite:
    """An endpoint that is up; nobody sends messages here."""

    def __init__(self, site: SiteId) -> None:
        self.site = site

    def greeting(self) -> Hello | None:
        return Hello(
            site=self.site,
            protocol=1,
            release="0",
            capabilities=(),
            db_uuid="u",
            generation=1,
            boot_nonce="n",
            seq=1,
            term=0,
            data_address="",
        )

    def peer_up(self, hello: Hello, rtt_s: float, bytes_per_s: float) -> None: ...

    def peer_down(self, site: SiteId) -> None: ...

    def received(self, sender: SiteId, message: Message) -> None: ...


@asynccontextmanager
async def simulated(folder: Path) -> AsyncIterator[Stand]:
    clock = Clock()
    faults = Faults(FaultsSpec(), 1)
    network = Network(clock, faults, latency_s=0.01, bytes_per_s=1e6)
    pipes = Pipes(clock, network)
    alpha, beta = (SimStager(clock, site, pipes, network, faults) for site in (ALPHA, BETA))
    emitted: list[Event] = []
    alpha.attach(emitted.append)
    beta.attach(lambda _: None)
    for stager, other, site in ((alpha, beta, ALPHA), (beta, alpha, BETA)):
        network.attach(LivingSite(site))
        stager.peers = {BETA if site == ALPHA else ALPHA: other}

    network.attach(LivingSite(SiteId("gamma")))

    class Simulated:
        stager: Stager = alpha
        other: Stager = beta

        def collect_at_beta(self) -> Facts:
            return facts("beta", OUTPUTS)

        async def looked_up(self, *refs: str) -> LookedUp:
            alpha.look_up(LookUp(ticket=500, refs=refs))
            clock.run_until(clock.now_s + 1.0)
            told = [event for event in emitted if isinstance(event, LookedUp)]
            emitted.clear()
            return told[0]

        async def registered(self, ticket: int, told: Facts) -> OutputsInCatalogue:
            alpha.register_outputs(register(ticket), lambda: iter(told.outputs))
            clock.run_until(clock.now_s + 10.0)
            (event,) = [event for event in emitted if isinstance(event, OutputsInCatalogue)]
            emitted.clear()
            return event

        async def settled(self) -> list[StageDone]:
            clock.run_until(clock.now_s + 60.0)
            told = [event for event in emitted if isinstance(event, StageDone)]
            emitted.clear()
            return told

    yield Simulated()


Make = Callable[[Path], AbstractAsyncContextManager[Stand]]
both = pytest.mark.parametrize("make", [real, simulated])


def order(ticket: int, *files: Fetch, subgroup: SubgroupId = SUBGROUP) -> StageIn:
    return StageIn(ticket=ticket, subgroup=subgroup, files=files)


def input_at(*sources: SiteId) -> Fetch:
    return fetch("dataset:events/a", CONTENT, *sources)


def register(ticket: int) -> RegisterOutputs:
    return RegisterOutputs(ticket=ticket, group=GROUP, dataset="made", to="")


def gather(ticket: int) -> Gather:
    return Gather(ticket=ticket, source=BETA, key=facts_key(), to="")


@both
async def test_a_file_that_another_site_holds_is_brought_and_told_once(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        stand.stager.stage_in(order(1, input_at(BETA)))
        assert await stand.settled() == [StageDone(ticket=1, bytes_moved=len(CONTENT))]
        assert await stand.settled() == []


@both
async def test_nothing_to_stage_is_done_at_once(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        stand.stager.stage_in(order(1))
        assert await stand.settled() == [StageDone(ticket=1, bytes_moved=0)]


@both
async def test_what_was_brought_before_does_not_travel_again(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        stand.stager.stage_in(order(1, input_at(BETA)))
        await stand.settled()
        stand.stager.drop_subgroup(SUBGROUP)
        stand.stager.stage_in(order(2, input_at(BETA), subgroup=SubgroupId("alpha-2/0")))
        assert await stand.settled() == [StageDone(ticket=2, bytes_moved=0)]


@both
async def test_what_was_brought_is_told_as_a_replica_in_the_next_look_up(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        wanted = input_at(BETA)
        assert (await stand.looked_up("dataset:events/a")).cached == ()
        stand.stager.stage_in(order(1, wanted))
        await stand.settled()
        told = await stand.looked_up("dataset:events/a", "dataset:other")
        assert (told.found, told.cached, told.unknown) == ((), (wanted.file,), ())


@both
async def test_a_file_no_site_has_is_an_error_that_names_it(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        stand.stager.stage_in(order(1, input_at()))
        (told,) = await stand.settled()
        assert told.ticket == 1 and "dataset:events/a" in told.error and "\n" not in told.error


@both
async def test_a_cancelled_order_says_nothing_and_cancelling_twice_is_fine(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        stand.stager.stage_in(order(1, input_at(BETA)))
        stand.stager.cancel(1)
        stand.stager.cancel(1)
        stand.stager.cancel(99)
        stand.stager.stage_in(order(2, input_at(BETA)))
        assert [told.ticket for told in await stand.settled()] == [2]


@both
async def test_outputs_are_gathered_and_to_be_told_twice_moves_nothing(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        told = stand.collect_at_beta()
        stand.stager.gather(gather(1), told)
        assert await stand.settled() == [StageDone(ticket=1, bytes_moved=sum(map(len, OUTPUTS.values())))]
        stand.stager.gather(gather(2), told)
        assert await stand.settled() == [StageDone(ticket=2, bytes_moved=0)]


@both
async def test_outputs_that_were_dropped_after_gathering_need_not_be_there(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        told = stand.collect_at_beta()
        stand.stager.gather(gather(1), told)
        await stand.settled()
        stand.other.drop_outputs(facts_key(), told)
        await stand.settled()
        stand.stager.gather(gather(2), told)
        assert await stand.settled() == [StageDone(ticket=2, bytes_moved=0)]


@both
async def test_outputs_dropped_before_they_were_gathered_are_an_error(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        told = stand.collect_at_beta()
        stand.other.drop_outputs(facts_key(), told)
        await stand.settled()
        stand.stager.gather(gather(1), told)
        (end,) = await stand.settled()
        assert end.ticket == 1 and "beta" in end.error


@both
async def test_outputs_become_a_dataset_and_to_be_told_twice_changes_nothing(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        told = stand.collect_at_beta()
        stand.stager.gather(gather(1), told)
        await stand.settled()
        first = await stand.registered(2, told)
        assert (first.ticket, first.error) == (2, "") and first.dataset is not None
        made = first.dataset
        assert (made.name, made.files, made.size_bytes) == ("made", 2, sum(map(len, OUTPUTS.values())))
        assert await stand.registered(3, told) == OutputsInCatalogue(ticket=3, dataset=made)


@both
async def test_many_orders_at_once_each_end_once(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        for ticket in range(1, 41):
            stand.stager.stage_in(order(ticket, input_at(BETA), subgroup=SubgroupId(f"alpha-1/{ticket}")))
        ends = await stand.settled()
        assert sorted(end.ticket for end in ends) == list(range(1, 41))
        assert {end.error for end in ends} == {""}


@both
async def test_an_order_whose_files_are_here_does_not_wait_behind_orders_that_fetch(make: Make, tmp_path: Path) -> None:
    async with make(tmp_path) as stand:
        stand.stager.stage_in(order(1, input_at(BETA)))
        await stand.settled()
        for ticket in range(2, 42):
            away = fetch(f"dataset:events/{ticket}", CONTENT + bytes([ticket]), SiteId("gamma"))
            stand.stager.stage_in(order(ticket, away, subgroup=SubgroupId(f"alpha-1/{ticket}")))
        stand.stager.stage_in(order(99, input_at(BETA), subgroup=SubgroupId("alpha-1/99")))
        ends = await stand.settled()
        assert ends[0] == StageDone(ticket=99, bytes_moved=0)
