"""Resources that operators declare, as machines tell them to their site: kept through restarts, within bounds, and as
the last word says."""

from __future__ import annotations

import pytest

from diana.engine.dispatch import quote_answer
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.state import decode_state, encode_state
from diana.engine.membership import gossip
from diana.engine.messages.messages import QuoteRequest
from diana.model.job.declared import MOST_AMOUNT, MOST_DECLARED
from tests.engine.bench import Grid, Site
from tests.engine.dispatch.test_maintenance import announce
from tests.engine.views.test_peer_reads import ask

FPGAS = (("fpga", 2), ("tape", 1))


def ready(site: Site, session: int, resources: tuple[tuple[str, int], ...], worker: str = "main") -> None:
    site.handle(ev.LrmReady(worker=worker, session=session, slots=4, known=(), resources=resources))


def known(site: Site, worker: str) -> tuple[tuple[str, int], ...]:
    return site.engine.core.state.machines[worker].resources


@pytest.mark.parametrize("worker", ["main", "m1"])
def test_what_a_machine_has_outlives_a_restart_is_written_once_and_goes_when_it_is_declared_no_more(
    worker: str,
) -> None:
    site = Grid({"guard_jobs": 0}, alpha=4)["alpha"]
    ready(site, 2, FPGAS, worker)
    written = len(site.records(r.MachineKnown))
    ready(site, 3, FPGAS, worker)
    assert len(site.records(r.MachineKnown)) == written
    site.boot()
    assert known(site, worker) == FPGAS
    ready(site, 4, (), worker)
    assert known(site, worker) == ()


def test_an_operator_is_shown_it_beside_the_gpus() -> None:
    site = Grid({"guard_jobs": 0}, alpha=4)["alpha"]
    site.handle(ev.LrmReady(worker="m1", session=1, slots=4, known=(), gpus=1, all_gpus=3, resources=FPGAS))
    shown = {row.machine: row.has for row in ask(site).machines}
    assert shown == {"main": (), "m1": (("fpga", 2), ("gpus", 3), ("tape", 1))}


def test_a_snapshot_keeps_it() -> None:
    site = Grid({"guard_jobs": 0}, alpha=4)["alpha"]
    ready(site, 2, FPGAS, "m1")
    assert decode_state(encode_state(site.engine.core.state)).machines["m1"].resources == FPGAS


def test_the_word_of_a_machine_that_is_wrong_is_bounded() -> None:
    site = Grid({"guard_jobs": 0}, alpha=4)["alpha"]
    ready(site, 2, (("fpga", 2**70), ("tape", -1), ("Bad", 1), ("x" * 100, 1), ("gpus", 4)), "m1")
    assert known(site, "m1") == (("fpga", MOST_AMOUNT),)
    ready(site, 3, tuple((f"r{number}", 1) for number in range(10_000)), "m1")
    assert len(known(site, "m1")) == MOST_DECLARED


@pytest.mark.parametrize(
    ("named", "counted", "lacks"),
    [
        ((), {"fpga": 2}, ""),
        (("resource fpga 2",), {"fpga": 2}, ""),
        (("resource fpga 3",), {}, "has 2 of the 3 fpga a job needs"),
        (("resource fpga 3",), {"fpga": 1}, "has 2 of the 3 fpga a job needs"),
        (("resource fpga 1",), {"fpga": 3}, "has 2 of the 3 fpga a job needs"),
        (("licence matlab 1",), {"licence:matlab": 2}, "has 1 of the 2 licences of matlab a job needs"),
        (("licence matlab 2",), {}, "has 1 of the 2 licences of matlab a job needs"),
    ],
)
def test_of_two_words_on_one_thing_the_larger_counts(
    named: tuple[str, ...], counted: dict[str, int], lacks: str
) -> None:
    site = Grid({"guard_jobs": 0, "licences": {"matlab": 1}}, alpha=4)["alpha"]
    ready(site, 2, FPGAS)
    asked = QuoteRequest(
        quote=1, processors=1, memory_bytes=0, jobs=1, refs=(), owner="a", software=named, resources=counted
    )
    assert quote_answer.quote(site.engine.core, asked).rejected == lacks


def test_a_site_whose_machines_are_all_under_maintenance_still_tells_the_memory_that_its_settings_say() -> None:
    site = Grid({"guard_jobs": 0, "memory_bytes": 1 << 34}, alpha=4)["alpha"]
    announce(site, (-1.0, 200.0), machines=("main",))
    core = site.engine.core
    assert core.workers.slots() == 0 and gossip.summary(core).memory_bytes == 1 << 34
