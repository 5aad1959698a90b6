"""The jobs of others in a site's batch system, one after the other as they come: drawn, or from a log."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diana.sim.kernel import chance
from diana.sim.load import generators as gen
from diana.sim.load import swf
from diana.sim.load.usable import Work, choose
from diana.sim.specs.lrm_spec import BackgroundSpec

BLOCK = 1024
"""Jobs drawn at once. With drawn sizes each block by itself offers the load that was asked for."""


class Other(NamedTuple):
    """Somebody's job, at the speed of that site."""

    submit_s: float
    processors: int
    run_s: float
    estimate_s: float


def jobs(spec: BackgroundSpec, processors: int, seed: int, name: str) -> Iterator[Other]:
    """Jobs in order of submission, for a machine of so many processors; the drawn ones depend on seed and name
    alone."""
    every = _logged(spec, processors) if spec.trace else _drawn(spec, processors, chance.columns(seed, name))
    return takewhile(lambda job: job.submit_s < spec.until_s, every) if spec.until_s else every


def check_trace(spec: BackgroundSpec, processors: int, at: str) -> None:
    """ValueError: nothing of the log could run there; UsageError: it cannot be read."""
    work = _usable(spec.trace, processors)
    if not len(work):
        raise ValueError(
            f"{at}: trace = {spec.trace!r}: none of its jobs fits {processors} processors; give more slots"
        )
    if not len(_from(work, spec.from_s)):
        last_s = float(work.submit_s[-1] - work.submit_s[0])
        raise ValueError(f"{at}: from_s = {spec.from_s:g}: the last job of the trace comes at {last_s:g} s; want less")


@lru_cache(maxsize=4)
def _usable(trace: str, processors: int) -> Work:
    return choose(swf.read(Path(trace)), processors)[0]


def _from(work: Work, from_s: float) -> Work:
    first = int(np.searchsorted(work.submit_s, work.submit_s[0] + from_s))
    return Work(work.submit_s[first:], work.run_s[first:], work.processors[first:], work.estimate_s[first:])


def _logged(spec: BackgroundSpec, processors: int) -> Iterator[Other]:
    whole = _usable(spec.trace, processors)
    work = _from(whole, spec.from_s)
    times_s = work.submit_s - (whole.submit_s[0] + spec.from_s)
    span_s = float(work.submit_s[-1] - work.submit_s[0])
    if spec.load and span_s > 0:
        offered_s = float(np.dot(work.run_s, work.processors))
        times_s = gen.scaled_to_load(times_s, span_s, offered_s, processors, spec.load)
    for part in swf.chunks(len(work)):
        yield from map(
            Other._make,
            zip(
                (spec.begin_s + times_s[part]).tolist(),
                work.processors[part].tolist(),
                work.run_s[part].tolist(),
                work.estimate_s[part].tolist(),
                strict=True,
            ),
        )


def _drawn(spec: BackgroundSpec, processors: int, rng: np.random.Generator) -> Iterator[Other]:
    now_s, model = spec.begin_s, gen.LUBLIN["all"]
    while True:
        if spec.sizes == "lublin":
            widths = gen.lublin_processors(rng, BLOCK, model, processors)
            runs_s = gen.lublin_run_s(rng, widths, model)
            mean_s = float(np.dot(widths, runs_s)) / BLOCK
        else:
            widths = np.full(BLOCK, spec.processors, dtype=np.int64)
            runs_s = rng.exponential(spec.run_s, BLOCK)
            mean_s = spec.processors * spec.run_s
        times_s = now_s + gen.poisson_s(rng, BLOCK, mean_s / (spec.load * processors))
        now_s = float(times_s[-1])
        rows = zip(
            times_s.tolist(), widths.tolist(), runs_s.tolist(), (spec.request_factor * runs_s).tolist(), strict=True
        )
        yield from map(Other._make, rows)
