"""The program that runs in a job: calls one entry of the payload and writes the outcomes down.

It travels with each group, in one file with the payload and cloudpickle, which the site's own Python runs as it is
(`packing.py` makes it). It uses the standard library alone.

A site that starts warm programs (`diana/adapters/lrm/spawner/warm`) starts it with DIANA_WARM_FD, the end of a socket.
Then it calls nothing itself: it loads what the calls need and forks a child for each job that it is asked for
(`serve`).
"""

import os
import sys
from contextlib import suppress

TYPE_CHECKING = False
"""`typing` itself costs more than all else here."""
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, BinaryIO, NoReturn

CALLS = "_diana_calls"
"""File in the job's directory: payload, program and cloudpickle."""
RESULT = "_diana_result-"
"""Name in the job's directory of the file of outcomes, before the job's index."""
VALUE, FAULT, UNTOLD, SPENT = b"V", b"E", b"U", b"S"
"""Kinds of outcomes: a pickled value; a pickled exception with its traceback; the text alone of what cannot be
pickled. Behind them stand the seconds that the calls took."""
LENGTH_BYTES = 8
SOCKET = "DIANA_WARM_FD"
"""Variable that names the descriptor of the socket over which children are asked for."""
MARKER = b"DIANA_RUN="
MOST_FUNCTIONS = 16
"""Functions that a warm parent keeps loaded."""
MOST_SAID = 64 << 10
"""Bytes of what loading printed that each child prints again."""

loaded: "dict[bytes, tuple[tuple[Callable[..., Any], dict[str, Any]] | None, BaseException | None]]" = {}
"""Functions by their pickles, each with names of the user's `__main__`, or why they could not be loaded."""
names: "dict[str, Any]" = {}
"""Names of the user's `__main__`, in a process that a call started by multiprocessing."""


def begin() -> None:
    """Carry out one job's calls, or serve as a warm parent; called by the file's `__main__`."""
    here = os.getcwd()
    # The first place is where the file lies.
    sys.path[:1] = [os.path.join(here, CALLS), here]
    # The user's own, in which nothing of ours is found: it has the names that come with the calls.
    sys.modules["__main__"] = type(sys)("__main__")
    own_files(here)
    if SOCKET in os.environ:
        serve(int(sys.argv[1]), here)
    carry_out(int(sys.argv[1]))


def own_files(here: str) -> None:
    """Have multiprocessing start its processes with this job's file and folder."""
    vars(sys.modules["__main__"])["__file__"] = os.path.join(here, CALLS)
    if process := sys.modules.get("multiprocessing.process"):
        vars(process)["ORIGINAL_DIR"] = here


def named(name: str) -> object:
    """The value of a name in the user's `__main__`, in a process that a call started by multiprocessing."""
    if not (name.startswith("__") and name.endswith("__")):
        if name not in names:
            with open(os.path.dirname(__file__), "rb") as payload:
                function, calls = entry(payload, int(sys.argv[1]))
            found = load(function)[0]
            names.update(found[1] if found else {})
            if name not in names:
                unpacked(calls, names)
        if name in names:
            return names[name]
    raise AttributeError(f"module '__main__' has no attribute {name!r}")


def carry_out(index: int) -> None:
    """Do the calls of a job. Its result file is there once it is whole: a call that ends the process leaves none."""
    # A call may go to another folder.
    path = os.path.abspath(f"{RESULT}{index}")
    with open(f"{path}.new", "wb") as out:
        write_outcomes(index, out)
    os.replace(f"{path}.new", path)


def write_outcomes(index: int, out: "BinaryIO") -> None:
    import time

    function, calls = parts_of(index)
    found, fault = loaded.get(function) or load(function)
    try:
        if found is None:
            raise fault or LookupError("no function")
        call, main = found[0], vars(sys.modules["__main__"])
        main.update(found[1])
        pairs = unpacked(calls, main)
    except BaseException as error:
        if error is not fault:
            error.add_note(UNPACKED)
        put(out, *told(error))
        return
    began_s, own = time.monotonic(), os.getpid()
    for arguments, keywords in pairs:
        # What a child of the call still had to write would come twice.
        out.flush()
        try:
            value = call(*arguments, **keywords)
            if os.getpid() != own:
                # A child that the call forked: it ends here, and the outcome is its parent's.
                sys.exit()
        except BaseException as error:
            if os.getpid() != own:
                raise
            # Whoever reads the results stops here, too.
            put(out, *told(error))
            break
        try:
            data = packed(value)
        except Exception as error:
            what = getattr(call, "__name__", repr(call))
            text = f"{what} returned a {type(value).__qualname__} that cannot be pickled ({error!r})"
            put(out, UNTOLD, traced(error), f"{text}; let it return plain data".encode())
            break
        put(out, VALUE, "", data)
    put(out, SPENT, repr(time.monotonic() - began_s), b"")


def unpacked(calls: bytes, main: "dict[str, Any]") -> "list[tuple[Any, Any]]":
    """Arguments and keywords of all calls: lists of them, pickled one after the other, each with names of the user's
    `__main__`, which are put into `main`."""
    import io
    import pickle

    pairs, source = [], io.BytesIO(calls)
    while source.tell() < len(calls):
        some, came = pickle.load(source)
        pairs += some
        main.update(came)
    return pairs


UNPACKED = "It was met while the call was unpacked; docs/python.md says how modules travel."


def load(function: bytes) -> "tuple[tuple[Callable[..., Any], dict[str, Any]] | None, BaseException | None]":
    """The function with names of the user's `__main__`, or why it cannot be loaded here."""
    import pickle

    try:
        return pickle.loads(function), None
    except BaseException as error:
        error.add_note(UNPACKED)
        return None, error


def parts_of(index: int) -> "list[bytes]":
    with open(CALLS, "rb") as payload:
        return entry(payload, index)


def entry(payload: "BinaryIO", index: int) -> "list[bytes]":
    """Function and calls, both pickled, of the job `index`: four numbers in a table that the file's last one leads
    to."""
    payload.seek(-LENGTH_BYTES, os.SEEK_END)
    payload.seek(number(payload) + 4 * LENGTH_BYTES * index)
    spots = [number(payload) for _ in range(4)]
    found = []
    for start, length in (spots[:2], spots[2:]):
        payload.seek(start)
        found.append(payload.read(length))
    return found


def number(payload: "BinaryIO") -> int:
    return int.from_bytes(payload.read(LENGTH_BYTES), "little")


def packed(value: object) -> bytes:
    """Plain pickle where that will do: it starts three times as fast."""
    import pickle

    try:
        return pickle.dumps(value, 5)
    except Exception:
        import cloudpickle  # type: ignore[import-untyped]

        return bytes(cloudpickle.dumps(value, 5))


def told(error: BaseException) -> "tuple[bytes, str, bytes]":
    """Kind, traceback and content. Many an exception can be pickled and not be unpickled."""
    import pickle

    try:
        data = packed(error)
        pickle.loads(data)
    except Exception:
        return UNTOLD, traced(error), f"{type(error).__qualname__}: {error}".encode("utf-8", "backslashreplace")
    return FAULT, traced(error), data


def traced(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def put(out: "BinaryIO", kind: bytes, text: str, data: bytes) -> None:
    trace = text.encode("utf-8", "backslashreplace")
    out.write(kind + len(trace).to_bytes(LENGTH_BYTES, "little") + len(data).to_bytes(LENGTH_BYTES, "little"))
    out.write(trace)
    out.write(data)


# --- the warm parent ---------------------------------------------------------------------------------------
#
# It is asked over a stream: four bytes of length, then texts that end with NUL: the marker of the run, its working
# folder, the number of words of its command, these words, its environment. Three descriptors come along: its standard
# output and error, and a pipe from which it reads one byte before it does anything. The child answers with its pid,
# as four bytes, once it leads a session of its own, bears its marker and is a child of whoever asked. The parent says
# a pid of 0 when it is ready. It ends with the socket.


def serve(index: int, here: str) -> "NoReturn":
    """Load what this job's call needs, then fork a child for each job that is asked for."""
    import gc
    import socket
    import threading

    asks = socket.socket(fileno=int(os.environ[SOCKET]))
    place, fork = environment_place(), sibling_fork()
    said = os.memfd_create("said")
    os.dup2(said, 1)
    os.dup2(said, 2)
    try:
        import pickle  # noqa: F401

        import cloudpickle  # noqa: F401
    except ImportError:
        pass
    keep(parts_of(index)[0])
    flush()
    if threading.active_count() > 1:
        # Threads do not come along into a child.
        os._exit(0)
    local = [module for module in list(sys.modules.values()) if lies_in(module, here)]
    entries: set[bytes] = set()
    asks.sendall(bytes(4))
    while True:
        data, fds = asked(asks)
        run, folder, count, *texts = data.split(b"\0")[:-1]
        words, wanted = [os.fsdecode(word) for word in texts[: int(count)]], texts[int(count) :]
        # All that can be is done before the fork: a child pays for each page that it writes to.
        here, entries = be_at(os.fsdecode(folder), here, local, words, wanted, entries)
        index = int(words[-2])
        with suppress(OSError):
            # Else the child says so.
            keep(parts_of(index)[0])
        flush()
        gc.freeze()
        if not fork():
            try:
                be(asks, fds, run, place)
                os.lseek(said, 0, os.SEEK_SET)
                if text := os.read(said, MOST_SAID):
                    os.write(2, text)
                os.close(said)
                reseed()
                code = ended(carry_out, index)
            except BaseException:
                code = ended(sys.excepthook, *sys.exc_info()) or 1
            os._exit(code)
        for fd in fds:
            os.close(fd)


def keep(function: bytes) -> None:
    if function not in loaded:
        if len(loaded) >= MOST_FUNCTIONS:
            loaded.clear()
        loaded[function] = load(function)


def asked(asks: "socket.socket") -> "tuple[bytes, list[int]]":
    """The next question; ends this process with the socket."""
    import socket

    data, fds, _, _ = socket.recv_fds(asks, 4, 3)
    while (data and len(data) < 4) or len(data) < 4 + int.from_bytes(data[:4], "big"):
        more, others, _, _ = socket.recv_fds(asks, 1 << 20, 3)
        fds += others
        data += more
        if not more:
            data = b""
            break
    if not data:
        os._exit(0)
    return data[4:], fds


def be(asks: "socket.socket", fds: "list[int]", run: bytes, place: "tuple[int, int]") -> None:
    """Become a process of its own that waits for its word; ends it if none comes."""
    os.setsid()
    start, room = place
    memory = os.open("/proc/self/mem", os.O_RDWR)
    os.pwrite(memory, run.ljust(room, b"\0"), start)
    os.close(memory)
    out, err, go = fds
    os.dup2(out, 1)
    os.dup2(err, 2)
    asks.sendall(os.getpid().to_bytes(4, "big"))
    asks.close()
    word = os.read(go, 1)
    for fd in {*fds}:
        os.close(fd)
    if not word:
        os._exit(0)


def be_at(
    folder: str, before: str, local: "list[ModuleType]", words: "list[str]", wanted: "list[bytes]", had: "set[bytes]"
) -> "tuple[str, set[bytes]]":
    """Have this process look as if it had been started there; where it is, and its environment."""
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")
    sys.argv[:] = words[-3:]
    sys.path[:2] = [os.path.join(folder, CALLS), folder]
    own_files(folder)
    for module in local:
        # They lay in the directory of the job before.
        module.__file__ = folder + str(module.__file__)[len(before) :]
        if hasattr(module, "__path__"):
            module.__path__ = [folder + path[len(before) :] for path in module.__path__ if path.startswith(before)]
    if not had:
        os.environ.clear()
    entries = set(wanted)
    for entry in had - entries:
        os.environb.pop(entry.partition(b"=")[0], None)
    for entry in entries - had:
        name, _, value = entry.partition(b"=")
        os.environb[name] = value
    return folder, entries


def reseed() -> None:
    """Give numpy's own generator a seed for this process, unless the calls' module gave it one. Python's has one."""
    random = sys.modules.get("numpy.random")
    generator = getattr(getattr(getattr(random, "mtrand", None), "_rand", None), "_bit_generator", None)
    if random is not None and getattr(generator, "seed_seq", None) is not None:
        random.seed()


def ended(work: "Callable[..., object]", *arguments: "Any") -> int:
    """Do it, and all that an interpreter does as it ends; the exit code."""
    import atexit
    import threading

    code = 0
    try:
        work(*arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if code == 1 and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException:
        code = 1
        sys.excepthook(*sys.exc_info())
    getattr(threading, "_shutdown", lambda: None)()
    getattr(atexit, "_run_exitfuncs", lambda: None)()
    flush()
    return code & 255


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # The user's own, or None.
        with suppress(Exception):
            stream.flush()
    if "ctypes" in sys.modules:
        # What libraries printed in C.
        sys.modules["ctypes"].pythonapi.fflush(None)


def sibling_fork() -> "Callable[[], int]":
    """A fork whose child is a child of our own parent, who waits for it; 0 in the child."""
    import ctypes
    import platform
    import time

    def twice() -> int:
        """By a child in between, which ends at once: whoever asked is the next of kin to its orphans."""
        between = os.fork()
        if between:
            os.waitpid(between, 0)
            return between
        between = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == between:
            time.sleep(0.0002)
        return 0

    if platform.machine() != "x86_64":
        return twice
    clone, get_tid_address = 56, 40
    libc, tid = ctypes.PyDLL(None), ctypes.c_void_p()
    if libc.prctl(get_tid_address, ctypes.byref(tid), 0, 0, 0) or not tid.value:
        return twice
    # CLONE_PARENT, and CHILD_SETTID, CHILD_CLEARTID and SIGCHLD as fork(3) has them.
    flags = 0x8000 | 0x01000000 | 0x00200000 | 17
    call = libc.syscall
    call.argtypes = [ctypes.c_long, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulong]
    call.restype = ctypes.c_long

    def once() -> int:
        if len(os.listdir("/proc/self/task")) > 1:
            # Libraries with threads make them anew after fork(3), and after nothing else.
            return twice()
        ctypes.pythonapi.PyOS_BeforeFork()
        pid = call(clone, flags, None, None, tid, 0)
        if pid:
            ctypes.pythonapi.PyOS_AfterFork_Parent()
            if pid < 0:
                return twice()
        else:
            ctypes.pythonapi.PyOS_AfterFork_Child()
        return int(pid)

    return once


def lies_in(module: "ModuleType", folder: str) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(folder + os.sep) and module.__name__ != "__main__"


def environment_place() -> "tuple[int, int]":
    """Where the marker lies in this process's first environment, and how much room it has there."""
    with open("/proc/self/environ", "rb") as file:
        entries = file.read()
    with open("/proc/self/stat", "rb") as stat:
        # Field 50 of proc(5).
        start = int(stat.read().rpartition(b")")[2].split()[47])
    at = (b"\0" + entries).index(b"\0" + MARKER)
    return start + at, entries.index(b"\0", at) - at
