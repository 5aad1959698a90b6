"""Three machines from nothing to a running group with init, invite and join only (SPEC U1): each in a network namespace
of its own, the words those of the README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.model.layout import DataDir
from tests.e2e.grid import REPO, Grid, Site, until

README = REPO / "README.md"


class Machine(Site):
    """A host of its own: what runs there sees its network alone, and has a home of its own."""

    def __init__(self, grid: Grid, lan: Lan, number: int, site: str) -> None:
        super().__init__(site, grid.root / f"m{number}" / ".diana", 7400, grid.mark)
        self.data.parent.mkdir(exist_ok=True)
        self.output = self.data.parent / "node.out"
        self.ip = lan.ip(number)
        self.address = f"{self.ip}:7400"
        self._host = lan.host(number)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "HOME": str(self.data.parent), "DIANA_DATA": ""}

    def command(self, *more: str) -> list[str]:
        return self.there("node", *more)

    def there(self, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self._host, sys.executable, "-m", "diana.cli", *words]

    def says(self, *words: str) -> str:
        """The output of a command there; shown as a newcomer sees it."""
        done = subprocess.run(
            self.there(*words), env=self.environment(), cwd=self.data.parent, text=True, capture_output=True, timeout=60
        )
        home = str(self.data.parent)
        shown = " ".join("'" + w + "'" if re.search(r"[^\w./:=-]", w) else w for w in words)
        print(f"{self.name}$ diana {shown}\n{done.stdout.replace(home, '/home/ann')}{done.stderr}")
        assert done.returncode == 0, done.stderr
        return done.stdout


class Lan:
    """Hosts on one bridge, as in recipes/netns.sh."""

    def __init__(self, hosts: int) -> None:
        self._prefix = f"dj{os.getpid() % 10_000}"
        self._names = [f"{self._prefix}s", *(self.host(k) for k in range(1, hosts + 1))]
        switch = self._names[0]
        for name in self._names:
            _ip("netns", "add", name)
        _ip("-n", switch, "link", "add", "br0", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
        _ip("-n", switch, "link", "set", "br0", "up")
        if hosts > 30:
            _room_for_neighbours(hosts)
        for k in range(1, hosts + 1):
            _ip("-n", switch, "link", "add", f"v{k}", "type", "veth", "peer", "name", "eth0", "netns", self.host(k))
            _ip("-n", switch, "link", "set", f"v{k}", "master", "br0", "up")
            _ip("-n", self.host(k), "addr", "add", f"{self.ip(k)}/24", "dev", "eth0")
            _ip("-n", self.host(k), "link", "set", "eth0", "up")
            _ip("-n", self.host(k), "link", "set", "lo", "up")

    def host(self, number: int) -> str:
        return f"{self._prefix}h{number}"

    @staticmethod
    def ip(number: int) -> str:
        return f"10.0.0.{number}"

    def close(self) -> None:
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _room_for_neighbours(hosts: int) -> None:
    """All hosts of this machine share one table of neighbours; where it is full, addresses cannot be reached."""
    for key, share in (("gc_thresh1", 2), ("gc_thresh2", 4), ("gc_thresh3", 8)):
        limit = Path("/proc/sys/net/ipv4/neigh/default", key)
        limit.write_text(str(max(int(limit.read_text()), share * hosts * hosts)))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def lan() -> Iterator[Lan]:
    made = Lan(3)
    try:
        yield made
    finally:
        made.close()


def test_three_machines_run_a_group_after_init_invite_and_join(lan: Lan, grid: Grid) -> None:
    alpha, beta, gamma = (Machine(grid, lan, k, name) for k, name in enumerate(("alpha", "beta", "gamma"), 1))
    grid.sites |= {site.name: site for site in (alpha, beta, gamma)}
    alpha.says("init", "alpha", "--listen", "10.0.0.1:7400", "--slots", "2")
    alpha.start()
    for site in (beta, gamma):
        told = alpha.says("invite")
        found = re.search(r"^  diana (join [\w-]+) NAME$", told, re.MULTILINE)
        assert found, told
        site.says(*found[1].split(), site.name, "--slots", "2")
        site.start()
    grid.meet()
    marks = grid.root / "marks"
    marks.mkdir()
    alpha.says(
        "submit", "--array", "1-30", "--wait", "--", "sh", "-c", f"touch {marks}/$DIANA_SITE-{{array}}; sleep 0.4"
    )
    alpha.says("status", "alpha-1")
    alpha.says("sites")
    ran = {site: len(list(marks.glob(f"{site}-*"))) for site in grid.sites}
    assert sum(ran.values()) == 30 and min(ran.values()) > 0, ran
    # Any of the three invites, and all know each other: the second and third were never told of each other by hand.
    for site in (alpha, beta, gamma):
        assert (DataDir(site.data).keys / "signer.key").is_file()
    until(lambda: "gamma" in beta.says("sites"), "beta knows gamma", 10, 0.5)


def test_the_readme_tells_the_same_words() -> None:
    text = README.read_text(encoding="utf-8")
    said = re.findall(r"^    (\w+)\$ (diana .*)$", text, re.MULTILINE)
    words = [(where, command.split("  #")[0].strip()) for where, command in said]
    for wanted in (
        ("alpha", "diana init alpha --listen 10.0.0.1:7400"),
        ("alpha", "diana invite"),
        ("beta", "diana join - beta"),
        ("gamma", "diana join - gamma"),
    ):
        assert wanted in words, words
