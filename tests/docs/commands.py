"""The `diana` of this clone as a command, as `make setup` makes one."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.e2e.grid import REPO


def program(folder: Path) -> Path:
    """A folder below `folder` for a PATH, with that command in it."""
    made = folder / ".bin"
    made.mkdir()
    script = made / "diana"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={REPO} exec {sys.executable} -m diana.cli "$@"\n')
    script.chmod(0o755)
    return made
