"""Synthetic datasets: read as often as the published files were, near their readers, the same for the same seed."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.errors import UsageError
from diana.sim.faults.swarm import drawn
from diana.sim.load import popularity
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate

DATA = Path(__file__).parents[4] / "shared" / "data"
TEXT = """version = 1
sites = [{ name = "a", slots = 30 }, { name = "b", slots = 10 }, { name = "c", slots = 20 }]
[[workload]]
name = "Work 1"
site = "a"
jobs = 2
repeat = 400
every_s = 3.0
generate = { homes = "equal" }
data = {}
"""


def parsed(data: str = "", was: str = "", now: str = "") -> Scenario:
    return sc.parse(TEXT.replace("data = {}", f"data = {{ {data} }}").replace(was, now), "x.toml")


def read(scenario: Scenario, seed: int = 0) -> popularity.Reading:
    work = scenario.workload[0]
    assert work.data is not None
    return popularity.reading(work, work.data, scenario, seed)


@pytest.mark.wide
def test_files_are_read_as_often_as_those_of_eos() -> None:
    path = DATA / "eos_readmany.csv"
    if not path.is_file():
        pytest.fail(f"{path} is not there; the shape is checked on it (../shared lies beside the clone)")
    with path.open() as file:
        rows = [(int(row["reads"]), int(row["readfrom"])) for row in csv.DictReader(file)]
    times, files = (np.array(column) for column in zip(*rows, strict=True))
    reads = popularity.shape(12_600_000, 0.56, 12.6)
    assert (reads == 1).mean() == pytest.approx(files[times == 1].sum() / files.sum(), abs=0.01)
    assert reads.mean() == pytest.approx((times * files).sum() / files.sum(), rel=0.01)
    often = (times * files)[times >= 100].sum() / (times * files).sum()
    assert reads[reads >= 100].sum() / reads.sum() == pytest.approx(often, abs=0.1)


@given(st.integers(0, 5000), st.floats(0, 1), st.floats(0, 30))
def test_all_reads_are_dealt_out_whatever_the_shape(total: int, once: float, more: float) -> None:
    mean = once + 2 * (1 - once) + more
    reads = popularity.shape(total, once, mean)
    assert reads.sum() == total and (reads >= 1).all() and (np.diff(reads) <= 0).all()
    if total >= 10 * mean:
        assert len(reads) == round(total / mean)


def test_each_group_reads_one_dataset_and_each_dataset_is_read() -> None:
    found = read(parsed())
    counts = np.bincount(found.of_group)
    assert len(found.of_group) == 400 and counts.min() == 1 and counts.tolist() == sorted(counts, reverse=True)
    assert len(counts) == len(found.datasets) == round(400 / 12.6)
    assert (counts == 1).mean() == pytest.approx(0.56, abs=0.03)
    assert found.datasets[0].name == "work-1-synthetic-1"


def test_some_groups_read_nothing_where_a_share_says_so() -> None:
    found = read(parsed("share = 0.3"))
    assert 0.2 < (found.of_group >= 0).mean() < 0.4
    assert read(parsed("share = 0.0")).datasets == ()


def test_data_lie_with_their_readers_as_often_as_asked() -> None:
    for locality, least, most in ((1.0, 1.0, 1.0), (0.0, 0.3, 0.7)):
        made = parsed(f"locality = {locality}, mean_reads = 1, read_once = 1.0")
        found = read(made)
        home = popularity._homes(made.workload[0], made, 0)
        names = [site.name for site in made.sites]
        near = [found.datasets[at].site == names[home[k]] for k, at in enumerate(found.of_group.tolist())]
        assert len(found.datasets) == 400 and least <= np.mean(near) <= most


def test_replicas_lie_at_different_sites() -> None:
    for dataset in read(parsed("replicas = 3")).datasets:
        assert sorted((dataset.site, *dataset.replicas)) == ["a", "b", "c"]


def test_sizes_have_the_means_asked_for() -> None:
    found = read(parsed("mean_reads = 1, read_once = 1.0, sigma = 0.5", "repeat = 400", "repeat = 20000"))
    assert np.mean([one.files for one in found.datasets]) == pytest.approx(6.6, rel=0.02)
    assert np.mean([one.file_bytes for one in found.datasets]) == pytest.approx(338e6, rel=0.02)


def test_a_seed_has_its_data_and_another_seed_others() -> None:
    made = parsed()
    assert drawn(made, 3).datasets == drawn(made, 3).datasets != drawn(made, 4).datasets
    again = drawn(drawn(made, 3), 3)
    assert again.datasets == drawn(made, 3).datasets
    assert sc.parse(written(again)) == again


@pytest.mark.wide
def test_groups_bring_what_they_read_to_where_they_run() -> None:
    report = simulate(parsed("file_bytes = 1e6", "repeat = 400", "repeat = 40"), 0)
    assert report.good() and report.groups["Work 1"].done == 80
    assert report.groups["Work 1"].bytes_moved > 0


@pytest.mark.parametrize(
    ("data", "was", "now", "says"),
    [
        ("share = 1.5", "", "", "workload Work 1: data: share = 1.5: want 0 to 1"),
        ("replicas = 4", "", "", "data: replicas = 4: want 1 to 3"),
        ("mean_reads = 1.2", "", "", "mean_reads = 1.2: with read_once = 0.56 it is 1.44 at least, since the others"),
        ("reeds = 1", "", "", "unknown key 'reeds' in workload[0].data"),
        ("", "generate = { homes", "produces = 'x'\noutput_bytes = 1\ngenerate = { homes", "cannot have produces"),
        ("", 'generate = { homes = "equal" }', "forced = { a = 2 }", "data and forced: which data a group reads is"),
    ],
)
def test_a_mistake_is_one_line(data: str, was: str, now: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(data, was, now)
    assert says in str(refused.value) and "\n" not in str(refused.value)
