"""A batch system's command that does not come to an end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from diana.adapters.batch.systems import commands
from diana.adapters.batch.systems.system import BatchUnreachable
from tests.runs import SOAK


@pytest.mark.parametrize("does", ["exec >&- 2>&-; exec sleep 600", "exec sleep 600", "echo; exec sleep 600"])
def test_a_command_that_stays_is_given_up_also_when_it_has_closed_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    monkeypatch.setattr(commands, "WAIT_S", 0.4)
    (program := tmp_path / "squeue").write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o700)
    begun = time.monotonic()
    with pytest.raises(BatchUnreachable, match="said nothing for"):
        commands.Commands({"PATH": f"{tmp_path}:/usr/bin:/bin"}).run(["squeue"], ())
    assert not SOAK or time.monotonic() - begun < 10
