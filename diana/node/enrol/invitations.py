"""The invitations a site gave out, as its journal has them: neither a restart nor a takeover loses or renews one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from diana.errors import Denied, UsageError
from diana.model.trust.invitation import Invitation

MOST_OPEN = 1000

Keep = Callable[[Invitation], Awaitable[Mapping[str, Invitation]]]
"""Has the journal keep it; durable on return, which gives all it has."""


class InvitationBook:
    """Empty until `open`. DianaError where the journal cannot keep a change, which then was not made."""

    def __init__(self, wall_s: Callable[[], float] = time.time) -> None:
        self._wall_s = wall_s
        self._changing = asyncio.Lock()
        self._known: Mapping[str, Invitation] = {}
        self._keep: Keep

    def open(self, known: Mapping[str, Invitation], keep: Keep) -> None:
        """`known`: what the journal has."""
        self._known, self._keep = known, keep

    def get(self, invitation_id: str) -> Invitation | None:
        found = self._known.get(invitation_id)
        return found if found is not None and found.told(self._wall_s()) else None

    def roots(self) -> list[bytes]:
        """PEM certificates that a newcomer's own may be signed with. Those that ran out lately are among them: who
        shows one is only told that it did."""
        now_s = self._wall_s()
        return [i.certificate.encode() for i in self._known.values() if i.certificate and i.told(now_s)]

    def name_taken(self, kind: str, name: str) -> bool:
        now_s = self._wall_s()
        return any(i.kind == kind and i.used_name == name and i.named(now_s) for i in self._known.values())

    def names_given(self, kind: str) -> list[str]:
        """Names given to those who joined lately."""
        return sorted({i.used_name for i in self._known.values() if self.name_taken(kind, i.used_name)} - {""})

    async def add(self, invitation: Invitation) -> None:
        """Durable on return."""
        async with self._changing:
            if len(self.unused()) >= MOST_OPEN:
                raise UsageError(f"invite: {MOST_OPEN} invitations are open; wait until some have run out")
            await self._write(invitation)

    def unused(self) -> list[Invitation]:
        """Invitations that somebody can still join with, the soonest to run out first."""
        now_s = self._wall_s()
        found = [one for one in self._known.values() if not one.used_by and not one.expired(now_s)]
        return sorted(found, key=lambda one: (one.expires_wall_s, one.id))

    async def withdraw(self, invitation_id: str) -> Invitation:
        """Durable on return: its bearer hears that it expired. UsageError for one that is not open."""
        async with self._changing:
            found = {one.id: one for one in self.unused()}.get(invitation_id)
            if found is None:
                raise UsageError(
                    f"invite: {invitation_id!r} is no open invitation of this site; diana invite --list names them"
                )
            changed = msgspec.structs.replace(found, expires_wall_s=self._wall_s())
            await self._write(changed)
            return changed

    async def use(self, invitation_id: str, key: str, name: str, address: str) -> None:
        """Durable on return: from now on only `key` is answered. Denied for one that is not open any more."""
        async with self._changing:
            found = self._known.get(invitation_id)
            if found is None or (not found.used_by and found.expired(self._wall_s())):
                raise Denied("join: this invitation expired or was withdrawn just now; ask for a new one")
            if found.used_by not in ("", key):
                raise Denied("join: this invitation was used already; each is good for one, ask for a new one")
            changed = msgspec.structs.replace(found, used_by=key, used_name=name, used_address=address)
            if changed != found:
                await self._write(changed)

    async def free(self, invitation_id: str) -> None:
        """Take back a use that came to nothing: nothing was signed."""
        async with self._changing:
            found = self._known[invitation_id]
            await self._write(msgspec.structs.replace(found, used_by="", used_name="", used_address=""))

    def addresses(self, kind: str) -> list[str]:
        """Addresses of those of this kind who joined lately."""
        return sorted({i.used_address for i in self._known.values() if i.kind == kind and i.used_address})

    async def _write(self, changed: Invitation) -> None:
        """Whole, so under the lock that it was read under."""
        self._known = await self._keep(msgspec.structs.replace(changed, noted_wall_s=self._wall_s()))
