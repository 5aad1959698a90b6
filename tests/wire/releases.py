"""Messages of other releases, made from stored definitions alone: nothing of today's generated code is in them."""

from __future__ import annotations

from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from diana.wire import compat

PACKAGE = "diana.v1"
PEER = "diana/v1/peer.proto"
FIRST_HANDOVER_KINDS = 20
"""Kinds of messages up to this number are what a hand-over needs."""
NEW_KIND = 2000
NEW_FIELD = 2000


class Release:
    """`release.new("Summary", site="alpha")`: messages as a release defined them."""

    def __init__(self, files: FileDescriptorSet) -> None:
        self.files = files
        pool = DescriptorPool()
        for file in files.file:
            pool.Add(file)  # type: ignore[no-untyped-call]
        self._pool = pool

    def cls(self, name: str) -> Any:
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))

    def new(self, name: str, **fields: Any) -> Any:
        return self.cls(name)(**fields)

    def kinds(self) -> dict[str, str]:
        """Kinds of a PeerMessage: field -> name of the message."""
        body = self.cls("PeerMessage").DESCRIPTOR.oneofs_by_name["body"]
        return {field.name: field.message_type.name for field in body.fields}

    def payload(self, kind: str, **fields: Any) -> bytes:
        """Fields of an envelope: `kind` as in `kinds`."""
        data: bytes = self.new("PeerMessage", **{kind: self.new(self.kinds()[kind], **fields)}).SerializeToString()
        return data


def previous() -> Release:
    """The newest release whose definitions are stored."""
    found = compat.newest_release()
    assert found is not None
    return Release(found[1])


def spare() -> Release:
    """A release older than any: a hand-over and bare summaries, no gossip, no ledger."""
    files = _copy(previous().files)
    for message in _messages(files):
        if message.name == "PeerMessage":
            _keep(message, lambda field: field.number <= FIRST_HANDOVER_KINDS)
        elif message.name == "Summary":
            _keep(message, lambda field: field.number <= 12)
        elif message.name == "Envelope":
            _keep(message, lambda field: field.number <= 5)
            del message.oneof_decl[:]
    return Release(files)


def future() -> Release:
    """A release to come: each message of the peers has a field this one has never heard of, and there is a kind of
    message it has never heard of."""
    files = _copy(compat.present())
    (peer,) = [file for file in files.file if file.name == PEER]
    news = peer.message_type.add(name="News")
    news.field.add(
        name="text", number=1, type=FieldDescriptorProto.TYPE_STRING, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    for message in peer.message_type:
        if message.name == "PeerMessage":
            message.field.add(
                name="news",
                number=NEW_KIND,
                type=FieldDescriptorProto.TYPE_MESSAGE,
                type_name=f".{PACKAGE}.News",
                label=FieldDescriptorProto.LABEL_OPTIONAL,
                oneof_index=0,
            )
        else:
            message.field.add(
                name="more",
                number=NEW_FIELD,
                type=FieldDescriptorProto.TYPE_STRING,
                label=FieldDescriptorProto.LABEL_OPTIONAL,
            )
            message.field.add(
                name="many",
                number=NEW_FIELD + 1,
                type=FieldDescriptorProto.TYPE_INT64,
                label=FieldDescriptorProto.LABEL_REPEATED,
            )
    return Release(files)


def _copy(of: FileDescriptorSet) -> FileDescriptorSet:
    files = FileDescriptorSet()
    files.CopyFrom(of)
    return files


def _messages(files: FileDescriptorSet) -> list[DescriptorProto]:
    return [message for file in files.file for message in file.message_type]


def _keep(message: DescriptorProto, kept: Any) -> None:
    left = [field for field in message.field if kept(field)]
    del message.field[:]
    message.field.extend(left)
