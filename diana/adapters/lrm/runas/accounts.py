"""The local account under which a job runs here (PROMISES 5.7): this site's own list says it, never a peer nor the job.

Node and spawner stay the account they are; the root program `run_as.py` becomes the job's.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

from diana.adapters.lrm.runas import acl
from diana.adapters.lrm.runas.feeding import STALLED_S, Fed
from diana.adapters.lrm.runas.reading import GivenFile, given, said_by
from diana.model.layout import DataDir

PROGRAM = "/usr/local/libexec/diana-run-as"
ANYBODY = "*"
CHECKED_S = 60.0
"""Seconds for which an account that the program allowed is not asked about again."""
_WAIT_S = 60.0
_PASSABLE = ("jobs", "slots", "staged")
_BY_CONTENT = ("cache", "blobs")
"""Folders where whoever knows a content's hash may read it."""
_PRIVATE = ("groups", "collected", "logs")


class NoAccount(Exception):
    """The reason, on one line, why nobody here runs these jobs, and the mend."""


def command(program: str, verb: str, account: str) -> list[str]:
    """Return the words by which this process calls the program: straight as root, else through sudo, which asks
    nothing."""
    return [*(() if os.geteuid() == 0 else ("/usr/bin/sudo", "-n")), program, verb, account]


def call(program: str, verb: str, account: str, told: object = None, folder: Path | str | None = None) -> str:
    """Call the program; return empty, or the line with which it refused. Blocks for some 50 ms."""
    try:
        done = subprocess.run(
            command(program, verb, account),
            input=json.dumps(told).encode(),
            capture_output=True,
            cwd=folder,
            env={},
            timeout=_WAIT_S,
            check=False,
        )
    except FileNotFoundError as fault:
        return f"{fault.filename} is not there; run `diana site run-as install` as root"
    except (OSError, subprocess.TimeoutExpired) as fault:
        return f"{program}: {fault}"
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else f"{program} ended with {done.returncode}")


class PutFile(NamedTuple):
    """A file for a folder of a user's."""

    name: str
    """Its path below the folder."""
    size_bytes: int
    sha256: str
    open: Callable[[], int]
    """Gives a descriptor of the content. OSError."""


class Accounts:
    """`run_as`: VO principal, or "*" for all others, -> local account. Empty: all jobs run as the node itself.

    Safe to use from several threads; `of` blocks on the disk and on the program.
    """

    def __init__(
        self, run_as: Mapping[str, str], program: str = PROGRAM, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run_as = dict(run_as)
        self.program = program
        self._clock = clock
        self._allowed: dict[str, float] = {}

    @property
    def any(self) -> bool:
        return bool(self._run_as)

    def named(self) -> list[str]:
        return sorted(set(self._run_as.values()))

    def of(self, owner: str) -> str:
        """Return the account for an owner, allowed by the program too; empty: the node's own. NoAccount."""
        account = self.mapped(owner)
        if account and self._clock() - self._allowed.get(account, -CHECKED_S) >= CHECKED_S:
            if why := call(self.program, "check", account):
                raise NoAccount(why)
            self._allowed[account] = self._clock()
        return account

    def mapped(self, owner: str) -> str:
        """Return the account for an owner by the list alone; empty: the node's own. NoAccount. Does not block."""
        if not self._run_as:
            return ""
        account = self._run_as.get(owner) or self._run_as.get(ANYBODY, "")
        if not account:
            raise NoAccount(f"no account here runs jobs of {owner}; have its operator add {owner} to run_as")
        return account

    def release_all(self, folder: Path) -> None:
        """Release a folder when nobody remembers which account left what in it."""
        for account in self.named():
            self.release(account, folder)

    def release(self, account: str, folder: Path, names: Sequence[str] = (".",)) -> None:
        """Open to the node, to read and delete, what `account` left in those folders below `folder`. PermissionError
        says why not."""
        if why := call(self.program, "release", account, list(names), folder):
            raise PermissionError(1, why, str(folder))

    def trouble(self, owner: str, to: str) -> str:
        """Return why the account of `owner` may not write into the folder `to`, or into the nearest above it that
        exists; empty: it may."""
        try:
            self.put(owner, to, (), only_try=True)
        except (NoAccount, OSError) as fault:
            return fault.strerror or "" if isinstance(fault, OSError) else str(fault)
        return ""

    def put(self, owner: str, to: str, files: Sequence[PutFile], group: str = "", *, only_try: bool = False) -> None:
        """Write files of the group into the folder `to`, which is made where it is missing, as the account of `owner`:
        durable, each complete or not there, through no link. NoAccount; OSError, whose `strerror` is one line.
        Blocks."""
        account = self.of(owner)
        named = [(file.name, file.size_bytes, file.sha256) for file in files]
        order = {"to": to, "try": only_try, "group": group, "files": named}
        words = command(self.program, "put", account)
        # Without `with`: its end waits, and this account's own jobs may stop the program for ever.
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/", env={}
        )
        try:
            code, lines = Fed(process).end(_pieces(order, files))
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, f"account {account} wrote nothing for {STALLED_S:g} s", to) from None
        if code:
            said = lines[-1] if lines else f"{self.program} ended with {code}"
            raise OSError(_number(lines), said_by(self.program, said), to)

    def get(self, account: str, path: str, offset: int) -> AbstractAsyncContextManager[GivenFile]:
        """Open a regular file as an account, to be read from `offset`; -1: only to be looked at. No link
        is followed on the way. OSError with the number that the account met; ProgramFault."""
        return given(command(self.program, "get", account), path, offset)


def _number(lines: Sequence[str]) -> int:
    """Return the number of the error that the account met; a program of an older release does not tell it."""
    told = (line.removeprefix("errno ") for line in lines[:-1] if line.startswith("errno "))
    return next((int(number) for number in told if number.isdecimal() and len(number) < 5), errno.EACCES)


def _pieces(order: object, files: Sequence[PutFile]) -> Iterator[bytes]:
    yield json.dumps(order).encode() + b"\n"
    for file in files:
        with open(file.open(), "rb", buffering=0) as source:
            while piece := source.read(1 << 20):
                yield piece


def uid_of(account: str) -> int:
    """Return the account's uid. NoAccount where the machine knows none of that name."""
    try:
        return pwd.getpwnam(account).pw_uid
    except KeyError:
        raise NoAccount(f"account {account} is not known to this machine; make it") from None


def open_ways(data: DataDir) -> None:
    """Let accounts pass through the data directory to what is granted to them, and see nothing else of it. NoAccount
    where they cannot even come so far."""
    for name in (*_PASSABLE, *_BY_CONTENT, *_PRIVATE):
        (data.root / name).mkdir(mode=0o700, exist_ok=True)
    for entry in data.root.iterdir():
        if entry.name not in (*_PASSABLE, *_BY_CONTENT) and not entry.is_symlink():
            entry.chmod(entry.stat().st_mode & 0o7770)
    for name in ("", *_PASSABLE, *_BY_CONTENT):
        acl.let_pass(data.root / name)
    for folder in data.root.resolve().parents:
        if not folder.stat().st_mode & 0o001:
            raise NoAccount(f"{folder} lets no other account through to {data.root}; chmod o+x {folder}")


class Ways:
    """The rights that one account needs in the data directory for the jobs of one subgroup."""

    def __init__(self, data: DataDir, uid: int) -> None:
        self._named = data.root
        self._root = data.root.resolve()
        self._uid = uid
        self._open: set[Path] = set()

    def private(self, folder: Path) -> None:
        """Open a folder of the subgroup for this account alone to pass through."""
        if folder not in self._open:
            acl.grant(folder, self._uid, acl.ENTER)
            self._open.add(folder)

    def through(self, folder: Path, top: Path) -> None:
        """Let all pass through the folders from `top`, exclusive, down to `folder`."""
        if folder not in self._open:
            for each in (*reversed([p for p in folder.parents if top in p.parents]), folder):
                acl.let_pass(each)
            self._open.add(folder)

    def content(self, path: Path) -> None:
        """Open a file or folder of data that a link leads to, if it is the node's to open: files that an operator
        registered elsewhere have modes of their own."""
        real = path.resolve()
        if real in self._open or self._root not in real.parents:
            return
        self._open.add(real)
        self.through(real.parent, self._root)
        if real.is_dir():
            acl.let_read(real)

    def give(self, folder: Path) -> None:
        acl.give(folder, self._uid)

    def show(self, file: Path) -> None:
        """Let the account read a file of the node's."""
        self.through(file.parent, self._root)
        acl.grant(file, self._uid, acl.READ)

    def own(self, fd: int, *, executable: bool = False) -> None:
        """Let the account read and write a file of the node's that is its job's, and execute it."""
        rights = acl.ALL if executable else acl.READ | acl.WRITE
        # Programs that copy it copy its mode, too.
        acl.grant(fd, self._uid, rights, owner=rights)

    def lend(self, folder: Path) -> None:
        """Open the folder in which a merge command runs if it is the node's own. One that its owner named is the
        owner's business: rights in it are given to nobody, whatever it leads to by now."""
        real = folder.resolve()
        tops = (self._named, self._root)
        within = next((folder.relative_to(top) for top in tops if folder.is_relative_to(top)), None)
        if within is None or real != self._root / within:
            return
        for each in (p for p in reversed(real.parents) if self._root in p.parents):
            acl.grant(each, self._uid, acl.ENTER)
        self.give(real)


def grant_log(fd: int, uid: int) -> None:
    """Let the account open the log: a job may open its standard output by name, as /dev/stdout."""
    acl.grant(fd, uid, acl.WRITE)


def order_of(program: str, argv: Sequence[str], environment: Mapping[bytes, bytes], memory_bytes: int) -> bytes:
    """Return the text that `run` reads. It is not in argv nor environment of the root program: all see the one, the
    program believes the other."""
    told = {
        "program": program,
        "argv": list(argv),
        "environment": {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()},
        "memory_bytes": memory_bytes,
    }
    return json.dumps(told).encode()
