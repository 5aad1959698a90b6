"""Histories under changes: a change does what it says, differences are paired, and each mistake is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from diana.errors import UsageError
from diana.sim.past.advice import advice
from diana.sim.past.changes import Change, changed
from diana.sim.past.merging import load
from diana.sim.past.replay import GroupRow
from diana.sim.past.text import of_advice, of_twin, of_whatif
from diana.sim.past.twin import twin
from diana.sim.past.whatif import difference, whatif
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.link_spec import LinkSpec
from diana.sim.specs.scenario_spec import Scenario
from tests.sim.past.histories import Ran, history, told

DAY_S = 86_400.0
SLOW = LinkSpec(("alpha", "beta"), bytes_per_s=10e6)
BUSY = [Ran(10.0 * k, [20.0] * 6, user=("ann@lab", "bob@lab")[k % 2], more={"work_s": 20.0}) for k in range(6)]


@pytest.fixture
def busy(tmp_path: Path) -> Scenario:
    made = history(tmp_path, BUSY)
    return replace(made, datasets=(DatasetSpec("d", "alpha", file_bytes=50_000_000),))


def test_more_slots_make_a_busy_grid_faster_and_the_interval_says_that_it_is_sure(busy: Scenario) -> None:
    found = whatif(busy, [("site", "beta.slots+20")], range(2), workers=1)
    assert found.changed.turnaround_mean_s < found.base.turnaround_mean_s
    assert found.turnaround_difference_s.high is not None and found.turnaround_difference_s.high < 0
    assert set(found.users) == {"ann@lab", "bob@lab"} and all(by_s < 0 for by_s in found.users.values())
    assert found.base.core_hours == pytest.approx(6 * 6 * 20 / 3600, rel=0.5) and found.base.unfinished == 0
    text = of_whatif(found)
    assert "--site beta.slots+20" in text and "no difference that is sure" not in text


def test_a_change_of_nothing_differs_by_nothing(busy: Scenario) -> None:
    found = whatif(busy, [("site", "beta.slots+0")], range(1), workers=1)
    assert found.turnaround_difference_s.mean == 0.0 and found.base == found.changed
    assert "no difference that is sure" in of_whatif(found)


CHANGED = {
    ("site", "beta.slots=7"): lambda s: s.sites[1].slots == 7,
    ("site", "beta.slots-2"): lambda s: s.sites[1].slots == 0,
    ("site", "beta.speed=3"): lambda s: s.sites[1].speed == 3,
    ("add-site", "delta:slots=5,speed=2"): lambda s: (
        (s.sites[2].name, s.sites[2].slots, s.sites[2].speed) == ("delta", 5, 2)
    ),
    ("drop-site", "beta"): lambda s: s.sites[1].slots == 0,
    ("link", "alpha-beta=8Mbit/s"): lambda s: s.links[0].bytes_per_s == 1e6,
    ("replica", "d@beta"): lambda s: s.datasets[0].replicas == ("beta",),
    ("link", "beta-alpha=2MB/s"): lambda s: s.links[0].bytes_per_s == 2e6,
    ("setting", "migration=off"): lambda s: s.settings["migration"] == "off",
    ("setting", "max_subgroup=5"): lambda s: s.settings["max_subgroup"] == 5,
    ("policy", "least-queue"): lambda s: s.settings["placement"] == "least-queue",
    ("quota", "ann@lab=3"): lambda s: s.users[0].quota == 3,
    ("load", "2"): lambda s: s.workload[0].history.time_scale == 0.5,
    ("arrivals", "shuffle-days"): lambda s: s.workload[0].history.shuffle_days,
}


@pytest.mark.parametrize("change", CHANGED, ids=lambda change: " ".join(change))
def test_each_change_changes_what_it_names(busy: Scenario, change: Change) -> None:
    assert CHANGED[change](changed(busy, [change]))


WRONG = {
    ("site", "betta.slots+1"): "did you mean 'beta'",
    ("site", "beta.slots"): "want SITE.slots\\+16",
    ("site", "beta.slots-9"): "want a whole number of 0 or more",
    ("site", "beta.slots+0.5"): "want a whole number of 0 or more",
    ("site", "beta.speed=0"): "want more than 0",
    ("site", "beta.colour=1"): "colour",
    ("add-site", "beta:slots=2"): "is in the history already",
    ("drop-site", "delta"): "delta",
    ("link", "alpha-delta=1Gbit/s"): "of the sites alpha, beta",
    ("link", "alpha-beta=fast"): "want a rate, as 100Mbit/s",
    ("replica", "d@gamma"): "gamma",
    ("replica", "e@beta"): "'e' is not known",
    ("setting", "migraton=off"): "did you mean 'migration'",
    ("setting", "slots=3"): "use --site SITE.slots=3",
    ("setting", "migration=perhaps"): "migration",
    ("policy", "best"): "placement",
    ("quota", "eve@lab=2"): "eve@lab",
    ("load", "0"): "want a factor",
    ("arrivals", "shuffle"): "shuffle-days",
}


@pytest.mark.parametrize("change", WRONG, ids=lambda change: " ".join(change))
def test_a_change_that_cannot_be_made_is_one_line(busy: Scenario, change: Change) -> None:
    with pytest.raises(UsageError, match=WRONG[change]) as refused:
        changed(busy, [change])
    assert "\n" not in str(refused.value)


@pytest.mark.wide
def test_advice_ranks_what_was_measured_and_leaves_out_what_does_not_help(tmp_path: Path) -> None:
    reading = [ran._replace(more={**ran.more, "datasets": ("d",)}) for ran in BUSY]
    told(tmp_path, reading, datasets=(DatasetSpec("d", "alpha", file_bytes=400_000_000),), links=(SLOW,))
    found = advice(load(tmp_path), range(1), workers=1)
    means = [one.turnaround_difference_s.mean for one in found.advised if one.sure]
    assert means == sorted(means) and all(mean < 0 for mean in means)
    named = {one.changes[0].split()[0] for one in found.advised}
    assert "--site" in named and found.tried >= 6
    assert named & {"--replica", "--link"}, "a dataset of 400 MB behind 10 MB/s is worth a copy"
    assert "diana datasets add d PATH" in of_advice(found) or "a link of" in of_advice(found)


def test_a_grid_without_slots_is_refused_before_anything_runs(busy: Scenario) -> None:
    with pytest.raises(UsageError, match="no site with slots is left"):
        changed(busy, [("drop-site", "alpha"), ("drop-site", "beta")])


def test_days_in_another_order_are_the_same_work_and_each_seed_has_its_own(tmp_path: Path) -> None:
    from diana.sim.load import past

    scenario = changed(
        history(tmp_path, [Ran(k * DAY_S + 5.0 * k, [1.0]) for k in range(9)]), [("arrivals", "shuffle-days")]
    )
    work = scenario.workload[0]
    assert work.history is not None
    orders = []
    for seed in (1, 1, 2):
        made = list(past.groups(work, work.history, scenario, seed))
        assert sorted(one.work.submit_s % DAY_S for one in made) == [5.0 * k for k in range(9)]
        assert sorted(int(one.work.submit_s // DAY_S) for one in made) == list(range(9))
        orders.append([one.work.name for one in made])
    assert orders[0] == orders[1] != orders[2]


def test_groups_of_one_day_count_as_one_draw_where_there_are_days_enough() -> None:
    def row(name: str, submit_s: float) -> GroupRow:
        return GroupRow(name, "ann@lab", submit_s, 1, 0.0, 0.0, 1.0, 1.0, 1.0, {"alpha": 1})

    pairs = [
        (row(f"g{day}-{k}", day * DAY_S + k), row(f"g{day}-{k}", day * DAY_S + k))
        for day in range(8)
        for k in range(50)
    ]
    # A day is good or bad as a whole: 400 groups say no more than 8 days do.
    values = [1.0 if int(before.submit_s // DAY_S) % 2 else -1.0 for before, _ in pairs]
    days, groups = (difference(pairs, values, drawn) for drawn in ("days", "groups"))
    assert days.mean == groups.mean == 0.0
    assert days.high is not None and groups.high is not None
    assert days.high > 4 * groups.high > 0


def test_a_replay_of_what_the_simulator_made_holds_and_one_of_other_run_times_says_so(tmp_path: Path) -> None:
    """Two jobs on two free slots run at once, as in the history."""
    here = {"sites": ("alpha",), "work_s": 20.0}

    def lasting(wait_s: float, count: int = 3) -> Scenario:
        groups = [Ran(60.0 * k, [20.0] * 2, wait_s=wait_s, more=here) for k in range(count)]
        return history(tmp_path / f"{wait_s:g}-{count}", groups)

    good, late = (twin(lasting(wait_s), range(1), workers=1) for wait_s in (0.0, 15.0))
    assert good.holds and not good.lacks and good.sites_error == 0.0, of_twin(good)
    assert not late.holds and "first starts: -" in late.lacks[0]
    assert "the replay does not hold" in of_twin(late) and "alpha-1" in of_twin(late)
    known = twin(lasting(15.0, count=8), range(1), workers=1)
    assert known.holds and "alpha: jobs wait 15.0 s for their begin though slots are free (mean)" in of_twin(known)
