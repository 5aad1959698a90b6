"""Gossip streams: how often a site speaks of itself, and to whom it holds streams (SPEC D9; PERFORMANCE P9)."""

from __future__ import annotations

import msgspec

from diana.engine.journal import codec
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.membership import active, spreading, suspicion
from diana.engine.membership.table import MembershipTable
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.policy.membership import SEEKERS, State, tries
from tests.engine.builders import ALICE, spec
from tests.engine.gossiping import HOME, Node, entry

# --- how often -----------------------------------------------------------------------------------------


def idle_vo(settings: dict[str, object] | None = None) -> tuple[Node, list[str]]:
    """Its first words are over, and it has a few quiet turns behind it."""
    node = Node(None, 1000.0, **(settings or {}))
    names = [f"s{n}" for n in range(12)]
    for name in names:
        node.up(name)
    node.wait(6.0, *names)
    node.effects.clear()
    return node, names


def test_who_has_nothing_new_to_say_speaks_every_third_turn_and_says_the_same_to_all() -> None:
    node, names = idle_vo()
    for _ in range(12):
        before = len(node.sent(ms.Summary))
        node.wait(1.0, *names)
        assert len({told.counter for told in node.sent(ms.Summary)[before:]}) <= 1
    told = [len(node.sent(ms.Summary, name)) for name in names]
    assert told == [4] * len(names)


def test_whoever_gets_work_or_takes_no_more_tells_everybody_at_the_next_turn() -> None:
    node, names = idle_vo()
    node.handle(ev.SettingsLoaded(settings=Settings(slots=1, accept_remote=False)))
    node.wait(1.0, *names)
    assert all(not node.sent(ms.Summary, name)[-1].accepting for name in names)
    node.effects.clear()
    node.handle(ev.SubmitGroup(
        request=1, principal=ALICE, key="", spec=spec(5, work_s=100.0), jobs=5, refs=(), wall_s=0.0,
    ))  # fmt: skip
    node.wait(2.0, *names)
    node.effects.clear()
    node.wait(4.0, *names)
    assert all(len(node.sent(ms.Summary, name)) == 4 for name in names), "and at every turn while there is work"


def test_a_site_that_is_doubted_tells_everybody_at_the_next_turn_whichever_of_its_words_was_heard_last() -> None:
    node, names = idle_vo()
    old = (node.engine.core.book(MembershipTable).incarnation, node.engine.core.summary_counter - 2)
    node.rumour("s1", HOME, old, State.SUSPECT)
    node.wait(1.0, *names)
    assert all(node.sent(ms.Summary, name)[-1].counter > old[1] for name in names)


def test_a_peer_hears_twice_of_a_quiet_site_before_it_would_doubt_it() -> None:
    node, names = idle_vo({"summary_every_s": 2.0})
    node.wait(6.0, *names)
    assert all(len(node.sent(ms.Summary, name)) == 3 for name in names)
    assert spreading.quiet_turns(node.engine.core) == 1


# --- streams -------------------------------------------------------------------------------------------


def test_in_a_small_vo_streams_are_held_to_all_and_nothing_of_others_is_told() -> None:
    node = Node()
    names = [f"s{n}" for n in range(10)]
    marks = None
    for name in names:
        node.up(name)
    node.wait(2.0, *names)
    marks, known = node.engine.core.book(MembershipTable).marks, node.engine.core.book(MembershipTable).alive
    for name in names:
        old = node.told_of(name)
        told = msgspec.structs.replace(old, counter=old.counter + 1, members=marks, known=known, complete=True)
        node.hears(name, told)
    node.effects.clear()
    node.wait(3.0)
    assert not node.sent(ms.Gossip)
    assert all(len(node.sent(ms.Summary, name)) == 1 for name in names)
    assert all(node.contacts()[name].keep for name in names if name in node.contacts())


def test_in_a_large_vo_streams_are_held_to_a_few_and_the_others_are_still_candidates() -> None:
    node = Node()
    node.up("beta")
    node.told("beta", *(entry(f"s{n:03}", slots=50) for n in range(200)))
    node.wait(2.0, "beta")
    kept = [site for site, order in node.contacts().items() if order.keep]
    assert len(kept) == 8 and len(node.contacts()) == 201
    assert len(node.engine.core.view.alive(node.now, 6.0)) == 201
    node.effects.clear()
    node.handle(ev.SubmitGroup(
        request=1, principal=ALICE, key="", spec=spec(100, work_s=100.0), jobs=100, refs=(), wall_s=0.0,
    ))  # fmt: skip
    assert len(node.sent(ms.QuoteRequest)) == 16, "streams are made for them when they are asked"


def test_a_chosen_site_that_is_lost_is_replaced_and_a_few_lost_ones_are_tried() -> None:
    node = Node()
    names = [f"s{n:03}" for n in range(60)]
    node.up("beta")
    node.told("beta", *(entry(name) for name in names))
    for n in range(8):
        node.up(f"t{n}")
    node.wait(2.0, "beta")
    chosen = [site for _, site in node.engine.core.book(MembershipTable).chosen]
    for site in chosen[:4]:
        node.rumour("beta", site, (1, 1), State.LOST)
    node.wait(1.0, "beta")
    now = [site for _, site in node.engine.core.book(MembershipTable).chosen]
    assert len(now) == 8 and not set(now) & set(chosen[:4])
    tried: list[set[str]] = []
    for _ in range(12):
        tried.append({site for site, order in node.contacts().items() if order.keep} & set(chosen[:4]))
        node.wait(8.0, "beta")
    assert max(map(len, tried)) <= 2
    # Each lost site is called by about eight of the seventy, so that it is not met by all when it returns.
    assert 1 <= sum(map(bool, tried)) < len(tried)


def test_whoever_lets_a_stream_go_says_so_once_and_silence_before_it_is_held_again_means_nothing() -> None:
    node = Node()
    node.up("beta")
    node.told("beta", *(entry(f"s{n:03}") for n in range(60)))
    names = [f"t{n}" for n in range(20)]
    for name in names:
        node.up(name)
    node.wait(8.0, "beta", *names)
    core = node.engine.core
    site = next(name for name in names if SiteId(name) in core.book(MembershipTable).kept)
    names.remove(site)
    active._release(core, SiteId(site))
    core.view.detours[SiteId(site)] = float("inf")
    node.hears(site, msgspec.structs.replace(node.told_of(site), counter=50, loose=True))
    node.effects.clear()
    node.wait(30.0, "beta", *names)
    assert [told.loose for told in node.sent(ms.Summary, site)] == [True]
    assert not node.peer(site).tied and node.state(site) is State.ALIVE
    active._hold(core, SiteId(site))
    suspicion.look(core)
    assert node.peer(site).tied and node.state(site) is State.ALIVE


def test_each_lost_site_is_called_by_a_few_whatever_the_number_of_sites() -> None:
    for others in (20, 300, 5000):
        calls = sum(tries(1, others, seed) for seed in range(others))
        assert SEEKERS / 3 < calls < 3 * SEEKERS
    assert tries(3000, 3000, 1) == SEEKERS


def test_the_first_contact_is_in_the_journal_at_once() -> None:
    node = Node()
    node.up("beta")
    node.told("beta", entry("beta"))
    node.wait(0.1, "beta")
    assert set(Node(node.stored, node.now).contacts()) == {"beta"}


def test_a_restart_finds_the_vo_by_the_contacts_of_its_last_run() -> None:
    node = Node()
    node.up("beta")
    node.told("beta", entry("far"))
    node.wait(10.0, "beta")
    again = Node(node.stored, node.now)
    book = again.contacts()
    assert {(site, one.address, one.keep) for site, one in book.items()} == {
        ("beta", "beta:7400", True), ("far", "far:7400", True),
    }  # fmt: skip
    written = sum(isinstance(codec.decode(one), r.ContactsLearned) for one in node.stored)
    assert written == 1
