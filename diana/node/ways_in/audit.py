"""The audit trail (PROMISES 5.14): each call's caller, role, origin and decision as one JSON line, chained by hash.

Each line carries the SHA-256 over the line before it and its own text, so that a changed, inserted or removed line
shows. The newest line's hash stands in the store now and then, so that a cut-off end shows too. Reads that were allowed
are not kept; a call repeated over and over is counted, not repeated, so that nobody can fill the disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from diana import errors

AUDIT_HEAD = "audit_head"
"""Key in the journal's store of the trail's newest line (`Audit.head`)."""
ROTATE_BYTES = 64 << 20
"""A full file is kept as `audit.log.1`, the one before it goes; the chain runs on."""
MOST_ALIKE = 60
"""Lines of one caller, action and decision within `ALIKE_S` before they are only counted."""
ALIKE_S = 60.0
_MOST_KINDS = 4096
_MOST_TEXT = 500
_MOST_LINE_BYTES = 32 << 10
"""More than a line has whose texts are all escaped: six bytes a character."""
_FIRST = "0" * 64
_TAIL_BYTES = 1 << 20
"""Read at each start to find the last group that was accepted."""


class Audit:
    """Appends to `path`, 0600. Not safe to share between threads. `anchor` is given the newest line's (number, hash)
    each time `keep` is called; `anchored` is what it was given last before."""

    def __init__(self, path: Path, *, wall_s: Callable[[], float] = time.time, anchored: str = "") -> None:
        self._path = path
        self._wall_s = wall_s
        self._fd = _open(path)
        self._number, self._sha = _last(path)
        if _torn(path):
            os.write(self._fd, b"\n")
        self._alike: dict[tuple[str, str, str], tuple[float, int]] = {}
        number, _, sha = anchored.partition(":")
        if anchored and (self._number < int(number) or (self._number == int(number) and self._sha != sha)):
            self.note("diana", "audit", str(path), "damaged", f"line {number} stood here and does not any more")

    def note(
        self,
        who: str,
        action: str,
        target: str = "",
        decision: str = "allowed",
        reason: str = "",
        *,
        role: str = "",
        where: str = "",
        unproven: bool = False,
    ) -> None:
        """Write one line. `unproven`: nobody knows whether it was `who`; all such lines are counted as one caller's.
        `decision`: allowed, denied, refused, failed, ignored; or damaged. OSError stops nobody: the line is lost and
        the gap is told with the next."""
        now_s = self._wall_s()
        again = self._count(("" if unproven else who, action, decision), now_s)
        if again < 0:
            return
        line: dict[str, object] = {
            "n": self._number + 1,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s)),
            "who": who[:_MOST_TEXT],
            "role": role,
            "from": where[:_MOST_TEXT],
            "action": action,
            "target": target[:_MOST_TEXT],
            "decision": decision,
            "reason": reason[:_MOST_TEXT],
        }
        if again:
            line["alike"] = again
        text = json.dumps({k: v for k, v in line.items() if v != ""}, separators=(",", ":"))
        sha = _chained(self._sha, text)
        try:
            os.write(self._fd, f'{text[:-1]},"sha":"{sha}"}}\n'.encode())
        except OSError:
            return
        self._number, self._sha = self._number + 1, sha
        self._rotate()

    def head(self) -> str:
        """The mark of the newest line, `NUMBER:HASH`, to be kept elsewhere."""
        return f"{self._number}:{self._sha}"

    def close(self) -> None:
        os.close(self._fd)

    def _count(self, kind: tuple[str, str, str], now_s: float) -> int:
        """Count one more line of its kind. Returns how many alike were left out before it; negative: leave this one out
        too."""
        since_s, count = self._alike.get(kind, (now_s, 0))
        left_out = 0
        if now_s - since_s >= ALIKE_S or now_s < since_s:
            left_out, since_s, count = max(0, count - MOST_ALIKE), now_s, 0
        if len(self._alike) >= _MOST_KINDS:
            self._alike.clear()
        self._alike[kind] = (since_s, count + 1)
        return left_out if count < MOST_ALIKE else -1

    def _rotate(self) -> None:
        if os.fstat(self._fd).st_size < ROTATE_BYTES:
            return
        os.close(self._fd)
        os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))
        self._fd = _open(self._path)


def damage(path: Path, anchored: str = "") -> str:
    """One line saying where the trail was tampered with; empty: it is whole. The file of `path` alone is read, whose
    first line may follow on from an older file. `anchored`: what `Audit.head` gave at some time."""
    before, number, seen = "", -1, ""
    want_number, _, want_sha = anchored.partition(":")
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return f"{path}: gone, though it had {want_number} lines" if anchored and want_number != "0" else ""
    for at, raw in enumerate(lines, 1):
        try:
            said = json.loads(raw)
            sha, this = said.pop("sha"), int(said["n"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"{path}: line {at} is none of ours"
        text = json.dumps(said, separators=(",", ":"))
        if before and (this != number + 1 or _chained(before, text) != sha):
            return f"{path}: line {at} was changed, or lines before it were removed"
        if not before and this == 1 and _chained(_FIRST, text) != sha:
            return f"{path}: line {at} was changed"
        before, number = sha, this
        if str(this) == want_number:
            seen = sha
    if anchored and (number < int(want_number) or (seen and seen != want_sha)):
        return f"{path}: ends at line {max(number, 0)}, though line {want_number} stood there"
    return ""


def accepted(path: Path) -> list[str]:
    """The groups whose submission the trail says was accepted, as far as the file and the one before it go; oldest
    first."""
    found: list[str] = []
    for file in (path.with_name(f"{path.name}.1"), path):
        with suppress(OSError), file.open("rb") as lines:
            for raw in lines:
                if b'"action":"submit"' not in raw or b'"decision":"allowed"' not in raw:
                    continue
                with suppress(ValueError, TypeError, KeyError):
                    found.append(str(json.loads(raw)["target"]))
    return found


def last_accepted(path: Path, site: str) -> int:
    """The number of the last group that the trail's end says was accepted here; 0: it names none."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        for raw in reversed(file.read().splitlines()):
            with suppress(ValueError, TypeError, KeyError, AttributeError):
                said = json.loads(raw)
                name, _, number = str(said["target"]).rpartition("-")
                if (said["action"], said["decision"], name) == ("submit", "allowed", site) and number.isdecimal():
                    return int(number)
    return 0


def open_audit(path: Path, anchored: str = "") -> Audit:
    """UsageError when the file cannot be written."""
    try:
        return Audit(path, anchored=anchored)
    except OSError as error:
        raise errors.UsageError(f"{path}: {error.strerror}; make it writable for the node's account") from None


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _last(path: Path) -> tuple[int, str]:
    """Number and hash of the last whole line; after a torn one the chain goes on from there."""
    size = path.stat().st_size
    older = path.with_name(f"{path.name}.1")
    if size == 0:
        return _last(older) if older.exists() and older.stat().st_size else (0, _FIRST)
    with path.open("rb") as file:
        file.seek(max(0, size - _MOST_LINE_BYTES))
        lines = file.read().splitlines()
    for raw in reversed(lines):
        try:
            said = json.loads(raw)
            return int(said["n"]), str(said["sha"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0, _FIRST


def _torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _chained(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}{text}".encode()).hexdigest()
