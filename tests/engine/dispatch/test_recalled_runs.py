"""A run that a worker was given and has not begun goes where it is wanted: clusters give it back (SPEC U7; PROMISES
section 2, recall)."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from diana.engine.guard.guard import Guard
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.state import decode_state, encode_state
from diana.model.facts import Outcome
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.model.views.views import Ok
from tests.engine.bench import Grid
from tests.engine.builders import OPERATOR, facts_of, spec
from tests.engine.machines.test_workers import Machines
from tests.engine.placement.test_cancel_held import cancel_held

JOBS = 12
LONG = 100.0


class Cluster(Machines):
    """A cluster of 2 slots, and as deep: it has begun the first `at_once` runs of those it holds."""

    def __init__(self, grid: Grid, name: str, recalls: bool = True) -> None:
        super().__init__(grid[name], slurm=2)
        self.recalls = recalls
        self.begun: set[ev.Run] = set()
        self.at_once = 2
        self.orders: list[fx.RecallRuns] = []
        self.ready("slurm")

    def ready(self, name: str) -> None:
        self.sessions[name] += 1
        self.up.add(name)
        known = tuple(self.held[name])
        told = {"worker": name, "session": self.sessions[name], "slots": 2, "ahead": 4, "recalls": self.recalls}
        self.handle(ev.LrmReady(known=known, **told))  # type: ignore[arg-type]

    def obey(self) -> None:
        effects = self.site.trace[self.seen :]
        super().obey()
        open_ = [run for run, over in self.held["slurm"].items() if not over]
        self.begun |= set(open_[: max(0, self.at_once - len(self.begun & set(open_)))])
        recalls = [effect for effect in effects if isinstance(effect, fx.RecallRuns)]
        self.orders += recalls
        for order in recalls:
            self.give_back(order)

    def give_back(self, order: fx.RecallRuns) -> None:
        meant = [
            run
            for run, over in self.held["slurm"].items()
            if (run.subgroup, run.epoch) == (order.subgroup, order.epoch) and run.index in order.indices and not over
        ]
        back = [run for run in meant if run not in self.begun]
        if back:
            self.held["slurm"].update(dict.fromkeys(back, True))
            self.tell(back, Outcome.UNBEGUN)


def at_beta(recalls: bool = True) -> tuple[Grid, Cluster]:
    """A group of alpha's at beta, whose cluster was given half of it; gamma is idle."""
    grid = Grid({"migration": "off"}, alpha=0, beta=0, gamma=4)
    cluster = Cluster(grid, "beta", recalls)
    grid.part("gamma")
    grid.pass_time(2.0)
    grid["alpha"].submit(spec(JOBS, work_s=LONG, not_sites=("alpha",)), JOBS)
    cluster.pass_time(2.0)
    grid.heal("gamma")
    cluster.pass_time(2.0)
    assert len(cluster.held["slurm"]) == 6
    return grid, cluster


def ran(grid: Grid, cluster: Cluster) -> list[int]:
    return sorted([run.index for run in cluster.begun] + [run.index for run in grid["gamma"].started])


def open_at(grid: Grid) -> Counter[str]:
    """Jobs without a result, by the site that has them."""
    found = Counter[str]()
    for part in grid["alpha"].group("alpha-1").subgroups.values():
        found[part.site] += part.open_jobs()
    return found


def finish(grid: Grid, cluster: Cluster) -> None:
    for _ in range(40):
        cluster.end("slurm", 2)
        grid["gamma"].end(4)
        cluster.pass_time(5.0)


def test_what_waits_in_a_cluster_moves_with_the_rest_and_what_began_there_stays() -> None:
    grid, cluster = at_beta()
    grid["alpha"].move("alpha-1", "gamma")
    for _ in range(5):
        cluster.pass_time(2.0)
    assert open_at(grid) == {"beta": 2, "gamma": 10}
    finish(grid, cluster)
    assert ran(grid, cluster) == list(range(JOBS))
    assert grid["alpha"].replies and {run.attempt for run in grid["gamma"].started} == {1}


def test_what_another_site_gave_ahead_counts_as_held_there_since_it_comes_back() -> None:
    grid, cluster = at_beta()
    assert grid["alpha"].hold("alpha-1") == Ok(10, started=2)
    for _ in range(5):
        cluster.pass_time(2.0)
    (share,) = grid["alpha"].ask("group", "alpha-1").shares  # type: ignore[attr-defined]
    assert (share.held, share.running) == (10, 2)


def test_a_worker_that_gives_nothing_back_is_not_asked_to_and_keeps_what_it_has() -> None:
    grid, cluster = at_beta(recalls=False)
    grid["alpha"].move("alpha-1", "gamma")
    for _ in range(5):
        cluster.pass_time(2.0)
    assert not cluster.orders
    assert open_at(grid) == {"beta": 6, "gamma": 6}


def test_what_is_held_comes_back_from_the_cluster_and_goes_there_again_when_it_is_released() -> None:
    grid, cluster = at_beta()
    grid["alpha"].hold("alpha-1")
    for _ in range(3):
        cluster.pass_time(2.0)
    assert [len(order.indices) for order in cluster.orders] == [6]
    assert not [run for run in cluster.held["slurm"] if run not in cluster.begun]
    grid["alpha"].release_jobs("alpha-1")
    finish(grid, cluster)
    assert ran(grid, cluster) == list(range(JOBS))


def test_what_came_back_and_was_given_again_may_still_go_elsewhere() -> None:
    grid, cluster = at_beta()
    for order in (grid["alpha"].hold, grid["alpha"].release_jobs):
        order("alpha-1")
        cluster.pass_time(4.0)
    again = [run for run in cluster.held["slurm"] if run.attempt == 2]
    assert again
    grid["alpha"].move("alpha-1", "gamma")
    for _ in range(5):
        cluster.pass_time(2.0)
    assert open_at(grid) == {"beta": 2, "gamma": 10}
    finish(grid, cluster)
    assert ran(grid, cluster) == list(range(JOBS))


def test_what_came_back_from_a_cluster_again_and_again_is_not_counted_as_under_way_there() -> None:
    grid = Grid({"migration": "off"}, alpha=0, beta=0, gamma=1)
    cluster = Cluster(grid, "beta")
    cluster.at_once = 0
    grid["alpha"].submit(spec(JOBS, work_s=LONG, not_sites=("alpha",)), JOBS)
    for _ in range(3):
        for to in ("beta", "gamma"):
            grid["alpha"].move("alpha-1", to)
            for _ in range(5):
                cluster.pass_time(2.0)
            there = [run for run, over in cluster.held["slurm"].items() if not over]
            assert len(there) >= 5 if to == "beta" else not there
            assert grid["beta"].engine.core.book(Guard).here[GroupId("alpha-1")].out == len(there)
    assert len(cluster.orders) >= 3


def test_what_is_cancelled_while_it_comes_back_is_cancelled() -> None:
    grid, cluster = at_beta()
    cluster.give_back = lambda order: None  # type: ignore[method-assign]
    grid["alpha"].move("alpha-1", "gamma")
    cluster.pass_time(2.0)
    back = [run for run in cluster.held["slurm"] if run not in cluster.begun]
    cluster.up.clear()
    grid["alpha"].cancel("alpha-1", IndexSet.of(run.index for run in back))
    cluster.up.add("slurm")
    cluster.tell(back, Outcome.UNBEGUN)
    finish(grid, cluster)
    assert ran(grid, cluster) == sorted(set(range(JOBS)) - {run.index for run in back})


@pytest.mark.parametrize("by_snapshot", [False, True])
def test_a_node_that_was_away_asks_again_and_remembers_what_came_back(by_snapshot: bool) -> None:
    grid, cluster = at_beta()
    beta = grid["beta"]
    cluster.lose("slurm")
    held, cluster.up = cluster.up, set()
    grid["alpha"].move("alpha-1", "gamma")
    cluster.pass_time(2.0)
    cluster.orders.clear()
    beta.restart()
    cluster.up = held
    cluster.ready("slurm")
    assert len(cluster.orders) == 1
    (back,) = beta.records(r.RunsReturned)
    assert isinstance(back, r.RunsReturned) and len(back.indices) == 4
    if by_snapshot:
        state = beta.engine.core.state
        assert decode_state(encode_state(state)) == state
    finish(grid, cluster)
    assert ran(grid, cluster) == list(range(JOBS))


def test_a_user_is_told_how_many_may_go_of_those_a_cluster_was_given() -> None:
    grid = Grid({"migration": "off"}, alpha=0, gamma=4)
    grid.part("gamma")
    cluster = Cluster(grid, "alpha")
    cluster.submit(spec(JOBS, work_s=LONG), JOBS)
    grid.heal("gamma")
    assert grid["alpha"].move("alpha-1", "gamma") == Ok(JOBS - 2, started=2)
    for _ in range(3):
        cluster.pass_time(2.0)
    finish(grid, cluster)
    assert ran(grid, cluster) == list(range(JOBS))


def test_a_drained_home_lets_go_of_what_waits_in_its_cluster() -> None:
    grid = Grid({"migration": "off"}, alpha=0, gamma=4)
    grid.part("gamma")
    cluster = Cluster(grid, "alpha")
    cluster.submit(spec(JOBS, work_s=LONG), JOBS)
    grid.heal("gamma")
    cluster.handle(ev.DrainSite(request=5, principal=OPERATOR, on=True, reason="power"))
    for _ in range(6):
        cluster.pass_time(5.0)
    assert len(grid["gamma"].started) >= 4 and not cluster.held["slurm"].keys() - cluster.begun
    finish(grid, cluster)
    assert ran(grid, cluster) == list(range(JOBS))


def test_a_drained_home_lets_go_of_a_group_that_its_cluster_has_all_of() -> None:
    grid = Grid({"migration": "off"}, alpha=0, gamma=4)
    grid.part("gamma")
    cluster = Cluster(grid, "alpha")
    cluster.submit(spec(6, work_s=LONG), 6)
    assert len(cluster.held["slurm"]) == 6
    grid.heal("gamma")
    cluster.handle(ev.DrainSite(request=5, principal=OPERATOR, on=True, reason="power"))
    for _ in range(6):
        cluster.pass_time(5.0)
    assert len(grid["gamma"].started) == 4
    finish(grid, cluster)
    assert ran(grid, cluster) == list(range(6))


def slow(cluster: Cluster) -> list[fx.RecallRuns]:
    """It obeys recalls at the next call of `at_last` only."""
    put_off: list[fx.RecallRuns] = []
    cluster.give_back = put_off.append  # type: ignore[method-assign]
    return put_off


def at_last(cluster: Cluster, put_off: list[fx.RecallRuns]) -> None:
    for order in put_off:
        Cluster.give_back(cluster, order)
    put_off.clear()


@pytest.mark.parametrize("home", [True, False])
def test_who_wants_to_cancel_what_is_held_for_sure_is_told_to_ask_again_while_it_comes_back(home: bool) -> None:
    if home:
        grid = Grid({"migration": "off"}, alpha=0, gamma=4)
        grid.part("gamma")
        cluster = Cluster(grid, "alpha")
        cluster.submit(spec(JOBS, work_s=LONG), JOBS)
    else:
        grid, cluster = at_beta()
    began = {run.index for run in cluster.begun}
    put_off = slow(cluster)
    grid["alpha"].hold("alpha-1")
    cluster.pass_time(2.0)
    first = cancel_held(grid)
    assert first.unsure and len(first.jobs) == (JOBS - 6 if home else 0)
    at_last(cluster, put_off)
    cluster.pass_time(2.0)
    second = cancel_held(grid)
    assert not second.unsure
    assert set(first.jobs) | set(second.jobs) == set(range(JOBS)) - began
    finish(grid, cluster)
    assert ran(grid, cluster) == sorted(began)


def test_an_end_that_tells_unbegun_twice_takes_nothing_back_twice() -> None:
    grid, cluster = at_beta()
    run = next(run for run in cluster.held["slurm"] if run not in cluster.begun)
    facts = facts_of(grid["beta"].name, [run], Outcome.UNBEGUN, grid.now)
    for _ in range(2):
        grid["beta"].handle(ev.JobsEnded(subgroup=run.subgroup, epoch=run.epoch, facts=facts))
    assert len(grid["beta"].records(r.RunsReturned)) == 1


def test_that_an_older_attempt_came_back_says_nothing_of_the_one_at_hand() -> None:
    grid, cluster = at_beta()
    for order in (grid["alpha"].hold, grid["alpha"].release_jobs):
        order("alpha-1")
        cluster.pass_time(4.0)
    again = next(run for run in cluster.held["slurm"] if run.attempt == 2)
    cluster.begun.add(again)
    grid["alpha"].move("alpha-1", "gamma")
    cluster.pass_time(2.0)
    facts = facts_of(grid["beta"].name, [msgspec.structs.replace(again, attempt=1)], Outcome.UNBEGUN, grid.now)
    grid["beta"].handle(ev.JobsEnded(subgroup=again.subgroup, epoch=again.epoch, facts=facts))
    finish(grid, cluster)
    assert ran(grid, cluster) == list(range(JOBS))
