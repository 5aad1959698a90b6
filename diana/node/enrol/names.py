"""Names that can still be given: a site's is checked against the VO's ledger and the sites the engine knows, any name
against those given out lately."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from diana.errors import UsageError
from diana.model.ids import SiteId, site_id
from diana.model.trust.identity import MACHINE, USER
from diana.model.views.views import Named
from diana.node.enrol.invitations import InvitationBook

MAIN = "main"


class AskName(Protocol):
    """Asks the engine how a name of a site stands, or has it keep that it was given out (`events.NameSite`)."""

    def __call__(self, name: SiteId, *, give: bool, again: bool = False, signer: bool = False) -> Awaitable[Named]: ...


class NameRegistry:
    def __init__(
        self, site: str, invitations: InvitationBook, ask: AskName, standby: Callable[[], str] = lambda: ""
    ) -> None:
        """`standby`: the machine that keeps this site's journal too, empty while none does."""
        self._standby = standby
        self._site = site
        self._invitations = invitations
        self._ask = ask

    async def check(self, kind: str, name: str, again: bool, verb: str) -> None:
        """UsageError unless the name can be given; an empty one only where the newcomer may choose."""
        if kind == "standby":
            self._check_only_standby(name, again, verb)
        if not name and kind != "user":
            return
        if kind == "user":
            if not USER.match(name):
                raise UsageError(f"{verb}: user name {name!r}: want 1 to 64 letters, digits, `.`, `_`, `-`")
            return
        if kind == "site":
            try:
                found = await self._ask(site_id(name), give=False)
            except ValueError as error:
                raise UsageError(f"{verb}: {error}") from None
            taken = name == self._site or bool(found.taken)
        else:
            if not MACHINE.match(name):
                raise UsageError(f"{verb}: machine {name!r}: want 1 to 40 lower-case letters, digits, inner hyphens")
            taken = any(self._invitations.name_taken(k, name) for k in ("member", "standby"))
            if name == MAIN and not (kind == "standby" and again and self._standby() == MAIN):
                raise UsageError(f"{verb}: machine {name} is the site's first; choose another name")
        if (taken or self._invitations.name_taken(kind, name)) and not (again and name != self._site):
            raise UsageError(
                f"{verb}: {'machine' if kind != 'site' else 'site'} {name}: that name is taken; choose another, "
                "or invite with --again if it lost its certificate"
            )

    def _check_only_standby(self, name: str, again: bool, verb: str) -> None:
        there = self._standby() or next(iter(self._invitations.names_given("standby")), "")
        if there and not (again and name == there):
            raise UsageError(
                f"{verb}: {self._site} has a standby, {there}, and can have one; if that machine or its disk is lost, "
                f"another takes its place and name with: diana invite --standby {there} --again"
            )

    async def signers(self) -> int:
        """Number of signers, by the word of signers: what anybody else tells does not count."""
        return len((await self._ask(SiteId(self._site), give=False)).signers)

    async def give(self, name: str, again: bool, signer: bool) -> None:
        """Durable in the VO's ledger on return, and told to the sites linked. UsageError when another signer gave it
        out meanwhile."""
        found = await self._ask(SiteId(name), give=True, again=again, signer=signer)
        if found.taken:
            raise UsageError(f"join: site {name}: that name is taken ({found.taken}); choose another")
