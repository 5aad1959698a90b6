"""The tutorial of a site in front of Slurm does what it shows: typed into a shell as it stands, before a real Slurm in
a network of its own (half a minute)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters import slurm_site
from tests.clusters.conftest import folder
from tests.clusters.programs import missing, search_path
from tests.clusters.slurm_site import SlurmSite
from tests.docs.commands import program
from tests.docs.replay import Shell
from tests.e2e.grid import REPO

PAGE = REPO / "docs" / "tutorials" / "slurm.md"


def within(namespace: str) -> tuple[str, ...]:
    """Not `ip netns exec`, which hides the control groups that slurmd wants to see."""
    return ("nsenter", f"--net=/run/netns/{namespace}")


class Apart(SlurmSite):
    """Its daemons see a network of their own."""

    def __init__(self, root: Path, namespace: str) -> None:
        super().__init__(root, "t", cpus=8)
        self._within = within(namespace)

    def run(self, *argv: str, check: bool = True) -> str:
        return super().run(*self._within, *argv, check=check)


@pytest.fixture
def namespace() -> Iterator[str]:
    name = f"dtut{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        # Slurm's daemons want an address that is not loopback's to be there before they bind.
        for words in (
            "link set lo up",
            "link add lan0 type bridge",
            "addr add 10.0.0.1/24 dev lan0",
            "link set lan0 up",
        ):
            subprocess.run(["ip", "-n", name, *words.split()], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


@pytest.fixture
def slurm(namespace: str) -> Iterator[SlurmSite]:
    lacks = missing(slurm_site.PROGRAMS)
    assert not lacks, f"install slurm-wlm, slurm-client and munge: no {lacks[0]} here"
    made = Apart(folder("slurm-tutorial"), namespace)
    try:
        made.up()
        yield made
    finally:
        made.down()
        shutil.rmtree(made.root, ignore_errors=True)


def test_the_tutorial_does_what_it_shows(slurm: SlurmSite, namespace: str) -> None:
    home = slurm.root / "home"
    home.mkdir()
    shell = Shell(
        home,
        f"{program(home)}:{search_path()}",
        around=within(namespace),
        environment={"SLURM_CONF": str(slurm.config), "DIANA_ROOT_JOBS": "true"},
    )
    try:
        assert shell.play(PAGE) > 10
    finally:
        shell.close()
