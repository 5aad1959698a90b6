"""Job files that are in order: what each key becomes."""

from __future__ import annotations

import json

import pytest

from diana.cli.shared import parsing
from diana.errors import UsageError
from diana.jobfile import parse_file, units
from diana.model.indexset import IndexSet
from diana.model.job.spec import Axis, GroupSpec, InputFile, Outputs, Resources, Sweep, encode_spec
from diana.model.job.sweep import Parameters, decode_rows
from diana.wire.client.messages import UploadedFile
from tests.jobfile.builders import Blobs, parse

TOML = """
[group]
name = "sweep"
command = "./sim --t {t} --seed '{seed} {{x}}'"
max_parallel = 500
sites = ["beta", "alpha"]
environment = { OMP_NUM_THREADS = 4, RUN = "{index}" }
[sweep]
t = [300, 310.5]
seed = "1-500000"
[resources]
cpus = 4
memory = "8G"
time = "30m"
work = 90
[[inputs]]
url = "dataset:ref-{t}/a.dat"
[[inputs]]
url = "dataset:ref-300"
path = "all"
[outputs]
collect = "out/{index}.csv"
to = "/home/results"
merge = "cat out"
"""


def test_the_example_becomes_one_template_and_a_product_of_a_million() -> None:
    parsed = parse(TOML)
    assert parsed.jobs == 1_000_000
    assert parsed.needs_files == ()
    assert parsed.spec == GroupSpec(
        name="sweep",
        argv=("./sim", "--t", "{t}", "--seed", "{seed} {{x}}"),
        environment=(("OMP_NUM_THREADS", "4"), ("RUN", "{index}")),
        max_parallel=500,
        sites=("alpha", "beta"),
        sweep=Sweep(axes=(Axis(name="t", values=("300", "310.5")), Axis(name="seed", start=1, stop=500_001))),
        resources=Resources(processors=4, memory_bytes=8 << 30, time_limit_s=1800.0, work_s=90.0),
        inputs=(
            InputFile(source="dataset:ref-{t}/a.dat", path="a.dat"),
            InputFile(source="dataset:ref-300", path="all"),
        ),
        outputs=Outputs(collect=("out/{index}.csv",), kept=True, to="/home/results", merge=("cat", "out")),
    )
    assert parsed.refs == (
        ("dataset:ref-300", IndexSet((0, 1_000_000))),
        ("dataset:ref-300/a.dat", IndexSet((0, 500_000))),
        ("dataset:ref-310.5/a.dat", IndexSet((500_000, 1_000_000))),
    )


def test_yaml_and_json_say_the_same_as_toml() -> None:
    """SPEC J2: one job file, three notations."""
    import tomllib

    import yaml

    data = tomllib.loads(TOML)
    wanted = encode_spec(parse(TOML).spec)
    assert encode_spec(parse(json.dumps(data), "json").spec) == wanted
    assert encode_spec(parse(yaml.safe_dump(data, sort_keys=False), "yaml").spec) == wanted


def test_a_job_states_each_resource_in_its_unit() -> None:
    """SPEC J3: processors, memory, time limit, GPUs, scratch space, licences and estimated work."""
    job = parse(
        """
[group]
command = "true"
[resources]
processors = 4
memory = "8G"
time = "30m"
gpus = 2
scratch = "20G"
licences = { matlab = 1 }
work = "1h"
"""
    )
    assert job.spec.resources == Resources(
        processors=4,
        memory_bytes=8 * 2**30,
        time_limit_s=1800.0,
        gpus=2,
        scratch_bytes=20 * 2**30,
        licences=(("matlab", 1),),
        work_s=3600.0,
    )


@pytest.mark.parametrize(("written", "size"), [("2GB", 2 * 10**9), ("2GiB", 2 << 30), ("1.5K", 1536)])
def test_a_unit_of_bytes_counts_by_thousands_and_others_by_1024(written: str, size: int) -> None:
    text = f"group.command = 'e'\nresources.scratch = '{written}'"
    assert parse(text).spec.resources.scratch_bytes == size


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("90sec", 90.0),
        ("1min", 60.0),
        ("2 hours", 7200.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("500ms", 0.5),
        ("1:30:00", 5400.0),
        ("1d", 86400.0),
        ("1-12:00:00", 129600.0),
        ("2-0", 172800.0),
    ],
)
def test_a_duration_is_read_alike_in_a_file_and_as_an_option_of_a_verb(written: str, seconds: float) -> None:
    assert parse(f"group.command = 'e'\nresources.time = '{written}'").spec.resources.time_limit_s == seconds
    assert parsing.duration_s(written) == seconds


def test_a_duration_with_a_hundred_thousand_blanks_is_read_at_once() -> None:
    blanks = " " * 100_000
    assert units.duration_s(f"1h{blanks}30m") == 5400.0
    with pytest.raises(ValueError, match=r"^'1d x' is no duration") as error:
        units.duration_s(f"1d{blanks}x")
    assert len(str(error.value)) < 200


def test_executable_and_arguments_are_taken_as_they_are() -> None:
    spec = parse('[group]\nexecutable = "/bin/echo"\narguments = ["a b", 3, true, "{index}"]').spec
    assert spec.argv == ("/bin/echo", "a b", "3", "true", "{index}")
    assert spec.name == "echo"


def test_a_script_written_in_the_file_keeps_its_braces() -> None:
    spec = parse('[group]\nscript = """#!/bin/sh\necho ${HOME} {x}\n"""\narguments = ["{index}"]').spec
    assert spec.script == "#!/bin/sh\necho ${HOME} {x}\n"
    assert spec.argv == ("{index}",)


@pytest.mark.parametrize(
    ("written", "axis"),
    [
        ('"5-9"', Axis(name="x", start=5, stop=10)),
        ('"0-100:5"', Axis(name="x", start=0, stop=101, step=5)),
        ('"7"', Axis(name="x", start=7, stop=8)),
        ('"1,4,7-9"', Axis(name="x", values=("1", "4", "7", "8", "9"))),
        ('["a", 1, 2.5, true]', Axis(name="x", values=("a", "1", "2.5", "true"))),
    ],
)
def test_a_swept_value_is_a_range_or_a_list(written: str, axis: Axis) -> None:
    assert parse(f'group.command = "echo {{x}}"\nsweep.x = {written}').spec.sweep.axes == (axis,)


def test_an_array_is_an_axis_and_its_percent_a_limit() -> None:
    spec = parse('[group]\ncommand = "echo {array}"\n[sweep]\narray = "1-100%10"').spec
    assert spec.sweep.axes == (Axis(name="array", start=1, stop=101),)
    assert spec.max_parallel == 10


def test_local_files_are_asked_for_first_and_then_become_blobs() -> None:
    text = """
        inputs = ["ref.dat", { url = "file:bin/sim", path = "sim" }, "ref.dat2"]
        [group]
        command = "./sim {a} {b}"
        [sweep]
        from = "points.csv"
        n = "0-1"
    """
    assert parse(text).needs_files == ("points.csv", "ref.dat", "bin/sim", "ref.dat2")
    blobs = Blobs()
    files = {
        "points.csv": b'\xef\xbb\xbfa,b\r\n1,x\r\n\r\n2,"y, z"\r\n',
        "ref.dat": b"r",
        "bin/sim": b"#!",
        "ref.dat2": b"r2",
    }
    parsed = parse(text, files=files, blobs=blobs)
    assert parsed.jobs == 4
    table = parsed.spec.sweep.table
    assert table is not None and table.columns == ("a", "b") and table.size_bytes == len(blobs.kept[table.blob])
    rows = decode_rows(blobs.kept[table.blob])
    assert rows == [["1", "x"], ["2", "y, z"]]
    assert Parameters(parsed.spec.sweep, rows).of(3) == {"a": "2", "b": "y, z", "n": "1"}
    assert [file.path for file in parsed.spec.inputs] == ["ref.dat", "sim", "ref.dat2"]
    assert all(ref in dict(parsed.refs) for ref in [file.source for file in parsed.spec.inputs])
    assert f"blob:{table.blob}" in dict(parsed.refs)


def test_a_tab_separated_table_is_understood() -> None:
    parsed = parse('group.command = "e {a}{b}"\nsweep.from = "p"', files={"p": b"a\tb\n1\t2,3\n"})
    assert parsed.jobs == 1


def test_a_row_that_no_program_can_be_given_is_refused_by_its_number() -> None:
    cells = ",".join("x" * 100_000 for _ in range(30))
    head = ",".join(f"c{k}" for k in range(30))
    short = ",".join("x" for _ in range(30))
    with pytest.raises(UsageError, match="p: row 2: its values have more than 2 MiB; put them into a file that inputs"):
        parse('group.command = "e {c0}"\nsweep.from = "p"', files={"p": f"{head}\n{short}\n{cells}\n".encode()})


def test_a_table_that_is_too_large_is_refused_before_it_is_read() -> None:
    sent = {"p": UploadedFile(path="p", sha256="0" * 64, size_bytes=(256 << 20) + 1)}
    with pytest.raises(UsageError, match="p: a table of more than 256 MiB; submit it in pieces"):
        parse_file(b'group.command = "e {a}"\nsweep.from = "p"', "toml", "job", {}, sent, Blobs().put, {}.__getitem__)


def test_rows_written_in_the_file_become_a_table() -> None:
    blobs = Blobs()
    parsed = parse('group.command = "e {a}{b}"\nsweep.rows = [{a = 1, b = true}, {b = "y", a = 2}]', blobs=blobs)
    table = parsed.spec.sweep.table
    assert table is not None
    assert decode_rows(blobs.kept[table.blob]) == [["1", "true"], ["2", "y"]]


def test_a_long_list_leaves_the_spec_for_a_blob() -> None:
    values = [f"value number {k}" for k in range(10_000)]
    blobs = Blobs()
    job = {"group": {"command": ["echo", "{x}"]}, "sweep": {"x": values, "y": [1, 2]}}
    parsed = parse(json.dumps(job), "json", blobs=blobs)
    assert parsed.jobs == 20_000
    assert len(encode_spec(parsed.spec)) < 500
    table = parsed.spec.sweep.table
    assert table is not None
    parameters = Parameters(parsed.spec.sweep, decode_rows(blobs.kept[table.blob]))
    assert parameters.of(3) == {"x": "value number 1", "y": "2"}


def test_an_executable_input_stays_executable() -> None:
    blobs = Blobs()
    sent = {"sim": blobs.uploaded("sim", b"#!", executable=True)}
    content = b'inputs = ["sim", {url = "sim", path = "b", executable = false}]\ngroup.command = "./sim"'
    parsed = parse_file(content, "toml", "job", {}, sent, blobs.put, blobs.kept.__getitem__)
    spec = parsed.groups[0].spec
    assert [file.executable for file in spec.inputs] == [True, False]
    assert [file.size_bytes for file in spec.inputs] == [2, 2]


def test_options_override_the_file() -> None:
    options = {
        "name": "other",
        "array": "0-3%2",
        "cpus": "2",
        "memory": "500M",
        "time": "1:30:00",
        "work": "2m",
        "sites": "beta, gamma",
        "not_sites": "delta",
        "on_crash": "rerun",
        "on_site_lost": "rerun",
        "preemptible": "true",
        "grace": "2m",
        "group.environment.MODE": "{array}",
        "directory": "yes",
        "container": "image:1",
        "modules": "gcc/12, root",
    }
    text = '[group]\ncommand = "echo {array}"\n[resources]\nprocessors = 8\n[sweep]\narray = "1-9"'
    spec = parse(text, options=options).spec
    assert (spec.name, spec.max_parallel, spec.sites, spec.not_sites) == ("other", 2, ("beta", "gamma"), ("delta",))
    assert spec.sweep.axes == (Axis(name="array", start=0, stop=4),)
    assert spec.resources == Resources(processors=2, memory_bytes=500 << 20, time_limit_s=5400.0, work_s=120.0)
    assert (spec.on_crash, spec.on_site_lost, spec.preemptible, spec.grace_s) == ("rerun", "rerun", True, 120.0)
    assert (("MODE", "{array}") in spec.environment, spec.own_directory) == (True, True)
    assert (spec.container, spec.modules) == ("image:1", ("gcc/12", "root"))


def test_the_name_is_that_of_the_file_when_none_is_given() -> None:
    text = 'group.command = "/bin/echo hi"'
    assert parse(text, source="runs/scan.toml").spec.name == "scan"
    assert parse(text, source="command line").spec.name == "echo"


def test_a_merge_is_a_template_of_the_group_alone() -> None:
    text = 'group.command = "e {x}"\nsweep.x = [1, 2]\noutputs = {collect = "{x}", merge = "cat {group}"}'
    assert parse(text).spec.outputs.merge == ("cat", "{group}")


def test_an_input_is_a_copy_unless_its_user_says_link() -> None:
    text = 'group.command = "e"\n[[inputs]]\nurl = "dataset:a/b"\nmode = "{}"\n[[inputs]]\nurl = "https://h/c"\n'
    assert [file.link for file in parse(text.replace("{}", "link")).spec.inputs] == [True, False]
    assert [file.link for file in parse(text.replace("{}", "copy")).spec.inputs] == [False, False]
