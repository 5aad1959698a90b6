"""A site's LRM as its conformance suite sees it: orders in, events out, time that passes, and the accidents that befall
it. `RealSite` is the embedded LRM over real processes; `lrm_simulated.py` has its twin under virtual time.

What jobs do is written once, as a script: processes execute it, the simulator reads its words (`Work`)."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from diana.adapters.lrm.cgroups.per_job import noted
from diana.adapters.lrm.local import LocalLrm
from diana.adapters.lrm.spawner.claims.claimlog import ClaimLog
from diana.adapters.lrm.spawner.claims.claimlog import read as read_log
from diana.adapters.lrm.spawner.claims.records import LogOpened
from diana.adapters.lrm.spawner.identity import MachineIdentity
from diana.adapters.lrm.spawner.protocol import MOST_PROCESSES
from diana.engine.journal.effects import Go, KillRuns, RecallRuns, RenewLease, SaveRuns, Start
from diana.engine.journal.events import AtBarrier, Event, JobsEnded, LrmLost, LrmReady, Run, StepsReported
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.grace import SITE_GRACE_S
from diana.model.job.spec import Axis, CheckpointSpec, GroupSpec, Sweep
from diana.model.kept_log import LiveLog
from diana.model.layout import DataDir
from tests.runs import SOAK

ALPHA = SiteId("alpha")
SUBGROUP = SubgroupId("alpha-1/0")


class Told(NamedTuple):
    """One end as it was told."""

    run: Run
    outcome: Outcome
    exit_code: int
    error: str
    segment: str
    offset: int
    length: int
    truncated: bool
    started_s: float
    ended_s: float


def told(event: JobsEnded) -> list[Told]:
    facts = event.facts
    errors = {error.index: error.text for error in facts.errors}
    return [
        Told(
            Run(event.subgroup, event.epoch, index, facts.attempts[k]),
            Outcome(facts.outcomes[k]),
            facts.exit_codes[k],
            errors.get(index, ""),
            facts.log_segments[k],
            facts.log_offsets[k],
            facts.log_lengths[k],
            facts.log_truncated[k],
            facts.started_s[k],
            facts.ended_s[k],
        )
        for k, index in enumerate(facts.indices)
    ]


def shell(script: str, **more: object) -> GroupSpec:
    """A large sweep of one shell command."""
    more.setdefault("sweep", Sweep(axes=(Axis(name="n", stop=10_000),)))
    return GroupSpec(argv=("/bin/sh", "-c", script), **more)  # type: ignore[arg-type]


FOREVER = "forever"
"""Runs until `finish`."""


class Work(NamedTuple):
    """A job's doing, as words of its command: `LrmSite.work` makes them."""

    folder: str
    run_s: str
    exit_code: str
    saves: str
    steps: str

    @staticmethod
    def of(spec: GroupSpec) -> Work | None:
        """Read the words; None for another command."""
        return Work(*spec.argv[3:]) if spec.argv[:3] == ("/bin/sh", "-c", SCRIPT) else None


SCRIPT = """
[ "$3" = deaf ] || trap ': >state; exit 85' USR1
echo $DIANA_INDEX.$DIANA_ATTEMPT $$ >>"$0/begun"
for n in $4; do echo "$n" >"$DIANA_REPORT.new"; mv "$DIANA_REPORT.new" "$DIANA_REPORT"; sleep 1.3; done
if [ "$1" = forever ]; then while [ ! -e "$0/finish" ]; do sleep 0.05; done
elif [ "$1" != 0 ]; then sleep "$1"; fi
[ "$2" != 85 ] || : >state
[ "$2" -lt 128 ] || kill -$(($2 - 128)) $$
exit "$2"
"""
"""Words: a folder for its marks, seconds, exit code, whether it saves as it is asked, what it reports one after the
other. A signal that it heeds waits for the end of a `sleep`."""


class LrmSite(ABC):
    """One site with its LRM: what the suite orders, what it is told, and how time passes."""

    lrm: Any
    events: list[Event]
    worker = ""
    brief_s = 0.5
    """Seconds in which a job that is started is held, and little more."""
    quiet_s = 0.3
    """Seconds after which something that should not come has surely not come."""
    punctual = SOAK
    """True if what is to happen at a time is held to an upper bound as well: a busy machine does it later."""
    total_steps = 3.0
    """Steps of a `work` that reports."""

    # --- orders ----------------------------------------------------------------------------------------

    def start(
        self,
        spec: GroupSpec,
        *indices: int,
        attempt: int = 1,
        directory: str = "",
        session: int = 0,
        lease: str = "",
        barrier_s: float = 0.0,
    ) -> None:
        self.lrm.start(
            Start(
                worker=self.worker,
                session=session or self.ready().session,
                subgroup=SUBGROUP,
                epoch=1,
                owner="u@vo",
                spec=spec,
                indices=IndexSet.of(indices),
                attempts=tuple((index, attempt) for index in indices) if attempt != 1 else (),
                directory=directory,
                lease=lease,
                barrier_s=barrier_s,
            )
        )

    def go(self, *indices: int, environment: tuple[tuple[str, str], ...] = (), size: int = 1) -> None:
        order = Go(
            worker=self.worker,
            subgroup=SUBGROUP,
            epoch=1,
            indices=IndexSet.of(indices),
            environment=environment,
            size=size,
        )
        self.lrm.go(order)

    def at_barrier(self) -> set[int]:
        """The runs that were told to stand at the barrier."""
        told = [event for event in self.events if isinstance(event, AtBarrier)]
        return {run.index for event in told for run in event.runs}

    def kill(self, *indices: int) -> None:
        self.lrm.kill(KillRuns(worker=self.worker, subgroup=SUBGROUP, epoch=1, indices=IndexSet.of(indices)))

    def recall(self, *indices: int) -> None:
        self.lrm.recall(RecallRuns(worker=self.worker, subgroup=SUBGROUP, epoch=1, indices=IndexSet.of(indices)))

    def lease(self, origin: str, until_s: float) -> None:
        """Renew the lease of an origin until this time of the site."""
        self.lrm.lease(RenewLease(origin=SiteId(origin), until_s=until_s))

    def save(self, *indices: int, signal: str = "USR1", wait_s: float = 10.0) -> None:
        some = IndexSet.of(indices)
        order = SaveRuns(worker=self.worker, subgroup=SUBGROUP, epoch=1, indices=some, signal=signal, wait_s=wait_s)
        self.lrm.save(order)

    def saved(self) -> dict[int, list[str]]:
        """The files that were told of, by the job's index."""
        facts = [event.facts for event in self.events if isinstance(event, JobsEnded)]
        out: dict[int, list[str]] = {}
        for one in facts:
            for file in one.outputs:
                out.setdefault(file.index, []).append(file.name)
        return out

    def steps(self) -> list[tuple[int, float, float]]:
        """The reports that were told: (index, done, total)."""
        told = [event.steps for event in self.events if isinstance(event, StepsReported)]
        return [(index, done, total) for some in told for index, _, _, done, total in some]

    def forget(self, *ends: Told) -> None:
        self.lrm.forget(tuple(end.run for end in ends))

    # --- what its jobs do ------------------------------------------------------------------------------

    @abstractmethod
    def marks(self) -> Path:
        """A folder of its own for the marks of jobs."""

    def work(
        self,
        run_s: float | str = 0.0,
        exit_code: int = 0,
        *,
        saves: bool = False,
        reports: bool = False,
        **more: Any,
    ) -> GroupSpec:
        """A large sweep of jobs that are noted as begun, run so long (`FOREVER`: until `finish`) and exit so; above
        128: by a signal. `saves`: asked to, they save and stop; exit code 85 of their own accord saves as well.
        `reports`: they say how far they are for some seconds before that."""
        if saves:
            more.setdefault("checkpoint", CheckpointSpec(paths=("state",)))
        words = Work(
            str(self.marks()),
            run_s if isinstance(run_s, str) else f"{run_s:g}",
            str(exit_code),
            "saves" if saves else "deaf",
            "1/3 2/3 nonsense" if reports else "",
        )
        spec = shell(SCRIPT, **more)
        return msgspec.structs.replace(spec, argv=(*spec.argv, *words))

    @abstractmethod
    def begun(self) -> list[tuple[int, int]]:
        """The runs of `work` that really began, (index, attempt), in their order."""

    @abstractmethod
    def finish(self) -> None:
        """Let go those that run `FOREVER`, now and from now on."""

    # --- time ------------------------------------------------------------------------------------------

    @abstractmethod
    def now_s(self) -> float:
        """Site time."""

    @abstractmethod
    async def pass_time(self, seconds: float) -> None: ...

    @abstractmethod
    async def until(self, happened: Callable[[], bool], within_s: float = 60.0) -> None:
        """Let time pass until the condition holds; AssertionError where it does not within so long."""

    # --- what was told ---------------------------------------------------------------------------------

    async def ended(self, count: int, within_s: float = 60.0) -> list[Told]:
        """The ends of at least `count` different runs."""
        await self.until(lambda: len({end.run for end in self.ends()}) >= count, within_s)
        return self.ends()

    def ends(self) -> list[Told]:
        return [end for event in self.events if isinstance(event, JobsEnded) for end in told(event)]

    def by_index(self) -> dict[int, Told]:
        return {end.run.index: end for end in self.ends()}

    def ready(self) -> LrmReady:
        """The inventory that holds now."""
        return [event for event in self.events if isinstance(event, LrmReady)][-1]

    def readies(self) -> int:
        return sum(isinstance(event, LrmReady) for event in self.events)

    def losses(self) -> int:
        return sum(isinstance(event, LrmLost) for event in self.events)

    # --- accidents -------------------------------------------------------------------------------------

    @abstractmethod
    async def up(self) -> None: ...

    @abstractmethod
    async def node_down(self) -> None: ...

    @abstractmethod
    async def node_up(self) -> None:
        """Give back when the LRM has told its inventory."""

    async def restart_node(self) -> None:
        """The node dies and comes back; its LRM lives on."""
        await self.node_down()
        await self.node_up()

    @abstractmethod
    async def lose_lrm(self) -> None:
        """The LRM's own process is killed; gives back when a successor has reported."""

    @abstractmethod
    async def down(self) -> None: ...


class RealSite(LrmSite):
    """The embedded LRM with its spawner, over a data directory of its own."""

    gpus: tuple[str, ...] = ()
    """Names of its devices."""
    max_processes = MOST_PROCESSES

    def __init__(self, root: Path, slots: int = 2, gpus: int = 0, most_grace_s: float = SITE_GRACE_S) -> None:
        self.data = DataDir(root)
        self.most_grace_s = most_grace_s
        for folder in (self.data.spawner, self.data.logs_root, root / "slots", root / "jobs"):
            folder.mkdir(parents=True, exist_ok=True)
        self.slots = slots
        self.gpus = tuple(map(str, range(gpus))) or self.gpus
        self.events: list[Event] = []
        self.lrm = self._new()

    def _new(self) -> LocalLrm:
        return LocalLrm(
            self.data,
            ALPHA,
            self.slots,
            self.events.append,
            time.monotonic,
            gpus=self.gpus,
            most_grace_s=self.most_grace_s,
            max_processes=self.max_processes,
        )

    async def up(self) -> None:
        LocalLrm.launch(self.data)
        await self.lrm.connect()

    # --- what its jobs do, and time --------------------------------------------------------------------

    def marks(self) -> Path:
        folder = self.data.root.with_name(f"{self.data.root.name}.marks")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def begun(self) -> list[tuple[int, int]]:
        return [(index, attempt) for index, attempt, _ in self._begun()]

    def _begun(self) -> list[tuple[int, int, int]]:
        """(index, attempt, pid) of what began."""
        path = self.marks() / "begun"
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [(*map(int, line.split()[0].split(".")), int(line.split()[1])) for line in lines]
        return [(index, attempt, pid) for index, attempt, pid in rows]

    def finish(self) -> None:
        (self.marks() / "finish").touch()

    def now_s(self) -> float:
        return time.monotonic()

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, happened: Callable[[], bool], within_s: float = 60.0) -> None:
        by_s = time.monotonic() + within_s
        while not happened():
            assert time.monotonic() < by_s, f"did not happen within {within_s} s; events: {self.events}"
            await asyncio.sleep(0.005)

    async def log_of(self, index: int, start: int = 0, most: int = 1 << 18, attempt: int = 1) -> LiveLog:
        return await self.lrm.look_at_log(Run(SUBGROUP, 1, index, attempt), start, most)

    async def shows(self, index: int, wanted: Callable[[LiveLog], bool], within_s: float = 60.0) -> LiveLog:
        """The log of a run as soon as it is as wanted."""
        by_s = time.monotonic() + within_s
        while not wanted(log := await self.log_of(index)):
            assert time.monotonic() < by_s, log
            await asyncio.sleep(0.02)
        return log

    async def node_down(self) -> None:
        await self.lrm.close()

    async def node_up(self) -> None:
        self.lrm = self._new()
        await self.lrm.connect()

    async def lose_lrm(self) -> None:
        """The LRM's own process is killed; gives back when a successor has reported."""
        before = self.readies()
        os.kill(self.spawner_pid(), signal.SIGKILL)
        await self.until(lambda: self.readies() > before)

    async def lose_machine(self) -> None:
        """Power failure: nothing of its jobs is left, and what the spawner wrote is of another boot."""
        await self.node_down()
        pid = self.spawner_pid()
        os.kill(pid, signal.SIGKILL)
        for _, _, job in self._begun():
            with suppress(ProcessLookupError):
                os.killpg(job, signal.SIGKILL)
        await self.until(lambda: not alive(pid))
        path = self.data.spawner / "claims.log"
        boot = MachineIdentity("another boot", 1, 2)
        kept = [msgspec.structs.replace(r, machine=boot) if isinstance(r, LogOpened) else r for r in read_log(path)]
        ClaimLog(path, kept).close()
        await self.node_up()

    async def down(self) -> None:
        self.kill(*range(2000))
        await asyncio.sleep(0.05)
        pid = self.spawner_pid()
        await self.lrm.close(stop_spawner=True)
        if _is_spawner(pid):
            os.kill(pid, signal.SIGKILL)
            await self.until(lambda: not alive(pid))
        remove_groups(self.data.spawner)

    # --- what only the real one has --------------------------------------------------------------------

    def spawner_pid(self) -> int:
        return int((self.data.spawner / "lock").read_text() or 0)

    def log(self, end: Told) -> str:
        with (self.data.logs_root / end.segment).open("rb") as file:
            file.seek(end.offset)
            return file.read(end.length).decode()


Site = Callable[..., Awaitable[RealSite]]


def remove_groups(folder: Path) -> None:
    """Remove the empty control groups that a killed spawner of that folder left."""
    standing, status = noted(folder), os.stat(folder)
    for path in (
        Path(standing.base).glob(f"diana-{status.st_dev}-{status.st_ino}.*") if standing and standing.base else ()
    ):
        with suppress(OSError):
            path.rmdir()


def _is_spawner(pid: int) -> bool:
    try:
        return b"diana.adapters.lrm.spawner" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")
