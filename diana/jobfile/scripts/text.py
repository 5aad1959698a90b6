"""The text of a script as a machine can run it: `#!` comes first, and lines end in LF."""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_SCRIPT_BYTES = 1 << 20
BEGIN = 'a script begins with "#!" and its interpreter, such as "#!/bin/sh"; add that line'

_BLANK = re.compile(r"(?:[ \t]*\r?\n)+")
_MARK = b"\xef\xbb\xbf"
MOST_HEAD = 4096
"""Bytes at the beginning of a script among which its first line ends."""


class ScriptText(NamedTuple):
    """A script that can be run."""

    text: str
    skipped: int
    """Blank lines that stood above its first one."""
    notes: tuple[str, ...]


def runnable(text: str) -> ScriptText:
    """Return the script without blank lines above its first, with line ends of Unix where that line has others: no
    machine finds its interpreter so. Whether it is one, callers see by its first line."""
    notes = []
    if "\n" not in text and "\r" in text:
        text = text.replace("\r", "\n")
        notes.append("its lines end in CR: LF is written instead, which is the end of a line here")
    skipped = 0
    if blank := _BLANK.match(text):
        skipped = blank[0].count("\n")
        lines = "line 1 is" if skipped == 1 else f"lines 1 to {skipped} are"
        notes.append(f"{lines} blank and left out: #! comes first")
        text = text[blank.end() :]
    if "\r\n" not in text:
        return ScriptText(text, skipped, tuple(notes))
    if text.partition("\n")[0].endswith("\r"):
        text = text.replace("\r\n", "\n")
        notes.append("its lines end in CR LF, as on Windows: LF is written instead")
    else:
        # What follows a plain first line may be meant so, as data of the script.
        line = text.partition("\r\n")[0].count("\n") + 1 + skipped
        notes.append(f"line {line} ends in CR LF, as on Windows, and stays so: a shell takes the CR for a part of it")
    return ScriptText(text, skipped, tuple(notes))


def why_not_run(head: bytes) -> str:
    """Say why no machine runs a file as a script, by its first `MOST_HEAD` bytes; empty: it is none, or can be run."""
    if head.startswith(_MARK):
        return "begins with a byte order mark, so that no machine runs it; save it without one"
    if head.startswith(b"#!") and head.partition(b"\n")[0].endswith(b"\r"):
        return "its first line ends in CR LF, so that no machine finds its interpreter; save it with line ends of Unix"
    return ""
