"""`diana doctor` tries what the site offers its jobs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from diana.adapters.lrm.runners import installed
from diana.adapters.lrm.software import Software
from diana.node.doctor import software
from diana.node.doctor.bounded import Results, run_all
from diana.node.doctor.software import checks
from tests.entry_points import install


def found(offered: Software) -> dict[str, tuple[str, str, str]]:
    rows: Results = asyncio.run(run_all(checks(offered, "site.toml")))
    return {row.name: (row.state, row.found, row.mend) for row in rows}


def test_nothing_is_looked_at_where_nothing_is_offered_by_name() -> None:
    assert found(Software(modules={"*": "false"})) == {}


def test_modules_are_made_ready_once_and_what_fails_is_told_in_its_own_words() -> None:
    rows = found(
        Software(modules={"good": "echo loud; true", "bad": "echo no such thing >&2; false", "odd": "(exit 7)"})
    )
    assert rows["module good"] == ("ok", "can be made ready on this machine", "")
    mend = 'mend its line in site.toml:software.modules."bad"'
    assert rows["module bad"] == ("fail", "no such thing", mend)
    assert rows["module odd"][:2] == ("fail", "diana: module odd could not be made ready")


def test_the_launcher_of_mpi_jobs_over_several_sites_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python3").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    (row,) = found(Software(mpi_over_sites="mpiexec.hydra")).values()
    mend = "install MPICH and python3, or empty site.toml:software.mpi_over_sites"
    assert row == ("fail", "no mpiexec.hydra in the PATH of this account", mend)
    (tmp_path / "mpiexec.hydra").symlink_to("/bin/true")
    assert found(Software(mpi_over_sites="mpiexec.hydra"))["mpi over sites"][0] == "ok"


def test_runners_that_are_installed_are_loaded_and_the_node_is_said_to_need_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def good(gang):\n    return None\n"
    monkeypatch.syspath_prepend(str(install(tmp_path, "doctor_runners", text, installed.GROUP, ("good", "absent"))))
    installed.found.cache_clear()
    try:
        rows = found(Software())
    finally:
        installed.found.cache_clear()
    loads = "loads; a node that was started before it was installed has to be restarted"
    assert rows["runner good"] == ("ok", loads, "")
    assert rows["runner absent"][0] == "fail" and rows["runner absent"][1].startswith("it does not load: ")


def test_what_takes_too_long_is_no_fault_of_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "LIMIT_S", 0.2)
    (row,) = found(Software(modules={"slow": "sleep 5"})).values()
    assert row[:2] == ("warn", "not ready within 0.2 s")


def test_a_program_for_containers_is_asked_for_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = tmp_path / "apptainer"
    assert found(Software(container="apptainer"))["containers"] == (
        "fail",
        "no apptainer in the PATH of this account",
        "install it, or name another in site.toml:software.container",
    )
    program.write_text("#!/bin/sh\necho apptainer version 1.3.0\n")
    program.chmod(0o755)
    assert found(Software(container="apptainer"))["containers"][:2] == ("ok", "apptainer version 1.3.0")
    program.write_text("#!/bin/sh\necho no right to run >&2; exit 1\n")
    assert found(Software(container="apptainer"))["containers"][:2] == ("fail", "apptainer: no right to run")
