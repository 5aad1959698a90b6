"""Components of a job, from a file, from options and from one word, and what is said of wrong ones (SPEC K1)."""

from __future__ import annotations

import pytest

from diana.errors import UsageError
from diana.jobfile.parse import parse_file
from diana.model.job.spec import ComponentSpec, FlexibleSpec
from tests.jobfile.builders import parse

COMMAND = '[group]\ncommand = "solve"\n'


def test_components_are_read_as_written() -> None:
    text = COMMAND + '[[components]]\nname = "sim"\nsite = "vu"\ncpus = 32\n[[components]]\ncount = 2\ngpus = 1\n'
    spec = parse(text + '[gang]\nplacement = "cluster-min"\n').spec
    assert spec.is_gang and spec.gang_placement == "cluster-min" and spec.gang_level == ""
    assert parse(text + '[gang]\nlevel = "super-high"\n').spec.gang_level == "super-high"
    assert spec.components == (
        ComponentSpec(name="sim", processors=32, site="vu"),
        ComponentSpec(count=2, processors=1, gpus=1),
    )
    assert spec.least_of_site().processors == 1


def test_a_component_has_a_command_of_its_own_in_place_of_the_groups() -> None:
    text = COMMAND + '[[components]]\ncpus = 4\n[[components]]\ncommand = "view --of {index}"\n'
    spec = parse(text).spec
    assert spec.argv == ("solve",)
    assert [one.argv for one in spec.components] == [(), ("view", "--of", "{index}")]
    with pytest.raises(UsageError, match=r"it replaces group\.command, which is not there"):
        parse('[group]\nexecutable = "solve"\n[[components]]\ncommand = "view"\n')


def test_the_runner_is_an_option_of_the_command_line() -> None:
    assert parse(COMMAND, options={"components": "2x4", "runner": "mpi"}).spec.runner == "mpi"
    assert parse(COMMAND, options={"components": "2x4", "runner": "env"}).spec.runner == ""
    assert parse(COMMAND, options={"components": "2x4", "runner": "torchrun"}).spec.runner == "torchrun"
    with pytest.raises(UsageError, match=r"gang\.runner: 'mpirun -n 4': want env, mpi, none, or the name"):
        parse(COMMAND, options={"components": "2x4", "runner": "mpirun -n 4"})


@pytest.mark.parametrize("text", ['components = "3x8"\n' + COMMAND, COMMAND])
def test_one_word_stands_for_equal_components(text: str) -> None:
    spec = parse(text, options={} if "3x8" in text else {"components": "3x8"}).spec
    assert spec.components == (ComponentSpec(count=3, processors=8),)


def test_a_flexible_job_is_a_number_or_a_table() -> None:
    assert parse(COMMAND, options={"flexible": "72"}).spec.flexible == FlexibleSpec(processors=72)
    text = COMMAND + "[flexible]\ncpus = 72\nmin_cpus = 4\nmax_components = 3\n"
    flexible = FlexibleSpec(processors=72, min_processors=4, max_components=3)
    assert parse(text).spec.flexible == flexible and parse(text).spec.least_of_site().processors == 4
    split = parse(COMMAND + "[flexible]\ncpus = 72\nsplits = [[48, 24], [36, 36]]\n").spec
    assert split.flexible is not None and split.flexible.splits == ((48, 24), (36, 36))
    assert split.least_of_site().processors == 24


def test_components_stand_inside_one_of_several_groups() -> None:
    text = (
        '[[group]]\nname = "a"\ncommand = "x"\n[[group.components]]\ncpus = 3\n[[group]]\nname = "b"\ncommand = "y"\n'
    )
    groups = parse_file(text.encode(), "toml", "jobs.toml", {}, {}, lambda _: "", lambda _: b"").groups
    assert [one.spec.is_gang for one in groups] == [True, False]


def test_a_gang_has_retries() -> None:
    assert parse(COMMAND + "retries = 2\n[[components]]\n").spec.retries == 2
    rules = parse(COMMAND + "retries = { failed = 3 }\n[[components]]\n").spec.retry
    assert rules is not None and rules.failed == 3


def test_an_ordinary_job_is_no_gang() -> None:
    spec = parse(COMMAND + "[resources]\ncpus = 3\n").spec
    assert not spec.is_gang and spec.least_of_site().processors == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[components]]\ncpus = 0\n", "components"),
        ("[[components]]\ncount = 5000\n", "components[0].count: 5000 is too large; want at most 1000"),
        ("[[components]]\ncount = 600\n[[components]]\ncount = 600\n", "1,200 components: a gang has at most 1,000"),
        ('[[components]]\nname = "a"\n[[components]]\nname = "a"\n', "'a' is the name of two; give each its own"),
        ('[[components]]\nsite = "No Site"\n', "components: "),
        (
            'sites = ["vu", "uva"]\n[[components]]\n[[components]]\nsite = "delft"\n',
            "components: component 2 has to run at delft, which group.sites leaves out; change one of them",
        ),
        (
            'not_sites = ["delft"]\n[[components]]\nname = "sim"\nsite = "delft"\n',
            "components: sim has to run at delft, which group.not_sites leaves out; change one of them",
        ),
        ("[[components]]\n[resources]\ncpus = 2\n", "resources.cpus: each component says its own"),
        ("[[components]]\n[resources]\ngpus = 2\n", "resources.gpus: each component says its own"),
        (
            "[[components]]\n[resources]\nmemory = '1G'\n[group.retries]\nout_of_memory = 1\n",
            "group.retries.out_of_memory: it is for ordinary jobs; leave it out beside components",
        ),
        ("[[components]]\n[flexible]\ncpus = 2\n", "flexible: written beside components; keep one of them"),
        ("[flexible]\ncpus = 72\nsplits = [[48, 23]]\n", "48+23 is 71, and the request is for 72"),
        ("[flexible]\ncpus = 4\nmin_cpus = 5\n", "min_cpus = 5: want 1 to the 4 processors of the whole"),
        (
            "[flexible]\ncpus = 4\nmax_components = 5000\n",
            "flexible.max_components: 5000 is too large; want at most 1000",
        ),
        ("[[components]]\ntime = 60\n", "components[0].time: unknown key; it belongs under [resources]"),
        ("[[components]]\nretries = 1\n", "components[0].retries: unknown key; it belongs under [group]"),
        ('[gang]\nplacement = "worst-fit"\n', "gang.placement: the job has no components"),
        ("[[components]]\n[gang]\nslowdown = [1.1]\n", "gang.slowdown: begins with 1.1: want 1 first, for one site"),
        ("[[components]]\n[gang]\nslowdown = [1, 0.9]\n", "gang.slowdown: 0.9: want factors of 1 to 1,000,000"),
        ("[[components]]\n[gang]\nslowdown = [1, 2, 1.5]\n", "gang.slowdown: falls from 2 to 1.5: want none below"),
        ("[[components]]\n[gang]\nslowdown = [1, nan]\n", "gang.slowdown: nan: want factors of 1 to 1,000,000"),
        ("[[components]]\n[gang]\nslowdown = [1, inf]\n", "gang.slowdown: inf: want factors of 1 to 1,000,000"),
        ('[[components]]\n[gang]\nslowdown = ["x"]\n', "gang.slowdown"),
        ("[[components]]\n[gang]\nslowdown = 2\n", "gang.slowdown"),
        ("[gang]\nslowdown = [1, 2]\n", "gang.slowdown: the job has no components; name them, or leave it out"),
        ("[[components]]\n[gang]\nplacement = 3\n", "gang.placement: want text, got the number 3; quote it"),
        ('[gang]\nrunner = "mpi"\n', 'gang.runner: "mpi" starts one job over several components'),
        ('[[components]]\n[gang]\nrunner = "P V M"\n', "gang.runner: 'P V M': want env, mpi, none, or the name of an"),
        ('[[components]]\n[gang]\nrunner = ""\n', "gang.runner: '': want env, mpi, none, or the name of an installed"),
        ('[gang]\nrunner = "torchrun"\n', "gang.runner: the job has no components; name them, or leave it out"),
        ('mpi = true\n[[components]]\n[gang]\nrunner = "torchrun"\n', "group.mpi: not beside gang.runner"),
        ("[[components]]\n[sweep]\nx = [1]\n", ""),
        ('[[components]]\ncommand = "a | b"\n', "components[0].command: '|' needs a shell and there is none"),
        ('[[components]]\ncommand = [""]\n', "components[0].command: empty; write a program and its arguments"),
        ('[[components]]\ncommand = "see {y}"\n', "components[0].command: "),
        (
            '[[components]]\ncommand = "see"\n[gang]\nrunner = "mpi"\n',
            'components[0].command: runner = "mpi" runs one program everywhere; leave it out',
        ),
    ],
)
def test_what_cannot_be_is_told_by_its_key(text: str, told: str) -> None:
    if not told:
        assert parse(COMMAND + text).jobs == 1
        return
    with pytest.raises(UsageError) as caught:
        parse(COMMAND + text)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_keys_of_the_whole_are_options_beside_it_and_lists_of_numbers_are_written_with_commas() -> None:
    spec = parse(COMMAND, options={"flexible.min_cpus": "3", "flexible": "12", "gang.slowdown": "1, 1.5"}).spec
    assert spec.flexible is not None and (spec.flexible.processors, spec.flexible.min_processors) == (12, 3)
    assert spec.slowdown == (1.0, 1.5)
    with pytest.raises(UsageError, match=r"gang.slowdown\[1\]: want a number, got the text 'x'"):
        parse(COMMAND, options={"components": "2x1", "gang.slowdown": "1,x"})
    with pytest.raises(UsageError, match=r"option flexible.min_cpu: unknown; did you mean 'flexible.min_cpus'\?"):
        parse(COMMAND, options={"flexible": "12", "flexible.min_cpu": "3"})


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("components", " ", "option components: empty; write COUNTxPROCESSORS, as 3x8, or leave it out"),
        ("flexible", "", "option flexible: empty; write a number of processors, or leave it out"),
        ("components", "1000000000x1", "component 1: count = 1000000000: want 1 to 1,000"),
        ("components", "1x10000000000", "component 1: 10000000000 processors: want 1 to 10,000,000"),
    ],
)
def test_an_empty_or_boundless_option_is_told_as_such(name: str, text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(COMMAND, options={name: text})
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2", "'2': 2x1 is 2 components of one processor, 1x2 one of 2; write which"),
        ("2x16+8@vu", "'8@vu': 8x1 is 8 components of one processor, 1x8 one of 8; write which"),
        ("1", "'1': want COUNTxPROCESSORS; 1x1 is one component"),
        ("1X1@Alpha", "'1X1@Alpha': names of sites have small letters; write 1x1@alpha"),
    ],
)
def test_a_word_that_may_be_read_in_two_ways_is_told_with_what_to_write(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(COMMAND, options={"components": text})
    assert str(caught.value).endswith(told)


def test_sites_of_a_flexible_job_stand_under_its_group() -> None:
    with pytest.raises(UsageError, match=r"flexible.site: unknown key; .* as sites under \[group\]"):
        parse(COMMAND + '[flexible]\ncpus = 8\nsite = "vu"\n')


@pytest.mark.parametrize(("name", "text"), [("components", "3y8"), ("flexible", "many"), ("flexible", "0")])
def test_a_wrong_option_is_told_by_its_name(name: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(COMMAND, options={name: text})
    assert name in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("line", ["mpi = true", 'container = "image"'])
def test_what_starts_processes_by_itself_is_refused_beside_a_runner(line: str) -> None:
    with pytest.raises(UsageError, match="which starts all processes itself"):
        parse(f'{COMMAND}{line}\n[[components]]\n[gang]\nrunner = "mpi"\n')
    spec = parse(f'{COMMAND}[[components]]\n[gang]\nrunner = "mpi"\n').spec
    assert spec.runner == "mpi" and parse(f'{COMMAND}[[components]]\n[gang]\nrunner = "env"\n').spec.runner == ""


def test_spares_are_components_behind_the_others() -> None:
    spec = parse('components = "3x2"\n' + COMMAND + "[gang]\nspares = 2\n").spec
    assert spec.components == (ComponentSpec(count=3, processors=2), ComponentSpec(count=2, processors=2))
    assert (spec.spares, spec.gang_size, spec.reports, spec.needs_directory()) == (2, 5, True, True)
    plain = parse('components = "3x2"\n' + COMMAND).spec
    assert (plain.spares, plain.gang_size, plain.reports) == (0, 3, False)
    at_sites = parse('components = "1x2@vu+1x2@uva"\n' + COMMAND + "[gang]\nspares = 1\n").spec
    assert [one.site for one in at_sites.components] == ["vu", "uva", ""], "a spare goes where there is room"


def test_a_spare_goes_only_where_the_component_whose_place_it_takes_may_be() -> None:
    own = "requirements = 'site.slots > 1'\nlink_requirements = 'link.rtt_s < 1'\n"
    spec = parse(f"{COMMAND}[[components]]\ncount = 3\n{own}[gang]\nspares = 1\n").spec
    assert spec.components[1] == ComponentSpec(
        count=1, requirements=("site.slots > 1",), link_requirements=("link.rtt_s < 1",)
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('components = "3x1"\n[gang]\nspares = -1\n', "gang.spares: -1: want 0 or more"),
        ('components = "3x1"\n[gang]\nspares = 4\n', "gang.spares: 4: want at most 3, one for each component"),
        ("[gang]\nspares = 1\n", "gang.spares: the job has no components; name them, or leave it out"),
        ("flexible = 8\n[gang]\nspares = 1\n", "gang.spares: a flexible job has as many components as"),
        ('components = "1x1+1x2"\n[gang]\nspares = 1\n', "give all the same cpus, gpus, other resources and command"),
        ("[[components]]\n[[components]]\nrequirements = 'true'\n[gang]\nspares = 1\n", "all the same requirements"),
        ("[[components]]\nset_requirements = 'true'\n[gang]\nspares = 1\n", "write set_requirements in [group]"),
        ('components = "600x1"\n[gang]\nspares = 500\n', "gang.spares: "),
        ('components = "2x1"\n[gang]\nspares = 1\nrunner = "none"\n', 'gang.spares: not with gang.runner = "none"'),
        ('components = "2x1"\n[gang]\nspares = 1\nrunner = "mpi"\n', 'gang.spares: not with gang.runner = "mpi"'),
        ('components = "2x1"\n[gang]\nspares = 1\n[checkpoint]\npaths = ["a"]\n', "gang.spares: not beside checkpoint"),
        (
            'components = "2x1"\n[gang]\nspares = 1\n[package.model]\ntime_s = "9"\n[package.mapper]\nitems = 9\n',
            "gang.spares: not beside package.mapper yet",
        ),
    ],
)
def test_spares_that_cannot_be_are_refused_in_one_line(text: str, why: str) -> None:
    head, _, rest = text.partition("[gang]")
    with pytest.raises(UsageError) as told:
        parse(head + COMMAND + "[gang]" + rest)
    assert why in str(told.value) and "\n" not in str(told.value)
