"""Targets that a group tells that it is over: `https://HOST/PATH`, or `mail:NAME@HOST`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

MAIL = "mail:"
MOST_TARGETS = 5
MOST_TEXT = 1000
"""Characters of one target."""
_ADDRESS = re.compile(r"[A-Za-z0-9_.+%=-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63}){0,8}\Z")


def checked_targets(texts: Sequence[str]) -> tuple[str, ...]:
    """The targets, once each. ValueError: the fault, its place, the mend."""
    out = tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if len(out) > MOST_TARGETS:
        raise ValueError(f"{len(out)} targets; write at most {MOST_TARGETS}")
    for text in out:
        _check(text)
    return out


def _check(text: str) -> None:
    shown = text[:80]
    if text.startswith(MAIL):
        # No word of a command may look like an option.
        if not _ADDRESS.match(text.removeprefix(MAIL)) or text.removeprefix(MAIL).startswith("-"):
            raise ValueError(f"{shown!r} is no mail address; write mail:NAME@HOST")
        return
    try:
        parts = urlsplit(text)
        fine = parts.scheme == "https" and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine or len(text) > MOST_TEXT or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{shown!r} is nobody to tell; write https://HOST/PATH or mail:NAME@HOST")
    if parts.username or parts.password or parts.fragment:
        raise ValueError(f"{parts.hostname!r}: a name, a password or a # does not go into its URL; leave it out")
