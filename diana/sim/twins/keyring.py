"""The simulated twin of the keyring: a hash stands for the signature, the rules are the same.

Good enough against simulated peers, who do not compute hashes of secrets they do not hold; of no worth elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from diana.engine.messages.messages import Authorisation
from diana.errors import UsageError
from diana.model.ids import GroupId
from diana.model.trust.ledger import dated_ahead
from diana.policy.trust import statement as said


class SimKeyring:
    """Speaks as `signer` (`site:SITE` or `user:NAME@VO`) of a VO whose root is the text `vo_secret`."""

    def __init__(
        self,
        signer: str,
        vo: str,
        *,
        wall_clock: Callable[[], float],
        vo_secret: str = "",
        valid_s: float = said.DEFAULT_VALID_S,
        signs: bool = True,
    ) -> None:
        """`signs`: this site is a signer of the VO."""
        self.signer = signer
        self.vo = vo
        self._secret = f"{vo}/{vo_secret}".encode()
        self._wall_clock = wall_clock
        self._valid_s = valid_s
        self._signs = signs

    def authorise(self, owner: str, group: GroupId, spec: bytes) -> Authorisation:
        digest = said.spec_hash(spec)
        signed_wall_s = self._wall_clock()
        expires_wall_s = signed_wall_s + self._valid_s
        body = said.statement(owner, digest, group, expires_wall_s, self.signer, signed_wall_s)
        return Authorisation(
            owner=owner,
            spec_sha256=digest,
            group=group,
            expires_wall_s=expires_wall_s,
            signed_wall_s=signed_wall_s,
            signer=self.signer,
            certificate=self._certificate(self.signer),
            signature=self._seal(self._certificate(self.signer) + body),
        )

    def check(self, authorisation: Authorisation, spec: bytes) -> str:
        a = authorisation
        if said.spec_hash(spec) != a.spec_sha256:
            return f"the spec of {a.group} is not the one that was signed; submit the group again"
        now_wall_s = self._wall_clock()
        why = (
            said.outdated(a.expires_wall_s, now_wall_s)
            or said.misdated(a.signed_wall_s, a.expires_wall_s, now_wall_s)
            or said.speaks_for(a.signer, a.owner, self.vo)
            or said.misdirected(a.audience, a.group, a.signed_wall_s)
        )
        if why:
            return why
        if a.certificate != self._certificate(a.signer):
            return f"signer {a.signer}: the certificate is not one of VO {self.vo}"
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
        if a.signature != self._seal(a.certificate + body):
            return f"signer {a.signer}: the signature does not fit the authorisation of {a.group}"
        return ""

    def sign_statement(self, payload: bytes) -> tuple[bytes, bytes]:
        if not self._signs or not self.signer.startswith("site:"):
            raise UsageError(f"{self.signer} is no signer of VO {self.vo}; do this at a site that is")
        chain = self._signer_chain(self.signer.removeprefix("site:"))
        return chain, self._seal(chain + payload)

    def check_statement(
        self, payload: bytes, chain_pem: bytes, signature: bytes, signer: str = "", said_s: float = 0.0
    ) -> str:
        site = chain_pem.partition(b" ")[0].decode("utf-8", "replace")
        if chain_pem != self._signer_chain(site):
            return f"the certificate is not one of VO {self.vo}"
        if signer not in ("", site):
            return f"signer {site}: it says that it is signer {signer}"
        if ahead := dated_ahead(said_s, self._wall_clock()):
            return f"signer {site}: {ahead}"
        return "" if signature == self._seal(chain_pem + payload) else f"signer {site}: the signature does not fit"

    def _signer_chain(self, site: str) -> bytes:
        return site.encode() + b" " + self._seal(b"signer " + site.encode())

    def _certificate(self, signer: str) -> bytes:
        return self._seal(signer.encode())

    def _seal(self, body: bytes) -> bytes:
        return hashlib.sha256(self._secret + b"\0" + body).digest()
