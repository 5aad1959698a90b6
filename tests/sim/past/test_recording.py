"""Histories as files: what is recorded is what is read, replays alike, and a damaged one is refused in one line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from diana.errors import UsageError
from diana.model.ids import GroupId, SiteId
from diana.model.job.declared import MOST_AMOUNT
from diana.model.views.past import PastGroup, PastMachine, PastRows, PastSite
from diana.sim.load import past, swf, traced
from diana.sim.past.merging import load, merged
from diana.sim.past.recording import KnownSite, Recorder
from diana.sim.past.replay import Replayed, as_it_was, replayed
from diana.sim.report.report import Report
from diana.sim.scenario import scenario as sc
from diana.sim.world.runner import simulate
from tests.sim.past.histories import START_S, VO, Ran, history, told

SHARED = Path(__file__).parents[3].parent / "shared" / "data"


def test_each_job_is_a_line_that_other_tools_read_and_each_group_comes_back_whole(tmp_path: Path) -> None:
    wishes = {"work_s": 5.0, "sites": ("beta",), "max_parallel": 3, "on_site_lost": "rerun"}
    made = told(tmp_path, [Ran(0.25, [4.0, 6.5], "beta", 1.5, more=wishes), Ran(10.0, [1.0], user="bob@lab")])
    assert (made.groups, made.jobs, made.clock_back) == (2, 3, 0)
    log = swf.read(tmp_path / "alpha.swf.gz")
    assert log.jobs.submit_s.tolist() == [0.25, 0.25, 10.0] and log.jobs.wait_s.tolist() == [1.5, 1.5, 0.0]
    assert log.jobs.run_s.tolist() == [4.0, 6.5, 1.0] and log.jobs.status.tolist() == [1, 1, 1]
    assert traced.partition_names(log) == {1: "alpha", 2: "beta"}
    first, second = past.read(str(tmp_path / "alpha.swf.gz")).groups
    note = first.note
    assert (note.name, note.sites, note.max_parallel, note.work_s) == ("alpha-1", ("beta",), 3, 5.0)
    assert (note.on_site_lost, second.note.user, second.submit_s) == ("rerun", "bob@lab", 10.0)
    assert first.work_s.tolist() == [8.0, 13.0], "beta is twice as fast: its run times are half of the work"


def test_a_replay_runs_each_job_as_long_as_it_ran_at_the_speed_of_its_site(tmp_path: Path) -> None:
    scenario = history(tmp_path, [Ran(0.0, [4.0], "beta", more={"sites": ("alpha",)})])
    ((run,),) = replayed([scenario], range(1))
    assert run.groups["alpha-1"].sites == {"alpha": 1} and run.groups["alpha-1"].run_s == pytest.approx(8.0, abs=0.1)


@pytest.mark.parametrize(("owners", "names"), [("hash", 2), ("drop", 1)])
def test_names_of_users_can_be_left_out(tmp_path: Path, owners: str, names: int) -> None:
    told(tmp_path, [Ran(0.0, [1.0], user="ann@lab"), Ran(1.0, [1.0], user="bob@lab")], owners=owners)  # type: ignore[arg-type]
    text = gzip.decompress((tmp_path / "alpha.swf.gz").read_bytes()).decode() + (tmp_path / "scenario.toml").read_text()
    assert "ann" not in text and "bob" not in text
    assert len(load(tmp_path).users) == names


def test_the_last_attempt_of_a_job_counts_and_what_never_ran_is_not_replayed(tmp_path: Path) -> None:
    with Recorder(tmp_path, PastSite(site=SiteId("alpha"), slots=1, speed=1.0), [KnownSite("alpha", 1, 1.0)], VO) as it:
        it.group(PastGroup(group=GroupId("alpha-1"), owner="ann@lab", jobs=3, submitted_wall_s=9.0, submitted_s=9.0))
        for attempt, run_s in ((2, 5.0), (1, 3.0)):
            it.rows(_row(index=0, attempt=attempt, run_s=run_s))
        it.group(PastGroup(group=GroupId("alpha-2"), owner="ann@lab", jobs=1, submitted_wall_s=9.5, submitted_s=9.5))
        made = it.close((), (), {}, {})
    assert (made.groups, made.jobs, made.going_on, made.without_jobs) == (2, 1, 2, 1)
    found = past.read(str(tmp_path / "alpha.swf.gz"))
    assert [one.run_s.tolist() for one in found.groups] == [[5.0]] and found.never_ran == 1
    assert as_it_was(load(tmp_path)).unfinished == 1


def test_a_span_without_jobs_writes_nothing_and_says_so(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="no job of that span has ended here"),
        Recorder(tmp_path, PastSite(site=SiteId("alpha")), [], VO) as it,
    ):
        it.close((), (), {}, {})
    assert not list(tmp_path.iterdir())


def test_a_clock_that_was_behind_makes_no_negative_wait_and_is_told(tmp_path: Path) -> None:
    made = told(tmp_path, [Ran(0.0, [2.0, 2.0], wait_s=-3.0)])
    assert made.clock_back == 2
    assert past.read(str(tmp_path / "alpha.swf.gz")).groups[0].wait_s.tolist() == [0.0, 0.0]


DAMAGES = {
    "of another release": (b"; Diana: 1\n", b"; Diana: 7\n", "says '7', and this release reads version 1"),
    "of another tool": (b"; Diana: 1\n", b"", "has no comment `; Diana: 1`"),
    "without a group": (b"; Group: 1 ", b"; Other: 1 ", "jobs of group 1 without a comment"),
    "with a broken comment": (b'{"name"', b'{"name', "comment `; Group: 1`"),
    "nested without end": (b'{"name":', b'{"x":' + b"[" * 20_000 + b',"name":', "comment `; Group: 1`"),
    "with a speed of nothing": (b"; PartitionSpeed: 1 1\n", b"; PartitionSpeed: 1 nan\n", "want a speed above 0"),
    "with a resource by a wrong name": (
        b'"name":',
        b'"resources":{"cpus":1},"name":',
        "its jobs: resources.cpus: has a key",
    ),
    "with components that are none": (b'"name":', b'"components":"3y8","name":', "3y8"),
    "cut in a line": (b" -1 -1\n", b"\n", "fields where a job has 18"),
}


def test_a_group_whose_jobs_had_devices_asks_for_them_again(tmp_path: Path) -> None:
    told(tmp_path, [Ran(0.0, [2.0], more={"gpus": 1})])
    path = tmp_path / "alpha.swf.gz"
    whole = gzip.decompress(path.read_bytes())
    assert b'"gpus":1,' in whole
    path.write_bytes(gzip.compress(whole.replace(b'"gpus":1,', b'"gpus":1,"resources":{"fpga":2},')))
    scenario = load(tmp_path)
    (entry,) = scenario.workload
    assert entry.history is not None
    (again,) = past.groups(entry, entry.history, scenario, 1)
    assert again.work.amounts == (("fpga", 2), ("gpus", 1))


ASKING = [
    Ran(0.0, [2.0], more={"gpus": 1, "resources": {"fpga": 2}}),
    Ran(1.0, [2.0], more={"resources": {"tape": 1}}),
]
EQUIPPED = {
    "gpus": 1,
    "resources": {"fpga": 2},
    "machines": (PastMachine(name="m1", slots=1, resources={"tape": 1}),),
}


@pytest.mark.parametrize("hash_places", [False, True])
def test_jobs_that_asked_for_what_machines_have_are_replayed_where_it_is(tmp_path: Path, hash_places: bool) -> None:
    sites = (KnownSite("alpha", 2, 1.0), KnownSite("beta", 90, 9.0))
    scenario = history(tmp_path, ASKING, sites=sites, has=EQUIPPED, hash_places=hash_places)
    home = next(site for site in scenario.sites if site.gpus)
    assert [sorted(each.resources.values()) for each in (home, *home.machines)] == [[2], [1]]
    ((run,),) = replayed([scenario], range(1))
    assert [group.sites for group in run.groups.values()] == [{home.name: 1}, {home.name: 1}]
    text = gzip.decompress(next(tmp_path.glob("*.swf.gz")).read_bytes()) + (tmp_path / "scenario.toml").read_bytes()
    assert [word in text for word in (b"fpga", b"tape")] == [not hash_places] * 2


def test_what_no_scenario_may_say_of_machines_is_left_out_of_it(tmp_path: Path) -> None:
    """Other sites tell what they like."""
    nonsense = {"gpus": 10**9, "resources": {"fpga": 2**62, "gpuss": 1, "No name": 1, "idle": 0, "tape": -1}}
    machine = PastMachine(name="m1", slots=1, **nonsense)  # type: ignore[arg-type]
    scenario = history(tmp_path, [Ran(0.0, [2.0], more=nonsense)], has={**nonsense, "machines": (machine,)})
    (home,) = (site for site in scenario.sites if site.gpus)
    (entry,) = scenario.workload
    assert entry.history is not None
    (again,) = past.groups(entry, entry.history, scenario, 1)
    assert {tuple(each.resources.items()) for each in (home, *home.machines, again.work)} == {(("fpga", MOST_AMOUNT),)}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_history_that_is_damaged_is_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    old, new, why = DAMAGES[kind]
    told(tmp_path, [Ran(0.0, [2.0])])
    path = tmp_path / "alpha.swf.gz"
    whole = gzip.decompress(path.read_bytes())
    assert old in whole
    path.write_bytes(gzip.compress(whole.replace(old, new, 1)))
    with pytest.raises(UsageError) as refused:
        load(tmp_path)
    assert why in str(refused.value) and "\n" not in str(refused.value)


def test_histories_of_two_sites_become_one_with_each_sites_word_about_itself(tmp_path: Path) -> None:
    seen_by_alpha = [KnownSite("alpha", 2, 1.0), KnownSite("beta", 1, 1.0)]
    seen_by_beta = [KnownSite("alpha", 9, 9.0), KnownSite("beta", 5, 2.0)]
    told(tmp_path / "a", [Ran(0.0, [1.0])], sites=seen_by_alpha)
    told(tmp_path / "b", [Ran(0.0, [1.0], "beta", user="bob@lab")], "beta", seen_by_beta, start_s=START_S + 60)
    scenario = merged([tmp_path / "a", tmp_path / "b"], tmp_path / "all")
    assert {site.name: site.slots for site in scenario.sites} == {"alpha": 2, "beta": 5}
    assert sorted((row.name, row.submit_s) for row in as_it_was(scenario).groups.values()) == [
        ("alpha-1", 0.0),
        ("beta-1", 60.0),
    ]
    with pytest.raises(UsageError, match="two of them are of alpha"):
        merged([tmp_path / "a", tmp_path / "a"], tmp_path / "none")


_MS = st.integers(1, 10**8).map(lambda ms: ms / 1000)


@settings(max_examples=40)
@given(st.lists(st.tuples(_MS, _MS), min_size=1, max_size=20))
def test_times_come_back_to_the_millisecond(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[float, float]]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    jobs.sort()
    told(folder, [Ran(submit_s, [run_s]) for submit_s, run_s in jobs])
    found = past.read(str(folder / "alpha.swf.gz")).groups
    for one, (submit_s, run_s) in zip(found, jobs, strict=True):
        base_s = int(jobs[0][0])
        assert one.submit_s == pytest.approx(submit_s - base_s, abs=2e-3)
        assert float(one.run_s[0]) == pytest.approx(run_s, abs=2e-3)


LOGS = {
    "KTH-SP2-1996-2.swf.gz": ("alpha", 100),
    "lcg-2005-first-half.swf.gz": ("alpha", 40),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", LOGS)
def test_a_log_that_goes_through_a_history_replays_alike(tmp_path: Path, name: str) -> None:
    """The same groups, at the same times, at the same sites: every start and end of every job is equal."""
    home, slots = LOGS[name]
    text = f"""version = 1
settings = {{ summary_every_s = 600, suspect_after_s = 3600 }}
sites = [{{ name = "alpha", slots = {slots} }}, {{ name = "beta", slots = {slots} }}]
[[workload]]
name = "log"
site = "{home}"
trace = {{ file = "{SHARED / name}", home = "site", first = 150, estimate = "true-mean", bulk_gap_s = 60.0 }}
"""
    by_log = sc.parse(text)
    spec = by_log.workload[0].trace
    assert spec is not None
    site = PastSite(site=SiteId(home), slots=slots, speed=1.0)
    with Recorder(tmp_path, site, [KnownSite(name, slots, 1.0) for name in ("alpha", "beta")], VO) as it:
        some = traced.taken(by_log.workload[0], spec, by_log, 0)
        for number, (one, _, run_s) in enumerate(traced.groups(by_log.workload[0], by_log, some), 1):
            at_s = START_S + one.submit_s
            it.group(
                PastGroup(
                    group=GroupId(f"alpha-{number}"),
                    owner=one.user,
                    jobs=one.jobs,
                    submitted_wall_s=at_s,
                    submitted_s=at_s,
                    final=True,
                    work_s=one.work_s,
                    processors=one.processors,
                )
            )
            for index, each_s in enumerate(run_s.tolist()):
                it.rows(_row(index=index, attempt=1, run_s=each_s, at_s=at_s))
        it.close((), (), {}, {})
    by_history = replace(load(tmp_path), settings=by_log.settings)
    first, again = (simulate(one, 0) for one in (by_log, by_history))
    assert first.good() and again.good()
    assert _life(first) == _life(again)
    assert _placed(replayed([by_log], range(1))[0][0]) == _placed(replayed([by_history], range(1))[0][0])


def _life(report: Report) -> list[tuple[object, ...]]:
    return sorted((one.state, one.done, one.makespan_s) for one in report.groups.values())


def _placed(run: Replayed) -> list[tuple[object, ...]]:
    rows = run.groups.values()
    return sorted((row.submit_s, row.first_s, row.end_s, row.jobs, tuple(sorted(row.sites.items()))) for row in rows)


def _row(index: int, attempt: int, run_s: float, at_s: float = 9.0) -> PastRows:
    return PastRows(
        site=SiteId("alpha"),
        indices=(index,),
        attempts=(attempt,),
        outcomes=("DONE",),
        started_s=(at_s,),
        ended_s=(at_s + run_s,),
        cpu_s=(run_s,),
        max_rss_bytes=(0,),
        output_bytes=(0,),
    )


@pytest.mark.parametrize(("settings_told", "missing"), [("{}", 3), ("", 0)])
def test_holes_in_the_numbers_are_told_to_operators_and_a_journal_put_back_to_all(
    tmp_path: Path, settings_told: str, missing: int
) -> None:
    site = PastSite(site=SiteId("alpha"), slots=1, speed=1.0, settings=settings_told)
    with Recorder(tmp_path, site, [KnownSite("alpha", 1, 1.0)], VO) as it:
        for number in (7, 8, 12, 1_000_013, 1_000_014):
            it.group(
                PastGroup(
                    group=GroupId(f"alpha-{number}"),
                    owner="ann@lab",
                    jobs=1,
                    submitted_wall_s=START_S + number,
                    submitted_s=START_S + number,
                )
            )
            it.rows(_row(index=0, attempt=1, run_s=1.0))
        made = it.close((), (), {}, {})
    assert (made.missing, made.restored) == (missing, 1)
