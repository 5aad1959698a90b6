"""DIANA section VII, characteristics of bulk scheduling, sentence by sentence (SPEC D5, D11, J6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.engine.journal import events as ev
from diana.model.settings import Settings
from diana.policy.queueing import priority as pr
from tests.engine.bench import Grid
from tests.engine.builders import ALICE, BOB, spec
from tests.engine.queueing import Waiting, entry


def split(waiting: Waiting, name: str, now: float = 0.0) -> tuple[int, int]:
    """Numbers of the entry's jobs that stand where they should, and demoted."""
    jobs = {one.key.demoted: one.jobs for one in waiting.standing(now).get(name, [])}
    return jobs.get(False, 0), jobs.get(True, 0)


def test_priority_falls_as_a_users_jobs_become_many() -> None:
    """`the priority of jobs starts decreasing if the number of jobs from a user/site increases beyond a certain
    threshold`, N; `The priority becomes less than all the jobs in the queue if the job frequency is very high.`"""
    waiting = Waiting(entry("B", jobs=2), entry("C", jobs=3))
    seen: list[float] = []
    for k in range(12):
        waiting.arrive(entry(f"A{k}", submitted_s=float(k)))
        seen.append(waiting.at("A0").priority)
    assert seen == sorted(seen, reverse=True) and seen[0] > 0 > seen[-1]
    assert seen[-1] == min(waiting.priorities().values())
    assert waiting.order()[:2] == ["B", "C"]


def test_a_user_alone_gets_everything() -> None:
    """`If no other job is available in the queue then all jobs from the user/site will be executed as high priority
    jobs`; SPEC D11: quotas weigh, they do not forbid."""
    for mode in ("paper", "default"):
        waiting = Waiting(entry("A", jobs=500), quotas={"A": 1e-6, "B": 1e6}, priority_mode=mode, job_threshold=10)
        assert waiting.start(500) == ["A"] * 500


def test_quotas_are_weights_not_limits() -> None:
    """`We do not employ quota and accounting since this restricts the users to a particular limit. Instead we use
    priority`: only their ratio counts, and the larger goes first at equal demand."""
    base = Waiting(entry("A", jobs=3), entry("B", jobs=3), quotas={"A": 2, "B": 1}).priorities()
    same = Waiting(entry("A", jobs=3), entry("B", jobs=3), quotas={"A": 64, "B": 32}).priorities()
    assert base == same and base["A"] > 0 > base["B"]


def test_a_users_quota_that_is_not_set_is_the_default_one() -> None:
    waiting = Waiting(entry("A", jobs=3), entry("B", jobs=3), quotas={"A": 2}, default_quota=2)
    assert waiting.at("A").priority == waiting.at("B").priority == 0.0


def test_fewest_processors_first() -> None:
    """`the algorithm arranges the jobs using the Shortest Job First (SJF) algorithm. We use the number of processors
    required as a criterion`; `All shorter jobs are executed before longer jobs`: of one user at one time."""
    waiting = Waiting(*(entry(f"A{t}", processors=t) for t in (7, 2, 5, 1, 3)))
    assert waiting.order() == ["A1", "A2", "A3", "A5", "A7"]


def test_a_burst_has_one_priority() -> None:
    """`The priority of the burst or bulk of jobs is always the same`; SPEC D4: only `job_threshold` parts them."""
    whole = Waiting(entry("A", jobs=30), entry("B", jobs=7))
    assert len(whole.standing()["A"]) == 1
    parted = Waiting(entry("A", jobs=30), entry("B", jobs=7), job_threshold=20)
    assert len({one.priority for one in parted.standing()["A"]}) == 2


def test_beyond_the_job_threshold_the_last_submitted_fall_by_one_level() -> None:
    """`If the number of jobs submitted from a particular user increases beyond the job threshold then the priority of
    the jobs submitted above the threshold number is decreased and jobs are migrated to a lower priority queue.`"""
    waiting = Waiting(job_threshold=10)
    waiting.arrive(entry("A1", jobs=6, submitted_s=1))
    assert split(waiting, "A1") == (6, 0)
    waiting.arrive(entry("A2", jobs=6, submitted_s=2), entry("A3", jobs=5, submitted_s=3))
    assert [split(waiting, n) for n in ("A1", "A2", "A3")] == [(6, 0), (4, 2), (0, 5)]
    plain, demoted = (next(o for o in waiting.standing()["A2"] if o.key.demoted is d) for d in (False, True))
    assert demoted.priority == plain.priority - 0.5 and demoted.level == plain.level + 1
    assert waiting.start(17) == ["A1"] * 6 + ["A2"] * 6 + ["A3"] * 5


def test_the_demoted_stand_behind_others_of_the_users_former_level() -> None:
    waiting = Waiting(entry("A", jobs=15), entry("B", jobs=15, submitted_s=1.0), job_threshold=10)
    assert waiting.start(30) == ["A"] * 10 + ["B"] * 10 + ["A"] * 5 + ["B"] * 5


def test_the_demoted_rise_again_with_the_next_arrival_not_before() -> None:
    """SPEC D4: `Re-prioritise on every arrival, not on dispatch`."""
    waiting = Waiting(entry("A", jobs=15), job_threshold=10)
    waiting.start(4)
    assert split(waiting, "A") == (6, 5)
    waiting.arrive(entry("B"))
    assert split(waiting, "A") == (10, 1)


def test_the_site_threshold_demotes_what_one_site_sends_beyond_it() -> None:
    """`the number of jobs from a user/site`: whoever of the site submitted it; other sites' work stays."""
    waiting = Waiting(
        entry("A", jobs=6, origin="beta", submitted_s=0),
        entry("B", jobs=6, origin="beta", submitted_s=1),
        entry("C", jobs=6, origin="gamma", submitted_s=2),
        site_job_threshold=8,
    )
    assert [split(waiting, n) for n in "ABC"] == [(6, 0), (2, 4), (6, 0)]


def test_jobs_beyond_both_thresholds_fall_once() -> None:
    waiting = Waiting(entry("A", jobs=20, origin="beta"), entry("B"), job_threshold=5, site_job_threshold=10)
    assert split(waiting, "A") == (5, 15)
    plain, demoted = (next(o for o in waiting.standing()["A"] if o.key.demoted is d) for d in (False, True))
    assert demoted.priority == max(-1.0, plain.priority - 0.5)


def test_every_time_threshold_waited_lifts_by_a_quarter() -> None:
    """`the more time a job has to wait the more its priority continues to increase` (figure 3); SPEC D5: 0.25 each."""
    waiting = Waiting(entry("A", jobs=30), entry("B", jobs=3), time_threshold_s=60)
    base = waiting.at("A").base
    for now in (0, 59, 60, 119, 120, 185, 241):
        assert waiting.at("A", now).priority == pytest.approx(base + 0.25 * (now // 60))
    assert waiting.at("A", 1e6).priority == pr.BELOW_ONE


def test_ageing_runs_from_the_submission_wherever_that_was() -> None:
    waiting = Waiting(time_threshold_s=60)
    waiting.arrive(entry("A", submitted_s=100.0), entry("B", jobs=3, submitted_s=250.0), now=250.0)
    assert waiting.at("A", 250.0).key.steps == 2 and waiting.at("B", 250.0).key.steps == 0


def test_ageing_needs_no_arrival_and_none_changes_it() -> None:
    """SPEC D5: `With no arrivals a Q4 job would never rise`."""
    waiting = Waiting(entry("A", jobs=30), entry("B", jobs=3), time_threshold_s=60)
    waiting.arrive(entry("C", submitted_s=130), now=130)
    assert (waiting.at("A", 130).key.steps, waiting.at("C", 130).key.steps) == (2, 0)


@given(
    quota=st.floats(1e-6, 1.0),
    processors=st.integers(1, 64),
    mode=st.sampled_from(["paper", "default"]),
    threshold=st.sampled_from([0, 3]),
)
def test_no_class_starves_under_ageing(quota: float, processors: int, mode: str, threshold: int) -> None:
    """`we use an aging technique to overcome this starvation problem`: however small the quota, however wide the job,
    it starts although others' work never ends."""
    waiting = Waiting(
        entry("A", jobs=2, processors=processors),
        quotas={"A": quota, "B": 1000.0},
        time_threshold_s=60,
        priority_mode=mode,
        job_threshold=threshold,
    )
    waiting.arrive(entry("B0", jobs=5))
    started: list[str] = []
    for k in range(1, 80):
        waiting.arrive(entry(f"B{k}", submitted_s=10.0 * k), now=10.0 * k)
        started += waiting.start(1, now=10.0 * k)
    assert "A" in started


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"quotas": {"a@vo": -1.0}}, "quotas.a@vo = -1.0: want 1e-06 to 1e+12"),
        ({"quotas": {"a@vo": 0.0}}, "quotas.a@vo = 0.0: want 1e-06 to 1e+12"),
        ({"quotas": {"a@vo": float("nan")}}, "quotas.a@vo = nan: want 1e-06 to 1e+12"),
        ({"default_quota": -2.0}, "default_quota = -2.0: want 1e-06 to 1e+12"),
        ({"time_threshold_s": -1.0}, "time_threshold_s = -1.0: want 0 to 1e+09"),
        ({"job_threshold": -5}, "job_threshold = -5: want 0 to 1e+12"),
        ({"site_job_threshold": -5}, "site_job_threshold = -5: want 0 to 1e+12"),
        ({"service_half_life": 0.0}, "service_half_life = 0.0: want 1 to 1e+12"),
    ],
)
def test_a_setting_out_of_range_is_refused_with_the_range(values: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError) as error:
        Settings(**values)  # type: ignore[arg-type]
    assert str(error.value) == says


@pytest.mark.parametrize("field", ["quotas", "priority_mode", "job_threshold", "time_threshold_s"])
def test_new_settings_re_prioritise_what_waits(field: str) -> None:
    """Settings that SIGHUP loads count from that moment, for what is queued already."""
    calm: dict[str, object] = {"priority_mode": "paper", "time_threshold_s": 0.0, "claim_ahead": 2}
    grid = Grid(calm, alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(3, work_s=1e4), 3)
    alpha.submit(spec(4), 4, request=2, who=ALICE)
    alpha.submit(spec(8), 8, request=3, who=BOB)
    grid.pass_time(100.0)
    queues = alpha.engine.core.queues

    def standing() -> list[tuple[str, int, float]]:
        return [(one.key.user, one.jobs, round(one.priority, 6)) for one in queues.standing()]

    assert standing() == [(ALICE.name, 4, 0.333333), (BOB.name, 8, -0.25)]
    new: dict[str, object] = {
        "quotas": {BOB.name: 4.0},
        "priority_mode": "default",
        "job_threshold": 6,
        "time_threshold_s": 50.0,
    }
    alpha.handle(ev.SettingsLoaded(Settings(**{**calm, "slots": 1, field: new[field]})))  # type: ignore[arg-type]
    assert (
        standing()
        == {
            "quotas": [(ALICE.name, 4, -0.4), (BOB.name, 8, 0.166667)],
            "priority_mode": [(ALICE.name, 4, -0.399953), (BOB.name, 8, 0.666537)],
            "job_threshold": [(ALICE.name, 4, 0.333333), (BOB.name, 6, -0.25), (BOB.name, 2, -0.75)],
            "time_threshold_s": [(ALICE.name, 4, 0.833333), (BOB.name, 8, 0.25)],
        }[field]
    )
