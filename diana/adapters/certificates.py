"""The VO's certificate authority: who is a site of the VO, who is one of its users.

ECDSA P-256 throughout, because gRPC's TLS takes it and Ed25519 not everywhere. Each certificate carries its identity
twice: as a URI (`spiffe://VO/site/SITE`, `spiffe://VO/user/NAME`), which the receiving side compares, and a site's
also as the DNS name `SITE.VO.diana`, the only thing a gRPC client can check.

`cryptography` takes 50 ms to import and is imported where it is used.
"""

from __future__ import annotations

import datetime
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from diana import errors
from diana.model.ids import site_id

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

ROOT_VALID_DAYS = 3650.0
LEAF_VALID_DAYS = 365.0

_CLOCK_SKEW_S = 300.0
"""Certificates hold from this long before they are made: clocks of sites differ."""

_VO = re.compile(r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?\Z")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}\Z")
_URI = re.compile(r"spiffe://(?P<vo>[^/]+)/(?P<kind>site|user)/(?P<name>[^/]+)\Z")


class Identity(NamedTuple):
    kind: str
    """`site` or `user`."""
    name: str
    vo: str


class VoFiles:
    """Names of the files in a directory of keys."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "vo.pem"
        self.root_key = folder / "vo.key"

    @staticmethod
    def leaf(folder: Path, kind: str) -> tuple[Path, Path]:
        """(certificate, key) of a `site` or `user`."""
        return folder / f"{kind}.pem", folder / f"{kind}.key"


def vo_name(text: str) -> str:
    """Check a VO's name; UsageError says what it looks like."""
    if not _VO.match(text):
        raise errors.UsageError(
            f"VO name {text!r}: want 1 to 40 lower-case letters, digits and inner hyphens, a letter first"
        )
    return text


def user_name(text: str) -> str:
    if not _USER.match(text):
        raise errors.UsageError(
            f"user name {text!r}: want 1 to 64 letters, digits, `.`, `_`, `-`, no leading `.` or `-`"
        )
    return text


def dns_name(site: str, vo: str) -> str:
    """What a client sets as the expected name (`grpc.ssl_target_name_override`)."""
    return f"{site}.{vo}.diana"


def uri_of(identity: Identity) -> str:
    return f"spiffe://{identity.vo}/{identity.kind}/{identity.name}"


def make_vo(name: str, folder: Path, *, valid_days: float = ROOT_VALID_DAYS, wall_s: float | None = None) -> None:
    """Make the VO's root: `vo.pem` and `vo.key` (0600) in `folder`. UsageError if there is one already."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    files = VoFiles(folder)
    vo_name(name)
    for path in (files.root, files.root_key):
        if path.exists():
            raise errors.UsageError(f"{path}: exists already; a VO is made once, name another directory")
    key = _new_key()
    subject = _distinguished("vo", name)
    builder = _dated(x509.CertificateBuilder(), valid_days, time.time() if wall_s is None else wall_s)
    certificate = (
        builder.subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"spiffe://{name}")]), False)
        .sign(key, hashes.SHA256())
    )
    _write(files.root_key, _key_bytes(key), 0o600)
    _write(files.root, _pem(certificate), 0o644)


def vo_of(folder: Path) -> str:
    """Name of the VO whose `vo.pem` lies in `folder`."""
    return _root_vo(_load(VoFiles(folder).root))


def issue_site(
    vo_dir: Path, site: str, out_dir: Path, *, valid_days: float = LEAF_VALID_DAYS, wall_s: float | None = None
) -> None:
    """Write `site.key` (0600), `site.pem` and `vo.pem` into `out_dir`, signed with `vo_dir`'s key."""
    try:
        site_id(site)
    except ValueError as error:
        raise errors.UsageError(str(error)) from None
    _issue(vo_dir, "site", site, out_dir, valid_days, wall_s)


def issue_user(
    vo_dir: Path, user: str, out_dir: Path, *, valid_days: float = LEAF_VALID_DAYS, wall_s: float | None = None
) -> None:
    """Write `user.key` (0600), `user.pem` and `vo.pem` into `out_dir`, signed with `vo_dir`'s key."""
    _issue(vo_dir, "user", user_name(user), out_dir, valid_days, wall_s)


def _issue(vo_dir: Path, kind: str, name: str, out_dir: Path, valid_days: float, wall_s: float | None) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

    root, root_key = _authority(vo_dir)
    vo = _root_vo(root)
    identity = Identity(kind, name, vo)
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri_of(identity))]
    purposes = [Usage.CLIENT_AUTH]
    if kind == "site":
        names.append(x509.DNSName(dns_name(name, vo)))
        purposes.append(Usage.SERVER_AUTH)
    key = _new_key()
    builder = _dated(x509.CertificateBuilder(), valid_days, time.time() if wall_s is None else wall_s)
    certificate = (
        builder.subject_name(_distinguished(kind, name))
        .issuer_name(root.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    out_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate_path, key_path = VoFiles.leaf(out_dir, kind)
    _write(key_path, _key_bytes(key), 0o600)
    _write(certificate_path, _pem(certificate), 0o644)
    if VoFiles(out_dir).root.resolve() != VoFiles(vo_dir).root.resolve():
        _write(VoFiles(out_dir).root, _pem(root), 0o644)


# --- reading -------------------------------------------------------------------------------------------------


def identity_of(cert_pem: bytes) -> Identity:
    """Whom a certificate names. `errors.Denied` for one that is none or names nobody of a VO. Trust is not
    checked here: TLS does that, and `adapters/keyring.py` for signatures."""
    return _identity(_parse(cert_pem))


def identity_of_uri(uri: str) -> Identity:
    """As `identity_of`, from the URI alone (the TLS server has it without parsing)."""
    found = _URI.match(uri)
    if found is None:
        raise errors.Denied(f"certificate: {uri!r} names no site and no user; issue one with `diana init`")
    return Identity(found["kind"], found["name"], found["vo"])


def _identity(certificate: x509.Certificate) -> Identity:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        raise errors.Denied("certificate: it names no site and no user; issue one with `diana init`") from None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1:
        raise errors.Denied(f"certificate: it carries {len(uris)} identities, want one; issue one with `diana init`")
    return identity_of_uri(uris[0])


def _root_vo(root: x509.Certificate) -> str:
    from cryptography.x509.oid import NameOID

    for attribute in root.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        return str(attribute.value)
    raise errors.UsageError("vo.pem: it names no VO; make one with `diana init`")


def _parse(pem: bytes) -> x509.Certificate:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise errors.Denied("certificate: not a PEM certificate") from None


def _load(path: Path) -> x509.Certificate:
    try:
        return _parse(path.read_bytes())
    except OSError as error:
        raise errors.UsageError(f"{path}: {error.strerror}; make the VO with `diana init` first") from None
    except errors.Denied as error:
        raise errors.UsageError(f"{path}: {error}; restore it from a backup") from None


def _authority(vo_dir: Path) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    files = VoFiles(vo_dir)
    root = _load(files.root)
    try:
        key = load_pem_private_key(files.root_key.read_bytes(), password=None)
    except OSError as error:
        raise errors.UsageError(
            f"{files.root_key}: {error.strerror}; only the site that made the VO can sign, name its directory"
        ) from None
    except (ValueError, TypeError):
        raise errors.UsageError(f"{files.root_key}: not a readable private key; restore it from a backup") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != root.public_key():
        raise errors.UsageError(f"{files.root_key}: not the key of {files.root}; restore it from a backup")
    return root, key


# --- making --------------------------------------------------------------------------------------------------


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _distinguished(kind: str, name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "diana"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, kind),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _moment(wall_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(wall_s, tz=datetime.UTC)


def _dated(builder: x509.CertificateBuilder, valid_days: float, wall_s: float) -> x509.CertificateBuilder:
    return builder.not_valid_before(_moment(wall_s - _CLOCK_SKEW_S)).not_valid_after(
        _moment(wall_s + valid_days * 86400.0)
    )


def _key_bytes(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization as s

    return key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Never for a moment readable by others: the file is born with its mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
