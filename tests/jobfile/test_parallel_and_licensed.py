"""`group.mpi` and `resources.licences`, from a file and from options, and what is said of wrong ones."""

from __future__ import annotations

import pytest

from diana.errors import UsageError
from tests.jobfile.builders import parse

JOB = '[group]\ncommand = "solve"\nmpi = true\n[resources]\nprocessors = 4\nlicences = { matlab = 1, "a.b" = 2 }\n'


def test_an_mpi_job_that_holds_licences_is_read_as_written() -> None:
    spec = parse(JOB).spec
    assert spec.mpi and spec.needs_directory()
    assert spec.resources.licences == (("a.b", 2), ("matlab", 1))


def test_options_go_over_what_stands_in_the_file() -> None:
    spec = parse(JOB, options={"mpi": "false", "resources.licences.matlab": "3"}).spec
    assert (spec.mpi, spec.resources.licences) == (False, (("a.b", 2), ("matlab", 3)))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("licences = { matlab = 0 }", "resources.licences.matlab"),
        ('licences = { "a b" = 1 }', "resources.licences.a b: no name of a licence; want letters"),
        ("licences = 3", "resources.licences"),
    ],
)
def test_what_cannot_be_is_told_by_its_key(line: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(f'[group]\ncommand = "solve"\n[resources]\n{line}\n')
    assert why in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["resources.licences", "group.environment"])
def test_an_option_that_names_a_table_is_told_how_its_keys_are_named(name: str) -> None:
    with pytest.raises(UsageError, match=rf"option {name}: a table; name one of its keys, such as {name}\.NAME="):
        parse(JOB, options={name: "3"})
