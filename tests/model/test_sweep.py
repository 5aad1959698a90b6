"""Sweeps by arithmetic against the plain product, refs against one look at every job."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.indexset import IndexSet
from diana.model.job.spec import Axis, GroupSpec, InputFile, Sweep, Table
from diana.model.job.sweep import Parameters, decode_rows, encode_rows, refs_of, sweep_size
from diana.model.job.template import compile_template

NAMES = ("a", "b", "c", "d")


@st.composite
def axes(draw: st.DrawFn) -> tuple[Axis, ...]:
    out = []
    for name in NAMES[: draw(st.integers(0, 3))]:
        if draw(st.booleans()):
            start, count, step = draw(st.integers(0, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
            out.append(Axis(name=name, start=start, stop=start + (count - 1) * step + 1, step=step))
        else:
            out.append(Axis(name=name, values=tuple(draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=4)))))
    return tuple(out)


@st.composite
def sweeps(draw: st.DrawFn) -> tuple[Sweep, list[list[str]] | None]:
    found = draw(axes())
    if draw(st.booleans()):
        rows = draw(st.lists(st.lists(st.sampled_from("pq"), min_size=2, max_size=2), min_size=1, max_size=4))
        return Sweep(axes=found, table=Table(columns=("t", "u"), rows=len(rows), blob="f" * 64, size_bytes=1)), rows
    return Sweep(axes=found), None


def by_listing(sweep: Sweep, rows: list[list[str]] | None) -> list[dict[str, str]]:
    """The definition, materialised: rows slowest, the last axis fastest."""
    slow = [dict(zip(("t", "u"), row, strict=True)) for row in rows] if rows is not None else [{}]
    lists = [axis.values or [str(v) for v in range(axis.start, axis.stop, axis.step)] for axis in sweep.axes]
    names = [axis.name for axis in sweep.axes]
    return [{**row, **dict(zip(names, values, strict=True))} for row in slow for values in itertools.product(*lists)]


@given(sweeps())
def test_every_job_has_the_values_of_the_listed_product(made: tuple[Sweep, list[list[str]] | None]) -> None:
    sweep, rows = made
    wanted = by_listing(sweep, rows)
    parameters = Parameters(sweep, rows)
    assert parameters.size == sweep_size(sweep) == len(wanted)
    assert [parameters.of(index) for index in range(parameters.size)] == wanted


@given(sweeps(), st.lists(st.sampled_from(["a", "b", "c", "t", "u", "index", "-"]), max_size=3), st.booleans())
def test_refs_are_those_that_looking_at_every_job_finds(
    made: tuple[Sweep, list[list[str]] | None], pieces: list[str], twice: bool
) -> None:
    sweep, rows = made
    parameters = Parameters(sweep, rows)
    known = {*parameters.names, "index", "-"}
    source = "dataset:d/" + "".join(p if p == "-" else f"{{{p}}}" for p in pieces if p in known) + "z"
    sources = [source, "dataset:all"] + ([source, "dataset:d/z"] if twice else [])
    spec = GroupSpec(sweep=sweep, inputs=tuple(InputFile(source=s, path=f"p{k}") for k, s in enumerate(sources)))
    wanted: dict[str, set[int]] = {}
    for index, values in enumerate(by_listing(sweep, rows)):
        for one in sources:
            ref = compile_template(one).render({**values, "index": str(index)})
            wanted.setdefault(ref, set()).add(index)
        if sweep.table:
            wanted.setdefault(f"blob:{sweep.table.blob}", set()).add(index)
    assert refs_of(spec, parameters) == tuple((ref, IndexSet.of(wanted[ref])) for ref in sorted(wanted))


def test_a_million_jobs_cost_as_much_as_their_distinct_inputs() -> None:
    sweep = Sweep(axes=(Axis(name="t", values=("300", "310")), Axis(name="seed", start=1, stop=500_001)))
    spec = GroupSpec(sweep=sweep, inputs=(InputFile(source="dataset:ref/{t}.dat", path="r"),))
    parameters = Parameters(sweep)
    assert refs_of(spec, parameters) == (
        ("dataset:ref/300.dat", IndexSet((0, 500_000))),
        ("dataset:ref/310.dat", IndexSet((500_000, 1_000_000))),
    )
    assert parameters.of(999_999) == {"t": "310", "seed": "500000"}


def test_no_sweep_is_one_job_and_no_index_beyond_the_size_is_served() -> None:
    parameters = Parameters(Sweep())
    assert (parameters.size, parameters.names, parameters.of(0)) == (1, (), {})
    for index in (-1, 1):
        with pytest.raises(IndexError):
            parameters.of(index)


def test_a_table_wants_all_its_rows() -> None:
    sweep = Sweep(table=Table(columns=("t",), rows=2, blob="f" * 64, size_bytes=1))
    assert Parameters(sweep).size == 2
    with pytest.raises(ValueError, match="not loaded"):
        Parameters(sweep).of(0)
    with pytest.raises(ValueError, match="got 1"):
        Parameters(sweep, [["x"]])


@given(st.lists(st.lists(st.text(), min_size=1, max_size=3), max_size=5))
def test_rows_come_back_from_their_blob(rows: list[list[str]]) -> None:
    assert decode_rows(encode_rows(rows)) == rows
