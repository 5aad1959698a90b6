"""Requirements of a group hold on every road: planned, bound late, moved by its user, called back and placed again; and
each site that does not meet them is told with what it lacks (SPEC G1)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from diana.engine.dispatch.turns import Turns
from diana.engine.journal import codec, records
from diana.engine.journal import effects as fx
from diana.engine.journal.state import decode_state
from diana.engine.matching import facts
from diana.engine.matching.match import Match
from diana.engine.messages import messages as ms
from diana.engine.messages.binding import TurnCall
from diana.engine.messages.migration import SurplusGroup
from diana.engine.migration import origin
from diana.engine.placement import accept
from diana.errors import StoreNewer
from diana.model.ids import GroupId, SiteId
from diana.model.job.spec import GroupSpec, encode_spec
from diana.model.views.decision import Decision, SiteCost
from tests.engine.bench import Grid, Site
from tests.engine.builders import spec

GIB = 2**30
NAME = GroupId("alpha-1")


def grid(binding: str = "early", **memory_gib: int) -> Grid:
    """Sites of four slots each, with so much memory for a job and a domain of their own."""
    made = Grid({"binding": binding}, **dict.fromkeys(memory_gib, 4))
    for name, gib in memory_gib.items():
        learn(made[name], memory_bytes=gib * GIB, domain=f"{name}.edu")
    return made


def learn(site: Site, **settings: object) -> None:
    """Start the site again with other settings."""
    site.settings = msgspec.structs.replace(site.settings, **settings)
    site.restart()
    site.grid.settle()


def wanted(
    jobs: int = 4, requirements: Sequence[str] = ("site.memory_bytes >= 8 * 1073741824",), **more: object
) -> GroupSpec:
    return spec(jobs, requirements=tuple(requirements), **more)


def plan(made: Grid, asked: GroupSpec, jobs: int = 4) -> Decision:
    made["alpha"].replies.pop(1, None)
    answer = made["alpha"].submit(asked, jobs, plan_only=True)
    assert isinstance(answer, fx.DecisionMade), answer
    return answer.decision


def rows(decision: Decision) -> dict[str, SiteCost]:
    return {row.site: row for row in decision.candidates}


def placed(made: Grid) -> set[str]:
    return {part.site for part in made["alpha"].group(NAME).subgroups.values() if part.indices}


# --- planned -------------------------------------------------------------------------------------------------


def test_jobs_go_where_the_requirements_hold_and_the_others_are_told_what_they_lack() -> None:
    decision = plan(grid(alpha=2, beta=4, gamma=8), wanted())
    assert {part.site for part in decision.parts} == {"gamma"}
    row = rows(decision)["beta"]
    assert row.rejected == "does not meet: site.memory_bytes >= 8 * 1073741824"
    assert row.near_miss == "site.memory_bytes >= 4294967296"
    assert [(one.text, one.found) for one in row.failed] == [
        ("site.memory_bytes >= 8 * 1073741824", "4294967296 >= 8589934592 does not hold")
    ]
    assert not rows(decision)["gamma"].failed


def test_every_conjunct_that_fails_is_told_and_a_site_with_two_is_no_near_miss() -> None:
    asked = wanted(requirements=["site.memory_bytes >= 8589934592 && suffix(site.domain, ['gamma.edu'])"])
    row = rows(plan(grid(alpha=2, beta=8, gamma=8), asked))["alpha"]
    assert row.rejected == "does not meet: site.memory_bytes >= 8589934592 (and 1 more)"
    assert [one.found for one in row.failed] == ["2147483648 >= 8589934592 does not hold", "site.domain = 'alpha.edu'"]
    assert row.near_miss == ""


def test_a_decision_stays_small_however_much_fails() -> None:
    many = tuple(f"site.name == 'beta' || site.slots > {100 + n} || site.name == '{'x' * 1000}'" for n in range(30))
    row = rows(plan(grid(alpha=2, beta=8), wanted(requirements=many)))["alpha"]
    assert row.rejected.endswith("(and 29 more)") and len(row.failed) == 16
    assert all(len(one.text) <= 200 and len(one.found) <= 200 for one in row.failed)


def test_a_group_that_no_site_can_take_is_refused_with_the_near_miss_of_each() -> None:
    made = grid(alpha=2, beta=4)
    answer = made["alpha"].submit(wanted(), 4)
    assert isinstance(answer, fx.Refusal) and answer.code == "unplaceable"
    assert (
        "alpha: does not meet: site.memory_bytes >= 8 * 1073741824 (takes it if site.memory_bytes >= 2147483648)"
        in (answer.text)
    )
    other = made["alpha"].submit(wanted(requirements=["site.name == 'mars'"]), 4, 2)
    assert isinstance(other, fx.Refusal) and "beta: does not meet: site.name == 'mars' ('beta' == 'mars'" in other.text


@pytest.mark.parametrize("placement", ["random", "round-robin", "fastest", "least-queue", "two-choices", "greedy"])
def test_requirements_hold_under_each_policy(placement: str) -> None:
    made = grid(alpha=2, beta=4, gamma=8)
    learn(made["alpha"], placement=placement)
    made["alpha"].submit(wanted(12), 12)
    assert placed(made) == {"gamma"}


def test_a_site_of_an_older_release_does_not_tell_its_memory_and_gets_no_job_that_needs_it() -> None:
    made = grid(alpha=2, beta=8)
    send = made.post

    def as_of_old(sender: SiteId, to: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.Quote):
            message = msgspec.structs.replace(message, memory_bytes=0, gpus=0, domain="")
        send(sender, to, message)

    made.post = as_of_old  # type: ignore[method-assign]
    answer = made["alpha"].submit(wanted(), 4)
    assert isinstance(answer, fx.Refusal) and "beta: does not meet" in answer.text
    assert "(site.memory_bytes not told)" in answer.text
    assert plan(made, wanted(requirements=["site.name == 'beta'"])).parts[0].site == "beta"


def test_the_link_to_the_site_is_judged_as_measured() -> None:
    made = grid(alpha=2, beta=8, gamma=8)
    for site, seconds in (("beta", 0.2), ("gamma", 0.01)):
        made["alpha"].engine.core.view.book.link(SiteId(site)).rtt.add(made.now, seconds)
    asked = wanted(link_requirements=("link.rtt_s < 0.05",))
    decision = plan(made, asked)
    assert {part.site for part in decision.parts} == {"gamma"}
    assert rows(decision)["beta"].failed[0].found == "0.2 < 0.05 does not hold"


# --- bound late, moved, placed again -------------------------------------------------------------------------


def test_jobs_wait_for_their_turn_only_where_the_requirements_hold() -> None:
    made = grid("late", alpha=2, beta=4, gamma=8, delta=8)
    made["alpha"].submit(wanted(30, work_s=100.0), 30)
    assert placed(made) == {"gamma", "delta"} and made["alpha"].group(NAME).unplaced
    assert {name for name in made.sites if made[name].engine.core.book(Turns).reserved} == {"gamma", "delta"}


def test_the_call_of_a_site_that_does_not_meet_them_gets_nothing() -> None:
    made = grid("late", alpha=2, beta=4, gamma=8, delta=8)
    made["alpha"].submit(wanted(30, work_s=100.0), 30)
    waiting = made["alpha"].group(NAME).unplaced
    made.post(SiteId("beta"), SiteId("alpha"), TurnCall(group=NAME, call=7, jobs=5))
    made.settle()
    assert made["alpha"].group(NAME).unplaced == waiting and "beta" not in placed(made)


@pytest.mark.parametrize(("gib", "gets"), [(1, False), (8, True)])
def test_a_site_that_meets_them_no_more_gets_nothing_that_it_calls_for(gib: int, gets: bool) -> None:
    made = grid("late", alpha=2, gamma=8, delta=8)
    made["alpha"].submit(wanted(30, work_s=100.0), 30)
    peer = made["alpha"].engine.core.view.peers[SiteId("gamma")]
    assert peer.summary is not None
    peer.summary = msgspec.structs.replace(peer.summary, memory_bytes=gib * GIB)
    waiting = len(made["alpha"].group(NAME).unplaced)
    made["gamma"].end(2)
    made.settle()
    assert (len(made["alpha"].group(NAME).unplaced) < waiting) == gets


def test_a_site_that_meets_them_no_more_is_told_to_wait_no_more() -> None:
    made = grid("late", alpha=2, gamma=8, delta=8)
    made["alpha"].submit(wanted(30, work_s=100.0), 30)
    learn(made["gamma"], memory_bytes=GIB)
    made.pass_time(90.0)
    waits_at = {name for name in made.sites if NAME in made[name].engine.core.book(Turns).reserved}
    assert waits_at == {"delta"}


def test_a_user_cannot_move_jobs_to_a_site_that_does_not_meet_them() -> None:
    made = grid(alpha=8, beta=4)
    made["alpha"].submit(wanted(20), 20)
    made["alpha"].move(NAME, "beta")
    made.pass_time(10.0)
    assert placed(made) == {"alpha"}


def test_jobs_that_are_placed_again_keep_their_requirements() -> None:
    made = grid(alpha=2, beta=4, gamma=8, delta=8)
    made["alpha"].submit(wanted(20), 20)
    assert placed(made) <= {"gamma", "delta"}
    learn(made["gamma"], slots=0)
    learn(made["delta"], memory_bytes=GIB)
    made.pass_time(300.0)
    assert "beta" not in placed(made) and "alpha" not in placed(made)


def test_waiting_jobs_are_not_pulled_back_where_no_other_site_meets_them() -> None:
    made = grid(alpha=1, beta=8, gamma=2)
    made["alpha"].submit(wanted(20), 20)
    assert placed(made) == {"beta"}
    learn(made["beta"], slots=0)
    made.pass_time(200.0)
    assert placed(made) == {"beta"} and not made["alpha"].group(NAME).unplaced


def test_a_member_of_a_chain_is_probed_for_its_requirements() -> None:
    assert not accept.surely_placeable(grid(alpha=8)["alpha"].engine.core, wanted())
    assert accept.surely_placeable(grid(alpha=8)["alpha"].engine.core, spec(1))


def test_a_run_time_that_is_a_guess_is_not_told() -> None:
    made = grid(alpha=8)
    short = ("site.run_s < 1e6",)
    assert plan(made, wanted(requirements=short)).parts
    answer = made["alpha"].submit(wanted(requirements=short, work_s=0.0), 4, plan_only=True)
    assert isinstance(answer, fx.Refusal) and "site.run_s not told" in answer.text


# --- rank and sets -------------------------------------------------------------------------------------------


def test_the_highest_rank_gets_the_jobs_that_can_start_at_once() -> None:
    made = grid(alpha=1, beta=2, gamma=3)
    asked = wanted(4, requirements=(), rank="site.memory_bytes")
    decision = plan(made, asked)
    assert {part.site for part in decision.parts} == {"gamma"}
    assert rows(decision)["gamma"].rank == 3 * GIB
    assert rows(decision)["beta"].rejected == "ranks lower than sites where all jobs can start at once"
    assert {part.site for part in plan(made, wanted(8, requirements=(), rank="site.memory_bytes"), 8).parts} == {
        "beta",
        "gamma",
    }


def test_where_jobs_have_to_wait_the_first_end_decides_and_not_the_rank() -> None:
    made = grid(alpha=1, beta=2, gamma=3)
    asked = wanted(60, requirements=(), rank="site.memory_bytes")
    assert {part.site for part in plan(made, asked, 60).parts} == {"alpha", "beta", "gamma"}


def test_the_sites_of_a_plan_together_meet_what_is_wanted_of_a_set() -> None:
    made = grid(alpha=1, beta=2, gamma=3)
    few = wanted(60, requirements=(), set_requirements=("size(set) <= 2",))
    assert len(plan(made, few, 60).parts) == 2
    many = wanted(2, requirements=(), set_requirements=("sum(set.memory_bytes) >= 5e9",))
    used = {part.site for part in plan(made, many, 2).parts}
    assert sum({"alpha": 1, "beta": 2, "gamma": 3}[site] for site in used) * GIB >= 5e9


def test_jobs_placed_later_count_with_the_sites_that_have_jobs_already() -> None:
    made = grid(alpha=1, beta=2, gamma=3)
    made["alpha"].submit(wanted(30, requirements=(), set_requirements=("size(set) <= 2",)), 30)
    first = placed(made)
    assert len(first) == 2
    made["alpha"].move(NAME, ({"alpha", "beta", "gamma"} - first).pop())
    made.pass_time(20.0)
    assert len(placed(made)) <= 2


def test_a_group_with_requirements_of_a_set_is_bound_at_once() -> None:
    made = grid("late", alpha=1, beta=2, gamma=3)
    made["alpha"].submit(wanted(60, requirements=(), set_requirements=("size(set) <= 2",)), 60)
    assert len(placed(made)) == 2 and not made["alpha"].group(NAME).unplaced


def test_a_set_that_no_sites_make_is_told() -> None:
    made = grid(alpha=1, beta=2)
    answer = made["alpha"].submit(wanted(4, requirements=(), set_requirements=("sum(set.memory_bytes) >= 1e12",)), 4)
    assert isinstance(answer, fx.Refusal) and answer.code == "unplaceable"
    assert (
        "no set of sites meets: sum(set.memory_bytes) >= 1e12; the best is alpha + beta: 3221225472 >= 1e+12 "
        in answer.text
    )


def test_a_set_that_no_sites_make_is_told_by_the_best_there_is_and_once() -> None:
    made = grid(alpha=1, beta=2, gamma=3)
    texts = ("sum(set.memory_bytes) >= 8e9", "size(set) <= 2")
    for jobs, best in (
        (4, "the best is beta + gamma: 5368709120 >= 8000000000"),
        (1, "the best of up to 1 site, one for each job, is gamma: 3221225472 >= 8000000000"),
    ):
        asked = wanted(jobs, requirements=(), set_requirements=texts)
        answer = made["alpha"].submit(asked, jobs, 1 + jobs, plan_only=True)
        assert isinstance(answer, fx.Refusal)
        bytes_ = best.rpartition(" >= ")[0].rpartition(" ")[2]
        assert answer.text == (
            f"no site can take this group: no set of sites meets: {texts[0]}; {best} does not hold"
            f" (takes it if sum(set.memory_bytes) >= {bytes_})"
        )


def test_a_set_that_would_do_but_does_not_take_the_jobs_is_told() -> None:
    made = grid(alpha=1, beta=2, gamma=3)
    send = made.post

    def of_one_job(sender: SiteId, to: SiteId, message: ms.Message) -> None:
        if isinstance(message, ms.Quote):
            message = msgspec.structs.replace(message, max_jobs=1)
        send(sender, to, message)

    made.post = of_one_job  # type: ignore[method-assign]
    asked = wanted(4, requirements=(), set_requirements=("suffix(set.domain, ['beta.edu', 'gamma.edu'])",))
    answer = made["alpha"].submit(asked, 4)
    assert isinstance(answer, fx.Refusal) and answer.text == (
        "no site can take this group: beta + gamma would meet together what it requires of its sites,"
        " and do not take its jobs (takes it if jobs <= 2)"
    )
    assert {part.site for part in plan(made, msgspec.structs.replace(asked, sweep=spec(2).sweep), 2).parts} <= {
        "beta",
        "gamma",
    }


@pytest.mark.parametrize(
    ("texts", "pairs"),
    [
        (("sum(set.memory_bytes) >= 9e9", "size(set) == 2"), {"delta epsilon"}),
        (("size(set) == 2", "sum(set.memory_bytes) == 7 * 1073741824.0"), {"beta epsilon", "gamma delta"}),
        (
            ("size(set) == 2 && min(set.memory_bytes) >= 3 * 1073741824.0 && max(set.memory_bytes) < 5e9",),
            {"gamma delta"},
        ),
        (("size(set) == 2", "suffix(set.domain, ['alpha.edu', 'delta.edu'])"), {"alpha delta"}),
        (("size(set) == 2 && !(max(set.memory_bytes) - min(set.memory_bytes) < 4 * 1073741824.0)",), {"alpha epsilon"}),
        (("size(set) == 2", "set == ['beta', 'delta']"), {"beta delta"}),
    ],
)
def test_of_the_ten_pairs_of_five_sites_one_that_meets_the_requirements_is_taken(
    texts: tuple[str, ...], pairs: set[str]
) -> None:
    made = grid(alpha=1, beta=2, gamma=3, delta=4, epsilon=5)
    for jobs in (2, 7, 40):
        used = sorted(
            {part.site for part in plan(made, wanted(jobs, requirements=(), set_requirements=texts), jobs).parts}
        )
        assert len(used) == 2 and {" ".join(used), " ".join(reversed(used))} & pairs, jobs


def test_a_set_that_no_fixed_list_holds_is_found_by_growing_one() -> None:
    names = [f"s{n:02}" for n in range(14)]
    made = Grid({"binding": "early"}, alpha=4, **dict.fromkeys(names, 4))
    for name in names[-3:]:
        learn(made[name], memory_bytes=8 * GIB, speed=0.5)
    asked = wanted(
        40, requirements=(), set_requirements=("sum(set.memory_bytes) >= 3 * 8 * 1073741824.0", "size(set) == 3")
    )
    made["alpha"].submit(asked, 40)
    assert placed(made) == set(names[-3:])


# --- large grids ---------------------------------------------------------------------------------------------


def test_in_a_large_grid_the_one_site_that_meets_them_is_asked_whatever_the_placement() -> None:
    names = [f"s{n:02}" for n in range(30)]
    made = Grid({"binding": "early"}, alpha=4, **dict.fromkeys(names, 4))
    # The last by every tie.
    learn(made["s29"], memory_bytes=8 * GIB, speed=0.01)
    for placement in ("diana", "greedy", "fastest", "random"):
        learn(made["alpha"], placement=placement)
        made.pass_time(20.0)
        for name in names[:-1]:
            peer = made["alpha"].engine.core.view.peers[SiteId(name)]
            assert peer.summary is not None
            peer.summary = msgspec.structs.replace(peer.summary, memory_bytes=GIB)
        assert {part.site for part in plan(made, wanted()).parts} == {"s29"}, placement


def test_a_summary_tells_what_does_not_change_from_minute_to_minute() -> None:
    made = grid(alpha=1, beta=2)
    made.pass_time(10.0)
    summary = made["alpha"].engine.core.view.peers[SiteId("beta")].summary
    assert summary is not None
    told = facts.of_summary(summary)
    assert told["site.memory_bytes"] == 2.0 * GIB and told["site.domain"] == "beta.edu"
    assert not told.keys() & {"site.free_slots", "site.queued_jobs", "site.wait_s"}


# --- journals ------------------------------------------------------------------------------------------------


def test_a_journal_with_requirements_is_refused_by_a_release_that_would_not_keep_them() -> None:
    made = grid(alpha=8)
    made["alpha"].submit(spec(1), 1, key="plain")
    plainly = made["alpha"].engine.snapshot()
    made["alpha"].submit(wanted(1), 1, 2, key="requiring")
    submitted = made["alpha"].records(records.GroupSubmitted)
    assert [codec.encode(one)[0] for one in submitted] == [1, 2]
    assert (plainly[0], made["alpha"].engine.snapshot()[0]) == (1, 2)
    assert decode_state(made["alpha"].engine.snapshot()).groups[GroupId("alpha-2")].spec.requirements
    with pytest.raises(StoreNewer):
        codec.decode(bytes([3]) + codec.encode(submitted[1])[1:])


def test_a_site_that_only_runs_the_jobs_keeps_a_journal_that_an_older_release_reads() -> None:
    made = grid(alpha=2, beta=8)
    made["alpha"].submit(wanted(2), 2)
    (taken,) = made["beta"].records(records.CustodyTaken)
    assert codec.encode(taken)[0] == 1


def test_an_offer_with_more_expressions_than_a_group_may_have_is_refused() -> None:
    made = grid(alpha=8, beta=8)
    many = spec(1, requirements=("true",) * 65, sites=("beta",))
    prepare = []
    made.fate = lambda grid, number, post: prepare.append(post[2]) or "deliver"  # type: ignore[func-returns-value]
    made["alpha"].submit(spec(1, sites=("beta",)), 1)
    (offer,) = [one for one in prepare if isinstance(one, ms.Prepare)]
    forged = msgspec.structs.replace(
        offer,
        spec=encode_spec(many),
        epoch=offer.epoch + 1,
        authorisation=msgspec.structs.replace(
            offer.authorisation, spec_sha256=made["alpha"].keyring.authorise("x", NAME, encode_spec(many)).spec_sha256
        ),
    )
    made["beta"].trace.clear()
    made.post(SiteId("alpha"), SiteId("beta"), forged)
    made.settle()
    refusals = [
        e.message.reason for e in made["beta"].trace if isinstance(e, fx.Send) and isinstance(e.message, ms.Refused)
    ]
    assert refusals == ["the spec has more requirements than a group may have"]


def test_of_many_sites_those_that_surely_lack_something_are_not_asked_to_take_moved_jobs() -> None:
    made = grid(alpha=8, beta=1, gamma=8)
    made.pass_time(10.0)
    made["alpha"].submit(wanted(20), 20)
    core, group = made["alpha"].engine.core, made["alpha"].group(NAME)
    told = SurplusGroup(
        group=NAME, parts=(), epochs=(), jobs=(), priority=0.0, jobs_ahead=99, ends_s=1e6, processors_per_s=1.0
    )
    assert origin.promising(core, group, SiteId("alpha"), told, Match(core, group.spec)) == ("gamma",)
