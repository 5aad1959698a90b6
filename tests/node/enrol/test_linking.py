"""SPEC D9: what a site tells others of how it is reached."""

from __future__ import annotations

import pytest

from diana.model.ids import SiteId
from diana.node import linking
from diana.node.config.site_file import SiteConfig
from diana.node.linking import told_address
from diana.node.pair.follower import pair_address


def told(listen: str, advertise: str = "", peers: tuple[str, ...] = ()) -> str:
    return told_address(SiteConfig(site=SiteId("a"), vo="lab", listen=listen, advertise=advertise, peers=peers), 7401)


def test_a_site_is_told_where_it_listens_unless_it_says_otherwise() -> None:
    assert told("192.0.2.7:0") == "192.0.2.7:7401"
    assert told("192.0.2.7:0", "lab.example:9") == "lab.example:9"


def test_a_site_that_others_cannot_dial_tells_no_address() -> None:
    assert told("0.0.0.0:0", "none") == ""


def test_bound_to_all_interfaces_it_tells_the_one_that_leads_to_its_first_peer() -> None:
    assert told("0.0.0.0:0", peers=("127.0.0.1:7400",)) == "127.0.0.1:7401"


@pytest.mark.parametrize("peers", [(), ("no-such-host.invalid:7400",)])
def test_whatever_it_finds_it_tells_the_bound_port(peers: tuple[str, ...]) -> None:
    assert told("0.0.0.0:0", peers=peers).endswith(":7401")


def test_a_machine_of_a_pair_bound_to_all_interfaces_is_not_told_to_the_other_as_every_machine_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linking, "_outward", lambda peers: "192.0.2.7")
    config = SiteConfig(site=SiteId("a"), vo="lab", listen="0.0.0.0:7401")
    assert pair_address(config, 7401) == "192.0.2.7:7401"
