"""A process that feeds readers with spoilt examples: python -m tests.fuzz.child READER,... SEED EXAMPLES FOLDER.

A crash of the interpreter ends it, so the input it had then stands in FOLDER/input beforehand. Standard output has a
line for each reader that was fed: the number of executions.
"""

from __future__ import annotations

import faulthandler
import mmap
import random
import re
import resource
import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.crashes import CRASHES
from tests.fuzz.readers import readers

MOST_BYTES = 1 << 20
MEMORY_BYTES = 3 << 30
READ_S = 30
"""Processor seconds after which a reader counts as hanging on one input."""
DEEP = 20_000
NUMBERS = (
    *(b"9" * 5000, b"-1", b"1e999", b"nan", b"0x7fffffffffffffff", b"9223372036854775808", b"1_0"),
    *(b"1-999999999999999999", b"0-9999999999:2", b"1-9:-1", b"9999-99-99"),
)
DEEPS = (*(b"[", b'{"a":', b"{a: ", b"- ", b"a.", b"<a>", b"(", b"\x91", b"\x81\xa1a"),)
NASTY = (
    *(b"\0", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u2028\u202e\u0660\u00b2".encode(), b"\r"),
    *(b"\x1b[2J", b"x" * 200_000, b"\n" * 5000, b"a,b\n" * 2000, b'"' * 999, b"'''", b'"""', b"&a *a ", b"%s%n{}"),
    *(b"!!python/object:x ", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"<![CDATA["),
    *NUMBERS,
    *(each * DEEP for each in DEEPS),
)
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


def spoilt(examples: list[bytes], chance: random.Random, wounds: int) -> bytes:
    """One of the examples after so many wounds."""
    text = chance.choice(examples)
    for _ in range(wounds):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + 1 + int(chance.expovariate(0.2)))
        match chance.randrange(8):
            case 0:
                text = text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :]
            case 1:
                text = text[:at]
            case 2:
                text = text[:at] + chance.choice(NASTY) + text[at:]
            case 3:
                text = text[:at] + chance.choice(NASTY) + text[end:]
            case 4:
                text = text[:at] + text[at:end] * chance.choice((2, 3, 50)) + text[end:]
            case 5:
                text = text[:at] + text[end:]
            case 6:
                spans = [found.span() for found in NUMBER.finditer(text[:20_000])]
                a, b = chance.choice(spans or [(at, at)])
                text = text[:a] + chance.choice(NUMBERS) + text[b:]
            case 7:
                other = chance.choice(examples)
                text = text[:at] + other[chance.randrange(len(other) + 1) :]
    return text[:MOST_BYTES]


def main(names: list[str], number: int, count: int, folder: Path) -> None:
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGVTALRM, _hangs)
    held = _Held(folder / "input")
    for name in names:
        print(_feed(name, number + sum(name.encode()), count, held), flush=True)


def _feed(name: str, number: int, count: int, held: _Held) -> int:
    """Executions."""
    reader = readers()[name]
    examples = list(reader.examples())
    ran = 0

    def execute(content: bytes) -> None:
        nonlocal ran
        ran += 1
        held.put(content)
        signal.setitimer(signal.ITIMER_VIRTUAL, READ_S)
        try:
            reader.read(content)
        except reader.refuses as refusal:
            assert "\n" not in str(refusal), f"not one line: {str(refusal)[:300]!r}"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    for content in (*examples, *CRASHES.get(name, ()), *NASTY):
        execute(content)

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**64), st.integers(1, 4))
    def fuzz(draws: int, wounds: int) -> None:
        execute(spoilt(examples, random.Random(draws), wounds))

    fuzz()
    return ran


class _Held:
    """A file that always holds the present input, also once this process has crashed."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(MOST_BYTES + 8))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def put(self, content: bytes) -> None:
        self._map[:8] = len(content).to_bytes(8, "big")
        self._map[8 : 8 + len(content)] = content


def last_input(path: Path) -> bytes:
    held = path.read_bytes()
    return held[8 : 8 + int.from_bytes(held[:8], "big")]


def _hangs(*_: object) -> None:
    raise AssertionError(f"hangs: {READ_S} s for one input")


if __name__ == "__main__":
    main(sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
