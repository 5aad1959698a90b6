"""SPEC U7: what waits for licences, or for room beside its licences, gets both in the end; what it cannot use is for
others."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch import capacity, promised_capacity, quote_answer
from diana.engine.dispatch.capacity import PromisedCapacity
from diana.engine.dispatch.licences import pools
from diana.engine.journal import events as ev
from diana.engine.machines.machine import Worker
from diana.engine.machines.requirements import asked as request_of
from diana.engine.machines.requirements import kind as kind_of
from diana.engine.machines.running import GivenRuns
from diana.engine.messages import messages as ms
from diana.engine.messages.migration import RoomRequest
from diana.engine.placement.candidates import unusable
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.job import software
from diana.model.job.spec import GroupSpec
from diana.policy.queueing.forecast import Slots
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, facts_of, spec
from tests.engine.dispatch.test_licences import LONG, SITE_HAS, Licensed, licensed, wanting


class Timed(Licensed):
    """Each job runs for `LONG`, as it says, from when there are slots for it."""

    def __init__(self, site: Site, **slots: int) -> None:
        self.began: dict[ev.Run, float] = {}
        super().__init__(site, **slots)

    def live(self, seconds: float) -> None:
        now = self.site.grid.now
        for name in self.slots:
            for run in [run for run, over in self.held[name].items() if not over and run in self.began]:
                if now >= self.began[run] + LONG:
                    self.held[name][run] = True
                    facts = facts_of(self.site.name, [run], Outcome.DONE, now)
                    facts.started_s[0] = self.began[run]
                    self.handle(ev.JobsEnded(subgroup=run.subgroup, epoch=run.epoch, facts=facts))
        for name, slots in self.slots.items():
            left = slots
            for run in [run for run, over in self.held[name].items() if not over]:
                left -= self.width(run)
                if left >= 0:
                    self.began.setdefault(run, now)
        self.pass_time(seconds)

    def width(self, run: ev.Run) -> int:
        return self.site.engine.core.state.custodies[run.subgroup, run.epoch].spec.resources.processors


def first_bob(has: dict[str, int]) -> Site:
    """A site where Bob's jobs stand before all others."""
    return Grid({"guard_jobs": 0, "licences": has, "quotas": {BOB.name: 1000.0}}, alpha=0)["alpha"]


@pytest.mark.parametrize("name", ["licence matlab 0", "licence x 0"])
def test_a_quote_for_no_licence_at_all_is_a_refusal_and_no_fault(name: str) -> None:
    site, _ = licensed(a=4)
    asked = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=1, refs=(), software=(name,))
    assert quote_answer.quote(site.engine.core, asked).rejected == "has no such licence"


def test_room_is_kept_for_as_many_jobs_as_there_are_licences_for() -> None:
    """Else they come, stand before all others, and wait."""
    site, machines = licensed(a=50)
    machines.submit(wanting(3, matlab=1), 3)

    def kept(room: int, *names: str) -> int:
        core, owner = site.engine.core, ALICE.name
        asked = RoomRequest(room=room, jobs=9, gain_s=50.0, processors=1, owner=owner, work_s=LONG, software=names)
        found = promised_capacity.keep(core, SiteId("beta"), asked).jobs
        core.book(PromisedCapacity).rooms.over(f"beta {room}")
        return found

    wanted = (
        (),
        ("licence matlab 1",),
        ("licence ansys 1",),
        ("licence ansys 2", "licence matlab 2"),
        ("licence x 1",),
    )
    assert [kept(room, *names) for room, names in enumerate(wanted, 1)] == [9, 1, 2, 0, 0]


def test_what_no_machine_can_run_any_more_keeps_no_licence_from_others() -> None:
    site, machines = licensed(a=8)
    machines.submit(wanting(3, matlab=4), 3, 1)
    machines.submit(wanting(4, matlab=1), 4, 2)
    fewer = msgspec.structs.replace(site.settings, slots=0, licences=SITE_HAS | {"matlab": 3})
    machines.handle(ev.SettingsLoaded(fewer))
    machines.end("a", 1)
    assert machines.used("matlab", "a") == 3


def test_what_waits_for_the_clusters_licences_leaves_the_sites_own_to_others() -> None:
    machines = Licensed(first_bob(SITE_HAS), a=4, cluster=8)
    machines.submit(wanting(1, matlab=3, processors=5), 1, 1, who=BOB)
    machines.submit(wanting(1, matlab=1, processors=5), 1, 2, who=BOB)
    machines.submit(wanting(4, matlab=1), 4, 3)
    assert (machines.used("matlab", "cluster"), machines.used("matlab", "a")) == (3, 4)


def test_what_waits_for_two_kinds_keeps_of_each_no_more_than_it_wants() -> None:
    machines = Licensed(first_bob(SITE_HAS), a=20)
    machines.submit(wanting(4, matlab=1), 4, 1)
    machines.submit(wanting(1, matlab=1, ansys=1), 1, 2, who=BOB)
    machines.submit(wanting(2, ansys=1), 2, 3)
    assert machines.used("ansys", "a") == 1


@pytest.mark.parametrize("wide", [wanting(1, processors=4), wanting(1, processors=4, matlab=1)], ids=["plain", "both"])
def test_a_wide_job_gets_its_licence_and_its_processors_at_one_time(wide: GroupSpec) -> None:
    """The licence came free while the processors were taken, and they while it was: it was passed by for ever."""
    machines = Timed(first_bob({"matlab": 1}), a=4, b=1)
    for n in range(5):
        machines.submit(wanting(1, matlab=1) if n == 4 else spec(1, work_s=LONG, sites=("alpha",)), 1, n + 1)
        machines.live(LONG / 4)
    machines.submit(wide, 1, 6, who=BOB)
    machines.submit(wanting(200, matlab=1), 200, 7)
    machines.submit(spec(400, work_s=LONG, sites=("alpha",)), 400, 8)
    for _ in range(20):
        machines.live(LONG / 8)
    assert any(run.subgroup.startswith("alpha-6/") for run in machines.executed)


def test_of_what_a_site_says_that_it_has_no_more_is_read_than_it_was_asked_for() -> None:
    """A site's word is kept for a while, and sorted for every licence."""
    site, _ = licensed(a=4)
    asked = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=1, refs=(), software=("licence matlab 1",))
    wanted, told = wanting(1, matlab=1), quote_answer.quote(site.engine.core, asked)
    assert unusable(told, wanted) == ""
    many = tuple(f"licence a{n} 1" for n in range(5000))
    told = msgspec.structs.replace(told, software=(*many, "licence matlab 1"))
    assert unusable(told, wanted) == "has no licence of matlab"
    assert max(map(len, software.asked(["licence " + "y" * 10**6 + " 1"]))) < 300


def test_a_quote_looks_at_few_of_very_many_licensed_runs_and_foresees_alike() -> None:
    runs = GivenRuns(5000)
    for n in range(5000):
        runs.give((SubgroupId(f"alpha-{n}/0"), 1), [0], 1, float(n), amounts=(("licence:matlab", 1 + n % 3),))
    every = runs.licence_sample("licence:matlab", 10**6)
    few = runs.licence_sample("licence:matlab", capacity.MOST_LOOKED_AT)
    assert len(few) <= capacity.MOST_LOOKED_AT < len(every) == 5000
    assert sum(count for _, _, count in few) == sum(count for _, _, count in every) == runs.shared["licence:matlab"]
    exact, close = (Slots(0, [(at_s, count) for _, at_s, count in some]) for some in (every, few))
    for work_s in (0.0, 1e4, 1e6, 1e7):
        assert close.starts_s(3, work_s) == pytest.approx(exact.starts_s(3, work_s), rel=0.01, abs=20.0)


def test_whose_licences_machines_share_is_not_asked_of_each_at_every_look() -> None:
    site, machines = licensed(**{f"m{n}": 1 for n in range(50)}, cluster=4)
    core, kind, asked = site.engine.core, kind_of(request_of(wanting(1, matlab=1))), list[str]()
    offers = core.workers.offers
    real = offers.of

    def of(worker: Worker) -> tuple[str, ...]:
        asked.append(worker.name)
        return real(worker)

    offers.of = of  # type: ignore[method-assign]
    pools(core, kind)
    asked.clear()
    shared, cluster = pools(core, kind)
    assert (len(shared.machines), cluster.of) == (50, "cluster") and "m1" not in asked
    machines.lose("m1")
    assert len(pools(core, kind)[0].machines) == 49
    machines.has = {}
    machines.ready("cluster")
    assert [pool.of for pool in pools(core, kind)] == [""]
