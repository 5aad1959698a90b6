"""Jobs in real containers (podman) after real environment modules, on plain machines and before Slurm."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from diana.adapters.lrm.software import Software
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.clusters.conftest import Clustered
from tests.clusters.programs import missing
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Site, outcomes, until

JOBS = 24
PROGRAMS = ("podman", "runc", "conmon", "busybox", "envml")
TOOLS = ("sh", "cat", "sleep", "id")
# Machines without systemd, or whose limits may not be raised, want this.
PODMAN = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
"""
GREETER = '#%Module1.0\nsetenv GREETING "hello from a module"\n'


class Offered:
    """A site's software: an image of its own, a module, and what its operator writes down."""

    def __init__(self, root: Path) -> None:
        self.image = f"localhost/diana-test-{uuid.uuid4().hex[:8]}:1"
        self.config = root / "containers.conf"
        self.config.write_text(PODMAN)
        (root / "modules" / "greeter").mkdir(parents=True)
        (root / "modules" / "greeter" / "1.0").write_text(GREETER)
        init = f"export CONTAINERS_CONF={self.config}; . /etc/profile.d/modules.sh; module use {root / 'modules'}"
        self.software = Software(container="podman", modules={"*": f"{init}; module load $module"})
        self._root = root / "root"

    def up(self) -> None:
        for folder in ("bin", "etc", "tmp"):
            (self._root / folder).mkdir(parents=True)
        shutil.copy(str(shutil.which("busybox")), self._root / "bin" / "busybox")
        for tool in TOOLS:
            (self._root / "bin" / tool).symlink_to("busybox")
        (self._root / "etc" / "image").write_text("of the image\n")
        (self._root / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
        packed = subprocess.run(["tar", "-C", str(self._root), "-cf", "-", "."], capture_output=True, check=True).stdout
        self.podman("import", "-", self.image, given=packed)

    def podman(self, *words: str, given: bytes = b"") -> str:
        environment = {**os.environ, "CONTAINERS_CONF": str(self.config)}
        done = subprocess.run(["podman", *words], input=given, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, f"podman {words[0]}: {done.stderr.decode()}"
        return done.stdout.decode()

    def at(self, site: Site) -> None:
        config = load_config(site.paths.config)
        write_config(site.paths.config, msgspec.structs.replace(config, software=self.software))


@pytest.fixture
def offered(tmp_path: Path) -> Iterator[Offered]:
    lacks = missing(PROGRAMS)
    assert not lacks, f"install podman, runc, conmon, busybox-static and environment-modules: no {lacks[0]} here"
    made = Offered(tmp_path)
    made.up()
    yield made
    made.podman("rmi", "--force", made.image)


def job(offered: Offered, script: str, jobs: int = 1, *modules: str, **group: object) -> dict[str, object]:
    return {
        "group": {
            "command": ["sh", "-c", script],
            "container": offered.image,
            "modules": ["greeter", *modules],
            **group,
        },
        "sweep": {"array": f"0-{jobs - 1}"},
        "resources": {"work": 1.0},
    }


def test_jobs_run_in_their_image_after_their_modules_wherever_these_are_offered(
    grid: Grid, clustered: Clustered, slurm: SlurmSite, offered: Offered, tmp_path: Path
) -> None:
    alpha, beta, gamma = grid.add("alpha", 8), grid.add("beta", 2), clustered("gamma", slurm)
    grid.join()
    for site in (beta, gamma):
        offered.at(site)
    grid.start()
    (tmp_path / "words").write_text("of the submitter\n")
    script = 'cat /etc/image words > out-$DIANA_INDEX; echo "$GREETING; $MINE; $DIANA_SITE" >> out-$DIANA_INDEX'
    ran = set()
    for sites in ([], ["beta"], ["gamma"]):
        asked = job(offered, script, JOBS, environment={"MINE": "it's {array}"}, sites=sites)
        asked["inputs"] = [str(tmp_path / "words")]
        results = tmp_path / f"results{len(ran)}"
        asked["outputs"] = {"collect": ["out-{array}"], "to": str(results)}
        with alpha.client() as client:
            group = client.submit(asked).group
            status = client.wait(group, timeout_s=120)
            told = [(result.index, result.outcome, result.error) for result in client.results(group)]
        assert (status.state, status.done) == ("done", JOBS), told
        for index in range(JOBS):
            image, word, rest = (results / f"out-{index}").read_text().splitlines()
            greeting, mine, site = rest.split("; ")
            assert (image, word) == ("of the image", "of the submitter")
            assert (greeting, mine) == ("hello from a module", f"it's {index}")
            assert site in (sites or ("beta", "gamma"))
            ran.add(site)
    assert ran == {"beta", "gamma"}


def test_what_cannot_be_made_ready_is_told_as_not_started_with_the_reason_in_the_log(
    grid: Grid, offered: Offered
) -> None:
    alpha = grid.add("alpha", 2)
    offered.at(alpha)
    grid.start()
    with alpha.client() as client:
        lacks = client.submit(job(offered, "true", 1, "no-such/7")).group
        absent = client.submit(job(offered, "true", container=f"{offered.image}-not")).group
        for group, said in ((lacks, "no-such/7"), (absent, f"{offered.image}-not")):
            client.wait(group, timeout_s=60)
            assert set(outcomes(client, group).values()) == {"not_started"}
            assert said in grid.run(alpha, "logs", "--data", str(alpha.data), f"{group}.0").stdout


def test_a_cancelled_job_leaves_no_container_behind(grid: Grid, offered: Offered) -> None:
    alpha = grid.add("alpha", 2)
    offered.at(alpha)
    grid.start()
    mark = str(30_000 + os.getpid())

    def sleeping() -> bool:
        found = subprocess.run(["pgrep", "-f", f"^sleep {mark}"], capture_output=True, check=False)
        return found.returncode == 0

    with alpha.client() as client:
        group = client.submit(job(offered, f"trap '' TERM; sleep {mark}; true")).group
        until(sleeping, "the job runs in its container", 30.0)
        client.cancel(group)
        client.wait(group, timeout_s=60)
        assert set(outcomes(client, group).values()) == {"cancelled"}
    assert not sleeping() and offered.image not in offered.podman("ps", "--all")
