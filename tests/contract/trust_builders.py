"""Chains as an honest VO makes them and as nobody should: every field can be told."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY_S = 86400.0
HASH = hashes.SHA256()


class Signed(NamedTuple):
    certificate: x509.Certificate
    key: Any

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return bytes(
            self.key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )


def subject(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def make(
    uri: str,
    above: Signed | None = None,
    *,
    ca: bool = False,
    path_length: int | None = None,
    dns: tuple[str, ...] = (),
    more_names: tuple[x509.GeneralName, ...] = (),
    uris: tuple[str, ...] | None = None,
    key: Any = None,
    signs: bool | None = None,
    client: bool = True,
    critical: bool = False,
    days: float = 7.0,
    wall_s: float | None = None,
    name: str = "",
) -> Signed:
    """One certificate, signed by `above` (None: by itself)."""
    mine = key or ec.generate_private_key(ec.SECP256R1())
    issuer = above.certificate.subject if above else subject(name or uri)
    now_s = time.time() if wall_s is None else wall_s
    first, last = (datetime.datetime.fromtimestamp(at, tz=datetime.UTC) for at in (now_s - 300, now_s + days * DAY_S))
    names = [x509.UniformResourceIdentifier(one) for one in ((uri,) if uris is None else uris)]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject(name or uri))
        .issuer_name(issuer)
        .public_key(mine.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(last)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
        .add_extension(_usage(ca if signs is None else signs), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([*names, *(x509.DNSName(one) for one in dns), *more_names]), critical=False
        )
    )
    if not ca:
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if client else [])]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    if critical:
        unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00")
        builder = builder.add_extension(unknown, critical=True)
    return Signed(builder.sign(above.key if above else mine, HASH), mine)


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, signs, signs, False, False)


def root(vo: str = "lab", path_length: int | None = 2) -> Signed:
    return make(f"spiffe://{vo}", ca=True, path_length=path_length, days=3650)


def signer(site: str, above: Signed, *, path_length: int | None = 1, **fields: Any) -> Signed:
    given = {"days": 3650.0, "ca": True} | fields
    return make(f"spiffe://lab/signer/{site}", above, path_length=path_length, **given)


def site(name: str, above: Signed, **fields: Any) -> Signed:
    given: dict[str, Any] = {"dns": (f"{name}.lab.diana",)} | fields
    return make(f"spiffe://lab/site/{name}", above, **given)


def chain(*links: Signed) -> bytes:
    return b"".join(link.pem for link in links)


def folder(path: Path, root_: Signed, leaf: Signed, *above: Signed, kind: str = "site") -> Path:
    """A folder of keys as a node has it."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "vo.pem").write_bytes(root_.pem)
    (path / f"{kind}.pem").write_bytes(chain(leaf, *above))
    (path / f"{kind}.key").write_bytes(leaf.key_pem)
    return path
