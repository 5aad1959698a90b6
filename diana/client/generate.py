"""Makes the synchronous client, `client.py`, from the one for asyncio, `aio.py`: nothing is awaited, what would run in
a thread runs at once, and names are those of the synchronous wires.

`python -m diana.client.generate` writes it; with `--check` it only says that it is stale (exit code 1). Needs the
development package ruff; nothing at run time imports this module.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tokenize
from itertools import accumulate
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE, TARGET = HERE / "aio.py", HERE / "client.py"

_NAMES = {
    "AsyncClient": "Client",
    "AsyncIterator": "Iterator",
    "AsyncLocalWire": "LocalWire",
    "AsyncRemoteWire": "RemoteWire",
    "AsyncWire": "Wire",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclosing": "closing",
    "aio_local": "local",
    "aio_remote": "remote",
}
_TEXTS = {
    '"""The client for asyncio. The synchronous one, `client.py`, is made of this file: see `generate.py`."""': (
        '"""The synchronous client. One object may be used by several threads.\n\n'
        'Generated from aio.py by `python -m diana.client.generate`. Do not edit.\n"""'
    ),
    "closed: leave one early through `contextlib.aclosing`. Use\n"
    "    the client within one event loop. Files are read and hashed in threads.\n": "closed.\n",
    "import asyncio\n": "",
    "asyncio.sleep": "time.sleep",
}
"""Texts that are another one; each is there once."""
_THREAD = ("asyncio", ".", "to_thread", "(")


def generated() -> str:
    """Return the text of `client.py`. ValueError where `aio.py` has something this module does not know."""
    text = SOURCE.read_text(encoding="utf-8")
    for old, new in _TEXTS.items():
        if text.count(old) != 1:
            raise ValueError(f"{SOURCE}: want {old!r} once, found it {text.count(old)} times")
        text = text.replace(old, new)
    text = _synchronous(text)
    if left := sorted(word for word in _words(text) if "async" in word.lower()):
        raise ValueError(f"{SOURCE}: {', '.join(left)}: what is its synchronous form?")
    return _ruff(_ruff(text, "check", "--quiet", "--select", "I", "--fix"), "format", "--quiet")


def _synchronous(text: str) -> str:
    """Return the code without what makes it asynchronous, not yet in good form."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    words = [token.string for token in tokens]
    ends = _ends(words)
    new = list(words)
    for at, word in enumerate(words):
        if word in ("async", "await"):
            new[at] = ""
            if words[at - 1] == "(" and words[ends[at - 1] + 1] == ".":
                new[at - 1] = new[ends[at - 1]] = ""
        elif tuple(words[at : at + 4]) == _THREAD:
            # to_thread(function, argument) -> function(argument)
            new[at : at + 4] = [""] * 4
            comma = _comma(words, at + 4, ends)
            new[comma] = "(" if words[comma] == "," else "()"
        elif word in _NAMES:
            new[at] = _NAMES[word]
    return _joined(text, tokens, new)


def _ends(words: list[str]) -> dict[int, int]:
    """Return the place of each opening bracket's closing one."""
    ends, opened = {}, []
    for at, word in enumerate(words):
        if word in ("(", "[", "{"):
            opened.append(at)
        elif word in (")", "]", "}"):
            ends[opened.pop()] = at
    return ends


def _comma(words: list[str], at: int, ends: dict[int, int]) -> int:
    """Return the place of the comma behind the argument that begins at `at`, or of the bracket that ends the call."""
    while words[at] not in (",", ")"):
        at = ends.get(at, at) + 1
    return at


def _joined(text: str, tokens: list[tokenize.TokenInfo], new: list[str]) -> str:
    """Return the text with each token's new string. The blank behind one that is taken out goes with it."""
    starts = list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))
    out, end = [], 0
    for token, word in zip(tokens, new, strict=True):
        begin = starts[token.start[0] - 1] + token.start[1]
        if token.type in (tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            continue
        out += [text[end:begin], word]
        end = starts[token.end[0] - 1] + token.end[1]
        if token.string in ("async", "await"):
            end += 1
    return "".join(out)


def _words(text: str) -> set[str]:
    return {t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NAME}


def _ruff(text: str, *order: str) -> str:
    command = [sys.executable, "-m", "ruff", *order, "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=True, cwd=HERE).stdout


def main(arguments: list[str]) -> int:
    want = generated()
    if arguments == ["--check"]:
        stale = TARGET.read_text(encoding="utf-8") != want
        if stale:
            print(f"{TARGET}: stale; run python -m diana.client.generate", file=sys.stderr)
        return int(stale)
    TARGET.write_text(want, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
