"""SPEC U7: a site's machines share its licences, a cluster counts its own. Never are more held than there are, whoever
is away or was started anew, and none lies idle while a job waits that could have it."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.dispatch import capacity, dispatch, licences, quote_answer
from diana.engine.dispatch.licences import pools, short
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.state import CustodyKey
from diana.engine.machines.requirements import asked as request_of
from diana.engine.machines.requirements import kind as kind_of
from diana.engine.messages import messages as ms
from diana.engine.site.context import Context
from diana.model.facts import Outcome
from diana.model.job import software
from diana.model.job.licences import among, check, lacking, named, plain
from diana.model.job.resources import ResourceRequest, shared
from diana.model.job.spec import GroupSpec, Resources
from diana.model.settings import Settings
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, OPERATOR, spec
from tests.engine.machines.test_workers import Machines

SITE_HAS, CLUSTER_HAS = {"matlab": 4, "ansys": 2}, {"matlab": 3}
LONG = 500.0


class Licensed(Machines):
    """Machines of the site, and a `cluster` that counts what it has of its own."""

    has = CLUSTER_HAS

    def __init__(self, site: Site, **slots: int) -> None:
        super().__init__(site, **slots)
        for name in slots:
            self.ready(name)

    def handle(self, event: ev.Event) -> None:
        if isinstance(event, ev.LrmReady) and event.worker == "cluster":
            offer = (*named(sorted(self.has.items())), "licences")
            event = msgspec.structs.replace(event, software=offer, ahead=2)
        super().handle(event)

    def lack(self, name: str, count: int, *, gave_back: bool) -> None:
        """The latest of what it was given: it gives them back unbegun, or does not know of them after a restart."""
        some = [run for run, over in self.held[name].items() if not over][-count:]
        if not gave_back:
            for run in some:
                del self.held[name][run]
            self.ready(name)
        for run in some if gave_back else ():
            self.held[name][run] = True
            self.tell([run], Outcome.UNBEGUN)

    def cancel(self, group: str) -> None:
        was = [(name, run) for name in sorted(self.up) for run, over in self.held[name].items() if not over]
        self.site.cancel(group)
        self.obey()
        for name, run in was:
            if self.held[name].get(run):
                self.tell([run], Outcome.CANCELLED)

    def give_up(self, name: str) -> None:
        """It is dead, and an operator says so."""
        if name in self.up:
            self.lose(name)
        self.held[name].clear()
        self.handle(ev.MachineRemoved(request=7, principal=OPERATOR, machine=name))

    def used(self, name: str, *machines: str) -> int:
        """By what they really hold."""
        custodies = self.site.engine.core.state.custodies
        open_ = [run for each in machines for run, over in self.held[each].items() if not over]
        return sum(
            dict(custodies[run.subgroup, run.epoch].spec.resources.licences).get(name, 0)
            for run in open_
            if (run.subgroup, run.epoch) in custodies
        )


def licensed(has: dict[str, int] = SITE_HAS, **slots: int) -> tuple[Site, Licensed]:
    site = Grid({"guard_jobs": 0, "licences": has}, alpha=0)["alpha"]
    return site, Licensed(site, **slots)


def wanting(jobs: int, work_s: float = LONG, processors: int = 1, **licences: int) -> GroupSpec:
    made = spec(jobs, work_s=work_s, processors=processors, sites=("alpha",))
    wants = msgspec.structs.replace(made.resources, licences=tuple(sorted(licences.items())))
    return msgspec.structs.replace(made, resources=wants)


# --- names ---------------------------------------------------------------------------------------------------


def test_a_licence_is_told_by_its_name_and_how_many() -> None:
    asked = software.needed(GroupSpec(argv=("x",), resources=Resources(licences=(("ansys", 2), ("matlab", 1)))))
    assert asked == ("licence ansys 2", "licence matlab 1")
    assert software.had(("licence ansys 3", "licence ansys 1", "licence matlab 0"), asked) == ("licence ansys 2",)
    assert software.lacking(("licence ansys 3",), asked) == "has no licence of matlab"
    assert software.lacking(("licence ansys 1",), asked) == "has 1 of the 2 licences of ansys a job needs"
    assert software.lacking(("licence ansys 2", "licence matlab 9"), asked) == ""


@pytest.mark.parametrize("said", ["licence x", "licence x -1", "licence x 99999999", "licence x ²", "licence a b 1"])
def test_what_a_peer_says_that_is_no_licence_is_none(said: str) -> None:
    assert not among((said,)) and lacking((said,), "licence x 1") == "has no licence of x"
    assert lacking(("licence x 4",), said) == "has no such licence"
    assert software.had(("licence x 4",), (said,)) == ()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"a b": 1}, "licences.a b: no name of a licence; want letters, digits and . _ @ + -"),
        ({"a": 0}, "licences.a = 0: want 1 to 1000000"),
        ({f"l{number}": 1 for number in range(17)}, "licences: names 17; want at most 16"),
    ],
)
def test_names_and_numbers_are_checked(wrong: dict[str, int], why: str) -> None:
    with pytest.raises(ValueError, match="licences") as caught:
        check(wrong, "licences")
    assert str(caught.value) == why
    assert not plain(tuple(sorted(wrong.items())))
    with pytest.raises(ValueError, match="licences"):
        Settings(licences={"a b": 1})


# --- where they go -------------------------------------------------------------------------------------------


def test_machines_of_a_site_share_what_it_has_and_a_cluster_has_its_own() -> None:
    _, machines = licensed(a=5, b=5, cluster=8)
    machines.submit(wanting(20, matlab=1), 20)
    assert machines.used("matlab", "a", "b") == 4 and machines.used("matlab", "cluster") == 3
    machines.end("a", 1)
    machines.end("cluster", 2)
    assert machines.used("matlab", "a", "b") == 4 and machines.used("matlab", "cluster") == 3


def test_what_waits_for_a_licence_keeps_nobody_else_waiting_and_says_so() -> None:
    site, machines = licensed(a=5, b=5)
    machines.submit(wanting(20, matlab=2), 20)
    assert machines.open("a") + machines.open("b") == 2
    machines.submit(spec(20, work_s=LONG, sites=("alpha",)), 20, 2, who=BOB)
    assert machines.open("a") + machines.open("b") == 10
    (group,) = (each for each in site.engine.core.state.groups.values() if each.spec.resources.licences)
    kind = kind_of(request_of(group.spec))
    assert short(site.engine.core, kind) == "waits for a licence: too few of matlab are free at alpha"


def test_a_job_that_wants_several_is_not_overtaken_by_those_behind_it_for_ever() -> None:
    _, machines = licensed(a=9)
    machines.submit(wanting(3, matlab=1), 3)
    machines.submit(wanting(1, matlab=4), 1, 2)
    machines.submit(wanting(9, matlab=1), 9, 3)
    machines.submit(wanting(9, ansys=1), 9, 4)
    # The fourth is free, and kept for who wants all four; another name is nobody's business there.
    assert (machines.used("matlab", "a"), machines.used("ansys", "a")) == (3, 2)
    for _ in range(3):
        machines.end("a", 1)
    assert machines.used("matlab", "a") == 4 and machines.open("a") == 3


def test_no_machine_is_kept_for_a_wide_job_that_waits_for_a_licence() -> None:
    _, machines = licensed(a=4, b=4)
    machines.submit(wanting(2, matlab=4, processors=3), 2)
    machines.submit(spec(20, work_s=LONG, sites=("alpha",)), 20, 2, who=BOB)
    assert (machines.open("a") + machines.open("b"), machines.used("matlab", "a", "b")) == (6, 4)


def test_a_wide_job_has_its_place_kept_only_where_its_licences_are() -> None:
    site, machines = licensed(a=4, cluster=4)
    machines.submit(spec(6, work_s=LONG, sites=("alpha",)), 6)
    core, want = site.engine.core, request_of(wanting(1, matlab=2, processors=3))
    places = [dispatch._keep(core, want, (), only) for only in (None, frozenset({"cluster"}), frozenset[str]())]
    assert [place.worker.name if place else "" for place in places] == ["a", "cluster", ""]


def test_a_restart_knows_what_is_held_also_by_a_machine_that_is_away() -> None:
    site, machines = licensed(a=4, b=4)
    machines.submit(wanting(3, matlab=2), 3)
    machines.lose("a")
    machines.lose("b")
    site.restart()
    machines.sessions = dict.fromkeys(machines.slots, 0)
    machines.seen = len(site.trace)
    machines.ready("a")
    machines.pass_time(5.0)
    assert machines.used("matlab", "a", "b") == 4
    assert site.engine.core.totals.runs.shared["licence:matlab"] == 4


def test_a_job_that_wants_more_than_there_are_is_refused_and_one_that_is_taken_away_goes_back() -> None:
    site, machines = licensed(a=4)
    machines.submit(wanting(1, matlab=5), 1, 2)
    assert "has 4 of the 5 licences of matlab a job needs" in str(site.replies[2])
    machines.submit(wanting(1, comsol=1), 1, 3)
    assert "has no licence of comsol" in str(site.replies[3])
    machines.submit(wanting(3, matlab=3), 3, 4)
    machines.handle(ev.SettingsLoaded(msgspec.structs.replace(site.settings, slots=0, licences={"matlab": 2})))
    machines.end("a", 1)
    assert machines.open("a") == 0 and capacity.untaken(site.engine.core)


def test_a_group_goes_to_the_site_that_has_its_licence() -> None:
    grid = Grid(alpha=8, beta=2)
    beta = grid["beta"]
    beta.handle(ev.SettingsLoaded(msgspec.structs.replace(beta.settings, licences={"matlab": 1})))
    asked = msgspec.structs.replace(wanting(2, work_s=1.0, matlab=1), sites=())
    grid["alpha"].submit(asked, 2)
    grid.pass_time(20.0)
    group = grid["alpha"].group("alpha-1")
    assert {part.site for part in group.subgroups.values()} == {"beta"}


def test_a_quote_foresees_the_wait_for_a_licence() -> None:
    site, machines = licensed(a=50)
    machines.submit(wanting(8, work_s=100.0, matlab=1), 8)

    def quoted(names: tuple[str, ...], jobs: int = 1) -> float:
        asked = ms.QuoteRequest(
            quote=1, processors=1, memory_bytes=0, jobs=jobs, refs=(), owner=ALICE.name, work_s=100.0, software=names
        )
        return quote_answer.quote(site.engine.core, asked).wait_s

    # What waits for a licence is work all the same.
    assert quoted(()) < 10.0
    # Four run for 100 s more, four wait before it: it ends at 300 s.
    assert quoted(("licence matlab 1",)) == pytest.approx(200.0, abs=1.0)
    assert licences.at_once(site.engine.core, ResourceRequest(1, (("licence:matlab", 3),))) == 1
    assert quoted(("licence ansys 1",)) < 10.0


# --- whatever happens ----------------------------------------------------------------------------------------


def _nothing_idle(core: Context) -> None:
    """The first that wants a licence could not have it, or there was no room; for a wide job room may be kept."""
    entries = [entry for entry, _ in core.queues.order(core.now)]
    head = next((entry for entry in entries if shared(entry.kind.amounts)), None)
    if head is None or any(entry.processors > 1 for entry in entries):
        return
    for pool in pools(core, head.kind):
        workers = [core.workers.find(name) for name in sorted(pool.machines)]
        assert not pool.jobs or not any(worker and core.workers.has_room(worker, head.kind) for worker in workers)


def _counted(core: Context) -> None:
    """Check that the count kept as runs are given and end is what machines hold, and that this is what custodies
    run."""
    runs, batches = core.totals.runs, dict[str, Counter[tuple[CustodyKey, float]]]()
    for lane in runs.lanes.values():
        mine = Counter[str]()
        for run in runs.of(lane):
            for name, count in shared(run.held):
                mine[name] += count
                batches.setdefault(name, Counter())[run.key, run.given_s] += count
        assert +Counter({name: lane.held[name] for name in mine}) == mine
    assert runs.licensed == batches
    given = Counter[str]()
    for custody in core.state.custodies.values():
        told = core.run_book.ended[custody.key].indices if custody.key in core.run_book.ended else set[int]()
        for name, count in custody.spec.resources.licences:
            given[f"licence:{name}"] += count * len(set(custody.running) - told)
    assert +runs.shared == +given == Counter({name: batch.total() for name, batch in batches.items()})
    for name in (f"licence:{one}" for one in SITE_HAS):
        assert sum(count for _, count in capacity.licence_ends(core, name)) == given[name]
        few = runs.licence_sample(name, 2)
        assert len(few) <= 2 and sum(count for _, _, count in few) == given[name]


TROUBLE = ["returned", "void", "gone", "cancel"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.sampled_from(["matlab", "ansys", ""]), st.integers(1, 3)),
        st.tuples(st.just("wide"), st.just("matlab"), st.integers(1, 2)),
        st.tuples(st.just("end"), st.sampled_from(["a", "b", "cluster"]), st.integers(1, 4)),
        st.tuples(st.sampled_from(["lose", "ready"]), st.sampled_from(["a", "b", "cluster"]), st.just(0)),
        st.tuples(st.sampled_from(TROUBLE), st.sampled_from(["a", "b"]), st.integers(1, 4)),
        st.tuples(st.just("restart"), st.just(""), st.just(0)),
    ),
    max_size=25,
)


@pytest.mark.wide
@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_never_are_more_held_than_there_are_and_none_lies_idle_that_is_wanted(
    steps: list[tuple[str, str, int]],
) -> None:
    live(steps)


@pytest.mark.wide
@settings(max_examples=500, deadline=None)
@given(STEPS)
def test_so_it_is_whatever_else_happens(steps: list[tuple[str, str, int]]) -> None:
    live(steps)


def live(steps: list[tuple[str, str, int]]) -> None:
    site, machines = licensed(a=3, b=4, cluster=4)
    number = 0
    for what, name, count in steps:
        if what in ("submit", "wide"):
            number += 1
            counts = {name: min(count, 2)} if name else {}
            width = 2 if what == "wide" else 1
            wanted = msgspec.structs.replace(wanting(3 * count, processors=width, **counts), on_crash="rerun")
            machines.submit(wanted, 3 * count, number)
        elif what == "end":
            machines.end(name, count)
        elif what == "lose" and name in machines.up:
            machines.lose(name)
        elif what == "ready" and name not in machines.up:
            machines.ready(name)
        elif what == "cancel" and count <= number:
            machines.cancel(f"alpha-{count}")
        elif what in ("returned", "void") and name in machines.up:
            machines.lack(name, count, gave_back=what == "returned")
        elif what == "gone":
            machines.give_up(name)
        elif what == "restart":
            site.restart()
            up, machines.up = machines.up, set()
            machines.seen = len(site.trace)
            for each in sorted(up):
                machines.ready(each)
        _counted(site.engine.core)
        machines.pass_time(2.0)
        _counted(site.engine.core)
        for licence, most in SITE_HAS.items():
            assert machines.used(licence, "a", "b") <= most
        assert machines.used("matlab", "cluster") <= CLUSTER_HAS["matlab"]
        assert machines.used("ansys", "cluster") == 0
    for name in ("a", "b", "cluster"):
        if name not in machines.up:
            machines.ready(name)
    core = site.engine.core
    for _ in range(200):
        machines.pass_time(2.0)
        _nothing_idle(core)
        _counted(core)
        if not any(machines.open(name) for name in machines.slots):
            break
        for name in machines.slots:
            machines.end(name, 9)
    assert not core.queues.entries and not core.totals.runs.licensed
    assert not any(core.totals.runs.shared.values())


def test_kinds_of_licences_cost_one_look_each_however_many_jobs_wait() -> None:
    site, machines = licensed(a=2)
    for number in range(100):
        machines.submit(wanting(1, matlab=4), 1, number + 1)
    core, looks = site.engine.core, []
    real = licences.pools
    licences.pools = lambda *args: looks.append(1) or real(*args)  # type: ignore[assignment,func-returns-value]
    try:
        machines.end("a", 1)
    finally:
        licences.pools = real
    assert machines.open("a") == 1 and len(looks) <= 8
    assert capacity.queued_jobs(core) == 98 and not any(isinstance(e, fx.KillRuns) for e in site.trace)
