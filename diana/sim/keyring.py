"""The simulated twin of the keyring: a hash stands for the signature, the rules are the same.

Good enough against simulated peers, who do not compute hashes of secrets they do not hold; of no worth elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from diana.engine.messages import Authorisation
from diana.model.ids import GroupId
from diana.policy import statement as said


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
    ) -> None:
        self.signer = signer
        self.vo = vo
        self._secret = f"{vo}/{vo_secret}".encode()
        self._wall_clock = wall_clock
        self._valid_s = valid_s

    def authorise(self, owner: str, group: GroupId, spec: bytes) -> Authorisation:
        digest = said.spec_hash(spec)
        expires_wall_s = self._wall_clock() + self._valid_s
        body = said.statement(owner, digest, group, expires_wall_s, self.signer)
        return Authorisation(
            owner=owner,
            spec_sha256=digest,
            group=group,
            expires_wall_s=expires_wall_s,
            signer=self.signer,
            certificate=self._certificate(self.signer),
            signature=self._seal(self._certificate(self.signer) + body),
        )

    def check(self, authorisation: Authorisation, spec: bytes) -> str:
        a = authorisation
        if said.spec_hash(spec) != a.spec_sha256:
            return f"the spec of {a.group} is not the one that was signed; submit the group again"
        why = said.outdated(a.expires_wall_s, self._wall_clock()) or said.speaks_for(a.signer, a.owner, self.vo)
        if why:
            return why
        if a.certificate != self._certificate(a.signer):
            return f"signer {a.signer}: the certificate is not one of VO {self.vo}"
        body = said.statement(a.owner, a.spec_sha256, a.group, a.expires_wall_s, a.signer)
        if a.signature != self._seal(a.certificate + body):
            return f"signer {a.signer}: the signature does not fit the authorisation of {a.group}"
        return ""

    def _certificate(self, signer: str) -> bytes:
        return self._seal(signer.encode())

    def _seal(self, body: bytes) -> bytes:
        return hashlib.sha256(self._secret + b"\0" + body).digest()
