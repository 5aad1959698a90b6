"""Resources that operators declare, asked for in a file, by options, in a script for Slurm and as a client's table; and
the bounds of all that a job asks for in numbers."""

from __future__ import annotations

import json

import jsonschema
import pytest

from diana.errors import UsageError
from diana.jobfile.schema import schema
from diana.model.job.spec import Resources
from tests.jobfile.builders import parse

JOB = '[group]\ncommand = "solve"\n[resources]\n'
HUGE = "1" + "0" * 30


def refused(text: str, format: str = "toml", **options: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse(text, format, options={name.replace("__", "."): value for name, value in options.items()})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_key_that_is_none_of_the_files_own_asks_for_what_sites_declare() -> None:
    spec = parse(JOB + "tape = 2\ncpus = 4\nfpga = 1\nidle = 0\n").spec
    assert spec.resources == Resources(processors=4, others=(("fpga", 1), ("tape", 2)))


def test_a_clients_table_and_a_yaml_file_ask_in_the_same_words() -> None:
    job = {"group": {"command": "solve"}, "resources": {"fpga": 1}}
    asked = (("fpga", 1),)
    assert parse(json.dumps(job), "json").spec.resources.others == asked
    assert parse("group: {command: solve}\nresources: {fpga: 1}\n", "yaml").spec.resources.others == asked


def test_options_go_over_what_stands_in_the_file() -> None:
    options = {"resources.fpga": "3", "resources.tape": "0"}
    assert parse(JOB + "fpga = 1\ntape = 1\n", options=options).spec.resources.others == (("fpga", 3),)


def test_each_of_several_groups_and_each_component_has_its_own() -> None:
    spec = parse(JOB + "fpga = 1\n[[components]]\ncount = 2\n").spec
    assert spec.resources.others == (("fpga", 1),) and spec.gang_size == 2


def test_editors_are_told_by_the_schema() -> None:
    def fits(**asked: object) -> bool:
        validator = jsonschema.Draft202012Validator(schema())
        every = {
            validator.is_valid({"group": {"command": "x"}} | more)
            for more in ({"resources": asked}, {"components": [asked]})
        }
        assert len(every) == 1, "a component asks as a job does"
        return every.pop()

    assert fits(fpga=1) and fits(cpus=2)
    assert not (fits(fpga="1") or fits(fpga=-1) or fits(fpga=0.5) or fits(gpus=10**30) or fits(cpus=10**30))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("fpga = -1", "resources.fpga: -1 is out of range; want 0 to 1000000"),
        (f"fpga = {HUGE}", "resources.fpga: about 2^99 is out of range; want 0 to 1000000"),
        ("fpga = 0.5", "resources.fpga: want a whole number, got the number 0.5; whole ones are handed out"),
        ("gpus = 0.5", "resources.gpus: want a whole number, got the number 0.5; whole ones are handed out"),
        ("cpus = 0.5", "resources.cpus: want a whole number, got the number 0.5; whole ones are handed out"),
        ("gpus = 1e30", "resources.gpus: want a whole number, got the number 1e+30"),
        ("gpus = -1", "resources.gpus: -1 is too small; want at least 0"),
        (f"gpus = {HUGE}", "resources.gpus: about 2^99 is too large; want at most 1000000"),
        (f"cpus = {HUGE}", "resources.cpus: about 2^99 is too large; want at most 1000000"),
        (f"processors = {HUGE}", "resources.processors: about 2^99 is too large; want at most 1000000"),
        (f"licences = {{ x = {HUGE} }}", "resources.licences.x: about 2^99 is too large; want at most 1000000"),
        ('memroy = "4G"', "resources.memroy: unknown key; did you mean 'memory'?"),
        ("memroy = 4", "resources.memroy: too near to another key; did you mean memory?"),
        ("tiem = 0.5", "resources.tiem: unknown key; did you mean 'time'?"),
        ("cups = 4", "resources.cups: too near to another key; did you mean cpus?"),
        ("mem = 4", "resources.mem: too near to another key; did you mean memory?"),
        ("gpu = true", "resources.gpu: unknown key; did you mean 'gpus'?"),
        ('fpga = "1"', "resources.fpga: want a whole number, got the text '1'; leave out the quotes"),
        (
            "fpga = true",
            "resources.fpga: unknown key; known: cpus, gpus, licences, memory, processors, scratch, time, work, and"
            " whole numbers of what sites declare",
        ),
        ("retries = 2", "resources.retries: unknown key; it belongs under [group]"),
        ("max_parallel = true", "resources.max_parallel: unknown key; it belongs under [group]"),
        ('"a b" = 1', "resources.a b: no name of a resource; want a small letter, then small letters"),
        ("\n".join(f"r{number} = 1" for number in range(17)), "resources: names 17 resources; want at most 16"),
    ],
)
def test_what_cannot_be_is_told_by_its_key(line: str, told: str) -> None:
    assert refused(JOB + line).startswith(f"job: {told}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"[[components]]\ncpus = {HUGE}", "components[0].cpus: about 2^99 is too large; want at most 10000000"),
        (f"[[components]]\ngpus = {HUGE}", "components[0].gpus: about 2^99 is too large; want at most 1000000"),
        ("[[components]]\ngpus = -1", "components[0].gpus: -1 is too small; want at least 0"),
        (f"[flexible]\ncpus = {HUGE}", "flexible.cpus: about 2^99 is too large; want at most 10000000"),
        (f"[flexible]\ncpus = 2\nmin_cpus = {HUGE}", "flexible.min_cpus: about 2^99 is too large"),
        ("[flexible]\ncpus = -1", "flexible.cpus: -1 is too small; want at least 1"),
        (f"[group.retries]\nfailed = {HUGE}", "group.retries.failed: about 2^99 is too large; want at most 100"),
        ("[group.retries]\nfactor = 1", "group.retries.factor: 1 is too small; want more than 1"),
    ],
)
def test_numbers_of_components_and_all_others_have_bounds(text: str, told: str) -> None:
    assert refused(f'[group]\ncommand = "solve"\n{text}\n').startswith(f"job: {told}")


def test_no_number_of_a_group_is_larger_than_what_travels() -> None:
    for key in ("max_parallel", "max_subgroup", "division"):
        assert f"group.{key}: about 2^99 is too large" in refused(f'[group]\ncommand = "x"\n{key} = {HUGE}\n')


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        ("gpus", HUGE, "job: resources.gpus: about 2^99 is too large; want at most 1000000"),
        ("cpus", "-1", "job: resources.cpus: -1 is too small; want at least 1"),
        ("gpus", "0.5", "job: resources.gpus: want a whole number, got the text '0.5'; whole ones are handed out"),
        ("resources__fpga", "0.5", "job: resources.fpga: want a whole number, got the text '0.5'; whole ones"),
        ("resources__fpga", HUGE, "job: resources.fpga: about 2^99 is out of range; want 0 to 1000000"),
        ("resources__memroy", "4G", "option resources.memroy: unknown; did you mean 'resources.memory'?"),
        ("resources__gpu", "1", "option resources.gpu: unknown; did you mean 'resources.gpus'?"),
    ],
)
def test_a_wrong_option_is_told_by_its_name(option: str, text: str, told: str) -> None:
    assert refused(JOB, **{option: text}).startswith(told)


def test_a_clients_table_is_held_to_the_same_bounds() -> None:
    job = {"group": {"command": "solve"}, "resources": {"gpus": 10**30}}
    assert refused(json.dumps(job), "json") == "job: resources.gpus: about 2^99 is too large; want at most 1000000"


def test_components_of_a_script_ask_for_the_same_or_each_for_its_own() -> None:
    head = "#!/bin/sh\n#SBATCH --gres=fpga:1\n#SBATCH hetjob\n"
    spec = parse(head + "#SBATCH --gres=fpga:1,gpu:1\nrun\n", "script").spec
    assert spec.resources.others == (("fpga", 1),) and [each.gpus for each in spec.components] == [0, 1]
    spec = parse(head + "run\n", "script").spec
    assert spec.resources.others == () and [each.others for each in spec.components] == [(("fpga", 1),), ()]
