"""Contents of a node's image, as far as that is decided without docker."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from diana.trial.image import TREE, context


def test_packages_that_cannot_be_brought_along_are_said_why_and_the_build_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip is the real one, and is told of an index that has nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    told: list[str] = []
    with context(told.append) as folder:
        assert not (folder / "wheels").exists()
        assert (folder / "requirements.lock").read_bytes() == (TREE / "requirements.lock").read_bytes()
        assert (folder / "diana" / "trial" / "image.py").is_file()
        wheel = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
        for name in (*wheel["packages"], *wheel["force-include"]):
            assert (folder / name).exists(), f"the wheel is made of {name}"
    assert told[-1].startswith("the packages could not be brought along (")
    assert told[-1].endswith("); the build fetches them by itself")
    if sys.version_info[:2] == (3, 11):
        assert "pip download: ERROR: No matching distribution found for aiobotocore" in told[-1]
        assert not (tmp_path / "diana-wheels").exists() or not list((tmp_path / "diana-wheels").iterdir())
