"""Calls into one file per group, and outcomes out of the files the jobs leave.

A payload is pickles one after the other, then a table of four numbers per job (where its function and its calls lie,
and how long they are), then where the table is: a job reads its own entry and nothing else. A function many calls
share is in it once. Between the table and the last number lies a zip archive that Python runs: the file is the job's
program, too, and its only input.
"""

from __future__ import annotations

import functools
import io
import os
import py_compile
import shlex
import sys
import tempfile
import zipfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipimport import zipimporter

import cloudpickle  # type: ignore[import-untyped]

from diana.client.calls import remote
from diana.client.calls.naming import pickled
from diana.errors import DianaError, UsageError

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""Python version that cloudpickle's pickles are good for: other versions have other bytecode."""
PROGRAM = "diana_call"
"""Name of `remote.py` in the archive."""
WARM = "DIANA_WARM"
"""Variable by which a command says that it serves as a warm parent; sites that start none pass it over."""

_OURS = frozenset(("array", "from", "collect", "to", "merge", "dataset", "stdout", "stderr", "directory"))
_OURS_OF_GROUP = frozenset(("command", "executable", "arguments", "script", "directory", "stdout", "stderr"))
"""Options that would take the jobs apart."""
_OF_GANGS = ("components", "flexible", "gang", "runner")
"""Options, and sections of options, of jobs that are several."""
_OWN_SECTIONS = ("sweep", "inputs", "outputs")
_LET = ("outputs.size",)


class Call(NamedTuple):
    """One job's worth: its function and a list of (arguments, keywords), both pickled."""

    function: bytes
    calls: bytes


class RemoteTraceback(Exception):
    """The cause of an exception that was raised in a job: what was printed there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class Outcome(NamedTuple):
    value: Any
    error: BaseException | None

    def result(self) -> Any:
        if self.error is None:
            return self.value
        try:
            raise self.error
        finally:
            # Else the frame and the exception keep each other.
            del self


def function_name(function: object) -> str:
    """Name of the function, without the functions it was made in."""
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__).rpartition("<locals>.")[2]


def packed_function(function: Callable[..., Any]) -> bytes:
    """UsageError names it, and the mend."""
    if not callable(function):
        raise UsageError(f"{function!r} cannot be called; give a function and its arguments")
    try:
        return pickled(function)
    except Exception as error:
        raise UsageError(
            f"function {function_name(function)} cannot be pickled ({error!r}); open files, locks and connections"
            " inside it instead of using those of this process"
        ) from error


def packed_calls(function: Callable[..., Any], calls: Sequence[tuple[Sequence[Any], Mapping[str, Any]]]) -> bytes:
    try:
        return pickled(calls)
    except Exception as error:
        raise UsageError(
            f"an argument of {function_name(function)} cannot be pickled ({error!r}); pass plain data, and open files,"
            " locks and connections inside the function"
        ) from error


MAIN = f"""if __name__ != "__main__":
    # A process of multiprocessing, which a call started, looks here for the names of the user's `__main__`: no other
    # name of ours may be in its way.
    from {PROGRAM} import named as __getattr__
else:
    import sys

    found = "{{}}.{{}}".format(*sys.version_info[:2])
    if found != sys.argv[2]:
        sys.exit(
            "these calls were packed by Python %s, and %s here is Python %s; install python%s there, or name one with"
            " GridExecutor(python=...)" % (sys.argv[2], sys.executable, found, sys.argv[2])
        )
    import {PROGRAM}

    {PROGRAM}.begin()
"""
"""The archive's `__main__`, in words that an older Python reads as well: it has to say that it is the wrong one."""


@functools.cache
def _archive() -> bytes:
    """The zip archive, whose comment is the payload's last number: zeros as yet."""
    package = Path(cloudpickle.__file__).parent
    sources = [(f"{PROGRAM}.py", Path(remote.__file__))]
    sources += [(f"cloudpickle/{name}", package / name) for name in ("__init__.py", "cloudpickle.py")]
    out = io.BytesIO()
    folders = tempfile.TemporaryDirectory(prefix="diana-calls-")
    with zipfile.ZipFile(out, "w") as archive, folders as folder:
        archive.writestr("__main__.py", MAIN)
        for name, source in sources:
            if source.parent == package and package.parent.is_file():
                # In a call, whose cloudpickle is that of its own archive.
                archive.writestr(f"{name}c", zipimporter(str(package.parent)).get_data(f"{name}c"))
                continue
            compiled = py_compile.compile(
                str(source),
                os.path.join(folder, "c"),
                f"{remote.CALLS}/{name}",
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
            archive.write(str(compiled), f"{name}c")
        archive.comment = bytes(remote.LENGTH_BYTES)
    return out.getvalue()


class Payload:
    """The file in a folder of its own. `add` gives the number of the job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._at = 0
        self._table = array("Q")
        self._functions: dict[bytes, int] = {}
        self.jobs = 0
        self._file = open(folder / "payload", "wb")  # noqa: SIM115

    def add(self, call: Call) -> int:
        start = self._functions.get(call.function)
        if start is None:
            start = self._functions[call.function] = self._write(call.function)
        self._table.extend((start, len(call.function), self._write(call.calls), len(call.calls)))
        self.jobs += 1
        return self.jobs - 1

    def _write(self, data: bytes) -> int:
        start, self._at = self._at, self._at + len(data)
        self._file.write(data)
        return start

    def finish(self) -> None:
        if sys.byteorder == "big":
            self._table.byteswap()
        self._file.write(self._table.tobytes())
        self._file.write(_archive()[: -remote.LENGTH_BYTES])
        self._file.write(self._at.to_bytes(remote.LENGTH_BYTES, "little"))
        self.close()

    def close(self) -> None:
        self._file.close()


def job_of(
    name: str, jobs: int, python: Sequence[str], inputs: Sequence[Mapping[str, Any]], *, warm: bool = True
) -> dict[str, Any]:
    """The job file of a payload's jobs, whose local files are relative to its folder. `warm`: sites that can fork them
    from a parent that has loaded what they need may do so."""
    command = [*python, remote.CALLS, "{index}", PYTHON]
    return {
        "group": {"name": name, "command": command} | ({"environment": {WARM: "1"}} if warm else {}),
        "sweep": {"call": f"0-{jobs - 1}"},
        "inputs": [{"url": "payload", "path": remote.CALLS, "executable": False}, *inputs],
        "outputs": {"collect": [f"{remote.RESULT}{{index}}"]},
    }


def python_command(python: str | Sequence[str] | None) -> list[str]:
    """Left out: `python3.N` of this version where the site has that, else its `python3`, which says if it is another
    one."""
    if python is None:
        script = f'exec "$(command -v python{PYTHON} || command -v python3 || echo python3)" "$@"'
        return ["sh", "-c", script, "sh"]
    words = shlex.split(python) if isinstance(python, str) else list(python)
    if not words:
        raise UsageError("python: empty; name the interpreter at the sites, such as python3.11, or leave it out")
    return [word.replace("{", "{{").replace("}", "}}") for word in words]


def checked_options(options: Mapping[str, object] | None) -> dict[str, object]:
    for name in options or ():
        section, _, key = name.partition(".")
        if section in _OF_GANGS:
            mend = 'Client.submit({"group": {"command": ...}, "components": "3x1"}) starts a program as a gang'
            raise UsageError(f"option {name}: not for a GridExecutor, each call of which is one job; {mend}")
        ours = name in _OURS or (section == "group" and key in _OURS_OF_GROUP)
        if ours or (section in _OWN_SECTIONS and name not in _LET):
            raise UsageError(f"option {name}: not for a GridExecutor, which says itself what its jobs run and leave")
    return dict(options or {})


def checked_inputs(inputs: Iterable[str | os.PathLike[str] | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Inputs as in a job file; local files are those that lie there now, relative to the working directory."""
    found = []
    for given in inputs:
        entry = dict(given) if isinstance(given, Mapping) else {"url": os.fspath(given)}
        url = str(entry.get("url", ""))
        scheme, colon, _ = url.partition(":")
        if not (colon and scheme.isalnum()):
            entry = {"path": os.path.basename(url), **entry, "url": os.path.abspath(url)}
        found.append(entry)
    return found


def result_index(name: str) -> int | None:
    """The job's index that an output belongs to; None: it is none of ours."""
    number = name.removeprefix(remote.RESULT)
    return int(number) if number != name and number.isdecimal() else None


def outcomes(data: bytes, job: str) -> list[Outcome]:
    """Outcomes in a job's file, in the order of its calls; after an exception nothing follows."""
    return [_outcome(*part, job) for part in _parts(data, job) if part[0] != remote.SPENT]


def spent_s(data: bytes, job: str) -> float | None:
    """Seconds that the calls of a job's file took; None: it does not tell. DianaError as `outcomes`."""
    told = [text for kind, text, _ in _parts(data, job) if kind == remote.SPENT]
    try:
        return max(0.0, float(told[-1])) if told else None
    except ValueError:
        return None


def _parts(data: bytes, job: str) -> Iterator[tuple[bytes, str, memoryview]]:
    view, at = memoryview(data), 0
    while at < len(data):
        head = at + 1 + 2 * remote.LENGTH_BYTES
        first, second = (
            int.from_bytes(view[at + 1 + k * remote.LENGTH_BYTES :][: remote.LENGTH_BYTES], "little") for k in (0, 1)
        )
        end = head + first + second
        if end > len(data):
            raise DianaError(f"{job}: its result file is cut short; run it again")
        yield bytes(view[at : at + 1]), str(view[head : head + first], "utf-8", "replace"), view[head + first : end]
        at = end


def _outcome(kind: bytes, text: str, data: memoryview, job: str) -> Outcome:
    if kind == remote.UNTOLD:
        return _faulty(DianaError(f"{job}: {str(data, 'utf-8', 'replace')}"), text)
    try:
        value = cloudpickle.loads(data)
    except Exception as error:
        what = "result" if kind == remote.VALUE else "exception"
        fault = DianaError(
            f"{job}: its {what} cannot be unpickled here ({error!r}); install what it is made of, or return plain data"
        )
        return _faulty(fault, text)
    if kind == remote.VALUE:
        return Outcome(value, None)
    if not isinstance(value, BaseException):
        return _faulty(DianaError(f"{job}: its result file is no outcome of a call"), text)
    return _faulty(value, text)


def _faulty(error: BaseException, text: str) -> Outcome:
    error.__cause__ = RemoteTraceback(text)
    return Outcome(None, error)
