"""`group.container` and `group.modules`: names that go to the sites as they are."""

from __future__ import annotations

from collections.abc import Sequence

from diana.model.job.software import MOST_MODULES, MOST_TEXT, is_module


def software_name(text: str, key: str) -> str:
    """Check a name; ValueError for one that could be read as something else where it arrives."""
    if len(text) > MOST_TEXT or not text.isprintable() or text.strip() != text or text.startswith("-"):
        raise ValueError(f"{key}: {text[:60]!r}: want a name of at most {MOST_TEXT} printable characters")
    return text


def modules(names: Sequence[str]) -> tuple[str, ...]:
    if len(names) > MOST_MODULES:
        raise ValueError(f"group.modules: names {len(names)}; want at most {MOST_MODULES}")
    for at, name in enumerate(names):
        if not is_module(name):
            raise ValueError(f"group.modules[{at}]: {name[:60]!r} names none; write the name of a module")
        if name in names[:at]:
            raise ValueError(f"group.modules[{at}]: {name!r} stands there before; keep one")
    return tuple(names)
