"""A machine of a site that lies to its RootGrid: it harms its own jobs alone (`docs/security-messages.md`)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.model.facts import Outcome
from diana.model.ids import SubgroupId
from tests.engine.builders import facts_of, spec
from tests.engine.machines.test_workers import Machines, site_of

NAN = float("nan")


def told(machines: Machines, **changes: Any) -> None:
    """The ends of m1's first job, with these columns."""
    site = machines.site
    run = next(iter(machines.held["m1"]))
    facts = msgspec.structs.replace(facts_of(site.name, [run], Outcome.DONE, site.grid.now), **changes)
    machines.handle(ev.JobsEnded(subgroup=run.subgroup, epoch=run.epoch, facts=facts, worker="m1"))


@pytest.mark.parametrize(
    "changes",
    [
        {"outcomes": [99]},
        {"outcomes": [-1]},
        {"started_s": [NAN], "ended_s": [NAN]},
        {"ended_s": [1e308]},
        {"started_s": [-1e308]},
        {"cpu_s": [NAN]},
        {"max_rss_bytes": [-(2**62)]},
        {"exit_codes": [2**40]},
        {"indices": [10**9]},
        {"indices": [-1]},
        {"attempts": [2**40]},
    ],
    ids=str,
)
def test_no_end_that_a_machine_makes_up_ends_the_node_or_touches_the_jobs_of_others(changes: dict[str, Any]) -> None:
    site, machines = site_of(0, m1=2, m2=2)
    machines.submit(spec(4, work_s=50.0), 4)
    theirs = list(machines.held["m2"])
    told(machines, **changes)
    machines.pass_time(10.0)
    assert list(machines.held["m2"]) == theirs
    machines.end("m2", 9)
    machines.end("m1", 9)
    machines.pass_time(60.0)
    group = site.group("alpha-1")
    assert {run.index for run in theirs} <= set(group.done)


@pytest.mark.parametrize(
    "changes",
    [
        {"slots": -5},
        {"slots": 2**62},
        {"memory_bytes": -(2**62)},
        {"memory_bytes": 2**62},
        {"gpus": 2**40, "all_gpus": 2**40},
        {"gpus": -3, "all_gpus": -3},
        {"resources": (("fpga", 2**70), ("tape", -1), ("x" * 100_000, 1), ("gpus", 4))},
        {"resources": tuple((f"r{number}", 1) for number in range(100_000))},
        {"scratch_bytes": 2**62, "scratch_free_bytes": -(2**62)},
        {"claim_log": "x" * 100_000},
        {"software": ("x" * 100_000,)},
        {"known": (ev.Run(SubgroupId("beta-9/0"), 1, 0, 1), ev.Run(SubgroupId("nonsense"), -1, -1, -1))},
        {"known": (ev.Run(SubgroupId("alpha-1/0"), 1, 10**9, 1),)},
        {
            "known": tuple(
                ev.Run(SubgroupId(f"alpha-1{end}"), 9, 0, 1) for end in ("", "/", "/x", "/-1", "/07", "/\u00b2")
            )
        },
        {"known": (ev.Run(SubgroupId(f"alpha-1/{'9' * 5000}"), 9, 0, 1),)},
        {"known": tuple(ev.Run(SubgroupId("alpha-1/7"), *more) for more in ((0, 0, 1), (9, -1, 1), (9, 5, 1)))},
        {"known": tuple(ev.Run(SubgroupId("alpha-1/7"), *more) for more in ((9, 0, 0), (9, 0, 10**9)))},
    ],
    ids=lambda changes: next(iter(changes)) + "-" + str(next(iter(changes.values())))[:12],
)
def test_no_inventory_that_a_machine_makes_up_ends_the_node_or_stops_the_others(changes: dict[str, Any]) -> None:
    site, machines = site_of(0, m2=2)
    event = ev.LrmReady(worker="m1", session=1, slots=2, known=())
    machines.submit(spec(4, work_s=50.0), 4)
    theirs = list(machines.held["m2"])
    machines.slots["m1"], machines.held["m1"], machines.sessions["m1"] = 2, {}, 1
    machines.handle(msgspec.structs.replace(event, **changes))
    machines.submit(spec(4, work_s=50.0), 4, 2)
    machines.pass_time(10.0)
    assert set(theirs) <= set(machines.held["m2"])
    for _ in range(8):
        machines.end("m2", 9)
        machines.pass_time(10.0)
    assert {run.index for run in theirs} <= set(site.group("alpha-1").done)
    assert site.engine.core.workers.slots() >= 2


def test_ends_of_another_machines_jobs_are_forgotten_by_the_liar_alone_and_told_as_its_word() -> None:
    site, machines = site_of(0, m1=2, m2=2)
    machines.submit(spec(4, work_s=50.0), 4)
    theirs = list(machines.held["m2"])
    facts = facts_of(site.name, theirs, Outcome.DONE, site.grid.now)
    end = ev.JobsEnded(subgroup=theirs[0].subgroup, epoch=1, facts=facts, worker="m1")
    effects = site.engine.handle(end, site.grid.now)
    (forgotten,) = [one for one in effects if isinstance(one, fx.ForgetRuns)]
    assert (forgotten.runs, forgotten.worker) == (tuple(theirs), "m1")
    (said,) = [one for one in effects if isinstance(one, fx.Warn)]
    assert (said.by, said.machine) == ("", "m1") and "2 jobs of alpha-1/0 that are with others" in said.text


def test_an_inventory_that_names_the_jobs_of_another_machine_takes_none_of_them() -> None:
    site, machines = site_of(0, m1=2, m2=2)
    machines.submit(spec(4, work_s=50.0), 4)
    theirs = dict(machines.held["m2"])
    assert theirs
    known = (*machines.held["m1"], *theirs)
    machines.handle(ev.LrmReady(worker="m1", session=2, slots=2, known=known))
    assert not site.anew and site.db_uuid == "db-alpha"
    assert machines.held["m2"] == theirs
    machines.sessions["m1"] = 2
    for name in ("m2", "m1"):
        machines.end(name, 9)
    machines.pass_time(5.0)
    assert len(site.group("alpha-1").done) == 4


@pytest.mark.parametrize("term", [0, 3], ids=["alone", "pair"])
@pytest.mark.parametrize("part", ["alpha-1/0", "alpha-1/7"])
@pytest.mark.parametrize("before", [True, False], ids=["told-before", "first-word"])
def test_an_inventory_of_later_attempts_of_anothers_jobs_takes_none_and_starts_nothing_anew(
    before: bool, part: str, term: int
) -> None:
    """The liar would have a machine alone hold all it has, and be given the runs of others in a pair, for which its
    ends count then. The machine that has them has told this boot: the journal lacks nothing of them."""
    site, machines = site_of(0, **({"m1": 2} if before else {}), m2=4)
    site.term = site.engine.core.term = term
    machines.submit(spec(4, work_s=50.0), 4)
    theirs = dict(machines.held["m2"])
    assert theirs
    lies = [ev.Run(SubgroupId(part), 1 + (part != run.subgroup), run.index, 2) for run in theirs]
    ready = ev.LrmReady(worker="m1", session=2, slots=0, known=(*machines.held.get("m1", ()), *lies))
    effects = site.engine.handle(ready, site.grid.now)
    assert not [effect for effect in effects if isinstance(effect, fx.StartAnew)]
    (said,) = [effect for effect in effects if isinstance(effect, fx.Warn)]
    assert said.machine == "m1" and f"{len(lies)} runs that nobody gave it" in said.text
    facts = facts_of(site.name, lies, Outcome.DONE, site.grid.now)
    site.engine.handle(ev.JobsEnded(subgroup=lies[0].subgroup, epoch=lies[0].epoch, facts=facts, worker="m1"), 0.0)
    machines.pass_time(10.0)
    assert machines.held["m2"] == theirs and not len(site.group("alpha-1").done)
    machines.end("m2", 9)
    machines.pass_time(10.0)
    assert {run.index for run in theirs} <= set(site.group("alpha-1").done)


def test_a_machine_that_told_this_boot_what_it_has_invents_no_parts_and_attempts_of_jobs_that_wait() -> None:
    site, machines = site_of(0, m1=1)
    site.term = site.engine.core.term = 3
    machines.submit(spec(40, work_s=50.0), 40)
    custody = next(iter(site.engine.core.state.custodies.values()))
    waits = max(custody.pending)
    lies = (ev.Run(SubgroupId("alpha-1/0"), 1, waits, 1), ev.Run(SubgroupId("alpha-1/9"), 5, waits, 1))
    machines.handle(ev.LrmReady(worker="m1", session=2, slots=1, known=(*machines.held["m1"], *lies)))
    assert waits in custody.pending and not site.anew
    assert list(site.engine.core.state.custodies.values()) == [custody]
