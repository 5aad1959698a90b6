"""Gangs on sites that are never idle: each gets its place, and other work goes on (SPEC K5)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from diana.engine.dispatch import forecast
from diana.engine.dispatch.capacity import PromisedCapacity
from diana.engine.dispatch.forecast import MOST_STEPS
from diana.engine.handover.gangs.attempt_book import GangAttempts
from diana.engine.handover.gangs.attempts import LAST_WORD_S, RENEWALS
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.engine.views import gangs
from diana.model.facts import Outcome
from tests.engine.bench import Grid, Post, Site
from tests.engine.builders import ALICE, BOB, spec
from tests.engine.handover.test_gangs import begun, gang, held, submit

SETTINGS = {"claim_wait_s": 20.0, "default_work_s": 30.0, "claim_ahead": 0, "migration": "off", "binding": "early"}


class Busy:
    """Sites at which ordinary jobs of bob's always wait, so that none has an idle processor of its own accord."""

    def __init__(self, grid: Grid, *sites: str, run_s: dict[str, float], waiting: int = 6) -> None:
        self.grid, self.sites, self.run_s, self.waiting = grid, sites, run_s, waiting
        self.request, self.ended = 1000, 0
        for name in sites:
            self._keep_full(grid[name])
        grid.settle()

    def pass_time(self, seconds: int, until: Callable[[], bool] = lambda: False) -> int:
        """Let seconds pass, one by one, until something is so; return how many."""
        for passed in range(seconds):
            if until():
                return passed
            for name in self.sites:
                self._end_some(self.grid[name])
                self._keep_full(self.grid[name])
            for site in self.grid.sites.values():
                site.obey_kills()
            self.grid.settle()
            self.grid.pass_time(1.0)
        return seconds

    def _end_some(self, site: Site) -> None:
        runs = [run for run in site.running if run in site.began and run not in site.held and run not in site.gone]
        for run in runs:
            if site.began[run] + self.run_s[site.name] <= self.grid.now:
                self.ended += 1
                site._ends(run, Outcome.DONE)

    def _keep_full(self, site: Site) -> None:
        while len([run for run in site.running if run not in site.began]) + _waiting(site) < self.waiting:
            self.request += 1
            site.submit(spec(1, sites=(site.name,), work_s=30.0), 1, self.request, who=BOB, settle=False)


def _waiting(site: Site) -> int:
    return sum(len(one.pending) for one in site.engine.state.custodies.values() if not one.spec.is_gang)


def gone(grid: Grid) -> list[int]:
    return sorted(run.index for site in grid.sites.values() for run in site.gone)


def test_a_gang_begins_on_sites_whose_processors_are_never_idle_at_one_time() -> None:
    grid = Grid(SETTINGS, alpha=2, beta=2, gamma=0)
    busy = Busy(grid, "alpha", "beta", run_s={"alpha": 30.0, "beta": 47.0})
    busy.pass_time(60)
    name = submit(grid, "1x2@alpha+1x2@beta")
    took_s = busy.pass_time(600, lambda: gone(grid) == [0, 1])
    # Two jobs of 47 s end at the slower one before it has two processors; nothing is given up on the way.
    assert took_s <= 2 * 47 + 10, grid["alpha"].engine.core.waiting_notes
    assert not grid["alpha"].engine.core.book(GangAttempts).tries and grid["alpha"].group(name).state == ""


def test_quick_jobs_that_are_given_in_advance_do_not_keep_every_slot_from_a_claim() -> None:
    grid = Grid({**SETTINGS, "default_work_s": 1.0}, alpha=1, beta=1, gamma=0)
    for name in ("alpha", "beta"):
        grid[name].submit(spec(2, sites=(name,)), 2, 5, who=BOB, settle=False)
    grid.settle()
    submit(grid, "1x1@alpha+1x1@beta")
    for name in ("alpha", "beta"):
        grid[name].submit(spec(60, sites=(name,)), 60, 6, who=ALICE, settle=False)
    ended = {"alpha": 0, "beta": 0}

    def one_by_one() -> bool:
        for name, count in ended.items():
            ended[name] = count + grid[name].end(1)
        return gone(grid) == [0, 1]

    Busy(grid, run_s={}).pass_time(60, one_by_one)
    # Those that a machine had when the claim came, and one that came free at the other site.
    assert gone(grid) == [0, 1] and max(ended.values()) <= 8, ended


def test_ordinary_jobs_go_on_while_gangs_come_and_come() -> None:
    grid = Grid(SETTINGS, alpha=4, beta=4)
    busy = Busy(grid, "alpha", "beta", run_s={"alpha": 30.0, "beta": 47.0})
    busy.pass_time(60)
    for number in range(8):
        submit_as = grid["alpha"] if number % 2 else grid["beta"]
        submit_as.submit(gang("1x2@alpha+1x2@beta"), 2, 10 + number, who=ALICE, settle=False)
    grid.settle()
    before, begun_of = busy.ended, set[tuple[str, int]]()

    def some_end() -> bool:
        for site in grid.sites.values():
            for run in [run for run in site.gone if run in site.running and site.began[run] + 20.0 <= grid.now]:
                begun_of.add((run.subgroup.partition("/")[0], run.index))
                site._ends(run, Outcome.DONE)
        return len(begun_of) == 16

    took_s = busy.pass_time(1500, some_end)
    assert len(begun_of) == 16, (took_s, begun_of)
    # All eight processors would have ended 8 / 38.5 jobs a second.
    share = (busy.ended - before) / took_s / (4 / 30.0 + 4 / 47.0)
    assert share > 0.3, f"{share:.2f} of what ordinary jobs alone would have had, in {took_s} s"


@pytest.mark.parametrize("run_s", [100.0, 400.0])
def test_a_gang_holds_for_longer_with_each_try_until_the_slowest_site_has_room(run_s: float) -> None:
    grid = Grid({**SETTINGS, "default_work_s": 1.0}, alpha=1, beta=1, gamma=0)
    # Nobody knows how long jobs run here: forecasts say a second.
    grid["beta"].submit(spec(1, sites=("beta",)), 1, 5, who=BOB)
    grid.pass_time(1.0)
    submit(grid, "1x1@alpha+1x1@beta")
    holds: list[float] = []

    def look() -> bool:
        some = [start.barrier_s for site in grid.sites.values() for start in site.running.values() if start.barrier_s]
        holds.extend(until_s for until_s in some if until_s not in holds)
        if grid.now > run_s:
            grid["beta"].end()
        return gone(grid) == [0, 1]

    busy = Busy(grid, run_s={})
    took_s = busy.pass_time(3000, look)
    # The last try may hold for as long as the job runs; all tries together take less than four times that, and pauses.
    assert took_s < 4 * run_s + 60, (took_s, holds)
    assert len(grid["alpha"].records(r.GangGo)) == 1


def test_processors_that_are_expected_sooner_are_asked_for_later_and_others_use_them_meanwhile() -> None:
    grid = Grid({**SETTINGS, "default_work_s": 100.0}, alpha=1, beta=1, gamma=0)
    grid["beta"].submit(spec(1, sites=("beta",), work_s=100.0), 1, 5, who=BOB)
    grid.pass_time(1.0)
    name = submit(grid, "1x1@alpha+1x1@beta")
    decision = grid["alpha"].group(name).decisions[-1]
    assert decision.gang is not None and 90 <= decision.gang.wait_s <= 100
    assert held(grid) == []
    busy = Busy(grid, run_s={})
    busy.pass_time(60)
    assert held(grid) == [], "alpha's processor is not needed yet"
    busy.pass_time(30)
    assert held(grid) == [("alpha", 0)]
    grid["beta"].end()
    grid.settle()
    assert begun(grid) == [("alpha", 0), ("beta", 1)]


def test_the_others_are_asked_for_at_once_where_the_last_comes_before_it_was_expected() -> None:
    grid = Grid({**SETTINGS, "default_work_s": 100.0}, alpha=0, beta=1, gamma=1)
    grid["beta"].submit(spec(1, sites=("beta",), work_s=100.0), 1, 5, who=BOB)
    submit(grid, "1x1@gamma+1x1@beta")
    grid.pass_time(10.0)
    grid["beta"].end()
    grid.settle()
    assert begun(grid) == [("beta", 1), ("gamma", 0)]


def test_what_a_site_held_before_its_node_was_restarted_is_given_up_before_its_clock_ends_it() -> None:
    grid = Grid(SETTINGS, alpha=1, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaimed) and post[0] == "gamma" else "deliver"
    submit(grid, "1x1@alpha+1x1@beta+1x1@gamma")
    until_s = {start.barrier_s for site in grid.sites.values() for start in site.running.values()}
    assert until_s == {grid.now + 20.0 + LAST_WORD_S}
    grid.pass_time(15.0)
    grid["beta"].restart()
    grid.settle()
    grid.pass_time(6.0)
    assert len(grid["alpha"].records(r.TakenBack)) == 3 and not grid["alpha"].records(r.GangGo)


def half_held(*more: str) -> tuple[Grid, float]:
    """A gang of which one component has its processor at beta and the other, of the same part, none; and until when
    beta holds it. All were expected at once, thirty seconds from now."""
    grid = Grid({**SETTINGS, "default_work_s": 30.0}, alpha=0, beta=2, gamma=1)
    for name in ("beta", *more):
        grid[name].submit(spec(1, sites=(name,), work_s=30.0), 1, 5, who=BOB)
    grid.pass_time(1.0)
    submit(grid, "2x1@beta" + "".join(f"+1x1@{name}" for name in more))
    (until_s,) = {start.barrier_s for start in grid["beta"].running.values() if start.barrier_s}
    assert until_s == grid.now + 20.0 + LAST_WORD_S and held(grid) == [("beta", 0)]
    return grid, until_s


def test_a_part_that_came_together_late_is_given_up_before_its_first_component_leaves_the_barrier() -> None:
    grid, until_s = half_held("gamma")
    grid.pass_time(30.0)
    grid["beta"].end()
    grid.settle()
    assert {start.barrier_s for start in grid["beta"].running.values()} == {until_s}
    grid.pass_time(1.0)
    assert len(grid["alpha"].records(r.TakenBack)) == 2, "ten seconds are left, and a word may travel for twenty"


def test_what_a_site_held_before_its_node_was_restarted_counts_from_when_it_was_asked() -> None:
    grid, _ = half_held("gamma")
    grid.pass_time(15.0)
    grid["beta"].restart()
    grid.settle()
    grid.pass_time(15.0)
    grid["beta"].end()
    grid.settle()
    grid.pass_time(1.0)
    assert len(grid["alpha"].records(r.TakenBack)) == 2, "the second had its processor just now, the first long ago"


def test_a_component_that_starts_or_waits_again_keeps_its_age() -> None:
    grid = Grid({**SETTINGS, "time_threshold_s": 100.0, "default_work_s": 30.0}, alpha=0, beta=2)
    grid["beta"].submit(spec(1, sites=("beta",)), 1, 5, who=BOB)
    submit(grid, "2x1@beta")
    busy = Busy(grid, run_s={})
    busy.pass_time(650)
    assert len({run.epoch for run in grid["beta"].started}) > 3, "one of the two had its processor again and again"
    busy.pass_time(600, lambda: any(entry.claims for entry in grid["beta"].engine.core.queues.entries.values()))
    (entry,) = [entry for entry in grid["beta"].engine.core.queues.entries.values() if entry.claims]
    assert entry.steps >= 5


def test_the_age_of_a_users_gangs_counts_anew_when_one_of_them_is_let_go() -> None:
    grid = Grid({**SETTINGS, "time_threshold_s": 10.0}, alpha=0, beta=1, gamma=0)
    grid["beta"].submit(spec(1, sites=("beta",)), 1, 5, who=BOB)
    for request in (6, 7):
        grid["alpha" if request == 6 else "gamma"].submit(gang("1x1@beta"), 1, request)
    grid.pass_time(35.0)
    grid["beta"].end()
    grid.settle()
    assert len(begun(grid)) == 1
    (entry,) = [entry for entry in grid["beta"].engine.core.queues.entries.values() if entry.claims]
    assert entry.steps == 0


def test_a_claim_that_its_origin_asks_for_no_more_is_dropped_however_long_it_was_to_wait() -> None:
    grid = Grid({**SETTINGS, "default_work_s": 5000.0}, alpha=0, beta=1, gamma=0)
    grid["beta"].submit(spec(1, sites=("beta",), work_s=5000.0), 1, 5, who=BOB)
    submit(grid, "1x1@beta")
    grid.pass_time(400.0)
    assert grid["beta"].engine.state.custodies.keys() >= {("alpha-1/0", 1)} and not grid["alpha"].records(r.TakenBack)
    grid.part("alpha")
    grid.pass_time(RENEWALS * 15.0 + LAST_WORD_S + 1.0)
    assert ("alpha-1/0", 1) not in grid["beta"].engine.state.custodies


def test_gangs_of_one_origin_do_not_count_on_the_same_processors_to_come() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=2)
    grid["beta"].submit(spec(2, sites=("beta",)), 2, 5, who=BOB)
    name = submit(grid, "2x1@beta", jobs=3)
    assert len(grid["alpha"].group(name).subgroups) == 1


def test_a_quote_tells_a_few_steps_of_the_room_to_come_for_one_gang_and_the_last_has_all() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=40)
    for number in range(40):
        grid["beta"].submit(spec(1, sites=("beta",), work_s=10.0 + number), 1, 100 + number, who=BOB)
    told: list[ms.Quote | ms.QuoteRequest] = []

    def watch(_: Grid, __: int, post: Post) -> str:
        if isinstance(post[2], ms.Quote | ms.QuoteRequest):
            told.append(post[2])
        return "deliver"

    grid.fate = watch
    submit(grid, "3x1@beta", jobs=20)
    asked, quote = told[:2]
    assert isinstance(asked, ms.QuoteRequest) and asked.jobs == 3
    assert isinstance(quote, ms.Quote) and len(quote.coming) == MOST_STEPS
    times, rooms = [one.after_s for one in quote.coming], [one.processors for one in quote.coming]
    assert times == sorted(times) and rooms == sorted(rooms) and rooms[-1] == 40
    assert 9 <= times[0] <= 10 and 48 <= times[-1] <= 49


def test_the_next_try_prefers_sites_that_did_not_fail_the_last() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=2, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) and post[1] == "beta" else "deliver"
    name = submit(grid, "1x1")
    assert {part.site for part in grid["alpha"].group(name).subgroups.values()} == {"beta"}
    busy = Busy(grid, run_s={})
    busy.pass_time(120, lambda: gone(grid) == [0])
    assert [site for site, _ in begun(grid)] == ["gamma"]


def test_a_claim_that_came_to_nothing_leaves_the_gang_its_place_in_the_queue() -> None:
    grid = Grid({**SETTINGS, "time_threshold_s": 100.0}, alpha=1, beta=1, gamma=0)
    grid["beta"].submit(spec(1, sites=("beta",)), 1, 5, who=BOB)
    submit(grid, "1x1@alpha+1x1@beta")
    service = grid["alpha"].engine.state.service
    busy = Busy(grid, run_s={})
    busy.pass_time(450)
    assert len(grid["alpha"].records(r.TakenBack)) >= 4, "it was given up, and tried again"
    assert service.jobs.get(ALICE.name, 0.0) == 0.0, "what never began is no service"
    keys = [key for key, one in grid["beta"].engine.state.custodies.items() if one.spec.is_gang]
    entries = [
        grid["beta"].engine.core.queues.entries[key] for key in keys if key in grid["beta"].engine.core.queues.entries
    ]
    assert all(entry.steps >= 3 for entry in entries)
    assert entries


def test_a_gang_that_no_site_could_take_when_idle_is_refused() -> None:
    said = Grid(SETTINGS, alpha=18, beta=15, gamma=12)["alpha"].submit(gang("4x12"), 4)
    assert isinstance(said, fx.Refusal) and said.code == "unplaceable"
    assert "these sites cannot take this gang, idle or not: component 4 wants 12 processors" in said.text


def test_a_site_that_lies_of_processors_to_come_is_not_believed_beyond_its_size() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1, gamma=1)
    Busy(grid, "beta", "gamma", run_s={"beta": 30.0, "gamma": 30.0})

    def lie(g: Grid, _: int, post: Post) -> str:
        sender, to, message = post
        if sender == "beta" and isinstance(message, ms.Quote) and message.quote < 1 << 40:
            steps = (
                ms.ComingRoom(-5.0, 1 << 40),
                ms.ComingRoom(float(1 << 60), 9),
                ms.ComingRoom(1.0, 1 << 40, 1 << 40),
            )
            g.post(sender, to, msgspec.structs.replace(message, coming=steps))
            g.fate = None
            return "lose"
        return "deliver"

    grid.fate = lie
    name = submit(grid, "2x1")
    decision = grid["alpha"].group(name).decisions[-1]
    assert decision.gang is not None
    assert sorted(place.site for place in decision.gang.components) == ["beta", "gamma"]


def test_an_older_sites_claim_is_held_for_as_long_as_it_waits() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1, gamma=0)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    submit(grid, "1x1@beta")
    (custody,) = grid["beta"].engine.state.custodies.values()
    claim = ms.GangClaim(subgroup=custody.subgroup, epoch=custody.epoch, db_uuid="db-beta", wait_s=9.0)
    grid["beta"].handle(ev.Received(grid["alpha"].name, claim))
    grid.settle()
    (start,) = [one for one in grid["beta"].running.values()]
    assert start.barrier_s == grid.now + 9.0


def test_what_a_site_has_promised_to_others_is_no_room_to_come() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=4)
    core = grid["beta"].engine.core
    asked = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=2, refs=(), owner=ALICE.name, coming=True)
    assert [one.processors for one in forecast.coming(core, asked)] == [4]
    core.book(PromisedCapacity).rooms.make("move", 3, core.now)
    assert [one.processors for one in forecast.coming(core, asked)] == [1]


@pytest.mark.parametrize(("share", "most"), [(0.5, 2), (0.75, 3), (0.0, 1)])
def test_gangs_of_one_origin_hold_a_share_of_a_site_and_anothers_pass_them(share: float, most: int) -> None:
    grid = Grid({**SETTINGS, "claim_share": share}, alpha=0, beta=4, gamma=4, delta=0)
    grid["gamma"].submit(spec(4, sites=("gamma",), work_s=30.0), 4, 5, who=BOB)
    grid.pass_time(1.0)
    submit(grid, "1x1@beta+1x1@gamma", jobs=4)
    grid.pass_time(25.0)
    assert [site for site, _ in held(grid)] == ["beta"] * most
    grid["delta"].submit(gang("1x1@beta"), 1, 9, who=BOB)
    assert begun(grid) == [("beta", 0)], "the other origin's is let go at once"
    grid.finish(rounds=400)
    assert {group.state for site in grid.sites.values() for group in site.engine.state.groups.values()} == {"done"}


def test_a_gang_alone_may_hold_a_whole_site_in_several_parts_and_gangs_of_the_site_itself_any() -> None:
    grid = Grid({**SETTINGS, "claim_share": 0.1}, alpha=0, beta=4)
    submit(grid, "1x1@beta+1x3@beta")
    assert len(begun(grid)) == 2
    grid = Grid({**SETTINGS, "claim_share": 0.1}, beta=4, gamma=4)
    grid["gamma"].submit(spec(4, sites=("gamma",), work_s=30.0), 4, 5, who=BOB)
    grid.pass_time(1.0)
    grid["beta"].submit(gang("1x1@beta+1x1@gamma", jobs=4), 8, 1)
    grid.pass_time(25.0)
    assert len(held(grid)) == 4


def test_what_waits_is_told_since_it_was_asked_for_and_what_is_held_since_it_was_claimed() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1, gamma=1)
    grid["beta"].submit(spec(1, sites=("beta",), work_s=40.0), 1, 5, who=BOB)
    grid["gamma"].submit(spec(1, sites=("gamma",), work_s=10.0), 1, 5, who=BOB)
    name = submit(grid, "1x1@beta+1x1@gamma")
    grid.pass_time(35.0)

    def told() -> dict[str, tuple[str, float]]:
        (one,) = gangs.waiting(grid["alpha"].engine.core, grid["alpha"].group(name))
        return {at.site: (at.state, round(at.since_s, 2)) for at in one.components}

    asked_s = 0.75 * (40.0 - 10.0)
    assert told() == {"beta": ("waits", 35.0), "gamma": ("waits", round(35.0 - asked_s, 2))}
    grid["gamma"].end()
    grid.settle()
    grid.pass_time(5.0)
    assert told() == {"beta": ("waits", 40.0), "gamma": ("holds", 5.0)}


def test_a_better_gang_of_the_same_origin_has_the_lesser_yield_the_share_before_it_begins() -> None:
    grid = Grid({**SETTINGS, "claim_share": 0.25}, alpha=0, beta=4, gamma=4)
    grid["gamma"].submit(spec(4, sites=("gamma",), work_s=30.0), 4, 5, who=BOB)
    grid.pass_time(1.0)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) and post[1] == "beta" else "deliver"
    first = submit(grid, "1x1@beta+1x1@gamma")
    grid.fate = lambda g, _, post: (
        "lose" if isinstance(post[2], ms.GangClaim) and post[2].subgroup.startswith(first) else "deliver"
    )
    grid["alpha"].submit(gang("1x1@beta+1x1@gamma"), 2, 77)
    grid.pass_time(25.0)
    assert {run.subgroup.partition("/")[0] for run in grid["beta"].held} == {"alpha-2"}
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangYield) else "deliver"
    grid.pass_time(16.0)
    assert {run.subgroup.partition("/")[0] for run in grid["beta"].held} == {"alpha-2"}, "the share is taken"
    grid.fate = None
    for _ in range(4):
        grid.pass_time(1.0)
        for site in grid.sites.values():
            site.obey_kills()
        grid.settle()
    assert {run.subgroup.partition("/")[0] for run in grid["beta"].held} == {first}
