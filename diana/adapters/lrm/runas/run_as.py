"""diana-run-as VERB ACCOUNT: the only part of diana that runs as root, and only until it has become ACCOUNT for good.

    check    does nothing more
    run      executes the command on standard input, in the folder it was called in
    kill     signals the runs on standard input
    ask      signals those processes of the runs on standard input that have a handler for the signal, and says of which
             runs there were any
    release  lets the node read and delete what the account left in the folders on standard input
    put      writes the files on standard input, after a line that names them, into a folder; or tries whether it could
    get      writes the file that standard input names onto standard output

All that is done with the account's rights alone. The file /etc/diana/run-as.toml, or the run-as.toml beside this file
where there is one, says which accounts it becomes for which callers:

    nodes = ["diana"]          # accounts that may call it (through sudo); "root" for a node that runs as root
    accounts = ["ann", "bob"]  # whom it becomes; never root, never below min_uid
    min_uid = 1000
    max_processes = 4096       # of one account at once, which bounds a fork bomb

That file, this one and all folders above them must be root's and writable by nobody else. No shell is started, nothing
is looked up in PATH, no environment of the caller reaches anything, and standard input is read after root was given up.
Standard library only, Python 3.11, run with -IS. Exit 125: refused, with one line on standard error.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import pwd
import resource
import signal
import stat
import sys
import time
import tomllib
from typing import Any, BinaryIO, NoReturn

ALLOWED = "/etc/diana/run-as.toml"
REFUSED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
NOT_PUT = 1
WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PART = ".diana-part-"
LOCKS = b"Max file locks"
MAKE, STOP, FAIL = "make", "stop", "fail"
MOST_ROUNDS = 100
KEYS = {"nodes": [], "accounts": [], "min_uid": 1000, "max_processes": 4096}


def refuse(why: str) -> NoReturn:
    sys.stderr.write(f"diana-run-as: {why}\n")
    sys.exit(REFUSED)


def check_roots_own(path: str) -> None:
    """Whoever can change the file, or put another in its place, could become anybody it allows."""
    path = os.path.realpath(path)
    while True:
        status = os.lstat(path)
        shared = status.st_mode & 0o022 and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)
        if status.st_uid != 0 or shared:
            refuse(f"{path}: must be root's and writable by nobody else; chown root and chmod go-w")
        if path == "/":
            return
        path = os.path.dirname(path)


def allowed() -> tuple[str, dict[str, Any]]:
    beside = os.path.join(os.path.dirname(os.path.realpath(__file__)), "run-as.toml")
    path = beside if os.path.exists(beside) else ALLOWED
    check_roots_own(__file__)
    try:
        check_roots_own(path)
        with open(path, "rb") as file:
            table = {**KEYS, **tomllib.load(file)}
    except (OSError, ValueError) as fault:
        refuse(f"{path}: {fault}; run `diana site run-as install` as root")
    texts = [table["nodes"], table["accounts"]]
    numbers = [table["min_uid"], table["max_processes"]]
    good = all(type(each) is list and all(type(name) is str for name in each) for each in texts)
    if len(table) != len(KEYS) or not good or not all(type(each) is int and each > 0 for each in numbers):
        refuse(f"{path}: want nodes and accounts, lists of names, and min_uid and max_processes, numbers above 0")
    return path, table


def entry_of(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def become(account: str) -> tuple[pwd.struct_passwd, int]:
    """This process is `account`'s from here on, or it ends."""
    if os.geteuid() != 0:
        refuse("wants to be root at first; call it through sudo")
    path, table = allowed()
    caller = int(os.environ.get("SUDO_UID", "0"))
    if caller not in [found.pw_uid for found in map(entry_of, table["nodes"]) if found]:
        refuse(f"uid {caller} may not use it; add its account to nodes in {path}")
    found = entry_of(account)
    if account not in table["accounts"] or found is None:
        refuse(f"account {account!r} is not allowed; add it to accounts in {path}")
    if found.pw_uid < table["min_uid"] or found.pw_uid == 0 or found.pw_gid == 0:
        ids = f"uid {found.pw_uid}, group {found.pw_gid}"
        refuse(f"account {account!r} has {ids}; root and accounts of the system never run jobs")
    os.initgroups(account, found.pw_gid)
    if 0 in os.getgroups():
        refuse(f"account {account!r} is in group 0; take it out of root's group")
    os.setresgid(found.pw_gid, found.pw_gid, found.pw_gid)
    os.setresuid(found.pw_uid, found.pw_uid, found.pw_uid)
    if os.getresuid() != (found.pw_uid,) * 3 or os.getresgid() != (found.pw_gid,) * 3:
        refuse("root was not given up")
    try:
        os.setuid(0)
    except PermissionError:
        return found, int(table["max_processes"])
    refuse("root could be had back")


def told() -> Any:
    with os.fdopen(os.dup(0), "rb") as file:
        return json.loads(file.read())


def run(found: pwd.struct_passwd, max_processes: int) -> None:
    order = told()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.closerange(3, 1 << 20)
    mine = {"HOME": found.pw_dir, "USER": found.pw_name, "LOGNAME": found.pw_name, "SHELL": found.pw_shell}
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = max_processes if hard == resource.RLIM_INFINITY else min(max_processes, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    if order["memory_bytes"]:
        resource.setrlimit(resource.RLIMIT_DATA, (order["memory_bytes"],) * 2)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o027)
    try:
        os.execve(order["program"], order["argv"], {**mine, **order["environment"]})
    except OSError as fault:
        sys.stderr.write(f"diana: {order['program']}: {fault.strerror} for account {found.pw_name}\n")
        sys.exit(NOT_FOUND if isinstance(fault, FileNotFoundError) else NOT_EXECUTABLE)


def kill(found: pwd.struct_passwd, max_processes: int) -> None:
    """A run is known by its leader, which began at a certain tick, the session of that number, a mark in its
    environment, and the limit of file locks that is made of it. The kernel lets this account's processes be signalled
    and no others'."""
    order = told()
    for _ in range(MOST_ROUNDS if order["signal"] == signal.SIGKILL else 1):
        known = known_by(order["runs"])
        # No short cut: all are signalled in each round, or what forks would keep ahead.
        hits = [signalled(pid, order["signal"]) for pid in pids() if run_of(pid, *known) >= 0]
        if not any(hits):
            return
        time.sleep(0.01)


def ask(found: pwd.struct_passwd, max_processes: int) -> None:
    """Processes without a handler would die of the signal. Standard output is JSON: the numbers of the runs, as they
    are listed, of which any had one."""
    order, heeded = told(), set()
    known = known_by(order["runs"])
    for pid in pids():
        at = run_of(pid, *known)
        if at >= 0 and handles(pid, order["signal"]) and signalled(pid, order["signal"]):
            heeded.add(at)
    print(json.dumps(sorted(heeded)))


def known_by(runs: list[tuple[int, int, str]]) -> tuple[dict[int, int], dict[bytes, int]]:
    """The leaders of the runs that live, or are gone, and the marks; each with the number of its run."""
    leaders = {}
    for at, (pid, ticks, _) in enumerate(runs):
        if pid and (fields_of(pid) or [b""] * 20)[19] in (b"", b"%d" % ticks):
            leaders[pid] = at
    marks = {mark.encode(): at for at, (_, _, mark) in enumerate(runs) if mark}
    return leaders, marks | {limit_of(mark): at for mark, at in marks.items()}


def limit_of(mark: bytes) -> bytes:
    """The limit of file locks that the node gives to what bears this mark, as /proc says it."""
    return b"%d" % (1 << 62 | int.from_bytes(hashlib.blake2b(mark, digest_size=8).digest()) >> 4)


def pids() -> list[int]:
    return [int(pid) for pid in os.listdir("/proc") if pid.isdecimal()]


def run_of(pid: int, leaders: dict[int, int], marks: dict[bytes, int]) -> int:
    """The number of the run that a process belongs to; -1: to none, or this account cannot see it."""
    fields = fields_of(pid)
    if pid == os.getpid() or not fields or fields[0] in (b"Z", b"X"):
        return -1
    for leader in (pid, int(fields[3])):
        if leader in leaders:
            return leaders[leader]
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            line = next((line for line in file if line.startswith(LOCKS)), LOCKS + b" 0")
        at = marks.get(line[len(LOCKS) :].split()[0], -1)
        if at >= 0:
            return at
        with open(f"/proc/{pid}/environ", "rb") as file:
            return next((marks[text] for text in file.read().split(b"\0") if text in marks), -1)
    except OSError:
        return -1


def handles(pid: int, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            caught = next((line for line in file if line.startswith(b"SigCgt:")), b"SigCgt: 0")
    except OSError:
        return False
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def signalled(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def fields_of(pid: int) -> list[bytes]:
    """/proc/PID/stat from the state letter on: 3 is the session, 19 the start in ticks; [] when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def release(found: pwd.struct_passwd, max_processes: int) -> None:
    """Open to the node the files that are this account's own and have no other name elsewhere; links are left alone."""
    for _, folders, files, at in itertools.chain(*(os.fwalk(top) for top in told())):
        for name in folders + files:
            status = os.lstat(name, dir_fd=at)
            folder = stat.S_ISDIR(status.st_mode)
            if status.st_uid == os.getuid() and (folder or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)):
                os.chmod(name, stat.S_IMODE(status.st_mode) | (0o777 if folder else 0o444), dir_fd=at)


def put(found: pwd.struct_passwd, max_processes: int) -> None:
    """Standard input is one line of JSON, {"to": FOLDER, "try": BOOL, "group": GROUP, "files": [[NAME, SIZE, SHA-256],
    ...]}, and the contents one after the other. No link is followed, on the way to the folder or below it: whatever
    somebody swaps there meanwhile is the old folder or an error. Files are durable, each complete or not there."""
    os.umask(0o022)
    with os.fdopen(os.dup(0), "rb") as given:
        order = json.loads(given.readline())
        to = order["to"]
        try:
            at = walk(os.open("/", WALK), to.split("/"), STOP if order["try"] else MAKE)
            if order["try"]:
                os.mkdir(PART + str(os.getpid()), dir_fd=at)
                os.rmdir(PART + str(os.getpid()), dir_fd=at)
            for name, size, sha256 in order["files"]:
                *folders, last = name.split("/")
                below = walk(os.dup(at), folders, MAKE)
                put_file(given, below, order.get("group", ""), last, size, sha256)
                os.close(below)
        except OSError as fault:
            # Only the last line is read by an older node.
            sys.stderr.write(f"errno {fault.errno}\n{to}: {fault.strerror} for account {found.pw_name}\n")
            sys.exit(NOT_PUT)


def get(found: pwd.struct_passwd, max_processes: int) -> None:
    """Standard input is JSON, {"path": FILE, "offset": N}. Standard output is one line of JSON, {"size": N,
    "mtime_ns": N} or {"errno": N}, and then the content from `offset` on; none where that is below 0. Only a regular
    file is read, and no link is followed on the way to it: whatever somebody swaps there meanwhile is the old folder
    or an error."""
    order = told()
    *folders, name = order["path"].split("/")
    try:
        at = walk(os.open("/", WALK), folders, FAIL)
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
    except OSError as fault:
        print(json.dumps({"errno": fault.errno}))
        return
    piece = json.dumps({"size": status.st_size, "mtime_ns": status.st_mtime_ns}).encode() + b"\n"
    at_byte = order["offset"]
    with contextlib.suppress(BrokenPipeError):
        while piece:
            while piece:
                piece = piece[os.write(1, piece) :]
            if at_byte >= 0:
                piece = os.pread(fd, 1 << 18, at_byte)
                at_byte += len(piece)


def walk(at: int, parts: list[str], missing: str) -> int:
    """The descriptor of a folder below `at`, which is closed. Where one is missing: MAKE it, STOP at the last that is
    there, or FAIL."""
    for part in parts:
        if part in ("", "."):
            continue
        if part == "..":
            raise OSError(errno.EINVAL, "no path that leads upwards is taken")
        try:
            below = os.open(part, WALK, dir_fd=at)
        except FileNotFoundError:
            if missing == FAIL:
                raise
            if missing == STOP:
                return at
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            sync(at)
            below = os.open(part, WALK, dir_fd=at)
        except NotADirectoryError:
            raise OSError(errno.ENOTDIR, f"{part} is a link or a file, not a folder,") from None
        os.close(at)
        at = below
    return at


def put_file(given: BinaryIO, at: int, group: str, name: str, size: int, sha256: str) -> None:
    """Write one file. Two groups may have one of the same name: each has a part of its own, and the later one stays."""
    part = PART + hashlib.sha256(f"{group}/{name}".encode()).hexdigest()[:24]
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part, dir_fd=at)
    digest, left = hashlib.sha256(), size
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=at)
    try:
        with os.fdopen(fd, "wb") as file:
            while left and (chunk := given.read(min(left, 1 << 20))):
                digest.update(chunk)
                file.write(chunk)
                left -= len(chunk)
            file.flush()
            os.fsync(file.fileno())
        if left or digest.hexdigest() != sha256:
            raise OSError(errno.EIO, f"{name} came with another content")
        os.rename(part, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        os.unlink(part, dir_fd=at)
        raise
    sync(at)


def sync(at: int) -> None:
    """Make the names in a folder durable; one whose names may not be read cannot be."""
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
    except PermissionError:
        return
    os.fsync(fd)
    os.close(fd)


VERBS = {
    "check": lambda found, max_processes: None,
    "run": run,
    "kill": kill,
    "ask": ask,
    "release": release,
    "put": put,
    "get": get,
}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in VERBS:
        refuse("usage: diana-run-as check|run|kill|ask|release|put|get ACCOUNT")
    VERBS[sys.argv[1]](*become(sys.argv[2]))
