"""The demo's programs agree with each other; its job file is in order; its arithmetic counts right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from diana.demo import generate, histogram, merge
from diana.demo.grid import MARK, fresh_folder, plan_sites, processes_of
from diana.demo.job import make_samples, write_job
from diana.demo.sums import ResultTally, spread
from diana.errors import UsageError
from diana.jobfile import parse_file
from diana.wire.client.messages import OutputFile, ResultsChunk, UploadedFile
from tests.jobfile.builders import Blobs, only_group


def test_the_programs_as_processes_give_the_histogram_computed_directly(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        path = tmp_path / f"events-{number}.dat"
        generate.write_file(path, 7, number, 2_000 + number)
        paths.append(path)
        program = [sys.executable, "-I", "-S", str(histogram.__file__), str(path), f"hist-{number}.json"]
        subprocess.run(program, cwd=tmp_path, check=True)
    subprocess.run([sys.executable, "-I", "-S", str(merge.__file__), "histogram.json"], cwd=tmp_path, check=True)
    merged = json.loads((tmp_path / "histogram.json").read_text())
    counts, events = generate.count_directly(paths)
    assert merged["counts"] == counts
    assert (merged["events"], merged["files"]) == (events, 3) == (6_003, 3)


def test_the_peak_stands_at_the_z_over_a_falling_background() -> None:
    masses = generate.pair_masses(np.random.Generator(np.random.PCG64(1)), 50_000)
    counts, edges = np.histogram(masses, bins=120, range=(20, 140))
    assert abs(edges[60 + int(np.argmax(counts[60:]))] - generate.Z_MASS) < 2.0
    assert counts[0:10].sum() > counts[20:30].sum() > counts[40:50].sum()


def test_the_same_seed_gives_the_same_input(tmp_path: Path) -> None:
    for name in ("a", "b"):
        generate.write_file(tmp_path / name, 3, 4, 10)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert len((tmp_path / "a").read_bytes()) == 8 + 10 * 32


@pytest.mark.parametrize(("jobs", "sites"), [(6, 3), (5, 2), (1, 3)])
def test_every_file_gets_one_job_also_where_they_cannot_be_dealt_evenly(tmp_path: Path, jobs: int, sites: int) -> None:
    names = ["alpha", "beta", "gamma"][:sites]
    samples = make_samples(tmp_path / "input", names, jobs)
    path = write_job(tmp_path, samples, tmp_path / "outputs")
    blobs = Blobs()
    files: dict[str, UploadedFile] = {}
    for _ in range(2):
        whole = parse_file(path.read_bytes(), "toml", "job.toml", {}, files, blobs.put, blobs.kept.__getitem__)
        parsed = only_group(whole)
        files = {name: blobs.uploaded(name, (tmp_path / name).read_bytes()) for name in parsed.needs_files} or files
    assert parsed.jobs == jobs
    refs = [ref for ref, _ in parsed.refs if ref.startswith("dataset:")]
    assert refs == sorted(f"dataset:{sample.name}/{file.name}" for sample in samples for file in sample.files)


def test_bytes_moved_are_inputs_from_elsewhere_the_program_and_outputs_on_their_way_home() -> None:
    tally = ResultTally(2, 100.0)
    done = {"attempts": (1,), "outcomes": ("done",), "exit_codes": (0,), "cpu_s": (0.0,), "max_rss_bytes": (0,)}
    for site, index in (("home", 0), ("away", 1), ("home", 2)):
        outputs = (OutputFile(index=index, name="o", size_bytes=5),)
        times = {"started_s": (101.0,), "ended_s": (103.0 + index,)}
        tally.add(ResultsChunk(site=site, indices=(index,), outputs=outputs, **done, **times))  # type: ignore[arg-type]
    assert (tally.done(), tally.repeated(), tally.jobs_at()) == (2, 0, {"home": 1, "away": 1})
    assert tally.bytes_moved("home", [("away", 1000), ("away", 1000)], 30) == 1000 + 30 + 5
    assert spread(tally.run_s) == {"mean": 2.5, "p50": 3.0, "p95": 3.0, "max": 3.0}


def test_a_second_result_of_a_job_does_not_pass_as_done_once() -> None:
    tally = ResultTally(1, 0.0)
    for _ in range(2):
        tally.add(ResultsChunk(site="s", indices=(0,), outcomes=("done",), started_s=(0.0,), ended_s=(1.0,)))
    assert (tally.done(), tally.repeated()) == (0, 1)


def test_the_demo_takes_only_an_empty_folder_or_its_own(tmp_path: Path) -> None:
    out = fresh_folder(tmp_path / "out")
    (out / "sites").mkdir()
    (out / "old.json").touch()
    assert sorted(p.name for p in fresh_folder(out).iterdir()) == [MARK]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(UsageError, match="not empty and not of an earlier demo"):
        fresh_folder(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_a_demo_that_still_runs_is_found_by_its_folder(tmp_path: Path) -> None:
    out = fresh_folder(tmp_path / "out")
    (out / "sites").mkdir()
    code = "print('up', flush=True); input()"
    command = [sys.executable, "-c", code, str(out / "sites" / "alpha")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        assert processes_of(out / "sites") == [process.pid]
        assert processes_of(tmp_path / "ou") == []
        with pytest.raises(UsageError, match=f"still runs there; end it with: kill {process.pid}"):
            fresh_folder(out)
        process.kill()


def test_the_testbed_has_four_and_five_slots_and_ports_of_their_own(tmp_path: Path) -> None:
    sites = plan_sites(tmp_path, 26)
    assert [site.slots for site in sites[:3]] == [4, 5, 5]
    assert len({site.address for site in sites}) == len({site.name for site in sites}) == 26
