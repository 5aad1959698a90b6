"""A file whose syncs fail: strace answers a living process with an error, and the kernel never sees the calls."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ATTACH_S = 10.0


class Injected:
    """`count` counts the syncs that failed."""

    def __init__(self, said: Path) -> None:
        self._said = said

    @property
    def count(self) -> int:
        return self._said.read_text().count("(INJECTED)") if self._said.exists() else 0


@contextmanager
def sync_fails(pid: int, path: Path, said: Path) -> Iterator[Injected]:
    """Each fsync and fdatasync of that process on the file fails with EIO. `said`: a file for strace's words."""
    assert shutil.which("strace"), "strace is not here; install the package strace"
    calls = ("-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")
    command = ["strace", "-f", "-p", str(pid), "-P", os.fspath(path), *calls, "-o", os.fspath(said)]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert strace.stderr is not None
    waiting = threading.Timer(_ATTACH_S, strace.kill)
    waiting.start()
    # The first line tells how it resolved the path, the second that it has all threads.
    lines = []
    for line in strace.stderr:
        lines.append(line)
        if "attached" in line:
            break
    waiting.cancel()
    assert lines and "attached" in lines[-1], lines
    try:
        yield Injected(said)
    finally:
        strace.send_signal(signal.SIGINT)
        strace.communicate()
