"""Performance models that an operator has installed: entry points of the group `diana.models` (SPEC G2). A model is a
function of the group's values that returns its equations by name. It runs where the group is submitted and nowhere
else, in a process of its own that is bounded in time, memory and words; what travels are its equations.

    python -m diana.node.api.plug_ins NAME      values come as JSON on standard input, equations go out as JSON
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from tempfile import TemporaryFile

from diana.errors import Overloaded, one_line
from diana.policy.requirements.names import Value

GROUP = "diana.models"
MOST_S = 30.0
"""On a busy machine the start of an interpreter alone takes seconds."""
MOST_MEMORY_BYTES = 2 << 30
MOST_WORDS = 64 * 1024
"""Bytes of its equations."""
MOST_SAID = 1 << 20
"""Bytes that its process may write to a file, errors included."""
RETRY_S = 2.0
AT_ONCE = 2
"""Models asked at once: each takes a thread of the node's, and a process of the machine's."""
_asking = threading.BoundedSemaphore(AT_ONCE)


def installed() -> dict[str, EntryPoint]:
    """Return the models by name."""
    return {one.name: one for one in entry_points(group=GROUP)}


def equations(name: str, values: Mapping[str, Value], *, most_s: float = MOST_S) -> dict[str, str]:
    """Ask a model for its equations. ValueError: one line that says why there are none. Overloaded: `AT_ONCE` are being
    asked. Blocks."""
    known = installed()
    if name not in known:
        told = ", ".join(sorted(known)) or "none is installed"
        raise ValueError(f"{name[:60]!r} is no model that this site's operator installed; known: {told}")
    if not _asking.acquire(blocking=False):
        raise Overloaded(f"{AT_ONCE} models are being asked; submit it again in {RETRY_S:g} s", RETRY_S)
    try:
        code, out, trouble = _answer(name, json.dumps(values).encode(), most_s)
    finally:
        _asking.release()
    if code:
        last = trouble.decode(errors="replace").strip().rpartition("\n")[2] or f"exit code {code}"
        raise ValueError(f"{name} failed: {one_line(last)[:200]}")
    try:
        found = json.loads(out) if len(out) <= MOST_WORDS else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not found or not all(isinstance(text, str) for text in found.values()):
        raise ValueError(f"{name} gave no equations; it has to return texts by name, the last of them time_s")
    return found


def _answer(name: str, values: bytes, most_s: float) -> tuple[int, bytes, bytes]:
    """Return (exit code, output, errors) of the model's process. When its time is over it is ended with all it
    started."""
    words = [sys.executable, "-m", "diana.node.api.plug_ins", name]
    # Files, whose size the process is held to: a pipe's reader would keep all that a model says.
    with TemporaryFile() as out, TemporaryFile() as trouble:
        try:
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=out, stderr=trouble, start_new_session=True)
        except OSError as error:
            raise ValueError(f"{name} could not be started: {error.strerror}") from None
        with process:
            try:
                process.communicate(values, timeout=most_s)
            except subprocess.TimeoutExpired:
                raise ValueError(f"{name} did not answer within {most_s:g} s") from None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        out.seek(0)
        trouble.seek(0)
        return process.returncode, out.read(MOST_WORDS + 1), trouble.read(MOST_SAID)


def main(name: str) -> int:
    """Be the process of one model."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_SAID, MOST_SAID))
    values = json.load(sys.stdin)
    # Whatever the model prints is none of its equations, and nobody reads it.
    out = os.dup(1)
    with open(os.devnull, "wb") as nobody:
        os.dup2(nobody.fileno(), 1)
    found = installed()[name].load()(values)
    with os.fdopen(out, "w", encoding="utf-8") as answer:
        answer.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
