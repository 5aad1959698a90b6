"""The notes of a member machine that it must not forget: its identity, the highest term of its site's leaders that
it obeyed, and the addresses its site may be led from.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from diana.adapters.durable import replace_durably
from diana.bounds import MOST_NOTE_BYTES, content_of, decoded
from diana.errors import StoreFailed

MOST_LEADERS = 8


class _Noted(msgspec.Struct):
    identity: str
    term: int = 0
    leaders: tuple[str, ...] = ()


_decode = msgspec.json.Decoder(_Noted).decode


class Notes:
    """A small file. Methods block."""

    def __init__(self, path: Path) -> None:
        """Make the file where there is none. StoreFailed when it cannot be read."""
        self._path = path
        try:
            self._noted = decoded(_decode, content_of(path, MOST_NOTE_BYTES))
        except FileNotFoundError:
            self._noted = _Noted(secrets.token_hex(16))
            replace_durably(path, msgspec.json.encode(self._noted))
        except (OSError, ValueError) as fault:
            raise StoreFailed(f"{path}: {fault}; restore it, or join this machine anew in another directory") from None

    @property
    def identity(self) -> str:
        return self._noted.identity

    @property
    def term(self) -> int:
        return self._noted.term

    @property
    def leaders(self) -> tuple[str, ...]:
        """host:port of the machines that may lead the site, as the last leader told."""
        return self._noted.leaders

    def note_term(self, term: int) -> None:
        """Note a term; durable on return; never falls."""
        if term > self._noted.term:
            self._write(term=term)

    def note_leaders(self, addresses: list[str]) -> None:
        """Note the leaders' addresses; durable on return."""
        leaders = tuple(addresses[:MOST_LEADERS])
        if leaders and set(leaders) != set(self._noted.leaders):
            self._write(leaders=leaders)

    def _write(self, **changes: object) -> None:
        noted: _Noted = msgspec.structs.replace(self._noted, **changes)
        replace_durably(self._path, msgspec.json.encode(noted))
        self._noted = noted
