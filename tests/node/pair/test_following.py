"""A machine while another of its site leads (SPEC D8; PROMISES 5.2): whom the VO revoked is refused by it
too, terms are remembered, and what the engine knows of machines outlives the one that leads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from diana.adapters.lrm.spawner.segments import Segments
from diana.adapters.subgrid.delivery import LogSegments
from diana.adapters.subgrid.notes import Notes
from diana.engine.journal import codec, fold, records
from diana.engine.journal.state import Machine, SiteState, encode_state
from diana.model.ids import GroupId, SiteId
from diana.model.trust.ledger import Signed, Statement, payload_of
from diana.node.pair.doorway import Doorway
from diana.node.pair.following import Revoked, standing, statements_in
from diana.ports import Batch, Journal

BAN = Statement(kind="revoke", about="site:gamma", wall_s=10.0, signer=SiteId("alpha"), reason="stolen")
LIFT = msgspec.structs.replace(BAN, kind="lift", wall_s=20.0)


def kept(statement: Statement) -> bytes:
    return codec.encode(records.StatementKept(signed=Signed(payload_of(statement), b"chain", b"signature")))


class Keyring:
    def __init__(self) -> None:
        self.revoked: list[frozenset[str]] = []

    def set_revoked(self, revoked: frozenset[str], since: dict[str, float]) -> None:
        assert set(since) == revoked
        self.revoked.append(revoked)


class Thread:
    """A store that is slow to load."""

    def __init__(self, journal: Journal) -> None:
        self.store = self
        self.journal = journal
        self.may_end = asyncio.Event()

    def load(self) -> Journal:
        return self.journal

    async def call(self, method: Any) -> Any:
        await self.may_end.wait()
        return method()


def test_the_newest_statement_of_snapshot_and_records_counts() -> None:
    state = SiteState()
    for one in (BAN, msgspec.structs.replace(BAN, about="user:eve@vo")):
        fold.apply(state, codec.decode(kept(one)), SiteId("alpha"))
    other = codec.encode(records.MachineGone(machine="m1"))
    journal = Journal(snapshot=encode_state(state), records=[other, kept(LIFT)], seq=4, at_s=0.0)
    found = standing(journal)
    assert {about: one.kind for about, one in found.items()} == {"site:gamma": "lift", "user:eve@vo": "revoke"}
    assert statements_in([other]) == {}


async def test_a_follower_refuses_whom_its_journal_revokes_and_what_it_hears_meanwhile_is_newer() -> None:
    keyring, thread = Keyring(), Thread(Journal(snapshot=None, records=[kept(BAN)], seq=1, at_s=0.0))
    revoked = Revoked(cast("Any", keyring), cast("Any", thread))
    revoked.start()
    revoked.heard(Batch(at_s=0.0, records=(kept(LIFT),)))
    thread.may_end.set()
    async with asyncio.timeout(60):
        while len(keyring.revoked) < 2:
            await asyncio.sleep(0.01)
    assert keyring.revoked == [frozenset(), frozenset()]
    revoked.heard(Batch(at_s=0.0, records=(kept(msgspec.structs.replace(BAN, wall_s=30.0)),)))
    assert keyring.revoked[-1] == {"site:gamma"}
    await revoked.stop()


def test_terms_and_addresses_outlive_a_restart_and_the_term_never_falls(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "member.json")
    notes.note_term(7)
    notes.note_term(3)
    notes.note_leaders(["10.0.0.1:7400", "10.0.0.2:7400"])
    notes.note_leaders([])
    again = Notes(tmp_path / "member.json")
    assert (again.term, again.leaders, again.identity) == (7, ("10.0.0.1:7400", "10.0.0.2:7400"), notes.identity)


def test_the_data_directory_of_a_machine_is_in_the_journal_until_it_is_given_up() -> None:
    state = SiteState()
    known = records.MachineKnown(machine="m1", slots=4, memory_bytes=1, identity="abc")
    fold.apply(state, codec.decode(codec.encode(known)), SiteId("alpha"))
    assert state.machines["m1"] == Machine(4, 1, identity="abc")
    fold.apply(state, records.MachineGone(machine="m1"), SiteId("alpha"))
    assert state.machines["m1"].identity == ""


@pytest.mark.parametrize("names", [("main", "spare"), ("spare", "m1")])
def test_no_two_machines_of_a_site_call_different_logs_the_same(tmp_path: Path, names: tuple[str, str]) -> None:
    found: list[str] = []
    for machine in names:
        own = Segments(tmp_path / machine)
        own.of_machine(machine)
        found.append(own.at("alpha-1", 0).name)
        # A restart goes on with the same one.
        again = Segments(tmp_path / machine)
        again.of_machine(machine)
        assert again.at("alpha-1", 0).name == found[-1]
        for member in ("m1", "spare", "main"):
            if member != machine:
                found.append(LogSegments(tmp_path / machine, member, leader=machine).open(GroupId("alpha-1"))[0])
    assert len(set(found)) == len(found), found


def test_what_is_served_meanwhile_is_served_no_more_once_the_site_is_open() -> None:
    class Handler:
        def __init__(self, name: str) -> None:
            self.name = name

        def service(self, details: str) -> str | None:
            return self.name if details == self.name else None

    door = Doorway(lambda: "spare follows")
    door.meanwhile(Handler("attach"))
    door.add_generic_rpc_handlers([Handler("submit")])
    assert door.service("attach") == "attach" and door.service("submit") not in ("submit", None)
    asyncio.run(door.start())
    assert door.service("attach") is None and door.service("submit") == "submit"
