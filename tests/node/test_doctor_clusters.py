"""What `diana doctor` says of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.adapters.batch.settings import ClusterSettings
from diana.node.doctor.clusters import answers
from tests.batch.plugin import installed


def test_a_batch_system_that_answers_is_told_with_what_it_has(tmp_path: Path) -> None:
    with installed(tmp_path):
        (row,) = answers("desk", ClusterSettings(kind="background", config=str(tmp_path / "b"), slots=3), "site.toml")
    assert (row.name, row.state, row.found) == ("desk", "ok", "background 1, 3 processors up, 0 used by others")


def test_one_that_nobody_knows_is_a_fault_of_the_site_file() -> None:
    (row,) = answers("desk", ClusterSettings(kind="abacus"), "site.toml")
    assert (row.state, row.found) == ("fail", "site.toml:clusters.desk.kind: 'abacus' is no batch system")
    assert row.mend == "known are gridengine, pbs, slurm"


def test_a_command_that_is_not_there_is_told_with_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (row,) = answers("slurm", ClusterSettings(), "site.toml")
    assert row.state == "fail"
    assert "scontrol is not in the PATH of the node" in row.found
