"""Parents of warm jobs: started, asked for children, renewed, ended. Nothing here waits.

Until a child was given its word it has done nothing, and does nothing once its pipe is closed: a run whose child is
late, or whose parent is gone, may be started in the ordinary way.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from contextlib import suppress
from typing import NamedTuple

from diana.adapters.lrm.spawner.identity import boot_s
from diana.adapters.lrm.spawner.jobs import Job
from diana.adapters.lrm.spawner.launching import Launcher
from diana.adapters.lrm.spawner.processes import is_child_of_run, signal_group

SOCKET = "DIANA_WARM_FD"
"""Variable that names the socket's descriptor to a parent."""
COMES_WITHIN_S = 30.0
"""Seconds for a parent to load what it needs, and then for each child; after that its group's jobs begin one by one."""
IDLE_S = 10.0
MOST_CHILDREN = 1000
MOST_GROWTH_BYTES = 256 << 20
"""Children of a parent, and memory it took since it was ready, after which another takes its place."""
LOOK_EVERY = 50
"""Children between two looks at a parent's memory."""
_MOST_COLD = 1000
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class WarmChild(NamedTuple):
    """A child that waits for its word."""

    job: Job
    pid: int
    go: int
    """Descriptor that takes the word; closing it ends the child."""


class _Parent:
    def __init__(self, group: str, slot: int, pid: int, asks: socket.socket, mark: int) -> None:
        self.group, self.slot, self.pid, self.asks = group, slot, pid, asks
        self.mark = mark
        """Mark of what it starts that is no job's; 0: it bears none."""
        self.ready = False
        self.ready_bytes = 0
        self.children = 0
        self.heard = b""
        self.job: Job | None = None
        self.marker = b""
        """Mark that the job's child bears."""
        self.question: tuple[bytes, list[int]] | None = None
        """Question that it is asked once it is ready."""
        self.go = -1
        self.since_s = boot_s()
        """Time of the last question, or answer."""


class Parents:
    def __init__(self, launcher: Launcher, epoll: select.epoll) -> None:
        self._launcher = launcher
        self._epoll = epoll
        self._by_slot: dict[int, _Parent] = {}
        self._by_fd: dict[int, _Parent] = {}
        self._cold: dict[str, None] = {}
        """Groups whose parents failed."""

    @property
    def pids(self) -> set[int]:
        return {parent.pid for parent in self._by_fd.values()}

    def marks(self) -> set[int]:
        """Return the parents' own marks, as far as they bear any."""
        return {parent.mark for parent in self._by_fd.values() if parent.mark}

    def jobs(self) -> list[Job]:
        """Return the jobs that wait for their child."""
        return [parent.job for parent in self._by_fd.values() if parent.job is not None]

    def owns(self, fd: int) -> bool:
        return fd in self._by_fd

    def begin(self, job: Job, out: int, err: int, folder: str, scratch: str) -> bool:
        """Ask for a child of the job's; False: it has to be started in the ordinary way. OSError, NotStarted."""
        group, slot = job.claim.record.group, job.slots[0]
        if group in self._cold:
            return False
        environment = self._launcher.environment(job, scratch)
        marker = self._launcher.marker(job)
        parent = self._by_slot.get(slot)
        if parent is not None and (parent.group != group or parent.job is not None):
            self._end(parent)
            parent = None
        if parent is None:
            parent = self._start(job, environment, folder, marker)
        go_read, parent.go = os.pipe2(os.O_CLOEXEC)
        texts = [marker, os.fsencode(folder), b"%d" % len(job.argv), *map(os.fsencode, job.argv)]
        texts += [name + b"=" + value for name, value in environment.items()]
        data = b"\0".join(texts) + b"\0"
        parent.job, parent.marker, parent.since_s = job, marker, boot_s()
        parent.question = len(data).to_bytes(4, "big") + data, [os.dup(out), os.dup(err), go_read]
        if parent.ready:
            self._ask(parent)
        return parent.job is job

    def _start(self, job: Job, environment: dict[bytes, bytes], folder: str, marker: bytes) -> _Parent:
        ours, theirs = socket.socketpair()
        try:
            environment = environment | {SOCKET.encode(): b"%d" % theirs.fileno()}
            # Room for the marks of its children, which are written over it.
            name, _, value = marker.partition(b"=")
            environment[name] = b"." * (len(value) + 32)
            pid = self._launcher.launch_parent(job, environment, folder, theirs.fileno())
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        parent = _Parent(job.claim.record.group, job.slots[0], pid, ours, self._launcher.mark_of_parent(job))
        self._by_slot[parent.slot] = self._by_fd[ours.fileno()] = parent
        self._epoll.register(ours.fileno(), select.EPOLLIN)
        return parent

    def _ask(self, parent: _Parent) -> None:
        assert parent.question is not None and parent.job is not None
        # A child is born after its run began: by that it is known again.
        parent.job.started_s = parent.since_s = boot_s()
        (data, fds), parent.question = parent.question, None
        try:
            sent = socket.send_fds(parent.asks, [data], fds)
        except OSError:
            sent = 0
        for fd in fds:
            os.close(fd)
        if sent < len(data):
            # It is gone, or the environment is larger than a socket takes at once.
            self._fail(parent)

    def heard(self, fd: int) -> tuple[WarmChild | None, Job | None]:
        """Read what a parent says: a child, or a job that has to be started in the ordinary way."""
        parent = self._by_fd[fd]
        try:
            data = parent.asks.recv(64)
        except BlockingIOError:
            return None, None
        except OSError:
            data = b""
        if not data:
            job = parent.job
            self._fail(parent)
            return None, job
        parent.heard += data
        if len(parent.heard) < 4:
            return None, None
        pid, parent.heard = int.from_bytes(parent.heard[:4], "big"), parent.heard[4:]
        parent.since_s = boot_s()
        if not pid:
            parent.ready, parent.ready_bytes = True, _resident_bytes(parent.pid)
            job = parent.job
            if parent.question is not None:
                self._ask(parent)
                return None, job if parent.job is None else None
            return None, None
        if parent.job is not None and not is_child_of_run(pid, parent.marker):
            # A user's program says so: it could name any process, which this one would end some day.
            job = parent.job
            self._fail(parent)
            return None, job
        job, go, parent.job, parent.go = parent.job, parent.go, None, -1
        parent.children += 1
        if self._spent(parent):
            self._end(parent)
        return (WarmChild(job, pid, go), None) if job is not None else (None, None)

    def _spent(self, parent: _Parent) -> bool:
        if parent.children >= MOST_CHILDREN:
            return True
        if parent.children % LOOK_EVERY:
            return False
        return _resident_bytes(parent.pid) > parent.ready_bytes + MOST_GROWTH_BYTES

    def withdraw(self, job: Job) -> None:
        """Take back a job that waits: its child, if it has one already, does nothing."""
        for parent in list(self._by_fd.values()):
            if parent.job is job:
                self._end(parent)

    def late(self, now: float) -> list[Job]:
        """End parents that are idle or take too long; return the jobs that have to be started in the ordinary way."""
        out = []
        for parent in list(self._by_fd.values()):
            if parent.job is None:
                if now >= parent.since_s + IDLE_S:
                    self._end(parent)
            elif now >= parent.since_s + COMES_WITHIN_S:
                out.append(parent.job)
                self._fail(parent)
        return out

    def deadline_s(self) -> float:
        """Return when `late` has something to do at the earliest; infinite: never."""
        waits = ((p.since_s + (IDLE_S if p.job is None else COMES_WITHIN_S)) for p in self._by_fd.values())
        return min(waits, default=float("inf"))

    def end_all(self) -> None:
        for parent in list(self._by_fd.values()):
            self._end(parent)

    def _fail(self, parent: _Parent) -> None:
        while len(self._cold) >= _MOST_COLD:
            del self._cold[next(iter(self._cold))]
        self._cold[parent.group] = None
        self._end(parent)

    def _end(self, parent: _Parent) -> None:
        fd = parent.asks.fileno()
        self._epoll.unregister(fd)
        del self._by_fd[fd]
        if self._by_slot.get(parent.slot) is parent:
            del self._by_slot[parent.slot]
        parent.asks.close()
        if parent.go >= 0:
            os.close(parent.go)
        for each in parent.question[1] if parent.question is not None else ():
            os.close(each)
        parent.job, parent.go, parent.question = None, -1, None
        # It is our child until it is waited for, so that the number is its own.
        signal_group(parent.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(parent.pid, 0)


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0
