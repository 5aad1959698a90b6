"""`python -m diana.adapters.lrm.spawner DATA`: detach, take the lock, serve until nobody needs it."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

from diana.adapters.lrm.spawner.claims.claimlog import NAME as CLAIMS
from diana.adapters.lrm.spawner.claims.claimlog import LogDamaged
from diana.adapters.lrm.spawner.claims.records import LogNewer
from diana.adapters.lrm.spawner.loop import Spawner
from diana.adapters.lrm.spawner.processes import become_subreaper
from diana.model.layout import DataDir

LOCK = "lock"
LOG = "spawner.log"
_LOG_BYTES = 1 << 20
_DESCRIPTORS = 65_536


def main(root: str) -> int:
    data = DataDir(Path(root))
    _detach(data)
    lock = os.open(data.spawner / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Dies with this process, however it dies: no job inherits it.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    ran_before = bool(os.pread(lock, 1, 0))
    os.ftruncate(lock, 0)
    os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    _raise_descriptors()
    try:
        become_subreaper()
        Spawner(data, ran_before).run()
    except (OSError, LogDamaged, LogNewer, ValueError) as fault:
        if not ran_before and not (data.spawner / CLAIMS).exists():
            # It found no room for its first log: the next one is not to take that for gone.
            os.ftruncate(lock, 0)
        print(f"spawner: {fault}", file=sys.stderr, flush=True)
        return 1
    return 0


def _detach(data: DataDir) -> None:
    """Out of the node's process group, session and parentage. There is one thread and nothing is open yet, so a fork
    is harmless here, and only here."""
    if os.fork():
        os._exit(0)
    os.setsid()
    # Signals that whoever started the node ignored (nohup), no job is to ignore.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o077)
    os.chdir(data.root)
    log = data.spawner / LOG
    with suppress(FileNotFoundError):
        if log.stat().st_size > _LOG_BYTES:
            log.unlink()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
    os.close(null)


def _raise_descriptors() -> None:
    """A slot needs two descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, _DESCRIPTORS), hard))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
