"""A job gets what its author wrote: values with their spelling in every notation, and the shell's braces."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.client.steps import prepare
from diana.errors import UsageError
from diana.jobfile import parse_file
from diana.jobfile.parsed import ParsedFile
from diana.jobfile.read import _values, read_data
from diana.model.job.sweep import Parameters, decode_rows
from diana.model.job.template import compile_template
from tests.jobfile.builders import Blobs, only_group, parse


def swept(
    text: str, format: str = "toml", options: Mapping[str, str] | None = None, files: Mapping[str, bytes] | None = None
) -> list[dict[str, str]]:
    """The values of each job, those in rows too."""
    blobs = Blobs()
    parsed = parse(text, format, options, files, blobs)
    table = parsed.spec.sweep.table
    parameters = Parameters(parsed.spec.sweep, decode_rows(blobs.kept[table.blob]) if table else None)
    return [parameters.of(k) for k in range(parsed.jobs)]


def column(text: str, format: str = "toml", options: Mapping[str, str] | None = None) -> list[str]:
    return [values["x"] for values in swept(text, format, options)]


def ran(text: str, format: str = "toml") -> list[str]:
    """Return the output of each job, run as a site runs it."""
    parsed = parse(text, format)
    parameters = Parameters(parsed.spec.sweep)
    out = []
    for index in range(parsed.jobs):
        values = {**parameters.of(index), "index": str(index), "group": "alpha-1"}
        argv = [compile_template(word).render(values) for word in parsed.spec.argv]
        environment = {name: compile_template(value).render(values) for name, value in parsed.spec.environment}
        out.append(subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout.strip())
    return out


def told(text: str, format: str = "toml", files: Mapping[str, bytes] | None = None) -> tuple[str, ...]:
    blobs = Blobs()
    sent = {path: blobs.uploaded(path, data) for path, data in (files or {}).items()}
    parsed: ParsedFile = parse_file(text.encode(), format, "job", {}, sent, blobs.put, blobs.kept.__getitem__)
    return parsed.notes


PLAIN = [
    "no",
    "010",
    "1:30",
    "3.10",
    "1e6",
    "1_000",
    "+5",
    "0x1F",
    "~",
    "null",
    "2024-01-02",
    "2024-13-45",
    "=",
    "<<",
    "0x_",
]


def test_words_that_yaml_reads_otherwise_arrive_as_they_are_spelt() -> None:
    assert column(f"group: {{command: 'e {{x}}'}}\nsweep: {{x: [{', '.join(PLAIN)}]}}", "yaml") == PLAIN
    rows = "group: {command: 'e {x}{y}'}\nsweep: {rows: [{x: no, y: 007}, {x: 'yes', y: 1.50}]}"
    assert swept(rows, "yaml") == [{"x": "no", "y": "007"}, {"x": "yes", "y": "1.50"}]


NUMBERS = ["3.10", "1e6", "1_000", "+5", "-0", "-7", "0x1F", "0o17", "0b01", "1_0.5_0", "inf", "-nan", "2024-01-02"]


def test_numbers_and_dates_of_toml_arrive_as_they_are_spelt() -> None:
    more = [*NUMBERS, "-1_000", "2024-12-31", "1979-05-27 07:32:00", "1979-05-27t07:32:00.50z", "07:32:00", "true"]
    assert column(f"group.command = 'e {{x}}'\nsweep.x = [{', '.join(more)}]") == more
    for number in more:
        assert column(f"group.command = 'e {{x}}'\nsweep.x = [{number}]") == [number], "beside no other"
    rows = "group.command = 'e {x}{y}'\nsweep.rows = [{x = 1.0, y = +1}, {y = 1_0, x = 'no'}]"
    assert swept(rows) == [{"x": "1.0", "y": "+1"}, {"x": "no", "y": "1_0"}]


def test_numbers_of_json_arrive_as_they_are_spelt() -> None:
    numbers = ["3.10", "1e6", "1E+2", "-0", "-0.0", "12345678901234567890", "7", "true"]
    for some in [numbers, *([number] for number in numbers)]:
        job = f'{{"group": {{"command": ["e", "{{x}}"]}}, "sweep": {{"x": [{", ".join(some)}]}}}}'
        assert column(job, "json") == some


ARGUMENTS = [
    ("toml", "[group]\nexecutable = 'e'\narguments = [3.10, +1, true]\nenvironment = {V = 1e6, W = 0x10}"),
    ("yaml", "group: {executable: e, arguments: [3.10, +1, true], environment: {V: 1e6, W: 0x10}}"),
    ("json", '{"group": {"executable": "e", "arguments": [3.10, "+1", true], "environment": {"V": 1e6, "W": "0x10"}}}'),
]


@pytest.mark.parametrize(("format", "text"), ARGUMENTS)
def test_arguments_and_variables_are_text_too(format: str, text: str) -> None:
    spec = parse(text, format).spec
    assert spec.argv == ("e", "3.10", "+1", "true")
    assert spec.environment == (("V", "1e6"), ("W", "0x10"))


def test_a_variable_that_is_called_no_and_holds_no_is_both() -> None:
    assert parse("group: {command: e, environment: {no: no, on: off, Y: 1:30}}", "yaml").spec.environment == (
        ("Y", "1:30"),
        ("no", "no"),
        ("on", "off"),
    )


def test_of_several_groups_each_has_its_values_as_written() -> None:
    text = """
        [[group]]
        name = "a"
        command = "e {x}"
        environment = {V = 3.10}
        sweep.x = [1.50, +2]
        [[group]]
        name = "b"
        command = "e"
    """
    blobs = Blobs()
    first = parse_file(text.encode(), "toml", "job", {}, {}, blobs.put, blobs.kept.__getitem__).groups[0]
    assert first.spec.environment == (("V", "3.10"),)
    assert first.spec.sweep.axes[0].values == ("1.50", "+2")


def test_aliases_and_merged_maps_of_yaml_keep_the_spelling() -> None:
    text = """
        group:
          command: e {x}
          environment: {<<: {no: 010, A: off}, B: &b 1.50}
        sweep: {x: [*b, *b]}
    """
    assert column(text, "yaml") == ["1.50", "1.50"]
    assert parse(text, "yaml").spec.environment == (("A", "off"), ("B", "1.50"), ("no", "010"))


@pytest.mark.parametrize("value", ["010", "no"])
def test_what_a_format_does_not_have_is_its_own_error_until_it_is_quoted(value: str) -> None:
    for format, text in ("toml", "[sweep]\nx = [{}]\n"), ("json", '{{"sweep": {{"x": [{}]}}}}'):
        with pytest.raises(UsageError, match="line"):
            read_data(text.format(value).encode(), format, "job")
        assert read_data(text.format(f'"{value}"').encode(), format, "job") == {"sweep": {"x": [value]}}


def test_elsewhere_a_number_is_a_number() -> None:
    text = "group: {command: e, mpi: yes}\nresources: {cpus: 0x4, time: 1:30:00, work: 1.5e+1}"
    spec = parse(text, "yaml").spec
    assert spec.mpi and spec.resources.processors == 4
    assert (spec.resources.time_limit_s, spec.resources.work_s) == (5400.0, 15.0)
    assert parse("group.command = 'e'\nresources = {cpus = +4, work = 1_0.5}").spec.resources.work_s == 10.5
    with pytest.raises(UsageError, match=r"job: group\.environment\.E: want text, .*, got nothing"):
        parse("group: {command: e, environment: {E: }}", "yaml")


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("001-002", ["001", "002"]),
        ("08-10", ["08", "09", "10"]),
        ("000-010:005", ["000", "005", "010"]),
        ("1,01,007-008", ["1", "01", "007", "008"]),
        ("1-3,2,02", ["1", "2", "3", "02"]),
        ("099-101", ["099", "100", "101"]),
        ("001-1000", [f"{k:03d}" for k in range(1, 1001)]),
        ("0-2", ["0", "1", "2"]),
        ("010", ["010"]),
    ],
)
def test_a_range_keeps_the_zeros_in_front(written: str, wanted: list[str]) -> None:
    text = f"group.command = 'e {{x}}'\nsweep.x = '{written}'"
    assert column(text) == wanted
    assert column("group.command = 'e {x}'", options={"sweep.x": written}) == wanted
    assert column(f"group:\n  command: e {{x}}\nsweep:\n  x: '{written}'", "yaml") == wanted


def test_an_array_keeps_them_too_but_for_slurm_which_counts_by_numbers() -> None:
    spec = parse("group.command = 'e {array}'\nsweep.array = '007-010%2'").spec
    assert (spec.sweep.axes[0].values, spec.max_parallel) == (("007", "008", "009", "010"), 2)
    script = parse("#!/bin/sh\n#SBATCH --array=08-10%2\n", "script").spec
    assert (script.sweep.axes[0].start, script.sweep.axes[0].stop, script.max_parallel) == (8, 11, 2)


def test_many_numbers_with_zeros_travel_apart_from_the_group() -> None:
    parsed = parse("group.command = 'e {x}'\nsweep.x = '0000001-0200000'")
    assert parsed.jobs == 200_000
    assert parsed.spec.sweep.axes == ()
    assert parse("group.command = 'e {x}'\nsweep.x = '1-200000,300000'").jobs == 200_001
    for text in (
        "sweep.x = '0000000-1000000'",
        "sweep.a = [1]\nsweep.x = '000001-100001'",
        "sweep.rows = [{a = 1}]\nsweep.x = '000001-100001'",
    ):
        with pytest.raises(UsageError, match="with zeros in front; write one range without, or list the rows"):
            parse(f"group.command = 'e {{x}}'\n{text}")


@pytest.mark.parametrize("written", ["1-010", "00-5", "01-010"])
def test_a_range_whose_ends_do_not_fit_each_other_is_refused(written: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(f"group.command = 'e {{x}}'\nsweep.x = '{written}'")
    first, last = (end.zfill(max(map(len, written.split("-")))) for end in written.split("-"))
    assert str(caught.value) == (
        f"job: sweep.x: '{written}': zeros in front of one end alone; write both with as many digits, such as"
        f" {first}-{last}"
    )


def test_values_of_a_python_program_arrive_as_python_writes_them() -> None:
    job = {"group": {"command": ["e", "{x}"]}, "sweep": {"x": [3.10, 1e6, 1e16, 1e-7, True, 7, "3.10"]}}
    sent = prepare(job, None, None, None, None).request
    blobs = Blobs()
    parsed = only_group(parse_file(sent.content, sent.format, "job", {}, {}, blobs.put, blobs.kept.__getitem__))
    assert parsed.spec.sweep.axes[0].values == ("3.1", "1000000.0", "1e+16", "1e-07", "true", "7", "3.10")
    with pytest.raises(UsageError, match=r"job: .*not JSON compliant.*a job given as a dict holds text, numbers"):
        prepare({"sweep": {"x": [float("nan")]}}, None, None, None, None)


TOML_PIECES = st.sampled_from(
    [
        *("a = 1_000", "b = +5 # +6 '", 'c = "+5 1_000 # \\" 2024-01-02"', "d = '1_000 \\'", "e.1_000 . f = -0"),
        *('g = """\n+5 "" 1_000\n"""""', "h = '''+5 '' \\'''", "i = [\n1_000, # ]\n[+2, 'x+3'],\n]", "1_000 = 1_0.0"),
        *("j = {1_000 = +5, '2_0' = 0x1F, k . 3_0 = [1_0]}", "l = 1979-05-27 07:32:00#+5", "m = [07:32:00,2024-01-02]"),
        *("[1_000x]", "[ n . '+5' . 2_000 ]", "[[o.1_000]]", '["+5 ] \'".2_0]', "p = [\n  [1_000],\n  [ '[+5]' ]]"),
        *("q = 5e-0", "r = [1e-1, 1_0e-1]", 's = \'"""\'', "2024-01-02 = 1", "+5"),
    ]
)


@given(st.lists(TOML_PIECES, max_size=8, unique=True))
def test_a_toml_text_says_what_it_said_whatever_its_numbers_look_like(pieces: list[str]) -> None:
    text = "\n".join(pieces)
    try:
        wanted = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(UsageError, match="mend the TOML there"):
            read_data(text.encode(), "toml", "job")
        return
    if wanted:
        assert _values(read_data(text.encode(), "toml", "job")) == wanted


@pytest.mark.parametrize(
    ("format", "text", "printed"),
    [
        ("json", '{"group": {"command": ["sh", "-c", "echo \\"${index}\\"", "zero"]}}', ""),
        ("toml", "group = {command = ['sh', '-c', 'echo ${index}'], environment = {index = 'own'}}", "own"),
        ("toml", "group.command = ['sh', '-c', 'echo ${x:-unset}']\nsweep.x = [1]", "unset"),
        ("yaml", "group: {command: [sh, -c, 'echo ${a:-${b:-{x}}} {x}']}\nsweep: {x: [1]}", "1 1"),
        ("yaml", "group: {command: [sh, -c, 'a=f.txt; echo ${a%.*}']}", "f"),
        ("yaml", "group: {command: [sh, -c, 'a=old; echo ${{a}}']}", "old"),
        ("toml", "group.command = ['sh', '-c', 'echo $(({x} + ${#0})) $0', 'name']\nsweep.x = [1]", "5 name"),
    ],
)
def test_a_brace_after_a_dollar_is_the_shells(format: str, text: str, printed: str) -> None:
    assert ran(text, format) == [printed]


def test_who_may_have_meant_the_value_is_told() -> None:
    text = "[group]\ncommand = ['sh', '-c', 'echo ${x} {x}']\n[sweep]\nx = [5]"
    assert ran(text) == ["5"]
    assert told(text) == ("job: ${x} is left to the shell; the value of each job is {x}",)
    assert told("[group]\ncommand = 'e ${HOME} {x}'\n[sweep]\nx = [5]") == ()


def test_a_refusal_leaves_the_shells_braces_as_they_are_written() -> None:
    with pytest.raises(UsageError, match=r"write '\${HOME}/{{sed}}' for the text itself"):
        parse("group.command = ['e', '${HOME}/{sed}']")


def test_all_that_is_a_template_leaves_the_shells_braces() -> None:
    text = """
        inputs = [{url = "dataset:d/${a}", path = "${x}-{x}"}]
        [group]
        command = "./e ${x}"
        environment = {V = "${x}{x}"}
        [sweep]
        x = ["1"]
        [outputs]
        collect = "${x}-{x}"
        merge = "cat ${a}"
    """
    spec = parse(text).spec
    params = {"x": "1"}
    given = [spec.argv[1], spec.environment[0][1], spec.inputs[0].path, spec.outputs.collect[0]]
    assert [compile_template(each).render(params) for each in given] == ["${x}", "${x}1", "${x}-1", "${x}-1"]
    assert compile_template(spec.inputs[0].source).render({}) == "dataset:d/${a}"
    assert compile_template(spec.outputs.merge[1]).render({}) == "${a}"


def test_a_refusal_shows_the_word_that_can_be_pasted() -> None:
    with pytest.raises(UsageError) as caught:
        parse("""group.command = ["awk", "{print $1}", "{x}.txt"]\nsweep.x = [1]""")
    assert str(caught.value) == (
        "job: group.command: '{print $1}' is no placeholder at character 1; write '{{print $1}}' for the text itself"
    )
    with pytest.raises(UsageError) as caught:
        parse("""group.command = ["sh", "-c", "for f in {a,b}; do echo $f {x} {y}; done"]\nsweep.x = [1]""")
    assert str(caught.value).endswith("write 'for f in {{a,b}}; do echo $f {x} {y}; done' for the text itself")


@pytest.mark.parametrize(
    ("written", "name", "path"),
    [
        ("{{a}}", "{a}", "{a}"),
        ("file:in/{{a}}.txt", "in/{a}.txt", "{a}.txt"),
        ("${a}", "${a}", "${a}"),
        ("}}", "}", "}"),
    ],
)
def test_a_local_file_with_a_brace_in_its_name_is_sent_by_that_name(written: str, name: str, path: str) -> None:
    text = f"inputs = ['{written}']\ngroup.command = 'cat x'"
    assert parse(text).needs_files == (name,)
    blobs = Blobs()
    spec = parse(text, files={name: b"content"}, blobs=blobs).spec
    assert compile_template(spec.inputs[0].path).render({}) == path
    assert blobs.kept[spec.inputs[0].source.removeprefix("blob:")] == b"content"


def test_such_a_name_without_its_doubled_braces_is_refused_with_them() -> None:
    with pytest.raises(
        UsageError, match=r"inputs.0..url: unknown placeholder {a}; .*; write '{{a}}' for the text itself"
    ):
        parse("inputs = ['{a}']\ngroup.command = 'cat x'")


CSV = b"""\
sample , "depth "\r
A, 10\r
,\r
 B b ,"20 "\r
"C, c" , ""\r
  ,\r
"",""\r
\r
"""


def test_a_table_is_read_as_spreadsheets_write_it() -> None:
    text = "group.command = 'e {sample} {depth}'\nsweep.from = 't.csv'"
    rows = [tuple(values.values()) for values in swept(text, files={"t.csv": CSV})]
    assert rows == [("A", "10"), ("B b", "20 "), ("C, c", ""), ("", "")]
    assert told(text, files={"t.csv": CSV}) == ("job: t.csv: passed over 2 rows without a value (line 3, 6)",)
    (note,) = told(text, files={"t.csv": CSV + b",\r\n" * 4})
    assert note == "job: t.csv: passed over 6 rows without a value (line 3, 6, 9, 10, 11, ...)"


def test_a_table_is_asked_for_beside_a_long_list() -> None:
    text = "group.command = 'e {a} {x}'\nsweep.from = 't'\nsweep.x = '00001-20000'"
    assert parse(text).needs_files == ("t",)
    assert parse(text, files={"t": b"a\n1\n2\n"}).jobs == 40_000


def test_a_table_of_tabs_and_one_of_quoted_lines_are_read_alike() -> None:
    text = "group.command = 'e {a} {b}'\nsweep.from = 't'"
    assert swept(text, files={"t": b"\t\na\t b\n 1, 1 \t2\n\t\t\n".replace(b"\t\t", b"\t")}) == [
        {"a": "1, 1", "b": "2"}
    ]
    table = b'a,b\n5" pipe , "two\n lines , "\n" "" ",x  y\n'
    assert swept(text, files={"t": table}) == [{"a": '5" pipe', "b": "two\n lines , "}, {"a": ' " ', "b": "x  y"}]


@pytest.mark.parametrize(
    ("head", "other"), [("sample;depth", ";"), ('"sample";"depth (m)"', ";"), ("a|b", "|"), ("sep=;", ";")]
)
def test_a_table_with_another_separator_is_told_which(head: str, other: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse("group.command = 'e {a}'\nsweep.from = 't.csv'", files={"t.csv": f"{head}\nA;1,5\n".encode()})
    assert str(caught.value) == (
        f"job: t.csv: line 1: its columns are separated by {other!r}; save it with commas or tabs"
    )


def test_a_column_name_that_holds_a_semicolon_is_no_separator() -> None:
    with pytest.raises(UsageError, match="line 1: 'a;b' cannot name a value"):
        parse("group.command = 'e {a}'\nsweep.from = 't.csv'", files={"t.csv": b"a;b,c\n1,2\n"})
