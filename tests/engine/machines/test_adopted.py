"""Claims that a machine tells of and the journal has at another machine: nothing is started twice, and no count is torn
(PROMISES 1.4; a pair that was taken over by force lacks the end of its journal)."""

from __future__ import annotations

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.records import MachineKnown
from diana.engine.site.journal_doubt import JournalDoubt
from tests.engine.builders import spec
from tests.engine.machines.test_workers import site_of


def test_a_job_that_another_machine_was_given_meanwhile_is_not_given_again() -> None:
    site, machines = site_of(0, m1=2, m2=2)
    site.term = site.engine.core.term = 3
    machines.submit(spec(4, work_s=50.0), 4)
    run = next(iter(machines.held["m2"]))
    again = ev.Run(run.subgroup, run.epoch, run.index, run.attempt + 1)
    # The journal lacks that the run was voided at m2 and given to m1; m2 has not told the boot that began with it.
    del machines.held["m2"][run]
    site.engine.core.book(JournalDoubt).inventoried.clear()
    machines.handle(ev.LrmReady(worker="m1", session=2, slots=3, known=(*machines.held["m1"], again)))
    machines.sessions["m1"] = 2
    machines.held["m1"][again] = None
    custody = next(iter(site.engine.core.state.custodies.values()))
    assert custody.running[run.index] == again.attempt
    machines.handle(ev.LrmReady(worker="m2", session=2, slots=2, known=tuple(machines.held["m2"])))
    machines.sessions["m2"] = 2
    machines.pass_time(1.0)
    assert custody.running[run.index] == again.attempt
    holders = [name for name, held in machines.held.items() for each in held if each.index == run.index]
    assert holders == ["m1"]
    for name in ("m2", "m1"):
        machines.end(name, 9)
    machines.pass_time(20.0)
    assert len(site.group("alpha-1").done) == 4


def test_of_two_machines_that_tell_of_a_job_whose_records_are_lost_the_one_with_the_later_attempt_has_it() -> None:
    site, machines = site_of(0, m1=2, m2=2, m3=2)
    site.term = site.engine.core.term = 3
    machines.submit(spec(4, work_s=50.0), 4)
    run = next(iter(machines.held["m2"]))
    site.engine.core.book(JournalDoubt).inventoried.clear()
    for attempt, name in ((2, "m1"), (3, "m3")):
        again = ev.Run(run.subgroup, run.epoch, run.index, attempt)
        machines.handle(ev.LrmReady(worker=name, session=2, slots=2, known=(*machines.held[name], again)))
        custody = next(iter(site.engine.core.state.custodies.values()))
        assert custody.running[run.index] == attempt and run.index in custody.given[name]


def test_a_machine_that_lies_about_anothers_job_ends_no_node() -> None:
    site, machines = site_of(0, m1=2, m2=2)
    site.term = site.engine.core.term = 3
    machines.submit(spec(4, work_s=50.0), 4)
    run = next(iter(machines.held["m2"]))
    lie = ev.Run(run.subgroup, run.epoch, run.index, run.attempt + 1)
    machines.handle(ev.LrmReady(worker="m1", session=2, slots=2, known=(*machines.held["m1"], lie)))
    machines.sessions["m1"] = 2
    for name in ("m2", "m1"):
        machines.end(name, 9)
    machines.pass_time(20.0)
    machines.handle(ev.LrmReady(worker="m2", session=2, slots=2, known=()))
    machines.pass_time(20.0)
    lanes = site.engine.core.totals.runs.lanes
    held = {(key, index) for name in ("m1", "m2") for key, index in (*lanes[name].on, *lanes[name].ahead)}
    assert all(site.engine.core.state.custodies[key].running.get(index) for key, index in held)


def test_nothing_of_a_machine_is_written_where_the_site_begins_anew() -> None:
    site, machines = site_of(0, m1=2, m2=2)
    machines.submit(spec(4, work_s=50.0), 4)
    held = tuple(machines.held["m1"])
    machines.handle(ev.LrmReady(worker="m1", session=2, slots=2, known=held, claim_log="one"))
    run = held[0]
    site.engine.core.book(JournalDoubt).inventoried.clear()
    unheard = ev.Run(run.subgroup, run.epoch, run.index, run.attempt + 1)
    ready = ev.LrmReady(worker="m1", session=3, slots=2, known=(unheard,), claim_log="two")
    effects = site.engine.handle(ready, site.grid.now)
    assert any(isinstance(effect, fx.StartAnew) for effect in effects)
    kept = [effect.record for effect in effects if isinstance(effect, fx.Persist)]
    assert not [record for record in kept if isinstance(record, MachineKnown)]
