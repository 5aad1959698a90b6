"""Workers that say themselves how much they are given beyond their slots, and whose slots come and go: clusters (SPEC
U7)."""

from __future__ import annotations

from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from tests.engine.bench import Site
from tests.engine.builders import spec
from tests.engine.machines.test_workers import Machines, site_of

LONG_S = 500.0


def cluster(own: int, slots: int, ahead: int) -> tuple[Site, Machines]:
    site, machines = site_of(own, slurm=slots)
    machines.sessions["slurm"] += 1
    session = machines.sessions["slurm"]
    machines.handle(ev.LrmReady(worker="slurm", session=session, slots=slots, ahead=ahead, known=()))
    return site, machines


def sized(machines: Machines, slots: int, ahead: int, session: int = 0) -> None:
    now = session or machines.sessions["slurm"]
    machines.handle(ev.LrmSized(worker="slurm", session=now, slots=slots, ahead=ahead))


def test_it_is_given_what_it_says_ahead_of_its_slots_however_long_jobs_run() -> None:
    site, machines = cluster(2, 4, 3)
    machines.submit(spec(100, work_s=LONG_S), 100)
    assert (machines.open("slurm"), len(site.running)) == (7, 2)


def test_its_depth_is_filled_again_while_all_slots_are_taken() -> None:
    _, machines = cluster(2, 4, 4)
    machines.submit(spec(100, work_s=LONG_S), 100)
    machines.end("slurm", 2)
    assert machines.open("slurm") == 8


def test_wide_jobs_wait_there_as_well() -> None:
    _, machines = cluster(0, 4, 4)
    machines.submit(spec(100, processors=2, work_s=LONG_S), 100)
    assert machines.open("slurm") == 4


def test_more_slots_are_filled_at_once_and_fewer_take_nothing_away() -> None:
    site, machines = cluster(0, 4, 0)
    machines.submit(spec(100, work_s=LONG_S), 100)
    assert machines.open("slurm") == 4
    sized(machines, 8, 1)
    assert machines.open("slurm") == 9
    sized(machines, 2, 0)
    assert machines.open("slurm") == 9
    machines.end("slurm", 7)
    assert machines.open("slurm") == 2
    assert site.engine.core.workers.slots() == 2


def test_a_size_is_remembered_over_a_restart_and_written_only_when_it_changed() -> None:
    site, machines = cluster(0, 4, 0)
    written = len(site.records(r.MachineKnown))
    sized(machines, 4, 5)
    assert len(site.records(r.MachineKnown)) == written
    sized(machines, 6, 5)
    assert len(site.records(r.MachineKnown)) == written + 1
    assert site.engine.core.state.machines["slurm"].slots == 6


def test_the_size_of_a_former_session_or_of_nobody_changes_nothing() -> None:
    site, machines = cluster(0, 4, 0)
    sized(machines, 9, 9, session=machines.sessions["slurm"] - 1 or 99)
    machines.handle(ev.LrmSized(worker="stranger", session=1, slots=9, ahead=0))
    machines.handle(ev.LrmSized(worker="main", session=1, slots=9, ahead=0))
    assert site.engine.core.workers.slots() == 4
