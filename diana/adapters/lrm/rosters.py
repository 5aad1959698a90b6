"""Rosters of gangs with spares, as their components read them: a small file in the directory of each."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from contextlib import suppress

_log = logging.getLogger(__name__)


def write(paths: Iterable[str], text: str) -> None:
    """Put the roster in place at once: a component reads the one or the other, whole. A component may put anything
    where the new file is made, so no link is followed. One that is not told learns it from the others."""
    for path in paths:
        new = f"{path}.new"
        try:
            with suppress(FileNotFoundError):
                os.unlink(new)
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            with open(fd, "w", encoding="ascii") as file:
                file.write(text)
            os.replace(new, path)
        except OSError as fault:
            _log.warning("%s: %s; its component is told by the others of its gang", path, fault.strerror)
