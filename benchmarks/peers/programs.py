"""Cells as other systems of Python run them, each by an interpreter that has the system.

    PYTHON benchmarks/peers/programs.py ray|dask|parsl noop|files|calls|first|idle SIZE FOLDER

prints one JSON line. The system is started before the clock, two workers, and ended after it. It knows nothing of
diana.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Run = Callable[[Callable[[Any], Any], list[Any]], None]
"""Calls the function with each argument, a task each, and waits for all."""


# Each brings its imports: one of the systems sends the text of a function and nothing around it.
def noop(_: Any) -> int:
    import os

    return os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1]


def file(path: str) -> None:
    from pathlib import Path

    Path(path).write_text("x\n")


def square(number: int) -> int:
    return number * number


def stamp(path: str) -> None:
    import time
    from pathlib import Path

    Path(path).write_text(repr(time.time()))


@contextmanager
def ray() -> Iterator[Run]:
    import ray as r  # type: ignore[import-not-found]

    r.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")

    def run(function: Callable[[Any], Any], arguments: list[Any]) -> None:
        task = r.remote(function)
        r.get([task.remote(one) for one in arguments])

    yield run
    r.shutdown()


@contextmanager
def dask() -> Iterator[Run]:
    from distributed import Client, LocalCluster  # type: ignore[import-not-found]

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield lambda function, arguments: client.gather(client.map(function, arguments, pure=False)) and None


@contextmanager
def parsl() -> Iterator[Run]:
    import parsl as p  # type: ignore[import-not-found]
    from parsl.config import Config  # type: ignore[import-not-found]
    from parsl.executors import HighThroughputExecutor  # type: ignore[import-not-found]
    from parsl.providers import LocalProvider  # type: ignore[import-not-found]

    provider = LocalProvider(init_blocks=1, max_blocks=1)
    executor = HighThroughputExecutor(address="127.0.0.1", max_workers_per_node=2, provider=provider)
    with p.load(Config(executors=[executor], usage_tracking=0, run_dir="parsl-runs")):

        def run(function: Callable[[Any], Any], arguments: list[Any]) -> None:
            app = p.python_app(function)
            for future in [app(one) for one in arguments]:
                future.result()

        yield run


def tree(pid: int) -> list[int]:
    found = [pid]
    for child in found:
        for task in Path(f"/proc/{child}/task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def cost(pids: list[int]) -> tuple[float, float]:
    """(seconds of the processor, proportional MiB) of these processes."""
    ticks, kib = 0, 0
    for pid in pids:
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        ticks += int(words[11]) + int(words[12])
        kib += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return ticks / os.sysconf("SC_CLK_TCK"), kib / 1024


def idle(seconds: float) -> dict[str, float]:
    time.sleep(2.0)
    pids = tree(os.getpid())
    before_s, began_s = cost(pids)[0], time.monotonic()
    time.sleep(seconds)
    spent_s, mib = cost(pids)
    return {"percent": 100 * (spent_s - before_s) / (time.monotonic() - began_s), "mib": mib}


def measured(run: Run, cell: str, size: int, folder: Path) -> dict[str, float]:
    run(square, [1, 2])
    began_s = time.time()
    if cell == "noop":
        run(noop, list(range(size)))
    elif cell == "files":
        run(file, [str(folder / f"out-{number}") for number in range(size)])
    elif cell == "calls":
        run(square, list(range(size)))
    elif cell == "first":
        run(stamp, [str(folder / "stamp")])
        return {"ms": 1000 * (float((folder / "stamp").read_text()) - began_s)}
    else:
        return idle(float(size))
    return {"per_s": size / (time.time() - began_s)}


def main() -> None:
    system, cell, size, folder = sys.argv[1:]
    with {"ray": ray, "dask": dask, "parsl": parsl}[system]() as run:
        found = measured(run, cell, int(size), Path(folder))
    print("\n" + json.dumps(found), flush=True)


def answer(python: str, system: str, cell: str, size: int, folder: Path) -> dict[str, float]:
    """Run a cell in the interpreter; RuntimeError with its last line where that fails."""
    words = [python, __file__, system, cell, str(size), str(folder)]
    # Some start programs of their own by name.
    environment = {**os.environ, "PATH": f"{Path(python).parent}:{os.environ.get('PATH', '')}"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False, cwd=folder, env=environment)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no word"]
        raise RuntimeError(f"{system}: {said[-1][:160]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
