"""Sites on this machine, each a real node process with a data directory, a port and keys of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from diana.adapters.loopback import free_addresses
from diana.client import Client
from diana.errors import DianaError, Unreachable, UsageError
from diana.node.config.setup import init_site

# fmt: off
NAMES = (
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi",
    "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
)
# fmt: on
START_S = 45.0
STOP_S = 8.0
"""A node that has not stopped by then is killed."""
PAUSE_S = 0.1


class DemoNode(msgspec.Struct, kw_only=True):
    name: str
    slots: int
    data: Path
    address: str


def plan_sites(folder: Path, count: int) -> list[DemoNode]:
    """The paper's testbed: the first site with 4 slots, the others with 5; addresses are free loopback ports."""
    names = [NAMES[k] if k < len(NAMES) else f"site-{k + 1}" for k in range(count)]
    return [
        DemoNode(name=name, slots=5 if k else 4, data=folder / name, address=address)
        for k, (name, address) in enumerate(zip(names, free_addresses(count), strict=True))
    ]


class DemoGrid:
    """Started by `start`; `stop` ends every process it made, whatever happened between."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.sites = plan_sites(folder, count)
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: dict[str, Client] = {}

    @property
    def home(self) -> DemoNode:
        """The site where the user sits."""
        return self.sites[0]

    def start(self) -> None:
        for k, site in enumerate(self.sites):
            # Each is told of those before it; one dialled connection serves both sides.
            peers = [other.address for other in self.sites[:k]]
            vo_from = self.home.data if k else None
            vo = None if k else "demo"
            root_jobs = os.getuid() == 0
            init_site(site.data, site.name, vo, vo_from, site.slots, site.address, peers, root_jobs=root_jobs)
        for site in self.sites:
            command = [sys.executable, "-m", "diana.cli", "node", "--data", str(site.data), "--no-zeroconf"]
            log = os.open(site.data / "stdout.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                # Out of the terminal's process group: Ctrl-C is ours to turn into an orderly stop.
                self._nodes[site.name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            finally:
                os.close(log)
        pids = {site.name: self._nodes[site.name].pid for site in self.sites}
        (self.folder / "nodes.json").write_text(json.dumps(pids), encoding="ascii")

    def client(self, site: DemoNode) -> Client:
        if site.name not in self._clients:
            self._clients[site.name] = Client(data=site.data)
        return self._clients[site.name]

    def wait_until_met(self, tell: Callable[[str], None]) -> None:
        """Wait until every site sees every other alive. Unreachable, with what the node wrote last, when one does
        not."""
        end = time.monotonic() + START_S
        waiting = list(self.sites)
        while waiting:
            met = [site for site in waiting if self._sees_all(site)]
            waiting = [site for site in waiting if site not in met]
            if met:
                tell(f"{len(self.sites) - len(waiting)} of {len(self.sites)} sites up and in touch with all others")
            if waiting:
                if time.monotonic() > end:
                    raise Unreachable(
                        f"site {waiting[0].name}: not ready after {START_S:g} s{self._last_words(waiting[0])}"
                    )
                time.sleep(PAUSE_S)

    def wait_until_known(self, datasets: set[str], most_s: float = 10.0) -> None:
        """Wait until the user's site has heard of these datasets, so that its first decision already knows their
        place."""
        end = time.monotonic() + most_s
        while time.monotonic() < end:
            heard = {name for site in self.client(self.home).sites() for name in site.datasets}
            if datasets <= heard:
                return
            time.sleep(PAUSE_S)
        raise Unreachable(f"site {self.home.name}: has not heard of {', '.join(sorted(datasets - heard))}")

    def _sees_all(self, site: DemoNode) -> bool:
        code = self._nodes[site.name].poll()
        if code is not None:
            raise DianaError(f"site {site.name}: its node ended with exit code {code}{self._last_words(site)}")
        try:
            views = self.client(site).sites()
        except Unreachable:
            return False
        alive = {view.site for view in views if view.home or (view.state == "alive" and view.rtt_s >= 0)}
        return alive >= {one.name for one in self.sites}

    def _last_words(self, site: DemoNode) -> str:
        for name in ("stdout.log", "node.log"):
            try:
                lines = (site.data / name).read_text(encoding="utf-8", errors="replace").strip().splitlines()
            except OSError:
                continue
            if lines:
                return f"; {site.data / name} ends: {lines[-1]}"
        return ""

    def stop(self) -> None:
        """Stop all nodes, then what they left running, all of it below this grid's folder."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        for node in self._nodes.values():
            with contextlib.suppress(ProcessLookupError):
                node.terminate()
        end = time.monotonic() + STOP_S
        for node in self._nodes.values():
            try:
                node.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
        self._nodes.clear()
        end_processes_of(self.folder)

    def save_logs(self, folder: Path) -> None:
        """Copies of what each node wrote, as NAME-node.log and NAME-stdout.log."""
        folder.mkdir(exist_ok=True)
        for site in self.sites:
            for name in ("node.log", "stdout.log"):
                with contextlib.suppress(OSError):
                    shutil.copyfile(site.data / name, folder / f"{site.name}-{name}")

    def hint(self) -> str:
        pids = " ".join(str(node.pid) for node in self._nodes.values())
        return (
            f"the nodes run on; look round with: diana status --data {self.home.data}\n"
            f"                             and: diana sites --data {self.home.data}\n"
            f"end them with: kill {pids}"
        )


def end_processes_of(folder: Path) -> None:
    """Spawners outlive their node for a while, so that a restart finds them; here nobody will come back."""
    pids = processes_of(folder)
    for number, most_s in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        end = time.monotonic() + most_s
        while (pids := processes_of(folder)) and time.monotonic() < end:
            time.sleep(0.05)


def processes_of(folder: Path) -> list[int]:
    """This user's processes that have a path below `folder` among their arguments, but for this one."""
    needle = os.fsencode(folder)
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if entry.stat().st_uid != os.getuid():
                continue
            with open(f"/proc/{entry.name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if any(word == needle or word.startswith(needle + b"/") for word in words):
                found.append(int(entry.name))
    return sorted(found)


MARK = ".diana-demo"


def fresh_folder(out: Path) -> Path:
    """`out`, made or emptied of an earlier demo; UsageError when it holds something else or that demo still runs."""
    out = out.absolute()
    if any(ord(c) < 32 for c in str(out)):
        raise UsageError(f"{str(out)!r}: a folder's name with control characters; choose another with --out")
    try:
        if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
            raise UsageError(f"{out}: not empty and not of an earlier demo; name another folder with --out")
        sites = out / "sites"
        running = processes_of(sites) if sites.exists() else []
        if running:
            raise UsageError(
                f"{out}: an earlier demo still runs there; end it with: kill {' '.join(map(str, running))}"
            )
        out.mkdir(parents=True, exist_ok=True)
        for entry in out.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        (out / MARK).touch()
    except OSError as error:
        raise UsageError(f"{error.filename or out}: {error.strerror}; name a folder you can write with --out") from None
    return out
