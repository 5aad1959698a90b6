"""Claims for another site's history: what is signed comes back, and each thing wrong with one is refused in a line."""

from __future__ import annotations

import base64
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from diana.model.trust import past_claim
from diana.model.trust.past_claim import PastClaim, SignedClaim, refused, signed_of, token_of, wrong

NOW_S = 1_800_000_000.0


def _signed() -> SignedClaim:
    claim = past_claim.payload("alpha", "beta", "ann@lab", "operator", (1.0, 2.0), NOW_S)
    return SignedClaim(claim, "0" * 64, NOW_S + 9, NOW_S, b"chain" * 300, b"signature")


def test_a_claim_comes_back_as_it_was_signed() -> None:
    signed, claim = signed_of(token_of(_signed()))
    assert signed == _signed() and (claim.owner, claim.role, claim.audience) == ("ann@lab", "operator", "beta")
    assert wrong(claim, "beta", "alpha", NOW_S + 10) == ""


@pytest.mark.parametrize(
    ("changes", "here", "reader", "later_s", "why"),
    [
        ({}, "gamma", "alpha", 0.0, "for site beta, not for gamma"),
        ({}, "beta", "gamma", 0.0, "that of site alpha, and site gamma shows it"),
        ({}, "beta", "alpha", 301.0, "made 301 s ago"),
        ({}, "beta", "alpha", -301.0, "made -301 s ago"),
        ({"mark": "diana-other"}, "beta", "alpha", 0.0, "of another kind"),
        ({"from_wall_s": -1.0}, "beta", "alpha", 0.0, "span"),
        ({"said_wall_s": float("nan")}, "beta", "alpha", 0.0, "ask again"),
    ],
)
def test_a_claim_of_another_site_time_or_kind_is_refused(
    changes: dict[str, object], here: str, reader: str, later_s: float, why: str
) -> None:
    _, claim = signed_of(token_of(_signed()))
    said = wrong(replace(claim, **changes), here, reader, NOW_S + later_s)  # type: ignore[arg-type]
    assert why in said and "\n" not in said


@pytest.mark.parametrize(
    ("setting", "user", "operator"), [("nobody", False, False), ("operators", False, True), ("users", True, True)]
)
def test_a_site_tells_its_history_to_the_roles_that_its_setting_names(setting: str, user: bool, operator: bool) -> None:
    assert (refused(setting, "user") == "", refused(setting, "operator") == "") == (user, operator)


@given(st.binary(max_size=200))
def test_a_token_that_is_none_is_a_line(data: bytes) -> None:
    for token in (base64.urlsafe_b64encode(data).decode(), data.decode("latin-1")):
        with pytest.raises(ValueError, match="cannot be read"):
            signed_of(token)


def test_a_token_that_unpacks_without_end_is_refused() -> None:
    bomb = base64.urlsafe_b64encode(zlib.compress(msgspec.msgpack.encode(b"\0" * 10_000_000), 9)).decode()
    with pytest.raises(ValueError, match="cannot be read"):
        signed_of(bomb)


def test_no_claim_is_the_spec_of_a_group() -> None:
    claim = past_claim.payload("alpha", "beta", "ann@lab", "user", (0.0, 0.0), NOW_S)
    assert isinstance(msgspec.json.decode(claim), list)
    assert msgspec.json.decode(claim, type=PastClaim).role == "user"
