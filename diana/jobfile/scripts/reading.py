"""A script as a job file: `#DIANA` lines, and the `#SBATCH` lines everybody already has, at its top."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from diana.jobfile.options import joined
from diana.jobfile.scripts.sbatch import Sbatch
from diana.jobfile.scripts.text import BEGIN, MOST_SCRIPT_BYTES, runnable
from diana.jobfile.scripts.variables import SlurmLines

_LINE = re.compile(r"#(DIANA|SBATCH)(?:\s+(.*))?\Z")


class ReadScript(NamedTuple):
    """A script read as a job file."""

    data: dict[str, Any]
    """The job file's data."""
    options: dict[str, str]
    """Options of its lines, under those of the command line, by the full names of their keys."""
    notes: tuple[str, ...]
    skipped: int
    """Blank lines that stood above its first one."""
    slurm: SlurmLines


def read_script(text: str, arguments: Mapping[str, str], file_name: str) -> ReadScript:
    """Read a script. `arguments` are the command line's options, which override the lines. ValueError names the
    line."""
    script = runnable(text)
    if not script.text.startswith("#!"):
        raise ValueError(f"line 1: {BEGIN}")
    if len(script.text.encode()) > MOST_SCRIPT_BYTES:
        raise ValueError("a script of more than 1 MiB; put its data into files named by inputs")
    options: dict[str, str] = {}
    slurm = Sbatch()
    for number, kind, rest in _lines(script.text, script.skipped):
        try:
            words = shlex.split(rest, comments=True)
            if kind == "DIANA":
                options = joined(options, _diana(words))
            else:
                slurm.take(words, number)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    options = joined(slurm.options, options, arguments)
    said = slurm.finish(options, file_name)
    group = {"script": script.text, **slurm.group}
    data: dict[str, Any] = {"group": group, "resources": slurm.resources}
    if components := slurm.components():
        data["components"] = components
    return ReadScript(data, options, (*script.notes, *slurm.notes), script.skipped, said)


def lines_unread(text: str) -> list[int]:
    """Return the lines of options of a script that a job file names, which says all that itself."""
    return [number for number, _, _ in _lines(text, 0)]


def _lines(text: str, skipped: int) -> Iterator[tuple[int, str, str]]:
    """Yield the lines of options: number, DIANA or SBATCH, the rest. `skipped` lines stood above the text."""
    for number, line in enumerate(text.split("\n"), 1 + skipped):
        if line.strip() and not line.startswith("#"):
            return
        if found := _LINE.match(line):
            yield number, found[1], found[2] or ""


def _diana(words: list[str]) -> dict[str, str]:
    """Split `key=value`, `--key=value` or `--key value`; dashes within a key become underscores."""
    out = {}
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        key, equals, value = word.removeprefix("--").partition("=")
        if not equals:
            if not word.startswith("--") or not waiting:
                raise ValueError(f"{word!r} has no value; write #DIANA key=value")
            value = waiting.pop(0)
        dotted, dot, last = key.rpartition(".")
        # Names of variables and swept values keep their dashes, so that a refusal quotes them as written.
        out[key if dotted in ("group.environment", "sweep") else f"{dotted}{dot}{last.replace('-', '_')}"] = value
    return out
