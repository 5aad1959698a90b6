"""Principals: the callers a site decides about, by role and name."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from diana.model.ids import SiteId


class Role(StrEnum):
    USER = "user"
    OPERATOR = "operator"
    """An operator may act on every group of its site, and on the site."""
    PEER = "peer"
    MEMBER = "member"
    NOBODY = "nobody"


class Principal(msgspec.Struct, frozen=True):
    role: Role
    name: str
    """`name@vo` for users and operators, the site id for peers, a member's name, empty for nobody."""

    @staticmethod
    def peer(site: SiteId) -> Principal:
        return Principal(Role.PEER, site)
