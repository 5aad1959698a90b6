"""Trust taken back (PROMISES 5.2): by the operator's file and by the VO's ledger, and what a banned signer leaves."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from diana.adapters.trust import certificates
from diana.adapters.trust.keyring import FileKeyring
from diana.errors import Denied, UsageError
from diana.model.ids import GroupId
from tests.contract.trust_builders import DAY_S, chain, folder, make, root, signer, site

ROOT = root()
ALPHA = signer("alpha", ROOT)
BETA = signer("beta", ROOT)
DELTA = signer("delta", ALPHA, path_length=0)
BY_BETA = (site("gamma", BETA), BETA)
BY_ALPHA = (site("eps", ALPHA, days=3000), ALPHA)
BY_DELTA = (site("zeta", DELTA), DELTA, ALPHA)
MEMBER = (make("spiffe://lab/member/alpha/m2", BETA, dns=("m2.alpha.lab.diana",)), BETA)
OF_ALPHA = (site("alpha", BETA), BETA)
ANN = (make("spiffe://lab/user/ann", BETA), BETA)


class Clock:
    def __init__(self) -> None:
        self.now_s = time.time()

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return folder(tmp_path / "keys", ROOT, site("self", BETA, days=365), BETA)


@pytest.fixture
def ring(keys: Path, clock: Clock) -> FileKeyring:
    return FileKeyring(keys, wall_clock=clock)


def test_the_ledger_and_the_operators_file_add_up(ring: FileKeyring, keys: Path) -> None:
    (keys / "revoked").write_text("user:ann@lab\n")
    ring.reload_revoked()
    ring.set_revoked(frozenset({"site:gamma"}))
    assert ring.distrust(chain(*BY_BETA)) == "revoked by the VO"
    assert ring.distrust(chain(*ANN)) == f"revoked at this site ({keys / 'revoked'})"
    ring.set_revoked(frozenset())
    assert ring.distrust(chain(*BY_BETA)) == "" and ring.distrust(chain(*ANN)) != ""
    with pytest.raises(Denied, match="revoked at this site"):
        ring.identify(chain(*ANN))
    assert ring.identify(chain(*BY_BETA)).said == "site:gamma"


@pytest.mark.parametrize(
    ("entry", "refused"),
    [
        ("site:gamma", {"gamma"}),
        ("site:alpha", {"alpha", "m2", "zeta"}),
        ("member:alpha/m2", {"m2"}),
        ("user:ann@lab", {"ann"}),
        ("user:ann@other", set()),
        ("signer:alpha", {"eps", "zeta"}),
        ("signer:beta", {"gamma", "m2", "alpha", "ann"}),
        ("signer:delta", {"zeta"}),
        (f"serial:{BY_BETA[0].certificate.serial_number:X}", {"gamma"}),
        (f"serial:0{DELTA.certificate.serial_number:x}", {"zeta"}),
    ],
    ids=lambda value: value[:14] if isinstance(value, str) and not value.startswith("serial:") else "",
)
def test_each_entry_reaches_as_far_as_it_says(ring: FileKeyring, entry: str, refused: set[str]) -> None:
    chains = {
        "gamma": BY_BETA, "eps": BY_ALPHA, "zeta": BY_DELTA, "m2": MEMBER, "alpha": OF_ALPHA, "ann": ANN
    }  # fmt: skip
    ring.set_revoked(frozenset({entry}))
    assert {name for name, links in chains.items() if ring.distrust(chain(*links))} == refused


def test_whom_a_banned_signer_invited_has_a_week_to_be_signed_by_another(ring: FileKeyring, clock: Clock) -> None:
    """However long the certificate says it holds: who has the key can write any date into it."""
    ring.set_revoked(frozenset({"site:alpha"}), {"site:alpha": clock.now_s - 2 * DAY_S})
    assert ring.distrust(chain(*BY_ALPHA)) == ""
    clock.now_s += 4.9 * DAY_S
    assert ring.distrust(chain(*BY_ALPHA)) == ""
    clock.now_s += 0.2 * DAY_S
    said = "its signer alpha is revoked by the VO; have another signer issue a new one"
    assert ring.distrust(chain(*BY_ALPHA)) == said
    ring.set_revoked(frozenset({"site:alpha", "user:x@lab"}))
    assert ring.distrust(chain(*BY_ALPHA)) == said, "hearing of it again begins no new week"
    ring.set_revoked(frozenset())
    assert ring.distrust(chain(*BY_ALPHA)) == ""


def test_a_week_counts_from_the_operators_file_too(keys: Path, clock: Clock) -> None:
    (keys / "revoked").write_text("site:alpha\n")
    assert FileKeyring(keys, wall_clock=clock).distrust(chain(*BY_ALPHA)) == ""
    clock.now_s += 8 * DAY_S
    assert "its signer alpha is revoked" in FileKeyring(keys, wall_clock=clock).distrust(chain(*BY_ALPHA))


def test_entries_that_are_none_revoke_nobody(ring: FileKeyring) -> None:
    ring.set_revoked(frozenset({"", "gamma", "site:", "site:gamma/x", "user:gamma", "serial:xyz", "serial:", ":"}))
    assert ring.distrust(chain(*BY_BETA)) == ring.distrust(chain(*ANN)) == ""


def test_those_we_dialled_are_known_by_name_only(ring: FileKeyring) -> None:
    ring.set_revoked(frozenset({"site:gamma"}))
    assert ring.distrust_site("gamma") == "revoked by the VO"
    assert ring.distrust_site("eps") == ""


# --- statements ----------------------------------------------------------------------------------------------


@pytest.fixture
def signing(tmp_path: Path) -> FileKeyring:
    certificates.make_vo("lab", tmp_path / "a", site="alpha")
    certificates.issue_site(tmp_path / "a", "alpha", tmp_path / "a")
    return FileKeyring(tmp_path / "a")


@pytest.fixture
def plain(tmp_path: Path, signing: FileKeyring) -> FileKeyring:
    certificates.issue_site(tmp_path / "a", "beta", tmp_path / "b")
    return FileKeyring(tmp_path / "b")


def test_a_signers_statement_counts_everywhere_and_says_what_it_said(signing: FileKeyring, plain: FileKeyring) -> None:
    chain_pem, signature = signing.sign_statement(b"site:gamma")
    assert plain.check_statement(b"site:gamma", chain_pem, signature) == ""
    assert plain.check_statement(b"site:delta", chain_pem, signature) == "signer alpha: the signature does not fit"
    assert "does not fit" in plain.check_statement(b"site:gamma", chain_pem, b"")
    assert "not one of VO lab" in plain.check_statement(b"site:gamma", b"", signature)


def test_who_is_no_signer_can_state_nothing(plain: FileKeyring, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"site:beta is no signer of VO lab; do this at a site that is"):
        plain.sign_statement(b"site:gamma")
    leaf = (tmp_path / "b" / "site.pem").read_bytes()
    assert "no signer" in plain.check_statement(b"x", leaf, b"y")


@pytest.mark.parametrize("entry", ["site:alpha", "signer:alpha"])
def test_a_banned_signer_states_nothing_any_more(signing: FileKeyring, plain: FileKeyring, entry: str) -> None:
    chain_pem, signature = signing.sign_statement(b"site:gamma")
    plain.set_revoked(frozenset({entry}))
    assert plain.check_statement(b"site:gamma", chain_pem, signature) == "signer alpha: revoked by the VO"


def test_signatures_of_one_kind_are_none_of_the_other(signing: FileKeyring, plain: FileKeyring) -> None:
    """A signer's signature under the bytes of an authorisation is a statement, and no authorisation."""
    said = signing.authorise("ann@lab", GroupId("alpha-1"), b"spec")
    chain_pem, signature = signing.sign_statement(b"spec")
    assert plain.check(msgspec.structs.replace(said, certificate=chain_pem, signature=signature), b"spec") != ""
    assert plain.check_statement(b"spec", said.certificate, said.signature) != ""
