"""The sessions of those who look: a ticket that is good once, got over the client service, is changed for a token that
a page keeps.

A page sends its token with each request. Nothing is sent by the browser of its own accord, as cookies are, so no other
page and no other port can act with it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography.fernet import Fernet, InvalidToken

from diana.bounds import MOST_KEY_BYTES, content_of
from diana.model.trust.principal import Principal, Role

TICKET_S = 120.0
MOST_TICKETS = 1000
PAGES, SCRAPER = "pages", "metrics"
"""Scopes of a token: all pages, or the metrics alone."""


class _Token(msgspec.Struct, array_like=True):
    name: str
    role: str
    scope: str
    until_wall_s: float
    port: int = 0
    """Port of the node that gave it. Elsewhere it is void: another program that took the node's port meanwhile may have
    heard it."""


class Session(msgspec.Struct, frozen=True):
    caller: Principal
    scope: str
    until_wall_s: float


class Sessions:
    """Tickets live in memory, tokens are signed and hold over restarts, as long as the key file is there.

    A token says who it is; what they may do is asked anew each time (`Users.by_now`, revocations).
    """

    def __init__(self, key: Path, wall_s: Callable[[], float]) -> None:
        self._path = key
        self._wall_s = wall_s
        self.port = 0
        self._made: Fernet | None = None
        self._tickets: dict[str, tuple[Session, float]] = {}

    def ticket(self, caller: Principal, for_s: float) -> str:
        """Good once and for two minutes; gives a session of `for_s`."""
        now = self._wall_s()
        self._tickets = {text: kept for text, kept in self._tickets.items() if kept[1] > now}
        while len(self._tickets) >= MOST_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        text = secrets.token_urlsafe(24)
        self._tickets[text] = Session(caller, PAGES, now + for_s), now + TICKET_S
        return text

    def enter(self, ticket: str) -> tuple[str, Session] | None:
        """A token and what it stands for; None: the ticket was used, is too old, or never was."""
        session, until = self._tickets.pop(ticket, (None, 0.0))
        if session is None or until <= self._wall_s():
            return None
        return self.token(session), session

    def token(self, session: Session) -> str:
        caller = session.caller
        content = _Token(caller.name, caller.role.value, session.scope, session.until_wall_s, self.port)
        return self._fernet().encrypt(msgspec.json.encode(content)).decode()

    def of(self, token: str) -> Session | None:
        """None where it is none of ours, or is over."""
        try:
            kept = msgspec.json.decode(self._fernet().decrypt(token.encode()), type=_Token)
            session = Session(Principal(Role(kept.role), kept.name), kept.scope, kept.until_wall_s)
        except (InvalidToken, ValueError):
            return None
        return session if session.until_wall_s > self._wall_s() and kept.port == self.port else None

    def _fernet(self) -> Fernet:
        if self._made is None:
            self._made = Fernet(_key(self._path))
        return self._made


def _key(path: Path) -> bytes:
    """The key in the file; made, durable and for the node's account alone, where there is none or no good one."""
    try:
        key = content_of(path, MOST_KEY_BYTES).strip()
        Fernet(key)
        return key
    except (FileNotFoundError, ValueError):
        pass
    key = Fernet.generate_key()
    new = path.with_name(path.name + ".new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    return key
