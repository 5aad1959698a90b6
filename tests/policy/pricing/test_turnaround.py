"""Turnaround terms that overlap, share or are uncertain, against sums done by hand (SPEC D1, D6)."""

from __future__ import annotations

from math import sqrt

import pytest

from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.policy.allocation.splitting import decide
from diana.policy.pricing.demand import Candidate, Demand, LinkForecast, Need
from diana.policy.pricing.sites import throughput_bytes_per_s
from diana.policy.pricing.turnaround import Weights
from tests.policy.grids import demand, jobs_by_site, need, site

MB = 1_000_000
HOME, A, B = SiteId("home"), SiteId("a"), SiteId("b")


def only(candidate: Candidate, asked: Demand) -> tuple[float, float]:
    """(fluid, in whole waves) when the group ends at its only site."""
    part = decide(asked, [candidate], 0.0).decision.parts[0]
    return part.predicted_end_s, part.expected_end_s


def with_link(link: LinkForecast, slots: int = 2, **more: object) -> Candidate:
    return Candidate(site=A, slots=slots, links={HOME: link}, **more)  # type: ignore[arg-type]


def file_per_job(jobs: int, size_bytes: int) -> list[Need]:
    return [need(f"d{n}", size_bytes, IndexSet.span(n, n + 1), "home") for n in range(jobs)]


def test_loss_caps_the_throughput_at_the_mathis_bound() -> None:
    """1,460 / 0.1 * 1.22 / sqrt(0.0001) = 1,781,200 bytes per second."""
    lossy = LinkForecast(bytes_per_s=100.0 * MB, rtt_s=0.1, loss=0.0001)
    assert throughput_bytes_per_s(lossy) == pytest.approx(1460 / 0.1 * 1.22 / sqrt(0.0001))
    assert throughput_bytes_per_s(lossy) == pytest.approx(1_781_200)
    assert throughput_bytes_per_s(LinkForecast(bytes_per_s=1000.0, rtt_s=0.1, loss=0.0001)) == 1000.0
    assert throughput_bytes_per_s(LinkForecast(bytes_per_s=100.0 * MB, rtt_s=0.1)) == 100.0 * MB


def test_what_is_queued_on_a_link_goes_first() -> None:
    """5 MB before our 10 MB at 1 MB/s, a round trip of 0.2 s, then one job of 3 s."""
    asked = demand(1, work_s=3.0, needs=[need("d", 10 * MB, IndexSet.span(0, 1), "home")])
    link = LinkForecast(bytes_per_s=1.0 * MB, rtt_s=0.2, backlog_bytes=5.0 * MB)
    assert only(with_link(link), asked)[0] == pytest.approx(0.2 + 5 + 10 + 3)


def test_jobs_start_as_their_own_files_come() -> None:
    """20 files of 1 MB at 1 MB/s for 20 jobs of 5 s on 10 slots: work is 10 s, but the last file is there after 20."""
    asked = demand(20, work_s=5.0, needs=file_per_job(20, MB))
    assert only(with_link(LinkForecast(bytes_per_s=1.0 * MB), slots=10), asked)[0] == pytest.approx(20 + 5)


def test_where_the_work_is_longer_only_the_first_file_is_waited_for() -> None:
    """20 jobs of 5 s on 2 slots are 50 s, behind the first of the files."""
    asked = demand(20, work_s=5.0, needs=file_per_job(20, MB))
    assert only(with_link(LinkForecast(bytes_per_s=1.0 * MB)), asked)[0] == pytest.approx(1 + 50)


def test_data_all_jobs_share_must_be_there_before_any_starts() -> None:
    asked = demand(20, work_s=5.0, needs=[need("d", 20 * MB, IndexSet.span(0, 20), "home")])
    assert only(with_link(LinkForecast(bytes_per_s=1.0 * MB)), asked)[0] == pytest.approx(20 + 50)


def test_outputs_leave_while_others_run_but_for_the_last_wave() -> None:
    """10 jobs of 10 s on 2 slots, 2 MB each at 1 MB/s: 50 s, then the last two jobs' 4 MB."""
    asked = Demand(indices=IndexSet.span(0, 10), processors=1, work_s=10.0, max_subgroup=100, output_bytes=2.0 * MB)
    assert only(Candidate(site=A, slots=2, out_bytes_per_s=1.0 * MB), asked)[0] == pytest.approx(50 + 4)


def test_a_link_slower_than_the_jobs_still_has_outputs_to_carry() -> None:
    """10 MB each: 100 s of outputs, the first after 10 s."""
    asked = Demand(indices=IndexSet.span(0, 10), processors=1, work_s=10.0, max_subgroup=100, output_bytes=10.0 * MB)
    assert only(Candidate(site=A, slots=2, out_bytes_per_s=1.0 * MB), asked)[0] == pytest.approx(110)
    assert only(Candidate(site=HOME, slots=2), asked)[0] == pytest.approx(50)


def test_transfers_of_one_plan_share_their_holders_uplink() -> None:
    """Two sites fetch 10 MB each over links of 10 MB/s from one holder that sends 1 MB/s in all: 20 s, not 1 s."""
    data = [need("d", 10 * MB, IndexSet.span(0, 200), "store")]
    fast = {SiteId("store"): LinkForecast(bytes_per_s=10.0 * MB)}
    store = Candidate(site=SiteId("store"), slots=1, speed=0.001, uplink_bytes_per_s=1.0 * MB)
    pair = [Candidate(site=A, slots=10, links=fast), Candidate(site=B, slots=10, links=fast)]
    asked = demand(200, work_s=60.0, needs=data)
    decision = decide(asked, [*pair, store], 0.0).decision
    assert jobs_by_site(decide(asked, [*pair, store], 0.0).parts) == {"a": 100, "b": 100}
    assert [p.stage_in_s for p in decision.parts] == pytest.approx([20.0, 20.0])
    assert decision.split_s == pytest.approx(20 + 600)
    assert {c.site: c.stage_in_s for c in decision.candidates}[A] == pytest.approx(10.0)


def test_the_faster_holder_is_chosen_backlog_and_all() -> None:
    data = [need("d", 10 * MB, IndexSet.span(0, 1), "home", "b", "url:host")]
    links = {
        HOME: LinkForecast(bytes_per_s=10.0 * MB, backlog_bytes=100.0 * MB),
        B: LinkForecast(bytes_per_s=1.0 * MB),
        SiteId("url:host"): LinkForecast(bytes_per_s=2.0 * MB),
    }
    asked = demand(1, work_s=1.0, needs=data)
    assert only(Candidate(site=A, slots=1, links=links), asked)[0] == pytest.approx(5 + 1)


def test_a_predicted_wait_and_a_learned_run_time_replace_what_is_declared() -> None:
    seen = Candidate(site=A, slots=2, work_ahead_s=1e6, wait_s=7.0, run_s=3.0, speed=9.0, runs_seen=40)
    row = decide(demand(4, work_s=100.0), [seen], 0.0).decision.candidates[0]
    assert (row.wait_s, row.run_s, row.total_s, row.runs_seen) == (7.0, 6.0, 13.0, 40)


def test_ranges_come_from_the_sites_predictions_and_the_links_errors() -> None:
    """Wait 5 to 20, data 10 s give or take half, a job 2 to 4 s: from 6.667 + 4 to max(20, 15) + 8."""
    unsure = with_link(
        LinkForecast(bytes_per_s=1.0 * MB, error=0.5),
        wait_s=8.0,
        wait_low_s=5.0,
        wait_high_s=20.0,
        run_s=3.0,
        run_low_s=2.0,
        run_high_s=4.0,
    )
    asked = demand(4, needs=[need("d", 10 * MB, IndexSet.span(0, 4), "home")])
    decision = decide(asked, [unsure], 0.0).decision
    row = decision.candidates[0]
    assert (row.wait_low_s, row.wait_high_s) == (5.0, 20.0)
    assert (row.stage_in_low_s, row.stage_in_high_s) == pytest.approx((10 / 1.5, 15.0))
    assert (row.run_low_s, row.run_high_s) == (4.0, 8.0)
    assert row.total_s == pytest.approx(16.0)
    assert (row.total_low_s, row.total_high_s) == pytest.approx((10 / 1.5 + 4, 28.0))
    assert (decision.low_s, decision.high_s) == (row.total_low_s, row.total_high_s)


def test_what_is_expected_counts_jobs_that_cannot_be_cut() -> None:
    """5 jobs of 10 s on 2 slots: 25 s as a fluid, three waves in truth."""
    assert only(site("a", 2), demand(5, work_s=10.0)) == (25.0, 30.0)


def test_weights_change_the_choice_but_not_the_seconds_shown() -> None:
    """Waiting hurts four times as much: rather 30 s of running than 10 s of waiting and 10 s of running."""
    busy, slow = Candidate(site=A, slots=4, wait_s=10.0), Candidate(site=B, slots=4, speed=1 / 3)
    asked = demand(1, work_s=10.0)
    assert jobs_by_site(decide(asked, [busy, slow], 0.0).parts) == {"a": 1}
    heavy = decide(asked, [busy, slow], 0.0, weights=Weights(wait=4.0))
    assert jobs_by_site(heavy.parts) == {"b": 1}
    assert {c.site: c.total_s for c in heavy.decision.candidates} == pytest.approx({"a": 20.0, "b": 30.0})


FIGURE_4 = [site("a", 100), site("b", 200), site("c", 400), site("d", 600)]


@pytest.mark.parametrize(
    ("size", "hours", "simulated"),
    [(1000, 10, 10), (500, 8.3333, 9), (250, 7.9167, 8), (200, 8.0, 8), (100, 7.8333, 8), (50, 7.75, 8)],
)
def test_figure_4_by_size_of_subgroup(size: int, hours: float, simulated: float) -> None:
    decision = decide(demand(10_000, work_s=3600.0, max_subgroup=size), FIGURE_4, 0.0).decision
    assert decision.plan == "split"
    assert decision.whole_s / 3600 == pytest.approx(16.6667, abs=1e-4)
    assert max(p.predicted_end_s for p in decision.parts) / 3600 == pytest.approx(hours, abs=1e-4)
    assert decision.expected_s / 3600 == pytest.approx(simulated)
    assert all(p.jobs == size * p.subgroups for p in decision.parts)


def test_a_division_factor_gives_the_same_subgroups() -> None:
    by_factor = Demand(
        indices=IndexSet.span(0, 10_000), processors=1, work_s=3600.0, max_subgroup=1_000_000, division=40
    )
    decision = decide(by_factor, FIGURE_4, 0.0).decision
    assert decision.subgroup_jobs == 250
    assert decision.split_s / 3600 == pytest.approx(7.9167, abs=1e-4)


def test_a_site_whose_limit_the_group_exceeds_takes_parts_only() -> None:
    limited = Candidate(site=A, slots=1000, max_jobs=50)
    plan = decide(demand(100, work_s=10.0), [site("home", 10), limited], 0.0)
    assert jobs_by_site(plan.parts)["a"] == 50
    assert plan.decision.candidates[0].site == "home"
    assert plan.decision.candidates[1].max_jobs == 50


def test_without_a_site_for_the_whole_the_group_is_split_and_the_reason_says_so() -> None:
    pair = [Candidate(site=HOME, slots=10, max_jobs=60), Candidate(site=A, slots=10, max_jobs=60)]
    for model in ("turnaround", "paper"):
        plan = decide(demand(100, work_s=10.0), pair, 0.0, model=model)  # type: ignore[arg-type]
        assert sum(jobs_by_site(plan.parts).values()) == 100
        assert "no single site" in plan.decision.reason


def test_a_group_larger_than_all_limits_together_is_not_placed() -> None:
    pair = [Candidate(site=HOME, slots=10, max_jobs=40), Candidate(site=A, slots=10, max_jobs=40)]
    plan = decide(demand(100), pair, 0.0)
    assert plan.parts == ()
    assert plan.decision.reason == "the sites that can take this group take 80 of its 100 jobs at most"
    assert plan.decision.candidates[0].rejected == "takes no more than 40 of its 100 jobs"
