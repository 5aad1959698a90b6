"""The codec: what goes in comes out, and garbage never gets further than BadMessage."""

from __future__ import annotations

import json
import random
import sys
import typing

import msgspec
import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.messages import messages
from diana.model.facts import Facts, JobError, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.views.group import GroupStatus
from diana.wire import BadMessage, maxima, peer_codec
from diana.wire.client import messages as client_messages
from diana.wire.maxima import MAX_MESSAGE_BYTES
from tests.runs import SOAK, first_seed
from tests.wire.client_classes import by_name

PEER_CLASSES = typing.get_args(peer_codec.PeerMessage)
CLIENT_CLASSES = [cls for _, cls in sorted(by_name().items())]

SITES = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?\Z", fullmatch=True)
GROUPS = st.builds("{}-{}".format, SITES, st.integers(1, 10**9))
SUBGROUPS = st.builds("{}/{}".format, GROUPS, st.integers(0, 10**9))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INDEX_SETS = st.sets(st.integers(0, 2**52), max_size=8).map(IndexSet.of)
SMALL = ("outcomes", "exit_codes", "signals")


def facts_of(rows: int) -> st.SearchStrategy[Facts]:
    def column(item: st.SearchStrategy[typing.Any]) -> st.SearchStrategy[list[typing.Any]]:
        return st.lists(item, min_size=rows, max_size=rows)

    natural = st.integers(0, 2**63 - 1)
    return st.builds(
        Facts,
        site=SITES,
        indices=column(natural),
        attempts=column(natural),
        outcomes=column(st.integers(1, 8)),
        exit_codes=column(st.integers(-256, 255)),
        started_s=column(FLOATS),
        ended_s=column(FLOATS),
        cpu_s=column(FLOATS),
        max_rss_bytes=column(natural),
        log_segments=column(TEXT),
        log_offsets=column(natural),
        log_lengths=column(natural),
        log_truncated=column(st.booleans()),
        outputs=st.lists(st.builds(OutputFile, natural, TEXT, natural, st.just("ab" * 32)), max_size=3),
        errors=st.lists(st.builds(JobError, natural, TEXT), max_size=3),
        signals=st.just([]) | column(st.integers(0, 127)),
    )


def values_of(name: str, hint: typing.Any) -> st.SearchStrategy[typing.Any]:
    """Values a field may have, from its type alone."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return st.lists(values_of(name, arguments[0]), max_size=3).map(tuple)
    if typing.get_origin(hint) is dict:
        return st.dictionaries(*(values_of(name, each) for each in arguments), max_size=3)
    if type(None) in arguments:
        return st.none() | values_of(name, arguments[0])
    if hint is Facts:
        return st.integers(0, 4).flatmap(facts_of)
    if hint is IndexSet:
        return INDEX_SETS
    known = {
        SiteId: SITES,
        GroupId: GROUPS,
        SubgroupId: SUBGROUPS,
        float: FLOATS,
        bool: st.booleans(),
        bytes: st.binary(max_size=12),
        int: st.integers(0, 2**31 - 1 if name in SMALL else 2**63 - 1),
    }
    if hint in known:
        return known[hint]
    if hint is str:
        return st.just("0" * 64) if name.endswith("sha256") else TEXT
    return struct_of(hint)


def struct_of(cls: type) -> st.SearchStrategy[typing.Any]:
    hints = typing.get_type_hints(cls)
    if cls is messages.Prepare:
        return st.integers(0, 3).flatmap(prepare_with)
    if cls is messages.Gossip:
        return st.integers(0, 3).flatmap(gossip_with)
    return st.fixed_dictionaries(fields_of(cls, hints)).map(lambda kwargs: cls(**kwargs))


def fields_of(cls: type, hints: dict[str, typing.Any]) -> dict[str, st.SearchStrategy[typing.Any]]:
    fields = {n: values_of(n, h) for n, h in hints.items() if n in cls.__struct_fields__}  # type: ignore[attr-defined]
    for name in maxima.COUNTS.get(cls.__name__, ()):
        one = st.integers(0, maxima.MOST_COUNTED)
        fields[name] = one if hints[name] is int else st.lists(one, max_size=3).map(tuple)
    for name, most in maxima.FIGURES.get(cls.__name__, {}).items():
        one = st.integers(0, most)
        fields[name] = one if hints[name] is int else st.dictionaries(TEXT, one, max_size=3)
    if cls is messages.Summary:
        fields["via"] = fields["via"].map(lambda via: via[: maxima.FIELDS["Summary.via"].items])
    return fields


def prepare_with(files: int) -> st.SearchStrategy[typing.Any]:
    hints = typing.get_type_hints(messages.Prepare)
    fields = fields_of(messages.Prepare, hints)
    item = struct_of(typing.get_args(hints["files"])[0])
    fields["files"] = st.lists(item, min_size=files, max_size=files).map(tuple)
    fields["sources"] = st.lists(st.lists(SITES, max_size=3).map(tuple), min_size=files, max_size=files).map(tuple)
    fields["readers"] = st.lists(INDEX_SETS, min_size=files, max_size=files).map(tuple)
    return st.fixed_dictionaries(fields).map(lambda kwargs: messages.Prepare(**kwargs))


def gossip_with(entries: int) -> st.SearchStrategy[typing.Any]:
    hints = typing.get_type_hints(messages.Gossip)
    fields = {n: values_of(n, h) for n, h in hints.items()}
    item = struct_of(typing.get_args(hints["entries"])[0])
    fields["entries"] = st.lists(item, min_size=entries, max_size=entries).map(tuple)
    fields["ages_s"] = st.lists(FLOATS, min_size=entries, max_size=entries).map(tuple)
    ways = st.lists(st.lists(SITES, max_size=4).map(tuple).map(messages.HeardFrom), min_size=entries, max_size=entries)
    fields["heard_from"] = st.one_of(st.just(()), ways.map(tuple))
    return st.fixed_dictionaries(fields).map(lambda kwargs: messages.Gossip(**kwargs))


def normal(value: typing.Any) -> typing.Any:
    """proto3 cannot tell an empty text from an absent one: a default that is not empty wins."""
    if isinstance(value, client_messages.SubmitRequest) and not value.format:
        return msgspec.structs.replace(value, format="toml")
    return value


@pytest.mark.parametrize("cls", PEER_CLASSES, ids=lambda c: c.__name__)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_every_peer_message_comes_back_equal(cls: type, data: st.DataObject) -> None:
    message = data.draw(struct_of(cls))
    assert peer_codec.decode_message(peer_codec.encode_message(message)) == message


@pytest.mark.parametrize("cls", CLIENT_CLASSES, ids=lambda c: c.__name__)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_every_client_message_comes_back_equal_from_protobuf(cls: type, data: st.DataObject) -> None:
    message = data.draw(struct_of(cls))
    wire = peer_codec.to_proto(message).SerializeToString()
    assert peer_codec.from_proto(cls, peer_codec.proto_class(cls).FromString(wire)) == normal(message)


@pytest.mark.parametrize("cls", CLIENT_CLASSES, ids=lambda c: c.__name__)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_the_json_of_client_messages_is_the_proto3_json_mapping_both_ways(cls: type, data: st.DataObject) -> None:
    message = normal(data.draw(struct_of(cls)))
    parsed = json_format.Parse(msgspec.json.encode(message), peer_codec.proto_class(cls)())
    assert peer_codec.from_proto(cls, parsed) == message
    # protobuf writes 64-bit integers as text and leaves zeros out: readers take both.
    text = json_format.MessageToJson(peer_codec.to_proto(message), always_print_fields_with_no_presence=True)
    assert normal(msgspec.json.decode(text, type=cls, strict=False)) == message


def test_client_json_keys_are_those_protobuf_writes() -> None:
    status = GroupStatus(group="alpha-1", submitted_wall_s=1.5, bytes_moved=7)
    ours = json.loads(msgspec.json.encode(status))
    theirs = json.loads(json_format.MessageToJson(peer_codec.to_proto(status)))
    assert ours.keys() == theirs.keys()


def test_every_call_of_the_client_service_stands_in_the_proto_with_its_types() -> None:
    from diana.wire.pb import client_pb2

    service = client_pb2.DESCRIPTOR.services_by_name["Client"]
    theirs = {
        m.name: (m.input_type.name, m.output_type.name, m.client_streaming, m.server_streaming) for m in service.methods
    }
    ours = {
        name: (m.request.__name__, m.response.__name__, m.streams_in, m.streams_out)
        for name, m in client_messages.METHODS.items()
    }
    assert ours == theirs


def facts(rows: int, **changes: typing.Any) -> Facts:
    value = Facts(
        site=SiteId("alpha"),
        indices=list(range(rows)),
        attempts=[1] * rows,
        outcomes=[1] * rows,
        exit_codes=[0] * rows,
        started_s=[1.0] * rows,
        ended_s=[2.0] * rows,
        cpu_s=[0.5] * rows,
        max_rss_bytes=[1 << 20] * rows,
        log_segments=["alpha-1/0-0.log"] * rows,
        log_offsets=list(range(rows)),
        log_lengths=[10] * rows,
        log_truncated=[False] * rows,
    )
    return msgspec.structs.replace(value, **changes)


def result(value: Facts) -> messages.Result:
    return messages.Result(subgroup=SubgroupId("alpha-1/0"), epoch=1, batch=0, facts=value, cancelled=IndexSet())


BAD = {
    "columns of unequal length": result(facts(3, cpu_s=[1.0])),
    "unknown outcome": result(facts(1, outcomes=[99])),
    "fewer signals than jobs": result(facts(3, signals=[9])),
    "more signals than jobs": result(facts(0, signals=[9])),
    "a signal that is none": result(facts(1, signals=[128])),
    "a negative signal": result(facts(1, signals=[-9])),
    "negative index": result(facts(1, indices=[-1])),
    "a time that is no number": result(facts(1, started_s=[float("nan")])),
    "infinite time": messages.Retry(after_s=float("inf")),
    "negative epoch": messages.Committed(subgroup=SubgroupId("alpha-1/0"), epoch=-1),
    "a subgroup that climbs": messages.Committed(subgroup=SubgroupId("../../etc/0"), epoch=1),
    "a site with a slash": result(facts(1, site=SiteId("a/b"))),
    "a hash that is a path": result(facts(1, outputs=[OutputFile(0, "x", 1, "../../secret")])),
    "bounds that fall": messages.Control(
        subgroup=SubgroupId("alpha-1/0"), epoch=1, control_seq=1, cancel=IndexSet((5, 3)), hold=IndexSet()
    ),
    "an odd number of bounds": messages.Control(
        subgroup=SubgroupId("alpha-1/0"), epoch=1, control_seq=1, cancel=IndexSet(), hold=IndexSet((5,))
    ),
}


@pytest.mark.parametrize("message", BAD.values(), ids=BAD.keys())
def test_values_out_of_range_are_refused_in_one_line(message: peer_codec.PeerMessage) -> None:
    with pytest.raises(BadMessage) as caught:
        peer_codec.decode_message(peer_codec.encode_message(message))
    assert "\n" not in str(caught.value)


def test_a_message_without_a_known_body_is_refused() -> None:
    for data in (b"", b"\xfa\x3f\x02\x08\x01"):
        with pytest.raises(BadMessage):
            peer_codec.decode_message(data)


def test_a_required_part_that_is_missing_is_refused() -> None:
    from diana.wire.pb import peer_pb2

    data = peer_pb2.PeerMessage(result=peer_pb2.Result(subgroup="alpha-1/0")).SerializeToString()
    with pytest.raises(BadMessage, match="facts is missing"):
        peer_codec.decode_message(data)


def test_what_is_over_the_message_cap_is_neither_written_nor_read() -> None:
    big = result(facts(1, log_segments=["x" * (MAX_MESSAGE_BYTES + 1)]))
    with pytest.raises(BadMessage, match="at most"):
        peer_codec.encode_message(big)
    with pytest.raises(BadMessage, match="at most"):
        peer_codec.decode_message(bytes(MAX_MESSAGE_BYTES + 1))


def test_a_value_that_does_not_fit_its_field_is_refused_when_encoding() -> None:
    with pytest.raises(BadMessage):
        peer_codec.encode_message(messages.Committed(subgroup=SubgroupId("alpha-1/0"), epoch=2**63))


def test_ten_times_as_many_facts_are_no_more_work_each() -> None:
    few, many = (_lines(result(facts(count))) for count in (2_000, 20_000))
    assert many < 12 * few


def _lines(message: messages.Result) -> int:
    """Lines and calls that Python made to encode and decode it."""
    count = 0

    def counted(*_: object) -> typing.Any:
        nonlocal count
        count += 1
        return counted

    sys.settrace(counted)
    try:
        again = peer_codec.decode_message(peer_codec.encode_message(message))
    finally:
        sys.settrace(None)
    assert again == message
    return count


def test_mutated_and_random_bytes_never_raise_anything_but_bad_message() -> None:
    seed = first_seed(20)
    rng = random.Random(seed)
    seeds = [peer_codec.encode_message(result(facts(3, errors=[JobError(0, "x")])))]
    seeds += [peer_codec.encode_message(m) for name, m in BAD.items()]
    refused = accepted = 0
    for turn in range(100_000 if SOAK else 30_000):
        if turn % 4 == 0:
            data = bytearray(rng.randbytes(rng.randrange(40)))
        else:
            data = bytearray(rng.choice(seeds))
            for _ in range(rng.randrange(1, 4)):
                at = rng.randrange(len(data))
                kind = rng.randrange(3)
                if kind == 0:
                    data[at] = rng.randrange(256)
                elif kind == 1:
                    del data[at:]
                    break
                else:
                    data[at:at] = rng.randbytes(rng.randrange(1, 5))
        try:
            peer_codec.decode_message(bytes(data) or b"\0")
            accepted += 1
        except BadMessage:
            refused += 1
    assert refused > 1000 and accepted > 100, f"seed {seed}: {refused} refused, {accepted} accepted"
