"""Which names can still be given: of sites by what the engine has heard of, of all by what was given out lately."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from diana.errors import UsageError
from diana.model.identity import MACHINE, USER
from diana.model.ids import site_id
from diana.node.enrol.invitations import Invitations

MAIN = "main"


class Names:
    """`known_sites` asks the engine."""

    def __init__(
        self, site: str, invitations: Invitations, known_sites: Callable[[], Awaitable[frozenset[str]]]
    ) -> None:
        self._site = site
        self._invitations = invitations
        self._known_sites = known_sites

    async def check(self, kind: str, name: str, again: bool, verb: str) -> None:
        """UsageError unless the name can be given; an empty one only where the newcomer may choose."""
        if not name and kind != "user":
            return
        if kind == "user":
            if not USER.match(name):
                raise UsageError(f"{verb}: user name {name!r}: want 1 to 64 letters, digits, `.`, `_`, `-`")
            return
        if kind == "site":
            try:
                site_id(name)
            except ValueError as error:
                raise UsageError(f"{verb}: {error}") from None
            taken = name == self._site or name in await self._known_sites()
        else:
            if not MACHINE.match(name):
                raise UsageError(f"{verb}: machine {name!r}: want 1 to 40 lower-case letters, digits, inner hyphens")
            taken = any(self._invitations.name_taken(k, name) for k in ("member", "standby"))
            if name == MAIN:
                raise UsageError(f"{verb}: machine {name} is the site's first; choose another name")
        if (taken or self._invitations.name_taken(kind, name)) and not (again and name != self._site):
            raise UsageError(
                f"{verb}: {'machine' if kind != 'site' else 'site'} {name}: that name is taken; choose another, "
                "or invite with --again if it lost its certificate"
            )
