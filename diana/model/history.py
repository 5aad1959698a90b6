"""What past work teaches: run times and outputs per template and user, and how far predictions of groups were off.

Both are part of a site's state, folded from its records, and bounded whatever happens.
"""

from __future__ import annotations

from hashlib import sha256
from math import ceil, exp, log
from typing import NamedTuple

import msgspec

from diana.model.sketch import HALF_LIFE, Batch, Quantiles, Sketch
from diana.model.spec import GroupSpec

MOST_TEMPLATES = 1000
"""(template, user) pairs remembered; those that ended longest ago are forgotten."""
MOST_ERRORS = 200
LEAST_ERRORS = 5
"""Fewer past errors give no range."""


def template_key(spec: GroupSpec) -> str:
    """What two groups have in common whose jobs run alike: command, script, environment, inputs, software and
    resources.

    Not the sweep's values, the name, where outputs go, nor limits. Uploaded content counts by its path: it differs from
    one submission to the next though the work does not.
    """
    need = spec.resources
    what = (
        spec.argv,
        spec.script,
        spec.environment,
        tuple((i.path, "" if i.source.startswith("blob:") else i.source) for i in spec.inputs),
        (need.processors, need.memory_bytes, need.gpus, need.work_s),
        *((spec.container, spec.modules) if spec.container or spec.modules else ()),
        *(("mpi",) if spec.mpi else ()),
    )
    return sha256(msgspec.msgpack.encode(what)).hexdigest()[:16]


def program_key(spec: GroupSpec) -> str:
    """What two groups have in common that run the same program with the same things of a site: as `template_key`, but
    for what they read and how long and with how much memory they are to run."""
    need = spec.resources
    had = (spec.container, spec.modules, spec.mpi, need.processors, need.gpus, need.licences)
    what = (spec.argv, spec.script, spec.environment, *had)
    return sha256(msgspec.msgpack.encode(what)).hexdigest()[:16]


class RunTimes(msgspec.Struct):
    """Sketches by template and user."""

    sketches: dict[str, Sketch] = {}
    """`TEMPLATE USER` -> its run times; the one learned of last stands last."""

    def add(self, template: str, user: str, batch: Batch) -> None:
        name = f"{template} {user}"
        sketch = self.sketches.pop(name, None) or Sketch()
        sketch.add(batch)
        self.sketches[name] = sketch
        if len(self.sketches) > MOST_TEMPLATES:
            del self.sketches[next(iter(self.sketches))]

    def find(self, template: str, user: str) -> Quantiles | None:
        sketch = self.sketches.get(f"{template} {user}")
        return sketch.quantiles() if sketch is not None and sketch.buckets else None

    def mean_s(self, template: str, user: str) -> float | None:
        sketch = self.sketches.get(template + " " + user)
        return sketch.mean() if sketch is not None and sketch.buckets else None


class OutputSizes(msgspec.Struct):
    """Bytes that one job leaves to be gathered, by template and user; older jobs fade as with run times."""

    means: dict[str, tuple[float, float]] = {}
    """`KEY USER` -> (weight of the jobs seen, their weighted bytes); the one learned of last stands last."""

    def add(self, key: str, user: str, jobs: int, size_bytes: int) -> None:
        """So many more jobs were done and left so much together."""
        name = f"{key} {user}"
        weight, total = self.means.pop(name, (0.0, 0.0))
        fade = 0.5 ** (jobs / HALF_LIFE)
        self.means[name] = (weight * fade + jobs, total * fade + size_bytes)
        if len(self.means) > MOST_TEMPLATES:
            del self.means[next(iter(self.means))]

    def mean_bytes(self, key: str, user: str) -> float | None:
        weight, total = self.means.get(f"{key} {user}", (0.0, 0.0))
        return total / weight if weight else None


def outputs_key(spec: GroupSpec) -> str:
    """As `template_key`, for what jobs leave: they collect the same files, too."""
    what = (template_key(spec), spec.outputs.collect)
    return sha256(msgspec.msgpack.encode(what)).hexdigest()[:16]


class PastError(NamedTuple):
    """Of predicted ends of whole groups."""

    low: float
    """achieved/predicted that one in ten stays below; at most 1."""
    high: float
    """That one in ten exceeds; at least 1."""
    median: float
    """Median of |achieved/predicted - 1|."""
    groups: int
    """They rest on; 0: too few, the others mean nothing."""


class Errors(msgspec.Struct):
    """ln(achieved/predicted) of the last groups that ran as they were planned."""

    logs: list[float] = []

    def add(self, predicted_s: float, achieved_s: float) -> None:
        """What is shorter than a millisecond counts as one."""
        self.logs = [*self.logs, log(max(achieved_s, 1e-3) / max(predicted_s, 1e-3))][-MOST_ERRORS:]

    def past(self) -> PastError:
        if len(self.logs) < LEAST_ERRORS:
            return PastError(1.0, 1.0, 0.0, 0)
        factors = sorted(exp(one) for one in self.logs)
        off = sorted(abs(factor - 1.0) for factor in factors)
        last = len(factors) - 1
        low, high = factors[int(0.1 * last)], factors[ceil(0.9 * last - 1e-9)]
        return PastError(min(1.0, low), max(1.0, high), off[last // 2], len(factors))
