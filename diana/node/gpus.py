"""`gpus` of `site.toml`: those of the node's own machine."""

from __future__ import annotations

from typing import Any

from diana.errors import UsageError
from diana.model import devices


def declared(value: Any, name: str) -> tuple[str, ...]:
    """As `model/devices.py` reads it. UsageError: `FILE:gpus: ...`."""
    try:
        return devices.declared(value)
    except ValueError as error:
        raise UsageError(f"{name}:gpus: {error}") from None
