"""A closed release as somebody runs it: its own code, in an environment of its own, over the same locked packages."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from diana import __version__
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import REPO, Grid, Site, free_port

RELEASE, COMMIT = "0.1.0", "bc47ec7eef703831f5c70678b091f43395a7202b"


class OldCode:
    """`python` of an environment in which `diana` is the release's."""

    def __init__(self, folder: Path) -> None:
        """AssertionError in one line where this clone lacks the commit."""
        self.code = folder / "code"
        self.python = folder / "venv" / "bin" / "python"
        packed = subprocess.run(["git", "archive", COMMIT, "diana"], cwd=REPO, capture_output=True, check=False)
        if packed.returncode:
            lack = f"release {RELEASE} is commit {COMMIT[:7]}, which this clone lacks: git fetch --unshallow"
            pytest.fail(lack, pytrace=False)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(self.code, filter="data")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        # In this order; the .pth files of the second, and with them today's code, are not read.
        places = dict.fromkeys((str(self.code), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
        (packages / "release.pth").write_text("\n".join(places) + "\n")
        self.check()

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        # Without it the folder that tests are run from, today's code, would come first.
        return {**kept, "PYTHONSAFEPATH": "1", "PYTHONFAULTHANDLER": "1"}

    def check(self) -> None:
        """The code that is imported is the release's, also by what the release starts itself."""
        program = "import diana, diana.adapters.lrm.spawner as s; print(diana.__file__, s.__file__, diana.__version__)"
        found = self.run_python("-c", program).stdout.split()
        assert found[2] == RELEASE and all(Path(name).is_relative_to(self.code) for name in found[:2]), found

    def run_python(self, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), *words]
        return subprocess.run(
            command, env=self.environment(), input=given, capture_output=True, text=True, timeout=60, check=False
        )

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run_python("-m", "diana.cli", *words)

    def told(self, verb: str, *words: str) -> Any:
        """Whatever the release's command says, as JSON; AssertionError where it fails."""
        ended = self.cli(verb, "--json", *words)
        assert ended.returncode == 0, (verb, *words, ended)
        return json.loads(ended.stdout)


class OldSite(Site):
    """A node of the release; `upgraded` is the same site under today's code."""

    def __init__(self, name: str, data: Path, port: int, mark: str, old: OldCode) -> None:
        super().__init__(name, data, port, mark)
        self.old = old

    def command(self, *more: str) -> list[str]:
        words = ["node", "--data", str(self.data), "--no-zeroconf", *more]
        return [str(self.old.python), "-m", "diana.cli", *words]

    def environment(self) -> dict[str, str]:
        mark = {name: value for name, value in super().environment().items() if name == "DIANA_E2E_GRID"}
        return {**self.old.environment(), **mark}

    def runs_old_code(self) -> None:
        """As the node itself says, and as its process does."""
        assert self.process is not None
        with self.client() as client:
            assert client.info().release == RELEASE
        assert f"diana {RELEASE}: site " in self.output.read_text()
        command = Path(f"/proc/{self.process.pid}/cmdline").read_bytes()
        assert command.startswith(bytes(self.old.python))

    def line(self, default: str, line: str) -> None:
        """Put `line` in the place of a line of site.toml, not in today's words but in those of the release."""
        text = self.paths.config.read_text()
        assert text.count(f"\n{default}\n") == 1, (default, text)
        self.paths.config.write_text(text.replace(f"\n{default}\n", f"\n{line}\n"))

    def upgraded(self, grid: Grid) -> Site:
        """Not started yet."""
        site = Site(self.name, self.data, int(self.address.rpartition(":")[2]), grid.mark)
        grid.sites[self.name] = site
        return site


def add_old(grid: Grid, old: OldCode, name: str, slots: int) -> OldSite:
    """The first site of a VO, made and run by the release; not started yet."""
    assert not grid.sites
    site = OldSite(name, grid.root / name, free_port(), grid.mark, old)
    made = old.cli("init", "--data", str(site.data), "--slots", str(slots), "--listen", site.address, name)
    assert made.returncode == 0, made
    site.line("zeroconf = true", "zeroconf = false")
    grid.sites[name] = site
    return site


def of_both(grid: Grid, old: OldCode, slots: int = 2) -> tuple[OldSite, Site, Site]:
    """One site of the release and two of this one, running, each seeing the others."""
    assert __version__ != RELEASE
    first = add_old(grid, old, "old", slots)
    new, third = grid.add("new", 2), grid.add("third", 2)
    for site in (new, third):
        config = load_config(site.paths.config)
        peers = tuple(other.address for other in grid.sites.values() if other is not site)
        write_config(site.paths.config, msgspec.structs.replace(config, peers=peers, zeroconf=False))
    first.line("peers = []", f'peers = ["{new.address}", "{third.address}"]')
    grid.start()
    first.runs_old_code()
    return first, new, third
