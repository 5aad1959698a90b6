"""The cells: one piece of work each, as diana does it and as its peers do.

A cell's answer is one number. Rates are jobs, calls or groups a second, times milliseconds; the clock of each begins
when its system is up.
"""

from __future__ import annotations

import asyncio
import operator
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import replay_referees
from benchmarks.bench_replay import measured
from benchmarks.peers.installs import Peer
from benchmarks.peers.programs import answer, cost, tree
from benchmarks.site import BenchSite, cpu_s, resident_bytes
from diana.client import AsyncClient, GridExecutor
from tests.clusters.slurm_site import SlurmSite

SLOTS = 2
IN_FLIGHT = 16
SLURM_SHARE = 10
"""Slurm and hq's single submissions get a tenth of a cell's work: at their pace the whole would take many minutes."""
IDLE_S = 10
SITTING = ["sleep", "86400"]

Measure = Callable[[Peer, int, Path], float]


class Cell(NamedTuple):
    name: str
    unit: str
    size: int
    quick: int
    """Size under `--quick`."""
    ours: Callable[[BenchSite, int, Path], float]
    theirs: Mapping[str, Measure]
    more: bool = True
    """True if more is better."""
    loaded: bool = True
    """True if diana's node must be up."""


# --- diana ---------------------------------------------------------------------------------------------------


def _group(command: list[str], jobs: int, **more: Any) -> dict[str, Any]:
    return {"group": {"command": command}, "sweep": {"array": f"0-{jobs - 1}"}, **more}


def _rate(site: BenchSite, job: dict[str, Any], jobs: int) -> float:
    began_s = time.perf_counter()
    ended = site.client.wait(site.client.submit(job).group)
    taken_s = time.perf_counter() - began_s
    assert ended.done == jobs, ended
    return jobs / taken_s


def our_noop(site: BenchSite, size: int, folder: Path) -> float:
    return _rate(site, _group(["/bin/true"], size), size)


def our_files(site: BenchSite, size: int, folder: Path) -> float:
    job = _group(["/bin/sh", "-c", "echo x > out-{array}"], size, outputs={"collect": "out-{array}"})
    return _rate(site, job, size)


def our_calls(site: BenchSite, size: int, folder: Path) -> float:
    with GridExecutor(site.data) as grid:
        assert next(grid.map(operator.neg, [1])) == -1
        began_s = time.perf_counter()
        assert sum(grid.map(operator.neg, range(size))) == -size * (size - 1) // 2
        return size / (time.perf_counter() - began_s)


def our_singles(site: BenchSite, size: int, folder: Path) -> float:
    job = {"group": {"command": ["/bin/true"]}}
    began_s = time.perf_counter()
    for _ in range(size):
        site.client.submit(job)
    return size / (time.perf_counter() - began_s)


def our_singles_in_flight(site: BenchSite, size: int, folder: Path) -> float:
    job = {"group": {"command": ["/bin/true"]}}

    async def all_of_them() -> float:
        async with AsyncClient(site.data) as client:
            left = iter(range(size))

            async def some() -> None:
                for _ in left:
                    await client.submit(job)

            began_s = time.perf_counter()
            await asyncio.gather(*(some() for _ in range(IN_FLIGHT)))
            return size / (time.perf_counter() - began_s)

    return asyncio.run(all_of_them())


def our_submit(site: BenchSite, size: int, folder: Path) -> float:
    began_s = time.perf_counter()
    group = site.client.submit(_group(SITTING, size)).group
    taken_s = time.perf_counter() - began_s
    site.client.cancel(group)
    site.client.wait(group)
    return 1000 * taken_s


def our_cancel(site: BenchSite, size: int, folder: Path) -> float:
    """Until the group is over, its two running jobs included."""
    group = site.client.submit(_group(SITTING, size)).group
    time.sleep(1.0)
    began_s = time.perf_counter()
    site.client.cancel(group)
    site.client.wait(group)
    return 1000 * (time.perf_counter() - began_s)


def our_first(site: BenchSite, size: int, folder: Path) -> float:
    began_s = time.time()
    ended = site.client.wait(site.client.submit({"group": {"command": _stamping(folder)}}).group)
    assert ended.done == 1, ended
    return _stamped_ms(folder, began_s)


def our_idle_percent(site: BenchSite, size: int, folder: Path) -> float:
    time.sleep(2.0)
    began_s, before_s = time.perf_counter(), cpu_s(site.pid)
    time.sleep(size)
    return 100 * (cpu_s(site.pid) - before_s) / (time.perf_counter() - began_s)


def our_idle_mib(site: BenchSite, size: int, folder: Path) -> float:
    return resident_bytes(site.pid) / (1 << 20)


def our_replay(site: BenchSite, size: int, folder: Path) -> float:
    trace = replay_referees.trace(folder, None, 128, size)
    return float(measured("site", trace=str(trace.path), processors=trace.processors)["jobs_per_s"])


def _stamping(folder: Path) -> list[str]:
    return ["/bin/sh", "-c", f"date +%s.%N > {folder}/stamp.new && mv {folder}/stamp.new {folder}/stamp"]


def _stamped_ms(folder: Path, began_s: float, within_s: float = 60.0) -> float:
    by_s = time.monotonic() + within_s
    while not (folder / "stamp").exists():
        if time.monotonic() > by_s:
            raise RuntimeError(f"no job began within {within_s:.0f} s")
        time.sleep(0.002)
    return 1000 * (float((folder / "stamp").read_text()) - began_s)


# --- programs of the machine ---------------------------------------------------------------------------------


def _piped(words: list[str], size: int, folder: Path) -> float:
    numbers = "\n".join(map(str, range(size))) + "\n"
    began_s = time.perf_counter()
    subprocess.run(words, input=numbers, text=True, check=True, cwd=folder, capture_output=True)
    return size / (time.perf_counter() - began_s)


def _piped_first(words: list[str], folder: Path) -> float:
    began_s = time.time()
    subprocess.run([*words, *_stamping(folder)], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return _stamped_ms(folder, began_s)


def xargs_noop(peer: Peer, size: int, folder: Path) -> float:
    return _piped(["xargs", "-P2", "-n1", "/bin/true"], size, folder)


def xargs_files(peer: Peer, size: int, folder: Path) -> float:
    return _piped(["xargs", "-P2", "-n1", "/bin/sh", "-c", "echo x > out-$0"], size, folder)


def xargs_first(peer: Peer, size: int, folder: Path) -> float:
    return _piped_first(["xargs"], folder)


def parallel_noop(peer: Peer, size: int, folder: Path) -> float:
    return _piped(["parallel", "--will-cite", "-j2", "/bin/true"], size, folder)


def parallel_files(peer: Peer, size: int, folder: Path) -> float:
    return _piped(["parallel", "--will-cite", "-j2", "echo x > out-{}"], size, folder)


# --- Slurm ---------------------------------------------------------------------------------------------------


@contextmanager
def _slurm(most_tasks: int) -> Iterator[SlurmSite]:
    root = Path(tempfile.mkdtemp(prefix="slurm-peer-"))
    root.chmod(0o755)
    made = SlurmSite(root, "p", cpus=SLOTS, most_tasks=most_tasks)
    text = made.config.read_text()
    made.config.write_text(text.replace("MaxJobCount=20000", f"MaxJobCount={max(20_000, most_tasks + 1000)}"))
    try:
        made.up()
        yield made
    finally:
        made.down()
        shutil.rmtree(root, ignore_errors=True)


def _sbatch(site: SlurmSite, *words: str) -> float:
    """Seconds that `sbatch` takes."""
    began_s = time.perf_counter()
    subprocess.run(
        ["sbatch", "--parsable", *words], check=True, capture_output=True, env=site.environment, cwd=site.root
    )
    return time.perf_counter() - began_s


def _slurm_array(size: int, command: str, folder: Path) -> float:
    some = max(20, size // SLURM_SHARE)
    with _slurm(some + 1) as site:
        array = (f"--array=0-{some - 1}", "--output=/dev/null", f"--chdir={folder}")
        return some / _sbatch(site, "--wait", *array, "--wrap", command)


def slurm_noop(peer: Peer, size: int, folder: Path) -> float:
    return _slurm_array(size, "/bin/true", folder)


def slurm_files(peer: Peer, size: int, folder: Path) -> float:
    return _slurm_array(size, "echo x > out-$SLURM_ARRAY_TASK_ID", folder)


def slurm_singles(peer: Peer, size: int, folder: Path) -> float:
    some = max(10, size // SLURM_SHARE)
    with _slurm(1001) as site:
        return some / sum(_sbatch(site, "--output=/dev/null", "--wrap", "/bin/true") for _ in range(some))


def slurm_submit(peer: Peer, size: int, folder: Path) -> float:
    with _slurm(size + 1) as site:
        return 1000 * _sbatch(site, "--hold", f"--array=0-{size - 1}", "--output=/dev/null", "--wrap", "sleep 86400")


def slurm_cancel(peer: Peer, size: int, folder: Path) -> float:
    with _slurm(size + 1) as site:
        _sbatch(site, f"--array=0-{size - 1}", "--output=/dev/null", "--wrap", "sleep 86400")
        time.sleep(1.0)
        began_s = time.perf_counter()
        site.run("scancel", "-u", "root")
        while site.run("squeue", "-h", "-o", "%i"):
            time.sleep(0.02)
        return 1000 * (time.perf_counter() - began_s)


def slurm_first(peer: Peer, size: int, folder: Path) -> float:
    with _slurm(1001) as site:
        began_s = time.time()
        _sbatch(site, "--output=/dev/null", "--wrap", " ".join(_stamping(folder)[2:]))
        return _stamped_ms(folder, began_s)


def _slurm_idle(seconds: int) -> tuple[float, float]:
    """(percent of a core, MiB) of controller, machine and munge."""
    with _slurm(1001) as site:
        run = site.root / "run"
        files = (site.root / "slurmctld.pid", run / "munged.pid", *run.glob("slurmd-*.pid"))
        pids = [pid for file in files for pid in tree(int(file.read_text()))]
        time.sleep(2.0)
        before_s, began_s = cost(pids)[0], time.perf_counter()
        time.sleep(seconds)
        spent_s, mib = cost(pids)
        return 100 * (spent_s - before_s) / (time.perf_counter() - began_s), mib


def slurm_idle_percent(peer: Peer, size: int, folder: Path) -> float:
    return _slurm_idle(size)[0]


def slurm_idle_mib(peer: Peer, size: int, folder: Path) -> float:
    return _slurm_idle(0)[1]


# --- HyperQueue ----------------------------------------------------------------------------------------------


@contextmanager
def _hq(peer: Peer, folder: Path) -> Iterator[Callable[..., str]]:
    hq = str(Path(peer.python).with_name("hq"))
    home = ["--server-dir", str(folder / "hq")]

    def run(*words: str) -> str:
        done = subprocess.run([hq, *home, *words], check=True, capture_output=True, text=True, cwd=folder)
        return done.stdout

    server = subprocess.Popen(
        [hq, *home, "server", "start"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder
    )
    worker = None
    try:
        _until(lambda: run("server", "info"))
        worker = subprocess.Popen(
            [hq, *home, "worker", "start", "--cpus", str(SLOTS)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        _until(lambda: run("worker", "info", "1"))
        yield run
    finally:
        for one in (worker, server):
            if one is not None:
                one.terminate()
                one.wait(30)


def _until(step: Callable[[], object], within_s: float = 30.0) -> None:
    by_s = time.monotonic() + within_s
    while True:
        try:
            step()
            return
        except subprocess.CalledProcessError:
            if time.monotonic() > by_s:
                raise
            time.sleep(0.1)


_QUIET = ("--stdout", "none", "--stderr", "none")


def _hq_array(peer: Peer, size: int, folder: Path, *command: str) -> float:
    with _hq(peer, folder) as run:
        began_s = time.perf_counter()
        run("submit", "--wait", *_QUIET, "--array", f"0-{size - 1}", *command)
        return size / (time.perf_counter() - began_s)


def hq_noop(peer: Peer, size: int, folder: Path) -> float:
    return _hq_array(peer, size, folder, "/bin/true")


def hq_files(peer: Peer, size: int, folder: Path) -> float:
    return _hq_array(peer, size, folder, "/bin/sh", "-c", "echo x > out-$HQ_TASK_ID")


def hq_singles(peer: Peer, size: int, folder: Path) -> float:
    some = max(10, size // SLURM_SHARE)
    with _hq(peer, folder) as run:
        began_s = time.perf_counter()
        for _ in range(some):
            run("submit", *_QUIET, "/bin/true")
        return some / (time.perf_counter() - began_s)


def hq_submit(peer: Peer, size: int, folder: Path) -> float:
    with _hq(peer, folder) as run:
        began_s = time.perf_counter()
        run("submit", *_QUIET, "--array", f"0-{size - 1}", *SITTING)
        taken_s = time.perf_counter() - began_s
        run("job", "cancel", "all")
        return 1000 * taken_s


def hq_cancel(peer: Peer, size: int, folder: Path) -> float:
    with _hq(peer, folder) as run:
        run("submit", *_QUIET, "--array", f"0-{size - 1}", *SITTING)
        time.sleep(1.0)
        began_s = time.perf_counter()
        run("job", "cancel", "all")
        run("job", "wait", "all")
        return 1000 * (time.perf_counter() - began_s)


def hq_first(peer: Peer, size: int, folder: Path) -> float:
    with _hq(peer, folder) as run:
        began_s = time.time()
        run("submit", *_QUIET, *_stamping(folder))
        return _stamped_ms(folder, began_s)


# --- systems of Python ---------------------------------------------------------------------------------------


def _python(cell: str, key: str = "per_s") -> dict[str, Measure]:
    def of(system: str) -> Measure:
        return lambda peer, size, folder: answer(peer.python, system, cell, size, folder)[key]

    return {system: of(system) for system in ("ray", "dask", "parsl")}


def _replayed(name: str) -> Measure:
    def rate(peer: Peer, size: int, folder: Path) -> float:
        found = replay_referees.rate(name, peer.python, replay_referees.trace(folder, None, 128, size))
        assert found is not None
        return found

    return rate


CELLS = (
    Cell(
        "no-op processes",
        "jobs/s",
        10_000,
        500,
        our_noop,
        {"xargs": xargs_noop, "parallel": parallel_noop, "hyperqueue": hq_noop, **_python("noop"), "slurm": slurm_noop},
    ),
    Cell(
        "one output file each",
        "jobs/s",
        10_000,
        500,
        our_files,
        {
            "xargs": xargs_files,
            "parallel": parallel_files,
            "hyperqueue": hq_files,
            **_python("files"),
            "slurm": slurm_files,
        },
    ),
    Cell("Python calls, one each", "calls/s", 2_000, 60, our_calls, _python("calls")),
    Cell(
        "groups of one, one by one",
        "groups/s",
        1_000,
        100,
        our_singles,
        {"hyperqueue": hq_singles, "slurm": slurm_singles},
    ),
    Cell(
        f"groups of one, {IN_FLIGHT} in flight",
        "groups/s",
        2_000,
        200,
        our_singles_in_flight,
        {"hyperqueue": hq_singles, "slurm": slurm_singles},
    ),
    Cell(
        "submission of a million",
        "ms",
        1_000_000,
        100_000,
        our_submit,
        {"hyperqueue": hq_submit, "slurm": slurm_submit},
        more=False,
    ),
    Cell(
        "time to the first start",
        "ms",
        1,
        1,
        our_first,
        {"xargs": xargs_first, "hyperqueue": hq_first, **_python("first", "ms"), "slurm": slurm_first},
        more=False,
    ),
    Cell(
        "cancel of a million",
        "ms",
        1_000_000,
        100_000,
        our_cancel,
        {"hyperqueue": hq_cancel, "slurm": slurm_cancel},
        more=False,
    ),
    Cell(
        "idle: processor",
        "% of a core",
        IDLE_S,
        5,
        our_idle_percent,
        {**_python("idle", "percent"), "slurm": slurm_idle_percent},
        more=False,
    ),
    Cell(
        "idle: memory",
        "MiB",
        1,
        1,
        our_idle_mib,
        {**_python("idle", "mib"), "slurm": slurm_idle_mib},
        more=False,
    ),
    Cell(
        "replay of a log, simulated",
        "jobs/s of the processor",
        2_000,
        200,
        our_replay,
        {"accasim": _replayed("accasim"), "simpy": _replayed("simpy")},
        loaded=False,
    ),
)
