"""Fixtures of a closed release: where they are, and how their files are taken apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RELEASE = "0.1.0"
FOLDER = Path(__file__).parent / RELEASE


def raw(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def told(name: str) -> Any:
    return json.loads(raw(name))


def framed(name: str) -> list[bytes]:
    """Stored records, each behind its length."""
    data, out = raw(name), []
    while data:
        size = int.from_bytes(data[:4], "big")
        out.append(data[4 : 4 + size])
        data = data[4 + size :]
    return out
