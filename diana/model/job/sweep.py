"""The parameters of a group's jobs, by arithmetic: job `index` is a number in a mixed radix, so nothing is listed.

Digits from slow to fast: the table's row (if there is a table), then the axes as written; the last axis is fastest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from diana.model.indexset import IndexSet
from diana.model.job.spec import Axis, ComponentSpec, GroupSpec, InputFile, Sweep
from diana.model.job.template import Template, compile_template

Rows = Sequence[Sequence[str]]

_row_encoder = msgspec.json.Encoder()
_row_decoder = msgspec.json.Decoder(list[str])


def axis_size(axis: Axis) -> int:
    return len(axis.values) or len(range(axis.start, axis.stop, axis.step))


def sweep_size(sweep: Sweep) -> int:
    """Number of jobs a sweep makes; 1 without axes or table."""
    return math.prod(map(axis_size, sweep.axes)) * (sweep.table.rows if sweep.table else 1)


def sweep_names(sweep: Sweep) -> tuple[str, ...]:
    """Names of the swept values: the table's columns, then the axes."""
    return (sweep.table.columns if sweep.table else ()) + tuple(axis.name for axis in sweep.axes)


def encode_rows(rows: Iterable[Sequence[str]]) -> bytes:
    """The content of a table's blob: one JSON array of strings per line."""
    return _row_encoder.encode_lines(rows)


def decode_rows(blob: bytes) -> list[list[str]]:
    """Inverse of `encode_rows`; msgspec.DecodeError for anything else."""
    return _row_decoder.decode_lines(blob)


class Parameters:
    """The swept values of each job. `rows` is the table's content, all of it; without it `of` can only serve
    sweeps that have no table."""

    __slots__ = ("_axes", "_columns", "_period", "_rows", "names", "size")

    def __init__(self, sweep: Sweep, rows: Rows | None = None) -> None:
        self.size = sweep_size(sweep)
        self.names = sweep_names(sweep)
        self._columns = sweep.table.columns if sweep.table else ()
        if sweep.table and rows is not None and len(rows) != sweep.table.rows:
            raise ValueError(f"table of {sweep.table.rows} rows: got {len(rows)}")
        self._rows = rows
        # Fastest first, as digits are split off.
        self._axes = tuple((axis.name, _values(axis), axis_size(axis)) for axis in reversed(sweep.axes))
        self._period = math.prod(map(axis_size, sweep.axes))

    def of(self, index: int) -> dict[str, str]:
        """The values of job `index`, by name; `{index}` and `{group}` are the caller's. IndexError beyond `size`."""
        if not 0 <= index < self.size:
            raise IndexError(f"job {index} of {self.size}")
        out: dict[str, str] = {}
        for name, values, size in self._axes:
            index, digit = divmod(index, size)
            out[name] = str(values[digit])
        if self._columns:
            if self._rows is None:
                raise ValueError("the sweep's table is not loaded")
            out.update(zip(self._columns, self._rows[index], strict=True))
        return out

    def factors(self, names: frozenset[str]) -> tuple[list[_Factor], list[_Factor]]:
        """The digits of an index, slow to fast: those that decide any of `names`, and the others (sizes above 1)."""
        used: list[_Factor] = []
        free: list[_Factor] = []
        stride = 1
        for name, values, size in self._axes:
            if name in names:
                used.append(_Factor(stride, size, [{name: str(value)} for value in values]))
            elif size > 1:
                free.append(_Factor(stride, size, []))
            stride *= size
        if self._columns:
            wanted = [at for at, column in enumerate(self._columns) if column in names]
            size = self.size // stride if stride else 0
            if wanted:
                used.append(_Factor(stride, size, self._columns_of(wanted)))
            elif size > 1:
                free.append(_Factor(stride, size, []))
        return used[::-1], free[::-1]

    def _columns_of(self, wanted: list[int]) -> list[Mapping[str, str]]:
        if self._rows is None:
            raise ValueError("the sweep's table is not loaded")
        if len(wanted) == 1:
            at = wanted[0]
            name = self._columns[at]
            return [{name: row[at]} for row in self._rows]
        return [{self._columns[at]: row[at] for at in wanted} for row in self._rows]


class _Factor:
    """One digit: its weight in the index, the number of its values, and (for used digits) the parameters each value
    sets."""

    __slots__ = ("params", "size", "stride")

    def __init__(self, stride: int, size: int, params: Sequence[Mapping[str, str]]) -> None:
        self.stride = stride
        self.size = size
        self.params = params


def _values(axis: Axis) -> Sequence[str] | range:
    return axis.values or range(axis.start, axis.stop, axis.step)


_Readers = dict[str, IndexSet | list[IndexSet]]
"""Readers of each ref: one set, as nearly always, or a list of sets to be united."""


def refs_of(spec: GroupSpec, parameters: Parameters) -> tuple[tuple[str, IndexSet], ...]:
    """Every `dataset:`, `url:` or `blob:` ref the inputs of the group and of its components render to, with the jobs
    that read it; the table's blob too, for all jobs. Sorted by ref.

    Costs one step per distinct combination of the values a source names, never one per job, unless the source
    names `{index}`; inputs of a component cost one step per gang. Sources must not name `{group}`: it is not known yet.
    """
    readers: _Readers = {}
    everyone = IndexSet.span(0, parameters.size)
    if spec.sweep.table:
        _add(readers, f"blob:{spec.sweep.table.blob}", everyone)
    _add_inputs(readers, spec.inputs, parameters)
    for each, members in _components(spec):
        own: _Readers = {}
        _add_inputs(own, each.inputs, parameters)
        gangs = range(0, parameters.size, spec.gang_size)
        mine = IndexSet.union(IndexSet.span(gang + members[0], gang + members[1]) for gang in gangs)
        for ref, jobs in own.items():
            # A name that varies by rank renders to those of all ranks.
            if its := (jobs if isinstance(jobs, IndexSet) else IndexSet.union(jobs)) & mine:
                _add(readers, ref, its)
    return tuple(
        (ref, jobs if isinstance(jobs, IndexSet) else IndexSet.union(jobs)) for ref, jobs in sorted(readers.items())
    )


def _components(spec: GroupSpec) -> Iterable[tuple[ComponentSpec, tuple[int, int]]]:
    """Yield the components that read something of their own, each with the first of its ranks and the one behind the
    last."""
    rank = 0
    for each in spec.components:
        if each.inputs:
            yield each, (rank, rank + each.count)
        rank += each.count


def _add_inputs(readers: _Readers, inputs: Sequence[InputFile], parameters: Parameters) -> None:
    everyone = IndexSet.span(0, parameters.size)
    for source in dict.fromkeys(i.source for i in inputs):
        template = compile_template(source)
        if not template.names:
            _add(readers, template.render({}), everyone)
        elif "index" in template.names:
            _add_each(readers, template, parameters)
        else:
            _add_by_factor(readers, template, parameters)


def _add(readers: _Readers, ref: str, jobs: IndexSet) -> None:
    had = readers.get(ref)
    if had is None:
        readers[ref] = jobs
    elif isinstance(had, IndexSet):
        readers[ref] = [had, jobs]
    else:
        had.append(jobs)


def _add_each(readers: _Readers, template: Template, parameters: Parameters) -> None:
    swept = len(template.names) > 1
    params: dict[str, str] = {}
    for index in range(parameters.size):
        if swept:
            params = parameters.of(index)
        params["index"] = str(index)
        _add(readers, template.render(params), IndexSet((index, index + 1)))


def _add_by_factor(readers: _Readers, template: Template, parameters: Parameters) -> None:
    """Add the readers of each text the template renders to. Each choice of the digits it names is fixed; the free
    digits faster than all of these make a run of neighbours, and the slower free digits repeat that run."""
    used, free = parameters.factors(template.names)
    # A digit with one value only decides nothing; were it to set the run, neighbours would come apart.
    run = min((factor.stride for factor in used if factor.size > 1), default=parameters.size)
    offsets = [0]
    for factor in free:
        if factor.stride > run:
            offsets = [o + digit * factor.stride for o in offsets for digit in range(factor.size)]
    alone = len(offsets) == 1
    for base, params in _combined(used):
        if alone:
            jobs = IndexSet((base, base + run))
        else:
            jobs = IndexSet(tuple(b for o in offsets for b in (o + base, o + base + run)))
        _add(readers, template.render(params), jobs)


def _combined(used: list[_Factor]) -> Iterable[tuple[int, Mapping[str, str]]]:
    """Yield every combination of the factors' digits: its weight in the index and the parameters it sets."""
    if len(used) == 1:
        yield from _weighed(used[0])
        return
    for chosen in itertools.product(*map(_weighed, used)):
        yield sum(weight for weight, _ in chosen), {n: v for _, one in chosen for n, v in one.items()}


def _weighed(factor: _Factor) -> Iterable[tuple[int, Mapping[str, str]]]:
    return zip(range(0, factor.size * factor.stride, factor.stride), factor.params, strict=True)
