"""Definitions may grow; what a release has put on the wire stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from diana.wire import compat


def changed(change: Callable[[dict[str, Any]], None]) -> list[str]:
    """Breaks found after `change` was made to a copy of the present messages, by name."""
    new = FileDescriptorSet()
    new.CopyFrom(compat.present())
    messages: dict[str, Any] = {m.name: m for f in new.file for m in f.message_type}
    messages["services"] = {s.name: s for f in new.file for s in f.service}
    change(messages)
    return compat.breaks(compat.present(), new)


def field(message: Any, name: str) -> FieldDescriptorProto:
    (found,) = [f for f in message.field if f.name == name]
    return found


def test_the_present_definitions_keep_what_the_last_release_has() -> None:
    release = compat.newest_release()
    assert release is not None
    assert compat.breaks(release[1], compat.present()) == []


def test_every_proto_file_is_kept_with_a_release() -> None:
    release = compat.newest_release()
    assert release is not None
    files = {str(path.relative_to(compat.RELEASED.parent)) for path in compat.RELEASED.parent.glob("diana/**/*.proto")}
    assert {file.name for file in compat.present().file} == files
    assert {file.name for file in release[1].file} == files


def test_an_added_field_breaks_nothing() -> None:
    def add(messages: dict[str, Any]) -> None:
        messages["Summary"].field.add(
            name="more", number=99, type=FieldDescriptorProto.TYPE_INT64, label=FieldDescriptorProto.LABEL_OPTIONAL
        )

    assert changed(add) == []


def test_an_added_call_breaks_nothing() -> None:
    assert changed(lambda m: m["services"]["Client"].method.add(name="New")) == []


BREAKS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a removed field": (lambda m: m["Commit"].field.remove(field(m["Commit"], "epoch")), "Commit.epoch: number 2 is"),
    "a renumbered field": (lambda m: setattr(field(m["Commit"], "epoch"), "number", 9), "Commit.epoch: number 2 is"),
    "a retyped field": (
        lambda m: setattr(field(m["Commit"], "epoch"), "type", FieldDescriptorProto.TYPE_STRING),
        "Commit.epoch: type int64 became string",
    ),
    "a renamed field": (lambda m: setattr(field(m["Commit"], "epoch"), "name", "age"), "number 2 is now age"),
    "a field no longer repeated": (
        lambda m: setattr(field(m["Facts"], "indices"), "label", FieldDescriptorProto.LABEL_OPTIONAL),
        "Facts.indices: repeated became single",
    ),
    "another message in a oneof": (
        lambda m: setattr(field(m["PeerMessage"], "commit"), "type_name", ".diana.v1.Abort"),
        "type diana.v1.Commit became diana.v1.Abort",
    ),
    "a removed call": (
        lambda m: m["services"]["Client"].method.remove(m["services"]["Client"].method[0]),
        "Client.Submit: call removed",
    ),
    "a call that no longer streams": (
        lambda m: setattr(m["services"]["Client"].method[4], "server_streaming", False),
        "Client.Wait: call changed",
    ),
    "a renamed message": (lambda m: setattr(m["Retry"], "name", "Again"), "diana.v1.Retry: removed"),
}


@pytest.mark.parametrize(("change", "line"), BREAKS.values(), ids=BREAKS.keys())
def test_each_kind_of_break_is_found(change: Callable[[dict[str, Any]], Any], line: str) -> None:
    assert any(line in found for found in changed(change))
