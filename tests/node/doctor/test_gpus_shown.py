"""GPUs a machine shows: what `--gpus auto` writes, and what `diana doctor` says of those declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.errors import UsageError
from diana.node.config import gpus
from diana.node.config.setup import init_site
from diana.node.config.site_file import load_config
from tests.node.sick_sites import examined, said, site_at

TWO = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-8932f937-d72c-4106-c12f-20bd9faed9f6)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-d1a3fcc1-0e0c-45b0-9b5f-8d4a01d0a6b1)
"""
CUT = f"""\
{TWO}  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)
  MIG 3g.20gb     Device  1: (UUID: MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d)
"""


def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, end: str = "exit 0") -> None:
    """An nvidia-smi that says so."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "listing").write_text(text)
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\n[ "$*" = -L ] && cat {folder}/listing\n{end}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_nvidias_listing_counts_whole_devices_and_names_the_parts_of_cut_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists(tmp_path, monkeypatch, TWO)
    assert gpus.shown().names == ("0", "1")
    lists(tmp_path, monkeypatch, CUT)
    has = gpus.shown()
    # One is whole and the other is not: jobs are given the first by its own name.
    assert [name[:12] for name in has.names] == ["GPU-8932f937", "MIG-c7384736", "MIG-a28ad590"]
    assert gpus.missing(("0", "1", *has.names), has) == [] and gpus.missing(("1", "2"), has) == ["2"]
    lists(tmp_path, monkeypatch, CUT[CUT.index("GPU 1") :])
    has = gpus.shown()
    assert [name[:12] for name in has.names] == ["MIG-c7384736", "MIG-a28ad590"]
    assert gpus.missing(("0", "1"), has) == ["1"]
    lists(tmp_path, monkeypatch, "No devices were found\n")
    assert gpus.shown().names == ()


def test_without_a_listing_device_files_are_counted_and_then_what_amds_driver_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev, kfd = tmp_path / "dev", tmp_path / "kfd"
    for made in (dev / "nvidia3", dev / "nvidia7", dev / "nvidiactl", dev / "nvidia-uvm"):
        made.mkdir(parents=True)
    for node, simds in enumerate((0, 256, 128)):
        (kfd / str(node)).mkdir(parents=True)
        (kfd / str(node) / "properties").write_text(f"cpu_cores_count 0\nsimd_count {simds}\nmem_banks_count 1\n")
    # A driver that cannot be reached tells nothing.
    lists(tmp_path, monkeypatch, "", "exit 9")
    assert gpus.shown(dev, kfd).names == ("0", "1")
    assert gpus.shown(tmp_path / "none", kfd) == gpus.VisibleGpus(("0", "1"), (), "AMD's driver")
    assert gpus.shown(tmp_path / "none", tmp_path / "none").names == ()


def test_a_listing_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "PATIENCE_S", 0.1)
    lists(tmp_path, monkeypatch, TWO, "exec sleep 5")
    assert gpus.shown(tmp_path / "none", tmp_path / "none").names == ()


def test_a_site_is_made_with_as_many_as_were_said_or_as_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists(tmp_path, monkeypatch, TWO)
    assert init_site(tmp_path / "a", "alpha", gpus="auto").gpus == ("0", "1")
    assert init_site(tmp_path / "b", "beta", gpus=3).gpus == load_config(tmp_path / "b" / "site.toml").gpus
    assert init_site(tmp_path / "c", "gamma").gpus == ()
    with pytest.raises(UsageError, match="--gpus 300 is out of range; want 0 to 256"):
        init_site(tmp_path / "d", "delta", gpus=300)
    assert not (tmp_path / "d").exists()


def test_gpus_no_job_could_use_are_refused_with_the_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists(tmp_path, monkeypatch, TWO)
    idle = "^--gpus: no job could use 1 GPU here without a slot; give --slots N too; those of slurm need no word"
    with pytest.raises(UsageError, match=idle):
        init_site(tmp_path / "a", "alpha", cluster="slurm", gpus=1)
    with pytest.raises(UsageError, match=r"no job could use 2 GPUs here without a slot; give --slots N too$"):
        init_site(tmp_path / "a", "alpha", slots=0, gpus="auto")
    assert not (tmp_path / "a").exists()
    assert init_site(tmp_path / "a", "alpha", slots=2, cluster="slurm", gpus=1).gpus == ("0",)
    assert init_site(tmp_path / "b", "beta", cluster="slurm", gpus=0).gpus == ()


def test_the_doctor_names_what_is_declared_and_not_there_with_the_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha = site_at(tmp_path / "alpha")
    lists(tmp_path, monkeypatch, "", "exit 9")
    assert "gpus" not in examined(alpha)
    lists(tmp_path, monkeypatch, TWO)
    row = examined(alpha)["gpus"]
    assert said(row)[0] == "ok" and "none for jobs: gpus is not set in" in row.found
    plain = alpha.config.read_text()

    def declared(value: str) -> tuple[str, str, str]:
        alpha.config.write_text(f"gpus = {value}\n{plain}")
        return said(examined(alpha)["gpus"])

    assert declared("2") == ("ok", "2 declared, 2 there by nvidia-smi -L", "")
    assert declared('["GPU-d1a3fcc1"]')[0] == "ok"
    assert declared("4") == (
        "fail",
        "4 declared, this machine shows 2 GPUs by nvidia-smi -L: jobs are given what is not there: 2, 3",
        f"see what its driver says, or set gpus = 2 in {alpha.config} and start the node again",
    )
    assert declared('["GPU-0000"]')[1].endswith("jobs are given what is not there: GPU-0000")
    lists(tmp_path, monkeypatch, "", "exit 9")
    assert "shows none by nvidia-smi" in declared("1")[1]
