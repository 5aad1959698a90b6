"""Where a node writes what it has to say to its operator."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path


def log_to(path: Path) -> None:
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(_is_news)
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)


def _is_news(record: logging.LogRecord) -> bool:
    """grpc calls it an error when a caller is gone before its call began."""
    gone = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not (gone and record.name == "grpc._cython.cygrpc")
