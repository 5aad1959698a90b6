"""Release 0.1.0 is read: its journal, snapshot, claim log, talk between node and spawner, and all it says on the wire.

Each fixture was made by that release's own code (`make_0_1_0.py`); beside it stands, field by field, what it comes to.
What came later may be there too. Nothing here may be edited to let a change pass: the change lacks an upcast.
"""

from __future__ import annotations

import base64
import importlib
import json
import sqlite3
import typing
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from diana import __version__
from diana.adapters.lrm.spawner import protocol
from diana.adapters.lrm.spawner.claims import claimlog
from diana.adapters.lrm.spawner.claims import records as claims
from diana.adapters.sqlite_store.store import SqliteStore
from diana.engine.engine import Engine
from diana.engine.journal import codec, fold, records
from diana.engine.journal.state import SNAPSHOT_VERSION, SiteState, decode_state, encode_state
from diana.errors import StoreNewer
from diana.model.facts import Facts
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import ComponentSpec, GroupSpec, Resources, decode_spec, encode_spec
from diana.ports import Batch
from diana.wire import compat, pb, peer_codec
from tests.engine.builders import PlainKeyring
from tests.release.kept import FOLDER, RELEASE, framed, raw, told
from tests.release.site_of_old import put_up
from tests.release.telling import differences, tell
from tests.wire.client_classes import by_name

OF_ITS_KIND = {name.partition(".")[::2]: each for name, each in told("proto.json").items()}
"""(definitions, message) -> what that release said, and what it meant."""


def same(expected: Any, found: Any) -> None:
    """All that was meant is there still."""
    assert not (said := list(differences(expected, found))), "\n".join(said)


def folded(stored: list[bytes]) -> SiteState:
    state = SiteState()
    for one in stored:
        fold.apply(state, codec.decode(one), SiteId("alpha"))
    return state


# --- the journal ---------------------------------------------------------------------------------------------


def test_its_journal_comes_to_the_state_it_came_to_there() -> None:
    same(told("state.json"), tell(folded(framed("journal.bin"))))


def test_its_snapshot_is_the_state_it_was_made_of() -> None:
    state = decode_state(raw("snapshot.bin"))
    same(told("state.json"), tell(state))
    same(told("state.json"), tell(decode_state(encode_state(state))))


def test_its_snapshot_keeps_every_field_there_is() -> None:
    """No site ever was in this state: each field of it is set."""
    same(told("full-state.json"), tell(decode_state(raw("full-snapshot.bin"))))
    same(told("full-state.json"), tell(decode_state(encode_state(decode_state(raw("full-snapshot.bin"))))))


@pytest.mark.parametrize("at", range(len(told("records.json"))), ids=[one["<tag>"] for one in told("records.json")])
def test_each_kind_of_its_records_keeps_every_field(at: int) -> None:
    expected, stored = told("records.json")[at], framed("records.bin")[at]
    same(expected, tell(codec.decode(stored)))
    # Whatever this release writes anew is not less.
    same(expected, tell(codec.decode(codec.encode(codec.decode(stored)))))


def test_facts_and_specs_keep_every_field() -> None:
    values = told("values.json")
    facts, spec = (base64.b64decode(values[name]["stored"]) for name in ("facts", "spec"))
    same(values["facts"]["told"], tell(msgspec.msgpack.decode(facts, type=Facts)))
    same(values["spec"]["told"], tell(decode_spec(spec)))


def test_a_kind_of_record_it_cannot_know_has_a_version_it_refuses() -> None:
    """0.1.0 falls over a kind it does not know; a version above its own it refuses in one line."""
    known = {one["<tag>"] for one in told("records.json")}
    now = {kind.__struct_config__.tag for kind in typing.get_args(records.Record)}
    assert known <= now
    assert now - known == {"GangGo", "JobsFailed", "PartClosed", "ProcessExchanged", "RunsMakeWay"}, (
        f"give these a version in codec.py: {now - known} came since {RELEASE}"
    )
    go = records.GangGo(group=GroupId("a-1"), parts=(), environment=())
    way = records.RunsMakeWay(
        subgroup=SubgroupId("a-1/0"), epoch=1, indices=IndexSet.of([0]), gang="b-1.0", why="made way"
    )
    exchanged = records.ProcessExchanged(
        group=GroupId("a-1"), gang=0, epoch=1, number=1, active=(1,), slow=0, spare=1, reason="slow", at_s=0.0
    )
    closed = records.PartClosed(subgroup=SubgroupId("a-1/0"), epoch=1, site=SiteId("b"))
    failed = records.JobsFailed(group=GroupId("a-1"), indices=IndexSet.of([0]), note="no such command")
    later = (go, way, exchanged, closed, failed)
    assert {codec.encode(one)[0] for one in later} == {codec.VERSION} and codec.VERSION > 1


def test_a_record_of_what_it_would_run_wrongly_has_a_version_it_refuses_and_all_else_has_its_own() -> None:
    gang = encode_spec(GroupSpec(argv=("true",), components=(ComponentSpec(count=2),)))
    yields = encode_spec(GroupSpec(argv=("true",), preemptible=True))
    asks = encode_spec(GroupSpec(argv=("true",), resources=Resources(others=(("fpga", 1),))))
    newer = [(spec, codec.VERSION) for spec in (gang, yields, asks)]
    for spec, version in (*newer, (encode_spec(GroupSpec(argv=("true",))), 1)):
        taken = records.CustodyTaken(
            subgroup=SubgroupId("a-1/0"),
            epoch=1,
            indices=IndexSet.of([0]),
            origin=SiteId("a"),
            owner="u@v",
            spec=spec,
            submitted_s=0.0,
        )
        assert codec.encode(taken)[0] == version and codec.decode(codec.encode(taken)) == taken
        state = SiteState()
        fold.apply(state, taken, SiteId("b"))
        assert encode_state(state)[0] == version
        assert decode_state(encode_state(state)).custodies.keys() == state.custodies.keys()


def test_its_data_directory_is_opened_with_all_its_groups(tmp_path: Path) -> None:
    put_up(tmp_path)
    with closing(SqliteStore(tmp_path / "journal.db")) as store:
        assert (store.standing(), store.load().release) == ("newest", "")
        engine = Engine.restore(store.load(), site=SiteId("alpha"), keyring=PlainKeyring(), now=0.0)
        state = engine.core.state
        expected = {status["group"]: status["jobs"] for status in told("site.json").values()}
        assert {str(name): group.jobs for name, group in state.groups.items()} == expected
        assert sorted(index for _, facts in store.facts(GroupId("alpha-1")) for index in facts.indices) == [0, 1, 2]
        # Written to by this release, it says so.
        store.commit(Batch(at_s=1.0, records=()))
        assert store.load().release == __version__


def test_its_data_directory_in_a_later_schema_is_refused_in_one_line_that_names_both(tmp_path: Path) -> None:
    put_up(tmp_path)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection, connection:
        connection.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")
        connection.execute("INSERT INTO meta VALUES ('release', '9.0.0')")
    with pytest.raises(StoreNewer) as caught:
        SqliteStore(tmp_path / "journal.db")
    said = str(caught.value)
    assert "9.0.0" in said and __version__ in said and "\n" not in said


@pytest.mark.parametrize(
    ("decode", "stored"),
    [
        (codec.decode, bytes([codec.VERSION + 1]) + b"\x80"),
        (codec.decode, bytes([codec.VERSION]) + msgspec.msgpack.encode({"t": "MoonSeen"})),
        (
            codec.decode,
            bytes([codec.VERSION]) + msgspec.msgpack.encode({"t": "GroupExpired", "group": 7}),
        ),
        (decode_state, bytes([SNAPSHOT_VERSION + 1]) + b"\x80"),
    ],
    ids=["schema of a record", "kind of record", "shape of a record", "schema of a snapshot"],
)
def test_what_a_later_release_wrote_is_refused_in_one_line_that_names_both(decode: Any, stored: bytes) -> None:
    with pytest.raises(StoreNewer) as caught:
        decode(stored, "9.0.0")
    said = str(caught.value)
    assert "9.0.0" in said and __version__ in said and "\n" not in said


# --- the spawner ---------------------------------------------------------------------------------------------


def test_its_claim_log_keeps_every_kind_and_field() -> None:
    found = claimlog.read(FOLDER / "claims.log")
    same(told("claims.json"), [tell(record) for record in found])
    assert len({type(record) for record in found}) == len(found)


def test_a_claim_log_of_a_later_release_is_refused_in_one_line_that_names_this_one() -> None:
    with pytest.raises(claims.LogNewer, match=rf"a newer diana \(schema 2\); this one, {__version__}, reads") as caught:
        claims.decode(b"", claims.VERSION + 1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("said", ["node-to-spawner", "spawner-to-node"])
def test_its_talk_between_node_and_spawner_is_understood(said: str) -> None:
    """A spawner outlives the upgrade of its node, so that both directions meet another release."""
    frames = protocol.Frames()
    same(told(f"{said}.json"), [tell(message) for message in frames.feed(raw(f"{said}.bin"))])
    assert frames.version == 1


# --- the wire ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", told("peer.json"))
def test_what_it_says_to_peers_is_understood(kind: str) -> None:
    entry = told("peer.json")[kind]
    message = peer_codec.decode_message(base64.b64decode(entry["wire"]))
    same(entry["told"], tell(message))
    same(entry["told"], tell(peer_codec.decode_message(peer_codec.encode_message(message))))


@pytest.mark.parametrize(("file", "kind"), OF_ITS_KIND, ids=lambda part: part)
def test_each_message_of_its_definitions_is_read_with_every_field(file: str, kind: str) -> None:
    cls = getattr(importlib.import_module(f"{pb.__name__}.{file}_pb2"), kind)
    for entry in OF_ITS_KIND[file, kind]:
        message = cls.FromString(base64.b64decode(entry["wire"]))
        same(entry["told"], json_format.MessageToDict(message, preserving_proto_field_name=True))


def test_its_definitions_are_those_that_are_stored_for_it() -> None:
    """And all of them: a message without a fixture would be one nobody reads."""
    stored = FileDescriptorSet.FromString((compat.RELEASED / f"{RELEASE}.binpb").read_bytes())
    files = {file.name.rpartition("/")[2].removesuffix(".proto"): file for file in stored.file}
    assert set(OF_ITS_KIND) == {(name, kind.name) for name, file in files.items() for kind in file.message_type}


@pytest.mark.parametrize("kind", told("client.json"))
def test_what_it_says_to_users_is_understood(kind: str) -> None:
    """Over TLS as protobuf, on the node's own socket as JSON."""
    cls = by_name()[kind]
    for name in ("client", "common"):
        for entry, said in zip(OF_ITS_KIND.get((name, kind), ()), told("client.json")[kind], strict=False):
            read = peer_codec.from_proto(cls, peer_codec.proto_class(cls).FromString(base64.b64decode(entry["wire"])))
            same(said, json.loads(msgspec.json.encode(read)))
            same(said, json.loads(msgspec.json.encode(msgspec.json.decode(json.dumps(said), type=cls))))
