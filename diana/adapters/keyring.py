"""Signs and checks authorisations with the keys of a site or a user (PROMISES 5.6).

A check trusts nothing of the message: the hash must be the spec's, the time not over, the certificate of this VO's
root and in date, and the signer entitled to speak for the owner. Chains that passed are remembered, so that a check
costs one ECDSA verification.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from diana import errors
from diana.engine.messages import Authorisation
from diana.model.ids import GroupId
from diana.policy import statement as said

_ALGORITHM = ec.ECDSA(hashes.SHA256())
_MOST_CERTIFICATE_BYTES = 16_384
_MOST_CHAINS = 4_096


class _Known(NamedTuple):
    """A certificate that this VO's root signed."""

    key: ec.EllipticCurvePublicKey
    signer: str
    serial: str
    from_s: float
    until_s: float


class FileKeyring:
    """`folder` holds `vo.pem` and a leaf: `site.pem` and `site.key`, or `user.pem` and `user.key`.

    Errors at construction: `errors.UsageError`, one line naming the file and the mend. `wall_clock` gives seconds
    since 1970. Safe to share between threads.

    `revoked` in the folder, if there, lists who is trusted no more, one a line: `site:NAME`, `user:NAME@VO` or
    `serial:HEX` of one certificate; `#` starts a comment. Read at construction and by `reload_revoked`.
    """

    def __init__(
        self,
        folder: Path,
        kind: str = "site",
        *,
        wall_clock: Callable[[], float] = time.time,
        valid_s: float = said.DEFAULT_VALID_S,
    ) -> None:
        self._wall_clock = wall_clock
        self._valid_s = valid_s
        self._known: dict[bytes, _Known] = {}
        self._revoked_file = folder / "revoked"
        self._revoked: frozenset[str] = frozenset()
        self.reload_revoked()
        self._root = _certificate(folder / "vo.pem")
        self.vo = _common_name(self._root)
        self._chain = _read(folder / f"{kind}.pem")
        self._key = _private_key(folder / f"{kind}.key", _certificate(folder / f"{kind}.pem"))
        try:
            mine = self._verified(self._chain)
        except _Untrusted as error:
            raise errors.UsageError(f"{folder / f'{kind}.pem'}: {error}; have the VO issue a new one") from None
        self.signer = mine.signer
        why = _out_of_date(mine, wall_clock())
        if why:
            raise errors.UsageError(f"{folder / f'{kind}.pem'}: {why}; have the VO issue a new one")

    def authorise(self, owner: str, group: GroupId, spec: bytes) -> Authorisation:
        expires_wall_s = self._wall_clock() + self._valid_s
        digest = said.spec_hash(spec)
        return Authorisation(
            owner=owner,
            spec_sha256=digest,
            group=group,
            expires_wall_s=expires_wall_s,
            signer=self.signer,
            certificate=self._chain,
            signature=self._key.sign(said.statement(owner, digest, group, expires_wall_s, self.signer), _ALGORITHM),
        )

    def check(self, authorisation: Authorisation, spec: bytes) -> str:
        a = authorisation
        now_wall_s = self._wall_clock()
        if said.spec_hash(spec) != a.spec_sha256:
            return f"the spec of {a.group} is not the one that was signed; submit the group again"
        why = said.outdated(a.expires_wall_s, now_wall_s) or said.speaks_for(a.signer, a.owner, self.vo)
        if why:
            return why
        try:
            known = self._verified(a.certificate)
        except _Untrusted as error:
            return f"signer {a.signer}: {error}"
        if known.signer != a.signer:
            return f"signer {a.signer}: the certificate is that of {known.signer}"
        why = _out_of_date(known, now_wall_s) or self._why_revoked(known)
        if why:
            return f"signer {a.signer}: {why}"
        try:
            known.key.verify(
                a.signature, said.statement(a.owner, a.spec_sha256, a.group, a.expires_wall_s, a.signer), _ALGORITHM
            )
        except InvalidSignature:
            return f"signer {a.signer}: the signature does not fit the authorisation of {a.group}"
        return ""

    def distrust(self, certificate: bytes) -> str:
        """Empty if the PEM certificate of a connection's other side is one of this VO, in date and not revoked; else
        one line why not. TLS checks the first two once; this also serves channels that have been open for long."""
        try:
            known = self._verified(certificate)
        except _Untrusted as error:
            return str(error)
        return _out_of_date(known, self._wall_clock()) or self._why_revoked(known)

    def reload_revoked(self) -> None:
        """At start and at SIGHUP. UsageError for a line that is none; then what was read before stays."""
        try:
            text = self._revoked_file.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._revoked = frozenset()
            return
        except (OSError, UnicodeDecodeError) as error:
            raise errors.UsageError(f"{self._revoked_file}: {error}; make it readable text") from None
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        for number, line in enumerate(lines, 1):
            kind, _, name = line.partition(":")
            if line and (kind not in ("site", "user", "serial") or not name or (kind == "user") != ("@" in name)):
                raise errors.UsageError(
                    f"{self._revoked_file}: line {number}: {line!r}; write site:NAME, user:NAME@VO or serial:HEX"
                )
        self._revoked = frozenset(line.lower() if line.startswith("serial:") else line for line in lines if line)

    def _why_revoked(self, known: _Known) -> str:
        if known.signer in self._revoked or f"serial:{known.serial}" in self._revoked:
            return f"revoked at this site ({self._revoked_file})"
        return ""

    def _verified(self, chain: bytes) -> _Known:
        """Dates are not looked at: they are checked anew each time."""
        known = self._known.get(chain)
        if known is None:
            if len(chain) > _MOST_CERTIFICATE_BYTES:
                raise _Untrusted("the certificate is too large")
            known = _verify(chain, self._root, self.vo)
            if len(self._known) >= _MOST_CHAINS:
                self._known.clear()
            self._known[chain] = known
        return known


class _Untrusted(Exception):
    """One line why."""


def _verify(chain: bytes, root: x509.Certificate, vo: str) -> _Known:
    try:
        leaf = x509.load_pem_x509_certificate(chain)
        leaf.verify_directly_issued_by(root)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        limits = leaf.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound, x509.DuplicateExtension):
        raise _Untrusted(f"the certificate is not one of VO {vo}") from None
    key = leaf.public_key()
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if limits.ca or len(uris) != 1 or not isinstance(key, ec.EllipticCurvePublicKey):
        raise _Untrusted("the certificate names no site and no user")
    return _Known(
        key,
        _signer(uris[0], vo),
        f"{leaf.serial_number:x}",
        leaf.not_valid_before_utc.timestamp(),
        leaf.not_valid_after_utc.timestamp(),
    )


def _signer(uri: str, vo: str) -> str:
    scheme, _, rest = uri.partition("://")
    parts = rest.split("/")
    if scheme == "spiffe" and len(parts) == 3 and parts[0] == vo and parts[2]:
        if parts[1] == "site":
            return said.site_signer(parts[2])
        if parts[1] == "user":
            return said.user_signer(parts[2], vo)
    raise _Untrusted(f"the certificate names nobody of VO {vo}")


def _out_of_date(known: _Known, now_wall_s: float) -> str:
    if now_wall_s > known.until_s:
        return f"the certificate expired {(now_wall_s - known.until_s) / 86400.0:.1f} days ago"
    if now_wall_s < known.from_s:
        return f"the certificate only holds in {(known.from_s - now_wall_s) / 86400.0:.1f} days; check the clocks"
    return ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise errors.UsageError(f"{path}: {error.strerror}; restore the keys from a backup made with --keys") from None


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError:
        raise errors.UsageError(f"{path}: not a PEM certificate; restore it from a backup") from None


def _private_key(path: Path, leaf: x509.Certificate) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError):
        raise errors.UsageError(f"{path}: not a readable private key; restore it from a backup") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != leaf.public_key():
        raise errors.UsageError(f"{path}: not the key of the certificate beside it; restore both from a backup")
    return key


def _common_name(certificate: x509.Certificate) -> str:
    for attribute in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME):
        return str(attribute.value)
    return ""
