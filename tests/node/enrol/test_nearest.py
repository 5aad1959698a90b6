"""A lone machine that several sites invite joins the nearest by measured round trip, not by name or order (SPEC D8)."""

from __future__ import annotations

import socket
from math import inf

import pytest

from diana.adapters.trust.invites import SEED_BYTES
from diana.errors import Unreachable, UsageError
from diana.node.enrol import asking, nearest, tokens

ROOT = bytes(tokens.FINGERPRINT_BYTES)


def token(site: str, kind: str = "member", vo: str = "lab", address: str = "10.9.9.9:7400") -> str:
    seed = bytes(range(SEED_BYTES))
    return tokens.encode(tokens.Token(kind=kind, seed=seed, fingerprint=ROOT, vo=vo, site=site, addresses=(address,)))


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Sites that answer, each at an address named after it."""
    sites: set[str] = set()

    def find(token: tokens.Token) -> asking.InviterContact:
        if token.site not in sites:
            raise Unreachable(f"{token.addresses[0]}: nothing listens there")
        return asking.InviterContact(f"{token.site}:7400", b"", "")

    monkeypatch.setattr(asking, "find_inviter", find)
    return sites


def test_the_nearest_is_first_whatever_its_name_and_place(answering: set[str]) -> None:
    answering |= {"alpha", "beta", "gamma"}
    rtts = {"alpha:7400": 0.08, "beta:7400": 0.03, "gamma:7400": 0.002}
    given = [token(site) for site in ("alpha", "beta", "gamma")]
    for order in (given, given[::-1]):
        found = nearest.nearest(order, rtts.__getitem__)
        assert [(one.site, one.rtt_s) for one in found] == [("gamma", 0.002), ("beta", 0.03), ("alpha", 0.08)]


def test_equals_go_by_name_and_whoever_does_not_answer_is_last_with_the_reason(answering: set[str]) -> None:
    answering |= {"beta", "alpha"}
    found = nearest.nearest([token("gone"), token("beta"), token("alpha")], lambda _: 0.01)
    assert [one.site for one in found] == ["alpha", "beta", "gone"]
    assert found[-1].rtt_s == inf and found[-1].why == "10.9.9.9:7400: nothing listens there"


def test_where_nobody_answers_the_fault_of_the_first_is_told(answering: set[str]) -> None:
    with pytest.raises(Unreachable, match="nothing listens there"):
        nearest.nearest([token("alpha"), token("beta")])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((token("alpha"), token("beta", kind="site")), "the invitation of beta is for a site; only a machine chooses"),
        ((token("alpha"), token("beta", vo="other")), "beta is of VO other, alpha of lab"),
        ((token("alpha"), token("alpha")), "two invitations of site alpha; give one of each site"),
        ((token("alpha"), "rubbish"), "token"),
        (tuple(token(f"s{n}") for n in range(33)), "33 sites; at most 32 are measured"),
    ],
)
def test_invitations_that_are_no_choice_are_refused(given: tuple[str, ...], said: str, answering: set[str]) -> None:
    with pytest.raises(UsageError) as wrong:
        nearest.nearest(given)
    assert said in str(wrong.value) and "\n" not in str(wrong.value)


def test_a_round_trip_is_infinite_where_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    assert nearest.round_trip_s(address) == inf
