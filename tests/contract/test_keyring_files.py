"""What only real keys can suffer: certificates out of date, files missing or swapped."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from cryptography import x509

from diana.adapters import certificates
from diana.adapters.keyring import FileKeyring
from diana.errors import UsageError
from diana.model.ids import GroupId

_GROUP = GroupId("alpha-1")
_DAY_S = 86400.0


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    certificates.make_vo("lab", tmp_path / "vo")
    certificates.issue_site(tmp_path / "vo", "alpha", tmp_path / "alpha")
    return tmp_path / "alpha"


def test_a_signer_whose_certificate_ran_out_since_is_refused(keys: Path) -> None:
    now = [time.time()]
    ring = FileKeyring(keys, wall_clock=lambda: now[0], valid_s=1000 * _DAY_S)
    said = ring.authorise("ann@lab", _GROUP, b"spec")
    assert ring.check(said, b"spec") == ""
    now[0] += 366 * _DAY_S
    assert ring.check(said, b"spec") == "signer site:alpha: the certificate expired 1.0 days ago"
    now[0] -= 400 * _DAY_S
    assert "only holds in" in ring.check(said, b"spec")


def test_a_node_with_an_expired_certificate_does_not_start(keys: Path) -> None:
    with pytest.raises(UsageError, match=r"alpha/site.pem: the certificate expired 35.0 days ago; have the VO issue"):
        FileKeyring(keys, wall_clock=lambda: time.time() + 400 * _DAY_S)


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
    certificates.make_vo("lab", tmp_path / "vo")
    certificates.issue_site(tmp_path / "vo", "alpha", tmp_path / "alpha")
    certificates.issue_user(tmp_path / "vo", "ann", tmp_path / "ann")
    # Ann plays authority: her leaf as a root, her key as the root's key.
    shutil.copy(tmp_path / "ann" / "user.pem", tmp_path / "ann" / "vo.pem")
    shutil.copy(tmp_path / "ann" / "user.key", tmp_path / "ann" / "vo.key")
    certificates.issue_site(tmp_path / "ann", "evil", tmp_path / "evil")
    shutil.copy(tmp_path / "vo" / "vo.pem", tmp_path / "evil" / "vo.pem")
    with pytest.raises(UsageError, match="the certificate is not one of VO lab"):
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


@pytest.mark.parametrize("line", ["alpha", "site:", "user:ann", "site:a@lab", "serials:1"])
def test_a_bad_line_in_the_list_of_the_revoked_is_told_and_changes_nothing(keys: Path, line: str) -> None:
    (keys / "revoked").write_text("site:alpha\n")
    ring = FileKeyring(keys)
    (keys / "revoked").write_text(f"\n{line}\n")
    with pytest.raises(UsageError, match=rf"revoked: line 2: '{line}'; write site:NAME, user:NAME@VO or serial:HEX"):
        ring.reload_revoked()
    assert "revoked" in ring.check(ring.authorise("ann@lab", _GROUP, b"spec"), b"spec")


def test_an_open_channel_is_distrusted_once_its_certificate_runs_out(keys: Path) -> None:
    now = [time.time()]
    ring = FileKeyring(keys, wall_clock=lambda: now[0])
    pem = (keys / "site.pem").read_bytes()
    assert ring.distrust(pem) == ""
    now[0] += 366 * _DAY_S
    assert ring.distrust(pem) == "the certificate expired 1.0 days ago"
    assert ring.distrust(b"rubbish") == "the certificate is not one of VO lab"


def test_a_check_of_a_known_signer_costs_one_signature(keys: Path) -> None:
    ring = FileKeyring(keys)
    said = ring.authorise("ann@lab", _GROUP, b"spec" * 500)
    ring.check(said, b"spec" * 500)
    assert list(ring._known) == [said.certificate]
    for _ in range(20):
        assert ring.check(said, b"spec" * 500) == ""
    assert len(ring._known) == 1
