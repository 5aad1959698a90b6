"""Who signs whom (U1): requests, chains on disk, signers below signers, and what an invitation's seed gives rise to."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.adapters.trust import certificates
from diana.adapters.trust.certificates import Authority, Identity
from diana.adapters.trust.keyring import FileKeyring
from diana.errors import Denied, UsageError

DAY_S = 86400.0
SITE = Identity("site", "gamma", "lab")


@pytest.fixture(scope="module")
def vo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Alpha made the VO; beta and gamma are signers by the root, delta is one by beta."""
    root = tmp_path_factory.mktemp("vo")
    certificates.make_vo("lab", root / "alpha", site="alpha")
    certificates.make_signer(root / "alpha", "beta", root / "beta")
    certificates.make_signer(root / "beta", "delta", root / "delta")
    return root


def root_pem(vo: Path) -> bytes:
    return (vo / "alpha" / "vo.pem").read_bytes()


def request(identity: Identity = SITE) -> bytes:
    return certificates.new_key_and_request(identity)[1]


@pytest.mark.parametrize("by", ["alpha", "beta", "delta"])
@pytest.mark.parametrize(
    "identity", [SITE, Identity("member", "gamma/m2", "lab"), Identity("user", "ann", "lab")], ids=str
)
def test_any_signer_signs_any_leaf_and_it_counts_everywhere(vo: Path, by: str, identity: Identity) -> None:
    key, csr = certificates.new_key_and_request(identity)
    chain = certificates.sign_request(Authority.load(vo / by), csr, identity)
    assert certificates.verify_chain(chain, root_pem(vo), at_s=time.time()) == identity
    certificate = x509.load_pem_x509_certificate(chain)
    private = serialization.load_pem_private_key(key, None)
    assert private.public_key() == certificate.public_key()


def test_leaves_hold_a_week_and_users_ninety_days_or_as_told(vo: Path) -> None:
    authority, now_s = Authority.load(vo / "beta"), time.time()

    def days(identity: Identity, **told: float) -> float:
        chain = certificates.sign_request(authority, request(), identity, wall_s=now_s, **told)
        return (certificates.dates_of_chain(chain).until_s - now_s) / DAY_S

    assert days(SITE) == pytest.approx(7, abs=0.001)
    assert days(Identity("member", "gamma/m2", "lab")) == pytest.approx(7, abs=0.001)
    assert days(Identity("user", "ann", "lab")) == pytest.approx(90, abs=0.001)
    assert days(SITE, valid_days=0.01) == pytest.approx(0.01, abs=0.001)


def test_nothing_outlives_who_signed_it(tmp_path: Path) -> None:
    certificates.make_vo("lab", tmp_path / "vo", valid_days=3.0)
    chain = certificates.sign_request(Authority.load(tmp_path / "vo"), request(), SITE)
    root = certificates.dates_of_chain((tmp_path / "vo" / "vo.pem").read_bytes())
    assert certificates.dates_of_chain(chain).until_s <= root.until_s


def test_a_leaf_is_renewed_at_half_its_life(vo: Path) -> None:
    now_s = time.time()
    chain = certificates.sign_request(Authority.load(vo / "beta"), request(), SITE, wall_s=now_s)
    assert certificates.dates_of_chain(chain).half_s() == pytest.approx(now_s + 3.5 * DAY_S, abs=2)


def test_names_come_from_who_decides_and_never_from_the_request(vo: Path) -> None:
    """A request that asks for another name, for more names, or to be an authority gets what was decided."""
    key = ec.generate_private_key(ec.SECP256R1())
    greedy = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "alpha")]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=3), critical=True)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.UniformResourceIdentifier("spiffe://lab/site/alpha"), x509.DNSName("alpha.lab.diana")]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    chain = certificates.sign_request(Authority.load(vo / "beta"), greedy, SITE)
    assert certificates.verify_chain(chain, root_pem(vo)) == SITE
    assert b"alpha" not in x509.load_pem_x509_certificate(chain).public_bytes(serialization.Encoding.DER)


def _request_with(key: object) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, digest).public_bytes(serialization.Encoding.PEM)  # type: ignore[arg-type]


def test_a_request_not_signed_by_its_own_key_is_refused(vo: Path) -> None:
    der = bytearray(x509.load_pem_x509_csr(request()).public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    bad = x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(Denied, match="not signed by its own key"):
        certificates.sign_request(Authority.load(vo / "beta"), bad, SITE)


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=lambda key: type(key).__name__,
)
def test_a_key_of_another_kind_is_refused(vo: Path, key: object) -> None:
    with pytest.raises(Denied, match=r"want a key of ECDSA P-256"):
        certificates.sign_request(Authority.load(vo / "beta"), _request_with(key), SITE)


@given(st.binary(max_size=300) | st.just(b"x" * 10_000))
@settings(max_examples=50, deadline=None)
def test_garbage_is_no_request(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    for call in (certificates.request_key, lambda csr: certificates.sign_request(_AUTHORITY[0], csr, SITE)):
        with pytest.raises(Denied):
            call(noise)


_AUTHORITY: list[Authority] = []


@pytest.fixture(autouse=True, scope="module")
def _authority(vo: Path) -> None:
    _AUTHORITY.append(Authority.load(vo / "beta"))


@pytest.mark.parametrize(
    "identity",
    [
        Identity("site", "Gamma", "lab"),
        Identity("site", "gamma", "other"),
        Identity("site", "a/b", "lab"),
        Identity("member", "gamma", "lab"),
        Identity("member", "gamma/M2", "lab"),
        Identity("user", "a/b", "lab"),
        Identity("invite", "0011223344556677", "lab"),
        Identity("", "", "lab"),
        Identity("vo", "x", "lab"),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_no_certificate_is_signed_for_a_name_that_is_none(vo: Path, identity: Identity) -> None:
    with pytest.raises(UsageError, match="not a name that VO lab gives certificates to"):
        certificates.sign_request(Authority.load(vo / "beta"), request(), identity)


def test_a_signer_the_root_signed_makes_signers_and_those_make_none(vo: Path) -> None:
    wanted = Identity("signer", "eps", "lab")
    chain = certificates.sign_request(Authority.for_signers(vo / "beta"), request(), wanted)
    assert certificates.verify_chain(chain, root_pem(vo), signer=True) == wanted
    assert Authority.load(vo / "delta").site == "delta"
    with pytest.raises(UsageError, match="signer delta: may sign sites and users but no further signer"):
        certificates.sign_request(Authority.for_signers(vo / "delta"), request(), wanted)
    with pytest.raises(Denied, match="names no site, no member and no user"):
        certificates.verify_chain(chain, root_pem(vo))


def test_the_root_signs_signers_where_its_key_lies(vo: Path) -> None:
    chain = certificates.sign_request(Authority.for_signers(vo / "alpha"), request(), Identity("signer", "z", "lab"))
    assert len(x509.load_pem_x509_certificates(chain)) == 1
    leaf = certificates.sign_request(Authority.load(vo / "alpha"), request(), SITE)
    assert len(x509.load_pem_x509_certificates(leaf)) == 2, "leaves are a signer's work also there"


def test_a_site_that_lost_the_first_one_goes_on(vo: Path, tmp_path: Path) -> None:
    """Delta, below beta, below the root nobody has a key of any more, lets a newcomer in."""
    certificates.issue_site(vo / "delta", "late", tmp_path / "late")
    certificates.issue_site(vo / "beta", "beta", tmp_path / "beta")
    said = FileKeyring(tmp_path / "late").authorise("ann@lab", "late-1", b"x")  # type: ignore[arg-type]
    assert FileKeyring(tmp_path / "beta").check(said, b"x") == ""
    assert len(x509.load_pem_x509_certificates((tmp_path / "late" / "site.pem").read_bytes())) == 3


def test_a_folder_without_an_authority_signs_nothing(vo: Path, tmp_path: Path) -> None:
    certificates.issue_site(vo / "beta", "plain", tmp_path / "plain")
    for load in (Authority.load, Authority.for_signers):
        with pytest.raises(UsageError, match="No such file or directory"):
            load(tmp_path / "plain")


def test_keys_on_disk_are_for_the_owner_alone_and_replaced_whole(vo: Path, tmp_path: Path) -> None:
    for _ in range(2):
        certificates.issue_site(vo / "beta", "plain", tmp_path / "plain")
        certificates.make_signer(vo / "alpha", "plain", tmp_path / "plain")
    assert sorted(path.name for path in (tmp_path / "plain").iterdir()) == [
        "signer.key", "signer.pem", "site.key", "site.pem", "vo.pem"
    ]  # fmt: skip
    for path in tmp_path.rglob("*.key"):
        assert path.stat().st_mode & 0o777 == 0o600
    FileKeyring(tmp_path / "plain")


# --- invitations ---------------------------------------------------------------------------------------------


@given(st.binary(min_size=16, max_size=16))
@settings(max_examples=30, deadline=None)
def test_both_ends_derive_the_same_key_from_a_seed_and_another_from_another(seed: bytes) -> None:
    numbers = certificates.derive_invite_key(seed).private_numbers()
    assert numbers == certificates.derive_invite_key(seed).private_numbers()
    other = bytes([seed[0] ^ 1]) + seed[1:]
    assert numbers != certificates.derive_invite_key(other).private_numbers()
    assert certificates.invite_id(seed) != certificates.invite_id(other)


def test_a_newcomers_certificate_is_under_its_own_invitation_only() -> None:
    mine, other = bytes(16), b"o" * 16
    roots = {
        seed: certificates.invite_root(seed, "lab", until_wall_s=time.time() + 60) for seed in (mine, other)
    }  # fmt: skip
    _, leaf = certificates.invite_leaf(mine, "lab")
    assert certificates.invited_by(leaf, roots.values()) == certificates.invite_id(mine)
    assert certificates.invited_by(leaf, [roots[other]]) == ""
    assert certificates.invited_by(roots[mine], roots.values()) == certificates.invite_id(mine)
    assert certificates.invited_by(certificates.invite_leaf(mine, "vo2")[1], roots.values()) == ""
    assert certificates.invited_by(b"rubbish", roots.values()) == ""
    assert certificates.identity_of(leaf) == Identity("invite", certificates.invite_id(mine), "lab")


def test_the_invitation_tells_nothing_of_its_seed() -> None:
    seed = bytes(range(100, 116))
    root = certificates.invite_root(seed, "lab", until_wall_s=time.time() + 60)
    der = x509.load_pem_x509_certificate(root).public_bytes(serialization.Encoding.DER)
    assert seed not in der and seed.hex() not in certificates.invite_id(seed)


@pytest.mark.parametrize("seed", [b"", b"short", bytes(17)])
def test_a_seed_of_another_length_is_none(seed: bytes) -> None:
    with pytest.raises(UsageError, match="want 16"):
        certificates.derive_invite_key(seed)


def test_the_same_seed_gives_this_key_for_ever() -> None:
    """Tokens outlive releases: the derivation is part of the wire."""
    number = certificates.derive_invite_key(bytes(range(16))).private_numbers().private_value
    assert f"{number:064x}"[:16] == "2f2d9d5774d18d7f"
