"""The token of an invitation, given where no other account of the machine reads it: `ps` shows a command's words."""

from __future__ import annotations

import os
import sys

from diana.errors import UsageError

MOST_BYTES = 4096
"""Bytes read from a file or standard input; a token has about a hundred."""
HOW = "or - for standard input, @FILE for a file, env:NAME for a variable"


def token_from(word: str) -> str:
    """The text of the token that `word` stands for: itself, or what it names. UsageError where nothing is there."""
    if word == "-":
        return _first_line(_asked() if sys.stdin.isatty() else sys.stdin.buffer.read(MOST_BYTES), "standard input")
    if word.startswith("@"):
        return _first_line(_content(word[1:]), word[1:])
    if word.startswith("env:"):
        name = word.removeprefix("env:")
        return _first_line(os.environb.get(os.fsencode(name), b"") if name else b"", f"variable {name or '?'}")
    return word


def _asked() -> bytes:
    from getpass import getpass

    try:
        return getpass("token: ").encode()
    except EOFError:
        return b""


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"token: {path!r}: {why}; name the file that holds what diana invite printed") from None


def _first_line(content: bytes, where: str) -> str:
    lines = content.strip().splitlines()
    if not lines:
        raise UsageError(f"token: {where} holds none; put there what diana invite printed")
    return lines[0].decode(errors="replace").strip()
