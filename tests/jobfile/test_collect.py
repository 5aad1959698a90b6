"""Outputs of different jobs have different names: proved or looked at, never wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.jobfile.collect import clash
from diana.model.job.spec import Axis, Sweep
from diana.model.job.sweep import Parameters
from diana.model.job.template import compile_template

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
