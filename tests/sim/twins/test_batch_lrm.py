"""Sites behind a batch system (`lrm = "fcfs"`, `"easy"`), and the jobs of others in it (SPEC D10, K9)."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path

import pytest

from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.sim.experiments import replay
from diana.sim.kernel.clock import Clock
from diana.sim.load import background, swf
from diana.sim.load.life import JobLife
from diana.sim.load.usable import choose
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.specs.lrm_spec import BackgroundSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.twins.batch import Discipline
from diana.sim.twins.batch_lrm import BatchLrm
from diana.sim.twins.lrm import Watcher
from diana.sim.world.runner import simulate
from tests.sim.checks.test_chaos import check
from tests.sim.twins.test_lrm_and_stager import Bench, kind

__all__ = ["kind"]

TWO = """version = 1
report = ["groups", "sites"]
[settings]
claim_ahead = 8

[[sites]]
name = "a"
slots = 6
LRM

[[sites]]
name = "b"
slots = 3
speed = 2.0
LRM

[[workload]]
name = "narrow"
site = "a"
jobs = 80
work_s = 10.0
spread = 0.8
fail_fraction = 0.1
submit_s = 2.0

[[workload]]
name = "wide"
site = "b"
jobs = 15
processors = 3
work_s = 8.0
submit_s = 20.0

[[workload]]
name = "dropped"
site = "a"
jobs = 40
work_s = 30.0
submit_s = 5.0
cancel_s = 45.0
"""
FAULTS = """
[faults]
draw = true
until_s = 60.0
heal_s = 900.0
loss = 0.2
duplicate = 0.2
crash = 0.01
spawner_crash_every_s = 20.0
machine_crash_every_s = 25.0
retell = 0.2
"""
BATCH = ("fcfs", "easy")
CROWDED = 'background = { load = 0.4, sizes = "given", run_s = 20.0 }'


def behind(lrm: str, more: str = "") -> Scenario:
    return sc.parse(TWO.replace("LRM", f'lrm = "{lrm}"\n{more}'))


@pytest.mark.wide
@pytest.mark.parametrize("more", ["", CROWDED])
def test_the_same_jobs_are_finished_behind_slots_fcfs_and_easy(more: str) -> None:
    found = {}
    for lrm in ("slots", "fcfs", "easy"):
        report = simulate(behind(lrm, more if lrm != "slots" else ""), 3)
        assert report.good(), report.violations[:3]
        found[lrm] = {name: (g.done, g.failed) for name, g in report.groups.items() if name != "dropped"}
        dropped = report.groups["dropped"]
        assert dropped.cancelled > 0 and dropped.done + dropped.cancelled == 40
    assert found["slots"] == found["fcfs"] == found["easy"]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("lrm", "seeds"),
    [("fcfs", range(2)), ("easy", range(2)), *(pytest.param(k, range(2, 30), marks=pytest.mark.wide) for k in BATCH)],
)
def test_no_job_is_lost_or_doubled_behind_a_batch_system_with_jobs_of_others(lrm: str, seeds: range) -> None:
    seen = check(sc.parse(TWO.replace("LRM", f'lrm = "{lrm}"\n{CROWDED}') + FAULTS), seeds)
    for fault in ("spawner_crash", "machine_crash", "crash"):
        assert seen[fault] >= 1, f"{fault} struck {seen[fault]} times: these seeds prove little"


def test_a_narrow_job_goes_first_where_the_batch_system_backfills() -> None:
    """Two slots: 0 has one for 5 s, 1 wants both, 2 is expected to be over by then."""
    order = {}
    for discipline in Discipline:
        bench = Bench(discipline.value)
        bench.start("0")
        bench.start("1", processors=2)
        bench.start("2")
        bench.clock.run_until(25.0)
        order[discipline] = [index for index, _ in bench.ends()]
    assert order == {Discipline.FCFS: [0, 1, 2], Discipline.EASY: [0, 2, 1]}


def test_a_job_wider_than_the_machine_does_not_start(kind: str) -> None:
    if kind == "slots":
        pytest.skip("the engine gives slots no such job")
    bench = Bench(kind)
    bench.start("0", processors=3)
    bench.clock.run_until(5.0)
    assert [(index, outcome.name) for index, outcome in bench.ends()] == [(0, "NOT_STARTED")]


# --- the jobs of others ----------------------------------------------------------------------------------


def alone(spec: BackgroundSpec, slots: int, until_s: float, lrm: Discipline = Discipline.FCFS) -> BatchLrm:
    clock = Clock()
    others = background.jobs(spec, slots, 5, "x")
    plain = (clock, SiteId("x"), slots, 1.0, lambda run, job: JobLife(1.0), Watcher())
    found = BatchLrm(*plain, discipline=lrm, others=others)
    clock.run_until(until_s)
    return found


@pytest.mark.wide
def test_others_wait_as_erlang_says() -> None:
    """M/M/5 at four fifths load: the mean wait is Erlang's C over (c - a) services, 0.554 s per second of run time."""
    slots, load = 5, 0.8
    others = alone(BackgroundSpec(load=load, sizes="given", run_s=1.0), slots, 20_000.0).others
    offered = slots * load
    last = offered**slots / math.factorial(slots) / (1 - load)
    queues = last / (sum(offered**k / math.factorial(k) for k in range(slots)) + last)
    assert others.started == pytest.approx(80_000, rel=0.02)
    assert others.wait_s / others.started == pytest.approx(queues / (slots - offered), rel=0.1)
    assert others.busy_s / (slots * 20_000.0) == pytest.approx(load, rel=0.02)


def test_drawn_sizes_offer_the_load_that_is_asked_for() -> None:
    some = list(islice(background.jobs(BackgroundSpec(load=0.6), 64, 1, "x"), 20 * background.BLOCK))
    offered_s = math.fsum(job.processors * job.run_s for job in some)
    assert offered_s / (64 * some[-1].submit_s) == pytest.approx(0.6, rel=0.05)
    assert max(job.processors for job in some) <= 64
    assert [job.submit_s for job in some] == sorted(job.submit_s for job in some)
    assert some == list(islice(background.jobs(BackgroundSpec(load=0.6), 64, 1, "x"), 20 * background.BLOCK))


def log(folder: Path, jobs: int = 400) -> Path:
    """A log that starts at second 1000: every 5 s a job of 1 to 4 processors."""
    lines = ["; MaxProcs: 4"]
    for k in range(jobs):
        run_s, width = 1 + k * 37 % 11, 1 + k * 13 % 4
        lines.append(
            f"{k + 1} {1000 + 5 * k} -1 {run_s} {width} -1 -1 {width} {2 * run_s} -1 1 {k % 7} 1 -1 1 -1 -1 -1"
        )
    path = folder / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("lrm", Discipline)
def test_a_trace_in_the_background_waits_as_it_does_alone(lrm: Discipline, tmp_path: Path) -> None:
    path = log(tmp_path)
    work, _ = choose(swf.read(path), 4)
    foretold = replay.figures(work, 4, replay.replay(work, 4, lrm))
    found = alone(BackgroundSpec(trace=str(path)), 4, 4000.0, lrm).others
    assert foretold["mean_wait_s"] > 1.0
    assert (found.started, found.ended) == (400, 400)
    assert found.wait_s / found.started == pytest.approx(foretold["mean_wait_s"])


def test_a_trace_can_begin_in_its_middle_be_stretched_to_a_load_and_end(tmp_path: Path) -> None:
    path = str(log(tmp_path))
    whole = list(background.jobs(BackgroundSpec(trace=path, begin_s=50.0), 4, 0, "x"))
    assert (whole[0].submit_s, whole[1].submit_s, len(whole)) == (50.0, 55.0, 400)
    late = list(background.jobs(BackgroundSpec(trace=path, from_s=1000.0, until_s=100.0), 4, 0, "x"))
    assert (late[0].submit_s, late[-1].submit_s, len(late)) == (0.0, 95.0, 20)
    assert late[0][1:] == whole[200][1:]
    half = list(background.jobs(BackgroundSpec(trace=path, load=0.5), 4, 0, "x"))
    offered_s = math.fsum(job.processors * job.run_s for job in half)
    assert offered_s / (4 * half[-1].submit_s) == pytest.approx(0.5)
    assert [job[1:] for job in half] == [job[1:] for job in whole]


@pytest.mark.wide
def test_a_site_tells_how_others_fared(tmp_path: Path) -> None:
    text = TWO.replace("LRM", 'lrm = "easy"\nbackground = { trace = "log.swf" }')
    log(tmp_path)
    scenario = sc.parse(text, "x.toml", tmp_path)
    report = simulate(scenario, 1)
    others = report.sites["a"].others
    assert others is not None and others.started >= others.ended > 10 and others.busy_fraction > 0.1
    assert simulate(sc.parse(written(scenario)), 1).digest == report.digest


# --- many such sites, and what is wrong ------------------------------------------------------------------


def test_a_site_with_a_count_stands_for_so_many() -> None:
    scenario = sc.parse('version = 1\n[[sites]]\nname = "n"\nslots = 3\nlrm = "easy"\ncount = 4\n[[sites]]\nname = "m"')
    assert [site.name for site in scenario.sites] == ["n", "n-2", "n-3", "n-4", "m"]
    assert {(site.slots, site.lrm, site.count) for site in scenario.sites[:4]} == {(3, "easy", 1)}


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("count = 0", "sites n: count = 0: want 1 to 1e+06"),
        ('count = 2\n[[sites]]\nname = "n-2"', "sites: 'n-2' stands twice; names must differ"),
        ('lrm = "pbs"', "sites[0].lrm: 'pbs' is not known; known: slots, fcfs, easy"),
        ('lrm = "fcfs"\nslots = 0', "sites n: lrm = 'fcfs': slots = 0: a batch system has at least 1"),
        ('lrm = "fcfs"\nmachines = [{name = "k"}]', "lrm = 'fcfs': its processors are its slots; leave machines out"),
        (
            "background = {load = 0.5}",
            "background: others need a batch system to submit to; set lrm = 'fcfs' or 'easy'",
        ),
        ('lrm = "fcfs"\nbackground = {}', "background: neither trace nor load; say whose jobs they are, or how many"),
        ('lrm = "fcfs"\nbackground = {load = -1}', "background: load = -1: want 0 to 100"),
        ('lrm = "fcfs"\nbackground = {load = 1, processors = 9}', "background: processors = 9: want 1 to 1"),
        ('lrm = "fcfs"\nbackground = {load = 1, begin_s = 9, until_s = 8}', "until_s = 8: want more than begin_s = 9"),
        ('lrm = "fcfs"\nbackground = {lod = 1}', "unknown key 'lod' in sites[0].background; did you mean 'load'?"),
        (
            'lrm = "fcfs"\nbackground = {trace = "no.swf"}',
            "no.swf: No such file or directory; name a readable SWF file",
        ),
        ('lrm = "fcfs"\nslots = 4\nbackground = {trace = "log.swf", from_s = 5000}', "the last job of the trace comes"),
    ],
)
def test_a_wrong_batch_system_gives_one_line(keys: str, says: str, tmp_path: Path) -> None:
    log(tmp_path)
    with pytest.raises(UsageError) as error:
        sc.parse(f'version = 1\n[[sites]]\nname = "n"\n{keys}\n', "x.toml", tmp_path)
    assert says in str(error.value) and "\n" not in str(error.value)
