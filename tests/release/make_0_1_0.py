"""Maker of `tests/release/0.1.0`: what that release writes and says, made by running its own code.

    mkdir /tmp/0.1.0 && git archive bc47ec7 | tar x -C /tmp/0.1.0
    python tests/release/make_0_1_0.py /tmp/0.1.0

Nothing of today's code is imported but `telling.py` and `filling.py` beside this file, which know no class of diana.
A release that is closed is not made again: what stands there is what sites have on their disks.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RELEASE = "0.1.0"
CODE = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE
sys.path[:1] = [str(CODE), str(HERE)]

import msgspec  # noqa: E402
from diana.engine.state import SiteState, decode_state, encode_state  # noqa: E402
from diana.model.ledger import Statement  # noqa: E402
from diana.model.register import Copy, Register  # noqa: E402
from diana.model.spec import GroupSpec, decode_spec, encode_spec  # noqa: E402
from filling import MADE_BY_HAND, Filler, message  # noqa: E402
from make_site import make_site  # noqa: E402
from telling import tell  # noqa: E402

import diana  # noqa: E402
from diana.adapters.lrm.spawner import claimlog, protocol  # noqa: E402
from diana.adapters.lrm.spawner import records as claims  # noqa: E402
from diana.engine import fold, lines, records  # noqa: E402
from diana.model.facts import Facts  # noqa: E402
from diana.model.ids import GroupId, SiteId, SubgroupId  # noqa: E402
from diana.model.indexset import FinishedSet, IndexSet  # noqa: E402
from diana.model.maintenance import Window  # noqa: E402
from diana.model.settings import Settings  # noqa: E402
from diana.wire import codec  # noqa: E402
from tests.engine.rich_life import rich_life  # noqa: E402
from tests.wire.test_codec import CLIENT_CLASSES, PEER_CLASSES  # noqa: E402

PROTOS = ("client", "common", "data", "enrol", "peer", "relay", "replica", "subgrid", "witness")
TO_SPAWNER = ("Hello", "Order", "Lease", "Kill", "Recall", "Forget", "SetSlots", "Shutdown")
TO_NODE = ("Welcome", "Refused", "Ended")


def changed_settings(_: Filler) -> Settings:
    """All that can be otherwise by itself."""
    made = Settings()
    for field in msgspec.structs.fields(Settings):
        now = getattr(made, field.name)
        for other in _others(now, typing.get_args(typing.get_type_hints(Settings)[field.name])):
            try:
                made = msgspec.structs.replace(made, **{field.name: other})
                break
            except (ValueError, TypeError):
                continue
    return made


def _others(now: Any, choices: tuple[Any, ...]) -> list[Any]:
    if isinstance(now, bool):
        return [not now]
    if isinstance(now, (int, float)):
        return [now + 1, now * 2, type(now)(now / 2), type(now)(1)]
    if isinstance(now, Mapping):
        return [{"wait": 2}, {"ann@vo": 2}]
    if isinstance(now, str):
        return [one for one in choices if one != now]
    return []


def finished(filler: Filler) -> FinishedSet:
    made = FinishedSet()
    made.add(_id(filler))
    return made


def _id(filler: Filler) -> int:
    return int(filler.fill(int))


MADE_BY_HAND.update(
    {
        SiteId: lambda filler: SiteId(f"site-{_id(filler)}"),
        GroupId: lambda filler: GroupId(f"alpha-{_id(filler)}"),
        SubgroupId: lambda filler: SubgroupId(f"alpha-{_id(filler)}/{_id(filler)}"),
        IndexSet: lambda filler: IndexSet((number := _id(filler), number + 1, number + 3, number + 7)),
        FinishedSet: finished,
        Facts: lambda filler: filler.struct(Facts, outcomes=[2], exit_codes=[-7]),
        Register: lambda _: Register(3, "spare", (Copy("main", "d1"), Copy("spare", "d2"))),
        Settings: changed_settings,
        Statement: lambda filler: filler.struct(Statement, values={"quota": 3}),
        Window: lambda filler: filler.struct(Window, from_wall_s=1e9, to_wall_s=2e9),
    }
)


class Fixtures:
    """A folder: what is stored, and beside it as JSON what it comes to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def raw(self, name: str, data: bytes) -> None:
        (self.folder / name).write_bytes(data)

    def told(self, name: str, entries: Any) -> None:
        """One line for each entry, so that what differs is seen."""

        def text(value: Any) -> str:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

        if isinstance(entries, dict):
            body = ",\n".join(f"{text(key)}: {text(value)}" for key, value in entries.items())
            self.raw(name, f"{{\n{body}\n}}\n".encode())
        else:
            self.raw(name, ("[\n" + ",\n".join(map(text, entries)) + "\n]\n").encode())


def framed(stored: list[bytes]) -> bytes:
    return b"".join(len(one).to_bytes(4, "big") + one for one in stored)


def packed(value: bytes) -> str:
    return base64.b64encode(value).decode()


def journal(to: Fixtures) -> None:
    """A site's life with every kind of record, its snapshot, and every kind of record with all of its fields."""
    site = rich_life()["alpha"]
    to.raw("journal.bin", framed(site.stored))
    to.raw("snapshot.bin", site.engine.snapshot())
    state = SiteState()
    for stored in site.stored:
        fold.apply(state, lines.decode(stored), SiteId("alpha"))
    to.told("state.json", tell(state))
    assert tell(decode_state(site.engine.snapshot())) == tell(state)
    kinds = typing.get_args(records.Record)
    assert {type(lines.decode(stored)) for stored in site.stored} == set(kinds)
    filler = Filler()
    whole = [lines.encode(filler.struct(kind)) for kind in sorted(kinds, key=lambda kind: str(kind.__name__))]
    to.raw("records.bin", framed(whole))
    to.told("records.json", [tell(lines.decode(stored)) for stored in whole])
    full = encode_state(filler.struct(SiteState))
    to.raw("full-snapshot.bin", full)
    to.told("full-state.json", tell(decode_state(full)))
    facts = msgspec.msgpack.encode(filler.fill(Facts))
    spec = encode_spec(filler.struct(GroupSpec))
    values = {
        "facts": {"stored": packed(facts), "told": tell(msgspec.msgpack.decode(facts, type=Facts))},
        "spec": {"stored": packed(spec), "told": tell(decode_spec(spec))},
    }
    to.told("values.json", values)


def spawner(to: Fixtures) -> None:
    """A claim log, and what node and spawner say to each other: every kind, all fields."""
    filler = Filler()
    kinds = sorted(typing.get_args(claims.Record), key=lambda kind: kind is not claims.Opened)
    log = [filler.struct(kind, **({"version": 1} if kind is claims.Opened else {})) for kind in kinds]
    claimlog.ClaimLog(to.folder / "claims.log", log).close()
    to.told("claims.json", [tell(record) for record in claimlog.read(to.folder / "claims.log")])
    assert {*TO_SPAWNER, *TO_NODE} == {kind.__name__ for kind in typing.get_args(protocol.Message)}
    for name, said in (("node-to-spawner", TO_SPAWNER), ("spawner-to-node", TO_NODE)):
        first = {said[0]: {"version": 1}}
        talk = [filler.struct(getattr(protocol, kind), **first.get(kind, {})) for kind in said]
        data = b"".join(map(protocol.frame, talk))
        to.raw(f"{name}.bin", data)
        to.told(f"{name}.json", [tell(one) for one in protocol.Frames().feed(data)])


def wire(to: Fixtures) -> None:
    """Messages of peers and of clients as the node has them, and every message of every definition."""
    from google.protobuf import json_format

    filler = Filler()
    peer = {}
    for cls in PEER_CLASSES:
        data = codec.encode_message(filler.struct(cls))
        peer[cls.__name__] = {"wire": packed(data), "told": tell(codec.decode_message(data))}
    to.told("peer.json", peer)
    proto = {}
    for name in PROTOS:
        module = importlib.import_module(f"diana.wire.pb.{name}_pb2")
        for kind in sorted(module.DESCRIPTOR.message_types_by_name):
            proto[f"{name}.{kind}"] = [
                {
                    "wire": packed(made.SerializeToString(deterministic=True)),
                    "told": json_format.MessageToDict(made, preserving_proto_field_name=True),
                }
                for made in message(getattr(module, kind), filler)
            ]
    to.told("proto.json", proto)
    client = {}
    for cls in CLIENT_CLASSES:
        kind = codec.proto_class(cls)
        (said,) = (proto[name] for name in (f"client.{cls.__name__}", f"common.{cls.__name__}") if name in proto)
        made = [codec.from_proto(cls, kind.FromString(base64.b64decode(one["wire"]))) for one in said]
        client[cls.__name__] = [json.loads(msgspec.json.encode(one)) for one in made]
    to.told("client.json", client)


def main() -> None:
    assert diana.__version__ == RELEASE and Path(diana.__file__).is_relative_to(CODE), (diana.__version__, CODE)
    to = Fixtures(HERE / RELEASE)
    journal(to)
    spawner(to)
    wire(to)
    make_site(CODE, to.folder / "site")


if __name__ == "__main__":
    main()
