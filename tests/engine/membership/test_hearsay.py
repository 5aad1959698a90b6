"""Sites known by others' word alone: the bounds of what is kept, who vouches for them, and their end with a ban
(PROMISES 5.5)."""

from __future__ import annotations

import pytest

from diana.engine.journal import events as ev
from diana.engine.membership import active
from diana.engine.membership.sizes import kept_bytes, names_bytes
from diana.engine.membership.table import (
    MOST_HEARSAY_BYTES,
    MOST_HEARSAY_NAMES_BYTES,
    MOST_KNOWN,
    HearsayShare,
    MembershipTable,
)
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from diana.model.trust.principal import Principal, Role
from diana.policy.membership import State
from tests.engine.gossiping import Node, entry, hello

OPERATOR = Principal(Role.OPERATOR, "root@vo")
LONG_NAMES = tuple(f"{n:03}" + "x" * 297 for n in range(256))
LONG = {"release": "r" * 100, "ledger": "l" * 100, "drained": "d" * 300, "notice": "n" * 300, "domain": "o" * 253}
PER_MESSAGE = 400
SLOW: dict[str, object] = {"summary_every_s": 60.0, "suspect_after_s": 240.0}
"""Few turns in a day."""


def flood(node: Node, sender: str, name: str, sites: int, **more: object) -> list[str]:
    names = [f"{name}{n:05}" for n in range(sites)]
    for at in range(0, sites, PER_MESSAGE):
        node.told(sender, *(entry(one, **more) for one in names[at : at + PER_MESSAGE]))
    return names


def known(node: Node, names: list[str]) -> int:
    return sum(SiteId(name) in node.engine.core.view.peers for name in names)


def kept(node: Node) -> HearsayShare:
    """What is kept by hearsay, counted anew, and found as the book has it."""
    found, by = HearsayShare(), dict[SiteId, HearsayShare]()
    for peer in node.engine.core.view.peers.values():
        if peer.hello is None and peer.summary is not None:
            for share in (found, by.setdefault(peer.through[0], HearsayShare())):
                share.add(kept_bytes(peer.summary), names_bytes(peer.summary))
    book = node.engine.core.book(MembershipTable).hearsay
    assert (book.total.rest, book.total.names) == (found.rest, found.names)
    assert {site: share.weight() for site, share in book.by.items()} == {s: one.weight() for s, one in by.items()}
    return found


def through(node: Node, sender: str, *entries: ms.Summary, way: tuple[str, ...] = ()) -> None:
    """Tell the entries as those that came to the sender so."""
    heard = ms.HeardFrom(tuple(map(SiteId, way)))
    told = ms.Gossip(entries=entries, ages_s=(0.0,) * len(entries), heard_from=(heard,) * len(entries))
    node.hears(sender, told)


def ban(node: Node, site: str) -> None:
    node.handle(ev.SayStatement(request=1, principal=OPERATOR, kind="revoke", about=f"site:{site}", wall_s=1.75e9))


def lift(node: Node, site: str) -> None:
    node.handle(ev.SayStatement(request=1, principal=OPERATOR, kind="lift", about=f"site:{site}", wall_s=1.75e9))


# --- bounds -------------------------------------------------------------------------------------------


def test_names_of_datasets_at_sites_never_met_are_bounded_in_all_and_the_sites_are_known_without_them() -> None:
    node = Node()
    node.up("mallory")
    names = flood(node, "mallory", "s", 500, datasets=LONG_NAMES)
    assert known(node, names) == 500
    assert MOST_HEARSAY_NAMES_BYTES / 2 < kept(node).names <= MOST_HEARSAY_NAMES_BYTES
    last = node.told_of(names[-1])
    assert not last.datasets and last.unnamed


def test_whoever_fills_it_with_names_makes_room_for_those_that_others_tell_and_met_sites_keep_theirs() -> None:
    node = Node()
    node.up("met")
    node.hears("met", entry("met", 1, 2, datasets=LONG_NAMES))
    node.up("mallory")
    flood(node, "mallory", "s", 500, datasets=LONG_NAMES)
    node.up("beta")
    node.told("beta", *(entry(f"honest{n}", datasets=(f"sky{n}",)) for n in range(50)))
    assert [node.told_of(f"honest{n}").datasets for n in range(50)] == [(f"sky{n}",) for n in range(50)]
    assert node.told_of("met").datasets == LONG_NAMES
    assert kept(node).names <= MOST_HEARSAY_NAMES_BYTES


def test_nobody_is_asked_for_names_that_there_is_no_room_for() -> None:
    node = Node()
    node.up("mallory")
    node.told("mallory", entry("first", unnamed=True))
    assert node.sent(ms.Gossip, "mallory")[-1].asks == ("first",)
    flood(node, "mallory", "s", 200, datasets=LONG_NAMES)
    node.effects.clear()
    node.told("mallory", entry("late", unnamed=True))
    assert not [one for one in node.sent(ms.Gossip, "mallory") if one.asks]


def test_words_of_sites_never_met_are_bounded_in_bytes_and_whoever_tells_most_makes_room_for_the_others() -> None:
    node = Node()
    node.up("met")
    node.up("mallory")
    long = {**LONG, "via": tuple("v" * 300 for _ in range(4)), "address": "a" * 300}
    invented = flood(node, "mallory", "s" * 295, 12_000, **long)
    full = known(node, invented)
    assert 5_000 < full < 12_000
    assert MOST_HEARSAY_BYTES - 5_000 < kept(node).weight() <= MOST_HEARSAY_BYTES
    node.up("beta")
    honest = flood(node, "beta", "honest", 300)
    assert known(node, honest) == 300 and known(node, ["met", "mallory", "beta"]) == 3
    assert known(node, invented) < full
    assert kept(node).weight() <= MOST_HEARSAY_BYTES
    flood(node, "mallory", "z" * 295, 3_000, **long)
    assert known(node, honest) == 300, "and keep their room"
    assert kept(node).weight() <= MOST_HEARSAY_BYTES


def test_short_rows_that_take_all_places_make_room_as_well() -> None:
    node = Node()
    node.up("mallory")
    invented = flood(node, "mallory", "s", MOST_KNOWN + 500)
    assert MOST_KNOWN - 1 <= known(node, invented) <= MOST_KNOWN
    node.up("beta")
    honest = flood(node, "beta", "honest", 300)
    assert known(node, honest) == 300


def test_an_honest_vo_of_ten_thousand_sites_is_known_whole_by_the_word_of_one() -> None:
    node = Node()
    node.up("beta")
    names = flood(node, "beta", "s", 10_000, via=("s00001", "s00002", "s00003", "s00004"), notice="n" * 80)
    assert known(node, names) == 10_000
    node.up("s00007")
    kept(node)


def test_a_site_that_comes_itself_counts_no_more_and_one_that_is_forgotten_neither() -> None:
    node = Node(**SLOW)
    node.up("beta")
    node.told("beta", entry("far"), entry("gone"))
    node.up("far", 2)
    node.rumour("beta", "gone", (1, 1), State.LOST)
    node.wait(active.FORGET_AFTER_S + 2_000.0, "beta", "far")
    assert known(node, ["far", "gone"]) == 1
    assert kept(node).weight() == 0


def test_voices_for_one_suspicion_are_bounded() -> None:
    node = Node()
    node.up("beta")
    node.told("beta", entry("far"))
    for number in range(500):
        node.rumour("beta", "far", (1, 1), State.SUSPECT, by=f"voice{number}")
    assert len(node.engine.core.book(MembershipTable).suspicions[SiteId("far")].by) <= 64


# --- who vouches --------------------------------------------------------------------------------------


def test_an_entry_is_passed_on_with_the_sites_that_it_came_through_unless_its_site_was_met() -> None:
    node = Node()
    for number in range(8):
        node.up(f"t{number}")
    through(node, "t0", entry("far"), way=("u1", "u2", "u3", "u4"))
    node.told("t0", *(entry(f"s{n}") for n in range(20)))
    node.wait(3.0, *(f"t{n}" for n in range(8)))
    ways: dict[str, tuple[str, ...]] = {}
    for message in node.sent(ms.Gossip):
        for one, heard in zip(message.entries, message.heard_from, strict=bool(message.heard_from)):
            ways[one.site] = heard.sites
    assert ways["far"] == ("t0", "u1", "u2", "u3") and ways["s3"] == ("t0",)
    node.up("far", 2)
    node.effects.clear()
    node.hears("t1", ms.Gossip(asks=(SiteId("far"),)))
    (answer,) = node.sent(ms.Gossip, "t1")
    assert [one.site for one in answer.entries] == ["far"] and not answer.heard_from


def test_gossip_with_ways_for_other_entries_is_refused() -> None:
    node = Node()
    node.up("beta")
    node.hears("beta", ms.Gossip(entries=(entry("far"),), ages_s=(0.0,), heard_from=(ms.HeardFrom(),) * 2))
    assert not known(node, ["far"]) and node.engine.core.counters["nonsense"] == 1


@pytest.mark.parametrize(
    ("other", "way", "most_s"),
    [
        ("", (), active.VAIN_ALONE_S),
        ("beta", ("mallory",), active.VAIN_ALONE_S),
        ("beta", (), active.VAIN_MOST_S),
        ("beta", ("gamma",), active.VAIN_MOST_S),
    ],
)
def test_an_address_for_which_one_site_alone_vouches_is_left_alone_for_hours(
    other: str, way: tuple[str, ...], most_s: float
) -> None:
    node = Node(**SLOW)
    node.up("mallory")
    if other:
        node.up(other)
    members, counter, now = node.engine.core.book(MembershipTable), 1, node.now
    pauses: list[float] = []
    while node.now < now + 2 * 86_400.0:
        counter += 2
        node.told("mallory", entry("far", 1, counter))
        if other:
            through(node, other, entry("far", 1, counter + 1), way=way)
        node.wait(60.0)
        if (tried := members.vain.get(SiteId("far"))) and tried.until_s - node.now > (pauses or [0.0])[-1]:
            pauses.append(tried.until_s - node.now)
    assert active.VAIN_ALONE_S == 6 * 3600.0
    assert 0.9 * most_s < max(pauses) <= most_s


def test_another_address_by_the_word_of_one_is_vouched_for_by_that_one_alone() -> None:
    node = Node()
    node.up("mallory")
    node.up("beta")
    node.told("beta", entry("far", 1, 2))
    node.told("mallory", entry("far", 1, 3))
    assert node.peer("far").besides == ("beta",)
    node.told("mallory", entry("far", 1, 4, address="198.51.100.7:1"))
    assert node.peer("far").besides == ()


# --- a ban --------------------------------------------------------------------------------------------


def test_a_ban_clears_what_the_banned_said_with_its_contacts_and_dials() -> None:
    node = Node()
    node.up("mallory")
    node.up("beta")
    invented = flood(node, "mallory", "s", 5)
    through(node, "beta", entry("passed-on"), way=("mallory",))
    node.told("beta", entry("far"), entry("both", 1, 1))
    node.told("mallory", entry("both", 1, 2), entry("beta", 1, 9))
    node.wait(8.0, "beta", "mallory")
    assert any(node.contacts()[site].keep for site in invented)
    ban(node, "mallory")
    assert known(node, [*invented, "passed-on"]) == 0
    assert known(node, ["mallory", "beta", "far", "both"]) == 4
    assert not set(invented) & set(node.contacts())
    assert "mallory" not in kept_by(node)
    node.wait(30.0, "beta")
    assert not set(invented) & (node.contacts().keys() | set(node.engine.core.book(MembershipTable).unmet))


def test_after_a_ban_others_that_have_not_heard_of_it_bring_nothing_of_it_back() -> None:
    node = Node()
    node.up("beta")
    node.up("mallory")
    ban(node, "mallory")
    through(node, "beta", entry("invented", 1, 7), way=("gamma", "mallory"))
    node.told("mallory", entry("invented", 1, 8))
    assert not known(node, ["invented"])
    lift(node, "mallory")
    through(node, "beta", entry("invented", 1, 7), way=("gamma", "mallory"))
    assert known(node, ["invented"])


def test_a_site_that_was_met_outlives_a_ban_of_whoever_told_of_it_last() -> None:
    node = Node()
    node.up("mallory")
    node.told("mallory", entry("far"))
    node.handle(ev.PeerUp(hello("far")))
    node.down("far")
    node.told("mallory", entry("far", 1, 5))
    ban(node, "mallory")
    assert known(node, ["far"]) == 1


def kept_by(node: Node) -> set[str]:
    kept(node)
    return set(node.engine.core.book(MembershipTable).hearsay.by)
