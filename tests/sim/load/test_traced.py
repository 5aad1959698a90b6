"""Logs as the workload of a scenario: which jobs are taken, from where, in which groups, and that each runs as long as
the log says."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.errors import UsageError
from diana.sim.load import bursts, swf, traced
from diana.sim.report.report import selected
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate

HEADER = "; Version: 2.2\n; Partition: 1 Alpha.Org\n; Partition: 2 beta\n; Partition: 9 far.away\n"
SCENARIO = """version = 1
sites = [{ name = "alpha-org", slots = 4 }, { name = "beta", slots = 2 }]
[[workload]]
name = "log"
site = "beta"
trace = { file = "log.swf" }
"""


def job(number: int, submit: float, run: float, user: int = 1, width: int = 1, asked: float = -1, part: int = 1) -> str:
    status = 5 if run < 0 else 1
    return f"{number} {submit} -1 {run} {width} -1 -1 -1 {asked} -1 {status} {user} 1 -1 -1 {part} -1 -1\n"


def log(folder: Path, *jobs: str, header: str = HEADER) -> Path:
    (folder / "log.swf").write_text(header + "".join(jobs))
    return folder


def scenario(folder: Path, more: str = "", site: str = 'site = "beta"', top: str = "") -> Scenario:
    text = SCENARIO.replace('file = "log.swf"', f'file = "log.swf"{", " + more if more else ""}')
    return sc.parse(
        text.replace('site = "beta"', site).replace("[[workload]]", f"{top}\n[[workload]]"), "x.toml", folder
    )


def took(folder: Path, more: str = "", seed: int = 0, site: str = 'site = "beta"') -> traced.Taken:
    made = scenario(folder, more, site)
    work = made.workload[0]
    assert work.trace is not None
    return traced.taken(work, work.trace, made, seed)


def homes(folder: Path, more: str, seed: int = 0) -> list[str]:
    some = took(folder, more, seed)
    return [("alpha-org", "beta")[at] for at in some.home.tolist()]


BURST = [job(1, 0, 100), job(2, 4, 7), job(3, 6, 9, user=2), job(4, 8, 11), job(5, 40, 13)]


def test_each_job_runs_as_long_as_the_log_says_and_is_submitted_when_it_says(tmp_path: Path) -> None:
    report = simulate(scenario(log(tmp_path, *BURST)), 0)
    assert report.good() and report.groups["log"].done == 5
    assert report.groups["log"].run_mean_s == pytest.approx((100 + 7 + 9 + 11 + 13) / 5)
    fast = simulate(scenario(log(tmp_path, *BURST), site='site = "beta"\nsites = ["beta"]'), 0)
    assert fast.sites["beta"].busy_fraction * fast.network.simulated_s * 2 == pytest.approx(140)


def test_jobs_of_one_burst_are_one_group_with_a_run_time_each(tmp_path: Path) -> None:
    made = scenario(log(tmp_path, *BURST), "bulk_gap_s = 5.0")
    work = made.workload[0]
    groups = list(traced.groups(work, made, traced.taken(work, work.trace, made, 0)))  # type: ignore[arg-type]
    assert [(g.work.name, g.work.jobs, g.work.submit_s, g.work.user) for g in groups] == [
        ("log", 3, 0.0, "log-u1@sim"),
        ("log-2", 1, 6.0, "log-u2@sim"),
        ("log-3", 1, 40.0, "log-u1@sim"),
    ]
    assert [g.run_s.tolist() for g in groups] == [[100, 7, 11], [9], [13]]
    report = simulate(made, 3)
    assert report.good() and report.groups["log"].jobs == 5
    assert report.groups["log"].run_mean_s == pytest.approx(28.0)


def test_a_burst_is_cut_where_it_lasts_too_long_or_has_too_many(tmp_path: Path) -> None:
    log(tmp_path, *(job(k, 3 * k, 5) for k in range(1, 11)))
    assert np.diff(took(tmp_path, "bulk_gap_s = 4.0").begin).tolist() == [10]
    assert np.diff(took(tmp_path, "bulk_gap_s = 4.0, bulk_span_s = 9.0").begin).tolist() == [4, 4, 2]
    assert np.diff(took(tmp_path, "bulk_gap_s = 4.0, bulk_jobs = 3").begin).tolist() == [3, 3, 3, 1]


def test_other_widths_and_other_homes_are_other_groups(tmp_path: Path) -> None:
    log(tmp_path, job(1, 0, 5), job(2, 1, 5, width=2), job(3, 2, 5, width=2), job(4, 3, 5, part=2, width=2))
    assert np.diff(took(tmp_path, "bulk_gap_s = 4.0").begin).tolist() == [1, 3]
    assert np.diff(took(tmp_path, "bulk_gap_s = 4.0, home = 'partition'").begin).tolist() == [1, 2, 1]


rows = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 3), st.integers(1, 2), st.integers(1, 50)), min_size=1, max_size=40
)


@given(rows, st.sampled_from([0.0, 2.0, 5.0, 100.0]), st.sampled_from([0.0, 8.0]), st.sampled_from([0, 3]))
def test_every_job_is_in_one_group_and_every_group_is_a_burst(
    jobs: list[tuple[int, int, int, int]], gap_s: float, span_s: float, most: int
) -> None:
    jobs.sort(key=lambda one: one[0])
    submit_s, user, width, _ = (np.array(column) for column in zip(*jobs, strict=True))
    order, begin = bursts.grouped(submit_s.astype(float), (user, width), gap_s, span_s, most)
    assert sorted(order.tolist()) == list(range(len(jobs)))
    heads = order[begin[:-1]]
    assert heads.tolist() == sorted(heads.tolist())
    for first, end in itertools.pairwise(begin.tolist()):
        one = order[first:end]
        assert one.tolist() == sorted(one.tolist()) and len(set(zip(user[one], width[one], strict=True))) == 1
        times = submit_s[one]
        assert (np.diff(times) <= gap_s).all()
        assert not span_s or times[-1] - times[0] <= span_s
        assert not most or len(one) <= most
        if not gap_s:
            assert len(one) == 1


@given(rows)
def test_history_knows_what_has_ended_and_nothing_of_what_comes(jobs: list[tuple[int, int, int, int]]) -> None:
    jobs.sort(key=lambda one: one[0])
    submit_s, user, _, run_s = (np.array(column, float) for column in zip(*jobs, strict=True))
    none, none_s = np.zeros(len(jobs), np.int64), np.zeros(len(jobs))
    columns = swf.SwfColumns(
        none, none, submit_s, none_s, run_s, none, submit_s, none, user.astype(np.int64), none, none, none, none
    )
    found = bursts.history(columns, np.arange(len(jobs)), columns.user, submit_s)
    for at in range(len(jobs)):
        ended = [k for k in range(len(jobs)) if submit_s[k] + run_s[k] <= submit_s[at]]
        own = [run_s[k] for k in ended if user[k] == user[at]]
        known = own or [run_s[k] for k in ended]
        assert found[at] == pytest.approx(np.mean(known)) if known else np.isnan(found[at])


def test_what_is_declared_is_what_the_user_asked_for_or_could_know(tmp_path: Path) -> None:
    log(tmp_path, job(1, 0, 10, asked=60), job(2, 5, 20), job(3, 100, 40), job(4, 200, 7, user=2))
    assert took(tmp_path).work_s.tolist() == [60, 1.0, 15, 70 / 3]
    assert took(tmp_path, "estimate = 'history'").work_s.tolist() == [1.0, 1.0, 15, 70 / 3]
    assert took(tmp_path, "estimate = 'true-mean'").work_s.tolist() == [10, 20, 40, 7]
    assert took(tmp_path, "bulk_gap_s = 9.0").work_s.tolist() == [60, 15, 70 / 3]


def test_a_user_is_at_home_where_most_of_its_jobs_ran(tmp_path: Path) -> None:
    log(tmp_path, job(1, 0, 5, part=2), job(2, 1, 5, part=1), job(3, 2, 5, part=1), job(4, 3, 5, user=2, part=2))
    assert homes(tmp_path, "home = 'partition-most-used'") == ["alpha-org", "alpha-org", "alpha-org", "beta"]
    assert homes(tmp_path, "home = 'partition'") == ["beta", "alpha-org", "alpha-org", "beta"]
    assert homes(tmp_path, "home = 'site'") == homes(tmp_path, "") == ["beta"] * 4
    assert homes(tmp_path, "home = { 1 = 'alpha-org' }") == ["alpha-org"] * 3 + ["beta"]
    assert homes(tmp_path, "home = 'partition', partitions = { 2 = 'alpha-org' }") == ["alpha-org"] * 4
    assert [g.site for g in map(lambda g: g.work, made_without_site(tmp_path))] == ["alpha-org"] * 3 + ["beta"]


def made_without_site(folder: Path) -> list[traced.TracedGroup]:
    made = scenario(folder, site="work_s = 1.0")
    work = made.workload[0]
    assert work.trace is not None
    return list(traced.groups(work, made, traced.taken(work, work.trace, made, 0)))


def test_a_home_that_is_drawn_is_one_for_a_user_and_another_for_another_seed(tmp_path: Path) -> None:
    log(tmp_path, *(job(k, k, 5, user=k % 40) for k in range(1, 200)))
    drawn = homes(tmp_path, "home = 'user'")
    assert all(len({drawn[k] for k in range(199) if (k + 1) % 40 == user}) == 1 for user in range(40))
    assert drawn == homes(tmp_path, "home = 'user'") != homes(tmp_path, "home = 'user'", seed=1)
    assert 0.4 < drawn.count("alpha-org") / 199 < 0.9


def test_who_ran_at_no_site_is_refused_left_out_or_put_somewhere(tmp_path: Path) -> None:
    log(tmp_path, job(1, 0, 5, part=9), job(2, 1, 5, part=9), job(3, 2, 5, part=2), job(4, 3, 5, user=2, part=9))
    with pytest.raises(UsageError, match=r"4 jobs have a partition for home that is no site, the first 9 \(far.away\)"):
        took(tmp_path, "home = 'partition-most-used'")
    left = took(tmp_path, "home = 'partition-most-used', elsewhere = 'leave-out'")
    assert left.account.left_out == {"no_home": 1} and left.home.tolist() == [1, 1, 1]
    assert took(tmp_path, "home = 'partition', elsewhere = 'leave-out'").account.left_out == {"no_home": 3}
    assert took(tmp_path, "home = 'partition', elsewhere = 'drawn'").account.jobs == 4


def test_a_cut_that_is_drawn_is_another_for_each_seed_and_the_same_for_one(tmp_path: Path) -> None:
    log(tmp_path, *(job(k, 10 * k, 5) for k in range(1, 1001)))
    for cut in ("first = 50", "span_s = 500.0"):
        begins = [took(tmp_path, f"cut = 'drawn', {cut}", seed).account for seed in range(10)]
        assert len({one.from_s for one in begins}) == 10 and {one.jobs for one in begins} == {50}
        assert begins[3] == took(tmp_path, f"cut = 'drawn', {cut}", 3).account
    within = took(tmp_path, "from_s = 2000.0, to_s = 3000.0")
    assert (within.account.jobs, within.account.left_out) == (100, {"outside_window": 900})
    assert within.submit_s[0] == 0.0 and within.account.from_s == 2000.0


@pytest.mark.parametrize("load", [0.5, 0.9, 3.0])
def test_the_load_is_the_one_asked_for(tmp_path: Path, load: float) -> None:
    log(tmp_path, *(job(k, 10 * k, 5 + k % 7, width=1 + k % 2) for k in range(1, 301)))
    some = took(tmp_path, f"load = {load}")
    span_s = float(some.submit_s[-1]) * 300 / 299
    offered = float((some.run_s * some.processors).sum())
    assert offered / (6 * span_s) == pytest.approx(load) == some.account.load
    assert took(tmp_path, "time_scale = 0.5").submit_s == pytest.approx(took(tmp_path).submit_s / 2)


def test_nothing_is_dropped_silently(tmp_path: Path) -> None:
    odd = [job(3, 50, 5), job(4, 20, 5), job(4, 60, 0), job(7, 70, -1), job(8, 80, 5, width=9), job(9, 90, 6)]
    made = scenario(log(tmp_path, *odd, header=""), "first = 2", top='report = ["groups"]')
    assert made.report == ("groups", "traces")
    told = selected([simulate(made, 0)], made.report)["traces"]["log"]
    assert told["left_out"] == {"cancelled": 1, "zero_run": 1, "too_wide": 1, "outside_cut": 1}
    assert told["jobs"] + sum(told["left_out"].values()) == told["jobs_in_trace"] == 6
    noticed = {"missing_header": 1, "unsorted_lines": 1, "missing_job_numbers": 2, "repeated_job_numbers": 1}
    assert told["noticed"] == noticed
    assert (told["from_s"], told["to_s"]) == (20, 50)


def test_a_scenario_with_a_trace_can_be_written_down_and_read_elsewhere(tmp_path: Path) -> None:
    made = scenario(log(tmp_path, *BURST), "home = { 1 = 'beta' }, bulk_gap_s = 5.0")
    again = sc.parse(written(made), folder=Path("/nowhere"))
    assert again == made and simulate(again, 1).digest == simulate(made, 1).digest


@pytest.mark.parametrize(
    ("trace", "site", "says"),
    [
        ("fist = 3", "", "unknown key 'fist' in workload[0].trace; did you mean 'first'?"),
        ("first = -1", "", "workload log: trace: first = -1: want 0 to 1e+12"),
        ("to_s = 5.0, from_s = 9.0", "", "to_s = 5: want more than from_s = 9, or 0: to the end"),
        ("cut = 'drawn'", "", "cut = 'drawn': want either `first` jobs or those of `span_s` seconds; set one of them"),
        ("span_s = 4.0", "", "span_s = 4 is for cut = 'drawn'; set that, or from_s and to_s instead"),
        ("load = 0.5, time_scale = 2.0", "", "load = 0.5 sets the time between jobs, time_scale too; leave one out"),
        ("bulk_jobs = 4", "", "bulk_jobs = 4 limits groups that nothing makes; set bulk_gap_s"),
        ("home = { 1 = 'betta' }", "", "trace: home.1: 'betta' is not known; did you mean 'beta'?"),
        ("home = { x = 'beta' }", "", "trace: home.x: want the number it has in the log, as 7"),
        ("home = 'site'", "work_s = 2.0", "home = 'site': the entry has no site; name one with `site`"),
        ("partitions = { 2 = 'gamma' }", "", "trace: partitions.2: 'gamma' is not known"),
        ("", 'site = "beta"\nrepeat = 3', "trace and repeat: the trace says how many jobs come when, how wide; leave"),
        ("", 'site = "beta"\nspread = 0.5', "trace and spread: the trace says how long its jobs run; leave one of"),
        ("from_s = 1e6", "", "none of its jobs is left (5 outside_window); workload log wants some"),
        ("load = 0.5, first = 1", "", "load = 0.5: all of its jobs come at one time; take more of them"),
        ("file = 'none.swf'", "", "none.swf: no such file or directory; name a readable SWF file"),
        ("home = 'partition', partition = 1", "", ""),
    ],
)
def test_a_mistake_is_one_line_with_file_key_and_mend(tmp_path: Path, trace: str, site: str, says: str) -> None:
    log(tmp_path, *BURST)
    text = SCENARIO.replace('file = "log.swf"', trace if "file" in trace else f'file = "log.swf", {trace}'.rstrip(", "))
    text = text.replace('site = "beta"', site) if site else text
    if not says:
        sc.parse(text, "x.toml", tmp_path)
        return
    with pytest.raises(UsageError) as refused:
        sc.parse(text, "x.toml", tmp_path)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_a_bad_line_of_the_log_is_named_with_its_number(tmp_path: Path) -> None:
    log(tmp_path, job(1, 0, 5), "2 3 -1 x 1\n")
    with pytest.raises(UsageError, match=r"log\.swf, line 6: field 4: 'x' is no number; mend the line"):
        scenario(tmp_path)


@given(
    jobs=st.lists(
        st.tuples(st.integers(-1, 500), st.integers(-1, 40), st.integers(0, 6), st.integers(-1, 3), st.integers(1, 3)),
        min_size=1,
        max_size=30,
    ),
    more=st.sampled_from(
        [
            "",
            "bulk_gap_s = 20.0",
            "home = 'partition', elsewhere = 'leave-out', bulk_gap_s = 50.0, bulk_jobs = 4",
            "home = 'partition-most-used', elsewhere = 'drawn', cut = 'drawn', first = 5",
            "home = 'user', cut = 'drawn', span_s = 100.0, estimate = 'history'",
        ]
    ),
    seed=st.integers(0, 3),
)
def test_the_account_is_complete_and_no_run_time_changes(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[int, int, int, int, int]], more: str, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    rows = [job(k, at, run, user, width, -1, part) for k, (at, run, width, user, part) in enumerate(jobs, 1)]
    try:
        some = took(log(folder, *rows), more, seed)
    except UsageError as error:
        assert "none of its jobs is left" in str(error)
        return
    account = some.account
    assert account.jobs + sum(account.left_out.values()) == account.jobs_in_trace == len(jobs)
    assert account.jobs == len(some.run_s) == some.begin[-1] and account.groups == len(some) == len(some.begin) - 1
    assert (np.diff(some.submit_s) >= 0).all() and (some.work_s > 0).all()
    every = sorted(run for at, run, width, _, _ in jobs if at >= 0 and run > 0 and 0 < width <= 4)
    mine = sorted(some.run_s.tolist())
    assert mine == every if len(mine) == len(every) else not set(mine) - set(every)


def test_users_that_only_the_log_names_may_have_quotas(tmp_path: Path) -> None:
    log(tmp_path, *BURST)
    made = scenario(tmp_path, top='[settings]\nquotas = { "log-u1@sim" = 2.0 }')
    assert made.site_settings(made.sites[0]).quotas == {"log-u1@sim": 2.0}
    assert "log-u1@sim" in took(tmp_path).users
