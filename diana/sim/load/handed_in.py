"""The group that a user of a scenario hands in, as the job file would give it, and the datasets it reads."""

from __future__ import annotations

import hashlib
from itertools import accumulate
from typing import NamedTuple

from diana.model.data import DataFile, RegisteredDataset
from diana.model.indexset import IndexSet
from diana.model.job.components import request_of
from diana.model.job.gang import COMPONENT
from diana.model.job.spec import (
    Axis,
    CheckpointSpec,
    ContractSpec,
    FlexibleSpec,
    GroupSpec,
    InputFile,
    Outputs,
    Sweep,
)
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.work_spec import WorkSpec


class Share(NamedTuple):
    """The share of one site in a forced plan: so many of the entry's jobs from `first` on."""

    site: str
    first: int
    jobs: int


def shares(work: WorkSpec) -> tuple[Share, ...]:
    """Shares of a forced plan, in the order written."""
    firsts = accumulate(work.forced.values(), initial=0)
    return tuple(Share(site, first, jobs) for (site, jobs), first in zip(work.forced.items(), firsts, strict=False))


def dataset(spec: DatasetSpec) -> tuple[RegisteredDataset, tuple[DataFile, ...]]:
    """The dataset and its files."""
    names = sorted(f"f{k}" for k in range(spec.files))
    files = tuple(
        DataFile(f"dataset:{spec.name}/{n}", spec.file_bytes, hashlib.sha256(f"{spec.name}/{n}".encode()).hexdigest())
        for n in names
    )
    digest = hashlib.sha256("\n".join(f.sha256 for f in files).encode()).hexdigest()
    size_bytes = spec.files * spec.file_bytes
    return RegisteredDataset(name=spec.name, digest=digest, files=spec.files, size_bytes=size_bytes), files


def gang_size(work: WorkSpec) -> int:
    """Components of each job; 1 for ordinary jobs."""
    if not work.components:
        return 1
    asked = request_of(work.components)
    return asked.most if isinstance(asked, FlexibleSpec) else sum(each.count for each in asked)


def slowdown_of(work: WorkSpec, scenario: Scenario) -> tuple[float, ...]:
    """Factors by which its gangs truly run over 1, 2, 3, ... sites."""
    costs = scenario.communication
    if not work.components:
        return ()
    return costs.applications[work.communication] if work.communication else costs.slowdown


def group_spec(
    work: WorkSpec, name: str, scenario: Scenario, share: Share | None
) -> tuple[GroupSpec, tuple[tuple[str, IndexSet], ...]]:
    """The group as the job file would give it, and its rendered input refs."""
    first, jobs = (share.first, share.jobs) if share else (0, work.jobs)
    asked = request_of(work.components) if work.components else ()
    sweep = Sweep(axes=(Axis(name="n", start=first, stop=first + jobs),))
    if asked:
        jobs *= gang_size(work)
        sweep = Sweep(axes=(*sweep.axes, Axis(name=COMPONENT, start=0, stop=gang_size(work))))
    inputs: tuple[InputFile, ...] = ()
    refs: tuple[tuple[str, IndexSet], ...] = ()
    if work.file_per_job:
        sizes = {d.name: d.files for d in scenario.datasets}
        made = {w.produces: w.jobs for w in scenario.workload}
        names = ((d, f"f{k}") if d in sizes else (d, f"{k}.out") for d in work.inputs for k in range((sizes | made)[d]))
        files = tuple(f"{d}/{file}" for d, file in names)[first : first + jobs]
        sweep = Sweep(axes=(Axis(name="file", values=files),))
        inputs = (InputFile(source="dataset:{file}", path="input"),)
        refs = tuple((f"dataset:{f}", IndexSet.span(k, k + 1)) for k, f in enumerate(files))
    elif work.inputs:
        inputs = tuple(InputFile(source=f"dataset:{d}", path=d) for d in work.inputs)
        refs = tuple((f"dataset:{d}", IndexSet.span(0, jobs)) for d in work.inputs)
    outputs = (
        Outputs(collect=("{index}.out",), merge=("merge",) if work.merge else (), dataset=work.produces)
        if work.output_bytes
        else Outputs()
    )
    spec = GroupSpec(
        name=name,
        argv=("simulated",),
        resources=work.each,
        sweep=sweep,
        inputs=inputs,
        outputs=outputs,
        sites=(share.site,) if share else work.sites,
        on_crash=work.on_crash,
        on_site_lost=work.on_site_lost,
        preemptible=work.preemptible,
        max_parallel=work.max_parallel,
        max_subgroup=work.max_subgroup,
        container=work.container,
        modules=work.modules,
        requirements=work.requirements,
        link_requirements=work.link_requirements,
        set_requirements=work.set_requirements,
        rank=work.rank,
        components=() if isinstance(asked, FlexibleSpec) else asked,
        flexible=asked if isinstance(asked, FlexibleSpec) else None,
        gang_placement=work.gang_placement,
        gang_level=work.gang_level,
        slowdown=work.gang_slowdown or slowdown_of(work, scenario),
        checkpoint=CheckpointSpec(paths=("state",)) if work.checkpoint else None,
        contract=ContractSpec(yields=work.yields) if work.contract else None,
    )
    return spec, refs
