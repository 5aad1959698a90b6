"""Groups that were submitted since an origin's journal was copied come back by its own receipts, which peers show."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from diana.engine.handover import own_runs, receipts
from diana.engine.journal import codec, records
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.state import Custody
from diana.engine.messages.recovery import GroupShown, Holding, Holdings, Met
from diana.engine.recovery import stocktaking
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.views.views import Ok
from diana.policy.trust import seals
from tests.engine.bench import Grid, Site
from tests.engine.builders import facts_of, spec
from tests.engine.handing import go_on, view
from tests.engine.recovery.test_stocktaking import put_origin_back


def submitted_since(jobs: int = 4, key: str = "", **settings: object) -> tuple[Grid, list[bytes]]:
    """Alpha copied before its group was submitted; beta has all the jobs and goes on."""
    grid = Grid(settings, alpha=1, beta=4, gamma=4)
    alpha = grid["alpha"]
    copy = list(alpha.stored)
    alpha.submit(spec(jobs, work_s=100.0, sites=("beta",)), jobs, key=key)
    assert view(grid).jobs == jobs
    return grid, copy


def has(site: Site, name: str = "alpha-1") -> bool:
    return GroupId(name) in site.engine.core.state.groups


def test_a_group_that_the_copy_lacks_comes_back_from_the_site_that_has_its_jobs_and_ends_there_once() -> None:
    grid, copy = submitted_since()
    alpha = put_origin_back(grid, copy)
    assert not has(alpha)
    grid.heal("alpha")
    assert has(alpha)
    group = alpha.group("alpha-1")
    assert group.on_hold and not group.unplaced
    assert any("shows alpha-1" in line for line in alpha.warnings)
    grid["beta"].end()
    grid.pass_time(30.0)
    assert view(grid).done == 4
    assert set(grid.claims().values()) == {1}


def test_what_no_peer_has_of_it_waits_for_its_user() -> None:
    grid = Grid(alpha=2, beta=2, gamma=2)
    alpha = grid["alpha"]
    copy = list(alpha.stored)
    alpha.submit(spec(12, work_s=100.0), 12)
    away = IndexSet.union(s.indices for s in alpha.group("alpha-1").subgroups.values() if s.site != "alpha")
    home = IndexSet.span(0, 12) - away
    assert away and home
    put_origin_back(grid, copy)
    grid.heal("alpha")
    assert alpha.group("alpha-1").unplaced == home
    grid.pass_time(60.0)
    assert alpha.group("alpha-1").unplaced == home
    assert "diana release" in view(grid).note
    assert isinstance(alpha.release_jobs("alpha-1"), Ok)
    grid.finish()
    assert view(grid).done == 12


def test_who_asks_for_it_before_it_is_back_is_told_whom_to_wait_for() -> None:
    grid, copy = submitted_since()
    shown = shown_by(grid)
    alpha = put_origin_back(grid, copy)
    assert set(stocktaking.missing(alpha.engine.core)) == {"beta", "gamma"}
    told = alpha.ask("group", "alpha-1")
    assert isinstance(told, fx.Refusal) and "waits for beta, gamma" in told.text
    for name in ("beta", "gamma"):
        alpha.handle(page(grid[name]))
    told = alpha.ask("group", "alpha-1")
    assert isinstance(told, fx.Refusal) and told.text.endswith("database; submit it again")
    # Whoever has told tells nothing more.
    alpha.handle(page(grid["beta"], shown))
    assert not has(alpha)


def test_it_is_told_again_by_its_key_and_has_its_name_and_owner() -> None:
    grid, copy = submitted_since(key="mine")
    before = grid["alpha"].group("alpha-1")
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    after = alpha.group("alpha-1")
    assert (after.owner, after.key, after.spec_bytes, after.submitted_s, after.authorisation) == (
        before.owner,
        before.key,
        before.spec_bytes,
        before.submitted_s,
        before.authorisation,
    )
    assert "alpha-1" in alpha.engine.core.state.keys.values()


def test_it_is_there_after_the_next_start_too() -> None:
    grid, copy = submitted_since()
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    grid.cut.add("alpha")
    alpha.boot()
    alpha.lrm_ready()
    grid.heal("alpha")
    assert alpha.group("alpha-1").on_hold
    grid["beta"].end()
    grid.pass_time(30.0)
    assert view(grid).done == 4


def shown_by(grid: Grid, name: str = "beta") -> GroupShown:
    """The group, as the site that has jobs of it can show it."""
    custody = next(iter(grid[name].engine.core.state.custodies.values()))
    assert custody.receipt
    return GroupShown(spec=custody.spec_bytes, receipt=custody.receipt)


def page(site: Site, *groups: GroupShown, rows: tuple[Holding, ...] = (), part: int = 0, parts: int = 1) -> ev.Event:
    """Return the word of that site to alpha."""
    told = Holdings(db_uuid=site.db_uuid, seq=1, part=part, parts=parts, rows=rows, groups=groups)
    return ev.Received(site.name, told)


def _receipt(receipt: bytes, **changes: object) -> bytes:
    """The receipt with other words under the same seal."""
    said = msgspec.msgpack.decode(receipt[seals.SEAL_BYTES :])
    assert said.keys() > changes.keys()
    return receipt[: seals.SEAL_BYTES] + msgspec.msgpack.encode(said | changes)


LIES: dict[str, Callable[[GroupShown], tuple[bytes, bytes]]] = {
    "another spec": lambda true: (true.spec + b" ", true.receipt),
    "no spec": lambda true: (b"", true.receipt),
    "no seal": lambda true: (true.spec, bytes(seals.SEAL_BYTES) + true.receipt[seals.SEAL_BYTES :]),
    "nothing": lambda true: (true.spec, b""),
    "the seal alone": lambda true: (true.spec, true.receipt[: seals.SEAL_BYTES]),
    "half of it": lambda true: (true.spec, true.receipt[: len(true.receipt) // 2]),
    "no words": lambda true: (true.spec, true.receipt[: seals.SEAL_BYTES] + bytes(range(256))),
    "more behind it": lambda true: (true.spec, true.receipt + bytes(receipts.MOST_BYTES)),
    "another owner": lambda true: (true.spec, _receipt(true.receipt, owner="mallory")),
    "another group": lambda true: (true.spec, _receipt(true.receipt, group="alpha-2")),
    "more jobs": lambda true: (true.spec, _receipt(true.receipt, jobs=10**6)),
}


@pytest.mark.parametrize("lie", [*LIES, "another's receipt"])
def test_a_site_brings_no_group_into_being_that_its_origin_never_acknowledged(lie: str) -> None:
    grid, copy = submitted_since()
    true = shown_by(grid)
    if lie == "another's receipt":
        false = msgspec.structs.replace(true, receipt=receipts.of(grid["alpha"].group("alpha-1"), b"k" * 32))
    else:
        words, receipt = LIES[lie](true)
        false = GroupShown(spec=words, receipt=receipt)
    alpha = put_origin_back(grid, copy)
    alpha.handle(page(grid["beta"], *[false] * 1000, parts=2))
    assert not alpha.engine.core.state.groups
    # The truth counts beside it.
    alpha.handle(page(grid["beta"], false, true, part=1, parts=2))
    assert list(alpha.engine.core.state.groups) == ["alpha-1"]
    assert alpha.group("alpha-1").owner == "alice@vo" and alpha.group("alpha-1").jobs == 4


def test_nobody_fills_the_memory_of_an_origin_with_groups_that_never_were() -> None:
    grid, copy = submitted_since()
    true = shown_by(grid)
    alpha = put_origin_back(grid, copy)
    for part in range(stocktaking.MOST_PAGES - 1):
        many = [GroupShown(spec=b"s" * 1000, receipt=bytes(100))] * 100
        alpha.handle(page(grid["beta"], *many, true, part=part, parts=stocktaking.MOST_PAGES))
    kept = alpha.engine.core.book(stocktaking.Stocktaking).pages[SiteId("beta")]
    assert len(kept) == stocktaking.MOST_PAGES - 1 and not any(one.groups for one in kept.values())
    assert len(alpha.records(records.GroupSubmitted)) == 1


@pytest.mark.parametrize("group", ["alpha-1", "beta-1", "alpha-0", "gamma-77"])
def test_a_site_that_was_not_asked_shows_groups_in_vain(group: str) -> None:
    grid, _ = submitted_since()
    alpha, shown = grid["alpha"], shown_by(grid)
    if group != "alpha-1":
        shown = msgspec.structs.replace(shown, receipt=_receipt(shown.receipt, group=group))
    before = msgspec.structs.asdict(alpha.group("alpha-1"))
    stored = len(alpha.stored)
    alpha.handle(page(grid["beta"], shown))
    assert len(alpha.stored) == stored
    assert msgspec.structs.asdict(alpha.group("alpha-1")) == before


def test_a_group_that_the_journal_has_is_not_made_a_second_time() -> None:
    """Its receipt is true, and the one who shows it was asked."""
    grid, _ = submitted_since()
    shown = shown_by(grid)
    alpha = put_origin_back(grid, list(grid["alpha"].stored))
    before = alpha.group("alpha-1")
    alpha.handle(page(grid["beta"], shown))
    assert alpha.group("alpha-1") is before and len(alpha.records(records.GroupSubmitted)) == 1


def test_a_group_that_came_back_and_is_over_and_forgotten_does_not_come_back_again() -> None:
    """Mallory's word is waited for all that time."""
    grid, copy = submitted_since(keep_s=1000.0)
    shown = shown_by(grid)
    alpha, beta = put_origin_back(grid, copy), grid["beta"]
    grid.cut.add("gamma")
    grid.heal("alpha")
    assert has(alpha)
    beta.end()
    grid.pass_time(3600.0)
    assert not has(alpha) and alpha.records(records.GroupExpired)
    assert stocktaking.missing(alpha.engine.core) == ["gamma"]
    for _ in range(2):
        alpha.handle(page(grid["gamma"], shown))
        assert not has(alpha)
        # Nor after another loss.
        alpha.boot(restored=True)
        alpha.lrm_ready()


def test_a_key_stays_with_the_group_that_was_submitted_under_it_after_the_loss() -> None:
    grid, copy = submitted_since(key="mine", keep_s=1000.0)
    alpha = put_origin_back(grid, copy)
    alpha.submit(spec(1, work_s=10**6), 1, request=7, key="mine")
    (fresh,) = alpha.engine.core.state.groups
    grid.heal("alpha")
    assert has(alpha) and list(alpha.engine.core.state.keys.values()) == [fresh]
    grid["beta"].end()
    grid.pass_time(3600.0)
    assert not has(alpha)
    assert list(alpha.engine.core.state.keys.values()) == [fresh]


def test_a_receipt_brings_nothing_into_a_journal_that_lost_nothing_then() -> None:
    """Its group was over, and forgotten, when the copy was made."""
    grid, _ = submitted_since()
    alpha, beta = grid["alpha"], grid["beta"]
    shown = shown_by(grid)
    kinds = [type(codec.decode(stored)) for stored in alpha.stored]
    later = alpha.stored[: kinds.index(records.GroupSubmitted) + 1]
    alpha = put_origin_back(grid, later)
    assert alpha.engine.core.state.forgotten[-1][0] == 2
    del alpha.engine.core.state.groups[GroupId("alpha-1")]
    alpha.handle(page(beta, shown))
    assert not has(alpha)


@pytest.mark.parametrize("liar", ["", "mallory"])
def test_what_runs_at_home_of_a_group_that_comes_back_is_not_begun_again(liar: str) -> None:
    """Whatever another machine of the site says of it."""
    grid = Grid(alpha=2, beta=2, gamma=2)
    alpha = grid["alpha"]
    copy = list(alpha.stored)
    alpha.submit(spec(12, work_s=100.0), 12)
    runs = dict(alpha.running)
    assert runs
    grid.cut.add("alpha")
    alpha.stored = list(copy)
    alpha.db_uuid = "db-alpha-restored"
    alpha.trace.clear()
    alpha.boot(restored=True)
    alpha.lrm_ready()
    assert set(alpha.running) == set(runs) and not sent_forget(alpha)
    for run in runs if liar else ():
        facts = facts_of(SiteId("alpha"), [run], Outcome.DONE, 0.0)
        alpha.handle(ev.JobsEnded(subgroup=run.subgroup, epoch=run.epoch, facts=facts, worker=liar))
    grid.heal("alpha")
    taken = {index for one in alpha.engine.core.state.custodies.values() for index in one.running}
    assert taken == {run.index for run in runs}
    assert isinstance(alpha.release_jobs("alpha-1"), Ok)
    grid.finish()
    assert view(grid).done == 12
    assert set(grid.claims().values()) == {1}


def sent_forget(site: Site) -> list[fx.Effect]:
    return [effect for effect in site.trace if isinstance(effect, fx.ForgetRuns)]


def two_have_it() -> tuple[Grid, list[bytes], dict[str, IndexSet]]:
    """Alpha copied before its group was submitted. Gamma's part is over, so it has no receipt to show; beta has."""
    grid = Grid(alpha=0, beta=2, gamma=2)
    alpha = grid["alpha"]
    copy = list(alpha.stored)
    alpha.submit(spec(4, work_s=100.0), 4)
    parts = {str(s.site): s.indices for s in alpha.group("alpha-1").subgroups.values()}
    assert set(parts) == {"beta", "gamma"}
    grid["gamma"].end()
    grid.pass_time(30.0)
    assert not grid["gamma"].engine.core.state.custodies
    return grid, copy, parts


def cancelled_before_gamma_tells() -> tuple[Grid, Site]:
    """The group of eight is back, for beta has half of it, and its user cancels it; gamma runs two jobs, two wait."""
    grid = Grid(alpha=0, beta=2, gamma=2)
    alpha = grid["alpha"]
    copy = list(alpha.stored)
    alpha.submit(spec(8, work_s=100.0), 8)
    grid.cut.add("gamma")
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    assert alpha.cancel("alpha-1") == Ok(8)
    assert len(kept_at(grid, "gamma").pending) == 2
    return grid, alpha


def kept_at(grid: Grid, name: str) -> Custody:
    (custody,) = grid[name].engine.core.state.custodies.values()
    return custody


@pytest.mark.parametrize("between", ["nothing", "a start", "the operator's word that it is gone"])
def test_what_its_user_cancels_before_all_have_told_is_cancelled_where_it_is_shown_later(between: str) -> None:
    grid, alpha = cancelled_before_gamma_tells()
    if between == "a start":
        grid.cut.add("alpha")
        alpha.boot()
        alpha.lrm_ready()
        grid.heal("alpha")
    elif between != "nothing":
        go_on(alpha, "gamma")
    grid.heal("gamma")
    grid.pass_time(30.0)
    theirs = kept_at(grid, "gamma")
    assert not theirs.pending and theirs.cancelled == theirs.indices
    for name in ("beta", "gamma"):
        grid[name].obey_kills()
    grid.pass_time(30.0)
    assert view(grid).state == "cancelled" and view(grid).cancelled == 8
    assert len(grid.claims()) == 4


@pytest.mark.parametrize("between", ["a retry", "a loss of the end that may have held one"])
def test_what_its_user_wants_again_is_not_cancelled_where_it_is_shown_later(between: str) -> None:
    grid, alpha = cancelled_before_gamma_tells()
    if between == "a retry":
        grid["beta"].obey_kills()
        go_on(alpha, "gamma")
        assert view(grid).state == "cancelled"
        assert isinstance(alpha.retry("alpha-1", IndexSet.span(4, 8), cancelled=True), Ok)
    else:
        grid.cut.add("alpha")
        alpha.boot(restored=True)
        alpha.lrm_ready()
        grid.heal("alpha")
    grid.heal("gamma")
    grid.pass_time(30.0)
    assert not grid["gamma"].kills and not kept_at(grid, "gamma").cancelled


@pytest.mark.parametrize("again", ["no start between", "a start between", "a loss between"])
def test_what_another_site_tells_before_the_group_comes_back_counts_once_it_does(again: str) -> None:
    grid, copy, parts = two_have_it()
    grid.cut.add("beta")
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    assert not has(alpha)
    if again != "no start between":
        grid.cut.add("alpha")
        alpha.boot(restored=again == "a loss between")
        alpha.lrm_ready()
        grid.heal("alpha")
        assert not has(alpha)
    grid.heal("beta")
    grid.pass_time(30.0)
    assert view(grid).held == len(parts["gamma"])
    assert not alpha.group("alpha-1").unplaced
    assert not stocktaking.missing(alpha.engine.core) and all(alpha.engine.core.state.reported.values())
    assert not alpha.engine.core.book(stocktaking.Stocktaking).unknown


def test_a_site_that_was_given_up_brings_no_group_back_for_what_others_told_of_it_is_not_known_any_more() -> None:
    grid, copy, _ = two_have_it()
    grid.cut.add("beta")
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    assert go_on(alpha, "beta") == Ok(1)
    grid.heal("beta")
    grid.pass_time(30.0)
    if has(alpha):
        alpha.release_jobs("alpha-1")
        grid.finish()
    assert set(grid.claims().values()) == {1}
    told = alpha.ask("group", "alpha-1")
    assert isinstance(told, fx.Refusal) and told.text.endswith("database; submit it again")


def test_a_group_that_comes_back_with_runs_at_home_leaves_another_waiting_for_those_that_are_ended() -> None:
    grid = Grid(alpha=1, beta=8, gamma=1)
    alpha = grid["alpha"]
    alpha.submit(spec(2, work_s=100.0, sites=("beta",)), 2)
    copy = list(alpha.stored)
    alpha.submit(spec(2, work_s=100.0, sites=("beta",)), 2, request=2)
    (custody,) = (one for one in grid["beta"].engine.core.state.custodies.values() if one.subgroup == "alpha-2/0")
    alpha = put_origin_back(grid, copy)
    merge, job = ev.Run(SubgroupId("alpha-1/1"), 2, 2, 1), ev.Run(SubgroupId("alpha-2/1"), 2, 0, 1)
    alpha.session += 1
    alpha.handle(ev.LrmReady(session=alpha.session, slots=1, known=(merge, job)))
    assert "1 at main" in own_runs.waits_for(alpha.engine.core, GroupId("alpha-1"))
    alpha.handle(page(grid["beta"], GroupShown(spec=custody.spec_bytes, receipt=custody.receipt)))
    assert alpha.engine.core.state.custodies[job.subgroup, job.epoch].running == {0: 1}
    assert "1 at main" in own_runs.waits_for(alpha.engine.core, GroupId("alpha-1"))


def test_where_more_is_told_of_lost_groups_than_can_be_kept_none_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that are not kept would run a second time once their group is let go on."""
    grid, copy, _ = two_have_it()
    monkeypatch.setattr(stocktaking, "MOST_UNKNOWN", 0)
    grid.cut.add("beta")
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    assert any("no more groups come back" in line for line in alpha.warnings)
    grid.heal("beta")
    grid.pass_time(30.0)
    assert not has(alpha)


def test_a_site_without_offers_takes_no_room_from_those_that_have_some_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grid, copy, parts = two_have_it()
    monkeypatch.setattr(stocktaking, "MOST_UNKNOWN", 1)
    grid.cut.update(("beta", "gamma"))
    alpha = put_origin_back(grid, copy)
    lie = Holding(subgroup=SubgroupId("alpha-1/0"), epoch=1, open=IndexSet.span(0, 4), offer=bytes(16))
    alpha.handle(page(grid["gamma"], rows=(lie,) * 100))
    assert not alpha.engine.core.book(stocktaking.Stocktaking).overflown
    grid.heal("alpha")
    grid.heal("beta")
    grid.pass_time(30.0)
    group = alpha.group("alpha-1")
    assert group.on_hold and group.unplaced == parts["gamma"]
    assert "gamma says that it has jobs of it, and shows no offer" in view(grid).note


def test_a_site_that_tells_the_same_again_and_again_takes_the_room_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    grid, copy, parts = two_have_it()
    monkeypatch.setattr(stocktaking, "MOST_UNKNOWN", 1)
    grid.cut.update(("beta", "gamma"))
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    ((subgroup, epoch), stone), *_ = grid["gamma"].engine.core.state.tombstones.items()
    row = Holding(
        subgroup=subgroup, epoch=epoch, told=stone.indices, over=True, offered=stone.offered, offer=stone.offer
    )
    alpha.handle(page(grid["gamma"], rows=(row,) * 100))
    assert not alpha.engine.core.book(stocktaking.Stocktaking).overflown
    grid.heal("beta")
    grid.pass_time(30.0)
    assert view(grid).held == len(parts["gamma"])


@pytest.mark.parametrize(("size", "given"), [(receipts.MOST_SPEC_BYTES, True), (receipts.MOST_SPEC_BYTES + 1, False)])
def test_a_group_whose_spec_nearly_fills_a_message_has_no_receipt_beside_it(size: int, given: bool) -> None:
    grid, _ = submitted_since()
    group = grid["alpha"].group("alpha-1")
    group.spec_bytes = bytes(size)
    assert bool(receipts.of(group, b"k" * 16)) == given
    ((_, custody),) = grid["beta"].engine.core.state.custodies.items()
    custody.spec_bytes = bytes(size)
    shown, _ = stocktaking._shown(grid["beta"].engine.core, SiteId("alpha"), 1)
    assert bool(shown) == given


@pytest.mark.parametrize(
    ("bound", "most", "first"), [("SHOWN_BYTES", 1, 1), ("MOST_SHOWN", 1, 1), ("MOST_SHOWN", 2, 2)]
)
def test_groups_that_go_in_no_one_message_come_back_message_by_message(
    bound: str, most: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stocktaking, bound, most)
    grid = Grid(alpha=1, beta=20, gamma=20)
    copy = list(grid["alpha"].stored)
    for number in range(5):
        grid["alpha"].submit(spec(4, work_s=100.0, sites=("beta",)), 4, request=number + 1)
    shown, more_from = stocktaking._shown(grid["beta"].engine.core, SiteId("alpha"), 1)
    assert (len(shown), more_from) == (first, first + 1)
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    names = [f"alpha-{number}" for number in range(1, 6)]
    assert [group.group for group in alpha.engine.core.state.groups.values()] == names
    assert not stocktaking.missing(alpha.engine.core)
    assert not any(group.unplaced for group in alpha.engine.core.state.groups.values())
    grid["beta"].end()
    grid.pass_time(30.0)
    assert [view(grid, name).done for name in names] == [4] * 5


def test_a_message_of_them_that_is_lost_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stocktaking, "MOST_SHOWN", 1)
    grid = Grid(alpha=1, beta=20, gamma=20)
    copy = list(grid["alpha"].stored)
    for number in range(3):
        grid["alpha"].submit(spec(4, work_s=100.0, sites=("beta",)), 4, request=number + 1)
    lost: list[int] = []
    send = grid["beta"].engine.core.send

    def losing(to: SiteId, message: object) -> None:
        if isinstance(message, Holdings) and message.more_from not in lost:
            lost.append(message.more_from)
        else:
            send(to, message)  # type: ignore[arg-type]

    monkeypatch.setattr(grid["beta"].engine.core, "send", losing)
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    grid.pass_time(600.0)
    assert lost == [2, 3, 0]
    assert all(has(alpha, f"alpha-{number}") for number in (1, 2, 3))
    assert not stocktaking.missing(alpha.engine.core)


def test_a_site_that_says_the_same_is_still_to_come_is_asked_no_more_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    grid, copy = submitted_since()
    grid.cut.add("beta")
    alpha = put_origin_back(grid, copy)
    monkeypatch.setattr(stocktaking, "_report", lambda *_: None)
    grid.heal("alpha")
    alpha.trace.clear()
    more = Holdings(db_uuid=grid["gamma"].db_uuid, seq=1, part=0, parts=1, rows=(), more_from=7)
    for at in (7, 7, 6, 7):
        alpha.handle(ev.Received(SiteId("gamma"), msgspec.structs.replace(more, more_from=at)))
    asked = [one for one in alpha.trace if isinstance(one, fx.Send) and isinstance(one.message, Met)]
    assert [one.message.since for one in asked] == [7]
    assert "gamma" in stocktaking.missing(alpha.engine.core)
