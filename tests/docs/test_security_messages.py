"""Each message between nodes is asked what a lie in it costs: in a row of a table, and those of `peer.proto` by a lie
of the suite too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from diana.adapters.subgrid import protocol
from diana.adapters.subgrid.protocol import DeliveredRuns
from diana.wire.pb import enrol_pb2, peer_pb2, replica_pb2, witness_pb2
from tests.real.lies import lies

REPO = Path(__file__).resolve().parents[2]
BODY = peer_pb2.PeerMessage.DESCRIPTOR.oneofs_by_name["body"].fields
KINDS = {field.name for field in BODY}


def tables() -> dict[str, list[list[str]]]:
    """Heading -> the rows below it; the first table has none."""
    text = (REPO / "docs" / "security-messages.md").read_text()
    first, *others = text.split("\n## ")
    return {"": rows_of(first)} | {part.partition("\n")[0]: rows_of(part) for part in others}


def rows() -> list[list[str]]:
    return tables()[""]


def rows_of(text: str) -> list[list[str]]:
    every = [line for line in text.splitlines() if line.startswith("| ")]
    lines = [line.strip("|").split("|") for line in every if not line.startswith(("| message ", "| --- "))]
    return [[cell.strip() for cell in line] for line in lines]


def test_every_message_of_peers_has_a_row_in_the_table() -> None:
    assert {row[0].strip("`") for row in rows()} == KINDS


MEMBERS = "Machines of one site"
MESSAGES = [
    *(("", field.name, tuple(one.name for one in field.message_type.fields)) for field in BODY),
    *((MEMBERS, kind.__name__, kind.__struct_fields__) for kind in (*protocol.FromMember.__args__, DeliveredRuns)),
]
"""(Heading, kind, its fields) of what a peer or a member may say."""


@pytest.mark.parametrize(("heading", "kind", "fields"), MESSAGES, ids=[kind for _, kind, _ in MESSAGES])
def test_every_field_of_peers_and_members_is_named_in_a_row_of_its_kind(
    heading: str, kind: str, fields: tuple[str, ...]
) -> None:
    """Or the kind has a row of all: a field that is new is asked what a lie in it costs."""
    mine = [re.findall(r"\w+", row[1]) for row in tables()[heading] if kind in re.findall(r"`(\w+)`", row[0])]
    named = {word for words in mine for word in words}
    assert mine and ("all" in named or not set(fields) - named), sorted(set(fields) - named)


SERVICES = {
    "Machines of one site": {kind.__name__ for kind in (*protocol.FromMember.__args__, *protocol.FromRoot.__args__)}
    - {"Refused", "Spec", "Files"}
    | {"DeliveredRuns"},
    "The two machines of a pair": {"ReplicaHello", "ReplicaFrame"}
    | {call.name for call in replica_pb2.DESCRIPTOR.services_by_name["ReplicaData"].methods},
    "Witness": {call.name for call in witness_pb2.DESCRIPTOR.services_by_name["Witness"].methods},
    "Enrolment": {call.name for call in enrol_pb2.DESCRIPTOR.services_by_name["Enrol"].methods},
}
"""Refusals, specs and files of orders go with the orders."""


@pytest.mark.parametrize("heading", SERVICES)
def test_every_message_of_the_other_services_has_a_row(heading: str) -> None:
    named = {name for row in tables()[heading] for name in re.findall(r"`(\w+)`", row[0])}
    assert named == SERVICES[heading]


def test_every_message_of_peers_has_a_lie_in_the_suite() -> None:
    told = lies("mallory", "")
    assert told.keys() == KINDS and all(told.values())


def test_every_test_that_the_table_names_is_there() -> None:
    every = [row for some in tables().values() for row in some]
    assert all(len(row) == 6 and all(row) for row in every)
    for row in every:
        for path in re.findall(r"`(tests/[^`:]*)", row[5]):
            assert (REPO / path).exists(), path
