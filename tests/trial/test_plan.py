"""A scenario's workload as job files: what a job does on a real node is what the simulator draws for it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.errors import UsageError
from diana.jobfile import ParsedFile, parse_file
from diana.model.ids import MAIN_MACHINE
from diana.sim.load.workload import Submission
from diana.sim.scenario import scenario as sc
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.work_spec import WorkSpec
from diana.trial.plan import ATTEMPTS, job_file, playable, settings_of, submissions

GRID = """version = 1
sites = [
    { name = "a", slots = 2 },
    { name = "b", slots = 4, speed = 2.0, machines = [{ name = "m1", speed = 0.5 }] },
    { name = "c", slots = 4, fails = true },
]
datasets = [{ name = "d", site = "b", files = 40, file_bytes = 10 }]
"""


def scenario(*works: str, more: str = "") -> Scenario:
    return sc.parse(GRID + more + "".join(f"\n[[workload]]\n{work}\n" for work in works))


def parsed(submitted: list[Submission], grid: Scenario, factor: float = 1.0) -> ParsedFile:
    """As a node reads it."""
    content = json.dumps(job_file(submitted, grid, factor)).encode()
    return parse_file(content, "json", "scenario", {}, {}, lambda rows: "0" * 64, lambda name: b"")


def rows(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The varying argument, job by job."""
    if "rows" in job["sweep"]:
        return list(job["sweep"]["rows"])
    ((name, values),) = job["sweep"].items()
    return [{name: value} for value in values]


def ran(job: dict[str, Any], index: int, row: dict[str, Any], attempt: int, at: str, folder: Path) -> tuple[str, int]:
    """Its time asleep, and its exit code, by a shell in which sleep only says how long."""
    group = job["group"]
    words = [str(word) for word in group["command"]]
    for name, value in row.items():
        words = [word.replace(f"{{{name}}}", str(value)) for word in words]
    words = [word.replace("{{", "{").replace("}}", "}") for word in words]
    words[2] = 'sleep() { echo "$1"; }\n' + words[2]
    site, machine = at.split("/")
    environment = {
        "PATH": "/usr/bin:/bin",
        "DIANA_SITE": site,
        "DIANA_MACHINE": machine,
        "DIANA_ATTEMPT": str(attempt),
        "DIANA_INDEX": str(index),
    }
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout.strip(), done.returncode


@pytest.mark.parametrize(
    ("at", "speed"), [(f"a/{MAIN_MACHINE}", 1.0), (f"b/{MAIN_MACHINE}", 2.0), ("b/m1", 0.5), ("z/main", 1.0)]
)
def test_a_job_holds_its_slot_for_the_simulated_time_at_the_speed_of_its_machine(
    at: str, speed: float, tmp_path: Path
) -> None:
    grid = scenario('name = "w"\nsite = "a"\njobs = 5\nwork_s = 7.5\nspread = 0.5\nfail_fraction = 0.5')
    (one,) = submissions(grid, 3)
    job = job_file([one], grid, 10.0)
    for index, row in enumerate(rows(job)):
        for attempt in (1, 2, ATTEMPTS):
            slept, code = ran(job, index, row, attempt, at, tmp_path)
            life = one.life(index, attempt)
            assert float(slept) == pytest.approx(life.run_s / speed / 10.0, abs=2e-6)
            assert code == life.exit_code


def test_later_attempts_than_were_drawn_end_as_the_last_of_them(tmp_path: Path) -> None:
    grid = scenario('name = "w"\nsite = "a"\njobs = 3\nfail_fraction = 0.5')
    (one,) = submissions(grid, 0)
    job = job_file([one], grid, 1.0)
    for index, row in enumerate(rows(job)):
        last = ran(job, index, row, ATTEMPTS, "a/main", tmp_path)
        assert ran(job, index, row, ATTEMPTS + 9, "a/main", tmp_path) == last


def test_a_broken_site_ends_every_job_at_once_with_1(tmp_path: Path) -> None:
    grid = scenario('name = "w"\nsite = "a"\njobs = 3\nwork_s = 50.0')
    (one,) = submissions(grid, 0)
    assert ran(job_file([one], grid, 1.0), 0, {"n": 0}, 1, "c/main", tmp_path) == ("0.01", 1)


def test_outputs_have_their_size_and_a_failed_job_leaves_none(tmp_path: Path) -> None:
    grid = scenario('name = "w"\nsite = "a"\njobs = 8\noutput_bytes = 1234\nfail_fraction = 0.5')
    (one,) = submissions(grid, 0)
    job = job_file([one], grid, 1.0)
    for index, row in enumerate(rows(job)):
        _, code = ran(job, index, row, 1, "a/main", tmp_path)
        made = tmp_path / f"{index}.out"
        assert made.exists() == (code == 0) and (code or made.stat().st_size == 1234)


def test_the_spec_a_node_reads_is_the_one_the_simulator_submits() -> None:
    """SPEC U11: from one scenario file the simulator and the real grounds submit the same spec."""
    grid = scenario(
        'name = "w"\nsite = "a"\njobs = 7\nprocessors = 2\nwork_s = 3.0\ninputs = ["d"]\nfile_per_job = true\n'
        'output_bytes = 10\nmerge = true\nsites = ["a", "b"]\non_crash = "rerun"\non_site_lost = "rerun"\n'
        "max_subgroup = 3\nmax_parallel = 4"
    )
    (one,) = submissions(grid, 0)
    (real,) = parsed([one], grid).groups
    wanted, found = one.spec, real.spec
    for key in ("name", "inputs", "sites", "on_crash", "on_site_lost", "max_parallel", "max_subgroup"):
        assert getattr(found, key) == getattr(wanted, key), key
    assert found.outputs.collect == wanted.outputs.collect and found.outputs.merge
    assert found.resources.processors == 2 and found.resources.work_s == 3.0
    assert real.jobs == one.jobs == 7
    assert sorted(ref for ref, _ in real.refs) == sorted(ref for ref, _ in one.refs)


def test_what_hangs_together_is_one_file_whose_groups_wait_for_each_other() -> None:
    grid = scenario(
        'name = "make"\nsite = "a"\njobs = 4\noutput_bytes = 1\nproduces = "made"',
        'name = "use"\nsite = "a"\njobs = 4\ninputs = ["made"]\nfile_per_job = true',
        'name = "last"\nsite = "a"\njobs = 1\nafter = ["use"]',
    )
    some = list(submissions(grid, 0))
    found = parsed(some, grid)
    assert [group.spec.name for group in found.groups] == ["make", "use", "last"]
    assert [waits.members for waits in found.waits] == [(), (0,), (1,)]


def test_a_forced_plan_is_a_group_per_site_with_its_share_of_files_and_luck() -> None:
    work = 'name = "w"\nsite = "a"\njobs = 10\ninputs = ["d"]\nfile_per_job = true\nspread = 0.3'
    whole, grid = scenario(work), scenario(f"{work}\nforced = {{ b = 6, a = 4 }}")
    (planned,) = submissions(whole, 5)
    shared = [row for one in submissions(grid, 5) for row in rows(job_file([one], grid, 1.0))]
    assert shared == rows(job_file([planned], whole, 1.0)) and len(shared) == 10


def test_every_group_of_a_drawn_workload_is_submitted() -> None:
    drawn = 'name = "d"\nsite = "a"\njobs = 3\nrepeat = 20\nevery_s = 2.0\ngenerate = { arrivals = "poisson" }'
    some = submissions(scenario(drawn, 'name = "r"\nsite = "b"\njobs = 1\nrepeat = 4\nevery_s = 1.0'), 1)
    assert [one.entry for one in some[:20]] == ["d"] * 20 and len(some) == 24
    assert len({one.name for one in some}) == 24 and len({one.submit_s for one in some[:20]}) == 20


WORKS = st.builds(
    WorkSpec,
    name=st.just("w"),
    site=st.sampled_from("abc"),
    jobs=st.integers(1, 40),
    work_s=st.floats(0.01, 1e5),
    spread=st.floats(0, 1),
    fail_fraction=st.sampled_from((0.0, 0.3, 1.0)),
    processors=st.integers(1, 4),
    inputs=st.sampled_from(((), ("d",))),
    output_bytes=st.sampled_from((0, 5)),
    max_parallel=st.integers(0, 3),
)


@settings(max_examples=60, deadline=None)
@given(WORKS, st.booleans(), st.sampled_from((1.0, 60.0, 3600.0)), st.integers(0, 100))
def test_every_workload_makes_a_job_file_a_node_accepts(work: WorkSpec, each: bool, factor: float, seed: int) -> None:
    work = msgspec.structs.replace(work, file_per_job=each and bool(work.inputs))
    grid = msgspec.structs.replace(scenario(), workload=(work,))
    (one,) = submissions(grid, seed)
    (real,) = parsed([one], grid, factor).groups
    assert real.jobs == work.jobs
    assert real.spec.resources.work_s == pytest.approx(work.work_s / factor)


def test_settings_about_work_run_with_the_scenarios_clock_and_no_others() -> None:
    grid = sc.parse(GRID + "[settings]\nmigration_gain_s = 30\nlease_s = 60\n")
    changed = settings_of(grid, grid.sites[0], 60.0)
    assert (changed.migration_gain_s, changed.lease_s, changed.migration_window_s) == (0.5, 60.0, 5.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[faults]\nloss = 0.1\nuntil_s = 5", "faults: are drawn in the simulator alone; say what is to happen in"),
        ('[[transfers]]\nname = "t"\nsource = "a"\nto = "b"\nsize_bytes = 9', "transfers: real nodes move only what"),
        ('[[workload]]\nname = "w"\nsite = "a"\njobs = 2000000', "2,000,000 jobs: at most 1,000,000 on real nodes"),
    ],
)
def test_what_real_nodes_cannot_do_is_one_line(text: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        playable(sc.parse(f"{GRID}\n{text}\n"), 0, "x.toml")
    assert str(error.value).startswith(f"x.toml: {says}") and "\n" not in str(error.value)


def test_a_machine_whose_name_no_node_may_have_is_one_line() -> None:
    bad = sc.parse('version = 1\nsites = [{ name = "a", machines = [{ name = "../x" }] }]\n')
    with pytest.raises(UsageError, match=r"sites a: machines '\.\./x': real machines want lower-case letters"):
        playable(bad, 0, "x.toml")


@pytest.mark.parametrize(
    "sites",
    [
        '{ name = "a", machines = [{ name = "b" }] }, { name = "a-b" }',
        '{ name = "a", standby = true, machines = [{ name = "standby" }] }',
    ],
)
def test_two_machines_of_one_name_are_refused(sites: str) -> None:
    with pytest.raises(UsageError, match="is there already; rename one"):
        playable(sc.parse(f"version = 1\nsites = [{sites}]\n"), 0, "x.toml")


def test_more_machines_than_fit_on_a_computer_are_refused() -> None:
    sites = ", ".join(f'{{ name = "s{k}" }}' for k in range(101))
    with pytest.raises(UsageError, match="101 machines: at most 100 real nodes; use diana simulate"):
        playable(sc.parse(f"version = 1\nsites = [{sites}]\n"), 0, "x.toml")
