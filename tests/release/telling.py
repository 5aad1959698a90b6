"""Values as plain JSON, with each field under its name: what a fixture is expected to come to."""

from __future__ import annotations

import base64
import enum
import json
from collections.abc import Iterator, Mapping, Set
from typing import Any

import msgspec

from diana.model.views.shown import Shown


def tell(value: Any) -> Any:
    """Dicts, lists, texts, numbers. A struct of columns is told by its positions: those are what is stored of it."""
    if isinstance(value, msgspec.Struct):
        return _struct(value)
    if isinstance(value, enum.Enum):
        return tell(value.value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else json.dumps(tell(key)): tell(item) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted((tell(item) for item in value), key=json.dumps)
    if isinstance(value, (list, tuple)):
        return [tell(item) for item in value]
    if hasattr(value, "dump"):
        return tell(value.dump())
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"no words for {type(value).__name__}")


def _struct(value: msgspec.Struct) -> dict[str, Any]:
    config = value.__struct_config__
    # Views travel to users in camelCase and to peers by the proto's names, which are the fields'.
    shown = isinstance(value, Shown)
    fields = [(f.name if shown else f.encode_name, getattr(value, f.name)) for f in msgspec.structs.fields(value)]
    named = [(str(at), item) for at, (_, item) in enumerate(fields)] if config.array_like else fields
    told = {name: tell(item) for name, item in named}
    return {"<tag>": config.tag, **told} if config.tag else told


def differences(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    """A line for whatever `expected` has and `found` has not, or has otherwise. Fields that came later are none."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name, item in expected.items():
            if name in found:
                yield from differences(item, found[name], f"{where}.{name}")
            else:
                yield f"{where}.{name}: gone, it was {item!r}"[:300]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for at, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{where}[{at}]")
    elif expected != found or isinstance(expected, bool) != isinstance(found, bool):
        yield f"{where}: {found!r}, it was {expected!r}"[:300]
