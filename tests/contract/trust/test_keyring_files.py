"""Faults that only real keys can suffer: certificates out of date, files missing or swapped."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from diana.adapters.trust import certificates
from diana.adapters.trust.keyring import FileKeyring
from diana.errors import UsageError
from diana.model.ids import GroupId
from diana.policy.trust.statement import spec_hash, statement

_GROUP = GroupId("alpha-1")
_DAY_S = 86400.0


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    certificates.make_vo("lab", tmp_path / "vo")
    certificates.issue_site(tmp_path / "vo", "alpha", tmp_path / "alpha")
    return tmp_path / "alpha"


def test_an_authorisation_outlives_the_certificate_it_was_signed_with(keys: Path) -> None:
    """Certificates hold for a week, an authorisation for a month."""
    now = [time.time()]
    ring = FileKeyring(keys, wall_clock=lambda: now[0])
    said = ring.authorise("ann@lab", _GROUP, b"spec")
    now[0] += 29 * _DAY_S
    assert ring.check(said, b"spec") == ""
    now[0] += 1.1 * _DAY_S
    assert "the authorisation expired" in ring.check(said, b"spec")


def test_a_signer_whose_certificate_had_run_out_when_it_signed_is_refused(keys: Path) -> None:
    now = [time.time()]
    ring = FileKeyring(keys, wall_clock=lambda: now[0])
    now[0] += 8 * _DAY_S
    assert ring.check(ring.authorise("ann@lab", _GROUP, b"spec"), b"spec") == (
        "signer site:alpha: the certificate expired 1.0 days ago"
    )
    now[0] -= 9 * _DAY_S
    assert "check this machine's clock" in ring.check(ring.authorise("ann@lab", _GROUP, b"spec"), b"spec")


def test_an_authorisation_that_says_no_date_needs_a_certificate_in_date(keys: Path) -> None:
    """The first form, as older journals hold it."""
    now = [time.time()]
    ring = FileKeyring(keys, wall_clock=lambda: now[0])
    body = statement("ann@lab", spec_hash(b"spec"), _GROUP, now[0] + 20 * _DAY_S, "site:alpha")
    said = msgspec.structs.replace(
        ring.authorise("ann@lab", _GROUP, b"spec"),
        expires_wall_s=now[0] + 20 * _DAY_S,
        signed_wall_s=0.0,
        signature=ring._key.sign(body, ec.ECDSA(hashes.SHA256())),
    )
    assert ring.check(said, b"spec") == ""
    now[0] += 8 * _DAY_S
    assert ring.check(said, b"spec") == "signer site:alpha: the certificate expired 1.0 days ago"


def test_nobody_dates_an_authorisation_ahead_or_beyond_a_month(keys: Path) -> None:
    now = [time.time()]
    ring = FileKeyring(keys, wall_clock=lambda: now[0])
    said = ring.authorise("ann@lab", _GROUP, b"spec")
    now[0] -= 3600.0
    assert ring.check(said, b"spec") == "the authorisation is dated 3600 s ahead; check this machine's clock"
    now[0] += 3600.0
    ring._valid_s = 31 * _DAY_S
    assert "longer than 30 days" in ring.check(ring.authorise("ann@lab", _GROUP, b"spec"), b"spec")
    for odd in (float("nan"), float("inf")):
        assert ring.check(msgspec.structs.replace(said, signed_wall_s=odd), b"spec") != ""
        assert ring.check(msgspec.structs.replace(said, expires_wall_s=odd), b"spec") != ""


def test_a_node_with_an_expired_certificate_does_not_start(keys: Path) -> None:
    with pytest.raises(UsageError, match=r"alpha/site.pem: the certificate expired 33.0 days ago; have the VO issue"):
        FileKeyring(keys, wall_clock=lambda: time.time() + 40 * _DAY_S)


def test_a_renewed_certificate_is_taken_up_while_the_node_runs(keys: Path, tmp_path: Path) -> None:
    ring = FileKeyring(keys)
    before = ring.authorise("ann@lab", _GROUP, b"spec").certificate
    certificates.issue_site(tmp_path / "vo", "alpha", keys)
    assert ring.authorise("ann@lab", _GROUP, b"spec").certificate == before
    ring.reload_keys()
    said = ring.authorise("ann@lab", _GROUP, b"spec")
    assert said.certificate == (keys / "site.pem").read_bytes() != before
    assert ring.check(said, b"spec") == ""


def test_a_renewal_that_went_wrong_leaves_what_there_was(keys: Path, tmp_path: Path) -> None:
    ring = FileKeyring(keys)
    certificates.issue_site(tmp_path / "vo", "alpha", tmp_path / "next")
    shutil.copy(tmp_path / "next" / "site.pem", keys / "site.pem")
    with pytest.raises(UsageError, match=r"site.key: not the key of the certificate"):
        ring.reload_keys()
    assert ring.check(ring.authorise("ann@lab", _GROUP, b"spec"), b"spec") == ""


def test_a_site_made_signer_while_it_runs_can_state_things(keys: Path, tmp_path: Path) -> None:
    ring = FileKeyring(keys)
    certificates.make_signer(tmp_path / "vo", "alpha", keys)
    ring.reload_keys()
    assert ring.check_statement(b"x", *ring.sign_statement(b"x")) == ""


@pytest.mark.parametrize("name", ["site.key", "site.pem", "vo.pem"])
def test_a_missing_file_is_named(keys: Path, name: str) -> None:
    (keys / name).unlink()
    with pytest.raises(UsageError, match=f"alpha/{name}: No such file or directory; restore the keys from a backup"):
        FileKeyring(keys)


@pytest.mark.parametrize("name", ["site.key", "site.pem", "vo.pem"])
def test_a_file_of_rubbish_is_named(keys: Path, name: str) -> None:
    (keys / name).write_bytes(b"rubbish")
    with pytest.raises(UsageError, match=f"alpha/{name}: not a .*; restore it from a backup"):
        FileKeyring(keys)


def test_a_key_that_is_not_the_certificates_is_refused(keys: Path, tmp_path: Path) -> None:
    certificates.issue_site(tmp_path / "vo", "beta", tmp_path / "beta")
    shutil.copy(tmp_path / "beta" / "site.key", keys / "site.key")
    with pytest.raises(UsageError, match=r"site.key: not the key of the certificate beside it"):
        FileKeyring(keys)


def test_a_leaf_of_another_root_is_refused(keys: Path, tmp_path: Path) -> None:
    certificates.make_vo("lab", tmp_path / "other")
    shutil.copy(tmp_path / "other" / "vo.pem", keys / "vo.pem")
    with pytest.raises(
        UsageError, match=r"site.pem: the certificate is not one of VO lab; have the VO issue a new one"
    ):
        FileKeyring(keys)


def test_a_user_cannot_issue_certificates_of_her_own(tmp_path: Path) -> None:
    """Nor can a site that is no signer: of either's leaf as a signer's or a root's nothing comes."""
    certificates.make_vo("lab", tmp_path / "vo")
    certificates.issue_user(tmp_path / "vo", "ann", tmp_path / "ann")
    shutil.copy(tmp_path / "vo" / "vo.pem", tmp_path / "ann" / "vo.pem")
    shutil.copy(tmp_path / "ann" / "user.pem", tmp_path / "ann" / "signer.pem")
    shutil.copy(tmp_path / "ann" / "user.key", tmp_path / "ann" / "signer.key")
    certificates.issue_site(tmp_path / "ann", "evil", tmp_path / "evil")
    with pytest.raises(UsageError, match="was signed by user ann, which is no signer of VO lab"):
        FileKeyring(tmp_path / "evil")
    shutil.copy(tmp_path / "ann" / "user.pem", tmp_path / "evil" / "vo.pem")
    with pytest.raises(UsageError, match="names no VO"):
        FileKeyring(tmp_path / "evil")


def test_whoever_is_revoked_is_refused_from_the_reload_on(keys: Path) -> None:
    ring = FileKeyring(keys)
    said = ring.authorise("ann@lab", _GROUP, b"spec")
    serial = f"{x509.load_pem_x509_certificate(said.certificate).serial_number:X}"
    for line in ("site:alpha", f"serial:{serial}  # lost laptop"):
        (keys / "revoked").write_text(f"# by us\n\nuser:bob@lab\n{line}\n")
        assert ring.check(said, b"spec") == ring.distrust(said.certificate) == ""
        ring.reload_revoked()
        assert ring.check(said, b"spec") == f"signer site:alpha: revoked at this site ({keys / 'revoked'})"
        assert ring.distrust(said.certificate) == f"revoked at this site ({keys / 'revoked'})"
        (keys / "revoked").unlink()
        ring.reload_revoked()
        assert ring.check(said, b"spec") == ring.distrust(said.certificate) == ""


@pytest.mark.parametrize(
    "line", ["alpha", "site:", "user:ann", "site:a@lab", "serials:1", "member:a", "serial:0", "site:A"]
)
def test_a_bad_line_in_the_list_of_the_revoked_is_told_and_changes_nothing(keys: Path, line: str) -> None:
    (keys / "revoked").write_text("site:alpha\n")
    ring = FileKeyring(keys)
    (keys / "revoked").write_text(f"\n{line}\n")
    with pytest.raises(
        UsageError, match=rf"revoked: line 2: '{line}' names nobody; write site:NAME, signer:NAME, member:"
    ):
        ring.reload_revoked()
    assert "revoked" in ring.check(ring.authorise("ann@lab", _GROUP, b"spec"), b"spec")


def test_an_open_channel_is_distrusted_once_its_certificate_runs_out(keys: Path) -> None:
    now = [time.time()]
    ring = FileKeyring(keys, wall_clock=lambda: now[0])
    pem = (keys / "site.pem").read_bytes()
    assert ring.distrust(pem) == ""
    now[0] += 8 * _DAY_S
    assert ring.distrust(pem) == "the certificate expired 1.0 days ago"
    assert ring.distrust(b"rubbish") == "the certificate is not one of VO lab"


def test_a_check_of_a_known_signer_costs_one_signature(keys: Path) -> None:
    ring = FileKeyring(keys)
    said = ring.authorise("ann@lab", _GROUP, b"spec" * 500)
    ring.check(said, b"spec" * 500)
    assert list(ring._known) == [(False, said.certificate)]
    for _ in range(20):
        assert ring.check(said, b"spec" * 500) == ""
    assert len(ring._known) == 1
