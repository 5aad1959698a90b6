"""Every mistake gets one line: what, where, the mend."""

from __future__ import annotations

import pytest

from diana.errors import UsageError
from tests.jobfile.builders import Blobs, parse

_OUTPUTS = "outputs.collect, outputs.to, outputs.merge, outputs.dataset, outputs.size"
OK = '[group]\ncommand = "echo hi"\n'
AXIS = 'group.command = "echo {x}"\nsweep.x = [1, 2]\n'

LINES: list[tuple[str, str]] = [
    ("", "job: empty; a job file needs at least [group] with a command"),
    (
        "[group]\nname = 'x'",
        'job: group.command: missing; write what to run, such as command = "./sim {x}" (or script, or executable)',
    ),
    ("[group]\ncomand = 'x'", "job: group.comand: unknown key; did you mean 'command'?"),
    ("command = 'x'", "job: command: unknown key; it belongs under [group]"),
    ("[group]\ncommand = 'x'\ncpus = 2", "job: group.cpus: unknown key; it belongs under [resources]"),
    ("walltime = 3\n" + OK, "job: walltime: unknown key; did you mean 'time', under [resources]?"),
    (OK + "mem = 3", "job: group.mem: unknown key; did you mean 'memory', under [resources]?"),
    (
        OK + "[resources]\nmemory = '8'",
        "job: resources.memory: '8' is 8 bytes, too few for a process; write a unit, such as 500M or 8G",
    ),
    (
        OK + "[resources]\nmemory = 8192",
        "job: resources.memory: 8192 is 8,192 bytes, too few for a process; write a unit, such as 500M or 8G",
    ),
    (
        OK + f"[group.environment]\nA = '{'x' * 200_000}'",
        "job: group.environment.A: a text of 200,000 bytes; 130,816 at most. Put what is long into a file, and name"
        " that under inputs",
    ),
    (
        OK + "[group.environment]\n" + "\n".join(f"A{n} = '{'x' * 100_000}'" for n in range(11)),
        "job: group.environment: 1,100,045 bytes; a job takes 1,048,576 at most. Put what is long into a file, and name"
        " that under inputs",
    ),
    (
        f"[group]\ncommand = ['echo', '{'x' * 200_000}']",
        "job: group.command: a text of 200,000 bytes; 130,816 at most. Put what is long into a file, and name"
        " that under inputs",
    ),
    ("[grop]\n", "job: grop: unknown key; did you mean 'group'?"),
    (
        OK + "[outputs]\nzzz = 1",
        "job: outputs.zzz: unknown key; known: collect, dataset, merge, size, to",
    ),
    (OK + "max_parallel = 'many'", "job: group.max_parallel: want a whole number, got the text 'many'"),
    (OK + "max_parallel = '5'", "job: group.max_parallel: want a whole number, got the text '5'; leave out the quotes"),
    (OK + "max_parallel = true", "job: group.max_parallel: want a whole number, got true"),
    (OK + "max_parallel = -1", "job: group.max_parallel: -1 is too small; want at least 0"),
    (OK + "name = 3", "job: group.name: want text, got the number 3; quote it"),
    (OK + "sites = 'alpha'", "job: group.sites: want a list, got the text 'alpha'"),
    (OK + "sites = ['alpha', 3]", "job: group.sites[1]: want text, got the number 3; quote it"),
    (
        OK + "sites = ['Al']",
        "job: group.sites: site id 'Al': want 1 to 40 lower-case letters, digits and inner hyphens, a letter first",
    ),
    (
        OK + "sites = ['a']\nnot_sites = ['a']",
        "job: group.not_sites: leaves out every site of group.sites; keep at least one",
    ),
    (
        OK + "on_crash = 'reru'",
        "job: group.on_crash: want 'hold' or 'rerun', got the text 'reru'; did you mean 'rerun'?",
    ),
    (OK + "preemptible = 'yes'", "job: group.preemptible: want true or false, got the text 'yes'"),
    (
        OK + "preemptible = true\n[[components]]\ncount = 2",
        "job: group.preemptible: gangs are not ended for others; leave it out beside components",
    ),
    (OK + "grace = '0s'", "job: group.grace: '0s': want 1 s to 86400 s"),
    (OK + "grace = '2d'", "job: group.grace: '2d': want 1 s to 86400 s"),
    (OK + "container = ' a'", "job: group.container: ' a': want a name of at most 200 printable characters"),
    (OK + "container = '-v'", "job: group.container: '-v': want a name of at most 200 printable characters"),
    (OK + "modules = 'gcc'", "job: group.modules: want a list, got the text 'gcc'"),
    (OK + "modules = ['a', '']", "job: group.modules[1]: '' names none; write the name of a module"),
    (OK + "modules = ['*']", "job: group.modules[0]: '*' names none; write the name of a module"),
    (OK + "modules = ['a', 'b', 'a']", "job: group.modules[2]: 'a' stands there before; keep one"),
    (OK + f"modules = {[str(k) for k in range(65)]}", "job: group.modules: names 65; want at most 64"),
    (OK + "environment = [1]", "job: group.environment: want a table of names and values, got a list"),
    (
        OK + "environment = {A = [1]}",
        "job: group.environment.A: want text, a number or true or false, got a list",
    ),
    (
        OK + "environment = {'A=' = 1}",
        "job: group.environment.A=: no variable's name; want letters, digits and underscores",
    ),
    (OK + "[resources]\ncpus = 0", "job: resources.cpus: 0 is too small; want at least 1"),
    (
        OK + "[resources]\ncpus = 2\nprocessors = 3",
        "job: resources.processors: 3 beside cpus = 2; they are one thing, keep one",
    ),
    (
        OK + "[resources]\nmemory = '8 gigs'",
        'job: resources.memory: \'8 gigs\' is no size; write a number and a unit, such as "500M" or "8G"',
    ),
    (
        OK + "[resources]\ntime = 'soon'",
        'job: resources.time: \'soon\' is no duration; write units, such as "90s", "30m" or "1h30m", or "1:30:00"',
    ),
    (OK + "[resources]\ntime = -3", "job: resources.time: -3 is out of range; want 0 to 1000000000 seconds"),
    (OK + "[sweep]\n", "job: sweep: empty; name a value, such as x = [1, 2], or leave [sweep] out"),
    (OK + "[sweep]\nx = []", "job: sweep.x: empty; write at least one value"),
    (
        OK + "[sweep]\nx = ''",
        'job: sweep.x: \'\' is no range; write "1-100", "0-100:5", "1,4,7-9", or a list of values',
    ),
    (OK + "[sweep]\nx = '9-1'", "job: sweep.x: '9-1' runs backwards and is empty; write the smaller number first"),
    (OK + "[sweep]\nx = '1-9:0'", "job: sweep.x: '1-9:0': a step of 0; write a step of at least 1"),
    (
        OK + "[sweep]\nx = 5",
        'job: sweep.x: want text or a list, got the number 5; write a range "1-100" or a list [1, 2]',
    ),
    (
        OK + "[sweep]\nx = [[1]]",
        "job: sweep.x[0]: want text, a number, true or false or a table of names and values, got a list",
    ),
    (
        OK + "[sweep]\nx = [{a = 1}]",
        "job: sweep.x: a list of tables; want plain values (tables of values are named `rows`)",
    ),
    (OK + "[sweep]\nindex = [1]", "job: sweep.index: every job has {index} already; choose another name"),
    (OK + "[sweep]\n'a b' = [1]", "job: sweep.a b: no name; want letters, digits and underscores, a letter first"),
    (
        OK + "[sweep]\narray = '1-9%0'",
        "job: sweep.array: '0' after % is no number of jobs at once; write one of at least 1",
    ),
    (
        OK + "[sweep]\nx = '1-1000000'\ny = '1-1000000'",
        "job: sweep: 1000000000000 jobs; at most 1000000000 make one group, submit it in pieces",
    ),
    (OK + "[sweep]\nrows = []", "job: sweep.rows: empty; write at least one row"),
    (OK + "[sweep]\nrows = [1]", "job: sweep.rows: want tables of names and values, such as [{x = 1, y = 2}]"),
    (OK + "[sweep]\nrows = [{a = 1}, {b = 1}]", "job: sweep.rows[1]: want the same names as the first row: a"),
    (OK + "[sweep]\nrows = [{a = 1}]\na = [1]", "job: sweep.a: also a column of the rows; rename one of them"),
    (OK + "[sweep]\nrows = [{a = 1}]\nfrom = 'p'", "job: sweep.rows: written beside sweep.from; keep one of them"),
    (
        "[group]\ncommand = 'echo {sed}'\n[sweep]\nseed = [1, 2]",
        "job: group.command: unknown placeholder {sed}; did you mean {seed}? known: {group}, {index}, {seed};"
        " write '{{sed}}' for the text itself",
    ),
    (
        "[group]\ncommand = 'echo {'",
        "job: group.command: a lone '{' at character 1; write '{{' for the text itself",
    ),
    (
        '[group]\ncommand = "echo \'a"',
        "job: group.command: no closing quotation; close the quotation, or write a list of words",
    ),
    ("[group]\ncommand = '  '", "job: group.command: empty; write a program and its arguments"),
    (
        "[group]\ncommand = 'a | b'",
        'job: group.command: \'|\' needs a shell and there is none; write a script, or a list: ["sh", "-c", "..."]',
    ),
    (OK + "executable = '/bin/x'", "job: group.executable: written beside group.command; keep one of them"),
    (
        OK + "arguments = ['x']",
        "job: group.arguments: belongs to executable or script; write the arguments into command",
    ),
    (
        "[group]\nscript = 'a\\nb'\n".replace("'", '"'),
        'job: group.script: line 1: a script begins with "#!" and its interpreter, such as "#!/bin/sh"; add that line',
    ),
    (OK + "stdout = '/abs'", "job: group.stdout: '/abs': absolute; write a path below the job's directory"),
    (OK + "stdout = 'a/../../b'", "job: group.stdout: 'a/../../b': leaves the job's directory; write a path below it"),
    (OK + "stdout = 'a//b'", "job: group.stdout: 'a//b': no plain path of a file; write names between single slashes"),
    (OK + "[[inputs]]\npath = 'x'", "job: inputs[0].url: missing; write it"),
    (
        "inputs = ['a', {url = 'b', pth = 'c'}]\n" + OK,
        "job: inputs[1].pth: unknown key; did you mean 'path'?",
    ),
    (
        OK + "[[inputs]]\nurl = 'ftp://b/x'",
        "job: inputs[0].url: ftp://b/x: ftp:// is not understood; want one of https, http, s3, sftp, file",
    ),
    (
        OK + "[[inputs]]\nurl = 'lfn:x'",
        "job: inputs[0].url: 'lfn:x': lfn: is not understood; want dataset:NAME, dataset:NAME/FILE, a local path or a"
        " URL such as https://host/file",
    ),
    (
        OK + "[[inputs]]\nurl = 'https://me:secret@host/x'",
        "job: inputs[0].url: https://host/x: holds an account or password; leave it out, each site uses credentials of"
        " its own",
    ),
    (
        AXIS + "[[inputs]]\nurl = 'https://{x}.org/f'",
        "job: inputs[0].url: a placeholder in the host's name; write the host out, one input for each",
    ),
    (
        AXIS + "inputs = ['data/{x}.csv']",
        "job: inputs[0].url: a local file's name cannot vary by job; register the files as a dataset"
        " (diana datasets add NAME PATH) and write dataset:NAME/FILE",
    ),
    (
        OK + "[[inputs]]\nurl = 'dataset:a/{group}'",
        "job: inputs[0].url: {group} is not known when data is placed; name it otherwise",
    ),
    (
        OK + "[[inputs]]\nurl = 'data/'",
        "job: inputs[0].url: 'data/' is no file; name a file, or register the folder as a dataset",
    ),
    (
        "inputs = ['dataset:a/x', 'dataset:b/x']\n" + OK,
        "job: inputs[1].path: 'x' is that of inputs[0] too; give it another path",
    ),
    (
        AXIS + "outputs.collect = ['out.csv', '{index}/out.csv']",
        "job: outputs.collect: '{index}/out.csv' is twice the same file (0/out.csv); put {index} into its name",
    ),
    (
        AXIS + "sweep.y = [1, 2]\noutputs.collect = 'out-{x}.csv'",
        "job: outputs.collect: 'out-{x}.csv' is the same file for jobs 0 and 1 (out-1.csv); put {index} into its name",
    ),
    (
        AXIS + "sweep.y = '1-500000'\noutputs.collect = 'out-{x}.csv'",
        "job: outputs.collect: 'out-{x}.csv' may be the same file for several jobs; end its name in '-{index}'",
    ),
    (
        AXIS + "outputs.collect = ['{x}', 'a', 'a']",
        "job: outputs.collect: names one file twice; remove one of them",
    ),
    (
        AXIS + "outputs.collect = ['{x}/a', '*.csv']",
        "job: outputs.collect: '{x}/a' lies (1/a) in the folder of a job, where '*.csv' puts what it finds; begin its"
        " name with a letter",
    ),
    (
        AXIS + "group.stdout = '{x}'\noutputs.collect = 'out/'",
        "job: outputs.collect: '{x}' lies (1) in the folder of a job, where 'out/' puts what it finds; begin its name"
        " with a letter",
    ),
    (
        OK + "[outputs]\ncollect = 'out/**.csv'",
        "job: outputs.collect: 'out/**.csv': '**' stands for folders and is a name by itself; write '**/' before the"
        " rest",
    ),
    (
        OK + "[outputs]\ncollect = '*/../x'",
        "job: outputs.collect: '*/../x': leaves the job's directory; write a path below it",
    ),
    *(
        (
            OK + f"[outputs]\ncollect = '{name}'",
            f"job: outputs.collect: '{name}': names that begin with .diana- are diana's own; write another",
        )
        for name in (".diana-part-1", "out/.diana-part-{index}", ".diana-report", ".diana-*")
    ),
    (
        OK + "[outputs]\ncollect = 'out//'",
        "job: outputs.collect: 'out/': no plain path of a file; write names between single slashes",
    ),
    (
        OK + "[outputs]\ncollect = '/'",
        "job: outputs.collect: '': no plain path of a file; write names between single slashes",
    ),
    (
        OK + "[outputs]\ncollect = 'x'\nto = 'results'",
        "job: outputs.to: 'results': want an absolute folder at the submitter's site, such as /home/me/results, or a"
        " URL of s3, sftp or file",
    ),
    (
        OK + "[outputs]\ncollect = 'x'\nto = 'https://host/out'",
        "job: outputs.to: https://host/out: https takes no files; want s3://, sftp:// or file://",
    ),
    (
        OK + "[outputs]\nto = '/r'",
        "job: outputs.to: there is nothing to gather; name the jobs' files in outputs.collect",
    ),
    (
        OK + "[outputs]\nmerge = 'cat'",
        "job: outputs.merge: there is nothing to merge; name the jobs' files in outputs.collect",
    ),
    (
        AXIS + "outputs = {collect = '{x}', merge = 'cat {x}'}",
        "job: outputs.merge: unknown placeholder {x}; known: {group}, {index}; write '{{x}}' for the text itself",
    ),
    ("group = 3", "job: group: want a table of keys and values, got the number 3"),
    ("[group]\ncommand = ", "job: line 2, at its end: Invalid value; mend the TOML there"),
]


@pytest.mark.parametrize(("text", "line"), LINES)
def test_a_mistake_is_one_line_with_its_mend(text: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("text", "format", "line"),
    [
        (
            "group:\n  command: [a\n",
            "yaml",
            "job: line 3, column 1: did not find expected ',' or ']'; mend the YAML there",
        ),
        (
            "group: {command: a}\ngroup: {}\n",
            "yaml",
            "job: line 2, column 1: key 'group' is written twice; mend the YAML there",
        ),
        (
            '{"group": {"command": "./a"}, "package": {"builds": {"x86_64": "a", "x86_64": "b"}}}',
            "json",
            "job: key 'x86_64' is written twice in one object; mend the JSON there",
        ),
        ("- a", "yaml", "job: want a table of keys (group, sweep, ...) at the top; got a list"),
        ("group: {name: !!python/name:os.system x}", "yaml", None),
        ("group: {command: 2024-01-01}", "yaml", "job: group.command: want text or a list, got a date"),
        (
            '{"group":\n {"command" "x"}}',
            "json",
            "job: line 2, column 13: Expecting ':' delimiter; mend the JSON there",
        ),
        ("[" * 100_000, "json", "job: nested too deeply; want at most 64 levels"),
        ("x", "ini", "job: format 'ini' is not understood; want one of toml, yaml, json, script"),
        ('{"group": {"command": ["a\\u0000"]}}', "json", "job: group.command: holds a NUL character; remove it"),
        (
            '{"group": {"command": ["a"]}, "sweep": {"x": ["\\u0000"]}}',
            "json",
            "job: sweep.x: a value holds a NUL character; remove it",
        ),
    ],
)
def test_other_formats_name_the_line_too(text: str, format: str, line: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, format)
    if line is not None:
        assert str(caught.value) == line
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_name_the_line() -> None:
    with pytest.raises(UsageError) as caught:
        parse(b"[group]\nname = '\xff'")
    assert str(caught.value) == "job: line 2: not UTF-8 text; save the file as UTF-8"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "job: p.csv: no rows; want a first line of names, then one line per job"),
        (b"a,b\n", "job: p.csv: no rows; want a first line of names, then one line per job"),
        (b"a,b\n1,2\n3\n", "job: p.csv: line 3: 1 values; the first line names 2"),
        (b"a,a\n1,2\n", "job: p.csv: line 1: 'a' stands twice; rename one of them"),
        (
            b"a,b c\n1,2\n",
            "job: p.csv: line 1: 'b c' cannot name a value; want letters, digits and underscores, a letter first,"
            " and neither index nor group",
        ),
        (b'a\n"x\n', "job: p.csv: line 2: unexpected end of data; mend the CSV there"),
        (b"a\n\xff\n", "p.csv: line 2: not UTF-8 text; save the file as UTF-8"),
        (b"a\n\x00\n", None),
    ],
)
def test_a_bad_table_names_its_line(content: bytes, line: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        parse('group.command = "e {a}"\nsweep.from = "p.csv"', files={"p.csv": content})
    if line is not None:
        assert str(caught.value) == line


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"nam": "x"}, "option nam: unknown; did you mean 'name'?"),
        ({"max_parallel": "few"}, "job: group.max_parallel: want a whole number, got the text 'few'"),
        (
            {"array": "x"},
            'job: sweep.array: \'x\' is no range; write "1-100", "0-100:5", "1,4,7-9", or a list of values',
        ),
        ({"outputs.foo": "x"}, f"option outputs.foo: unknown; known: {_OUTPUTS}"),
        ({"grop.name": "x"}, "option grop.name: unknown; did you mean 'group.name'?"),
        ({"group.retry": "1"}, "option group.retry: unknown; did you mean 'group.retries'?"),
        ({"group.mem": "1"}, "option group.mem: unknown; did you mean 'resources.memory'?"),
        ({"group.envs": "1"}, "option group.envs: unknown; did you mean 'group.environment'?"),
        ({"walltime": "1h"}, "option walltime: unknown; did you mean 'time'?"),
        ({"group.time": "1h"}, "option group.time: unknown; did you mean 'resources.time'?"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, str], line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(OK, options=options)
    assert str(caught.value) == line


def test_nothing_is_kept_of_a_file_with_a_mistake_in_its_last_line() -> None:
    blobs = Blobs()
    with pytest.raises(UsageError):
        parse('sweep.rows = [{a = 1}]\ngroup.command = "e {b}"', blobs=blobs)
    assert blobs.kept == {}
