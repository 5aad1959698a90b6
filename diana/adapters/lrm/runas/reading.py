"""A file that a process of another account opens and gives on through a pipe (`get` of `run_as.py`)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import IO, NamedTuple

_BUFFER_BYTES = 1 << 20
_LOOKS, _LOOK_S = 100, 0.01

_left: list[subprocess.Popen[bytes]] = []
"""Processes that had not ended when they were left."""


class ProgramFault(Exception):
    """The line by which the root program refused, or what became of it."""


class GivenFile(NamedTuple):
    size_bytes: int
    mtime_ns: int
    content: asyncio.StreamReader
    """The content from the offset that was asked for, as it comes; short where the process was killed."""


def said_by(program: str, line: str) -> str:
    """Return the line by which the program refused, or the mend where it does not know what is asked of it."""
    if "usage: " in line:
        return f"{program} is of an older release; run `diana site run-as install` as root"
    return line


@asynccontextmanager
async def given(words: list[str], path: str, offset: int) -> AsyncIterator[GivenFile]:
    """Have the program read the file. OSError with the number that the account met; ProgramFault. It waits for as long
    as the program does nothing, which the account's own jobs may stop for ever: the caller sets a time, after which the
    process is killed if that is allowed, and left."""
    loop = asyncio.get_running_loop()
    _left[:] = [each for each in _left if each.poll() is None]
    reader = asyncio.StreamReader(limit=_BUFFER_BYTES, loop=loop)
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env={}
        )
    except OSError as fault:
        raise ProgramFault(f"{fault.filename}: {fault.strerror}; run `diana site run-as install` as root") from None
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    ours: list[IO[bytes] | asyncio.BaseTransport] = [process.stdout, process.stderr, process.stdin]
    try:
        ours[0], _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), process.stdout
        )
        with suppress(BrokenPipeError), process.stdin as told:
            told.write(json.dumps({"path": path, "offset": offset}).encode())
            told.flush()
        line = await _line(reader)
        if line is None:
            os.set_blocking(process.stderr.fileno(), False)
            await _ended(process)
            said = f"{words[-3]} ended with {process.returncode}"
            with suppress(BlockingIOError):
                said = os.read(process.stderr.fileno(), 1 << 16).decode(errors="replace").strip() or said
            raise ProgramFault(said_by(words[-3], said.splitlines()[-1]))
        if number := line.get("errno", 0):
            raise OSError(number, os.strerror(number), path)
        yield GivenFile(line["size"], line["mtime_ns"], reader)
    finally:
        for each in ours:
            each.close()
        if process.poll() is None:
            _left.append(process)
            # Under sudo it is root's, and the signal is refused.
            with suppress(PermissionError):
                process.kill()
            await _ended(process)


async def _line(reader: asyncio.StreamReader) -> dict[str, int] | None:
    try:
        line = json.loads(await reader.readuntil())
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        return None
    numbers = isinstance(line, dict) and all(type(value) is int and value >= 0 for value in line.values())
    return line if numbers and line.keys() in ({"errno"}, {"size", "mtime_ns"}) else None


async def _ended(process: subprocess.Popen[bytes]) -> None:
    """Wait a moment for its end."""
    for _ in range(_LOOKS):
        if process.poll() is not None:
            return
        await asyncio.sleep(_LOOK_S)
