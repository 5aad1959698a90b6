"""Seals: no two words have one, and without a secret there is none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from diana.policy.trust import seals

KEY = b"k" * seals.KEY_BYTES


def length(
    key: bytes = KEY, site: str = "a", db_uuid: str = "b", former: Sequence[str] = (), nonce: str = "0"
) -> bytes:
    return seals.length(key, site=site, db_uuid=db_uuid, former=former, generation=1, boot_nonce=nonce, seq=4)


def test_the_seal_of_an_offer_is_none_of_a_length_though_the_words_are_the_same() -> None:
    offer = seals.offer(KEY, site="a", subgroup="b", epoch=1, bounds=(0, 4))
    assert len(offer) == seals.SEAL_BYTES
    assert not seals.fits(length(), offer)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"site": "ab", "db_uuid": "c"}, {"site": "a", "db_uuid": "bc"}),
        ({"db_uuid": "1:b"}, {"db_uuid": "b"}),
        ({"former": ("x", "y")}, {"former": ("xy",)}),
        ({"key": b"other"}, {}),
        ({"nonce": "1"}, {}),
    ],
)
def test_other_words_or_another_secret_make_another_seal(one: dict[str, str], other: dict[str, str]) -> None:
    assert length(**one) != length(**other)  # type: ignore[arg-type]


def test_without_a_secret_nothing_fits() -> None:
    assert length(key=b"") == b""
    assert not seals.fits(length(key=b""), b"")
    assert seals.fits(length(), length())
