"""GPUs of a machine, as its operator declares them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

MOST = 256
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,80}")
"""An index, or a UUID as `nvidia-smi -L` shows it: one item of the list in CUDA_VISIBLE_DEVICES."""


def declared(value: Any) -> tuple[str, ...]:
    """Names of the devices, in order, from `2`, `[0, 1]` or `["0", "GPU-8932f937"]`. ValueError otherwise."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MOST:
            raise ValueError(f"{value} is out of range; want 0 to {MOST}")
        return tuple(map(str, range(value)))
    if not isinstance(value, list | tuple) or not all(type(one) in (int, str) for one in value):
        raise ValueError(f'{value!r} is no number of GPUs; write how many, as in 2, or their names, as in ["0", "2"]')
    names = tuple(map(str, value))
    if len(names) > MOST:
        raise ValueError(f"{len(names)} GPUs; want at most {MOST}")
    wrong = [*(name for name in names if not _NAME.fullmatch(name)), *_twice(names)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no name of one GPU; want an index or a UUID, each once")
    return names


def _twice(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
