"""Entries, rumours and digests of other sites: the newest word stands, whatever the order, and no peer's lie lasts
(SPEC D9; PERFORMANCE P9)."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from diana.engine import effects as fx
from diana.engine import events as ev
from diana.engine import messages as ms
from diana.engine import records as r
from diana.engine.core import Engine
from diana.engine.membership import learning, spreading, suspicion
from diana.engine.membership.table import MOST_LEAP
from diana.engine.surroundings import Journal
from diana.engine.view import PeerView
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.policy.membership import State
from tests.engine.builders import ALICE, PlainKeyring, spec

HOME, BETA, FAR = SiteId("alpha"), SiteId("beta"), SiteId("far")


class Node:
    """One engine at a time that only moves when told."""

    def __init__(self, stored: list[bytes] | None = None, now: float = 1000.0, **settings: object) -> None:
        self.stored = stored or []
        self.now = now
        journal = Journal(snapshot=None, seq=len(self.stored), at_s=now, records=list(self.stored))
        self.engine = Engine.restore(journal, site=HOME, keyring=PlainKeyring(), now=now)
        self.effects: list[fx.Effect] = []
        made = Settings(slots=1, **settings)  # type: ignore[arg-type]
        self.take(self.engine.start(made, boot_nonce="n", db_uuid="db", address="alpha:7400"))

    def take(self, effects: list[fx.Effect]) -> None:
        self.stored += [r.encode(e.record) for e in effects if isinstance(e, fx.Persist)]
        self.effects += effects

    def handle(self, event: ev.Event) -> None:
        self.take(self.engine.handle(event, self.now))

    def up(self, site: str, generation: int = 1) -> None:
        self.handle(ev.PeerUp(hello(site, generation)))
        self.hears(site, entry(site, generation, 1))

    def down(self, site: str) -> None:
        self.handle(ev.PeerDown(SiteId(site)))

    def hears(self, sender: str, message: ms.Message) -> None:
        self.handle(ev.Received(SiteId(sender), message))

    def told(self, sender: str, *entries: ms.Summary, age_s: float = 0.0) -> None:
        self.hears(sender, ms.Gossip(entries=entries, ages_s=(age_s,) * len(entries)))

    def rumour(self, sender: str, site: str, at: tuple[int, int], state: State, by: str = "gamma") -> None:
        self.hears(sender, ms.Gossip(rumours=(ms.Rumour(SiteId(site), *at, state, SiteId(by)),)))

    def wait(self, seconds: float, *speaking: str) -> None:
        """Turns go by; the sites of `speaking` say something newer at each."""
        end = self.now + seconds
        while (due := self.engine.deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.handle(ev.Tick())
            for site in speaking:
                old = self.peer(site).summary
                assert old is not None
                self.hears(site, msgspec.structs.replace(old, counter=old.counter + 1))
        self.now = end

    def peer(self, site: str) -> PeerView:
        return self.engine.core.view.peers[SiteId(site)]

    def told_of(self, site: str) -> ms.Summary:
        told = self.peer(site).summary
        assert told is not None
        return told

    def state(self, site: str) -> State:
        return self.peer(site).state

    def version(self, site: str) -> tuple[int, int]:
        told = self.told_of(site)
        return (told.generation, told.counter)

    def sent(self, kind: type, to: str = "") -> list[Any]:
        some = [e for e in self.effects if isinstance(e, fx.Send) and isinstance(e.message, kind)]
        return [e.message for e in some if not to or e.to == to]

    def contacts(self) -> dict[str, fx.Contact]:
        """As a driver has them by now."""
        book: dict[str, fx.Contact] = {}
        for effect in self.effects:
            if isinstance(effect, fx.Contact):
                book[effect.site] = effect
            elif isinstance(effect, fx.ForgetContact):
                book.pop(effect.site, None)
        return book


def hello(site: str, generation: int = 1) -> ms.Hello:
    return ms.Hello(
        site=SiteId(site), protocol=1, release="t", capabilities=(), db_uuid=f"db-{site}", generation=generation,
        boot_nonce=f"{site}{generation}", seq=0, term=0, data_address=f"{site}:7400",
    )  # fmt: skip


def entry(site: str, generation: int = 1, counter: int = 1, **more: object) -> ms.Summary:
    fields: dict[str, object] = {
        "site": SiteId(site), "generation": generation, "counter": counter, "seq": 0, "slots": 4, "free_slots": 4,
        "speed": 1.0, "queued_jobs": 0, "running_jobs": 0, "work_ahead_s": 0.0, "datasets": (), "accepting": True,
        "address": f"{site}:7400",
    }  # fmt: skip
    return ms.Summary(**(fields | more))  # type: ignore[arg-type]


# --- what stands ---------------------------------------------------------------------------------------


@given(st.randoms(use_true_random=False), st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=8))
def test_whatever_the_order_loss_and_repetition_the_newest_word_stands(
    rng: Random, versions: list[tuple[int, int]]
) -> None:
    words: list[ms.Gossip] = []
    for at in versions:
        words.append(ms.Gossip(entries=(entry("far", *at),), ages_s=(0.0,)))
        words += [
            ms.Gossip(rumours=(ms.Rumour(FAR, *at, state, BETA),))
            for state in (State.SUSPECT, State.LOST)
            if rng.random() < 0.3
        ]
    first = ms.Gossip(entries=(entry("far", 1, 0),), ages_s=(0.0,))
    stands = set()
    for _ in range(3):
        node = Node()
        node.up("beta")
        node.hears("beta", first)
        some = words * 2
        rng.shuffle(some)
        for word in some:
            node.hears("beta", word)
        at = suspicion.version(node.engine.core, node.peer("far"))
        stands.add((at, node.state("far")))
    assert len(stands) == 1, stands
    assert next(iter(stands))[0] == max([*versions, (1, 0)])


def test_an_older_generation_never_wins_however_high_its_counter() -> None:
    node = Node()
    node.up("beta")
    node.told("beta", entry("far", 5, 3))
    node.told("beta", entry("far", 4, 999_999, slots=1))
    assert node.version("far") == (5, 3) and node.told_of("far").slots == 4
    node.rumour("beta", "far", (4, 999_999), State.LOST)
    assert node.state("far") is State.ALIVE


def test_the_age_of_an_entry_is_that_of_all_its_way() -> None:
    node = Node()
    node.up("beta")
    node.told("beta", entry("far"), age_s=7.0)
    assert node.now - node.peer("far").last_heard_s == 7.0


def test_names_of_many_datasets_are_told_once_and_asked_for_by_who_lacks_them() -> None:
    node = Node()
    node.up("beta")
    names = tuple(f"d{n}" for n in range(40))
    node.told("beta", entry("far", named_at=1, unnamed=True))
    (asking,) = [m for m in node.sent(ms.Gossip, "beta") if m.asks]
    assert asking.asks == ("far",)
    node.told("beta", entry("far", named_at=1, datasets=names))
    assert node.told_of("far").datasets == names
    node.told("beta", entry("far", counter=2, named_at=1, unnamed=True))
    assert node.told_of("far").datasets == names
    assert node.engine.core.roster.holders(["d7"]) == {"far"}
    node.up("delta")
    node.effects.clear()
    node.wait(4.0, "beta", "delta")
    told = [e for m in node.sent(ms.Gossip, "delta") for e in m.entries if e.site == "far"]
    assert told and all(e.unnamed and not e.datasets for e in told)
    node.effects.clear()
    node.hears("delta", ms.Gossip(asks=(FAR,)))
    (whole,) = node.sent(ms.Gossip, "delta")
    assert whole.entries[0].datasets == names


# --- liars ---------------------------------------------------------------------------------------------


def test_a_site_that_is_heard_cannot_be_talked_away() -> None:
    """Its neighbour believes its own ears, tells it, and it says something newer."""
    node = Node()
    node.up("beta")
    node.up("gamma")
    node.effects.clear()
    node.rumour("gamma", "beta", (1, 500), State.LOST)
    assert node.state("beta") is State.ALIVE
    (warning,) = node.sent(ms.Gossip, "beta")
    assert warning.rumours[0].site == "beta"


def test_a_site_told_of_its_own_end_says_something_newer() -> None:
    node = Node()
    node.up("beta")
    node.rumour("beta", "alpha", (1, 700), State.LOST)
    node.effects.clear()
    node.wait(1.0, "beta")
    said = node.sent(ms.Summary, "beta")[-1]
    assert (said.generation, said.counter) > (1, 700)
    node.told("beta", entry("alpha", 8, 3))
    node.wait(1.0, "beta")
    assert node.sent(ms.Summary, "beta")[-1].generation == 9


def test_leaps_garbage_and_floods_are_bounded() -> None:
    node = Node()
    node.up("beta")
    node.told("beta", entry("far"))
    node.told("beta", entry("far", 1, MOST_LEAP + 100), entry("far", MOST_LEAP + 100, 1))
    node.rumour("beta", "far", (1, MOST_LEAP + 100), State.LOST)
    assert node.version("far") == (1, 1) and node.state("far") is State.ALIVE
    node.told("beta", entry("wild", 1, 1 << 60), entry("wild", -1, 1), entry("wide", address="x" * 10_000))
    node.told("beta", entry("names", datasets=("y" * 5000,)))
    assert not {"wild", "wide", "names"} & node.engine.core.view.peers.keys()
    node.hears("beta", ms.Gossip(entries=(entry("odd"),), ages_s=()))
    assert "odd" not in node.engine.core.view.peers
    few, many = learning.MOST_TOLD, tuple(entry(f"s{n}") for n in range(learning.MOST_TOLD + 500))
    node.told("beta", *many)
    assert len(node.engine.core.view.peers) <= few + 2
    node.rumour("beta", "nobody", (1, 1), State.LOST)
    assert "nobody" not in node.engine.core.view.peers


def test_a_digest_is_answered_with_what_is_newer_and_asks_for_what_is_not() -> None:
    node = Node()
    node.up("beta")
    node.told("beta", entry("old", 1, 1), entry("new", 1, 9))
    node.effects.clear()
    rows = (("old", 5), ("new", 2), ("fresh", 1))
    node.hears("beta", ms.Gossip(digest=tuple(ms.Rumour(SiteId(s), 1, c, State.ALIVE, BETA) for s, c in rows)))
    (answer,) = node.sent(ms.Gossip, "beta")
    assert [e.site for e in answer.entries] == ["new"]
    assert set(answer.asks) == {"old", "fresh"}


# --- silence -------------------------------------------------------------------------------------------


def test_a_stream_that_falls_is_doubt_then_suspicion_then_loss_and_a_newer_word_is_life() -> None:
    node = Node()
    for site in ("beta", "gamma"):
        node.up(site)
    node.down("beta")
    assert node.peer("beta").doubted and node.engine.core.view.alive(node.now, 6.0) == ["gamma"]
    node.wait(3.0, "gamma")
    assert node.state("beta") is State.SUSPECT
    told = [x for m in node.sent(ms.Gossip, "gamma") for x in m.rumours]
    assert ms.Rumour(BETA, 1, 1, State.SUSPECT, HOME) in told
    node.wait(6.0, "gamma")
    assert node.state("beta") is State.LOST
    node.told("gamma", entry("beta", 1, 2))
    assert node.state("beta") is State.ALIVE and "beta" in node.engine.core.view.alive(node.now, 6.0)


def test_more_voices_make_a_suspicion_shorter() -> None:
    def lost_after(voices: int) -> float:
        node = Node()
        node.up("beta")
        node.told("beta", entry("far"))
        for n in range(voices):
            node.rumour("beta", "far", (1, 1), State.SUSPECT, by=f"v{n}")
        began = node.now
        while node.state("far") is State.SUSPECT:
            node.wait(0.25, "beta")
        return node.now - began

    assert lost_after(4) < lost_after(1)


def test_who_hears_nobody_concludes_nothing() -> None:
    node = Node()
    node.up("beta")
    node.told("beta", entry("far"))
    node.down("beta")
    node.wait(600.0)
    assert (node.state("beta"), node.state("far")) == (State.ALIVE, State.ALIVE)


def test_a_site_that_finds_itself_slow_is_slow_to_suspect() -> None:
    node = Node()
    node.up("beta")
    node.up("gamma")
    node.wait(1.0, "beta", "gamma")
    node.now += 5.0
    node.handle(ev.Tick())
    node.hears("gamma", entry("gamma", 1, 2))
    assert node.engine.core.members.health == 1
    node.down("beta")
    node.now += 2.5
    node.handle(ev.Tick())
    assert node.state("beta") is State.ALIVE


def test_a_goodbye_is_no_loss_and_the_next_run_is_alive_at_once() -> None:
    node = Node()
    node.up("beta")
    node.up("gamma")
    node.hears("beta", entry("beta", 1, 2, left=True))
    node.down("beta")
    node.wait(2.0, "gamma")
    assert node.state("beta") is State.LEFT and BETA not in node.engine.core.view.alive(node.now, 6.0)
    told = {x.state for m in node.sent(ms.Gossip, "gamma") for x in m.rumours}
    assert told == {State.LEFT}
    node.up("beta", generation=2)
    assert node.state("beta") is State.ALIVE


def test_stopping_says_goodbye_and_nothing_after_it() -> None:
    node = Node()
    node.up("beta")
    node.effects.clear()
    node.handle(ev.Leaving())
    assert [m.left for m in node.sent(ms.Summary, "beta")] == [True]
    node.effects.clear()
    node.wait(10.0)
    assert not node.sent(ms.Summary)


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


def test_who_has_nothing_new_to_say_speaks_every_third_turn_and_not_to_all_at_once() -> None:
    node, names = idle_vo()
    for _ in range(12):
        before = len(node.sent(ms.Summary))
        node.wait(1.0, *names)
        assert len(node.sent(ms.Summary)) - before < len(names)
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
    old = (node.engine.core.members.incarnation, node.engine.core.summary_counter - 2)
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
    marks, known = node.engine.core.members.marks, node.engine.core.members.alive
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
    chosen = [site for _, site in node.engine.core.members.chosen]
    for site in chosen[:4]:
        node.rumour("beta", site, (1, 1), State.LOST)
    node.wait(1.0, "beta")
    now = [site for _, site in node.engine.core.members.chosen]
    assert len(now) == 8 and not set(now) & set(chosen[:4])
    kept = {site for site, order in node.contacts().items() if order.keep}
    assert len(kept & set(chosen[:4])) == 2


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
    written = sum(isinstance(r.decode(one), r.ContactsLearned) for one in node.stored)
    assert written == 1
