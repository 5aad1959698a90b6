"""Keeps this machine's certificate in date: a new one for the same key when half of its time is over.

The key stays, so that a renewal replaces one file, at once and whole; a machine that wants a new key joins again. A
site that was off for so long that its certificate ran out signs for itself if it is a signer, else an operator invites
it again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from diana.adapters.trust import certificates
from diana.adapters.trust.making import distinguished
from diana.adapters.trust.reading import bytes_in, certificates_in, key_of
from diana.errors import DianaError, UsageError
from diana.model.trust.identity import Identity
from diana.node.enrol.signing import Signing, is_signer

LEAST_PAUSE_S, MOST_PAUSE_S = 1.0, 600.0
_LOOKS_PER_LIFE = 50
"""Looks at a certificate's dates, and tries of a failed renewal, in the certificate's life."""

_log = logging.getLogger("diana.renewal")

Note = Callable[[str, str, str, str, str], None]


class Renewal:
    """Renews `KIND.pem` in a folder of keys. Each time `renewed` is called, to have the new certificate used."""

    def __init__(
        self,
        *,
        keys: Path,
        kind: str,
        signing: Signing,
        renewed: Callable[[], None],
        note: Note,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._kind = kind
        self._signing = signing
        self._renewed = renewed
        self._note = note
        self._wall_s = wall_s
        self._told = ""

    async def run(self) -> None:
        """Look and renew until cancelled."""
        while True:
            try:
                if self.due():
                    await self.renew()
                    self._told = ""
            except (DianaError, OSError) as error:
                self._complain(str(error))
            await asyncio.sleep(self._pause_s())

    def due(self) -> bool:
        return self._wall_s() >= self._dates().half_s()

    async def renew(self) -> None:
        """DianaError when nobody signs; then the old one stays."""
        (leaf,) = certificates_in(self._keys / f"{self._kind}.pem")[:1]
        identity = certificates.identity_of(bytes_in(self._keys / f"{self._kind}.pem"))
        chain = await self._signing.sign(identity, request_for(self._keys, self._kind, leaf, identity))
        self._install(identity, leaf, chain)

    def _install(self, identity: Identity, leaf: x509.Certificate, chain: bytes) -> None:
        """Denied for a chain that is not what was asked for."""
        named = certificates.verify_chain(chain, bytes_in(self._keys / "vo.pem"), at_s=self._wall_s())
        if named != identity or x509.load_pem_x509_certificate(chain).public_key() != leaf.public_key():
            raise UsageError(f"renewal: the signer answered with a certificate of {named.kind} {named.name}")
        certificates.install(self._keys, self._kind, chain)
        self._renewed()
        until_s = certificates.dates_of_chain(chain).until_s
        until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(until_s))
        _log.info("the certificate of %s %s holds until %s now", identity.kind, identity.name, until)
        self._note("diana", "renew", f"{identity.kind} {identity.name}", "allowed", f"until {until}")

    def _complain(self, why: str) -> None:
        if why != self._told:
            left_days = (self._dates().until_s - self._wall_s()) / 86_400.0
            _log.warning("the certificate was not renewed, %.1f days are left: %s", left_days, why)
            self._note("diana", "renew", self._kind, "failed", why)
            self._told = why

    def _pause_s(self) -> float:
        try:
            dates = self._dates()
        except DianaError:
            return MOST_PAUSE_S
        life_s = 2.0 * (dates.until_s - dates.half_s())
        return min(MOST_PAUSE_S, max(LEAST_PAUSE_S, life_s / _LOOKS_PER_LIFE))

    def _dates(self) -> certificates.Dates:
        return certificates.dates_of_chain(bytes_in(self._keys / f"{self._kind}.pem"))


def request_for(keys: Path, kind: str, leaf: x509.Certificate, identity: Identity) -> bytes:
    """A request of the key that stands beside the leaf."""
    key = key_of(keys / f"{kind}.key", leaf)
    subject = distinguished(identity.kind, identity.name)
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def renew_before_start(keys: Path, kind: str, signing: Signing, wall_s: float) -> None:
    """Mend alone what a machine can that was off for long: a signer's own certificate. UsageError for a machine whose
    certificate ran out and that is no signer."""
    path = keys / f"{kind}.pem"
    if not path.is_file():
        return
    chain = bytes_in(path)
    dates, identity = certificates.dates_of_chain(chain), certificates.identity_of(chain)
    if wall_s >= dates.half_s() and is_signer(keys) and identity.kind == "site":
        (leaf,) = certificates_in(path)[:1]
        certificates.install(keys, kind, signing.sign_here(identity, request_for(keys, kind, leaf, identity)))
    elif wall_s > dates.until_s:
        what = f"--site {identity.name}" if kind == "site" else f"--member {identity.name.partition('/')[2]}"
        raise UsageError(
            f"{path}: it ran out {(wall_s - dates.until_s) / 86_400.0:.1f} days ago; at a site of the VO say "
            f"diana invite {what} --again, then here diana join - --data {keys.parent}"
        )
