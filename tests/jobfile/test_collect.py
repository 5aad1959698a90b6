"""Outputs of different jobs have different names: proved or looked at, never wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.jobfile.collect import clash, meets_found
from diana.model.job.spec import Axis, Sweep
from diana.model.job.sweep import Parameters
from diana.model.job.template import compile_template
from tests.jobfile.builders import parse

VALUES = st.lists(st.sampled_from(["1", "11", "a", "a-1", "-", ""]), min_size=1, max_size=3)
PIECES = st.lists(st.sampled_from(["{x}", "{n}", "{index}", "{group}", "-", "1", "a", "{{"]), min_size=1, max_size=5)


@given(VALUES, st.integers(1, 12), st.lists(PIECES, min_size=1, max_size=2))
def test_the_proof_agrees_with_looking_at_every_name(values: list[str], count: int, texts: list[list[str]]) -> None:
    sweep = Sweep(axes=(Axis(name="x", values=tuple(values)), Axis(name="n", start=0, stop=count)))
    parameters = Parameters(sweep)
    templates = [compile_template("".join(pieces)) for pieces in texts]
    if len(templates) == 2 and templates[0].text == templates[1].text:
        templates = templates[:1]
    names = [
        template.render({**parameters.of(index), "index": str(index), "group": "alpha-1"})
        for index in range(parameters.size)
        for template in templates
    ]
    assert (clash(templates, sweep, parameters) is None) == (len(set(names)) == len(names))


@pytest.mark.parametrize("text", ["out/{index}.csv", "{t}-{n}.csv", "r{t}_s{n}", "{word}/{index}"])
def test_the_usual_names_are_proved_for_any_number_of_jobs(text: str) -> None:
    axes = (Axis(name="t", values=("300", "310")), Axis(name="n", start=0, stop=10**8))
    if "word" in text:
        axes = (Axis(name="word", values=("a", "a")), axes[1])
    sweep = Sweep(axes=axes)
    assert clash([compile_template(text)], sweep, Parameters(sweep)) is None


@pytest.mark.parametrize("text", ["out.csv", "d/out-{group}.csv"])
def test_a_name_that_all_jobs_share_is_kept_in_a_folder_of_each(text: str) -> None:
    job = f'group.command = "make {{n}}"\nsweep.n = "1-100000000"\noutputs.collect = "{text}"\n'
    assert parse(job).spec.outputs.collect == (text,)


@given(VALUES, st.integers(1, 12), st.lists(st.one_of(PIECES, st.just(["/"])), min_size=1, max_size=3))
def test_no_name_that_is_taken_lies_where_a_pattern_puts_what_it_finds(
    values: list[str], count: int, texts: list[list[str]]
) -> None:
    sweep = Sweep(axes=(Axis(name="x", values=tuple(values)), Axis(name="n", start=0, stop=count)))
    parameters = Parameters(sweep)
    template = compile_template("".join(piece for pieces in texts for piece in pieces).strip("/") or "a")
    names = {
        template.render({**parameters.of(index), "index": str(index), "group": "alpha-1"})
        for index in range(parameters.size)
    }
    taken = meets_found([template], "*", parameters) is None
    inside = any(name.partition("/")[0].isdecimal() for name in names)
    if template.names - {"group"}:
        # One that is the same for all jobs lies in the job's folder itself, by its path, which no pattern finds.
        assert not (taken and inside)


@pytest.mark.parametrize("text", ["out/{index}.csv", "{index}.csv", "{n}/x", "r{n}_s{n}", "{index}-{n}/y"])
def test_usual_names_beside_a_pattern_need_no_look_at_each_job(text: str) -> None:
    sweep = Sweep(axes=(Axis(name="n", start=0, stop=10**8),))
    said = meets_found([compile_template(text)], "*.log", Parameters(sweep))
    assert (said is None) == (text != "{n}/x")
