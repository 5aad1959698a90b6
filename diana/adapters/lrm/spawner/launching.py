"""Turns a claimed run into a process: program, environment, working folder, descriptors.

argv goes to posix_spawn as a list; no shell ever sees it. The environment is built from nothing, so that no secret of
the node reaches a job.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from diana.adapters.lrm.cgroups.per_job import JobCgroups
from diana.adapters.lrm.own_program import with_diana
from diana.adapters.lrm.spawner import steps
from diana.adapters.lrm.spawner.behind.marks import Marks, number_of
from diana.adapters.lrm.spawner.jobs import Job
from diana.adapters.lrm.spawner.memory import first_to_go
from diana.adapters.lrm.spawner.others import FileAction, OtherAccounts
from diana.adapters.lrm.spawner.processes import MARKER
from diana.adapters.lrm.spawner.protocol import Order
from diana.adapters.lrm.spawner.segments import Segment
from diana.adapters.places import is_noexec
from diana.model.ids import SubgroupId
from diana.model.job.own_folder import DATA, HERE, SUBMIT_DIR, may_set
from diana.model.layout import DataDir, flat

NOT_FOUND_EXIT = 127
"""Exit code a shell gives for a command that could not be started."""
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_RESET = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores; a job would inherit that."""
_OF_ACCOUNT = frozenset({"HOME", "USER", "LOGNAME", "SHELL"})
_SUBMIT_DIR, _HERE = SUBMIT_DIR.encode(), HERE.encode()
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SHELL")


class NotStarted(Exception):
    """The fault of a start, on one line: what, where, the mend."""


class TryLater(Exception):
    """A start that failed since the machine is out of processes or memory just now."""


class Launcher:
    def __init__(self, data: DataDir, others: OtherAccounts) -> None:
        self._data = data
        self.site = self.machine = ""
        self.hides_gpus = False
        """True while GPUs are handed out here: a job that asked for none sees none."""
        self.pins = False
        """True: a job runs on the processors of its slots alone."""
        self._processors = sorted(os.sched_getaffinity(0))
        """Processors that this process may use, of which each slot has one."""
        self._others = others
        self.cgroups = JobCgroups(data.spawner)
        self.marks = Marks()
        folder = os.stat(data.spawner)
        self._marker = MARKER + f"{folder.st_dev}-{folder.st_ino}".encode()
        self._base = {b"PATH": os.fsencode(with_diana(os.environ.get("PATH") or _DEFAULT_PATH))}
        self._way = os.fsencode(os.path.abspath(data.root))
        for name in _PASSED_ON:
            if value := os.environ.get(name):
                self._base[name.encode()] = os.fsencode(value)
        self._base_as_other = {name: value for name, value in self._base.items() if name.decode() not in _OF_ACCOUNT}
        self._programs: dict[tuple[str, str], str] = {}
        self._here = ""

    def base(self, order: Order) -> dict[bytes, bytes]:
        """Return the environment shared by an order's jobs. Our DIANA_* come last: a spec cannot forge them. But what
        it says of the node that its jobs speak to holds."""
        out = self._base_as_other.copy() if order.account else self._base.copy()
        if not order.contained:
            out[DATA.encode()] = self._way
        for name, value in order.environment:
            out[name.encode()] = value.encode()
        out[b"DIANA_GROUP"] = order.group.encode()
        out[b"DIANA_SITE"] = self.site.encode()
        out[b"DIANA_MACHINE"] = self.machine.encode()
        out[b"DIANA_EPOCH"] = b"%d" % order.epoch
        out[b"DIANA_PROCESSORS"] = b"%d" % order.processors
        return out

    @property
    def marker_prefix(self) -> bytes:
        """The beginning of the markers of all runs of this data directory."""
        return self._marker + b":"

    def leave(self) -> None:
        """Forget the scratch directory this process stands in: it may be another one now, of the same name."""
        self._here = ""

    def marker(self, job: Job) -> bytes:
        """Return the environment entry by which the processes of this run, and of no other, are known."""
        record = job.claim.record
        return b"%b:%b:%d:%d:%d" % (self._marker, record.subgroup.encode(), record.epoch, job.index, job.attempt)

    def mark(self, job: Job) -> int:
        """Return the mark of this run's processes; 0: none can be put on them."""
        return number_of(self.marker(job)) if self.marks.given else 0

    def mark_of_parent(self, job: Job) -> int:
        """Return the mark of the warm parent that is started for this run, and of what it starts that is no job's."""
        return number_of(self.marker(job) + b":parent") if self.marks.given else 0

    def run_name(self, job: Job) -> str:
        """Return the name of a run's control group, of what its claim says."""
        return f"{flat(SubgroupId(job.claim.record.subgroup))}.{job.claim.record.epoch}.{job.index}.{job.attempt}"

    def launch(self, job: Job, segment: Segment, scratch: str) -> int:
        """Start the run as leader of a new session; return its pid. NotStarted, TryLater."""
        environment = self.environment(job, scratch)
        folder = self.folder(job, scratch)
        opened: list[int] = []
        try:
            # The working folder is this process's own just before the call: there is one thread, and posix_spawn
            # has no portable way to change it. One job in two needs no change at all.
            if folder != self._here:
                self._here = ""
                os.chdir(folder)
                # A scratch directory stays; a job's own may be deleted and made anew under the same name.
                self._here = folder if folder == scratch else ""
            actions = self._own_files(job, segment, opened) if job.stdout or job.stderr else segment.actions
            program = self._program(job.argv[0], environment[b"PATH"].decode())
            if self.pins:
                # A child has the processors of its parent from its first instruction on.
                os.sched_setaffinity(0, self._of_slots(job))
            pid = self._spawn(job, program, environment, folder, actions)
        except OSError as fault:
            raise self._explained(fault, job, folder, environment[b"PATH"].decode()) from None
        except ValueError as fault:
            raise NotStarted(f"{_name(job)}: {fault} in the command, its arguments or environment") from None
        finally:
            for fd in opened:
                os.close(fd)
            if self.pins:
                with suppress(OSError):
                    os.sched_setaffinity(0, self._processors)
        if not job.claim.record.account:
            first_to_go(pid)
        return pid

    def _spawn(
        self, job: Job, program: str, environment: dict[bytes, bytes], folder: str, actions: Sequence[FileAction]
    ) -> int:
        """Start it with its mark and within a control group of its own, where it can have them. What looks after a
        container is no job's: a rootless podman has one such process for all its containers."""
        record, pid = job.claim.record, 0
        job.cgroup = "" if record.contained else self.cgroups.enter(self.run_name(job))
        job.mark = 0 if record.contained else self.mark(job)
        try:
            if job.mark:
                self.marks.put_on(job.mark)
            if record.account:
                pid = self._others.launch(job, program, environment, folder, actions)
            else:
                pid = os.posix_spawn(
                    program, job.argv, environment, file_actions=actions, setsid=True, setsigdef=_RESET, setsigmask=()
                )
        finally:
            if job.mark:
                self.marks.take_off()
            if job.cgroup and not self.cgroups.leave():
                job.cgroup = ""
            elif not pid:
                self.cgroups.remove(job.cgroup)
                job.cgroup = ""
        self.cgroups.limit(job.cgroup, record.memory_bytes)
        return pid

    def launch_parent(self, job: Job, environment: dict[bytes, bytes], folder: str, asks: int) -> int:
        """Start the job's command as a warm parent (`warm/parents.py`), which inherits the descriptor `asks` and says
        nothing but there, under its own mark. OSError, NotStarted, TryLater."""
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in range(3)]
        os.set_inheritable(asks, True)
        self._here = ""
        try:
            os.chdir(folder)
            if self.pins:
                os.sched_setaffinity(0, self._of_slots(job))
            program = self._program(job.argv[0], environment[b"PATH"].decode())
            if mark := self.mark_of_parent(job):
                self.marks.put_on(mark)
            pid = os.posix_spawn(
                program, job.argv, environment, file_actions=actions, setsid=True, setsigdef=_RESET, setsigmask=()
            )
        except OSError as fault:
            raise self._explained(fault, job, folder, environment[b"PATH"].decode()) from None
        finally:
            self.marks.take_off()
            os.close(null)
            if self.pins:
                with suppress(OSError):
                    os.sched_setaffinity(0, self._processors)
        first_to_go(pid)
        return pid

    def _of_slots(self, job: Job) -> set[int]:
        """The processors of its slots; with more slots than processors some share one."""
        return {self._processors[slot % len(self._processors)] for slot in job.slots}

    def find(self, job: Job) -> None:
        """Look for the command of a run that is to begin later. NotStarted: it is not there, or may not be executed."""
        path = job.claim.base[b"PATH"].decode()
        path = next((value for name, value in job.environment if name == "PATH"), path)
        record, name = job.claim.record, job.argv[0]
        try:
            self._program(name, path)
            # What lies in the job's own directory is found out at its start.
            if "/" in name and (os.path.isabs(name) or not record.own_directory):
                _executable(name, for_others=bool(record.account))
        except OSError as fault:
            why = self._explained(fault, job, "/", path)
            raise (why if isinstance(why, NotStarted) else NotStarted(str(why))) from None

    def environment(self, job: Job, scratch: str) -> dict[bytes, bytes]:
        out = job.claim.base.copy()
        if job.environment:
            for name, value in job.environment:
                if may_set(name):
                    out[name.encode()] = value.encode()
        for name, value in job.met:
            out[name.encode()] = value.encode()
        index = b"%d" % job.index
        out[b"DIANA_INDEX"] = index
        out[b"DIANA_JOB"] = out[b"DIANA_GROUP"] + b"." + index
        out[b"DIANA_ATTEMPT"] = b"%d" % job.attempt
        out[b"DIANA_SLOT"] = b"%d" % job.slots[0]
        out[b"TMPDIR"] = scratch.encode()
        # A spec cannot forge it.
        out.pop(b"DIANA_CHECKPOINT", None)
        out.pop(b"DIANA_REPORT", None)
        if job.claim.reports:
            out[b"DIANA_REPORT"] = f"{scratch}/{steps.NAME}".encode()
        if out.get(_SUBMIT_DIR) == _HERE:
            out[_SUBMIT_DIR] = self.folder(job, scratch).encode()
        if job.checkpoint:
            out[b"DIANA_CHECKPOINT"] = job.checkpoint.encode()
        if job.gpus or self.hides_gpus:
            out[b"CUDA_VISIBLE_DEVICES"] = out[b"DIANA_GPUS"] = ",".join(job.gpus).encode()
            # AMD's runtime takes an empty list for all there are. What ROCR_VISIBLE_DEVICES leaves is numbered anew, so
            # that the names would mean others beneath it.
            out[b"HIP_VISIBLE_DEVICES"] = ",".join(job.gpus).encode() or b"-1"
            out.pop(b"ROCR_VISIBLE_DEVICES", None)
        name_of_run, _, value_of_run = self.marker(job).partition(b"=")
        out[name_of_run] = value_of_run
        return out

    def folder(self, job: Job, scratch: str) -> str:
        claim = job.claim
        if claim.directory:
            return claim.directory
        if claim.record.own_directory:
            return str(self._data.job(SubgroupId(claim.record.subgroup), claim.record.epoch, job.index))
        return scratch

    def _own_files(self, job: Job, segment: Segment, opened: list[int]) -> tuple[tuple[int, int, int], ...]:
        null, out, err = segment.actions
        if job.stdout:
            opened.append(create_below(job.stdout))
            out = (os.POSIX_SPAWN_DUP2, opened[-1], 1)
        if job.stderr == job.stdout:
            err = (os.POSIX_SPAWN_DUP2, out[1], 2)
        elif job.stderr:
            opened.append(create_below(job.stderr))
            err = (os.POSIX_SPAWN_DUP2, opened[-1], 2)
        return (null, out, err)

    def _program(self, name: str, path: str) -> str:
        if "/" in name:
            return name
        known = self._programs.get((name, path))
        if known is None:
            known = _which(name, path)
            if len(self._programs) > 1000:
                self._programs.clear()
            self._programs[name, path] = known
        return known

    def _explained(self, fault: OSError, job: Job, folder: str, path: str) -> Exception:
        name = job.argv[0]
        self._programs.pop((name, path), None)
        where = f"{_name(job)} at site {self.site}"
        if fault.errno in (errno.EAGAIN, errno.ENOMEM):
            return TryLater(f"{where}: {fault.strerror}")
        if not os.path.isdir(folder):
            return NotStarted(f"{where}: working folder {folder} is not there")
        if fault.errno == errno.ENOENT and not os.path.exists(name):
            looked = "" if "/" in name else f" (PATH there: {path})"
            return NotStarted(f"{where}: command {name!r} not found; install it there or give its path{looked}")
        if fault.errno == errno.ENOENT:
            return NotStarted(f"{where}: the interpreter in the first line of {name!r} was not found; correct it")
        if fault.errno == errno.ENOEXEC:
            return NotStarted(f"{where}: {name!r} is no program; give a script a first line like #!/bin/sh")
        if fault.errno == errno.EACCES and _is_on_noexec(os.path.join(folder, name)):
            return NotStarted(
                f"{where}: {name!r} lies on a file system mounted noexec; start a script by its interpreter"
                f" (sh {name}), or have the site's operator remount that with exec"
            )
        if fault.errno == errno.EACCES:
            return NotStarted(f"{where}: {name!r} may not be executed; set its mode to 755")
        return NotStarted(f"{where}: {name!r}: {fault.strerror}")


def _name(job: Job) -> str:
    return f"{job.claim.record.group}.{job.index}"


def _is_on_noexec(path: str) -> bool:
    """True if it is the mount that forbids a file's execution, and not its mode."""
    try:
        return bool(os.stat(path).st_mode & 0o111) and is_noexec(path)
    except OSError:
        return False


def _executable(name: str, *, for_others: bool) -> None:
    """FileNotFoundError or PermissionError where a file cannot be executed. What this account cannot see of a job
    `for_others` is not held against it."""
    try:
        mode = os.stat(name).st_mode
    except PermissionError:
        if for_others:
            return
        raise
    if not (stat.S_ISREG(mode) and mode & 0o111 and (for_others or os.access(name, os.X_OK))):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)


def _which(name: str, path: str) -> str:
    """Look as execvp does; FileNotFoundError or, if only files without execute permission were met, PermissionError."""
    denied = False
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder or ".", name)
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            denied = True
    if denied:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def create_below(path: str) -> int:
    """Open a new file for appending at a relative path below the current folder, making its folders; no link is
    followed, `..` and absolute paths are refused with OSError."""
    parts = Path(path).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise OSError(errno.EINVAL, "not a path below the job's directory", path)
    at = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            with suppress(FileExistsError):
                # The mode less our umask, or as an access control list above says.
                os.mkdir(part, 0o770, dir_fd=at)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(parts[-1], flags, 0o600, dir_fd=at)
    finally:
        os.close(at)
