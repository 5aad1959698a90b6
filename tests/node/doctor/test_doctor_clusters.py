"""Findings of `diana doctor` about a cluster."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from diana.adapters.batch.settings import ClusterSettings
from diana.model.words import counted
from diana.node.doctor.clusters import answers
from tests.batch.fake_htcondor import FakeHTCondor
from tests.batch.plugin import installed


def test_a_batch_system_that_answers_is_told_with_what_it_has(tmp_path: Path) -> None:
    with installed(tmp_path):
        (row,) = answers("desk", ClusterSettings(kind="background", config=str(tmp_path / "b"), slots=1), "site.toml")
    up = counted(os.cpu_count() or 1, "processor")
    assert (row.name, row.state, row.found) == ("desk", "ok", f"background 1, {up} up, 0 used by others")


def test_a_pair_is_told_that_nobody_takes_over_where_no_folder_is_shared(tmp_path: Path) -> None:
    settings = ClusterSettings(kind="background", config=str(tmp_path / "b"), slots=3)
    with installed(tmp_path):
        (row,) = answers("desk", settings, "site.toml", paired=True)
        assert (row.state, "not taken over when this machine dies" in row.found) == ("warn", True)
        (tmp_path / "shared").mkdir()
        settings = msgspec.structs.replace(settings, folder=str(tmp_path / "shared"))
        (row,) = answers("desk", settings, "site.toml", paired=True)
        assert row.state == "ok"
        (tmp_path / "shared").rmdir()
        (row,) = answers("desk", settings, "site.toml")
    assert (row.state, row.mend) == ("fail", "make it, or mount its file system")


def test_one_that_nobody_knows_is_a_fault_of_the_site_file() -> None:
    (row,) = answers("desk", ClusterSettings(kind="abacus"), "site.toml")
    assert (row.state, row.found) == ("fail", "site.toml:clusters.desk.kind: 'abacus' is no batch system")
    assert row.mend == "known are gridengine, htcondor, pbs, slurm"


def test_a_command_that_is_not_there_is_told_with_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (row,) = answers("slurm", ClusterSettings(), "site.toml")
    assert row.state == "fail"
    assert "scontrol is not in the PATH of the node" in row.found


def test_a_pool_of_htcondor_is_told_with_what_our_tests_know_of_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = FakeHTCondor(tmp_path / "condor", cpus=8)
    monkeypatch.setenv("PATH", f"{pool.bin}:{os.environ['PATH']}")
    pool.up()
    try:
        settings = ClusterSettings(kind="htcondor", config=str(pool.config))
        (row,) = answers("pool", settings, "site.toml")
    finally:
        pool.close()
    found, _, note = row.found.partition("; ")
    assert (row.state, found) == ("ok", "htcondor 23.9.6, 8 processors up, 0 used by others")
    assert note == "experimental: this kind has met a real pool of one machine alone in our tests"
    (row,) = answers("pool", ClusterSettings(kind="htcondor", options=("queue",)), "site.toml")
    assert row.state == "fail"
    assert row.found.startswith("site.toml:clusters.pool.options: 'queue' is no line of a submit description")
    assert row.mend.startswith("write KEY = VALUE")
