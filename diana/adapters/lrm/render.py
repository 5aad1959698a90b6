"""Renders a template and indices into the spawner's orders: only here does a job of a group get text of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from diana.adapters.lrm.spawner.protocol import Collected, Order
from diana.adapters.lrm.wanted import given, told
from diana.model.ids import GroupId, SubgroupId, job_id
from diana.model.job.checkpoint import SavedJob
from diana.model.job.output_names import OutputNames, parts_below
from diana.model.job.spec import GroupSpec
from diana.model.job.sweep import Parameters, Rows
from diana.model.job.template import compile_template


class Input(NamedTuple):
    source: str
    path: str
    executable: bool
    link: bool
    """True if it is to be a link, however small it is."""


class JobText(NamedTuple):
    """One job's rendered text."""

    argv: list[str]
    environment: list[tuple[str, str]]
    stdout: str
    stderr: str
    collects: list[Collected]


class Renderer:
    """Compiled templates of one group. ValueError for a template or path that cannot stand."""

    def __init__(self, spec: GroupSpec, group: GroupId, rows: Rows | None, before: Sequence[str] = ()) -> None:
        """`before`: words that stand before each command, and become it when all is ready."""
        self.spec = spec
        self._before = before
        self._group = group
        self._argv = [compile_template(text) for text in spec.argv]
        self._environment = [(name, compile_template(text)) for name, text in spec.environment]
        self._outputs = OutputNames(spec)
        self._inputs = [(compile_template(i.source), compile_template(i.path), i) for i in spec.inputs]
        self._parameters = Parameters(spec.sweep, rows)
        restart = spec.checkpoint.restart if spec.checkpoint else ()
        self._restart = [compile_template(text) for text in restart]
        self._argv_varies = any(t.names for t in self._argv)
        self._environment_varies = any(t.names for _, t in self._environment)

    def params(self, index: int) -> dict[str, str]:
        """ValueError, LookupError, OSError: the table has no such row or cannot be read."""
        params = self._parameters.of(index)
        params["index"] = str(index)
        params["group"] = self._group
        return params

    def inputs(self, index: int) -> list[Input]:
        if not self._inputs:
            return []
        params = self.params(index)
        return [Input(s.render(params), p.render(params), i.executable, i.link) for s, p, i in self._inputs]

    def text(self, index: int) -> JobText:
        """ValueError for a path that leaves the job's directory."""
        params = self.params(index)
        return JobText(
            [t.render(params) for t in self._argv],
            [(name, t.render(params)) for name, t in self._environment] if self._environment_varies else [],
            self._outputs.stdout.render(params),
            self._outputs.stderr.render(params),
            [*map(told, self._outputs.of(params, index)), *self._given(params)],
        )

    def _given(self, params: Mapping[str, str]) -> list[Collected]:
        """Return the inputs and the link to the machine's build: no pattern finds them."""
        if not self.spec.outputs.finds:
            return []
        inputs = [
            given("/".join(parts_below(path.render(params))), source.render(params)) for source, path, _ in self._inputs
        ]
        return [*inputs, given(self.spec.program)] if self.spec.builds else inputs

    def order(
        self,
        subgroup: SubgroupId,
        epoch: int,
        indices: list[int],
        attempts: dict[int, int],
        *,
        directory: str,
        grace_s: float,
        program: Sequence[str] = (),
        account: str = "",
        lease: str = "",
        saved: Mapping[int, SavedJob] | None = None,
    ) -> Order:
        """`program` stands before the rendered argv (the script's path). `saved`: checkpoints that some go on from.
        ValueError, OSError as `text`."""
        spec = self.spec
        own = spec.needs_directory() and not directory
        plain = not own and not self._argv_varies and not self._environment_varies
        texts = [] if plain else [self.text(index) for index in indices]
        none: dict[str, str] = {}
        saved = saved or {}
        numbers = [attempts.get(index, 1) for index in indices]
        collects = [text.collects for text in texts] if own else []
        if own and spec.checkpoint is not None:
            rows = zip(indices, numbers, collects, strict=True)
            collects = [
                [*some, *map(told, self._outputs.saved(self.params(i), i, attempt))] for i, attempt, some in rows
            ]
        argvs = [[*program, *text.argv] for text in texts] if self._argv_varies else []
        if saved and self._restart:
            argvs = [
                [t.render(self.params(i)) for t in self._restart] if i in saved else [*program, *text.argv]
                for i, text in zip(indices, texts, strict=True)
            ]
        return Order(
            subgroup=subgroup,
            epoch=epoch,
            group=self._group,
            processors=spec.resources.processors,
            time_limit_s=spec.resources.time_limit_s,
            memory_bytes=spec.resources.memory_bytes,
            gpus=spec.resources.gpus,
            log_limit_bytes=spec.log_limit_bytes,
            own_directory=own,
            directory=directory,
            indices=indices,
            attempts=numbers if attempts else [],
            argv=[] if argvs else [*program, *(t.render(none) for t in self._argv)],
            argvs=argvs,
            environment=[] if self._environment_varies else [(n, t.render(none)) for n, t in self._environment],
            environments=[text.environment for text in texts] if self._environment_varies else [],
            stdouts=[text.stdout for text in texts] if own and spec.stdout else [],
            stderrs=[text.stderr for text in texts] if own and spec.stderr else [],
            collects=collects,
            account=account,
            lease=lease,
            before=list(self._before),
            contained=bool(self._before and spec.container),
            licences=list(spec.resources.licences),
            mpi=spec.mpi,
            reports=spec.reports,
            saves=own and spec.checkpoint is not None,
            grace_s=grace_s,
            scratch_bytes=spec.resources.scratch_bytes,
            checkpoints=[_name(self._group, saved.get(index)) for index in indices] if saved else [],
        )


def _name(group: GroupId, job: SavedJob | None) -> str:
    """Return a checkpoint's name, as a job is told it; empty: there is none."""
    return f"{job_id(group, job.index)}@{job.attempt}" if job is not None else ""
