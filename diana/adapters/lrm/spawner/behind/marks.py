"""A mark that all descendants of a job bear: a number of its run as their soft limit of file locks.

The kernel hands limits on at each fork and exec, so that neither a new environment, a new session, a parent that died
nor another account takes the mark off; anybody may read it. Linux has held nobody to this limit since 2.4.25
(getrlimit(2), RLIMIT_LOCKS). A process can set it anew, but none does so by the way.
"""

from __future__ import annotations

import hashlib
import os
import resource
from contextlib import suppress

LOCKS = 10
"""RLIMIT_LOCKS, which Python's `resource` does not name."""
_LEAST = 1 << 62
_BITS = 60
_LINE = b"Max file locks"


def number_of(marker: bytes) -> int:
    """Return the number of the run whose DIANA_RUN entry this is: 60 bits of a hash, above 2^62."""
    return _LEAST | int.from_bytes(hashlib.blake2b(marker, digest_size=8).digest()) >> 64 - _BITS


def mark_of(pid: int) -> int:
    """Return the mark of a living process; 0: it bears none, or there is no such process."""
    try:
        fd = os.open(f"/proc/{pid}/limits", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        text = os.read(fd, 4096)
    except OSError:
        return 0
    finally:
        os.close(fd)
    words = text[text.find(_LINE) + len(_LINE) :].split(None, 1) if _LINE in text else []
    number = int(words[0]) if words and words[0].isdigit() else 0
    return number if _is_mark(number) else 0


class Marks:
    """Puts marks on what this process starts."""

    def __init__(self) -> None:
        self._own = resource.getrlimit(LOCKS)
        # A node within another one's job leaves that job's mark where it is: it all ends with that job.
        self.given = self._own[1] == resource.RLIM_INFINITY and not _is_mark(self._own[0]) and self._try()
        """False where a lower limit, another spawner's mark or the kernel leaves no room for them."""

    def _try(self) -> bool:
        try:
            self.put_on(_LEAST)
            return bool(mark_of(os.getpid()))
        except (OSError, ValueError):
            return False
        finally:
            with suppress(OSError, ValueError):
                resource.setrlimit(LOCKS, self._own)

    def put_on(self, mark: int) -> None:
        """Have whatever is started from here on bear a mark, until `take_off`. OSError, ValueError."""
        resource.setrlimit(LOCKS, (mark, self._own[1]))

    def take_off(self) -> None:
        with suppress(OSError, ValueError):
            resource.setrlimit(LOCKS, self._own)

    def put_on_child(self, pid: int, mark: int) -> None:
        """Mark an unreaped child that has started nothing yet."""
        with suppress(OSError, ValueError):
            resource.prlimit(pid, LOCKS, (mark, self._own[1]))


def _is_mark(number: int) -> bool:
    return number >> _BITS == _LEAST >> _BITS
