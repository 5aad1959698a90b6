"""Checks that released definitions stay readable: nothing that a release has put on the wire is removed, renumbered or
retyped.

`python -m diana.wire.compat` compares the definitions with the newest of `proto/released/` (exit code 1 and one line
per break); `python -m diana.wire.compat --release VERSION` stores the present ones there when a release is made.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from diana.wire import pb

RELEASED = Path(__file__).resolve().parents[2] / "proto" / "released"

_Message = dict[int, FieldDescriptorProto]


def present() -> FileDescriptorSet:
    """The definitions of this checkout, all of them, from the generated code; each after those it imports."""
    found: dict[str, FileDescriptorProto] = {}
    for module in sorted(each.name for each in pkgutil.iter_modules(pb.__path__) if each.name.endswith("_pb2")):
        _add(importlib.import_module(f"{pb.__name__}.{module}").DESCRIPTOR, found)
    out = FileDescriptorSet()
    out.file.extend(found.values())
    return out


def _add(file: Any, found: dict[str, FileDescriptorProto]) -> None:
    for imported in file.dependencies:
        _add(imported, found)
    found.setdefault(file.name, FileDescriptorProto.FromString(file.serialized_pb))


def breaks(old: FileDescriptorSet, new: FileDescriptorSet) -> list[str]:
    """One line per change that a peer or a stub of the old release would trip over; empty when there is none."""
    return [*_message_breaks(_messages(old), _messages(new)), *_service_breaks(_methods(old), _methods(new))]


def _messages(files: FileDescriptorSet) -> dict[str, Any]:
    return {f"{f.package}.{m.name}": m for f in files.file for m in f.message_type}


def _methods(files: FileDescriptorSet) -> dict[str, tuple[str, str, bool, bool]]:
    return {
        f"{f.package}.{s.name}.{m.name}": (m.input_type, m.output_type, m.client_streaming, m.server_streaming)
        for f in files.file
        for s in f.service
        for m in s.method
    }


def _message_breaks(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for name, message in sorted(old.items()):
        if name not in new:
            yield f"{name}: removed"
            continue
        now = _by_number(new[name].field)
        reserved = [(r.start, r.end) for r in new[name].reserved_range]
        for number, field in sorted(_by_number(message.field).items()):
            if number in now:
                yield from _field_breaks(f"{name}.{field.name}", field, now[number])
            elif not any(start <= number < end for start, end in reserved):
                yield f"{name}.{field.name}: number {number} is gone; reserve it or keep the field"
            else:
                yield f"{name}.{field.name}: removed"


def _field_breaks(where: str, old: FieldDescriptorProto, new: FieldDescriptorProto) -> Iterator[str]:
    if old.name != new.name:
        # Numbers are what travels between peers, names are what travels as JSON.
        yield f"{where}: number {old.number} is now {new.name}"
    if (old.type, old.type_name) != (new.type, new.type_name):
        yield f"{where}: type {_type(old)} became {_type(new)}"
    if old.label != new.label:
        yield f"{where}: repeated became single or the reverse"
    if old.HasField("oneof_index") != new.HasField("oneof_index"):
        yield f"{where}: moved into or out of a oneof"


def _service_breaks(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for name, shape in sorted(old.items()):
        if name not in new:
            yield f"{name}: call removed"
        elif new[name] != shape:
            yield f"{name}: call changed its messages or streams"


def _by_number(fields: Iterable[FieldDescriptorProto]) -> _Message:
    return {field.number: field for field in fields}


def _type(field: FieldDescriptorProto) -> str:
    return field.type_name.lstrip(".") or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def newest_release() -> tuple[str, FileDescriptorSet] | None:
    """Version and definitions of the newest stored release; None before the first."""
    stored = sorted(RELEASED.glob("*.binpb"), key=lambda p: [int(part) for part in p.stem.split(".")])
    if not stored:
        return None
    return stored[-1].stem, FileDescriptorSet.FromString(stored[-1].read_bytes())


def main(arguments: list[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "--release":
        RELEASED.mkdir(exist_ok=True)
        (RELEASED / f"{arguments[1]}.binpb").write_bytes(present().SerializeToString(deterministic=True))
        return 0
    if arguments:
        print("usage: python -m diana.wire.compat [--release VERSION]", file=sys.stderr)
        return 2
    release = newest_release()
    found = breaks(release[1], present()) if release else []
    for line in found:
        print(f"{line} (since {release[0] if release else ''})", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
