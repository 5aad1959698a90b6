"""The `diana` of this clone as a command, as `make setup` makes one, and a shell in which a reader types it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.replay import Shell
from tests.e2e.grid import REPO


def program(folder: Path) -> Path:
    """A folder below `folder` for a PATH, with that command in it, and a Python that knows diana."""
    made = folder / ".bin"
    made.mkdir()
    for name, module in (("diana", "-m diana.cli "), ("python", "")):
        script = made / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH={REPO} exec {sys.executable} {module}"$@"\n')
        script.chmod(0o755)
    return made


@contextmanager
def reader() -> Iterator[Shell]:
    """A shell in a home and on a network of its own; what it starts ends with it. Root's."""
    # A data directory there is to have a name as short as a reader's.
    home = Path(tempfile.mkdtemp(prefix="ann-"))
    assert os.geteuid() == 0, "these want root: each shell has network and processes of its own"
    assert shutil.which("unshare") and shutil.which("ip"), "install util-linux and iproute2"
    made = Shell(
        home,
        f"{program(home)}:{os.environ['PATH']}",
        # Whoever types them need not be root, whose node starts only where somebody says that its jobs may be root's.
        environment={"DIANA_ROOT_JOBS": "true"},
        around=("unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"),
    )
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(home, ignore_errors=True)
