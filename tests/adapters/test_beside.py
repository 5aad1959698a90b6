"""Outputs on a site's other machine are gathered from it, served in its place, and said to be there while it is away
(SPEC D8, J5)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from diana.adapters.staging.catalogue.holdings import DataReader
from diana.adapters.staging.outputs.beside import Beside
from diana.adapters.staging.transfer.client import Away
from diana.errors import Denied, Unreachable
from diana.model.facts import OutputFile
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.wire.pb import data_pb2_grpc
from tests.adapters.staging_grid import GROUP, QUICK, TestSite, collect, facts_key, grid, noise, sha, write

MAIN = SiteId("alpha.main")
OUTPUTS = {"a": b"abc", "b/c": noise(2_500_000), "d": b""}


def stand_beside(alpha: TestSite, main: TestSite, given_up: bool = False) -> None:
    """main followed by alpha, whose machine `spare` leads."""
    main.reader = partial(DataReader, "site", MAIN)
    alpha.stager.stand_beside(Beside(alpha.site, MAIN, "main", lambda: given_up))


async def test_outputs_are_gathered_from_both_machines_each_once(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", MAIN) as (alpha, main):
        stand_beside(alpha, main)
        told = collect(main, OUTPUTS)
        write(alpha.data.collected(facts_key().subgroup, 1) / "a", b"abc")
        (main.data.collected(facts_key().subgroup, 1) / "a").unlink()
        done = await alpha.gather(alpha.site, facts_key(), told, tmp_path / "out")
        assert (done.error, done.bytes_moved) == ("", 2_500_000)
        assert {
            str(p.relative_to(tmp_path / "out")): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()
        } == OUTPUTS
        again = await alpha.gather(alpha.site, facts_key(), told, tmp_path / "out")
        assert (again.error, again.bytes_moved) == ("", 0)
        assert not alpha.samples, "nobody plans with that link"


async def test_of_what_is_on_a_machine_that_is_away_its_name_and_the_jobs_are_told(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", MAIN) as (alpha, main):
        stand_beside(alpha, main)
        told = collect(main, OUTPUTS)
        way = alpha.ways.pop(MAIN)
        done = await alpha.gather(alpha.site, facts_key(), told, tmp_path / "out")
        assert done.error == "gathering outputs: output a: on machine main, which is away"
        assert (done.away, done.lacking) == ("main", IndexSet.of({output.index for output in told.outputs}))
        alpha.ways[MAIN] = way
        assert (await alpha.gather(alpha.site, facts_key(), told, tmp_path / "out")).error == ""


async def test_what_neither_machine_has_is_not_waited_for(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", MAIN) as (alpha, main):
        stand_beside(alpha, main)
        told = collect(main, OUTPUTS)
        (main.data.collected(facts_key().subgroup, 1) / "a").unlink()
        done = await alpha.gather(alpha.site, facts_key(), told, tmp_path / "out")
        assert "output a" in done.error and not done.away


@pytest.mark.parametrize("given_up", [False, True])
async def test_another_site_gets_outputs_and_logs_through_the_machine_that_leads(
    tmp_path: Path, given_up: bool
) -> None:
    async with grid(tmp_path, "alpha", "gamma", MAIN) as (alpha, gamma, main):
        stand_beside(alpha, main, given_up)
        alpha.reader = partial(DataReader, "site", "alpha")
        told = collect(main, OUTPUTS)
        write(main.data.logs(GROUP) / "s0", b"0123456789")
        way = alpha.ways.pop(MAIN)
        done = await gamma.gather(alpha.site, facts_key(), told, tmp_path / "out")
        if given_up:
            assert "machine main, which was removed" in done.error and not done.away
            return
        assert "on machine main, which is away" in done.error and done.away == "main"
        assert not done.lacking, "they are the executing site's to judge"
        alpha.ways[MAIN] = way
        done = await gamma.gather(alpha.site, facts_key(), told, tmp_path / "out")
        assert (done.error, done.bytes_moved) == ("", sum(map(len, OUTPUTS.values())))
        log = [chunk async for chunk in gamma.stager.read(alpha.site, f"log:{GROUP}/s0", 3, 4)]
        assert b"".join(log) == b"3456"
        with pytest.raises(Unreachable, match=r"alpha\.main"):
            [chunk async for chunk in gamma.stager.read(alpha.site, f"log:{GROUP}/s1")]


async def test_what_was_gathered_there_is_completed_here_and_shown_to_no_other_site(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "gamma", MAIN) as (alpha, _, main):
        stand_beside(alpha, main)
        here, there = alpha.data.gathered(GROUP), main.data.gathered(GROUP)
        write(here / "a", b"abc")
        write(there / "b" / "c", b"bcd")
        write(there / ".hidden", b"")
        outputs = [OutputFile(0, "a", 3, sha(b"abc")), OutputFile(1, "b/c", 3, sha(b"bcd"))]
        way = alpha.ways.pop(MAIN)
        with pytest.raises(Away, match="output b/c: on machine main"):
            await alpha.stager.complete(GROUP, lambda: iter(outputs), IndexSet())
        alpha.ways[MAIN] = way
        await alpha.stager.complete(GROUP, lambda: iter(outputs), IndexSet())
        assert (here / "b" / "c").read_bytes() == b"bcd"
        names = [chunk async for chunk in alpha.stager.read(MAIN, f"gathered:{GROUP}")]
        assert b"".join(names) == b"b/c\n"
        for who in (("site", "alpha"), ("site", "gamma"), ("member", "alpha.main/m1"), ("user", "alpha.main")):
            for ref in (f"gathered:{GROUP}", f"gathered:{GROUP}/b/c"):
                with pytest.raises(Denied, match="may not read"):
                    main.stager.holdings.open(ref, DataReader(*who))


async def test_what_one_of_two_machines_gathered_keeps_its_first_name_until_it_is_dropped(tmp_path: Path) -> None:
    """Killed before the journal says that it was gathered, it is asked for it by the other one."""
    async with grid(tmp_path, "alpha", MAIN) as (alpha, main):
        stand_beside(alpha, main)
        told = collect(alpha, OUTPUTS)
        collected = alpha.data.collected(facts_key().subgroup, 1)
        for _ in range(2):
            assert (await alpha.gather(alpha.site, facts_key(), told)).error == ""
            for root in (collected, alpha.data.gathered(GROUP)):
                assert {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()} == OUTPUTS
        assert (collected / "b" / "c").stat().st_nlink == 2, "without a copy"
        alpha.stager.drop_outputs(facts_key(), told)
        await alpha.idle()
        assert not [p for p in collected.rglob("*") if p.is_file()]
        assert (alpha.data.gathered(GROUP) / "a").read_bytes() == b"abc"


async def test_a_machine_that_does_not_answer_while_what_it_gathered_is_copied_is_given_up(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", MAIN) as (alpha, main):
        stand_beside(alpha, main)
        write(main.data.gathered(GROUP) / "a", b"abc")
        outputs = [OutputFile(0, "a", 3, sha(b"abc"))]
        await main.stop_serving()
        with pytest.raises(Away, match=r"output a: site alpha\.main: it does not answer"):
            await alpha.stager.complete(GROUP, lambda: iter(outputs), IndexSet())


async def test_a_machine_that_dies_while_what_it_gathered_is_copied_is_waited_for(tmp_path: Path) -> None:
    patient = dataclasses.replace(QUICK, patience_s=2.0)
    async with grid(tmp_path, "alpha", MAIN, limits=patient) as (alpha, main):
        stand_beside(alpha, main)
        write(main.data.gathered(GROUP) / "a", b"abc")
        outputs = [OutputFile(0, "a", 3, sha(b"abc"))]
        await main.stop_serving()
        copying = asyncio.create_task(alpha.stager.complete(GROUP, lambda: iter(outputs), IndexSet()))
        await asyncio.sleep(0.1)
        assert not copying.done()
        way = alpha.ways.pop(MAIN)
        with pytest.raises(Away, match="output a: on machine main, which is away"):
            await copying
        await main.serve(main.port)
        alpha.ways[MAIN] = way
        await alpha.stager.complete(GROUP, lambda: iter(outputs), IndexSet())
        assert (alpha.data.gathered(GROUP) / "a").read_bytes() == b"abc"


async def test_what_an_attempt_before_the_retry_left_under_the_name_does_not_count(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", MAIN) as (alpha, main):
        stand_beside(alpha, main)
        here, there = alpha.data.gathered(GROUP), main.data.gathered(GROUP)
        old, new = {"a": b"old", "b": b"longer", "c": b"mine"}, {"a": b"new", "b": b"short", "c": b"that"}
        for name in old:
            write(here / name, old[name])
            write(there / name, new[name])
        outputs = [OutputFile(index, name, len(new[name]), sha(new[name])) for index, name in enumerate(new)]
        await alpha.stager.complete(GROUP, lambda: iter(outputs), IndexSet.of({0, 1}))
        assert {path.name: path.read_bytes() for path in here.iterdir()} == {**new, "c": b"mine"}


class Silent(data_pb2_grpc.DataServicer):
    """A machine that takes requests, and answers none."""

    def __init__(self) -> None:
        self.asked = 0
        self.left = asyncio.Event()

    async def Read(self, request_iterator: Any, context: Any) -> None:
        async for _ in request_iterator:
            self.asked += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


@asynccontextmanager
async def silent_beside(root: Path, stall_s: float = 600.0) -> AsyncIterator[tuple[TestSite, TestSite, Silent]]:
    """alpha, whose other machine is silent, and gamma."""
    async with grid(root, "alpha", "gamma", limits=dataclasses.replace(QUICK, stall_s=stall_s)) as (alpha, gamma):
        server, silent = grpc.aio.server(), Silent()
        data_pb2_grpc.add_DataServicer_to_server(silent, server)  # type: ignore[no-untyped-call]
        alpha.ways[MAIN] = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        alpha.stager.stand_beside(Beside(alpha.site, MAIN, "main", lambda: False))
        try:
            yield alpha, gamma, silent
        finally:
            await server.stop(None)


async def read(site: TestSite, of: TestSite, ref: str) -> bytes:
    return b"".join([chunk async for chunk in site.stager.read(of.site, ref)])


async def test_reads_of_a_silent_machine_hold_up_no_disk_work(tmp_path: Path) -> None:
    async with silent_beside(tmp_path) as (alpha, gamma, silent):
        reads = [asyncio.create_task(read(gamma, alpha, f"log:{GROUP}/s{n}")) for n in range(QUICK.threads + 2)]
        while silent.asked < len(reads):
            await asyncio.sleep(0.01)
        async with asyncio.timeout(60):
            await alpha.register("data", [write(tmp_path / "file", b"abc")])
        assert not any(task.done() for task in reads)
        for task in reads:
            task.cancel()
        await asyncio.wait(reads)


async def test_reads_of_a_machine_that_is_silent_for_too_long_end(tmp_path: Path) -> None:
    async with silent_beside(tmp_path, 1.0) as (alpha, gamma, silent):
        with pytest.raises(Unreachable):
            await read(gamma, alpha, f"log:{GROUP}/s0")
        assert silent.asked


async def test_a_reader_that_leaves_ends_the_read_of_the_other_machine(tmp_path: Path) -> None:
    async with silent_beside(tmp_path) as (alpha, gamma, silent):
        reading = asyncio.create_task(read(gamma, alpha, f"log:{GROUP}/s0"))
        while not silent.asked:
            await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.wait([reading])
        async with asyncio.timeout(60):
            await silent.left.wait()


async def test_a_leader_reads_its_own_log_at_the_other_machine_without_holding_its_loop(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", MAIN) as (alpha, main):
        stand_beside(alpha, main)
        text = noise(2_500_000)
        write(main.data.logs(GROUP) / "s0", text)
        async with asyncio.timeout(60):
            assert await read(alpha, alpha, f"log:{GROUP}/s0") == text
            async for chunk in alpha.stager.read(alpha.site, f"log:{GROUP}/s0", 5, 10):
                assert chunk == text[5:15]
            with pytest.raises(Unreachable, match=r"not at site alpha\.main"):
                await read(alpha, alpha, f"log:{GROUP}/s1")
