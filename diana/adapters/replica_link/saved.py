"""`replica.json`: what a machine of a pair must not forget whatever becomes of its journal, foremost the promised term.

It lies outside the journal's file, which a copy of the leader's may replace at any time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from diana import errors
from diana.adapters.durable import replace_durably
from diana.bounds import MOST_NOTE_BYTES, content_of, decoded

T = TypeVar("T")


class DurableFile(Generic[T]):
    """One JSON value that is replaced as a whole."""

    def __init__(self, path: Path, kind: type[T]) -> None:
        self.path = path
        self._decoder: Any = msgspec.json.Decoder(kind)

    def read(self) -> T | None:
        """None: never written. StoreFailed when it cannot be read."""
        try:
            found: T = decoded(self._decoder.decode, content_of(self.path, MOST_NOTE_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise errors.StoreFailed(
                f"{self.path}: {error}; delete it to begin anew, but only where the site's other machine leads"
            ) from error
        return found

    def write(self, value: T) -> None:
        """Durable on return; StoreFailed."""
        try:
            replace_durably(self.path, msgspec.json.encode(value))
        except OSError as error:
            raise errors.StoreFailed(f"{self.path}: {error.strerror}; check the disk, then start again") from error
