"""What a member machine must not forget: who it is, and the highest term of its site's leaders that it obeyed."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from diana.adapters.subgrid.identities import replace_durably
from diana.errors import StoreFailed


class _Noted(msgspec.Struct):
    identity: str
    term: int = 0


class Notes:
    """A small file. Methods block."""

    def __init__(self, path: Path) -> None:
        """Makes the file where there is none. StoreFailed when it cannot be read."""
        self._path = path
        try:
            self._noted = msgspec.json.decode(path.read_bytes(), type=_Noted)
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

    def note_term(self, term: int) -> None:
        """Durable on return; never falls."""
        if term > self._noted.term:
            noted = _Noted(self._noted.identity, term)
            replace_durably(self._path, msgspec.json.encode(noted))
            self._noted = noted
