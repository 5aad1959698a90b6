"""The stored journal: versions, retention, restored backups, and the files every later release must read."""

from __future__ import annotations

import typing
from pathlib import Path

import msgspec
import pytest

from diana import __version__
from diana.engine.engine import HOUSEKEEPING_S, Engine
from diana.engine.journal import codec, fold, records
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.state import SNAPSHOT_VERSION, SiteState, decode_state, encode_state
from diana.engine.site.surroundings import Journal
from diana.errors import StoreNewer
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.settings import Settings
from diana.model.views.views import GroupView
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, PlainKeyring, spec
from tests.engine.rich_life import rich_life

FIXTURES = Path(__file__).parents[1] / "fixtures"


def view(site: Site, group: str = "alpha-1") -> GroupView:
    seen = site.ask("group", group)
    assert isinstance(seen, GroupView)
    return seen


# --- versions -----------------------------------------------------------------------------------------------


def test_a_record_of_a_later_release_is_refused_in_one_line() -> None:
    newer = bytes([codec.VERSION + 1]) + b"\x80"
    with pytest.raises(StoreNewer, match=r"journal record: written by a newer diana \(schema 3\)") as told:
        codec.decode(newer)
    assert "\n" not in str(told.value)


def test_a_snapshot_of_a_later_release_is_refused_in_one_line() -> None:
    journal = Journal(snapshot=bytes([SNAPSHOT_VERSION + 1]) + b"\x80", seq=1, at_s=0.0, records=[])
    with pytest.raises(StoreNewer, match=r"snapshot: written by a newer diana \(schema 3\)") as told:
        Engine.restore(journal, site=SiteId("alpha"), keyring=PlainKeyring(), now=0.0)
    assert "\n" not in str(told.value)


def test_a_kind_of_record_that_came_later_is_refused_in_one_line_that_names_both_releases() -> None:
    newer = bytes([codec.VERSION]) + msgspec.msgpack.encode({"t": "MoonSeen", "phase": 1})
    journal = Journal(snapshot=None, seq=1, at_s=0.0, records=[newer], release="9.0.0")
    with pytest.raises(StoreNewer) as told:
        Engine.restore(journal, site=SiteId("alpha"), keyring=PlainKeyring(), now=0.0)
    said = str(told.value)
    assert said.startswith(
        f"journal record MoonSeen: written by a newer diana, 9.0.0; this one, {__version__}, does not"
    )
    assert "\n" not in said


def test_a_record_no_release_ever_wrote_is_refused() -> None:
    with pytest.raises(StoreNewer, match="no release wrote it"):
        codec.decode(b"\x00\x80")


def test_every_record_comes_back_as_it_was_written() -> None:
    for stored in rich_life()["alpha"].stored:
        assert codec.encode(codec.decode(stored)) == stored


# --- fixtures -----------------------------------------------------------------------------------------------


def write_fixtures() -> None:
    """Run once per schema version: `python -c "from tests.engine.journal.test_journal import *; write_fixtures()"`."""
    site = rich_life()["alpha"]
    FIXTURES.mkdir(exist_ok=True)
    framed = b"".join(len(stored).to_bytes(4, "big") + stored for stored in site.stored)
    (FIXTURES / f"journal-v{codec.VERSION}.bin").write_bytes(framed)
    (FIXTURES / f"snapshot-v{SNAPSHOT_VERSION}.bin").write_bytes(site.engine.snapshot())


def read_journal(path: Path) -> list[bytes]:
    data, out = path.read_bytes(), []
    while data:
        size = int.from_bytes(data[:4], "big")
        out.append(data[4 : 4 + size])
        data = data[4 + size :]
    return out


def tell(state: SiteState) -> dict[str, tuple[str, int, int, int, int]]:
    groups = state.groups.values()
    return {g.group: (g.state, len(g.done), len(g.cancelled), g.stale_results, len(g.unplaced)) for g in groups}


STORY = {
    "alpha-4": ("", 0, 0, 0, 0),
    "alpha-5": ("done", 3, 0, 3, 0),
    "alpha-6": ("", 0, 0, 0, 0),
    "alpha-7": ("", 0, 0, 0, 0),
}
"""Groups as the first release remembered them: alpha-1 to -3 expired, alpha-4 is unreachable, alpha-5 was placed anew
under leases, alpha-6 lost a machine, alpha-7 was put back while it ran."""


def test_the_journal_of_the_first_release_is_read() -> None:
    state = SiteState()
    for stored in read_journal(FIXTURES / "journal-v1.bin"):
        fold.apply(state, codec.decode(stored), SiteId("alpha"))
    assert tell(state) == STORY
    lost, told = state.groups[GroupId("alpha-4")].subgroups.values()
    assert "restored from a backup" in lost.unreachable and (told.site, told.unreachable) == ("beta", "")
    keys = {"alice@vo leased": "alpha-5", "alice@vo members": "alpha-6", "alice@vo last": "alpha-7"}
    assert state.keys == keys
    assert state.custodies[(SubgroupId("alpha-7/0"), 1)].running == {0: 1, 1: 1}
    assert state.next_group > 8
    assert state.machines["m2"].gone
    assert set(state.ledger) == {"user:eve@vo"}
    assert state.registers[SiteId("gamma")].leader == "main"
    assert set(state.datasets) == {"d", "made"}
    assert state.settings.summary_every_s == 1.0


def test_the_snapshot_of_the_first_release_is_read() -> None:
    state = decode_state((FIXTURES / "snapshot-v1.bin").read_bytes())
    assert tell(state) == STORY
    assert state.peers[SiteId("gamma")].db_uuid == "db-gamma-2"


def test_a_node_goes_on_from_the_fixtures() -> None:
    for journal in (
        Journal(snapshot=(FIXTURES / "snapshot-v1.bin").read_bytes(), seq=9, at_s=5e6, records=[]),
        Journal(snapshot=None, seq=9, at_s=5e6, records=read_journal(FIXTURES / "journal-v1.bin")),
    ):
        engine = Engine.restore(journal, site=SiteId("alpha"), keyring=PlainKeyring(), now=0.0)
        before = engine.generation
        engine.start(Settings(slots=1), boot_nonce="n", db_uuid="db-alpha")
        assert engine.generation == before + 1
        effects = engine.handle(ev.LrmReady(session=1, slots=1, known=()), 0.0)
        assert any(isinstance(e, fx.Start) for e in effects)


def test_the_life_that_is_kept_for_later_releases_has_every_kind_of_record() -> None:
    """A new kind of record belongs into the fixtures of its release."""
    told = {type(record) for record in rich_life()["alpha"].records()}
    missing = set(typing.get_args(records.Record)) - told
    assert not missing, {kind.__name__ for kind in missing}


# --- retention ----------------------------------------------------------------------------------------------


def test_a_finished_group_expires_after_its_time_and_its_key_is_free() -> None:
    grid = Grid({"keep_s": 100.0}, alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(3), 3, key="k")
    grid.finish()
    grid.pass_time(90.0)
    assert view(alpha).state == "done"
    grid.pass_time(HOUSEKEEPING_S + 100.0)
    assert not alpha.engine.core.state.groups
    assert [e.group for e in alpha.trace if isinstance(e, fx.DropGroup)] == ["alpha-1"]
    assert alpha.submit(spec(4), 4, 2, key="k") == fx.GroupAccepted(GroupId("alpha-2"), 4)


def test_a_group_that_is_not_over_never_expires() -> None:
    grid = Grid({"keep_s": 100.0}, alpha=2)
    grid["alpha"].submit(spec(30), 30)
    grid.pass_time(5000.0)
    assert view(grid["alpha"]).state == "running"


@pytest.mark.wide
def test_tombstones_live_for_their_time_and_then_go_with_facts_and_logs() -> None:
    grid = Grid({"tombstone_s": 5000.0}, alpha=0, beta=2)
    beta = grid["beta"]
    grid["alpha"].submit(spec(3), 3)
    grid.finish()
    grid.pass_time(3000.0)
    assert beta.engine.core.state.tombstones
    grid.pass_time(3000.0)
    assert not beta.engine.core.state.tombstones
    assert [e.group for e in beta.trace if isinstance(e, fx.DropGroup)] == ["alpha-1"]


@pytest.mark.wide
def test_an_old_tombstone_does_not_take_the_facts_of_a_part_that_still_runs() -> None:
    """Facts and logs are dropped per group: not before its last part here is over."""
    grid = Grid({"tombstone_s": 1000.0}, alpha=0, beta=2)
    beta = grid["beta"]
    grid["alpha"].submit(spec(6, max_subgroup=3), 6)
    while not beta.engine.core.state.tombstones:
        beta.end(1)
        grid.settle()
    assert beta.engine.core.state.custodies
    grid.pass_time(3000.0)
    assert not beta.engine.core.state.tombstones
    assert not any(isinstance(e, fx.DropGroup) for e in beta.trace)
    grid.finish()
    grid.pass_time(3000.0)
    assert [e.group for e in beta.trace if isinstance(e, fx.DropGroup)] == ["alpha-1"]


# --- restored backups -----------------------------------------------------------------------------------------


def restored(cut: int, jobs: int = 6) -> tuple[Grid, Site]:
    """alpha's group was placed at beta and went on there; then alpha's backup of `cut` records came back."""
    grid = Grid(alpha=0, beta=2)
    alpha = grid["alpha"]
    alpha.submit(spec(jobs, sites=("beta",)), jobs)
    backup = [
        n for n, s in enumerate(alpha.stored) if type(codec.decode(s)).__name__ in ("GroupSubmitted", "GroupPlaced")
    ][cut]
    alpha.stored = alpha.stored[: backup + 1]
    alpha.db_uuid = "db-alpha-restored"
    alpha.restart(restored=True)
    grid.settle()
    return grid, alpha


@pytest.mark.parametrize("cut", [0, 1], ids=["unplaced", "offered"])
def test_a_restored_store_places_nothing_that_was_not_over(cut: int) -> None:
    """PROMISES section 4: a restore holds everything not terminal; peers may know more than the backup."""
    grid, alpha = restored(cut)
    beta = grid["beta"]
    grid.pass_time(500.0)
    beta.end()
    grid.pass_time(500.0)
    placed = alpha.records(r.GroupPlaced)
    assert len(placed) == cut
    assert not alpha.records(r.TakenBack)
    assert set(grid.claims().values()) == {1}
    assert view(alpha).done == 6, "beta told what it had, and its results are taken"


def test_a_restored_store_starts_nothing_it_held() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(30), 30)
    running = len(alpha.started)
    alpha.running.clear()
    alpha.restart(restored=True)
    grid.pass_time(100.0)
    assert len(alpha.started) == running
    assert isinstance(alpha.submit(spec(1), 1, 2), fx.GroupAccepted)
    assert len(alpha.started) == running + 1


def test_a_restored_store_gives_no_group_number_a_second_time() -> None:
    _, alpha = restored(1)
    answer = alpha.submit(spec(1), 1, 9)
    assert isinstance(answer, fx.GroupAccepted)
    assert number_of(answer) >= 2 + fold.SKIPPED_GROUPS


def number_of(answer: object) -> int:
    assert isinstance(answer, fx.GroupAccepted)
    return int(answer.group.rpartition("-")[2])


@pytest.mark.parametrize("apart_s", [0.0, 3.0], ids=["by name", "by time"])
def test_a_site_whose_database_is_gone_twice_gives_no_group_number_a_second_time(apart_s: float) -> None:
    """Whoever begins with nothing knows no number it ever gave; stale results and tombstones of peers go by it."""
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    numbers = [number_of(alpha.submit(spec(1), 1))]
    for again in range(1, 3):
        alpha.stored.clear()
        alpha.db_uuid = f"db-alpha-{'same' if apart_s else again}"
        grid.pass_time(apart_s)
        alpha.restart(restored=True)
        numbers += [number_of(alpha.submit(spec(1), 1, 10 * again + k)) for k in range(2)]
    assert len(set(numbers)) == len(numbers) == 5, numbers


def test_a_journal_of_before_numbers_were_recorded_goes_on_a_million_later() -> None:
    state = SiteState()
    opened = r.Opened(generation=1, boot_nonce="b", db_uuid="d", restored=True)
    fold.apply(state, opened, SiteId("alpha"))
    assert state.next_group == 1 + fold.SKIPPED_GROUPS and state.forgotten == ((1, state.next_group),)


def test_only_a_group_of_this_site_may_have_gone_with_its_database() -> None:
    """Beta's group of a number that alpha lost is beta's: whoever sent it again would have it done twice."""
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(1), 1)
    alpha.stored.clear()
    alpha.restart(restored=True)
    assert alpha.engine.core.state.forgotten
    for group, told in (("alpha-1", "submit it again"), ("beta-1", "no group beta-1 of yours at alpha")):
        alpha.handle(ev.Ask(request=55, principal=ALICE, what="group", group=GroupId(group)))
        refusal = alpha.replies.pop(55)
        assert isinstance(refusal, fx.Refusal) and told in refusal.text


def test_what_a_restored_store_holds_can_be_cancelled() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(30), 30)
    alpha.running.clear()
    alpha.restart(restored=True)
    alpha.cancel("alpha-1")
    assert view(alpha).state == "cancelled"


# --- time and settings ------------------------------------------------------------------------------------------


def test_site_time_never_runs_backwards_also_over_restarts() -> None:
    journal = Journal(snapshot=None, seq=1, at_s=5000.0, records=[])
    engine = Engine.restore(journal, site=SiteId("alpha"), keyring=PlainKeyring(), now=17.0)
    engine.start(Settings(), boot_nonce="n", db_uuid="d")
    engine.handle(ev.Tick(), 4000.0)
    assert engine.core.now == 5000.0
    deadline = engine.deadline()
    assert deadline is not None
    assert deadline >= 5000.0


def test_settings_are_journaled_once_and_read_back() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    for _ in range(2):
        alpha.handle(ev.SettingsLoaded(settings=Settings(slots=7)))
    changed = alpha.records(r.SettingsChanged)
    assert len(changed) == 2, "at birth and at the reload"
    again = Engine.restore(
        Journal(snapshot=alpha.engine.snapshot(), seq=0, at_s=0.0, records=[]),
        site=alpha.name,
        keyring=PlainKeyring(),
        now=0.0,
    )
    assert encode_state(again.core.state) == alpha.engine.snapshot()
    assert again.core.state.settings.slots == 7
