"""Tokens: short, whole or refused (SPEC U1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.errors import UsageError
from diana.node.enrol import tokens
from diana.node.enrol.tokens import Token, decode, encode

NAMES = st.from_regex(r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?", fullmatch=True)
ADDRESSES = st.one_of(
    st.builds("{}:{}".format, st.ip_addresses(v=4), st.integers(1, 65535)),
    st.builds("[{}]:{}".format, st.ip_addresses(v=6), st.integers(1, 65535)),
    st.builds("{}.example.org:{}".format, NAMES, st.integers(1, 65535)),
)
TOKENS = st.builds(
    Token,
    kind=st.sampled_from(tokens.KINDS),
    seed=st.binary(min_size=16, max_size=16),
    fingerprint=st.binary(min_size=16, max_size=16),
    vo=NAMES,
    site=NAMES,
    addresses=st.lists(ADDRESSES, min_size=1, max_size=4).map(tuple),
)
USUAL = Token(
    kind="site", seed=b"s" * 16, fingerprint=b"f" * 16, vo="alpha-vo", site="alpha", addresses=("192.168.10.20:7400",)
)


@given(TOKENS)
def test_a_token_comes_back_as_it_was(token: Token) -> None:
    assert decode(encode(token)) == token


def test_a_usual_token_is_about_a_hundred_characters_long() -> None:
    assert len(encode(USUAL)) < 105


@given(st.data())
def test_a_token_with_a_slip_in_it_is_told_from_one_that_is_not_known(data: st.DataObject) -> None:
    text = encode(USUAL)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from([c for c in "ABCxyz019-_" if c != text[at]]))
    for broken in (text[:at] + other + text[at + 1 :], text[:at], text + other):
        try:
            assert decode(broken) == USUAL  # the last character's unused bits say nothing
        except UsageError as error:
            assert str(error).startswith("token: ")


@given(st.text(max_size=200))
def test_any_text_that_is_no_token_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        decode(text)
    assert "\n" not in str(caught.value)


def test_a_token_of_a_newer_release_says_so() -> None:
    import base64

    body = bytes((9, 0)) + b"s" * 16 + b"f" * 16 + b"vo\0alpha\0h:1"
    text = base64.urlsafe_b64encode(body + tokens._check(body)).decode().rstrip("=")
    with pytest.raises(UsageError, match="newer release"):
        decode(text)


def test_spaces_and_a_line_end_from_pasting_do_not_matter() -> None:
    assert decode(f"  {encode(USUAL)}\n") == USUAL
