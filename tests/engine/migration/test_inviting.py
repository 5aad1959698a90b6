"""A site below capacity invites work, and what it gets goes by the rules of any move; work is exported once, whatever
its origin remembers (SPEC D7; papers/diana-bulk-scheduling sections IX, X)."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from diana.engine.dispatch.capacity import PromisedCapacity
from diana.engine.journal import effects as fx
from diana.engine.journal import records as r
from diana.engine.journal.events import Received
from diana.engine.messages import messages as ms
from diana.engine.messages import migration as mm
from diana.engine.migration import inviting, surplus
from diana.engine.migration.table import MigrationBook
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.policy.migration import invitations
from diana.policy.migration.invitations import LoadedPeer
from tests.engine.bench import Grid, Post, Site
from tests.engine.builders import spec
from tests.engine.migration.test_migration import ALPHA, BETA, GAMMA, LONG_S, claims_once, explained, late, placed


def said(site: Site, kind: type) -> list[fx.Send]:
    return [one for one in site.trace if isinstance(one, fx.Send) and isinstance(one.message, kind)]


def counted(site: Site, name: str) -> int:
    return site.engine.core.counters.get(name, 0)


def no_turn_of_its_own(grid: Grid) -> None:
    """Beta looks at its queues when it is invited, and not by itself."""
    grid["beta"].engine.core.book(MigrationBook).look_due_s = 1e9


def only_gamma_invites(grid: Grid) -> None:
    for name in ("alpha", "beta"):
        state = grid[name].engine.core.state
        state.settings = msgspec.structs.replace(state.settings, invite_work_s=0.0)


def believes_gamma_is_full(grid: Grid) -> None:
    """Alpha's view of gamma is old: full, with much work ahead. Gamma's quotes tell the truth."""
    alpha = grid["alpha"].engine.core
    gamma = alpha.view.peers[GAMMA]
    assert gamma.summary is not None
    gamma.summary = msgspec.structs.replace(gamma.summary, free_slots=0, work_ahead_s=1e6, queued_jobs=1)
    alpha.view.heard(GAMMA, grid.now)


def hears_nothing_new_of_gamma(grid: Grid, number: int, post: Post) -> str:
    if post[1] == ALPHA and isinstance(post[2], ms.Summary | ms.Gossip):
        believes_gamma_is_full(grid)
        return "lose"
    return "deliver"


def test_an_idle_site_invites_what_waits_and_explain_says_so() -> None:
    grid = late(jobs=12)
    only_gamma_invites(grid)
    no_turn_of_its_own(grid)
    grid.pass_time(20.0)
    assert len(placed(grid)["gamma"]) >= 4
    assert said(grid["gamma"], mm.WorkInvited)[0].to == BETA
    assert "), and gamma invited it: site gamma: " in explained(grid).decisions[-1].reason
    claims_once(grid, 12)


def test_a_peer_of_a_release_before_invitations_is_sent_none() -> None:
    grid = late(jobs=12)
    only_gamma_invites(grid)
    beta = grid["gamma"].engine.core.view.peers[BETA]
    assert beta.hello is not None
    beta.hello = msgspec.structs.replace(beta.hello, release="0.1.0")
    grid.pass_time(20.0)
    assert not said(grid["gamma"], mm.WorkInvited)


def test_a_site_told_not_to_invite_gets_nothing_from_one_that_does_not_look() -> None:
    grid = late(jobs=12, invite_work_s=0.0)
    no_turn_of_its_own(grid)
    grid.pass_time(60.0)
    assert list(placed(grid)) == ["beta"] and not said(grid["gamma"], mm.WorkInvited)


def test_a_site_that_the_origin_believes_to_be_full_gets_work_by_inviting_it() -> None:
    for invites, sites in ((0.0, ["beta"]), (10.0, ["beta", "gamma"])):
        grid = late(jobs=12, invite_work_s=invites)
        believes_gamma_is_full(grid)
        if invites:
            only_gamma_invites(grid)
        grid.fate = hears_nothing_new_of_gamma
        grid.pass_time(20.0)
        assert sorted(placed(grid)) == sites


def test_a_site_with_waiting_work_invites_nobody_though_a_slot_is_idle() -> None:
    grid = late(jobs=12, migration_gain_s=20.0)
    grid["gamma"].submit(spec(2, work_s=LONG_S, processors=3, sites=("gamma",)), 2)
    assert len(grid["gamma"].running) == 1, "a slot is idle, and a job waits for three"
    grid.pass_time(20.0)
    assert not said(grid["gamma"], mm.WorkInvited)


@pytest.mark.parametrize("barred", [{"migration": "off"}, {"placement": "least-queue"}, {"accept_remote": False}])
def test_a_site_that_takes_no_moves_invites_none(barred: dict[str, object]) -> None:
    grid = late(jobs=12, sites=("beta",), **barred)
    grid.pass_time(30.0)
    assert not said(grid["gamma"], mm.WorkInvited)


def test_who_invites_in_vain_asks_ever_less_often() -> None:
    """Beta's work may go nowhere else; gamma cannot know."""
    grid = late(jobs=12, sites=("beta",))
    times = []

    def note(grid: Grid, number: int, post: Post) -> str:
        if isinstance(post[2], mm.WorkInvited) and post[0] == GAMMA:
            times.append(grid.now)
        return "deliver"

    grid.fate = note
    grid.pass_time(400.0)
    pauses = [b - a for a, b in pairwise(times)]
    assert 4 <= len(times) <= 7 and pauses == sorted(pauses) and pauses[-1] >= 80.0, times


def test_a_flood_of_one_peers_invitations_makes_one_look_and_leaves_room_for_others() -> None:
    grid = late(jobs=12, invite_work_s=0.0)
    no_turn_of_its_own(grid)
    grid.pass_time(5.0)
    beta = grid["beta"]
    beta.trace.clear()
    for _ in range(500):
        beta.handle(Received(GAMMA, mm.WorkInvited(free_slots=4)))
    assert len(said(beta, mm.Surplus)) == 1 and counted(beta, "invitations_ignored") == 499
    book = beta.engine.core.book(MigrationBook)
    for number in range(100):
        beta.handle(Received(SiteId(f"s{number}"), mm.WorkInvited(free_slots=4)))
    assert len(book.inviters) == inviting.MOST_INVITERS and len(book.heard) <= inviting.MOST_INVITERS + 1
    assert len(said(beta, mm.Surplus)) == 1, "one look in so long"
    grid.pass_time(surplus.INVITED_LOOK_S + 1.0)
    assert len(said(beta, mm.Surplus)) == 2


def test_who_invites_and_then_keeps_no_room_is_not_believed_for_a_while() -> None:
    grid = late(jobs=12, invite_work_s=0.0)
    believes_gamma_is_full(grid)
    alpha, beta = grid["alpha"], grid["beta"]

    def refuse(grid: Grid, number: int, post: Post) -> str:
        if isinstance(post[2], mm.RoomRequest) and post[1] == GAMMA:
            grid["alpha"].handle(Received(GAMMA, mm.RoomGrant(room=post[2].room, jobs=0, reason="changed my mind")))
            return "lose"
        return "deliver"

    grid.fate = refuse
    for _ in range(60):
        beta.handle(Received(GAMMA, mm.WorkInvited(free_slots=4)))
        believes_gamma_is_full(grid)
        grid.pass_time(1.0)
    assert counted(beta, "invitations_heard") >= 12
    assert 1 <= counted(alpha, "invitations_in_vain") <= 2 and list(placed(grid)) == ["beta"]


@pytest.mark.parametrize("slots", [0, -3])
def test_an_invitation_without_a_slot_makes_no_sense(slots: int) -> None:
    grid = late(jobs=12, invite_work_s=0.0)
    beta = grid["beta"]
    beta.handle(Received(GAMMA, mm.WorkInvited(free_slots=slots)))
    assert any("invites work: makes no sense" in text for text in beta.warnings)
    assert not beta.engine.core.book(MigrationBook).heard


def test_a_name_that_nobody_knows_is_asked_for_nothing() -> None:
    grid = late(jobs=12, invite_work_s=0.0)
    alpha = grid["alpha"]
    part = next(iter(alpha.group("alpha-1").subgroups.values()))
    told = mm.SurplusGroup(
        group=part.subgroup.split("/")[0], parts=(part.subgroup,), epochs=(part.epoch,), jobs=(8,), priority=0.0,  # type: ignore[arg-type]
        jobs_ahead=11, ends_s=1.0, processors_per_s=0.01,
    )  # fmt: skip
    alpha.trace.clear()
    alpha.handle(Received(BETA, mm.Surplus(groups=(told,), invited=tuple(SiteId(f"x{n}") for n in range(10**4)))))
    assert not said(alpha, ms.QuoteRequest)


def test_the_invited_are_drawn_among_those_whose_work_waits_long_enough() -> None:
    def peer(name: str, waiting: int, ahead_s: float) -> LoadedPeer:
        return LoadedPeer(SiteId(name), waiting, ahead_s, slots=10, speed=1.0)

    loaded = [peer(f"s{n}", 5, 1000.0) for n in range(20)]
    beside = [peer("idle", 0, 1000.0), peer("short", 5, 50.0), LoadedPeer(SiteId("gone"), 5, 1e9, 0, 1.0)]
    times: dict[str, int] = {}
    for seed in range(2000):
        found = invitations.invited([*beside, *loaded], 10.0, seed)
        assert len(set(found)) == invitations.MOST_INVITED
        for site in found:
            times[site] = times.get(site, 0) + 1
    assert len(times) == 20 and max(times.values()) < 2 * min(times.values()), times


# --- once only ----------------------------------------------------------------------------------------------


def moved_to_gamma() -> Grid:
    """Alpha's work moved from beta to gamma, where it waits; delta, idle, is out of sight."""
    grid = Grid(alpha=1, beta=1, gamma=1, delta=8)
    for name in ("gamma", "delta"):
        grid.part(name)
    grid["alpha"].submit(spec(20, work_s=LONG_S, not_sites=("alpha",)), 20)
    grid.pass_time(2.0)
    grid.heal("gamma")
    grid.pass_time(15.0)
    assert len(placed(grid)["gamma"]) > 1
    return grid


def forget(grid: Grid) -> None:
    """Alpha has no memory that anything was exported."""
    group = grid["alpha"].group("alpha-1")
    group.exported = IndexSet()
    for subgroup in group.subgroups.values():
        subgroup.exported = False


def exports(grid: Grid, since: int) -> list[r.JobsMoved]:
    return [one for one in grid["alpha"].records()[since:] if isinstance(one, r.JobsMoved) and one.exported]


def test_a_site_that_got_an_export_lets_it_go_to_nobody_though_the_origin_forgot() -> None:
    grid = moved_to_gamma()
    there = placed(grid)["gamma"]
    forget(grid)
    since = len(grid["alpha"].stored)
    grid.heal("delta")
    grid.pass_time(30.0)
    # What had stayed at beta goes to delta; gamma names nothing.
    assert placed(grid)["gamma"] == there and placed(grid)["delta"]
    assert not any(one.indices & there for one in exports(grid, since))
    claims_once(grid, 20)


def test_a_site_that_got_an_export_keeps_it_from_an_origin_that_calls_it_back_for_another() -> None:
    """The origin forgot, and lies as well: it makes up gamma's word that the jobs may go."""
    grid = moved_to_gamma()
    there = placed(grid)["gamma"]
    grid.heal("delta")
    forget(grid)
    group = grid["alpha"].group("alpha-1")
    part = next(one for one in group.subgroups.values() if one.site == GAMMA and one.indices)
    waiting = len(grid["gamma"].engine.core.state.custodies[part.subgroup, part.epoch].pending)
    told = mm.SurplusGroup(
        group=group.group, parts=(part.subgroup,), epochs=(part.epoch,), jobs=(waiting,), priority=0.0,
        jobs_ahead=waiting + 50, ends_s=5000.0, processors_per_s=0.01,
    )  # fmt: skip
    since = len(grid["alpha"].stored)
    grid["alpha"].handle(Received(GAMMA, mm.Surplus(groups=(told,))))
    grid.settle()
    grid.pass_time(3.0)
    assert exports(grid, since), "the origin was not fooled: the test shows nothing"
    assert placed(grid)["gamma"] == there and counted(grid["gamma"], "exports_refused") >= 1
    assert any("back to export them again" in text for text in grid["gamma"].warnings)
    claims_once(grid, 20)


def test_what_a_user_moves_is_let_go_although_it_was_exported_before() -> None:
    grid = moved_to_gamma()
    grid.heal("delta")
    grid.settle()
    grid["alpha"].move("alpha-1", "delta")
    grid.settle()
    assert placed(grid)["delta"]
    claims_once(grid, 20)


def test_a_site_refuses_what_came_as_an_export_before_and_went_back_though_its_origin_forgot() -> None:
    grid = moved_to_gamma()
    grid["alpha"].move("alpha-1", "beta")
    grid.settle()
    gamma = grid["gamma"]
    for reboot in (False, True):
        if reboot:
            # Of the part that had come, nothing is left but its tombstone.
            gamma.end()
            grid.settle()
            gamma.restart()
            grid.settle()
            assert not gamma.engine.core.state.custodies and gamma.engine.core.state.tombstones
        forget(grid)
        offer = offered_anew(grid)
        gamma.handle(Received(ALPHA, offer))
        assert (offer.subgroup, offer.epoch) not in gamma.engine.core.state.custodies
        refused = said(gamma, ms.Refused)[-1].message
        assert isinstance(refused, ms.Refused) and "a job is exported once" in refused.reason


def offered_anew(grid: Grid) -> ms.Prepare:
    """Alpha's offer to gamma of jobs that had moved there, under a new name and with room that gamma keeps."""
    sent = (one.message for one in said(grid["alpha"], ms.Prepare) if one.to == GAMMA)
    first = next(one for one in sent if isinstance(one, ms.Prepare) and one.room)
    grid["gamma"].engine.core.book(PromisedCapacity).rooms.make("alpha 99 behind", 100, grid.now)
    return msgspec.structs.replace(first, subgroup=SubgroupId("alpha-1/77"), epoch=77, room=99)
