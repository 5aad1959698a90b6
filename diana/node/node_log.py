"""Where a node writes what it has to say to its operator."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path


def log_to(path: Path) -> None:
    handler = _Handler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(_is_news)
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)


class _Handler(logging.FileHandler):
    """What finds no room on the disk waits for the next line; why a node ends is said on its standard error too."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def _is_news(record: logging.LogRecord) -> bool:
    """grpc calls it an error when a caller is gone before its call began."""
    gone = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not (gone and record.name == "grpc._cython.cygrpc")
