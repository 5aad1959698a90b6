"""`group.requirements` and their like, from a file, a script and options; what is said of wrong ones; and the page that
publishes their names."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from diana.cli.published import requirement_names
from diana.errors import UsageError
from diana.policy.requirements import names
from tests.jobfile.builders import parse

JOB = """[group]
command = "wave {nx}"
requirements = ["site.memory_bytes >= 8e9", "suffix(site.domain, ['ucsd.edu'])"]
link_requirements = "link.rtt_s < 0.05"
set_requirements = ["size(set) <= 4 && sum(set.memory_bytes) >= nx * 1e9"]
rank = " site.speed "
[sweep]
nx = [100]
"""
PAGE = Path(__file__).parents[2] / "docs" / "requirements.md"


def test_requirements_are_read_as_written() -> None:
    spec = parse(JOB).spec
    assert spec.requirements == ("site.memory_bytes >= 8e9", "suffix(site.domain, ['ucsd.edu'])")
    assert spec.link_requirements == ("link.rtt_s < 0.05",)
    assert spec.set_requirements == ("size(set) <= 4 && sum(set.memory_bytes) >= nx * 1e9",)
    assert spec.rank == "site.speed" and spec.requires


def test_the_command_line_adds_requirements_and_replaces_the_rank() -> None:
    spec = parse(JOB, options={"require": "site.slots > 1\nsite.name in ['a', 'b']", "rank": "-site.wait_s"}).spec
    assert spec.requirements[2:] == ("site.slots > 1", "site.name in ['a', 'b']") and len(spec.requirements) == 4
    assert spec.rank == "-site.wait_s"
    alone = parse('[group]\ncommand = "x"\nrequirements = "site.slots > 2"', options={"require": "site.slots < 9"}).spec
    assert alone.requirements == ("site.slots > 2", "site.slots < 9")


def test_the_command_line_adds_requirements_of_links_and_sets() -> None:
    spec = parse(
        JOB, options={"require-link": "link.loss < 0.1", "require-set": "size(set) > 1\nmin(set.speed) > 1"}
    ).spec
    assert spec.link_requirements == ("link.rtt_s < 0.05", "link.loss < 0.1")
    assert spec.set_requirements[1:] == ("size(set) > 1", "min(set.speed) > 1")
    with pytest.raises(UsageError, match=r"option require-set: empty; write a comparison, such as size\(set\) <= 2"):
        parse(JOB, options={"require-set": " "})


def test_a_script_says_them_in_its_lines() -> None:
    script = '#!/bin/sh\n#DIANA --require "site.memory_bytes >= 8e9" --rank site.speed\ntrue\n'
    spec = parse(script, "script").spec
    assert (spec.requirements, spec.rank) == (("site.memory_bytes >= 8e9",), "site.speed")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            'requirements = ["site.slots > 1", "site.memory >= 8e9"]',
            "group.requirements[1]: 'site.memory' is no name here; did",
        ),
        ('requirements = ["site.slots > 1", ""]', "group.requirements[1]: it is empty; write"),
        ("requirements = [3]", "group.requirements[0]: want text, got the number 3"),
        ('requirements = "site.slots"', "group.requirements[0]: it is neither true nor false"),
        ('requirements = ["nx > 1"]', "group.requirements[0]: 'nx' has several values in this group"),
        ('requirements = ["link.rtt_s < 1"]', "group.requirements[0]: 'link.rtt_s' is no name here"),
        ('link_requirements = ["set.slots < 1"]', "group.link_requirements[0]: 'set.slots' is no name here"),
        ('set_requirements = ["site.slots < 1"]', "group.set_requirements[0]: 'site.slots' is no name here; did you"),
        ('set_requirements = ["set.all(s, s.slots > 1)"]', "group.set_requirements[0]: all() is a loop"),
        ('rank = "site.slots > 1"', "group.rank: it gives no number; write one, such as site.speed"),
        ('rank = "site.slots >"', "group.rank: not understood near"),
        (f"requirements = {['true'] * 65}", "group.requirements: 65 expressions; a group has at most 64"),
        (f"requirements = {['site.slots > ' + '1' * 3000] * 11}", "characters; a group has at most 32,768"),
    ],
)
def test_a_mistake_is_told_by_its_key_in_one_line(line: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(f'[group]\ncommand = "x {{nx}}"\n{line}\n[sweep]\nnx = [1, 2]\n')
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_gangs_have_requirements_of_their_own_and_a_rank() -> None:
    assert parse('components = "2x2"\n[group]\ncommand = "x"\nrank = "site.speed"\n').spec.rank == "site.speed"
    gang = (
        '[group]\ncommand = "x"\nset_requirements = "size(set) > 1"\n[[components]]\nrequirements = "EXPR"\ncount = 2\n'
    )
    (component,) = parse(gang.replace("EXPR", "site.gpus >= job.gpus")).spec.components
    assert component.requirements == ("site.gpus >= job.gpus",)
    with pytest.raises(
        UsageError, match=r"job: components\[0\].requirements\[0\]: 'site.gpu' is no name here; did you mean"
    ):
        parse(gang.replace("EXPR", "site.gpu > 0"))
    other = gang.replace("count = 2", 'link_requirements = "LINK"\nset_requirements = ["size(set) <= 2"]').replace(
        "EXPR", "true"
    )
    (component,) = parse(other.replace("LINK", "link.rtt_s < 0.1")).spec.components
    assert (component.link_requirements, component.set_requirements) == (("link.rtt_s < 0.1",), ("size(set) <= 2",))
    for right, wrong, why in (
        ("LINK", "link.rt < 1", r"components\[0\].link_requirements\[0\]: 'link.rt' is no name here"),
        ("size(set) <= 2", "sum(set.nx) > 1", r"components\[0\].set_requirements\[0\]: 'set.nx' is no name here"),
    ):
        with pytest.raises(UsageError, match=rf"job: {why}"):
            parse(other.replace(right, wrong).replace("LINK", "link.rtt_s < 1"))


def test_a_wrong_requirement_of_the_command_line_is_told_by_its_place() -> None:
    with pytest.raises(UsageError, match=r"job: group.requirements\[2\]: 'site.slot' is no name here; did you mean"):
        parse(JOB, options={"require": "site.slot > 1"})


def test_keys_and_options_of_other_schedulers_lead_to_requirements() -> None:
    for key in ("constraint", "constraints", "nodeSelector", "Requirements"):
        with pytest.raises(UsageError, match=f"group.{key}: unknown key; did you mean 'requirements'"):
            parse(f'[group]\ncommand = "x"\n{key} = "gold"\n')
    for option, mend in (("constraint", "require"), ("set_requirements", "require-set")):
        with pytest.raises(UsageError, match=f"option {option}: unknown; did you mean '{mend}'"):
            parse(JOB, options={option: "size(set) < 2"})


@pytest.mark.parametrize("text", ["", " ", "\n\n"])
def test_an_empty_requirement_of_the_command_line_is_a_mistake_as_its_variable_may_have_held_nothing(text: str) -> None:
    with pytest.raises(UsageError, match="option require: empty; write a comparison"):
        parse(JOB, options={"require": text})


def test_the_tables_of_the_page_are_those_of_the_names() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == requirement_names.with_tables(page), (
        "write it anew: python -m diana.cli.published.requirement_names docs/requirements.md"
    )
    assert all(
        f"`{name}`" in page
        for known in (*names.SCOPES.values(), names.COMPONENT)
        for name in known
        if "set." not in name
    )


def test_the_example_of_the_page_is_a_job_file() -> None:
    example = PAGE.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    assert parse(example).spec.set_requirements[0] == "size(set) <= 4"
    model = PAGE.read_text(encoding="utf-8").partition("## Models")[2].partition("```toml\n")[2].partition("```")[0]
    sweep = "[sweep]\nnx = [100]\nny = [100]\niterations = [10, 20]\n"
    assert [name for name, _ in parse(f'[group]\ncommand = "x"\n{sweep}{model}').spec.model] == [
        *("compute_s", "comm_s", "time_s")
    ]


def test_a_swept_name_of_several_values_is_told_as_such() -> None:
    with pytest.raises(UsageError) as caught:
        parse('[group]\ncommand = "x {nx}"\nset_requirements = "sum(set.slots) >= nx"\n[sweep]\nnx = [1, 2]\n')
    assert str(caught.value) == (
        "job: group.set_requirements[0]: 'nx' has several values in this group, and it is judged once for all jobs; "
        "write a group for each value, or [package.model], which takes the mean"
    )


def test_an_expression_of_ten_megabytes_is_refused_by_its_length_wherever_it_comes_from() -> None:
    text = "site.name == '" + "a" * 10_000_000 + "'"
    for job, options in ((f"{JOB.replace('site.speed', text)}", {}), (JOB, {"require": text}), (JOB, {"rank": text})):
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(UsageError) as caught:
            parse(job, options=options)
        assert "characters; " in str(caught.value) and len(str(caught.value)) < 200, str(caught.value)[:200]
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 128 * 1024
