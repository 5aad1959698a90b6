"""Signs and checks authorisations with the keys of a site or a user (PROMISES 5.6), statements with a signer's, and
judges whom a connection shows.

A check trusts nothing of the message: the hash must be the spec's, the time not over, the certificate below this VO's
root and in date, and the signer entitled to speak for the owner. Chains that passed are remembered, so that a check
costs one ECDSA verification.

Certificates of sites hold for a week and an authorisation for a month, so its certificate must have been in date when
it was signed, a moment that is signed too, rather than now. Whoever kept the key of a certificate that ran out can
still claim an earlier moment, within that month; that is what revoking is for. Having the origin sign each offer anew
was rejected: it cannot sign for a user, whose own signature is worth more than a site's word about her.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from diana import errors
from diana.adapters.trust.authority import root_vo
from diana.adapters.trust.chains import CertificateChain, Untrusted, verify
from diana.adapters.trust.reading import certificates_in, key_of
from diana.adapters.trust.revocations import Revocations
from diana.engine.messages.messages import Authorisation
from diana.model.ids import GroupId
from diana.model.trust.identity import Identity
from diana.model.trust.ledger import dated_ahead
from diana.policy.trust import statement as said

_ALGORITHM = ec.ECDSA(hashes.SHA256())
_MOST_CHAINS = 4_096
_STATEMENT = b"diana-statement-1\0"
"""Prefix of signed statements; keeps a signature of a statement from meaning anything elsewhere."""


class FileKeyring:
    """`folder` holds `vo.pem` and a leaf: `site.pem` and `site.key` (or `user.`, `member.`), and where this site is a
    signer `signer.pem` and `signer.key`.

    Errors at construction: `errors.UsageError`, one line naming the file and the mend. `wall_clock` gives seconds
    since 1970. Safe to share between threads.

    `revoked` in the folder, if there, lists who is trusted no more, one a line (`trust/revocations.py`), beside what
    `set_revoked` is told. Read at construction and by `reload_revoked`.
    """

    def __init__(
        self,
        folder: Path,
        kind: str = "site",
        *,
        wall_clock: Callable[[], float] = time.time,
        valid_s: float = said.DEFAULT_VALID_S,
    ) -> None:
        if not 0.0 < valid_s <= said.MOST_VALID_S:
            raise ValueError(f"valid_s = {valid_s}: want more than 0 and at most {said.MOST_VALID_S:.0f}")
        self._folder = folder
        self._kind = kind
        self._wall_clock = wall_clock
        self._valid_s = valid_s
        self._known: dict[tuple[bool, bytes], CertificateChain] = {}
        self._lock = threading.Lock()
        self._revocations = Revocations(folder / "revoked")
        self.reload_revoked()
        (self._root,) = certificates_in(folder / "vo.pem", most=1)
        self.vo = root_vo(self._root)
        self.reload_keys()

    def reload_keys(self) -> None:
        """Take up a renewed certificate, and a signer's that was given since. UsageError for files that cannot be used;
        then what was read before stays. The root never changes while a node runs."""
        leaf_file = self._folder / f"{self._kind}.pem"
        chain, key, verified = self._own(leaf_file, signer=False)
        if why := verified.out_of_date(self._wall_clock()):
            raise errors.UsageError(f"{leaf_file}: {why}; have the VO issue a new one")
        signer: tuple[bytes, ec.EllipticCurvePrivateKey] | None = None
        if (self._folder / "signer.key").exists():
            signer = self._own(self._folder / "signer.pem", signer=True)[:2]
        self._chain, self._key, self._mine = chain, key, verified
        self.signer = verified.identity.said
        self._signer = signer

    def _own(self, file: Path, *, signer: bool) -> tuple[bytes, ec.EllipticCurvePrivateKey, CertificateChain]:
        certificates = certificates_in(file)
        key = key_of(file.with_suffix(".key"), certificates[0])
        chain = b"".join(one.public_bytes(Encoding.PEM) for one in certificates)
        try:
            return chain, key, self._verified(chain, signer=signer)
        except Untrusted as error:
            raise errors.UsageError(f"{file}: {error}; have the VO issue a new one") from None

    # --- authorisations -------------------------------------------------------------------------

    def authorise(self, owner: str, group: GroupId, spec: bytes) -> Authorisation:
        signed_wall_s = self._wall_clock()
        expires_wall_s = signed_wall_s + self._valid_s
        digest = said.spec_hash(spec)
        body = said.statement(owner, digest, group, expires_wall_s, self.signer, signed_wall_s)
        return Authorisation(
            owner=owner,
            spec_sha256=digest,
            group=group,
            expires_wall_s=expires_wall_s,
            signed_wall_s=signed_wall_s,
            signer=self.signer,
            certificate=self._chain,
            signature=self._key.sign(body, _ALGORITHM),
        )

    def check(self, authorisation: Authorisation, spec: bytes) -> str:
        a = authorisation
        now_wall_s = self._wall_clock()
        if said.spec_hash(spec) != a.spec_sha256:
            return f"the spec of {a.group} is not the one that was signed; submit the group again"
        why = (
            said.outdated(a.expires_wall_s, now_wall_s)
            or said.misdated(a.signed_wall_s, a.expires_wall_s, now_wall_s)
            or said.speaks_for(a.signer, a.owner, self.vo)
            or said.misdirected(a.audience, a.group, a.signed_wall_s)
        )
        if why:
            return why
        try:
            chain = self._verified(a.certificate)
        except Untrusted as error:
            return f"signer {a.signer}: {error}"
        if chain.identity.said != a.signer:
            return f"signer {a.signer}: the certificate is that of {chain.identity.said}"
        why = chain.out_of_date(a.signed_wall_s or now_wall_s) or self._revocations.why_not(chain, now_wall_s)
        if why:
            return f"signer {a.signer}: {why}"
        body = said.statement(
            a.owner,
            a.spec_sha256,
            a.group,
            a.expires_wall_s,
            a.signer,
            a.signed_wall_s,
            a.audience,
            a.submission,
        )
        if not _signed(chain, a.signature, body):
            return f"signer {a.signer}: the signature does not fit the authorisation of {a.group}"
        return ""

    # --- statements of the VO's signers ---------------------------------------------------------

    def sign_statement(self, payload: bytes) -> tuple[bytes, bytes]:
        if self._signer is None:
            raise errors.UsageError(
                f"{self.signer} is no signer of VO {self.vo}; do this at a site that is (keys/signer.key)"
            )
        chain, key = self._signer
        return chain, key.sign(_STATEMENT + payload, _ALGORITHM)

    def check_statement(
        self, payload: bytes, chain_pem: bytes, signature: bytes, signer: str = "", said_s: float = 0.0
    ) -> str:
        now_wall_s = self._wall_clock()
        try:
            chain = self._verified(chain_pem, signer=True)
        except Untrusted as error:
            return str(error)
        who = f"signer {chain.identity.name}"
        if signer not in ("", chain.identity.name):
            return f"{who}: it says that it is signer {signer}"
        if ahead := dated_ahead(said_s, now_wall_s):
            return f"{who}: {ahead}"
        why = chain.out_of_date(now_wall_s) or self._revocations.why_not(chain, now_wall_s)
        if why:
            return f"{who}: {why}"
        return "" if _signed(chain, signature, _STATEMENT + payload) else f"{who}: the signature does not fit"

    # --- connections ----------------------------------------------------------------------------

    def distrust(self, certificate: bytes) -> str:
        """Empty if the PEM chain of a connection's other side is one of this VO, in date and not revoked; else one line
        why not. TLS asks once and less; this also serves connections that have been open for long."""
        try:
            chain = self._verified(certificate)
        except Untrusted as error:
            return str(error)
        now_wall_s = self._wall_clock()
        return chain.out_of_date(now_wall_s) or self._revocations.why_not(chain, now_wall_s)

    def identify(self, certificate: bytes) -> Identity:
        """Return the identity that a PEM chain names; `errors.Denied` with the reason where `distrust` has one."""
        if why := self.distrust(certificate):
            raise errors.Denied(why)
        return self._verified(certificate).identity

    def distrust_site(self, site: str) -> str:
        """Empty unless this site is revoked by name: for those we dialled, whose certificate gRPC hides from us."""
        return self._revocations.names(f"site:{site}")

    def distrust_user(self, name: str) -> str:
        """Empty unless this user (`name@vo`) is revoked by name: for those who show no certificate."""
        return self._revocations.names(f"user:{name}")

    # --- revocations ----------------------------------------------------------------------------

    def reload_revoked(self) -> None:
        """Read the folder's `revoked` again, at start and at SIGHUP. UsageError for a line that is no entry; then
        what was read before stays."""
        with self._lock:
            self._revocations.reload(self._wall_clock())

    def set_revoked(
        self,
        revoked: frozenset[str],
        since: Mapping[str, float] | None = None,
        reasons: Mapping[str, str] | None = None,
    ) -> None:
        """Take all that the VO's ledger names now (`trust/revocations.py`): since when (seconds since 1970), and
        why."""
        with self._lock:
            self._revocations.set_ledger(revoked, since or {}, self._wall_clock(), reasons or {})

    def _verified(self, chain: bytes, *, signer: bool = False) -> CertificateChain:
        """Verify a chain, or return what an earlier check of it found. Dates and revocations are not looked at: they
        are checked anew each time."""
        known = self._known.get((signer, chain))
        if known is None:
            known = verify(chain, self._root, self.vo, signer=signer)
            if len(self._known) >= _MOST_CHAINS:
                self._known.clear()
            self._known[signer, chain] = known
        return known


def _signed(chain: CertificateChain, signature: bytes, body: bytes) -> bool:
    try:
        chain.key.verify(signature, body, _ALGORITHM)
    except InvalidSignature:
        return False
    return True
