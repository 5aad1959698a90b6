"""Three sites on hosts of their own, for a run of faults: alpha on two machines with beta as its witness, and gamma,
whose data directory has a small disk of its own. Each fault is one method; `heal` undoes whatever still stands."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from diana.adapters.trust import certificates
from diana.client import Client
from diana.errors import DianaError, UsageError
from diana.node.config.setup import init_site
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, until
from tests.real.hosts import rule
from tests.real.judging import History, Told, Upset, keep_all
from tests.real.machines.test_three_machines import Lan, Machine
from tests.real.marks import Marks
from tests.real.pairs import in_sync

SITES = {"alpha": ("main", "spare"), "beta": ("beta",), "gamma": ("gamma",)}
SITE_OF = {machine: site for site, machines in SITES.items() for machine in machines}
HOSTS = {"main": 1, "spare": 2, "beta": 3, "gamma": 4}
SLOTS = {"main": 2, "spare": 2, "beta": 4, "gamma": 4}
DISK_BYTES = 700 << 20
"""A node takes new work while 512 MiB are free."""
PATIENCE_S = 60.0

T = TypeVar("T")


class Host(Machine):
    """A machine on which anything may be killed: `full` is when its disk was full last, on the wall clock."""

    full_s = 0.0
    _FULL = re.compile(r"No space left on device|disk is full|disk I/O error|MiB free|new work is taken when")
    _ODD = re.compile(r"Traceback|Exception|never awaited|was destroyed")

    def complaints(self) -> list[str]:
        """A machine may complain of a disk that was full, in lines that break off where it was."""
        found = super().complaints()
        if not self.full_s:
            return found
        return [line for line in found if self._ODD.search(line) and not self._FULL.search(line)]


class Ground:
    """`machines` by their names; `told`, `upsets` and `kills` are what the run adds to."""

    def __init__(self, grid: Grid, lan: Lan, disk: Path) -> None:
        self.grid = grid
        self.marks = Marks(grid.root / "marks")
        self.told: list[Told] = []
        self.upsets: list[Upset] = []
        self.machines: dict[str, Host] = {}
        self._lan = lan
        self._ballast = disk / "filler"
        self.back_s: list[float] = []
        """From each start of a node until it said that it serves, or follows."""
        self._starting: dict[str, tuple[float, int]] = {}
        self._stopped: list[int] = []
        self._rules: list[tuple[int, tuple[str, ...]]] = []

    # --- making ----------------------------------------------------------------------------------------

    def make(self) -> None:
        """Until all see each other and the standby is in sync."""
        for machine in ("main", "beta", "gamma"):
            self._site(machine)
        self._spare()
        for host in self.machines.values():
            keep_all(host.paths.journal)
            host.launch()
        until(self.linked, lambda: f"all see each other\n{self.grid.story()}", PATIENCE_S, 0.1)
        in_sync(self.machines["main"], PATIENCE_S)

    def _site(self, machine: str) -> None:
        first = self.machines["main"].data if self.machines else None
        known = [other.address for other in self.machines.values()]
        host = self._host(machine, SITE_OF[machine])
        init_site(host.data, SITE_OF[machine], None, first, SLOTS[machine], host.address, known)
        write_config(host.paths.config, msgspec.structs.replace(load_config(host.paths.config), zeroconf=False))

    def _spare(self) -> None:
        main, spare = self.machines["main"], self._host("spare", "spare")
        for folder in (spare.paths.root, spare.paths.keys):
            folder.mkdir(mode=0o700)
        certificates.issue_site(main.paths.keys, "alpha", spare.paths.keys)
        config = msgspec.structs.replace(load_config(main.paths.config), witness="beta")
        write_config(main.paths.config, config)
        settings = msgspec.structs.replace(config.settings, slots=SLOTS["spare"])
        config = msgspec.structs.replace(config, listen=spare.address, settings=settings)
        config = msgspec.structs.replace(config, role="standby", machine="spare", root=(main.address,))
        write_config(spare.paths.config, config)

    def _host(self, machine: str, name: str) -> Host:
        host = Host(self.grid, self._lan, HOSTS[machine], name)
        # Not on the disk that fills up.
        host.output = self.grid.root / f"{machine}.out"
        self.machines[machine] = self.grid.sites[name] = host
        return host

    # --- asking ----------------------------------------------------------------------------------------

    def ask(self, site: str, call: Callable[[Client], T], within_s: float = PATIENCE_S) -> T:
        """Whichever machine of the site leads; asked again while none answers. UsageError is an answer."""
        end_s = time.monotonic() + within_s
        while True:
            for machine in SITES[site]:
                try:
                    with self.machines[machine].client() as client:
                        return call(client)
                except DianaError as error:
                    if isinstance(error, UsageError) and "no answer from" not in str(error):
                        raise
                    said = error
            if time.monotonic() > end_s:
                raise AssertionError(f"{site} does not answer within {within_s:g} s: {said}\n{self.grid.story()}")
            time.sleep(0.1)

    def linked(self) -> bool:
        for site in SITES:
            with suppress(DianaError), self.machines[SITES[site][0]].client() as client:
                if {other.site for other in client.sites() if other.state == "alive"} >= set(SITES):
                    continue
            return False
        return True

    # --- faults ----------------------------------------------------------------------------------------

    def kill(self, machine: str, *, node: bool, spawner: bool) -> None:
        host = self.machines[machine]
        if spawner:
            self.upsets.append(Upset(SITE_OF[machine], time.time()))
            host.kill_spawner()
        if node:
            host.kill()

    def stop(self, machine: str, *, spawner: bool = False) -> Callable[[], None]:
        """SIGSTOP; what is given lets it go on, if it still lives."""
        process = self.machines[machine].process
        assert process is not None
        pid = self.machines[machine].spawner_pid() if spawner else process.pid
        os.kill(pid, signal.SIGSTOP)
        self._stopped.append(pid)

        def resume() -> None:
            self._stopped.remove(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        return resume

    def cut(self, here: str, there: str, *, both: bool) -> None:
        """Nothing that `there` sends reaches `here`; with `both` nor the other way round."""
        self._drop(here, there)
        if both:
            self._drop(there, here)

    def _drop(self, here: str, there: str) -> None:
        words = ("INPUT", "-s", self._lan.ip(HOSTS[there]), "-j", "DROP")
        rule(self._lan, HOSTS[here], "-A", *words)
        self._rules.append((HOSTS[here], words))

    def mend(self, here: str, there: str) -> None:
        """All cuts between the two."""
        for one, other in ((here, there), (there, here)):
            for entry in [e for e in self._rules if e[0] == HOSTS[one] and e[1][2] == self._lan.ip(HOSTS[other])]:
                rule(self._lan, entry[0], "-D", *entry[1])
                self._rules.remove(entry)

    def fill(self) -> None:
        """gamma's disk, to its last byte."""
        self.machines["gamma"].full_s = time.time()
        self.upsets.append(Upset("gamma", time.time()))
        with self._ballast.open("ab") as file:
            block = bytes(1 << 20)
            with suppress(OSError):
                while True:
                    os.write(file.fileno(), block)
            with suppress(OSError):
                while True:
                    os.write(file.fileno(), block[:4096])

    def free(self) -> None:
        self.upsets.append(Upset("gamma", time.time()))
        self._ballast.unlink(missing_ok=True)

    def launch(self, machine: str) -> None:
        host = self.machines[machine]
        self._starting[machine] = time.monotonic(), _sayings(host)
        host.launch()

    def look(self) -> None:
        """Whether those that were started are back."""
        for machine, (begun_s, before) in list(self._starting.items()):
            if _sayings(self.machines[machine]) > before:
                self.back_s.append(time.monotonic() - begun_s)
                del self._starting[machine]

    def down(self) -> list[str]:
        """Machines without a node."""
        return [name for name, host in self.machines.items() if host.process is None or host.process.poll() is not None]

    def heal(self) -> None:
        self.free()
        for number, words in self._rules:
            rule(self._lan, number, "-D", *words)
        self._rules.clear()
        assert not self._stopped
        for machine in self.down():
            self.launch(machine)

    # --- the end ---------------------------------------------------------------------------------------

    def histories(self) -> list[History]:
        """One for each site: of the machine of alpha that has the later term, or more of it."""
        out = []
        for site, machines in SITES.items():
            each = [History(self.machines[machine].paths.journal, site) for machine in machines]
            each.sort(key=lambda history: (history.term, len(history.stored)))
            out.append(each[-1])
        return out

    def same_journals(self) -> str:
        """Faults where the follower's journal at alpha is no beginning of the leader's. Empty: it is one."""
        one, other = (History(self.machines[machine].paths.journal, "alpha").stored for machine in SITES["alpha"])
        common = min(len(one), len(other))
        return "" if one[:common] == other[:common] else "alpha's two machines hold different journals"


def _sayings(host: Host) -> int:
    return len(re.findall(r"^diana [0-9.]+: site ", host.output.read_text(), re.MULTILINE))


@contextmanager
def ground() -> Iterator[Ground]:
    lan, grid = Lan(len(HOSTS)), Grid()
    disk = grid.root / f"m{HOSTS['gamma']}"
    disk.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "diana", str(disk)], check=True)
        try:
            yield Ground(grid, lan, disk)
        finally:
            try:
                grid.close()
            finally:
                kept = bool(os.environ.get("DIANA_KEEP"))
                if kept:
                    shutil.copytree(disk, grid.root / "gamma", ignore=shutil.ignore_patterns("*.sock", "filler"))
                subprocess.run(["umount", "--lazy", str(disk)], check=True)
                if not kept:
                    shutil.rmtree(grid.root, ignore_errors=True)
    finally:
        lan.close()
