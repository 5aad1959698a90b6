"""Plans against forced alternatives, and predicted turnaround against achieved (SPEC D1, D6).

The seed that the goals are judged by, and in `make soak PARTS=wide` another.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from diana.sim.experiments.alternatives import BEGIN_S, CaseRow, alternatives, compare, drawn, errors, forced, stream
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.demand_spec import UserSpec
from diana.sim.specs.link_spec import LinksSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.work_spec import WorkSpec
from diana.sim.world.runner import simulate
from tests.runs import first_seed

FIXED = 1
"""The seed that the goals are judged by; a fresh one may draw unlucky cases, twice beyond them."""
CASES = 10
GROUPS = 20
SITES = (
    SiteSpec("home", slots=4),
    SiteSpec("data", slots=8),
    SiteSpec("big", slots=60),
    SiteSpec("fast", slots=10, speed=3.0),
    SiteSpec("small", slots=2),
)


def seeds() -> Iterator[int]:
    yield FIXED
    yield first_seed(65_000)


@pytest.fixture(scope="module", params=["fixed", pytest.param("fresh", marks=pytest.mark.wide)])
def seed(request: pytest.FixtureRequest) -> int:
    return dict(zip(("fixed", "fresh"), seeds(), strict=True))[request.param]


def told(row: CaseRow) -> str:
    ends = ", ".join(f"{n} {s:.1f} s / {row.bytes_moved[n] / 1e6:.0f} MB" for n, s in row.makespan_s.items())
    return f"{row.name}: {row.plan} {row.parts}; predicted {row.predicted_s:.1f} s; {ends}"


@pytest.mark.wide
def test_the_plan_is_the_best_or_within_5_percent_of_it_in_nine_of_ten_cases(seed: int) -> None:
    rows = [compare(drawn(seed, number), seed) for number in range(CASES)]
    print(f"seed {seed}", *map(told, rows), sep="\n")
    assert sum(row.good() for row in rows) >= (0.9 if seed == FIXED else 0.7) * CASES


@pytest.mark.wide
def test_half_of_20_groups_end_within_15_percent_of_their_predicted_turnaround(seed: int) -> None:
    report = simulate(stream(seed, GROUPS), seed)
    assert report.good(), report.violations
    found = errors(report.groups)
    rows = [f"{e:7.1%}  {name:<12} predicted {p:7.1f} s, achieved {a:7.1f} s" for e, name, p, a in found.rows]
    print(f"seed {seed}", *rows, sep="\n")
    assert len(found.rows) == GROUPS
    assert found.quantile(0.5) < (0.15 if seed == FIXED else 0.25)


# --- three cases by hand ------------------------------------------------------------------------------------


def case(file_bytes: int, work_s: float, bytes_per_s: float) -> Scenario:
    """120 jobs with a file each; all the files lie at `data`."""
    return Scenario(
        version=1,
        sites=SITES,
        default_link=LinksSpec(bytes_per_s=bytes_per_s),
        datasets=(DatasetSpec("runs", "data", files=120, file_bytes=file_bytes),),
        users=(UserSpec("physicist@cms"),),
        workload=(
            WorkSpec("group", "home", 120, work_s=work_s, inputs=("runs",), file_per_job=True, submit_s=BEGIN_S),
        ),
    )


@pytest.mark.wide
def test_a_data_heavy_group_goes_to_the_data() -> None:
    row = compare(case(100_000_000, 2.0, 2e6), 0)
    assert row.good(), told(row)
    assert row.parts == {"data": 120}, told(row)
    assert row.bytes_moved["planned"] == 0 < min(row.bytes_moved[n] for n in ("home", "biggest", "round robin"))


@pytest.mark.wide
def test_a_compute_heavy_group_goes_to_the_processors() -> None:
    row = compare(case(100_000, 300.0, 20e6), 0)
    assert row.good(), told(row)
    power = {s.name: s.slots * s.speed for s in SITES}
    assert row.parts["big"] + row.parts["fast"] > 0.8 * 120, told(row)
    assert sorted(row.parts, key=lambda s: -row.parts[s])[:2] == sorted(power, key=lambda s: -power[s])[:2]


@pytest.mark.wide
def test_a_mixed_group_splits_between_its_data_and_the_processors() -> None:
    row = compare(case(10_000_000, 20.0, 10e6), 0)
    assert row.good(), told(row)
    assert row.plan == "split" and row.parts["data"] > 20 and row.parts["big"] + row.parts["fast"] > 20, told(row)
    assert row.makespan_s["planned"] < 0.8 * row.best_alternative_s(), told(row)


def test_alternatives_deal_out_every_job_and_only_the_plan_differs() -> None:
    scenario = case(1000, 10.0, 1e6)
    for name, plan in alternatives(scenario).items():
        other = forced(scenario, plan)
        assert sum(plan.values()) == 120, name
        assert (other.sites, other.datasets, other.default_link) == (
            scenario.sites,
            scenario.datasets,
            scenario.default_link,
        )
    assert alternatives(scenario)["biggest"] == {"big": 120}


def test_data_that_lie_at_two_sites_need_not_move_between_them() -> None:
    scenario = case(100_000_000, 2.0, 2e6)
    twice = msgspec.structs.replace(scenario.datasets[0], replicas=("fast",))
    report = simulate(msgspec.structs.replace(scenario, datasets=(twice,)), 0)
    group = report.groups["group"]
    assert report.good() and group.sites.keys() == {"data", "fast"} and group.bytes_moved == 0


def test_a_case_is_its_seed() -> None:
    assert drawn(7, 3) == drawn(7, 3) != drawn(8, 3)
    assert stream(7) == stream(7) != stream(8)
