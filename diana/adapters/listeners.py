"""Finds the process that has a port of this machine, from what the kernel shows in /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_LISTENING = "0A"


def who_listens(port: int) -> str:
    """Return the process that listens on a port of this machine, as a noun: `another process` where this account may
    not see which."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    # In another network namespace, or gone by now: no process has it.
    for process in sorted(Path("/proc").iterdir()) if inodes else ():
        if process.name.isdecimal():
            with suppress(OSError):
                if any(_leads_to(one) in inodes for one in (process / "fd").iterdir()):
                    return f"process {process.name} ({(process / 'comm').read_text().strip()})"
    return "another process"


def _leads_to(link: Path) -> str:
    """Empty where it is gone: files are closed while somebody looks."""
    try:
        return os.readlink(link)
    except OSError:
        return ""
