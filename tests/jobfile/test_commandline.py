"""`-- cmd {x} ::: 1 2 3`: words of the command line as a job file."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from diana.bounds import MOST_JOB_FILE_BYTES
from diana.jobfile import commandline
from diana.jobfile.commandline import by_number, from_words
from diana.model.job.sweep import Parameters, decode_rows
from diana.model.job.template import compile_template
from tests.jobfile.builders import Blobs, parse


def commands(line: str) -> list[str]:
    blobs = Blobs()
    parsed = parse(json.dumps(from_words(shlex.split(line))), "json", blobs=blobs)
    table = parsed.spec.sweep.table
    parameters = Parameters(parsed.spec.sweep, decode_rows(blobs.kept[table.blob]) if table else None)
    words = [compile_template(word) for word in parsed.spec.argv]
    return [
        " ".join(word.render({**parameters.of(k), "index": str(k), "group": "g"}) for word in words)
        for k in range(parsed.jobs)
    ]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("echo hi", ["echo hi"]),
        ("echo {x} ::: 1 2 3", ["echo 1", "echo 2", "echo 3"]),
        (
            "cmd -a {y} -b {x}{y} ::: 1 2 ::: p q",
            ["cmd -a 1 -b p1", "cmd -a 1 -b q1", "cmd -a 2 -b p2", "cmd -a 2 -b q2"],
        ),
        ("echo {}.txt ::: a b", ["echo a.txt", "echo b.txt"]),
        ("echo {2}-{1} ::: a ::: 1 2", ["echo 1-a", "echo 2-a"]),
        ("echo ::: a b ::: c", ["echo a c", "echo b c"]),
        ("echo {index} {x} ::: a b", ["echo 0 a", "echo 1 b"]),
        ("echo {group} {x} ::: a", ["echo g a"]),
        ("echo {group} {} ::: a", ["echo g a"]),
        ("echo {02}{1} ::: a ::: b", ["echo ba"]),
        ("echo {{x}} {y} ::: a", ["echo {x} a"]),
        ("echo {{}} {} ::: a", ["echo {} a"]),
        ("echo '${}' '${1}' {1} ::: a", ["echo ${} ${1} a"]),
        ("echo '${x}' ::: 1 2", ["echo ${x} 1", "echo ${x} 2"]),
        ("echo '${x}' {x} ::: 1", ["echo ${x} 1"]),
        ("echo ::: 3.10 010 no", ["echo 3.10", "echo 010", "echo no"]),
        ("echo {} ::: a b :::+ 1 2", ["echo a 1", "echo b 2"]),
        ("echo {x}{y} ::: a b :::+ 1 2", ["echo a1", "echo b2"]),
        ("echo ::: a b :::+ 1 2 ::: X Y", ["echo a 1 X", "echo a 1 Y", "echo b 2 X", "echo b 2 Y"]),
        ("echo ::: X Y ::: a b :::+ 1 2", ["echo X a 1", "echo X b 2", "echo Y a 1", "echo Y b 2"]),
        (
            "echo {4}{3}{2}{1} ::: a b :::+ 1 2 ::: X Y :::+ 11 22",
            ["echo 11X1a", "echo 22Y1a", "echo 11X2b", "echo 22Y2b"],
        ),
        ("echo ::: a b :::+ 1 2 :::+ x y", ["echo a 1 x", "echo b 2 y"]),
    ],
)
def test_words_become_the_commands_they_say(line: str, wanted: list[str]) -> None:
    assert commands(line) == wanted


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("::: 1 2", "no command before :::; write: -- COMMAND {x} ::: VALUE ..."),
        ("", "no command before :::; write: -- COMMAND {x} ::: VALUE ..."),
        (
            "wc {}",
            "{} stands for a value of a list, and there is none; end with ::: VALUE ..., with :::: FILE (- for standard"
            " input), or write {{}} for the text itself",
        ),
        (
            "wc {1}",
            "{1} stands for a value of a list, and there is none; end with ::: VALUE ..., with :::: FILE (- for"
            " standard input), or write {{1}} for the text itself",
        ),
        ("echo {x} :::", "list 1 after ::: is empty; write at least one value"),
        ("echo {x} {y} ::: 1", "1 lists after ::: but 2 placeholders ({x}, {y}); give each its list"),
        ("echo {3} ::: 1 ::: 2", "placeholder {3}: want {} or {1} to {2}, or names only"),
        ("echo {0} ::: 1", "placeholder {0}: want {} or {1} to {1}, or names only"),
        ("echo {%} ::: 1", "{%} of GNU parallel is not known here; leave it out"),
        ("echo :::+ 1", ":::+ links a list to the one before, and there is none; begin with :::"),
        ("echo ::: 1 ::::", "no file after ::::; name one whose lines are values"),
        ("echo :::: /no/such", ":::: /no/such: No such file or directory; mend its name"),
        ("echo {.} ::: a.c", '{.} of GNU parallel is not known here; let a shell cut it, as in "${1%.*}"'),
        ("echo {1/.} ::: a.c", '{1/.} of GNU parallel is not known here; let a shell cut it, as in "${1%.*}"'),
        ("echo {#} ::: a", "{#} of GNU parallel is not known here; write {index}, which counts from 0"),
    ],
)
def test_words_that_do_not_fit_say_why(line: str, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        from_words(line.split())
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("line", "text", "wanted"),
    [
        ("gzip {} ::: a b", "{}.gz", "{arg1}.gz"),
        ("gzip ::: a b", "{}.gz,{1}.log", "{arg1}.gz,{arg1}.log"),
        ("cmd {1} {2} ::: a ::: 1 2", "{2}-{1}", "{arg2}-{arg1}"),
        ("cmd {1} {2} ::: a b :::+ 1 2", "{02}/{index}", "{arg2}/{index}"),
        ("cmd {2} {1} {3} ::: a b :::+ 1 2 ::: p", "{3}{1}", "{arg3}{arg1}"),
        ("gzip {} ::: a", "{{}} {3} ${1}", "{{}} {3} ${1}"),
        ("gzip {x} ::: a b", "{x}.gz", "{x}.gz"),
        ("gzip {x} ::: a b", "{}.gz", "{}.gz"),
        ("make", "{}.gz", "{}.gz"),
    ],
)
def test_numbers_of_lists_mean_the_same_in_options_beside_the_command(line: str, text: str, wanted: str) -> None:
    assert by_number(text, from_words(line.split())) == wanted


def test_lines_of_files_are_values_each_file_a_list_of_its_own(tmp_path: Path) -> None:
    one, two, dos = tmp_path / "one", tmp_path / "two", tmp_path / "dos"
    one.write_text("a b\n\nno\n")
    two.write_text("1\n2")
    dos.write_bytes(b"\xef\xbb\xbfx\r\ny\r\n")
    assert commands(f"echo {{}}. :::: {one}") == ["echo a b.", "echo .", "echo no."]
    assert commands(f"echo :::: {two} {dos}") == ["echo 1 x", "echo 1 y", "echo 2 x", "echo 2 y"]
    assert commands(f"echo :::: {two} ::::+ {dos} ::: Z") == ["echo 1 x Z", "echo 2 y Z"]
    assert commands(f"echo ::: 7 8 ::::+ {two}") == ["echo 7 1", "echo 8 2"]
    one.write_text("a\u2028b\n\n")
    assert commands(f"echo :::: {one}") == ["echo a\u2028b", "echo "]
    one.write_text("")
    with pytest.raises(ValueError, match="list 1 after ::: is empty"):
        from_words(["echo", "::::", str(one)])
    one.write_bytes(b"a\n\xff\n")
    with pytest.raises(ValueError, match="line 2: not UTF-8 text; save the file as UTF-8"):
        from_words(["echo", "::::", str(one)])
    with pytest.raises(ValueError, match="Is a directory; mend its name"):
        from_words(["echo", "::::", str(tmp_path)])
    with one.open("wb") as file:
        file.truncate(MOST_JOB_FILE_BYTES + 1)
    with pytest.raises(ValueError, match="MiB; put the values into a CSV file named by --set from="):
        from_words(["echo", "::::", str(one)])


def test_a_hyphen_stands_for_the_lines_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\nno\n")))
    assert commands("echo :::: - ::: 1") == ["echo a b 1", "echo no 1"]


def test_of_linked_lists_the_shortest_decides_and_that_is_told() -> None:
    told: list[str] = []
    job = from_words(["echo", "{x}", "{y}", ":::", "a", "b", "c", ":::+", "1", "2"], told.append)
    assert job["sweep"] == {"rows": [{"x": "a", "y": "1"}, {"x": "b", "y": "2"}]}
    assert told == ["lists 1 to 2 are linked and have 3, 2 values: as in GNU parallel, the first 2 of each are taken"]


def test_linked_lists_behind_a_large_product_are_to_be_written_first() -> None:
    many = [str(k) for k in range(1001)]
    with pytest.raises(ValueError, match="2004002 combinations up to the last linked list; write the linked lists"):
        from_words(["echo", ":::", *many, ":::", *many, ":::", "a", "b", ":::+", "1", "2"])
    first = from_words(["echo", ":::", "a", "b", ":::+", "1", "2", ":::", *many, ":::", *many])
    assert parse(json.dumps(first), "json").jobs == 2 * 1001 * 1001


def test_combinations_are_bounded_and_what_is_linked_alone_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commandline, "MOST_ROWS", 4)
    assert len(commands("echo ::: 1 2 3 4 5 :::+ a b c d e")) == 5
    assert len(commands("echo ::: 1 2 ::: a b :::+ c d")) == 4
    with pytest.raises(ValueError, match="6 combinations up to the last linked list"):
        commands("echo ::: 1 2 3 ::: a b :::+ c d")


def test_the_command_line_part_loads_no_reader() -> None:
    heavy = "('msgspec', 'yaml', 'tomllib', 'csv')"
    code = f"import sys, diana.jobfile.commandline; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
