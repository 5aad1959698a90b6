"""Which chains of certificates count (PROMISES 5.2): hostile ones are each refused for their own reason."""

from __future__ import annotations

import ipaddress
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.adapters.trust.chains import Untrusted, verify
from tests.contract.trust_builders import DAY_S, Signed, chain, make, root, signer, site

ROOT = root()
ALPHA = signer("alpha", ROOT)
BETA = signer("beta", ALPHA, path_length=0)
LEAF = site("gamma", ALPHA)


def why(*links: Signed, below: Signed = ROOT, as_signer: bool = False) -> str:
    try:
        verify(chain(*links), below.certificate, "lab", signer=as_signer)
    except Untrusted as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "links",
    [
        (site("gamma", ROOT),),
        (LEAF, ALPHA),
        (site("gamma", BETA), BETA, ALPHA),
        (make("spiffe://lab/user/ann", ALPHA), ALPHA),
        (make("spiffe://lab/member/gamma/m2", BETA, dns=("m2.gamma.lab.diana",)), BETA, ALPHA),
    ],
)
def test_a_leaf_below_the_root_by_way_of_at_most_two_signers_counts(links: tuple[Signed, ...]) -> None:
    assert why(*links) == ""


def test_what_a_good_chain_says() -> None:
    found = verify(chain(LEAF, ALPHA), ROOT.certificate, "lab")
    assert (found.identity.said, found.identity.vo) == ("site:gamma", "lab")
    assert [link.identity.said for link in found.links] == ["site:gamma", "signer:alpha", ":"]
    assert found.links[0].serial == f"{LEAF.certificate.serial_number:x}"


def test_a_signers_own_chain_counts_for_statements_and_not_for_connections() -> None:
    assert why(ALPHA, as_signer=True) == why(BETA, ALPHA, as_signer=True) == ""
    assert why(ALPHA) == "the certificate names no site, no member and no user"
    assert "which is no signer" in why(LEAF, ALPHA, as_signer=True)


FOREIGN = root()
FOREIGN_SIGNER = signer("alpha", FOREIGN)
TWIN = Signed(FOREIGN_SIGNER.certificate, ALPHA.key)
THIRD = signer("delta", BETA, path_length=0)
NOT_ONE = "the certificate is not one of VO lab"


@pytest.mark.parametrize(
    ("links", "reason"),
    [
        ((site("gamma", FOREIGN),), NOT_ONE),
        ((site("gamma", FOREIGN_SIGNER), FOREIGN_SIGNER), NOT_ONE),
        ((site("gamma", FOREIGN_SIGNER), ALPHA), NOT_ONE),
        ((site("gamma", FOREIGN_SIGNER), FOREIGN_SIGNER, FOREIGN), "signed by somebody without a name"),
        ((LEAF,), NOT_ONE),
        ((LEAF, BETA, ALPHA), NOT_ONE),
        ((ALPHA, LEAF), NOT_ONE),
        ((LEAF, ALPHA, ROOT), "signed by somebody without a name"),
        ((FOREIGN,), NOT_ONE),
        ((make("spiffe://lab/site/evil", LEAF, dns=("evil.lab.diana",)), LEAF, ALPHA), "signed by site gamma, which"),
        ((site("evil", site("gamma", ALPHA, ca=True, path_length=0)), LEAF, ALPHA), NOT_ONE),
        ((site("eps", THIRD), THIRD, BETA, ALPHA), "3 signers stand between"),
        ((site("eps", THIRD), THIRD, BETA), NOT_ONE),
    ],
)
def test_chains_of_others_broken_chains_and_leaves_that_sign_are_refused(
    links: tuple[Signed, ...], reason: str
) -> None:
    below = FOREIGN if links[-1] is FOREIGN and len(links) > 1 else ROOT
    assert reason in why(*links, below=below)


def test_a_leaf_that_calls_itself_an_authority_is_no_signer() -> None:
    evil = site("gamma", ALPHA, ca=True, path_length=0)
    assert "signed by site gamma, which is no signer of VO lab" in why(site("other", evil), evil, ALPHA)
    assert why(evil, ALPHA) == "the certificate names no site, no member and no user"


@pytest.mark.parametrize("fields", [{"ca": False}, {"signs": False}])
def test_a_signer_by_name_only_signs_nothing(fields: dict[str, bool]) -> None:
    half = signer("half", ROOT, path_length=None if "ca" in fields else 1, **fields)
    assert "which is no signer of VO lab" in why(site("gamma", half), half)


def test_a_signer_of_another_vo_below_our_root_signs_nothing() -> None:
    other = make("spiffe://other/signer/alpha", ROOT, ca=True, path_length=1)
    assert "signed by signer alpha, which is no signer of VO lab" in why(site("gamma", other), other)


def test_a_signer_beyond_the_path_length_above_it_is_refused() -> None:
    """Beta may sign leaves only, whatever the signer it made says of itself; and so on up to the root."""
    last = signer("gamma", ROOT, path_length=0)
    below = signer("delta", last, path_length=1)
    assert why(site("eps", below), below, last) == "signer gamma may not make signers"
    boundless = signer("gamma", ROOT, path_length=None)
    assert why(site("eps", boundless), boundless) == "signer gamma may not make signers"
    narrow = root(path_length=0)
    first = signer("alpha", narrow)
    assert why(site("gamma", narrow), below=narrow) == ""
    assert why(site("gamma", first), first, below=narrow) == "the root of VO lab allows no signer there"


@pytest.mark.parametrize(
    ("leaf", "reason"),
    [
        (site("gamma", ALPHA, dns=("alpha.lab.diana",)), "carries other names beside site gamma"),
        (site("gamma", ALPHA, dns=("gamma.lab.diana", "alpha.lab.diana")), "carries other names beside site gamma"),
        (site("gamma", ALPHA, dns=()), "carries other names beside site gamma"),
        (make("spiffe://lab/user/ann", ALPHA, dns=("alpha.lab.diana",)), "carries other names beside user ann"),
        (
            site("gamma", ALPHA, more_names=(x509.IPAddress(ipaddress.ip_address("127.0.0.1")),)),
            "carries other names beside site gamma",
        ),
        (
            site("gamma", ALPHA, uris=("spiffe://lab/site/gamma", "spiffe://lab/site/alpha")),
            "names no site, no member and no user",
        ),
        (make("spiffe://lab/root/x", ALPHA), "names no site, no member and no user"),
        (make("spiffe://lab/member/gamma", ALPHA), "names no site, no member and no user"),
        (make("spiffe://lab/site/Gamma", ALPHA), "names no site, no member and no user"),
        (make("spiffe://lab/invite/00112233", ALPHA), "names no site, no member and no user"),
        (make("spiffe://other/site/gamma", ALPHA, dns=("gamma.other.diana",)), "names site gamma of VO other, not lab"),
        (site("gamma", ALPHA, signs=True), "names no site, no member and no user"),
        (site("gamma", ALPHA, client=False), "not for connections"),
        (site("gamma", ALPHA, critical=True), "critical extension"),
        (site("gamma", ALPHA, key=rsa.generate_private_key(65537, 2048)), "not one of ECDSA P-256"),
        (site("gamma", ALPHA, key=ec.generate_private_key(ec.SECP384R1())), "not one of ECDSA P-256"),
    ],
)
def test_a_leaf_with_anything_but_one_identity_is_refused(leaf: Signed, reason: str) -> None:
    assert reason in why(leaf, ALPHA)


def test_a_root_that_is_not_the_vos_is_refused() -> None:
    other = root("other")
    assert (
        why(make("spiffe://lab/site/x", other, dns=("x.lab.diana",)), below=other) == "the root is not that of VO lab"
    )
    assert "allows no signer there" in why(site("gamma", LEAF), below=LEAF)


@pytest.mark.parametrize(
    ("at_s", "reason"),
    [
        (0.0, ""),
        (8 * DAY_S, "the certificate expired 1.0 days ago"),
        (-3900.0, "in 60 minutes; check this machine's clock"),
        (-3900.0, "the certificate is not valid before 20"),
        (-20 * DAY_S, "check this machine's clock"),
    ],
)
def test_dates_are_said_with_what_to_check(at_s: float, reason: str) -> None:
    found = verify(chain(LEAF, ALPHA), ROOT.certificate, "lab")
    said = found.out_of_date(LEAF.certificate.not_valid_before_utc.timestamp() + 300 + at_s)
    assert (reason in said) if reason else said == ""


def test_an_expired_signer_takes_its_leaves_with_it() -> None:
    old = signer("old", ROOT, days=10.0, wall_s=time.time() - 20 * DAY_S)
    found = verify(chain(site("gamma", old), old), ROOT.certificate, "lab")
    assert found.out_of_date(time.time()) == "the certificate of its signer old expired 10.0 days ago"


@given(st.binary(max_size=200), st.integers(0, 3000), st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_garbage_never_counts_and_never_raises_anything_else(noise: bytes, at: int, cut: int) -> None:
    good = chain(LEAF, ALPHA)
    bad = good[:at] + noise + good[at + cut :]
    try:
        found = verify(bad, ROOT.certificate, "lab")
    except Untrusted as error:
        assert "\n" not in str(error)
    else:
        assert found.identity.said == "site:gamma"


def test_what_is_too_large_is_not_even_read() -> None:
    with pytest.raises(Untrusted, match="too large"):
        verify(chain(LEAF, ALPHA) * 20, ROOT.certificate, "lab")
