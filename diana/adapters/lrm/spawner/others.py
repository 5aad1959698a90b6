"""Jobs that run as accounts other than the spawner's: started, signalled and tidied up after through the root program.

Orders that must wait for the program are gathered over a turn of the loop and told to one process of it, for which
nobody waits: to cancel a thousand runs costs one start of it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from diana.adapters.lrm.spawner.identity import boot_s, start_ticks
from diana.adapters.lrm.spawner.jobs import Job
from diana.adapters.lrm.spawner.processes import Scratch
from diana.adapters.lrm.spawner.segments import Segment

_AGAIN_S = 0.5
"""Seconds after which a run that is still there is signalled anew."""

_MOST_ANSWER, _ANSWER_A_RUN = 1024, 16
"""Bytes read of an answer: some, and some for each run that it may name."""
_ASK_AGAIN_S = 1.0
"""Seconds after which runs that do not heed the signal yet are looked at anew: each look is a call of sudo."""

FileAction = tuple[int, int, int]


class OtherAccounts:
    """Starts and ends jobs of other accounts. Nothing of `runas` is imported before a job needs it."""

    def __init__(self) -> None:
        self.program = ""
        self.separate = os.geteuid() != 0
        """True if processes of other accounts are out of our reach but by the program."""
        self._told: dict[tuple[str, int], dict[tuple[int, int, str], None]] = {}
        self._running: set[int] = set()
        self._to_ask: dict[tuple[str, int], dict[Job, tuple[int, int, str]]] = {}
        self._ask_again_s: dict[tuple[str, int], float] = {}
        self._asked: dict[int, tuple[list[Job], int]] = {}
        """Process of the program -> the runs that it asks, and the descriptor of its answer."""
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)

    # --- starting --------------------------------------------------------------------------------------

    def let_log(self, job: Job, segment: Segment) -> None:
        """Let the job's account open the segment. OSError."""
        account = job.claim.record.account
        if account and segment.lent_to != account:
            from diana.adapters.lrm.runas.accounts import grant_log

            grant_log(segment.fd, _uid(account))
            segment.lent_to = account

    def lend(self, job: Job, scratch: str) -> None:
        """Lend the slot's scratch directory to the job's account, until `take_back`. OSError."""
        if account := job.claim.record.account:
            from diana.adapters.lrm.runas import acl

            acl.give(scratch, _uid(account))

    def launch(
        self,
        job: Job,
        program: str,
        environment: Mapping[bytes, bytes],
        folder: str,
        actions: Sequence[FileAction],
    ) -> int:
        """Start the job as leader of a new session; return its pid. OSError, ValueError for a NUL where none can be."""
        from diana.adapters.lrm.runas.accounts import command, order_of

        if any("\0" in word for word in job.argv) or any(b"\0" in k + v for k, v in environment.items()):
            raise ValueError("a NUL byte")
        words = command(self.program, "run", job.claim.record.account)
        order = _held(order_of(os.path.join(folder, program), job.argv, environment, 0))
        try:
            # The last word on descriptor 0.
            stdin = (os.POSIX_SPAWN_DUP2, order, 0)
            return os.posix_spawn(words[0], words, {}, file_actions=[*actions, stdin], setsid=True, setsigmask=())
        finally:
            os.close(order)

    # --- ending ----------------------------------------------------------------------------------------

    def signal(self, job: Job, marker: bytes, number: int) -> None:
        """Signal a run with the next `flush`; KILL for the same run not more often than it can work."""
        if number == signal.SIGKILL:
            if boot_s() - job.killed_at_s < _AGAIN_S:
                return
            job.killed_at_s = boot_s()
        ticks = start_ticks(job.pid) or 0
        self._tell(job.claim.record.account, number, (job.pid if ticks else 0, ticks, marker.decode()))

    def ask(self, job: Job, marker: bytes, number: int) -> None:
        """Send those processes of a run that heed it a signal, with the next `flush`. Once any has got it, the run is
        asked no more, as when the program on this machine is too old to ask (`Job.asked_by_s`)."""
        under_way = any(job in jobs for jobs, _ in self._asked.values())
        again_s = self._ask_again_s.get((job.claim.record.account, number), 0.0)
        if not under_way and boot_s() >= again_s:
            ticks = start_ticks(job.pid) or 0
            runs = self._to_ask.setdefault((job.claim.record.account, number), {})
            runs[job] = (job.pid if ticks else 0, ticks, marker.decode())

    def _answered(self, pid: int, status: int) -> None:
        """Take in what a process of the program that asked said at its end."""
        jobs, answer = self._asked.pop(pid)
        with os.fdopen(answer, "rb") as file:
            file.seek(0)
            said = file.read(_MOST_ANSWER + _ANSWER_A_RUN * len(jobs))
        for at in _heeded(said, len(jobs)) if status == 0 else range(len(jobs)):
            jobs[at].asked_by_s = 0.0

    def kill_stray(self, pid: int, owners: Collection[Job]) -> None:
        """Kill a process out of our reach that belongs to one of these."""
        ticks = start_ticks(pid)
        for account in sorted({job.claim.record.account for job in owners} - {""}):
            if ticks:
                self._tell(account, signal.SIGKILL, (pid, ticks, ""))

    def _tell(self, account: str, number: int, run: tuple[int, int, str]) -> None:
        self._told.setdefault((account, number), {})[run] = None

    def flush(self) -> None:
        """Start one process of the program for each account and signal."""
        for (account, number), runs in self._told.items():
            from diana.adapters.lrm.runas.accounts import command

            words = command(self.program, "kill", account)
            told = _held(json.dumps({"signal": number, "runs": list(runs)}).encode())
            actions = [
                (os.POSIX_SPAWN_DUP2, told, 0),
                (os.POSIX_SPAWN_DUP2, self._null, 1),
                (os.POSIX_SPAWN_DUP2, self._null, 2),
            ]
            with suppress(OSError):
                self._running.add(os.posix_spawn(words[0], words, {}, file_actions=actions))
            os.close(told)
        self._told.clear()
        for (account, number), asked in self._to_ask.items():
            from diana.adapters.lrm.runas.accounts import command

            self._ask_again_s[(account, number)] = boot_s() + _ASK_AGAIN_S
            words = command(self.program, "ask", account)
            told = _held(json.dumps({"signal": number, "runs": list(asked.values())}).encode())
            answer = _held(b"")
            actions = [
                (os.POSIX_SPAWN_DUP2, told, 0),
                (os.POSIX_SPAWN_DUP2, answer, 1),
                (os.POSIX_SPAWN_DUP2, self._null, 2),
            ]
            try:
                pid = os.posix_spawn(words[0], words, {}, file_actions=actions)
            except OSError:
                os.close(answer)
            else:
                self._running.add(pid)
                self._asked[pid] = [*asked], answer
            os.close(told)
        self._to_ask.clear()

    def helpers(self) -> frozenset[int]:
        """Return the processes of the program that signal; those that are done are reaped."""
        for pid in [*self._running]:
            try:
                done, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                done, status = pid, -1
            if done:
                self._running.discard(pid)
                if pid in self._asked:
                    self._answered(pid, status)
        return frozenset(self._running)

    def take_back(self, job: Job, scratch: Scratch) -> bool:
        """True if the slot's directory was lent and is made anew. OSError when it cannot be deleted."""
        account = job.claim.record.account
        if not account:
            return False
        slot = job.slots[0]
        try:
            scratch.renew(slot)
        except PermissionError:
            from diana.adapters.lrm.runas.accounts import call

            if why := call(self.program, "release", account, ["."], scratch.path(slot)):
                raise PermissionError(1, why) from None
            scratch.renew(slot)
        return True


def _held(content: bytes) -> int:
    """Return a descriptor from which to read the content: no pipe, whose reader might never come."""
    fd = os.memfd_create("diana-run-as", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _heeded(said: bytes, runs: int) -> list[int]:
    """Return the numbers of runs that an answer names. It was written as the account, so it may hold anything."""
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        return []
    return [at for at in found if type(at) is int and 0 <= at < runs] if isinstance(found, list) else []


def _uid(account: str) -> int:
    """Return the account's uid. OSError where the machine knows no such account."""
    from diana.adapters.lrm.runas.accounts import NoAccount, uid_of

    try:
        return uid_of(account)
    except NoAccount as fault:
        raise OSError(0, str(fault), account) from None
