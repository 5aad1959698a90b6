"""`diana simulate --trace`: the usable jobs of a log through one batch system, and the figures of SPEC section 7."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from diana.errors import UsageError
from diana.sim.load import swf
from diana.sim.load.usable import Work, choose
from diana.sim.twins.batch import BatchMachine, Discipline

SLOWDOWN_BOUND_S = 10.0
"""Least run time in a slowdown: a shorter job counts as this long, so that a second of waiting is no disaster to a job
of a second."""


def replay(work: Work, processors: int, discipline: Discipline) -> swf.Real:
    """Start of each job, in seconds of the log."""
    batch = BatchMachine(processors, discipline)
    starts_s = np.empty(len(work))
    arrivals = _arrivals(work)
    coming = next(arrivals, None)
    while coming is not None or batch.running:
        now_s = batch.next_s() if coming is None else min(batch.next_s(), coming[0])
        while coming is not None and coming[0] == now_s:
            batch.submit(*coming[1:])
            coming = next(arrivals, None)
        for job in batch.advance(now_s).started:
            starts_s[job] = now_s
    return starts_s


def _arrivals(work: Work) -> Iterator[tuple[float, int, int, float, float]]:
    """(time, job, processors, run, estimate), as Python's own numbers."""
    for part in swf.chunks(len(work)):
        yield from zip(
            work.submit_s[part].tolist(),
            range(part.start, part.stop),
            work.processors[part].tolist(),
            work.run_s[part].tolist(),
            work.estimate_s[part].tolist(),
            strict=True,
        )


def figures(work: Work, processors: int, starts_s: swf.Real) -> dict[str, float]:
    """Bounded slowdown: (wait + run) / max(run, 10 s), at least 1 (Feitelson et al., JSSPP 1997)."""
    waits_s = starts_s - work.submit_s
    ends_s = starts_s + work.run_s
    slowdowns = np.maximum((waits_s + work.run_s) / np.maximum(work.run_s, SLOWDOWN_BOUND_S), 1.0)
    last_end = float(ends_s.max())
    median_s, p95_s = np.percentile(waits_s, (50, 95)).tolist()
    offered_s = processors * (last_end - float(work.submit_s[0]))
    return {
        "mean_wait_s": float(waits_s.mean()),
        "median_wait_s": median_s,
        "p95_wait_s": p95_s,
        "max_wait_s": float(waits_s.max()),
        "last_end": last_end,
        "mean_bounded_slowdown": float(slowdowns.mean()),
        "utilisation": float((work.run_s * work.processors).sum()) / offered_s,
    }


def report(
    path: Path,
    discipline: Discipline,
    processors: int | None = None,
    first: int | None = None,
    partition: int | None = None,
) -> dict[str, Any]:
    """The report that `--json` prints. UsageError for a trace that cannot be read, or that has no job that can run."""
    log = swf.read(path)
    width = processors or log.max_processors()
    if not width:
        raise UsageError(f"trace {path}: its header has no MaxProcs above 0; say --processors P")
    work, left_out = choose(log, width, first, partition)
    if not len(work):
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise UsageError(
            f"trace {path}: none of its jobs can run on {width} processors ({why}); {_other_mend(log, partition)}"
        )
    starts_s = replay(work, width, discipline)
    return {
        "trace": str(path),
        "lrm": discipline.value,
        "processors": width,
        "jobs": len(work),
        "jobs_in_trace": len(log.jobs),
        **{key: _plain(value) for key, value in figures(work, width, starts_s).items()},
        "left_out": left_out,
        "noticed": log.noticed(),
    }


def run(
    path: str | Path,
    lrm: str,
    processors: int | None = None,
    first: int | None = None,
    partition: int | None = None,
    as_json: bool = False,
    out: TextIO | None = None,
) -> int:
    """Always 0: there is nothing a trace could break. UsageError as `report`."""
    found = report(Path(path), Discipline(lrm), processors, first, partition)
    (out or sys.stdout).write(json.dumps(found, indent=2) + "\n" if as_json else table(found))
    return 0


def table(found: dict[str, Any]) -> str:
    """The report for people: a line per figure, then what was left out and what is odd about the file."""
    lines = []
    for key, value in found.items():
        if isinstance(value, dict):
            lines += [f"{key.replace('_', ' ')}:", *(f"  {_words(what):<22} {n:>12,}" for what, n in value.items())]
            if not value:
                lines[-1] += " nothing"
        else:
            shown = value if isinstance(value, str) else f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"
            lines.append(f"{key:<24} {shown:>12}")
    return "\n".join(lines) + "\n"


def _words(reason: str) -> str:
    return reason.replace("_", " ")


def _plain(value: float) -> float | int:
    """The value, as a whole number if it is one: logs are in whole seconds, and so are figures that are no means."""
    return int(value) if value.is_integer() else value


def _other_mend(log: swf.SwfLog, partition: int | None) -> str:
    if partition is not None and not (log.jobs.partition == partition).any():
        there = np.unique(log.jobs.partition)
        if there[-1] < 0:
            return "the trace names no partitions, leave --partition out"
        return f"--partition is one of its {len(there)} from {there[0]} to {there[-1]}"
    return "name another trace or more --processors"
