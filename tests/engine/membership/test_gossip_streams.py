"""Gossip streams: how often a site speaks of itself, and to whom it holds streams (SPEC D9; PERFORMANCE P9)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import codec
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.membership import active, spreading, suspicion
from diana.engine.membership.table import MOST_HEARD, MembershipTable
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.model.trust.contact import KnownAt
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


def test_a_restart_finds_the_vo_by_the_contacts_of_those_it_met_in_its_last_run() -> None:
    node = Node()
    node.up("beta")
    node.up("far")
    node.told("beta", entry("invented"))
    node.down("far")
    node.wait(10.0, "beta")
    again = Node(node.stored, node.now)
    book = again.contacts()
    assert {(site, one.address, one.keep) for site, one in book.items()} == {
        ("beta", "beta:7400", True), ("far", "far:7400", True),
    }  # fmt: skip
    written = sum(isinstance(codec.decode(one), r.ContactsLearned) for one in node.stored)
    assert written == 1


def test_a_contact_is_kept_by_the_word_of_its_site_alone_even_if_it_was_met() -> None:
    node = Node()
    node.up("beta")
    node.up("far")
    node.told("beta", msgspec.structs.replace(entry("far", 1, 9), address="198.51.100.7:1"))
    node.wait(10.0, "beta")
    assert node.contacts()["far"].address == "198.51.100.7:1"
    assert Node(node.stored, node.now).contacts()["far"].address == "far:7400"


def test_contacts_of_an_earlier_release_that_were_never_met_are_dropped_where_there_are_better_ones() -> None:
    node = Node()
    node.up("beta")
    node.wait(1.0, "beta")
    poison = r.ContactsLearned(contacts=(KnownAt(SiteId("invented"), "198.51.100.7:1"),))
    node.stored.append(codec.encode(poison))
    assert set(Node(node.stored, node.now).contacts()) == {"beta"}
    assert set(Node([codec.encode(poison)], node.now).contacts()) == {"invented"}, "there is no better one"


@pytest.mark.parametrize(("names", "turns"), [(10, 60), (100, 10)])
def test_invented_sites_are_dialled_for_a_while_and_then_left_alone_for_longer_and_longer(
    names: int, turns: int
) -> None:
    node = Node()
    node.up("beta")
    invented = [f"s{n:03}" for n in range(names)]
    dialled = []
    for turn in range(turns):
        # The liar keeps them alive, and says something newer each time.
        node.told("beta", *(entry(name, 1, 2 + turn) for name in invented))
        node.wait(10.0, "beta")
        dialled.append(sum(one.keep for site, one in node.contacts().items() if site != "beta"))
    assert 0 < max(dialled) <= 10
    assert names > 10 or sum(dialled) < names * turns / 3
    kept = Node(node.stored, node.now).contacts()
    assert set(kept) == {"beta"}


def test_a_site_only_heard_of_that_the_table_has_no_place_for_is_tried_once() -> None:
    table = MembershipTable(SiteId("alpha"))
    for number in range(MOST_HEARD + 2):
        table.hear_of(SiteId(f"s{number:03}"), "far:7400", None)
    assert len(table.heard) == MOST_HEARD and "s000" not in table.heard
    table.hear_of(SiteId("nowhere"), "", None)
    assert "nowhere" not in table.heard
    node = Node()
    node.up("beta")
    heard = node.engine.core.book(MembershipTable).heard
    heard[SiteId("far")] = KnownAt(SiteId("far"), "far:7400")
    active._hold(node.engine.core, SiteId("far"))
    assert SiteId("far") not in heard


def test_of_many_living_sites_beyond_the_table_a_round_calls_two_however_often_it_plans() -> None:
    node, names = idle_vo()
    node.told("s0", *(entry(f"t{n:03}") for n in range(60)))
    node.wait(active.RETRY_TURNS, *names)
    members = node.engine.core.book(MembershipTable)
    for number in range(100):
        members.heard[SiteId(f"far{number:03}")] = KnownAt(SiteId(f"far{number:03}"), "far:7400")
    node.wait(active.RETRY_TURNS, *names)
    for _ in range(8):
        before, held = len(members.heard), set[frozenset[SiteId]]()
        for _ in range(active.RETRY_TURNS):
            members.replan = True
            node.wait(1.0, *names)
            held.add(frozenset(site for site in members.kept if site.startswith("far")))
        assert before - len(members.heard) == active.RETRIES
        assert {len(sites) for sites in held} == {active.RETRIES}, "they are held to the end of the round"


def test_a_site_that_was_given_up_is_held_at_once_when_it_comes_itself() -> None:
    node = Node()
    node.up("beta")
    for turn in range(10):
        node.told("beta", entry("far", 1, 2 + turn))
        node.wait(10.0, "beta")
    assert not node.contacts()["far"].keep
    node.up("far", 2)
    node.wait(2.0, "beta", "far")
    assert node.contacts()["far"].keep
