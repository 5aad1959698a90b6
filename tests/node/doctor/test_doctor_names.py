"""SPEC U1, U2: two nodes of one name, and who refuses this site, as `diana doctor` and `diana sites` tell it."""

from __future__ import annotations

from typing import cast

import msgspec

from diana.adapters.grpc_transport.link import PeerLink
from diana.adapters.grpc_transport.noticed import FRESH_S, SURE_S, Noticed
from diana.engine.messages.messages import Hello
from diana.model.ids import SiteId
from diana.node.doctor import names


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Linked:
    """As much of a link as is looked at."""

    def __init__(self, peer: Hello) -> None:
        self.peer = peer


def hello(site: str, uuid: str = "1", nonce: str = "n", address: str = "") -> Hello:
    return Hello(
        site=SiteId(site), protocol=1, release="t", capabilities=(), db_uuid=f"db-{site}-{uuid}", generation=1,
        boot_nonce=nonce, seq=0, term=0, data_address=address or f"{site}{uuid}:7400",
    )  # fmt: skip


OWN = hello("alpha")


def met(noticed: Noticed, peer: Hello, linked: Hello | None = None) -> str:
    link = None if linked is None else cast("PeerLink", Linked(linked))
    return noticed.check(OWN, peer, proven=peer.site, linked=link, where="10.0.0.9")


def test_a_second_node_of_a_name_is_told_of_once_it_comes_again() -> None:
    """One that takes over may be met before the other's stream ended."""
    clock = Clock()
    noticed = Noticed(clock)
    first, second = hello("gamma"), hello("gamma", "2")
    assert "two nodes are called gamma" in met(noticed, second, first)
    assert noticed.twins() == {}
    clock.now_s += SURE_S
    met(noticed, second, first)
    (row,) = names.clashes("alpha", noticed.twins())
    assert (row.name, row.state) == ("name gamma", "fail")
    assert row.found == (
        "two nodes are called gamma: one is linked at gamma1:7400, the other is refused at gamma2:7400"
    )
    assert row.mend.startswith("stop one of them, at gamma1:7400 or gamma2:7400; to come back, it joins under another")
    clock.now_s += FRESH_S
    assert noticed.twins() == {}


def test_another_node_of_our_own_name_is_told_of_and_our_own_address_is_not() -> None:
    clock = Clock()
    noticed = Noticed(clock)
    for _ in range(2):
        assert met(noticed, OWN), "an address of ours that we dialled"
        assert met(noticed, hello("alpha", "2", "m")), "each site needs a name of its own"
        clock.now_s += SURE_S
    (row,) = names.clashes("alpha", noticed.twins())
    assert row.found == "two nodes are called alpha: this one at alpha1:7400, the other is refused at alpha2:7400"


def test_a_node_whose_certificate_is_anothers_makes_no_twin() -> None:
    clock = Clock()
    noticed = Noticed(clock)
    for _ in range(2):
        noticed.check(OWN, hello("gamma", "2"), proven="delta", linked=None, where="10.0.0.9")
        clock.now_s += SURE_S
    assert noticed.twins() == {}


def test_who_refuses_us_is_told_with_the_reason_until_it_lets_us_in() -> None:
    noticed = Noticed(Clock())
    for site in ("beta", "delta"):
        noticed.turned_away(SiteId(site), "revoked by the VO")
    noticed.turned_away(SiteId("eps"), "two nodes are called alpha, stop one of them")
    banned, two = names.refused("alpha", noticed.refusals())
    assert banned.found == "beta, delta refuse this site: revoked by the VO"
    assert two.found == "eps refuses this site: two nodes are called alpha, stop one of them"
    assert banned.mend == "a signer's operator lifts a ban: diana site unban alpha"
    assert two.mend.startswith("stop this node or the other")
    assert met(noticed, hello("beta")) == ""
    assert set(noticed.refusals()) == {"delta", "eps"}


def test_what_is_noticed_is_bounded_and_grows_old() -> None:
    clock = Clock()
    noticed = Noticed(clock)
    for number in range(1000):
        noticed.turned_away(SiteId(f"s{number}"), "why")
        met(noticed, hello(f"t{number}", "2"), hello(f"t{number}"))
    assert len(noticed.refusals()) == 256
    clock.now_s += FRESH_S
    assert noticed.refusals() == {}
    (row,) = names.refused("alpha", {f"s{number}": "why" for number in range(5)})
    assert row.found == "s0, s1, s2 and others refuse this site: why"


def test_gossip_alone_suffices_and_is_not_told_beside_what_was_met() -> None:
    said = "two nodes: one at a:1, another at b:1; stop one of them"
    (row,) = names.rumoured({}, [("gamma", said)])
    assert row.found == "two nodes are called gamma: one at a:1, another at b:1" and "stop one of them" in row.mend
    clock = Clock()
    noticed = Noticed(clock)
    for _ in range(2):
        met(noticed, hello("gamma", "2"), hello("gamma"))
        clock.now_s += SURE_S
    assert names.rumoured(noticed.twins(), [("gamma", said)]) == []
    assert names.both(said, "two nodes: met") == "two nodes: met"
    assert names.both("drained: disk", "refuses us: why") == "drained: disk; refuses us: why"
    assert names.both("", "refuses us: why") == "refuses us: why" and names.both(said, "") == said


def test_a_tunnel_says_nothing_of_where_the_other_is() -> None:
    clock = Clock()
    noticed = Noticed(clock)
    nowhere = msgspec.structs.replace(hello("gamma", "2"), data_address="")
    for _ in range(2):
        noticed.check(OWN, nowhere, proven="gamma", linked=cast("PeerLink", Linked(hello("gamma"))), where="")
        clock.now_s += SURE_S
    (row,) = names.clashes("alpha", noticed.twins())
    assert "refused at an address not told" in row.found
