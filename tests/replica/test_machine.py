"""PROMISES section 2 "Standby" (row D8): how two replicas live when nothing is odd."""

from __future__ import annotations

import pytest

from diana.model.trust.register import Copy, Register, changed
from diana.replica import messages as ms
from diana.replica.settings import ReplicaSettings
from tests.replica.pair import Pair, both


def durability(pair: Pair, name: str) -> int:
    replica = pair.nodes[name].replica
    return 0 if replica is None else replica.durability


def test_the_founder_makes_the_first_register_and_takes_the_empty_standby_in() -> None:
    pair = both()
    assert pair.register is not None
    assert (pair.register.leader, [copy.machine for copy in pair.register.in_sync]) == ("a", ["a", "b"])
    assert durability(pair, "a") == 2
    assert pair.acts("a", 1)
    assert pair.nodes["b"].log.last == 1


def test_an_entry_waits_for_the_standby_and_for_the_lease() -> None:
    pair = both()
    pair.linked = False  # cut off, and nobody noticed yet
    seq = pair.append("a")
    assert not pair.acts("a", seq)
    pair.now += 6.0
    assert not pair.acts("a", seq - 1), "a process that slept finds its lease over"


def test_the_standby_takes_over_in_less_than_eight_seconds_and_the_old_leader_follows() -> None:
    pair = both()
    pair.kill("a")
    pair.run(8.0)
    assert pair.register is not None and pair.register.leader == "b" and len(pair.register.in_sync) == 1
    assert durability(pair, "b") == 1
    seq = pair.append("b")
    assert pair.acts("b", seq)
    pair.start("a")
    pair.link()
    pair.run(5.0)
    assert durability(pair, "b") == 2
    assert pair.nodes["a"].log.last == seq


def test_a_leader_that_returns_at_once_leads_again_and_the_standby_stays() -> None:
    pair = both()
    pair.kill("a")
    pair.start("a")
    pair.link()
    pair.run(3.0)
    assert durability(pair, "a") == 2
    assert pair.register is not None and pair.register.leader == "a"


def test_a_leader_without_its_standby_goes_on_once_the_register_says_so() -> None:
    pair = both()
    pair.reachable = False
    pair.kill("b")
    seq = pair.append("a")
    pair.run(10.0)
    assert not pair.acts("a", seq), "the witness is away, so it may not go on alone"
    pair.reachable = True
    pair.run(2.0)
    assert durability(pair, "a") == 1 and pair.acts("a", seq)


def test_without_the_witness_an_established_leader_goes_on_as_it_is() -> None:
    pair = both()
    pair.reachable = False
    pair.run(60.0)
    assert pair.acts("a", pair.append("a"))
    assert durability(pair, "a") == 2


def test_a_follower_with_another_history_is_given_a_copy_of_the_whole_under_a_new_name() -> None:
    pair = both()
    pair.kill("a")
    node = pair.nodes["a"]
    node.log = node.log.grown(2, 2, 2)  # written, and never shipped
    pair.run(8.0)
    pair.append("b")
    pair.start("a")
    pair.link()
    pair.run(5.0)
    assert node.uuid == "a-disk+"
    assert ms.begins(node.log, pair.nodes["b"].log)
    assert durability(pair, "b") == 2


def test_a_follower_that_comes_back_on_a_newer_stream_is_offered_its_copy_again() -> None:
    pair = both()
    pair.kill("b")
    leader = pair.nodes["a"].replica
    assert leader is not None
    pair.run(10.0)
    other = Copy("b", "another-disk")
    ack = ms.Ack(leader.term, other, 0, ms.Log(last=5, history="of another past"), granted_s=pair.now)
    offers = []
    for _ in range(2):
        # Its machine lost power while it was copying: the first stream was never seen to end.
        leader.handle(ms.LinkUp(), pair.now)
        effects = leader.handle(ms.Received(ack), pair.now)
        offers.append([effect.to for effect in effects if isinstance(effect, ms.Seed)])
    assert offers == [[other], [other]]


def test_a_witness_that_lost_the_register_does_not_stand_in_the_way_of_an_operator() -> None:
    pair = both()
    before = pair.register
    assert before is not None
    pair.kill("a")
    pair.register = None
    pair.run(20.0)
    assert durability(pair, "b") == 0
    pair.tell("b", ms.ForceTakeover(1))
    pair.run(5.0)
    assert durability(pair, "b") == 1
    assert pair.nodes["b"].of(ms.Answered) == [ms.Answered(1, "")]
    assert pair.register is not None and pair.register.forced
    assert before.term < 1_000_000 <= pair.register.term, "nobody knows how many terms the leader went through"


@pytest.mark.parametrize("lost", ["it begins anew", "it has an old copy"])
def test_a_leader_makes_the_register_anew_that_the_witness_lost(lost: str) -> None:
    pair = both()
    before = pair.register
    assert before is not None and before.term > 1
    pair.register = None if lost == "it begins anew" else Register(1, "b", (Copy("b", "b-disk"),))
    pair.run(10.0)
    assert pair.register == Register(before.term + 1, "a", before.in_sync)
    assert durability(pair, "a") == 2
    seq = pair.append("a")
    pair.kill("a")
    pair.run(9.0)
    assert durability(pair, "b") == 1 and pair.nodes["b"].log.last == seq


def test_a_leader_alone_makes_the_register_anew_only_once_the_other_grants_its_lease() -> None:
    pair = both()
    pair.kill("b")
    pair.run(10.0)
    assert durability(pair, "a") == 1
    pair.register = None
    seq = pair.append("a")
    pair.run(20.0)
    assert pair.register is None and pair.acts("a", seq)
    pair.start("b")
    pair.link()
    pair.run(5.0)
    assert durability(pair, "a") == 2
    assert pair.register is not None and len(pair.register.in_sync) == 2


def test_a_leader_that_was_cut_off_does_not_take_the_lost_register_of_one_that_was_forced() -> None:
    pair = both()
    pair.cut()
    pair.run(5.0)
    assert durability(pair, "a") == 1
    cut_off, pair.nodes["a"].replica = pair.nodes["a"].replica, None
    pair.run(5.0)
    pair.tell("b", ms.ForceTakeover(1))
    pair.run(2.0)
    assert durability(pair, "b") == 1
    pair.register = None
    pair.nodes["a"].replica = cut_off
    pair.run(20.0)
    assert pair.register is None
    pair.link()
    pair.run(5.0)
    led = [name for name in ("a", "b") if durability(pair, name)]
    assert led == ["b"]


def test_neither_founder_nor_follower_believes_a_witness_that_lost_who_is_in_sync() -> None:
    pair = both()
    pair.kill("a")
    pair.run(9.0)
    assert durability(pair, "b") == 1
    pair.append("b")  # which a does not have
    pair.kill("b")
    for register in (None, Register(1, "a", (Copy("a", "a-disk"),))):
        pair.register = register
        pair.start("a")
        pair.run(20.0)
        assert durability(pair, "a") == 0
        pair.kill("a")
    pair.start("b")
    pair.run(20.0)
    assert durability(pair, "b") == 0
    pair.tell("b", ms.ForceTakeover(1))
    pair.run(5.0)
    assert durability(pair, "b") == 1


def test_a_candidate_whose_question_was_lost_with_the_register_can_be_forced() -> None:
    pair = both()
    pair.kill("a")
    pair.run(4.0)
    pair.reachable = False
    pair.run(4.0)
    candidate = pair.nodes["b"].replica
    assert candidate is not None
    candidate.handle(ms.WitnessSaid(pair.register), pair.now)
    assert candidate.role == "candidate"
    pair.register, pair.reachable = None, True
    pair.run(5.0)
    assert durability(pair, "b") == 0
    pair.tell("b", ms.ForceTakeover(1))
    pair.run(5.0)
    assert durability(pair, "b") == 1
    assert pair.nodes["b"].of(ms.Answered) == [ms.Answered(1, "")]


def test_an_orderly_hand_over_takes_no_lease_to_wait_for() -> None:
    pair = both()
    pair.tell("a", ms.Promote(7))
    pair.run(1.0)
    assert pair.nodes["a"].of(ms.HoldIntake) == [ms.HoldIntake(True)]
    assert pair.nodes["a"].of(ms.Answered) == [ms.Answered(7, "")]
    assert pair.nodes["a"].of(ms.StepDown)
    assert durability(pair, "b") == 2
    pair.kill("a")
    pair.start("a")
    pair.link()
    pair.run(3.0)
    assert pair.acts("b", pair.append("b"))


def test_a_takeover_is_forced_only_when_the_leader_was_not_heard_of() -> None:
    pair = both()
    pair.tell("b", ms.ForceTakeover(3))
    (answer,) = pair.nodes["b"].of(ms.Answered)
    assert isinstance(answer, ms.Answered) and "stop it first" in answer.error
    pair.kill("b")
    pair.run(2.0)
    pair.append("a")  # which b will never have
    pair.kill("a")
    pair.start("b")
    pair.run(20.0)
    assert durability(pair, "b") == 0, "not in sync: it does not take over by itself"
    pair.tell("b", ms.ForceTakeover(4))
    assert durability(pair, "b") == 1
    (lead,) = pair.nodes["b"].of(ms.Lead)
    assert isinstance(lead, ms.Lead) and lead.forced and lead.history_term == lead.term


@pytest.mark.parametrize("by", ["witness", "itself"])
def test_a_forced_takeover_gives_way_to_a_leader_that_is_back_before_it_came_about(by: str) -> None:
    """The operator said that it was dead (PROMISES section 2: never while the other lives)."""
    pair = both()
    pair.kill("a")
    pair.reachable = False
    pair.run(20.0)
    b = pair.nodes["b"].replica
    assert b is not None and b.role == "follower"
    b.handle(ms.ForceTakeover(4), pair.now)
    back = Register(b.term + 1, "a", (Copy("a", "a1"),))
    if by == "witness":
        effects = b.handle(ms.WitnessSaid(back), pair.now)
    else:
        effects = b.handle(ms.Received(ms.Beat(back.term, "", pair.now, ms.Log(), back)), pair.now)
    (answer,) = (e for e in effects if isinstance(e, ms.Answered))
    assert "leader in term" in answer.error or "leads in term" in answer.error
    assert (b.role, b.force) == ("follower", 0)


def test_without_a_witness_the_leader_goes_on_alone_and_nobody_takes_over_unasked() -> None:
    pair = both(witness=False)
    assert durability(pair, "a") == 2
    pair.kill("b")
    assert durability(pair, "a") == 1 and pair.acts("a", pair.append("a"))
    pair.start("b")
    pair.link()
    pair.run(3.0)
    assert durability(pair, "a") == 2
    pair.kill("a")
    pair.run(60.0)
    assert durability(pair, "b") == 0
    pair.tell("b", ms.ForceTakeover(4))
    assert durability(pair, "b") == 1
    assert pair.nodes["b"].saved.term >= 1_000_000


def test_without_a_witness_a_leader_that_returns_asks_the_other_first() -> None:
    pair = both(witness=False)
    pair.kill("a")
    pair.start("a")
    pair.run(30.0)
    assert durability(pair, "a") == 0
    pair.link()
    pair.run(3.0)
    assert durability(pair, "a") == 2


def test_without_a_witness_a_hand_over_works_as_well() -> None:
    pair = both(witness=False)
    pair.tell("a", ms.Promote(7))
    pair.kill("a")
    pair.start("a")
    pair.link()
    pair.run(3.0)
    assert durability(pair, "b") == 2


def test_a_standby_is_removed_by_the_leader_and_not_taken_back() -> None:
    pair = both()
    pair.tell("a", ms.RemoveStandby(9))
    pair.run(10.0)
    assert pair.nodes["a"].of(ms.Answered) == [ms.Answered(9, "")]
    assert pair.register is not None and len(pair.register.in_sync) == 1
    assert durability(pair, "a") == 1


def test_logs_are_compared_by_terms_and_never_across_histories() -> None:
    one = ms.Log().grown(1, 3, 1).grown(4, 6, 2)
    two = ms.Log().grown(1, 3, 1).grown(4, 4, 3)
    assert ms.common(one, two) == 3
    assert ms.begins(ms.Log().grown(1, 3, 1), one) and not ms.begins(two, one)
    assert ms.common(one, ms.Log(one.last, one.starts, False, "other")) == 0


def test_the_register_changes_to_a_higher_term_and_only_from_the_version_expected() -> None:
    me = (Copy("a", "1"),)
    first = Register(4, "a", me)
    assert changed(None, 0, first) == first
    assert changed(first, 3, Register(4, "a", me, True)) == first
    assert changed(first, 4, Register(4, "a", me, True)) == first
    assert changed(first, 4, Register(6, "a", me)) == Register(6, "a", me)
    assert changed(first, 4, Register(5, "a", me)) == Register(5, "a", me)


@pytest.mark.parametrize("wrong", [{"term": 0}, {"leader": "c"}, {"in_sync": ()}, {"leader": "A B"}])
def test_what_cannot_be_a_register_is_refused(wrong: dict[str, object]) -> None:
    good: dict[str, object] = {"term": 1, "leader": "a", "in_sync": (Copy("a", "1"),)}
    with pytest.raises(ValueError, match="register"):
        Register(**{**good, **wrong})  # type: ignore[arg-type]


def test_settings_out_of_range_name_the_key() -> None:
    with pytest.raises(ValueError, match="beat_s"):
        ReplicaSettings(beat_s=3.0)


def test_what_waits_for_the_other_to_catch_up_is_released_when_it_has() -> None:
    """A leader that went on alone counts on the other again, which lacks the last that was let go."""
    pair = both()
    a = pair.nodes["a"].replica
    assert a is not None and a.peer_seen is not None
    seq = a.log.last + 1
    a.handle(ms.Appended(seq, seq), pair.now)
    a.handle(ms.Fsynced(seq), pair.now)
    a.both = a.in_step = False
    assert ms.ReleaseUpTo(seq) in a.handle(ms.Tick(), pair.now)
    for has, released in ((seq - 1, False), (seq, True)):
        ack = ms.Ack(a.term, a.peer_seen, has, a.log.cut(has), pair.now, seq)
        effects = a.handle(ms.Received(ack), pair.now)
        assert (ms.ReleaseUpTo(seq) in effects, a.may_act(pair.now, seq)) == (released, released)
