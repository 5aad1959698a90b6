"""The VO's trust on disk: its root, its signers, and the keys of sites, members and users, made here and read here.

A root signs signers, a signer signs leaves (`adapters/trust/` has the parts). Each certificate carries its identity as
a URI, which the receiving side compares, and those who serve carry a DNS name, the only thing a gRPC client can check
(`model/trust/identity.py`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from diana import errors
from diana.adapters.trust import making
from diana.adapters.trust.authority import (
    AUTHORITY_VALID_DAYS,
    LEAF_VALID_DAYS,
    ROOT_PATH_LENGTH,
    USER_VALID_DAYS,
    Authority,
    name_in,
    new_key_and_request,
    request_key,
    root_vo,
    sign_request,
)
from diana.adapters.trust.invites import derive_invite_key, invite_id, invite_leaf, invite_root, invited_by
from diana.model.ids import site_id
from diana.model.trust.identity import MACHINE, NOBODY, USER, VO, Identity, dns_names, parse_uri, uri_of

__all__ = [
    "AUTHORITY_VALID_DAYS",
    "LEAF_VALID_DAYS",
    "USER_VALID_DAYS",
    "Authority",
    "Dates",
    "Identity",
    "VoFiles",
    "dates_of_chain",
    "derive_invite_key",
    "dns_name",
    "fingerprint",
    "identity_of",
    "identity_of_uri",
    "install",
    "install_signer",
    "invite_id",
    "invite_leaf",
    "invite_root",
    "invited_by",
    "issue_member",
    "issue_site",
    "issue_user",
    "machine_name",
    "make_signer",
    "make_vo",
    "new_key_and_request",
    "request_key",
    "sign_request",
    "uri_of",
    "user_name",
    "verify_chain",
    "vo_name",
    "vo_of",
]


class VoFiles:
    """Names of the files in a directory of keys."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "vo.pem"
        self.root_key = folder / "vo.key"
        self.signer = folder / "signer.pem"
        self.signer_key = folder / "signer.key"

    @staticmethod
    def leaf(folder: Path, kind: str) -> tuple[Path, Path]:
        """(certificate, key) of a `site`, `member` or `user`."""
        return folder / f"{kind}.pem", folder / f"{kind}.key"


class Dates(NamedTuple):
    """Seconds since 1970."""

    from_s: float
    until_s: float

    def half_s(self) -> float:
        """Return the time at which to renew."""
        return (self.from_s + making.CLOCK_SKEW_S + self.until_s) / 2.0


# --- names ---------------------------------------------------------------------------------------------------


def vo_name(text: str) -> str:
    """Check a VO's name; UsageError says what it looks like."""
    if not VO.match(text):
        raise errors.UsageError(
            f"VO name {text!r}: want 1 to 40 lower-case letters, digits and inner hyphens, a letter first"
        )
    return text


def user_name(text: str) -> str:
    if not USER.match(text):
        raise errors.UsageError(
            f"user name {text!r}: want 1 to 64 letters, digits, `.`, `_`, `-`, no leading `.` or `-`"
        )
    return text


def machine_name(text: str) -> str:
    if not MACHINE.match(text):
        raise errors.UsageError(f"machine name {text!r}: want 1 to 32 lower-case letters, digits and inner hyphens")
    return text


def dns_name(site: str, vo: str) -> str:
    """Return the name that a client sets as the expected one (`grpc.ssl_target_name_override`)."""
    return dns_names(Identity("site", site, vo))[0]


# --- making --------------------------------------------------------------------------------------------------


def make_vo(
    name: str,
    folder: Path,
    *,
    site: str = "",
    valid_days: float = AUTHORITY_VALID_DAYS,
    wall_s: float | None = None,
) -> None:
    """Make the VO's root: `vo.pem` and `vo.key` (0600) in `folder`; with `site` also that site's signer, which then
    signs instead of the root. UsageError if there is a VO already."""
    files = VoFiles(folder)
    vo_name(name)
    for path in (files.root, files.root_key):
        if path.exists():
            raise errors.UsageError(f"{path}: exists already; a VO is made once, name another directory")
    key = making.new_key()
    subject = making.distinguished("vo", name)
    root = making.authority_certificate(
        subject,
        f"spiffe://{name}",
        key.public_key(),
        (subject, key),
        path_length=ROOT_PATH_LENGTH,
        dates=making.dates_of(valid_days, wall_s),
    )
    making.write_new(files.root_key, making.key_bytes(key), 0o600)
    making.write_new(files.root, making.pem_of(root), 0o644)
    if site:
        make_signer(folder, site, folder, wall_s=wall_s)


def make_signer(vo_dir: Path, site: str, out_dir: Path, *, wall_s: float | None = None) -> None:
    """Write `signer.key` (0600), `signer.pem` and `vo.pem` into `out_dir`, signed with the root's key if `vo_dir` holds
    it, else with its signer's."""
    authority = Authority.for_signers(vo_dir)
    key = making.new_key()
    chain = authority.sign(key.public_key(), Identity("signer", _site(site), authority.vo), wall_s=wall_s)
    install_signer(out_dir, chain, making.key_bytes(key), authority.root_pem)


def issue_site(
    vo_dir: Path, site: str, out_dir: Path, *, valid_days: float = LEAF_VALID_DAYS, wall_s: float | None = None
) -> None:
    """Write `site.key` (0600), `site.pem` and `vo.pem` into `out_dir`, signed by the authority in `vo_dir`."""
    _issue(vo_dir, "site", _site(site), out_dir, valid_days, wall_s)


def issue_member(
    vo_dir: Path,
    site: str,
    machine: str,
    out_dir: Path,
    *,
    valid_days: float = LEAF_VALID_DAYS,
    wall_s: float | None = None,
) -> None:
    """Write `member.key` (0600), `member.pem` and `vo.pem` into `out_dir`."""
    _issue(vo_dir, "member", f"{_site(site)}/{machine_name(machine)}", out_dir, valid_days, wall_s)


def issue_user(
    vo_dir: Path, user: str, out_dir: Path, *, valid_days: float = USER_VALID_DAYS, wall_s: float | None = None
) -> None:
    """Write `user.key` (0600), `user.pem` and `vo.pem` into `out_dir`."""
    _issue(vo_dir, "user", user_name(user), out_dir, valid_days, wall_s)


def _issue(vo_dir: Path, kind: str, name: str, out_dir: Path, valid_days: float, wall_s: float | None) -> None:
    authority = Authority.load(vo_dir)
    key = making.new_key()
    identity = parse_uri(f"spiffe://{authority.vo}/{kind}/{name}")
    chain = authority.sign(key.public_key(), identity, valid_days=valid_days, wall_s=wall_s)
    install(out_dir, kind, chain, making.key_bytes(key), authority.root_pem)


def install(folder: Path, kind: str, chain_pem: bytes, key_pem: bytes | None = None, root_pem: bytes = b"") -> None:
    """Put a leaf's chain into a folder of keys, made (0700) if need be, with the new key and the root if they are
    given; a root that is there stays. Each file is replaced whole: a reader that comes between two of them sees that
    they do not belong together and keeps what it had."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate_path, key_path = VoFiles.leaf(folder, kind)
    if key_pem is not None:
        making.write_new(key_path, key_pem, 0o600)
    making.write_new(certificate_path, chain_pem, 0o644)
    _install_root(folder, root_pem)


def install_signer(folder: Path, chain_pem: bytes, key_pem: bytes, root_pem: bytes = b"") -> None:
    """As `install`, for the key this site signs others with."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = VoFiles(folder)
    # The certificate first: a signer is who has the key.
    making.write_new(files.signer, chain_pem, 0o644)
    making.write_new(files.signer_key, key_pem, 0o600)
    _install_root(folder, root_pem)


def _install_root(folder: Path, root_pem: bytes) -> None:
    path = VoFiles(folder).root
    if root_pem and not os.path.lexists(path):
        making.write_new(path, root_pem, 0o644)


def _site(site: str) -> str:
    try:
        return site_id(site)
    except ValueError as error:
        raise errors.UsageError(str(error)) from None


# --- reading -------------------------------------------------------------------------------------------------


def vo_of(folder: Path) -> str:
    """Name of the VO whose `vo.pem` lies in `folder`."""
    from diana.adapters.trust.reading import certificates_in

    return root_vo(certificates_in(VoFiles(folder).root, most=1)[0])


def identity_of(cert_pem: bytes) -> Identity:
    """Return the identity that a certificate names. `errors.Denied` for text that is no certificate or names nobody
    of a VO. Trust is not checked here: `verify_chain` does that."""
    from cryptography import x509

    from diana.wire.unreadable import UNREADABLE

    try:
        found = name_in(x509.load_pem_x509_certificate(cert_pem))
    except UNREADABLE:
        raise errors.Denied("certificate: not a PEM certificate") from None
    if found == NOBODY:
        raise errors.Denied("certificate: it names no site and no user of a VO; join the VO with an invitation")
    return found


def identity_of_uri(uri: str) -> Identity:
    """As `identity_of`, from the URI alone (the TLS server has it without parsing)."""
    found = parse_uri(uri)
    if found == NOBODY:
        raise errors.Denied(f"certificate: {uri!r} names no site and no user of a VO; join the VO with an invitation")
    return found


def verify_chain(chain_pem: bytes, root_pem: bytes, *, signer: bool = False, at_s: float | None = None) -> Identity:
    """Return the identity that a chain names, judged by a root, and with `at_s` (seconds since 1970) in date then.
    `errors.Denied` gives the reason why not. `signer`: the first certificate is a signer's own."""
    from diana.adapters.trust.chains import Untrusted, verify
    from diana.adapters.trust.reading import parse

    try:
        (root,) = parse(root_pem, "vo.pem", 1)
        chain = verify(chain_pem, root, root_vo(root), signer=signer)
    except Untrusted as error:
        raise errors.Denied(str(error)) from None
    if at_s is not None and (why := chain.out_of_date(at_s)):
        raise errors.Denied(why)
    return chain.identity


def dates_of_chain(chain_pem: bytes) -> Dates:
    """Return the dates between which the first certificate of a PEM chain holds. UsageError if there is none."""
    from diana.adapters.trust.reading import parse

    first = parse(chain_pem, "certificate")[0]
    return Dates(first.not_valid_before_utc.timestamp(), first.not_valid_after_utc.timestamp())


def fingerprint(cert_pem: bytes) -> bytes:
    """SHA-256 of the first certificate in a PEM text (its DER); tokens carry that of the root."""
    from cryptography.hazmat.primitives import hashes

    from diana.adapters.trust.reading import parse

    return parse(cert_pem, "certificate")[0].fingerprint(hashes.SHA256())
