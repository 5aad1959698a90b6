"""Maxima of what peers may send: all in one table, applied before anything large is made of a message."""

from __future__ import annotations

import subprocess
import sys
import typing

import msgspec
import pytest

from diana.engine.messages import messages as ms
from diana.engine.messages.migration import Surplus
from diana.engine.messages.recovery import GroupShown, Holding, Holdings, Met
from diana.jobfile import units
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.declared import MOST_AMOUNT, MOST_DECLARED
from diana.model.settings import MOST_SLOTS
from diana.wire import BadMessage, maxima, peer_codec
from diana.wire.pb import peer_pb2
from tests.engine.gossiping import entry

PART = SubgroupId("alpha-1/0")


def classes() -> dict[str, type[msgspec.Struct]]:
    """All that a peer message is made of, index sets apart, which are as long as their message."""
    found: dict[str, type[msgspec.Struct]] = {}

    def look(hint: typing.Any) -> None:
        struct = isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint is not IndexSet
        if struct and hint.__name__ not in found:
            found[hint.__name__] = hint
            for inner in typing.get_type_hints(hint).values():
                look(inner)
        for inner in typing.get_args(hint):
            look(inner)

    for cls in typing.get_args(peer_codec.PeerMessage):
        look(cls)
    return found


def passed(message: peer_codec.PeerMessage) -> typing.Any:
    return peer_codec.decode_message(peer_codec.encode_message(message))


def test_each_line_of_the_table_is_a_field_and_no_field_of_text_or_items_lacks_one() -> None:
    names = {f"{cls}.{field}" for cls, made in classes().items() for field in made.__struct_fields__}
    assert maxima.FIELDS.keys() <= names
    counted = {f"{cls}.{field}" for cls, fields in maxima.COUNTS.items() for field in fields}
    assert counted <= names
    # A class that lacks a line does not compile; all have compiled.
    assert {f"{cls}.{field}" for cls, fields in maxima.FIGURES.items() for field in fields} <= names
    assert maxima.BYTES.keys() <= {f.name for f in peer_pb2.PeerMessage.DESCRIPTOR.fields}


def test_what_people_read_of_a_site_is_cut_to_a_line_and_the_row_still_counts() -> None:
    told = msgspec.structs.replace(entry("far"), notice="x" * 3_900_000)
    got = passed(msgspec.structs.replace(told, notice="x" * 200_000, drained="y" * 40_000))
    assert (len(got.notice), len(got.drained)) == (300, 300) and got.site == "far"
    with pytest.raises(BadMessage, match="summary"):
        passed(told)
    with pytest.raises(BadMessage, match="gossip"):
        passed(ms.Gossip(entries=(told,), ages_s=(0.0,)))


def test_a_row_of_gossip_with_names_too_long_costs_the_others_nothing() -> None:
    bad = msgspec.structs.replace(entry("liar"), address="h" * 5000, datasets=("d" * 5000,))
    got = passed(ms.Gossip(entries=(entry("far"), bad), ages_s=(0.0, 0.0)))
    assert got.entries[0] == entry("far") and len(got.entries[1].address) == 301


def test_texts_that_a_site_says_of_itself_are_cut_by_their_number_and_length() -> None:
    many = {f"p{number:03}": "v" for number in range(500)} | {"a" * 5000: "w", "a": "x" * 5000}
    got = passed(msgspec.structs.replace(entry("far"), properties=many)).properties
    assert list(got) == ["a", "a" * 101, *(f"p{number:03}" for number in range(14))] and got["a"] == "x" * 101
    kept = {"tier": "gold", "motto": "f\u00fcr alle"}
    assert passed(msgspec.structs.replace(entry("far"), properties=kept)).properties == kept


def shown(*groups: GroupShown) -> Holdings:
    return Holdings(db_uuid="d", seq=1, part=0, parts=1, rows=(), groups=groups)


@pytest.mark.parametrize(
    "message",
    [
        ms.Committed(subgroup=PART, epoch=2**63 - 1),
        ms.Prepared(subgroup=PART, epoch=1, db_uuid="d", seq=2**63 - 1),
        ms.ControlAck(subgroup=PART, epoch=1, control_seq=2**62),
        ms.Lost(subgroup=PART, epoch=1, db_uuid="d" * 101),
        Met(boot_nonce="n", seq=2**63 - 1),
        Holdings(db_uuid="d", seq=1, part=0, parts=1, rows=(Holding(subgroup=PART, epoch=2**63 - 1),)),
        Holdings(db_uuid="d", seq=1, part=0, parts=1, rows=(Holding(subgroup=PART, epoch=1),) * 2001),
        Met(boot_nonce="n", since=2**63 - 1),
        shown(GroupShown(spec=b"s", receipt=b"r" * ((1 << 16) + 17))),
        shown(*[GroupShown(spec=b"", receipt=b"")] * 10_001),
        shown(*[GroupShown(spec=b"s" * (1 << 20), receipt=b"r")] * 4),
        Surplus(groups=(), reason="r" * (1 << 20)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_no_honest_site_can_say_is_refused(message: peer_codec.PeerMessage) -> None:
    with pytest.raises(BadMessage):
        passed(message)


def test_what_is_cut_is_cut_and_what_is_at_its_maximum_passes() -> None:
    assert len(passed(ms.Refused(subgroup=PART, epoch=1, reason="r" * 9000)).reason) == 2000
    assert passed(ms.Committed(subgroup=PART, epoch=maxima.MOST_COUNTED)).epoch == maxima.MOST_COUNTED
    rows = (Holding(subgroup=PART, epoch=1, open=IndexSet.span(0, 9)),) * 2000
    assert passed(Holdings(db_uuid="d", seq=1, part=0, parts=1, rows=rows)).rows == rows
    most = shown(
        GroupShown(spec=b"s" * (3 << 20), receipt=b"r" * ((1 << 16) + 16)),
        *[GroupShown(spec=b"s", receipt=b"r")] * 9_999,
    )
    assert passed(most) == most
    asks = tuple(SiteId(f"s{n}") for n in range(5000))
    assert passed(ms.Gossip(asks=asks)).asks == asks[:4096]


BEYOND = (2**62, 2**63 - 1)


def figures() -> list[tuple[str, str, int]]:
    return [(cls, name, most) for cls, fields in maxima.FIGURES.items() for name, most in fields.items()]


def told_by(kind: str) -> msgspec.Struct:
    """A message of the kind with 1 for all it has to have."""
    cls: typing.Any = classes()[kind]
    hints, needed = typing.get_type_hints(cls), [f for f in msgspec.structs.fields(cls) if f.required]
    plain = {int: 1, float: 1.0, str: "", bool: True, SiteId: SiteId("far"), GroupId: GroupId("alpha-1")}
    made: msgspec.Struct = cls(**{field.name: plain.get(hints[field.name], ()) for field in needed})
    return made


def through(message: msgspec.Struct) -> typing.Any:
    """Return what the other end makes of it; a part of a message alone, too."""
    mapping = peer_codec._peer.mapping(type(message))
    return mapping.from_proto(mapping.to_proto(message))


@pytest.mark.parametrize(("kind", "name", "most"), figures(), ids=lambda value: str(value))
def test_no_site_has_or_asks_for_more_than_can_be_and_its_word_still_counts(kind: str, name: str, most: int) -> None:
    said, many = told_by(kind), isinstance(getattr(told_by(kind), name), dict)
    for figure, read in [(figure, most) for figure in BEYOND] + [(most, most), (1, 1)]:
        value = {"fpga": figure} if many else figure
        got = getattr(through(msgspec.structs.replace(said, **{name: value})), name)
        assert got == ({"fpga": read} if many else read)


def test_each_figure_of_a_site_and_each_amount_that_is_asked_has_a_bound() -> None:
    counted = {
        "processors",
        "slots",
        "gpus",
        "memory_bytes",
        "scratch_bytes",
        "widest",
        "jobs",
        "free",
        "idle",
        "whole",
        "resources",
    }
    bounded = {(cls, name) for cls, name, _ in figures()}
    for cls in ("Summary", "Quote", "MachineKind", "ComingRoom", "QuoteRequest", "RoomRequest", "Reserve"):
        for name, hint in typing.get_type_hints(classes()[cls]).items():
            if hint in (int, dict[str, int]) and (name in counted or name.startswith("free_")):
                assert (cls, name) in bounded


def test_a_row_of_gossip_with_figures_that_cannot_be_costs_the_others_nothing() -> None:
    most, names = 2**63 - 1, {f"r{number:03}": 1 for number in range(200)}
    huge = {"slots": most, "free_slots": most, "memory_bytes": most, "gpus": most, "widest": most}
    liar = msgspec.structs.replace(entry("liar"), **huge, resources={**names, "x" * 5000: most})
    far, cut = passed(ms.Gossip(entries=(entry("far"), liar), ages_s=(0.0, 0.0))).entries
    assert far == entry("far")
    assert (cut.slots, cut.memory_bytes) == (maxima.MOST_UNITS, maxima.MOST_SIZE_BYTES)
    assert len(cut.resources) == MOST_DECLARED and max(map(len, cut.resources)) <= 41


def test_what_an_honest_site_has_or_asks_for_is_never_cut() -> None:
    assert 1000 * max(MOST_SLOTS, MOST_AMOUNT) <= maxima.MOST_UNITS and maxima.MOST_SIZE_BYTES == units.MOST_BYTES
    assert maxima.FIELDS["Summary.resources"].items == MOST_DECLARED
    has = {"slots": 10**9, "widest": MOST_SLOTS, "memory_bytes": 2**60, "gpus": 10**9}
    told = msgspec.structs.replace(entry("far"), **has, resources={"fpga": MOST_AMOUNT})
    assert passed(told) == told


MANY_ROWS = """
import resource, sys
from diana.wire import BadMessage, peer_codec

def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])

body = bytes.fromhex(sys.argv[2]) * ((4 << 20) // 2 - 5000)
data = varint(int(sys.argv[1]) << 3 | 2) + varint(len(body)) + body
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    peer_codec.decode_message(data)
except BadMessage as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""


@pytest.mark.parametrize(
    ("kind", "row"), [("holdings", "2a00"), ("quote", "3a00"), ("ledger_news", "0a00"), ("queue_report", "1a00")]
)
def test_millions_of_empty_rows_are_refused_before_they_are_in_memory(kind: str, row: str) -> None:
    number = peer_pb2.PeerMessage.DESCRIPTOR.fields_by_name[kind].number
    done = subprocess.run(
        [sys.executable, "-c", MANY_ROWS, str(number), row], capture_output=True, text=True, check=True
    )
    kilobytes, _, why = done.stdout.partition(" ")
    assert "more than" in why, done
    assert int(kilobytes) < 20_000, done.stdout


def test_millions_of_small_fields_are_refused_before_they_cost_much() -> None:
    """They are no rows, and each takes the scan a step of its own."""
    for kind in ("result", "quote"):
        number = peer_pb2.PeerMessage.DESCRIPTOR.fields_by_name[kind].number
        body = b"\x08\x01" * 700_000
        data = _varint(number << 3 | 2) + _varint(len(body)) + body
        with pytest.raises(BadMessage, match="more than 600000 fields"):
            maxima.scan(data, peer_pb2.PeerMessage.DESCRIPTOR)


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])
