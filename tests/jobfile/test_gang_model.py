"""Models and mappers of jobs with components, as job files have them (SPEC G2-G4)."""

from __future__ import annotations

import pytest

from diana.errors import UsageError
from diana.model.job.spec import MapperSpec
from tests.jobfile.test_requirements import parse

JOB = """
components = "2x4"
[group]
command = "x {nx}"
[sweep]
nx = [100]
[package.model]
time_s = "nx * component.share / (component.speed * component.processors) + link.rtt_s"
[package.mapper]
kind = "time-balance"
items = "nx * 3"
item_bytes = 8
"""


def test_a_job_of_components_has_a_model_and_a_mapper() -> None:
    spec = parse(JOB).spec
    assert spec.mapper == MapperSpec(kind="time-balance", items="nx * 3", item_bytes="8")
    assert spec.model[0][0] == "time_s" and spec.gang_placement == ""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('components = "2x4"\n', "", "package.mapper: the job has no components"),
        ("component.share", "component.part", "'component.part' is no name here; did you mean component.share?"),
        ("nx * 3", "ny * 3", "package.mapper.items: 'ny' is no name here"),
        ("nx * 3", "nx - 100", "package.mapper.items: there are 0; want at least one"),
        ("nx * 3", "site.slots", "package.mapper.items: 'site.slots' is no name here"),
        ("nx * 3", "1.0 / (nx - nx)", "package.mapper.items: it is inf; want a number, 0 to 1e+15"),
        ("item_bytes = 8", "item_bytes = -1", "package.mapper.item_bytes: it is -1.0; want a number"),
        ("[group]", "[gang]\nplacement = 'grads'\n[group]\nrank = 'site.speed'", "group.rank: written beside gang"),
        ("time-balance", "data-locality", "package.mapper.kind"),
    ],
)
def test_a_mistake_in_a_model_or_mapper_is_told_by_its_key(old: str, new: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(JOB.replace(old, new))
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_grads_wants_a_model_and_a_mapper_wants_components_and_a_model() -> None:
    plain = '[group]\ncommand = "x"\n'
    for text, why in (
        (f'components = "2x1"\n[gang]\nplacement = "grads"\n{plain}', "gang.placement: grads places by the model"),
        (f"{plain}[package.mapper]\nitems = 3\n", "package.mapper: the job has no components"),
        (f'components = "2x1"\n{plain}[package.mapper]\nitems = 3\n', "package.mapper: there is no package.model"),
    ):
        with pytest.raises(UsageError) as caught:
            parse(text)
        assert why in str(caught.value) and "\n" not in str(caught.value)


def test_a_search_by_annealing_wants_components_and_a_model() -> None:
    text = JOB.replace("[package.model]", "[package]\nsearch = 'annealing'\n[package.model]")
    assert parse(text).spec.search == "annealing"
    plain = '[package]\nsearch = "annealing"\n[group]\ncommand = "x"\n'
    for text, why in (
        (plain, "package.search: the job has no components"),
        (f'components = "2x1"\n{plain}', "package.search: there is no package.model"),
        (plain.replace("annealing", "luck"), "package.search"),
    ):
        with pytest.raises(UsageError) as caught:
            parse(text)
        assert why in str(caught.value) and "\n" not in str(caught.value)


def test_a_model_may_be_learned_and_then_there_is_nothing_beside_it() -> None:
    spec = parse('[group]\ncommand = "x"\n[package.model]\nlearned = true\n').spec
    assert spec.learned and not spec.model
    for text, why in (
        ("learned = false", "package.model.learned: want true, and nothing beside it"),
        ("learned = true\ntime_s = '1.0'", "package.model.learned: want true, and nothing beside it"),
        ("time_s = true", "package.model.time_s: want an equation, in quotes"),
    ):
        with pytest.raises(UsageError) as caught:
            parse(f'[group]\ncommand = "x"\n[package.model]\n{text}\n')
        assert why in str(caught.value) and "\n" not in str(caught.value)
