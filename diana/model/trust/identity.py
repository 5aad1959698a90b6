"""Identities that certificates name, and their written form: one URI, which the receiving side compares, and for those
who serve also a DNS name, since a gRPC client can check nothing else.

    site    spiffe://VO/site/SITE               SITE.VO.diana
    member  spiffe://VO/member/SITE/MACHINE     MACHINE.SITE.VO.diana
    user    spiffe://VO/user/NAME
    signer  spiffe://VO/signer/SITE             holds an intermediate CA certificate, never a connection
    invite  spiffe://VO/invite/ID               holds an invitation, may ask to join and nothing else

No VO, site or machine has a dot in its name, so no DNS name of one kind is that of another.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["site", "member", "user", "signer", "invite", ""]

_VO = r"(?P<vo>[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?)"
_SITE = r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?"
_MACHINE = r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?"
_USER = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"

_NAMES: dict[Kind, str] = {
    "site": _SITE,
    "member": f"{_SITE}/{_MACHINE}",
    "user": _USER,
    "signer": _SITE,
    "invite": r"[0-9a-f]{8,64}",
}
_URIS: dict[Kind, re.Pattern[str]] = {
    kind: re.compile(rf"spiffe://{_VO}/{kind}/(?P<name>{name})\Z") for kind, name in _NAMES.items()
}
_VO_URI = re.compile(rf"spiffe://{_VO}\Z")

MACHINE = re.compile(_MACHINE + r"\Z")
"""A machine's name within its site."""
VO = re.compile(_VO + r"\Z")
USER = re.compile(_USER + r"\Z")


class Identity(NamedTuple):
    """The identity a certificate names. All empty: nobody."""

    kind: Kind
    name: str
    """The bare name; a member's is `SITE/MACHINE`."""
    vo: str

    @property
    def site(self) -> str:
        """The site this identity belongs to or speaks for; empty for users and invitations."""
        return self.name.partition("/")[0] if self.kind in ("site", "member", "signer") else ""

    @property
    def said(self) -> str:
        """The form used in lists of the revoked and in authorisations: `site:SITE`, `member:SITE/MACHINE`,
        `user:NAME@VO`."""
        return f"{self.kind}:{self.name}@{self.vo}" if self.kind == "user" else f"{self.kind}:{self.name}"


NOBODY = Identity("", "", "")


def uri_of(identity: Identity) -> str:
    return f"spiffe://{identity.vo}/{identity.kind}/{identity.name}"


def parse_uri(uri: str) -> Identity:
    """Return the identity a URI names; NOBODY for a URI of another form."""
    for kind, pattern in _URIS.items():
        found = pattern.match(uri)
        if found is not None:
            return Identity(kind, found["name"], found["vo"])
    return NOBODY


def vo_of_uri(uri: str) -> str:
    """The VO that a root's URI names; empty for any other URI."""
    found = _VO_URI.match(uri)
    return found["vo"] if found else ""


def dns_names(identity: Identity) -> tuple[str, ...]:
    """Return the DNS names its certificate must carry, exactly these."""
    if identity.kind == "site":
        return (f"{identity.name}.{identity.vo}.diana",)
    if identity.kind == "member":
        site, _, machine = identity.name.partition("/")
        return (f"{machine}.{site}.{identity.vo}.diana",)
    return ()
