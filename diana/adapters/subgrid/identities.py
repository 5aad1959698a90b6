"""Which data directory a machine's name belongs to. A machine that lost its disk must not be taken for the one that
still knows what it runs: its empty inventory would have those jobs started again beside themselves.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec


class Identities:
    """Machine name -> identity, in a file. Methods block, for no longer than a small file takes."""

    def __init__(self, path: Path) -> None:
        """ValueError when the file holds anything else."""
        self._path = path
        self._known: dict[str, str] = {}
        if path.exists():
            self._known = msgspec.json.decode(path.read_bytes(), type=dict[str, str])

    def admit(self, machine: str, identity: str, given_up: bool) -> str:
        """Empty: it is who it was, or new and now known, durably. Else why not. `given_up`: an operator removed the
        machine, so that nothing is expected of the one that had the name."""
        known = self._known.get(machine)
        if known == identity:
            return ""
        if known is not None and not given_up:
            return (
                f"machine {machine} was another data directory before; "
                f"if that one is gone for good: diana site remove-machine {machine}"
            )
        self._keep({**self._known, machine: identity})
        return ""

    def _keep(self, known: dict[str, str]) -> None:
        replace_durably(self._path, msgspec.json.encode(known))
        self._known = known


def replace_durably(path: Path, content: bytes) -> None:
    """The whole new content or the whole old one, whatever happens; durable on return."""
    spare = path.with_name(path.name + ".new")
    fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, content)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(spare, path)
    at = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(at)
    finally:
        os.close(at)
