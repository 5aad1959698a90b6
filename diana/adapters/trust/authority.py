"""The keys that can sign for the VO: the root's at the site that made it, and the signers', each in a folder of keys.

A certificate says what the caller decided, never what a request asks for: only the public key of a request is taken,
after its own signature proved that whoever asks holds the key.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from diana import errors
from diana.adapters.trust import making
from diana.model.trust.identity import NOBODY, Identity, parse_uri, uri_of, vo_of_uri

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

AUTHORITY_VALID_DAYS = 3650.0
LEAF_VALID_DAYS = 7.0
"""Days that certificates of sites and members hold; they renew by themselves at half of it."""
USER_VALID_DAYS = 90.0

ROOT_PATH_LENGTH = 2
MOST_REQUEST_BYTES = 8_192
_ISSUED = ("site", "member", "user", "signer")


def default_days(kind: str) -> float:
    if kind == "signer":
        return AUTHORITY_VALID_DAYS
    return USER_VALID_DAYS if kind == "user" else LEAF_VALID_DAYS


class Authority:
    """A key that may sign certificates of its VO."""

    def __init__(
        self, chain: tuple[x509.Certificate, ...], key: EllipticCurvePrivateKey, root: x509.Certificate, vo: str
    ) -> None:
        self._chain = chain
        self._key = key
        self._root = root
        self.vo = vo

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The signer of a folder of keys, or else the root's own key. UsageError where there is neither."""
        if (folder / "signer.key").exists():
            return cls._signer(folder)
        return cls.root(folder)

    @classmethod
    def for_signers(cls, folder: Path) -> Self:
        """As `load`, but the root's key first: signers it signed can sign signers in their turn."""
        return cls.root(folder) if (folder / "vo.key").exists() else cls._signer(folder)

    @classmethod
    def root(cls, folder: Path) -> Self:
        from diana.adapters.trust.reading import certificates_in, key_of

        (root,) = certificates_in(folder / "vo.pem", most=1)
        key = key_of(
            folder / "vo.key", root, missing="only a site that is a signer of the VO can sign, name its directory"
        )
        return cls((), key, root, root_vo(root))

    @classmethod
    def _signer(cls, folder: Path) -> Self:
        from diana.adapters.trust.reading import certificates_in, key_of

        (root,) = certificates_in(folder / "vo.pem", most=1)
        chain = certificates_in(folder / "signer.pem", most=2)
        return cls(chain, key_of(folder / "signer.key", chain[0]), root, root_vo(root))

    @property
    def site(self) -> str:
        """The site whose signer this is; empty: the root."""
        return name_in(self._chain[0]).name if self._chain else ""

    @property
    def chain_pem(self) -> bytes:
        """The certificates between one signed here and the root, as PEM."""
        return b"".join(making.pem_of(certificate) for certificate in self._chain)

    @property
    def root_pem(self) -> bytes:
        return making.pem_of(self._root)

    def sign(
        self,
        public: EllipticCurvePublicKey,
        identity: Identity,
        *,
        valid_days: float | None = None,
        wall_s: float | None = None,
    ) -> bytes:
        """Return the PEM chain for `identity`, without the root. UsageError for a name that is none, or a signer
        below a signer that may sign none. A certificate never outlives the one that signed it."""
        if identity.kind not in _ISSUED or parse_uri(uri_of(identity)) != identity or identity.vo != self.vo:
            raise errors.UsageError(f"{uri_of(identity)}: not a name that VO {self.vo} gives certificates to")
        above = self._chain[0] if self._chain else self._root
        first, last = making.dates_of(default_days(identity.kind) if valid_days is None else valid_days, wall_s)
        dates = (first, min(last, above.not_valid_after_utc.timestamp()))
        signed_by = (above.subject, self._key)
        if identity.kind == "signer":
            certificate = making.authority_certificate(
                making.distinguished("signer", identity.name),
                uri_of(identity),
                public,
                signed_by,
                path_length=self._room_below(),
                dates=dates,
            )
        else:
            certificate = making.leaf_certificate(identity, public, signed_by, dates=dates)
        return making.pem_of(certificate) + self.chain_pem

    def _room_below(self) -> int:
        from cryptography import x509

        above = self._chain[0] if self._chain else self._root
        limits = above.extensions.get_extension_for_class(x509.BasicConstraints).value
        if not limits.path_length:
            raise errors.UsageError(
                f"signer {self.site or self.vo}: may sign sites and users but no further signer; "
                "ask one that the root signed"
            )
        return limits.path_length - 1


def sign_request(
    authority: Authority,
    csr_pem: bytes,
    identity: Identity,
    *,
    valid_days: float | None = None,
    wall_s: float | None = None,
) -> bytes:
    """Return the PEM chain for whoever holds the key of this request. `identity` is what the caller decided; names
    in the request are ignored. `errors.Denied` for a request that is none, is not signed by its own key, or has
    another kind of key."""
    return authority.sign(_proven_key(csr_pem), identity, valid_days=valid_days, wall_s=wall_s)


def _proven_key(csr_pem: bytes) -> EllipticCurvePublicKey:
    from cryptography import x509

    from diana.wire.unreadable import UNREADABLE

    if len(csr_pem) > MOST_REQUEST_BYTES:
        raise errors.Denied("certificate request: too large")
    try:
        request = x509.load_pem_x509_csr(csr_pem)
        proven = request.is_signature_valid
        public = request.public_key()
    except UNREADABLE:
        raise errors.Denied("certificate request: not a PEM request") from None
    if not proven:
        raise errors.Denied("certificate request: not signed by its own key")
    return _p256(public)


def new_key_and_request(identity: Identity) -> tuple[bytes, bytes]:
    """Make (private key, request) as PEM, for someone else to sign. The name in the request is for people to read."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    key = making.new_key()
    builder = x509.CertificateSigningRequestBuilder().subject_name(making.distinguished(identity.kind, identity.name))
    return making.key_bytes(key), builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def request_key(csr_pem: bytes) -> bytes:
    """Return the public key of a request (DER), to know the same asker again. `errors.Denied` for one that
    `sign_request` would not take."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return _proven_key(csr_pem).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def root_vo(root: x509.Certificate) -> str:
    """Return the VO of a root certificate; UsageError for one that names none."""
    from cryptography import x509

    try:
        names = root.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, ValueError):
        uris = []
    vo = vo_of_uri(uris[0]) if len(uris) == 1 else ""
    if not vo:
        raise errors.UsageError("vo.pem: it names no VO; put the VO's own vo.pem back")
    return vo


def name_in(certificate: x509.Certificate) -> Identity:
    """Return the one identity that a certificate carries; NOBODY where that is none or several."""
    from cryptography import x509

    from diana.wire.unreadable import UNREADABLE

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except UNREADABLE:
        return NOBODY
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    return parse_uri(uris[0]) if len(uris) == 1 else NOBODY


def _p256(public: object) -> EllipticCurvePublicKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise errors.Denied("certificate request: want a key of ECDSA P-256")
    return public
