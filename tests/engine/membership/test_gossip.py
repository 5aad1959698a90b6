"""Entries, rumours and digests of other sites: the newest word stands, whatever the order, and no peer's lie lasts
(SPEC D9; PERFORMANCE P9)."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from diana.engine.journal import events as ev
from diana.engine.membership import merge
from diana.engine.membership.sizes import message_bytes
from diana.engine.membership.table import MOST_LEAP, MembershipTable
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from diana.policy.membership import State
from tests.engine.gossiping import BETA, FAR, HOME, Node, entry, hello

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
        stands.add((node.peer("far").version, node.state("far")))
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
    few, many = merge.MOST_TOLD, tuple(entry(f"s{n}") for n in range(merge.MOST_TOLD + 500))
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
    assert node.engine.core.book(MembershipTable).health == 1
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


def test_a_stream_that_stands_after_the_goodbye_does_not_take_it_back() -> None:
    node = Node()
    node.up("beta")
    node.handle(ev.Leaving())
    node.effects.clear()
    node.handle(ev.PeerUp(hello("gamma")))
    assert [m.left for m in node.sent(ms.Summary, "gamma")] == [True]


def test_news_of_a_site_does_not_wait_for_the_next_turn() -> None:
    node = crowded()
    node.wait(0.7)
    node.effects.clear()
    node.told("t0", entry("new"))
    node.rumour("t0", "s3", (1, 1), State.SUSPECT)
    node.wait(0.25)
    heard = {"new": 0, "s3": 0}
    for message in node.sent(ms.Gossip):
        heard["new"] += any(one.site == "new" for one in message.entries)
        heard["s3"] += any(one.site == "s3" for one in message.rumours)
    assert min(heard.values()) >= node.engine.core.state.settings.gossip_peers
    node.wait(0.01)
    assert not node.engine.core.book(MembershipTable).serving


def test_what_answers_weigh_is_bounded_per_turn_but_a_suspicion_is_always_refuted() -> None:
    node = crowded()
    node.told("t0", *(entry(f"s{n}", 1, 9) for n in range(40)))
    node.effects.clear()
    asks = ms.Gossip(asks=tuple(SiteId(f"s{n}") for n in range(40)))
    for _ in range(20):
        node.hears("t1", asks)
    weight = sum(message_bytes(one) for one in node.sent(ms.Gossip, "t1"))
    settings = node.engine.core.state.settings
    assert 0 < weight < (settings.gossip_peers + 1) * settings.gossip_bytes
    node.effects.clear()
    node.rumour("t1", "s5", (1, 2), State.SUSPECT)
    assert [one.site for message in node.sent(ms.Gossip, "t1") for one in message.entries] == ["s5"]


def crowded() -> Node:
    """It has streams to eight sites and knows forty more."""
    node = Node()
    for n in range(8):
        node.up(f"t{n}")
    node.told("t0", *(entry(f"s{n}") for n in range(40)))
    node.wait(8.0, *(f"t{n}" for n in range(8)))
    return node
