"""System calls out of a recording of strace: pure text in, calls out, in the order in which they began.

The recording has one line for a call that nothing came between, and two, `<unfinished ...>` and `<... resumed>`, for
one during which another thread was seen. A call begins with its first line and ends with its last; what it does
happens in between, and nobody who rests on it goes on before the last. How long it took stands at its end: where
several recordings are put in one order, a call must not seem over before it was.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_CALL = re.compile(r"(\w+)\((.*)", re.DOTALL)
_RESULT = re.compile(r"\) += (-?\d+|\?)[^()\"]*(?:\([^()]*\))?$", re.DOTALL)
_FIXED = " <unfinished ...>"
_TOOK = re.compile(r" <(\d+\.\d+)>$")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\.\.\.)?', re.DOTALL)
_FD = re.compile(r"(-?\d+|AT_FDCWD)(?:<(.*?)>(?=[,)\s]|$))?", re.DOTALL)
_FLAGS = re.compile(r"\bO_[A-Z_|O]+")


@dataclass(slots=True)
class Call:
    """One call. `began` and `ended` are its places in the one order of all recordings; `ended` is None where its
    thread was killed in it, and then nobody knows what it did."""

    pid: int
    name: str
    arguments: str
    began: tuple[float, int]
    ended: tuple[float, int] | None = None
    result: int = -1
    _strings: list[bytes] | None = field(default=None, repr=False)

    @property
    def strings(self) -> list[bytes]:
        """The quoted arguments, as bytes. ValueError where the recording cut one short."""
        if self._strings is None:
            found = []
            # A socket's descriptor may be followed by its path, in quotes of its own.
            head = _FD.match(self.arguments)
            for text, cut in _STRING.findall(self.arguments, head.end() if head else 0):
                if cut:
                    raise ValueError(f"a string of {self.name} was cut short by the recording")
                found.append(ast.literal_eval(f'b"{text}"'))
            self._strings = found
        return self._strings

    @property
    def fd(self) -> int:
        """Descriptor that is its first argument; -1: it has none."""
        found = _FD.match(self.arguments)
        return int(found[1]) if found and found[1] != "AT_FDCWD" else -1

    @property
    def on(self) -> str:
        """Meaning of that descriptor: a path, or a socket with its path."""
        found = _FD.match(self.arguments)
        return (found[2] or "") if found else ""

    @property
    def flags(self) -> set[str]:
        found = _FLAGS.search(_STRING.sub('""', self.arguments))
        return set(found[0].split("|")) if found else set()

    @property
    def offset(self) -> int:
        """The last number among its arguments."""
        return int(self.arguments.rpartition(",")[2])

    @property
    def paths(self) -> list[str]:
        """Absolute paths it names; those relative to a folder's descriptor are put below it."""
        names = [text.decode(errors="surrogateescape") for text in self.strings]
        folders = re.findall(r"(?:AT_FDCWD|\d+)<([^>]*)>, \"", self.arguments)
        out = []
        for at, name in enumerate(names):
            folder = folders[at] if at < len(folders) else ""
            out.append(name if name.startswith("/") or not folder else f"{folder}/{name}")
        return out


def read(lines: Iterable[str], source: int = 0) -> list[Call]:
    """The calls of one recording. `source` tells recordings apart whose calls are put in one order."""
    calls: list[Call] = []
    open_: dict[int, Call] = {}
    whole: Call | None = None
    for number, line in enumerate(lines):
        found = _LINE.match(line.rstrip("\n"))
        if found is None:
            continue
        pid, at, text = int(found[1]), (float(found[2]), source << 40 | number), found[3]
        if whole is not None and whole.ended is not None and whole.ended[0] > at[0]:
            # Two clocks told its length and the next beginning.
            whole.ended = at[0], whole.ended[1]
        whole, took = None, _TOOK.search(text)
        text = text[: took.start()] if took else text
        if resumed := _RESUMED.match(text):
            call = open_.pop(pid, None)
            if call is not None:
                _end(call, call.arguments + resumed[2], at)
            continue
        begun = _CALL.match(text)
        if begun is None:
            continue
        call = Call(pid, begun[1], begun[2], at)
        calls.append(call)
        if call.arguments.endswith(_FIXED):
            call.arguments = call.arguments.removesuffix(_FIXED)
            open_[pid] = call
        else:
            _end(call, call.arguments, (at[0] + float(took[1]), at[1]) if took else at)
            whole = call
    return calls


def _end(call: Call, text: str, at: tuple[float, int]) -> None:
    result = _RESULT.search(text)
    if result is None:
        # The result may name a file: `= 3</a/path>`.
        head, _, tail = text.rpartition(") = ")
        number = re.match(r"-?\d+", tail)
        call.arguments, call.result = head, int(number[0]) if number else -1
    else:
        call.arguments = text[: result.start()]
        call.result = int(result[1]) if result[1] != "?" else -1
    if call.result >= 0 or "= ?" not in text[-12:]:
        call.ended = at


def in_order(*recordings: list[Call]) -> list[tuple[Call, bool]]:
    """Beginnings and ends of all calls, in one order: (call, True at its end)."""
    out: list[tuple[tuple[float, int], bool, Call]] = []
    for calls in recordings:
        for call in calls:
            out.append((call.began, False, call))
            if call.ended is not None:
                out.append((call.ended, True, call))
    out.sort(key=lambda moment: moment[:2])
    return [(call, end) for _, end, call in out]
