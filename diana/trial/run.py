"""`diana scenario run FILE --on GROUND`: a scenario on real nodes, from nothing to a report; nothing is left behind."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from diana.errors import UsageError
from diana.sim.report.report import Report
from diana.sim.report.table import table
from diana.sim.scenario import scenario as sc
from diana.sim.specs.scenario_spec import Scenario
from diana.trial.account import Accountant, selected
from diana.trial.conduct import Conductor
from diana.trial.founding import Founding
from diana.trial.ground import Testbed
from diana.trial.plan import playable, submissions

GROUNDS = ("processes", "netns", "compose")
TAIL_BYTES = 1 << 20
"""Bytes of each log that is kept of a run that was not good."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    on: str = "processes"
    seed: int = 0
    speed_up: float = 1.0
    """Scenario seconds per real second."""
    within_s: float = 1800.0
    """Real seconds for the workload; what has not ended by then is stuck."""
    keep: Path | None = None
    """Keep data directories and logs below this folder."""


class TrialRun(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a run."""

    report: Report
    unlike: tuple[str, ...]
    """Wishes of the scenario that the ground could not make, one line each."""
    real_s: float
    logs: Path | None


def run(path: Path, options: Options, as_json: bool) -> int:
    """0: every group came to an end and all that was expected did; 1: not. UsageError for what cannot be run so,
    Unreachable when a node does not come up."""
    scenario = sc.load(path)

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    ran = run_scenario(scenario, options, tell, str(path))
    chosen: dict[str, Any] = {"on": options.on, "speed_up": options.speed_up}
    chosen |= selected(ran.report, scenario.report)
    for line in ran.unlike:
        tell(f"unlike the scenario: {line}")
    if ran.logs is not None:
        tell(f"what the nodes wrote lies in {ran.logs}")
    sys.stdout.write(json.dumps(chosen, indent=2) + "\n" if as_json else table(chosen))
    return 0 if ran.report.good() else 1


def run_scenario(
    scenario: Scenario, options: Options, tell: Callable[[str], None], where: str = "scenario"
) -> TrialRun:
    """The whole of it. Whatever happens, every process, namespace and container it made is gone when this returns."""
    scenario = playable(scenario, options.seed, where)
    if not 1e-3 <= options.speed_up <= 1e4:
        raise UsageError(f"--speed-up {options.speed_up:g}: want 0.001 to 10000")
    root = _folder(options.keep)
    good = False
    try:
        with _terminated_as_interrupt():
            ran = _play(scenario, options, tell, root)
        good = ran.report.good()
        return msgspec.structs.replace(ran, logs=None if good and options.keep is None else root)
    finally:
        if options.keep is None:
            if good:
                shutil.rmtree(root, ignore_errors=True)
            else:
                _only_logs(root)


def _play(scenario: Scenario, options: Options, tell: Callable[[str], None], root: Path) -> TrialRun:
    factor = options.speed_up
    ground = _ground(options.on, root, scenario, factor)
    if scenario.seeds:
        ground.unlike.append("seeds: every site comes in through the first one, and hears of the others from it")
    began_s = time.monotonic()
    some = submissions(scenario, options.seed)
    conductor: Conductor | None = None
    try:
        ground.open()
        founding = Founding(ground, tell)
        founding.found()
        founding.register(scenario.datasets)
        credentials = founding.credentials(one.principal.name for one in some)
        conductor = Conductor(ground, scenario, some, credentials, factor, tell)
        ended = conductor.run(options.within_s)
        if not ended.in_time:
            tell(f"not over after {options.within_s:g} s: what has not ended counts as stuck")
        for machine in ground.machines:
            if machine.role == "site":
                founding.wait_until_up(machine)
        report = Accountant(ground, scenario, options.seed, ended, factor).report(some)
        return TrialRun(report=report, unlike=tuple(ground.unlike), real_s=time.monotonic() - began_s, logs=None)
    finally:
        with _not_interrupted():
            if conductor is not None:
                conductor.close()
            ground.close()


def _ground(on: str, root: Path, scenario: Scenario, factor: float) -> Testbed:
    if on == "processes":
        from diana.trial.processes import Processes

        return Processes(root, scenario, factor)
    if on == "netns":
        from diana.trial.netns import Namespaces

        return Namespaces(root, scenario, factor)
    if on == "compose":
        from diana.trial.compose import Compose

        return Compose(root, scenario, factor)
    raise UsageError(f"--on {on}: want {', '.join(GROUNDS)}")


def _folder(keep: Path | None) -> Path:
    """Short, for a socket in it has to be reachable by its name."""
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="diana-run-"))
    keep = keep.absolute()
    try:
        if keep.exists() and any(keep.iterdir()):
            raise UsageError(f"--keep {keep}: not empty; name a new folder")
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--keep {keep}: {error.strerror}; name a folder you can write") from None
    return keep


def _only_logs(root: Path) -> None:
    """The ends of what the nodes wrote; keys, journals and outputs go."""
    for machine in root.iterdir() if root.exists() else ():
        for log in (machine / "data" / "node.log", machine / "data" / "spawner" / "spawner.log", machine / "node.out"):
            if log.is_file():
                with log.open("rb") as file:
                    file.seek(max(0, log.stat().st_size - TAIL_BYTES))
                    (root / f"{machine.name}-{log.name}").write_bytes(file.read())
        if machine.is_dir():
            shutil.rmtree(machine, ignore_errors=True)


@contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does, so that nothing is left behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:
        # Not the main thread: whoever called looks after signals.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _not_interrupted() -> Iterator[None]:
    """A second Ctrl-C must not leave nodes behind, so it waits."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
