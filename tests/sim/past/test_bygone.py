"""Orders, drains, failures and forecasts of the past: they are told, written, read, and happen again in the replay."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from diana.engine.journal import events as ev
from diana.errors import UsageError
from diana.model.bygone import MOST_MOMENTS, MOST_ORDERS
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.settings import Settings
from diana.model.views.past import PastGroup, PastMoment, PastOrder, PastRows, PastSite
from diana.sim.kernel.clock import Clock
from diana.sim.load import past
from diana.sim.load.workload import Users
from diana.sim.past.changes import changed
from diana.sim.past.merging import load
from diana.sim.past.recording import KnownSite, Recorder
from diana.sim.past.replay import replayed
from diana.sim.past.text import of_twin
from diana.sim.past.twin import twin
from diana.sim.specs.event_spec import EventSpec
from diana.sim.specs.scenario_spec import Scenario
from tests.engine.bench import Grid
from tests.engine.builders import OPERATOR, spec
from tests.sim.past.histories import START_S, VO, Ran, history, told


def _rows(starts: list[float], run_s: list[float], outcomes: list[str], first: int = 0, **more: object) -> PastRows:
    count = len(starts)
    return PastRows(
        site=SiteId("alpha"),
        indices=tuple(range(first, first + count)),
        attempts=tuple(more.pop("attempts", (1,) * count)),  # type: ignore[call-overload]
        outcomes=tuple(outcomes),
        started_s=tuple(starts),
        ended_s=tuple(start + each for start, each in zip(starts, run_s, strict=True)),
        cpu_s=(0.0,) * count,
        max_rss_bytes=(0,) * count,
        output_bytes=(0,) * count,
        **more,  # type: ignore[arg-type]
    )


def _recorded(
    folder: Path, group: PastGroup, rows: list[PastRows], slots: int = 1, site: PastSite | None = None
) -> Scenario:
    home = site or PastSite(site=SiteId("alpha"), slots=slots, speed=1.0)
    with Recorder(folder, home, [KnownSite("alpha", slots, 1.0)], VO) as it:
        it.group(group)
        for some in rows:
            it.rows(some)
        it.close((), (), {}, {})
    return load(folder)


def _group(jobs: int, **more: object) -> PastGroup:
    return PastGroup(
        group=GroupId("alpha-1"), owner="ann@lab", jobs=jobs, submitted_wall_s=START_S, submitted_s=START_S,
        final=True, processors=1, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_site_tells_the_orders_of_its_users_and_the_times_when_it_was_drained() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(40), 40, 1)
    group = GroupId("alpha-1")
    grid.now += 2.0
    some = IndexSet.span(30, 40)
    alpha.handle(ev.HoldJobs(request=2, principal=OPERATOR, group=group, indices=some))
    grid.now += 3.0
    alpha.handle(ev.ReleaseJobs(request=3, principal=OPERATOR, group=group, indices=None))
    alpha.handle(ev.ReleaseJobs(request=4, principal=OPERATOR, group=group, indices=None))
    alpha.handle(ev.DrainSite(request=5, principal=OPERATOR, on=True))
    assert alpha.engine.core.order is None, "what was refused is no order of a later record"
    grid.now += 4.0
    alpha.handle(ev.CancelJobs(request=6, principal=OPERATOR, group=group, indices=None))
    alpha.handle(ev.DrainSite(request=7, principal=OPERATOR, on=False))
    orders = alpha.engine.core.state.groups[group].orders
    assert [(one.kind, one.indices) for one in orders] == [("hold", some), ("release", None), ("cancel", None)], (
        "what was refused is no order"
    )
    assert [orders[k + 1].at_s - orders[k].at_s for k in range(2)] == [3.0, 4.0]
    moments = alpha.engine.core.state.moments
    assert [one.drained for one in moments][-2:] == [True, False]
    assert moments[-1].at_s - moments[-2].at_s == 4.0


def test_what_a_site_remembers_of_itself_and_of_orders_is_bounded() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(40), 40, 1)
    group = GroupId("alpha-1")
    for number in range(2 * MOST_MOMENTS + 6):
        grid.now += 1.0
        alpha.handle(ev.DrainSite(request=10 + number, principal=OPERATOR, on=number % 2 == 0))
    assert len(alpha.engine.core.state.moments) == MOST_MOMENTS
    for number in range(MOST_ORDERS + 6):
        kind = ev.ReleaseJobs if number % 2 else ev.HoldJobs
        alpha.handle(kind(request=1000 + number, principal=OPERATOR, group=group, indices=IndexSet.span(30, 40)))
    assert len(alpha.engine.core.state.groups[group].orders) == MOST_ORDERS


def test_settings_that_change_are_a_moment_and_equal_ones_are_none() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    before = len(alpha.engine.core.state.moments)
    alpha.handle(ev.SettingsLoaded(settings=Settings(slots=7)))
    alpha.handle(ev.SettingsLoaded(settings=Settings(slots=7, keep_s=1000.0)))
    moments = alpha.engine.core.state.moments
    assert len(moments) == before + 1 and moments[-1].slots == 7


def test_a_drained_site_takes_no_job_in_the_replay_either(tmp_path: Path) -> None:
    moments = tuple(
        PastMoment(wall_s=START_S + at_s, slots=1, speed=1.0, drained=drained)
        for at_s, drained in ((-9.0, False), (1.0, True), (60.0, False))
    )
    site = PastSite(site=SiteId("alpha"), slots=1, speed=1.0, moments=moments)
    rows = [_rows([START_S, START_S + 61], [4.0, 4.0], ["DONE"] * 2)]
    scenario = _recorded(tmp_path, _group(2), rows, site=site)
    assert scenario.events == (EventSpec(1.0, "drain", ("alpha",), for_s=59.0),)
    ((run,),) = replayed([scenario], range(1))
    assert 60.0 < run.groups["alpha-1"].end_s < 70.0
    ((free,),) = replayed([msgspec.structs.replace(scenario, events=())], range(1))
    assert free.groups["alpha-1"].end_s < 10.0


def test_slots_of_then_stand_in_the_replay_and_a_what_if_changes_them_too(tmp_path: Path) -> None:
    moments = (PastMoment(wall_s=START_S - 9, slots=1, speed=1.0), PastMoment(wall_s=START_S + 20, slots=4, speed=1.0))
    site = PastSite(site=SiteId("alpha"), slots=4, speed=1.0, moments=moments)
    rows = [_rows([START_S + k for k in range(8)], [10.0] * 8, ["DONE"] * 8)]
    scenario = _recorded(tmp_path, _group(8), rows, slots=4, site=site)
    assert scenario.sites[0].slots == 1 and [(one.at_s, one.slots) for one in scenario.events] == [(20.0, 4)]
    ((run,),) = replayed([scenario], range(1))
    assert 40.0 <= run.groups["alpha-1"].end_s < 46.0, "two jobs by one slot in 20 s, then six by four"
    more = changed(scenario, [("site", "alpha.slots+3")])
    assert more.sites[0].slots == 4 and more.events[0].slots == 7
    fixed = changed(scenario, [("site", "alpha.slots=2")])
    assert fixed.sites[0].slots == 2 and not fixed.events


def test_a_group_that_was_held_waits_in_the_replay_until_it_was_released(tmp_path: Path) -> None:
    orders = (
        PastOrder(after_s=1.0, kind="hold", whole=True),
        PastOrder(after_s=50.0, kind="release", whole=True),
    )
    rows = [_rows([START_S, START_S + 50], [5.0, 5.0], ["DONE"] * 2)]
    scenario = _recorded(tmp_path, _group(2, orders=orders), rows)
    ((run,),) = replayed([scenario], range(1))
    assert 50.0 < run.groups["alpha-1"].end_s < 60.0


def test_jobs_that_were_cancelled_before_they_ran_come_back_with_their_cancel(tmp_path: Path) -> None:
    orders = (PastOrder(after_s=12.0, kind="cancel", whole=True),)
    rows = [_rows([START_S, START_S + 5, START_S + 10], [5.0, 5.0, 2.0], ["DONE", "DONE", "CANCELLED"])]
    scenario = _recorded(tmp_path, _group(9, orders=orders), rows)
    (work,) = past.groups(scenario.workload[0], scenario.workload[0].history, scenario, 0)  # type: ignore[arg-type]
    assert work.work.jobs == 9 and set(work.run_s.tolist()) == {5.0}, "what was cancelled would have run on"
    ((run,),) = replayed([scenario], range(1))
    assert run.groups["alpha-1"].jobs == 2
    wide = changed(scenario, [("site", "alpha.slots=3")])
    ((more,),) = replayed([wide], range(1))
    assert more.groups["alpha-1"].jobs == 6, "with three slots more of it ends before it is cancelled"


def test_the_jobs_that_failed_fail_again_and_their_retries_end_as_they_did(tmp_path: Path) -> None:
    orders = (PastOrder(after_s=20.0, kind="retry", whole=True),)
    rows = [
        _rows([START_S, START_S + 23, START_S + 4], [2.0, 3.0, 2.0], ["DONE", "DONE", "FAILED"], attempts=(1, 2, 1)),
        _rows([START_S + 2], [1.5], ["FAILED"], first=1, earlier=True),
    ]
    scenario = _recorded(tmp_path, _group(3, orders=orders, retried=1), rows)
    users = Users(Clock(), scenario, 0, lambda site, event: None)
    (one,) = users.in_order()
    fates = [
        (one.life(k, attempt).run_s, one.life(k, attempt).exit_code) for k, attempt in ((0, 1), (1, 1), (1, 2), (2, 1))
    ]
    assert fates == [(2.0, 0), (1.5, 1), (3.0, 0), (2.0, 1)]
    assert [order.kind for order in one.orders] == [ev.RetryJobs]


def test_a_part_of_a_group_is_ordered_about_alone(tmp_path: Path) -> None:
    orders = (
        PastOrder(after_s=1.0, kind="hold", indices="2-3"),
        PastOrder(after_s=2.0, kind="move", indices="1", to="beta"),
    )
    rows = [_rows([START_S + 5 * k for k in range(4)], [5.0] * 4, ["DONE"] * 4)]
    scenario = _recorded(tmp_path, _group(4, orders=orders), rows)
    (one,) = Users(Clock(), scenario, 0, lambda site, event: None).in_order()
    hold, move = (order.event(1, one.principal, GroupId("alpha-1")) for order in one.orders)
    assert isinstance(hold, ev.HoldJobs) and hold.indices == IndexSet.span(2, 4)
    assert isinstance(move, ev.MoveJobs) and move.indices == IndexSet.span(1, 2) and move.to == "beta"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"kind":"hold"', '"kind":"burn"', "order 'burn': want move, cancel"),
        ('"jobs":"1"', '"jobs":"8"', "jobs 8 of 2"),
        ('"jobs":2,', '"jobs":99999999,', "want 10,000,000 at most"),
        ('"jobs":"1"', '"jobs":"1-x"', "neither N nor N-M"),
    ],
)
def test_an_order_that_is_none_is_refused_in_one_line(tmp_path: Path, old: str, new: str, why: str) -> None:
    import gzip

    orders = (PastOrder(after_s=1.0, kind="hold", indices="1"),)
    _recorded(tmp_path, _group(2, orders=orders), [_rows([START_S] * 2, [1.0] * 2, ["DONE"] * 2)])
    log = tmp_path / "alpha.swf.gz"
    text = gzip.decompress(log.read_bytes()).decode()
    assert old in text
    log.write_bytes(gzip.compress(text.replace(old, new, 1).encode()))
    with pytest.raises(UsageError) as refused:
        replayed([load(tmp_path)], range(1), workers=1)
    assert why in str(refused.value) and "\n" not in str(refused.value)


def test_a_history_without_orders_has_no_word_of_them(tmp_path: Path) -> None:
    history(tmp_path, [Ran(0.0, [1.0])])
    note = past.read(str(tmp_path / "alpha.swf.gz")).groups[0].note
    assert (note.orders, note.ran, note.earlier, note.foretold_s) == ((), "", (), 0.0)
    told(
        tmp_path / "b",
        [
            Ran(
                0.0,
                [1.0],
                more={"foretold_after_s": 0.1, "foretold_end_s": 3.0, "foretold_low_s": 2.0, "foretold_high_s": 5.0},
            )
        ],
    )
    note = past.read(str(tmp_path / "b" / "alpha.swf.gz")).groups[0].note
    assert (note.foretold_after_s, note.foretold_s, note.low_s, note.high_s) == (0.1, 3.0, 2.0, 5.0)


def test_the_check_compares_ends_that_were_foretold_then_with_those_of_the_replay(tmp_path: Path) -> None:
    said = {"foretold_after_s": 1.0, "foretold_end_s": 4.0, "work_s": 8.0}
    found = twin(history(tmp_path, [Ran(60.0 * k, [10.0], more=said) for k in range(3)]), range(1), workers=1)
    assert found.forecast_error == pytest.approx(1.0), "5 s were foretold, and it took 10"
    assert 0 <= found.replayed_forecast_error < 0.5
    assert "ends foretold at submission were 100% off (median group)" in of_twin(found)
    none = twin(history(tmp_path / "none", [Ran(0.0, [1.0])]), range(1), workers=1)
    assert none.forecast_error < 0 and "foretold" not in of_twin(none)
