"""History learned from past work: run times and outputs per template and user.

Both are part of a site's state, folded from its records, and bounded whatever happens.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from diana.model.job.spec import GroupSpec
from diana.model.sketch import HALF_LIFE, Batch, Quantiles, Sketch

MOST_TEMPLATES = 1000
"""(template, user) pairs remembered; those that ended longest ago are forgotten."""


def template_key(spec: GroupSpec) -> str:
    """Return the key shared by groups whose jobs run alike: command, script, environment, inputs, software and
    resources.

    Left out are the sweep's values, the name, the places of outputs, and limits. Uploaded content counts by its path:
    it differs from one submission to the next though the work does not.
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
        *((spec.runner,) if spec.runner else ()),
        *((need.others,) if need.others else ()),
    )
    return sha256(msgspec.msgpack.encode(what)).hexdigest()[:16]


def group_key(spec: GroupSpec) -> str:
    """Return the key by which the run times of a group's jobs are asked for: their `template_key`. Components that are
    alike have theirs, so that what sites learned of them serves the next such gang; of unlike ones, or such as read
    files alone, it is that of the group, under which nothing is learned where they ran."""
    alike = {each.anywhere() for each in spec.components}
    if len(alike) != 1 or any(each.inputs for each in alike):
        return template_key(spec)
    (own,) = alike
    return template_key(msgspec.structs.replace(spec, resources=spec.of_component(own), argv=own.argv or spec.argv))


def program_key(spec: GroupSpec) -> str:
    """Return the key shared by groups that run the same program with the same things of a site: as `template_key`,
    without inputs, expected run time and memory."""
    need = spec.resources
    had = (spec.container, spec.modules, spec.mpi, need.processors, need.gpus, need.licences)
    others = (need.others,) if need.others else ()
    what = (spec.argv, spec.script, spec.environment, *had, *others)
    return sha256(msgspec.msgpack.encode(what)).hexdigest()[:16]


class RunTimes(msgspec.Struct):
    """Sketches of run times by template and user."""

    sketches: dict[str, Sketch] = {}
    """`TEMPLATE USER` -> its run times, the latest updated last."""

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

    def ratios(self, template: str, user: str) -> Quantiles | None:
        """Return what is known of numbers that lie close together, such as achieved over predicted seconds."""
        sketch = self.sketches.get(f"{template} {user}")
        return sketch.finer_quantiles() if sketch is not None and sketch.buckets else None

    def mean_s(self, template: str, user: str) -> float | None:
        sketch = self.sketches.get(template + " " + user)
        return sketch.mean() if sketch is not None and sketch.buckets else None


class OutputSizes(msgspec.Struct):
    """Bytes that one job leaves to be gathered, by template and user; older jobs fade as with run times."""

    means: dict[str, tuple[float, float]] = {}
    """`KEY USER` -> (weight of the jobs seen, their weighted bytes), the latest updated last."""

    def add(self, key: str, user: str, jobs: int, size_bytes: int) -> None:
        """Add `jobs` done jobs that left `size_bytes` together."""
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
    """Return the key shared by groups whose jobs leave alike outputs: as `template_key`, and they collect the same
    files."""
    what = (template_key(spec), spec.outputs.collect)
    return sha256(msgspec.msgpack.encode(what)).hexdigest()[:16]
