"""The paper's cost model term by term on sums done by hand, and its classes (SPEC D1, D2; sections IV and V)."""

from __future__ import annotations

import pytest

from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.views.decision import Decision, JobClass
from diana.policy.allocation.splitting import Plan, decide
from diana.policy.pricing.demand import Candidate, Demand, LinkForecast, Need
from diana.policy.pricing.turnaround import Weights
from tests.policy.grids import jobs_by_site, need

HOME, A, B = SiteId("home"), SiteId("a"), SiteId("b")


def ask(
    jobs: int = 10, *needs: Need, work_s: float = 10.0, job_class: JobClass = "both", max_subgroup: int = 1_000_000
) -> Demand:
    return Demand(
        indices=IndexSet.span(0, jobs),
        processors=1,
        work_s=work_s,
        needs=needs,
        max_subgroup=max_subgroup,
        output_bytes=100.0,
        executable_bytes=500.0,
        job_class=job_class,
    )


def three() -> list[Candidate]:
    """Pi: 10, 40, 20. Qi: 30, 20, 0, so Q = 50. Loads 1, 0.5, 0. Losses 0.02 and 0.01 at 1,000 and 2,000 B/s."""
    return [
        Candidate(site=HOME, slots=10, queued_jobs=30, busy_fraction=1.0),
        Candidate(
            site=A,
            slots=20,
            speed=2.0,
            queued_jobs=20,
            busy_fraction=0.5,
            out_bytes_per_s=1000.0,
            link=LinkForecast(bytes_per_s=1000.0, loss=0.02),
            links={HOME: LinkForecast(bytes_per_s=1000.0, loss=0.02)},
        ),
        Candidate(
            site=B,
            slots=20,
            out_bytes_per_s=2000.0,
            link=LinkForecast(bytes_per_s=2000.0, loss=0.01),
            links={HOME: LinkForecast(bytes_per_s=2000.0, loss=0.01)},
        ),
    ]


def data() -> Need:
    return need("d", 8000, IndexSet.span(0, 10), "home")


def plan(demand: Demand, raw: bool = True, weights: Weights | None = None) -> Decision:
    return decide(demand, three(), 0.0, model="paper", raw=raw, weights=weights).decision


def test_network_cost_is_losses_over_bandwidth() -> None:
    """0.02 / 1,000 and 0.01 / 2,000; home is no link away."""
    rows = {c.site: c for c in plan(ask(10, data())).candidates}
    assert (rows[HOME].network, rows[A].network, rows[B].network) == pytest.approx((0.0, 2e-5, 5e-6))


def test_computation_cost_is_the_queue_here_plus_the_queues_everywhere_plus_the_load() -> None:
    """home 30/10 + 50/10 + 1 = 9; a 20/40 + 50/40 + 0.5 = 2.25; b 0/20 + 50/20 + 0 = 2.5."""
    rows = {c.site: c for c in plan(ask(10, data())).candidates}
    assert (rows[HOME].computation, rows[A].computation, rows[B].computation) == pytest.approx((9.0, 2.25, 2.5))


def test_transfer_cost_is_input_output_and_executables_times_the_network_cost() -> None:
    """8,000 in, 10 * 100 out and 500 of programs are 9,500 bytes: 9,500 * 2e-5 and * 5e-6."""
    rows = {c.site: c for c in plan(ask(10, data())).candidates}
    assert (rows[HOME].transfer, rows[A].transfer, rows[B].transfer) == pytest.approx((0.0, 0.19, 0.0475))


def test_each_term_is_divided_by_its_mean_before_they_are_added() -> None:
    """Means: network 25/3 e-6, computation 13.75/3, transfer 0.2375/3.
    home 0 + 9/4.58333; a 2.4 + 2.25/4.58333 + 2.4; b 0.6 + 2.5/4.58333 + 0.6."""
    rows = {c.site: c for c in plan(ask(10, data()), raw=False).candidates}
    assert rows[A].network == pytest.approx(2.4)
    assert rows[A].transfer == pytest.approx(2.4)
    assert rows[HOME].cost == pytest.approx(1.963636, abs=1e-6)
    assert rows[A].cost == pytest.approx(5.290909, abs=1e-6)
    assert rows[B].cost == pytest.approx(1.745455, abs=1e-6)


def test_raw_is_the_bare_sum() -> None:
    decision = plan(ask(10, data()))
    rows = {c.site: c for c in decision.candidates}
    assert decision.raw
    assert rows[A].cost == pytest.approx(2e-5 + 2.25 + 0.19)


def test_a_term_whose_mean_is_nothing_counts_nothing() -> None:
    still = [Candidate(site=HOME, slots=1), Candidate(site=A, slots=2)]
    rows = decide(ask(), still, 0.0, model="paper").decision.candidates
    assert {(r.network, r.computation, r.transfer, r.cost) for r in rows} == {(0.0, 0.0, 0.0, 0.0)}


def test_weights_count_within_and_between_the_terms() -> None:
    """a: 2 * 20/40 + 3 * 50/40 + 4 * 0.5 = 6.75; its sum 5 * 2e-5 + 6 * 6.75 + 7 * 0.19."""
    weights = Weights(queue=2.0, all_queues=3.0, load=4.0, network=5.0, computation=6.0, transfer=7.0)
    decision = plan(ask(10, data()), weights=weights)
    row = {c.site: c for c in decision.candidates}[A]
    assert row.computation == pytest.approx(6.75)
    assert row.cost == pytest.approx(41.8301)
    assert decision.weights["transfer"] == 7.0


def test_jobs_waiting_at_a_site_that_cannot_take_the_group_still_count_in_q() -> None:
    """Q = 30 + 20 + 50 more elsewhere: home 3 + 10 + 1."""
    some = [*three(), Candidate(site=SiteId("z"), rejected="needs 2 GPUs", queued_jobs=50)]
    rows = {c.site: c for c in decide(ask(), some, 0.0, model="paper", raw=True).decision.candidates}
    assert rows[HOME].computation == pytest.approx(14.0)


@pytest.mark.parametrize(("job_class", "order"), [("compute", "a b home"), ("data", "home b a"), ("both", "b home a")])
def test_each_class_ranks_by_its_own_term(job_class: JobClass, order: str) -> None:
    """Computation 9, 2.25, 2.5; transfer 0, 0.19, 0.0475; the sum (by means) 1.96, 5.29, 1.75."""
    decision = plan(ask(10, data(), job_class=job_class), raw=False)
    assert [c.site for c in decision.candidates] == order.split()
    assert decision.job_class == job_class
    assert decision.declared_class


def tied(slots: dict[str, int], losses: dict[str, float], job_class: JobClass) -> list[str]:
    some = [
        Candidate(
            site=SiteId(name),
            slots=n,
            queued_jobs=n,
            link=LinkForecast(bytes_per_s=1e3, loss=losses[name]),
            out_bytes_per_s=1e3,
        )
        for name, n in slots.items()
    ]
    decision = decide(ask(job_class=job_class), some, 0.0, model="paper").decision
    return [c.site for c in decision.candidates]


def test_compute_intensive_ties_go_by_transfer_then_by_order() -> None:
    assert tied({"a": 4, "b": 4, "c": 4}, {"a": 0.02, "b": 0.01, "c": 0.01}, "compute") == ["b", "c", "a"]


def test_data_intensive_ties_go_by_computation_then_by_order() -> None:
    """Equal transfer; Qi/Pi is 1 everywhere, Q/Pi is less where there are more processors."""
    assert tied({"a": 4, "b": 8, "c": 8}, {"a": 0.01, "b": 0.01, "c": 0.01}, "data") == ["b", "c", "a"]


def test_the_first_alive_site_takes_it() -> None:
    some = three()
    dead = [c if c.site != A else Candidate(site=A, slots=20, speed=2.0, alive=False) for c in some]
    compute = ask(10, data(), job_class="compute")
    assert jobs_by_site(decide(compute, some, 0.0, model="paper").parts) == {"a": 10}
    plan = decide(compute, dead, 0.0, model="paper")
    assert jobs_by_site(plan.parts) == {"b": 10}
    assert {c.site: c.rejected for c in plan.decision.candidates}[A] == "does not answer"


def test_costs_are_recomputed_after_each_subgroup() -> None:
    """Two equal sites, compute-intensive, four subgroups: each waits where fewer wait, so they take turns."""
    pair = [Candidate(site=HOME, slots=5), Candidate(site=A, slots=5)]
    got = decide(ask(40, job_class="compute", max_subgroup=10), pair, 0.0, model="paper")
    assert got.decision.plan == "split"
    assert jobs_by_site(got.parts) == {"home": 20, "a": 20}
    assert max(len(p.indices) for p in got.parts) == 10
    assert [p.subgroups for p in got.decision.parts] == [2, 2]


def derived(demand: Demand, rate: float) -> Plan:
    some = [Candidate(site=HOME, slots=10), Candidate(site=A, slots=10, links={HOME: LinkForecast(bytes_per_s=rate)})]
    return decide(demand, some, 0.0)


@pytest.mark.parametrize(("rate", "expected"), [(8.0, "data"), (800.0, "both"), (80_000.0, "compute")])
def test_the_class_is_derived_from_transfer_against_run_time(rate: float, expected: str) -> None:
    """Ten jobs of 10 s on ten slots run 10 s; 8,000 bytes take 1,000 s, 10 s and 0.1 s."""
    demand = Demand(
        indices=IndexSet.span(0, 10), processors=1, work_s=10.0, needs=(data(),), max_subgroup=100, output_bytes=0.0
    )
    decision = derived(demand, rate).decision
    assert decision.job_class == expected
    assert not decision.declared_class


def test_the_turnaround_model_ranks_by_completion_whatever_the_class() -> None:
    demand = ask(10, data(), job_class="data")
    rows = decide(demand, three(), 0.0).decision.candidates
    assert [r.total_s for r in rows] == sorted(r.total_s for r in rows)
    assert all(r.cost == r.total_s for r in rows)


@pytest.mark.parametrize("bad", [{"run": 0.0}, {"queue": -1.0}, {"transfer": float("nan")}])
def test_a_weight_that_makes_no_sense_is_named(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"weight {next(iter(bad))} = "):
        Weights(**bad)


def lossless() -> list[Candidate]:
    """Three idle sites, 20 processors away and 10 at home; links that lost nothing, of 1,000 and 4,000 B/s."""
    return [
        Candidate(site=HOME, slots=10),
        *(
            Candidate(
                site=site,
                slots=20,
                out_bytes_per_s=rate,
                link=LinkForecast(bytes_per_s=rate),
                links={other: LinkForecast(bytes_per_s=rate) for other in (HOME, A, B) if other != site},
            )
            for site, rate in ((A, 1000.0), (B, 4000.0))
        ),
    ]


def test_on_links_that_lost_nothing_a_group_of_data_goes_to_its_data() -> None:
    """SPEC D1: a link is taken to lose a packet in a thousand at least, so bytes cost by bandwidth."""
    demand = ask(10, need("d", 3_000_000_000, IndexSet.span(0, 10), "b"), job_class="data")
    decision = decide(demand, lossless(), 0.0, model="paper").decision
    rows = {c.site: c for c in decision.candidates}
    assert [p.site for p in decision.parts] == [B]
    assert rows[B].transfer < rows[A].transfer
    assert rows[A].network == pytest.approx(2.4)  # 4 : 1, of which the mean with home is 5/3


def test_the_bare_formula_has_no_floor_under_losses() -> None:
    """SPEC D1: `raw` is losses / bandwidth, 0 where nothing was lost, so that 3 GB at b count nothing."""
    demand = ask(10, need("d", 3_000_000_000, IndexSet.span(0, 10), "b"), job_class="data")
    rows = decide(demand, lossless(), 0.0, model="paper", raw=True).decision.candidates
    assert {(r.network, r.transfer) for r in rows} == {(0.0, 0.0)}


def test_a_loss_that_was_measured_counts_as_it_was_measured() -> None:
    """SPEC D1: the floor lies below a loss of 1 %, so the ratio of two such links is theirs."""
    rows = {c.site: c for c in plan(ask(10, data()), raw=False).candidates}
    assert rows[A].network / rows[B].network == pytest.approx(4.0)
