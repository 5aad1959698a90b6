"""The only file that knows both messages and protobuf.

Peer messages are decoded with checks, so that nothing behind this door meets a negative epoch, a NaN, columns of
unequal length or an id with a slash too many. Client messages are checked by the node's API, which can answer.
"""

from __future__ import annotations

import re
import typing
from typing import Any, TypeVar

import msgspec
from google.protobuf.message import DecodeError

from diana.engine.messages.messages import Gossip, Hello, Message, Prepare, Retry
from diana.model.facts import Facts, Outcome
from diana.model.signals import MOST_SIGNAL
from diana.wire import BadMessage, mapping, maxima
from diana.wire.maxima import MAX_MESSAGE_BYTES
from diana.wire.pb import client_pb2, common_pb2, peer_pb2

PeerMessage = Message | Hello | Retry

_T = TypeVar("_T", bound=msgspec.Struct)

_peer = mapping.Mapper((peer_pb2, common_pb2), checked=True, signed=frozenset({"exit_codes"}))
_client = mapping.Mapper((client_pb2, common_pb2), checked=False)

_OUTCOMES = frozenset(int(o) for o in Outcome)
_OTHERS = ("site", "outputs", "errors", "signals")
_COLUMNS = tuple(f.name for f in msgspec.structs.fields(Facts) if f.name not in _OTHERS)


def _check_facts(facts: Facts) -> None:
    rows = len(facts.indices)
    for name in _COLUMNS:
        if len(getattr(facts, name)) != rows:
            raise BadMessage(f"Facts.{name}: {len(getattr(facts, name))} values for {rows} indices")
    if not _OUTCOMES.issuperset(facts.outcomes):
        raise BadMessage(f"Facts.outcomes: {min(set(facts.outcomes) - _OUTCOMES)} is no outcome")
    if facts.signals and len(facts.signals) != rows:
        raise BadMessage(f"Facts.signals: {len(facts.signals)} values for {rows} indices")
    if max(facts.signals, default=0) > MOST_SIGNAL:
        raise BadMessage(f"Facts.signals: {max(facts.signals)} is no signal")


def _check_prepare(prepare: Prepare) -> None:
    for name, lists in (("sources", prepare.sources), ("readers", prepare.readers)):
        if len(lists) != len(prepare.files):
            raise BadMessage(f"Prepare.{name}: {len(lists)} entries for {len(prepare.files)} files")


def _check_gossip(gossip: Gossip) -> None:
    if len(gossip.ages_s) != len(gossip.entries):
        raise BadMessage(f"Gossip.ages_s: {len(gossip.ages_s)} ages for {len(gossip.entries)} entries")
    if len(gossip.heard_from) not in (0, len(gossip.entries)):
        raise BadMessage(f"Gossip.heard_from: {len(gossip.heard_from)} ways for {len(gossip.entries)} entries")


mapping.CHECKS.update(Facts=_check_facts, Prepare=_check_prepare, Gossip=_check_gossip)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_CLASSES: tuple[type[msgspec.Struct], ...] = typing.get_args(PeerMessage)
_BODY = {cls: _snake(cls.__name__) for cls in _CLASSES}
_MAPPING = {_snake(cls.__name__): _peer.mapping(cls) for cls in _CLASSES}


def encode_message(message: PeerMessage) -> bytes:
    """Return the payload of an envelope. BadMessage when a value does not fit its field or the whole is over
    `MAX_MESSAGE_BYTES`: then the message was made wrongly here."""
    body = _BODY[type(message)]
    try:
        data: bytes = peer_pb2.PeerMessage(**{body: _MAPPING[body].to_proto(message)}).SerializeToString()
    except (ValueError, TypeError, OverflowError) as error:
        raise BadMessage(f"{type(message).__name__}: {error}") from None
    if len(data) > MAX_MESSAGE_BYTES:
        raise BadMessage(f"{type(message).__name__}: {len(data)} bytes, at most {MAX_MESSAGE_BYTES} fit one message")
    return data


def decode_message(data: bytes) -> PeerMessage:
    """Inverse of `encode_message`; BadMessage for anything else."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise BadMessage(f"{len(data)} bytes, at most {MAX_MESSAGE_BYTES} are read")
    maxima.scan(data, peer_pb2.PeerMessage.DESCRIPTOR)
    try:
        outer = peer_pb2.PeerMessage.FromString(data)
    except DecodeError:
        raise BadMessage("not a PeerMessage of protobuf") from None
    body = outer.WhichOneof("body")
    if body is None:
        raise BadMessage("a PeerMessage with no body this release knows")
    return typing.cast(PeerMessage, _MAPPING[body].from_proto(getattr(outer, body)))


def to_proto(message: msgspec.Struct) -> Any:
    """Return a client message as its protobuf twin; BadMessage when a value does not fit its field."""
    try:
        return _client.mapping(type(message)).to_proto(message)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadMessage(f"{type(message).__name__}: {error}") from None


def rows_to_proto(cls: type[msgspec.Struct], name: str, rows: tuple[Any, ...]) -> Any:
    """Return the protobuf twin of a client message that has these rows of one table alone. Written after `to_proto` of
    the message with the rows before, it is read as one message with all of them."""
    try:
        return _client.mapping(cls).rows_to_proto(name, rows)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadMessage(f"{cls.__name__}.{name}: {error}") from None


def from_proto(cls: type[_T], message: Any) -> _T:
    """Return the client message of class `cls` for a protobuf message. Zero and absent give the class's default."""
    return typing.cast(_T, _client.mapping(cls).from_proto(message))


def proto_class(cls: type[msgspec.Struct]) -> Any:
    """The protobuf class a client message maps to, for (de)serialisers of stubs and services."""
    return _client.mapping(cls).proto
