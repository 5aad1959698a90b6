"""Sites as real node processes on loopback, for tests that pull the plug on them.

Every process a grid starts, and every spawner and job these start, is ended by its pid when the grid closes; what
still lives afterwards fails the test, and so does a traceback or an error in what the nodes wrote.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from diana.client import Client
from diana.errors import DianaError
from diana.model.layout import DataDir
from diana.model.settings import Settings
from diana.model.views.group import GroupStatus
from diana.node.config.setup import init_site
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.contract.lrm_builders import remove_groups
from tests.runs import SOAK

REPO = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
"""Least seconds that anything of real processes is waited for: how long it takes is no part of whether it comes."""
START_S = STOP_S = MEET_S = PATIENCE_S
_MARK = "DIANA_E2E_GRID"
_ports = random.Random(os.getpid())
_given: set[int] = set()
PORT_SHARES = 6
PORTS = 2_000

_BAD = re.compile(
    r'Traceback|Exception|Error\b| ERROR | CRITICAL |"(ERROR|CRITICAL)"|Warning:|never awaited|was destroyed'
)

_SAID = re.compile(r"diana [0-9.]+: site |diana: warning: .* has \d+ bytes, so that Unix sockets ")
"""Lines that a node may print; tests whose folders have long names hear that they are."""

# grpc prints this on standard error when a caller is gone before its call began; nothing of ours was broken off.
_GRPCS = re.compile(
    r'^Traceback \(most recent call last\):\n  File "src/python/grpcio/[^\n]*_schedule_rpc_coro\n'
    r"(?:  [^\n]*\n)*asyncio\.exceptions\.CancelledError\n?",
    re.MULTILINE,
)

T = TypeVar("T")


def crowding() -> float:
    """How many times longer than on a machine of its own a test may take here: those that want a processor, for each
    that there is; 1 to 6."""
    return min(6.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def timely(took_s: float, most_s: float, what: str = "it") -> None:
    """Hold to an upper bound what time is the subject of: in `make soak` alone, where others may use the machine."""
    assert not SOAK or took_s < most_s * crowding(), f"{what} took {took_s:.1f} s, more than {most_s:g} s"


def until(
    look: Callable[[], T], what: str | Callable[[], str], within_s: float = PATIENCE_S, every_s: float = 0.02
) -> T:
    """The first true value of `look`; AssertionError naming `what` when the time is over, which is `within_s`, or
    `PATIENCE_S` if that is more, on a machine that is not crowded."""
    begun_s, within_s = time.monotonic(), max(within_s, PATIENCE_S)
    while True:
        if found := look():
            return found
        if time.monotonic() - begun_s > within_s * crowding():
            raise AssertionError(f"not within {within_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(every_s)


def free_port() -> int:
    """Below the range from which the kernel gives ports to connections, so that it stays free until a node takes it;
    never one that was given before, here or to tests that run beside these."""
    beside = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PORT_SHARES
    first = 20_000 + beside * PORTS
    while True:
        port = _ports.randrange(first, first + PORTS)
        if port in _given:
            continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _given.add(port)
            return port


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def with_environment(entry: bytes) -> list[int]:
    """Living processes that were given an environment entry that begins so."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                if b"\0" + entry in b"\0" + _environment(Path("/proc") / name) and is_alive(int(name)):
                    found.append(int(name))
    return found


def _environment(process: Path) -> bytes:
    """Between two programs of one process it reads as empty for a moment; a thread of the kernel never has one."""
    for _ in range(100):
        if (environ := (process / "environ").read_bytes()) or not is_alive(int(process.name)):
            return environ
        os.readlink(process / "exe")
        time.sleep(0.001)
    return b""


class Patient(Client):
    """Waits longer, more so on a crowded machine; not where the waiting itself is tried, for less than ten seconds."""

    def wait(self, group: str, timeout_s: float | None = None) -> GroupStatus:
        if timeout_s and timeout_s >= 10:
            timeout_s = max(timeout_s, PATIENCE_S) * crowding()
        return super().wait(group, timeout_s)


class Site:
    """One node: its data directory and, while it runs, its process."""

    def __init__(self, name: str, data: Path, port: int, mark: str) -> None:
        self.name = name
        self.data = data
        self.paths = DataDir(data)
        self.address = f"127.0.0.1:{port}"
        self.output = data.parent / f"{name}.out"
        self.process: subprocess.Popen[bytes] | None = None
        self.owned_up = ""
        """Part of a line of its log that is no complaint, for the test means it to come; empty: none."""
        self._mark = mark

    def command(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "diana.cli", "node", "--data", str(self.data), "--no-zeroconf", *more]

    def environment(self) -> dict[str, str]:
        return {**os.environ, _MARK: self._mark, "PYTHONPATH": str(REPO), "PYTHONFAULTHANDLER": "1"}

    def launch(self) -> None:
        """Start the process; `ready` waits for it."""
        assert self.process is None or self.process.poll() is not None, f"{self.name} runs already"
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                start_new_session=True,
            )

    def ready(self) -> None:
        until(self._answers, lambda: f"{self.name} answers\n{self.story()}", START_S)

    def start(self) -> None:
        self.launch()
        self.ready()

    def _answers(self) -> bool:
        self.assert_runs()
        assert self.process is not None
        try:
            with self.client() as client:
                return client.info().pid == self.process.pid
        except DianaError:
            return False

    def assert_runs(self) -> None:
        """A node that ended although nobody ended it fails the test at once."""
        assert self.process is not None
        assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}\n{self.story()}"

    def client(self) -> Client:
        return Patient(self.data)

    def kill(self) -> None:
        """kill -9 of the node alone: its spawner and the jobs go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def abort(self) -> None:
        """End a node that hangs; where its threads stood goes to its output."""
        assert self.process is not None
        self.process.send_signal(signal.SIGABRT)
        self.process.wait()

    def ask_to_end(self) -> None:
        """SIGTERM."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def terminate(self) -> int:
        """SIGTERM; its exit code."""
        assert self.process is not None
        self.ask_to_end()
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.abort()
            raise AssertionError(f"{self.name} does not stop within {STOP_S:g} s\n{self.story()}") from None

    def spawner_pid(self) -> int:
        """0 when there is none."""
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            pid = int((self.paths.spawner / "lock").read_text())
            if is_alive(pid) and f"{_MARK}={self._mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                return pid
        return 0

    def kill_spawner(self) -> int:
        """kill -9 of the spawner alone: the pid it had."""
        pid = self.spawner_pid()
        assert pid, f"{self.name} has no spawner\n{self.story()}"
        os.kill(pid, signal.SIGKILL)
        return pid

    def jobs_alive(self) -> list[int]:
        """Processes of jobs started from this data directory, by any of its spawners."""
        with suppress(FileNotFoundError):
            folder = os.stat(self.paths.spawner)
            return with_environment(f"DIANA_RUN={folder.st_dev}-{folder.st_ino}:".encode())
        return []

    def texts(self) -> Iterator[tuple[str, str]]:
        """Lines an operator would read, by name."""
        for path in (self.output, self.paths.node_log, self.paths.spawner / "spawner.log"):
            with suppress(FileNotFoundError):
                yield path.name, path.read_text(errors="replace")

    def story(self) -> str:
        return "\n".join(f"--- {self.name}: {name}\n{text[-4000:]}" for name, text in self.texts() if text)

    def complaints(self) -> list[str]:
        """Lines no operator should have to see in runs like these; on its standard output a node says one line."""
        found = []
        for name, text in self.texts():
            said = _SAID if name == self.output.name else re.compile(r'[0-9-]{10} |{"time":')
            for line in _GRPCS.sub("", text).splitlines():
                if self.owned_up and self.owned_up in line:
                    continue
                if _BAD.search(line) or not said.match(line):
                    found.append(f"{self.name} {name}: {line}")
        return found


class Grid:
    """Sites of one VO that know each other by address."""

    def __init__(self) -> None:
        # Not below pytest's folder: its names are long, and a data directory's socket must be reachable as it is.
        if os.getuid() == 0:
            os.environ.setdefault("DIANA_ROOT_JOBS", "true")
        self.root = Path(tempfile.mkdtemp(prefix="diana-e2e-"))
        self.mark = self.root.name
        self.sites: dict[str, Site] = {}

    # --- making and starting -----------------------------------------------------------------------------

    def add(self, name: str, slots: int = 4, *, vo: Site | None = None, own_vo: bool = False) -> Site:
        """A site that is not started yet. It joins the VO of the first, of `vo`, or makes its own."""
        site = Site(name, self.root / name, free_port(), self.mark)
        first = None if own_vo else vo or next(iter(self.sites.values()), None)
        init_site(site.data, name, None, first.data if first else None, slots, site.address)
        self.sites[name] = site
        return site

    def join(self) -> None:
        """Write into each site's configuration the addresses of all the others."""
        for site in self.sites.values():
            config = load_config(site.paths.config)
            peers = tuple(other.address for other in self.sites.values() if other is not site)
            write_config(site.paths.config, msgspec.structs.replace(config, peers=peers, zeroconf=False))

    def settings(self, **changes: object) -> None:
        """The same for every site, before it starts."""
        for site in self.sites.values():
            config = load_config(site.paths.config)
            settings: Settings = msgspec.structs.replace(config.settings, **changes)
            write_config(site.paths.config, msgspec.structs.replace(config, settings=settings))

    def start(self) -> None:
        """All sites, until each sees all others alive."""
        for site in self.sites.values():
            site.launch()
        for site in self.sites.values():
            site.ready()
        self.meet()

    def meet(self, within_s: float = MEET_S) -> None:
        until(self._all_alive, lambda: f"all sites see each other\n{self.story()}", within_s, 0.05)

    def _all_alive(self) -> bool:
        for site in self.sites.values():
            with site.client() as client:
                seen = {other.site for other in client.sites() if other.state == "alive"}
            if not seen >= set(self.sites):
                return False
        return True

    # --- ending ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End all that lives; AssertionError for what would not end or for what the nodes complained about."""
        faults: list[str] = []
        for site in self.sites.values():
            if site.process is not None and site.process.poll() is None:
                site.process.send_signal(signal.SIGCONT)
                site.ask_to_end()
        for site in self.sites.values():
            if site.process is not None and site.process.returncode is None:
                try:
                    code = site.process.wait(STOP_S)
                    if code:
                        faults.append(f"{site.name} ended with {code} at SIGTERM\n{site.story()}")
                except subprocess.TimeoutExpired:
                    site.abort()
                    faults.append(f"{site.name} did not end at SIGTERM\n{site.story()}")
        for _ in range(100):
            living = self.living()
            if not living:
                break
            for pid in living:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        else:
            faults.append(f"still alive: {living}")
        for site in self.sites.values():
            if site.paths.spawner.is_dir():
                remove_groups(site.paths.spawner)
        faults += [line for site in self.sites.values() for line in site.complaints()]
        if os.environ.get("DIANA_KEEP"):
            print(f"kept: {self.root}")
        else:
            shutil.rmtree(self.root, ignore_errors=True)
        assert not faults, "\n".join(faults)

    def living(self) -> list[int]:
        """Whatever this grid started or caused to be started."""
        own = with_environment(f"{_MARK}={self.mark}\0".encode())
        return sorted({*own, *(pid for site in self.sites.values() for pid in site.jobs_alive())})

    def story(self) -> str:
        return "\n".join(site.story() for site in self.sites.values())

    def run(
        self, site: Site, *words: str, within_s: float = PATIENCE_S, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A `diana` command of its own, typed in that folder, to its end."""
        return subprocess.run(
            [sys.executable, "-m", "diana.cli", *words],
            env=site.environment(),
            text=True,
            capture_output=True,
            timeout=max(within_s, PATIENCE_S) * crowding(),
            check=False,
            cwd=folder,
        )


class Start(msgspec.Struct, frozen=True):
    """One real start of a job's program."""

    index: int
    attempt: int
    pid: int
    site: str


class Starts:
    """A file into which every job appends `INDEX ATTEMPT PID` as its first act: what really was started."""

    def __init__(self, grid: Grid) -> None:
        self.path = grid.root / "starts"
        self.path.touch()
        self._grid = grid

    def job(self, jobs: int, then: Sequence[str] = ("sleep", "0.02"), **group: object) -> dict[str, object]:
        """A job file, as a dict, whose jobs write their line and then become `then`."""
        script = 'echo "$DIANA_INDEX $DIANA_ATTEMPT $$ $DIANA_SITE" >> "$STARTS"; exec "$@"'
        return {
            "group": {
                "command": ["sh", "-c", script, "job", *then],
                "environment": {"STARTS": str(self.path)},
                **group,
            },
            "sweep": {"array": f"0-{jobs - 1}"},
            "resources": {"work": 0.03},
        }

    def count(self) -> int:
        return self.path.read_bytes().count(b"\n")

    def wait_for(self, count: int, within_s: float = PATIENCE_S) -> None:
        def enough() -> bool:
            for site in self._grid.sites.values():
                site.assert_runs()
            return self.count() >= count

        until(enough, lambda: f"{count} starts\n{self._grid.story()}", within_s, 0.005)

    def all(self) -> list[Start]:
        """In the order in which they happened."""
        out = []
        for line in self.path.read_text().splitlines():
            index, attempt, pid, site = line.split()
            out.append(Start(int(index), int(attempt), int(pid), site))
        return out

    def doubled(self) -> dict[int, list[Start]]:
        """The starts of jobs that were started more than once."""
        by_index: dict[int, list[Start]] = {}
        for start in self.all():
            by_index.setdefault(start.index, []).append(start)
        return {index: starts for index, starts in by_index.items() if len(starts) > 1}

    def sites(self) -> set[str]:
        return {start.site for start in self.all()}


def outcomes(client: Client, group: str) -> Mapping[int, str]:
    """Outcome by index; AssertionError for an index with two results."""
    out: dict[int, str] = {}
    for result in client.results(group):
        assert result.index not in out, f"{result.job} has two results"
        out[result.index] = result.outcome
    return out
