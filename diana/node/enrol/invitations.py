"""The invitations a site gave out: a small durable file, so that a restart neither loses nor renews one.

Of an invitation's key only the public half is kept, as a certificate; whoever reads this file can join with none.
What was used or has run out stays for a while, so that the one who comes late with it hears why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from diana.adapters.durable import replace_durably
from diana.errors import UsageError

MOST_OPEN = 1000
TELL_S = 86_400.0
"""So long after it ran out an invitation's bearer still hears that it did."""
NAME_S = 30 * 86_400.0
"""So long a name given out counts as taken although its node was never seen."""

_VERSION = 1


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    name: str
    """The only name it is good for; empty: any that is free."""
    certificate: str
    """PEM: the key's public half, which signs what the newcomer shows."""
    made_by: str
    expires_wall_s: float
    again: bool = False
    """For a site or machine that has been in the VO and lost its certificate."""
    used_by: str = ""
    """SHA-256 of the public key that joined with it."""
    used_name: str = ""
    used_address: str = ""
    """host:port at which the newcomer is to be reached."""

    def expired(self, wall_s: float) -> bool:
        return wall_s >= self.expires_wall_s


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int = _VERSION
    invitations: tuple[Invitation, ...] = ()


class Invitations:
    """`path` is 0600 and replaced as a whole. UsageError for a file that is none."""

    def __init__(self, path: Path, wall_s: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall_s = wall_s
        self._writing = asyncio.Lock()
        self._known = {i.id: i for i in _read(path).invitations}

    def get(self, invitation_id: str) -> Invitation | None:
        found = self._known.get(invitation_id)
        return found if found is not None and self._told(found) else None

    def roots(self) -> list[bytes]:
        """PEM certificates that a newcomer's own may be signed with. Those that ran out lately are among them: who
        shows one is only told that it did."""
        return [i.certificate.encode() for i in self._known.values() if self._told(i)]

    def name_taken(self, kind: str, name: str) -> bool:
        now_s = self._wall_s()
        return any(
            i.kind == kind and i.used_name == name and now_s < i.expires_wall_s + NAME_S for i in self._known.values()
        )

    async def add(self, invitation: Invitation) -> None:
        """Durable on return."""
        if len(self.open()) >= MOST_OPEN:
            raise UsageError(f"invite: {MOST_OPEN} invitations are open; wait until some have run out")
        await self._write(invitation)

    def open(self) -> list[Invitation]:
        """Those somebody can still join with, the soonest to run out first."""
        now_s = self._wall_s()
        found = [one for one in self._known.values() if not one.used_by and not one.expired(now_s)]
        return sorted(found, key=lambda one: (one.expires_wall_s, one.id))

    async def withdraw(self, invitation_id: str) -> Invitation:
        """Durable on return: its bearer hears that it expired. UsageError for one that is not open."""
        found = {one.id: one for one in self.open()}.get(invitation_id)
        if found is None:
            raise UsageError(
                f"invite: {invitation_id!r} is no open invitation of this site; diana invite --list names them"
            )
        changed = msgspec.structs.replace(found, expires_wall_s=self._wall_s())
        await self._write(changed)
        return changed

    async def use(self, invitation_id: str, key: str, name: str, address: str) -> None:
        """Durable on return: from now on only `key` is answered."""
        found = self._known[invitation_id]
        changed = msgspec.structs.replace(found, used_by=key, used_name=name, used_address=address)
        if changed != found:
            await self._write(changed)

    async def free(self, invitation_id: str) -> None:
        """Take back a use that came to nothing: nothing was signed."""
        found = self._known[invitation_id]
        await self._write(msgspec.structs.replace(found, used_by="", used_name="", used_address=""))

    def addresses(self, kind: str) -> list[str]:
        """Where those who joined lately are to be reached."""
        return sorted({i.used_address for i in self._known.values() if i.kind == kind and i.used_address})

    async def _write(self, changed: Invitation) -> None:
        async with self._writing:
            now_s = self._wall_s()
            known = {i.id: i for i in self._known.values() if _kept(i, now_s)} | {changed.id: changed}
            text = msgspec.json.encode(_File(invitations=tuple(known[k] for k in sorted(known))))
            try:
                await asyncio.to_thread(replace_durably, self._path, text)
            except OSError as error:
                raise UsageError(f"{self._path}: {error.strerror}; make room or make it writable") from None
            self._known = known

    def _told(self, invitation: Invitation) -> bool:
        return self._wall_s() < invitation.expires_wall_s + TELL_S


def _kept(invitation: Invitation, wall_s: float) -> bool:
    return wall_s < invitation.expires_wall_s + (NAME_S if invitation.used_by else TELL_S)


def _read(path: Path) -> _File:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return _File()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}; remove it, which voids the invitations given out") from None
    if found.version != _VERSION:
        raise UsageError(f"{path}: written by a newer release of diana; start that one")
    return found
