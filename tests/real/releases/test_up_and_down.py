"""Each node in turn goes from 0.1.0 to this release and back, while all sites take work: no group is lost, no job is
started twice, whatever release its origin and its destination had meanwhile (docs/upgrade.md)."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from diana import __version__
from diana.errors import DianaError
from tests.e2e.grid import Grid, Site, until
from tests.real.old_code import RELEASE, OldCode, OldSite, of_both

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

FULL = bool(os.environ.get("DIANA_FULL"))
STEPS = (("old", __version__, False), ("old", RELEASE, False), ("new", RELEASE, True), ("new", __version__, True))
"""(site, release that it goes to, whether it is killed): stopped in order it leaves a snapshot, killed its records."""
MORE = (
    *(("third", RELEASE, False), ("third", __version__, False), ("old", __version__, True), ("new", RELEASE, False)),
    *(("third", RELEASE, True), ("old", RELEASE, True), ("new", __version__, False), ("third", __version__, True)),
)
JOBS, MANY = 4, 24
EVERY_S = 0.4
END_S = 90.0
SCRIPT = 'echo "$DIANA_JOB $DIANA_SITE" >> "$STARTS"; sleep 0.3'


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> OldCode:
    return OldCode(tmp_path_factory.mktemp("release"))


class Load:
    """Small groups, submitted at each site in turn under keys of their own; what is not answered is sent again."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self.starts: Path = grid.root / "starts"
        self.starts.touch()
        self.groups: list[tuple[str, str]] = []
        """(site, group)."""
        self.many: list[tuple[str, str]] = []
        """The same, of groups of many jobs."""
        self.unanswered: list[tuple[str, str]] = []
        """(site, key)."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def job(self, jobs: int = JOBS, **group: object) -> dict[str, object]:
        return {
            "group": {"command": ["sh", "-c", SCRIPT], "environment": {"STARTS": str(self.starts)}, **group},
            "sweep": {"array": f"0-{jobs - 1}"},
            "resources": {"work": 0.3},
        }

    def submit(self, name: str, key: str) -> bool:
        # Early and late binding beside each other; 0.1.0 knows but one.
        early = {"bind": "early"} if key.endswith(("1", "4", "7")) and name == "third" else {}
        try:
            with self._grid.sites[name].client() as client:
                self.groups.append((name, client.submit(self.job(**early), key=key).group))
                return True
        except DianaError:
            return False

    def _run(self) -> None:
        number = 0
        while not self._over.wait(EVERY_S):
            number += 1
            name = sorted(self._grid.sites)[number % len(self._grid.sites)]
            again, self.unanswered = self.unanswered, []
            for site, key in [*again, (name, f"key-{number}")]:
                if not self.submit(site, key):
                    self.unanswered.append((site, key))

    def end(self) -> None:
        """All that was submitted is done, each job started once."""
        self._over.set()
        self._thread.join()
        until(lambda: not [each for each in self.unanswered if not self.submit(*each)], "all keys are answered", END_S)
        assert len({group for _, group in self.groups}) == len(self.groups), "a key made two groups"
        self.groups += self.many
        for name, group in self.groups:
            with self._grid.sites[name].client() as client:
                status = client.wait(group, timeout_s=END_S)
                assert (status.state, status.done) == ("done", status.jobs), (name, status, self._grid.story())
                assert len([*client.results(group)]) == status.jobs
        begun = Counter(line.split()[0] for line in self.starts.read_text().splitlines())
        assert not {job: count for job, count in begun.items() if count > 1}
        assert len(begun) == (len(self.groups) - len(self.many)) * JOBS + len(self.many) * MANY

    def by_site(self) -> Counter[str]:
        return Counter(line.split()[1] for line in self.starts.read_text().splitlines())


def release_of(site: Site) -> str:
    with site.client() as client:
        return client.info().release


def goes_to(grid: Grid, name: str, old: OldCode, release: str, *, killed: bool) -> None:
    """The node is stopped under load, or killed, and started under the other release, over the same data."""
    site = grid.sites[name]
    if killed:
        site.kill()
    else:
        assert site.terminate() == 0, site.story()
    port = int(site.address.rpartition(":")[2])
    again = OldSite(name, site.data, port, grid.mark, old) if release == RELEASE else None
    grid.sites[name] = again or Site(name, site.data, port, grid.mark)
    grid.sites[name].start()
    assert release_of(grid.sites[name]) == release
    time.sleep(1.0)


def moved(load: Load, grid: Grid, at: str, there: str) -> None:
    """Jobs that wait at one site are called back from there and run elsewhere, also where the releases differ."""
    with grid.sites[at].client() as client:
        group = client.submit(load.job(MANY, sites=[at, there])).group
        load.many.append((at, group))
        until(lambda: client.status([group])[0].running, lambda: f"it runs\n{grid.story()}", 30)
        client.move(group, there)


def test_each_node_goes_up_and_back_under_load_and_nothing_is_lost_or_doubled(grid: Grid, old: OldCode) -> None:
    of_both(grid, old)
    load = Load(grid)
    time.sleep(1.0)
    others = {"old": "new", "new": "old", "third": "old"}
    for name, release, killed in STEPS + (MORE if FULL else ()):
        moved(load, grid, name, others[name])
        goes_to(grid, name, old, release, killed=killed)
    load.end()
    print(len(load.groups), "groups", load.by_site())
    assert set(load.by_site()) == {"old", "new", "third"}
