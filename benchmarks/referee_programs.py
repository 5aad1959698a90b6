"""Other simulators over an SWF trace of one machine, strict FCFS, run by an interpreter that has them.

    PYTHON benchmarks/referee_programs.py accasim|simpy TRACE PROCESSORS FOLDER

prints JSON: seconds of the processor and the mean wait. It knows nothing of diana.
"""

from __future__ import annotations

import collections
import collections.abc
import json
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any


def rows(path: Path) -> list[tuple[int, int, int]]:
    """(submit, run, processors) of each job."""
    words = (line.split() for line in path.read_text().splitlines() if line and not line.startswith(";"))
    return [(int(w[1]), int(w[3]), int(w[7])) for w in words]


def accasim(path: Path, processors: int, folder: Path) -> float:
    # Its last release, of 2021, looks for what Python 3.10 moved.
    for name in ("Mapping", "MutableMapping", "Sequence", "Iterable", "Callable"):
        vars(collections).setdefault(name, getattr(collections.abc, name))
    from accasim.base.allocator_class import FirstFit  # type: ignore[import-not-found]
    from accasim.base.scheduler_class import FirstInFirstOut  # type: ignore[import-not-found]
    from accasim.base.simulator_class import Simulator  # type: ignore[import-not-found]

    system = folder / "system.json"
    node = {"core": 1, "mem": 1 << 40}
    system.write_text(json.dumps({"groups": {"node": node}, "resources": {"node": processors}}))
    made = Simulator(
        str(path),
        str(system),
        FirstInFirstOut(FirstFit()),
        scheduling_output=True,
        statistics_output=False,
        show_statistics=False,
        RESULTS_FOLDER_NAME=str(folder / "results"),
    )
    made.start_simulation()
    [plan] = (folder / "results").glob("sched-*")
    waits = [_wait_s(line) for line in plan.read_text().splitlines()]
    return sum(waits) / len(waits)


def _wait_s(line: str) -> float:
    """The wait in a line of AccaSim's plan: `job;user;QUEUED__processors__STARTED;ENDED;...`."""
    queued, _, started = line.split(";", 2)[2].split("__")
    return (datetime.fromisoformat(started.split(";")[0]) - datetime.fromisoformat(queued)).total_seconds()


def simpy(path: Path, processors: int, folder: Path) -> float:
    """One process per job, one server queue: who is first waits until there is room for it."""
    import simpy as sp  # type: ignore[import-not-found]

    env: Any = sp.Environment()
    cores = sp.Container(env, processors, init=processors)
    waited = 0.0

    def job(run_s: int, wide: int) -> Any:
        nonlocal waited
        came_s = env.now
        yield cores.get(wide)
        waited += env.now - came_s
        yield env.timeout(run_s)
        yield cores.put(wide)

    def users() -> Any:
        for submit_s, run_s, wide in jobs:
            yield env.timeout(max(0, submit_s - env.now))
            env.process(job(run_s, wide))

    jobs = rows(path)
    env.process(users())
    env.run()
    return waited / len(jobs)


def main() -> None:
    program, trace, processors, folder = sys.argv[1:]
    run = {"accasim": accasim, "simpy": simpy}[program]
    began_s = time.process_time()
    mean_wait_s = run(Path(trace), int(processors), Path(folder))
    print("\n" + json.dumps({"seconds": time.process_time() - began_s, "mean_wait_s": mean_wait_s}))


if __name__ == "__main__":
    main()
