"""The node's log for its operator: lines for people, or one JSON object a line for programs."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Literal

import msgspec

Format = Literal["text", "json"]

MOST_BYTES = 32 << 20
"""Bytes of node.log, or of node.out, after which it is put aside."""
KEPT = 2
"""Logs put aside that are kept: node.log.1, the newest, and so on."""

_PART = re.compile(r"(?<![\w/.-])([a-z][a-z0-9-]*-[0-9]+)/[0-9]+(?![\w/.])")
"""A part of a group, alpha-12/0; a file's path has more around it."""
_JOB = re.compile(r"(?<![\w/.-])([a-z][a-z0-9-]*-[0-9]+)\.([0-9]+)(?![\w/.-])")
"""alpha-12.3"""


def log_to(path: Path, form: Format = "text", site: str = "", machine: str = "") -> None:
    """`site` and `machine`: what every JSON object says it is of."""
    handler = _Handler(path, maxBytes=MOST_BYTES, backupCount=KEPT)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(_Json(site, machine) if form == "json" else text)
    handler.addFilter(_is_news)
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)


def put_output_aside(out: Path, most_bytes: int = MOST_BYTES) -> None:
    """Begin another node.out where this process prints into one that has grown past `most_bytes`; the one before is
    kept as node.out.1. Where that cannot be done nothing changes."""
    with suppress(OSError):
        there = out.stat()
        ours = [number for number in (1, 2) if os.path.samestat(os.fstat(number), there)]
        if not ours or there.st_size <= most_bytes:
            return
        spare = out.with_name(f"{out.name}.new")
        fresh = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.replace(out, out.with_name(f"{out.name}.1"))
            os.replace(spare, out)
            for number in ours:
                os.dup2(fresh, number)
        finally:
            os.close(fresh)


class _Handler(RotatingFileHandler):
    """Writes the log, and begins another when it has grown; a line for which the disk has no room waits for the next
    one. The reason why a node ends goes to standard error too."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class _Json(logging.Formatter):
    """`group`, `part` and `job` stand where the message names one of them."""

    def __init__(self, site: str, machine: str) -> None:
        super().__init__()
        self._site = site
        self._machine = machine

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": message,
            "site": self._site,
            "machine": self._machine,
            **_concerned(message, getattr(record, "group", "")),
        }
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        # Whatever bytes a path had: a line must stay one that programs can read.
        return msgspec.json.encode({key: _clean(text) for key, text in told.items()}).decode()


def _concerned(message: str, group: str) -> dict[str, str]:
    """`group`: what the caller said it is about."""
    part, job = _PART.search(message), _JOB.search(message)
    if job and group in ("", job[1]):
        return {"group": job[1], "job": job[0]}
    if part and group in ("", part[1]):
        return {"group": part[1], "part": part[0]}
    return {"group": group} if group else {}


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _is_news(record: logging.LogRecord) -> bool:
    """grpc calls it an error when a caller is gone before its call began, or before it was answered."""
    if record.exc_info is None or record.name != "grpc._cython.cygrpc":
        return True
    fault = record.exc_info[1]
    return not (isinstance(fault, asyncio.CancelledError) or type(fault).__name__ == "ExecuteBatchError")
