"""`-- cmd {x} ::: 1 2 3`: words of the command line as a job file."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from diana.jobfile.commandline import from_words
from diana.model.job.sweep import Parameters
from diana.model.job.template import compile_template
from tests.jobfile.builders import parse


def commands(line: str) -> list[str]:
    parsed = parse(json.dumps(from_words(line.split())), "json")
    parameters = Parameters(parsed.spec.sweep)
    words = [compile_template(word) for word in parsed.spec.argv]
    return [" ".join(word.render({**parameters.of(k), "index": str(k)}) for word in words) for k in range(parsed.jobs)]


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
        ("echo {{x}} {y} ::: a", ["echo {x} a"]),
    ],
)
def test_words_become_the_commands_they_say(line: str, wanted: list[str]) -> None:
    assert commands(line) == wanted


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("::: 1 2", "no command before :::; write: -- COMMAND {x} ::: VALUE ..."),
        ("", "no command before :::; write: -- COMMAND {x} ::: VALUE ..."),
        ("echo {x} :::", "list 1 after ::: is empty; write at least one value"),
        ("echo {x} {y} ::: 1", "1 lists after ::: but 2 placeholders ({x}, {y}); give each its list"),
        ("echo {3} ::: 1 ::: 2", "placeholder {3}: want {} or {1} to {2}, or names only"),
    ],
)
def test_words_that_do_not_fit_say_why(line: str, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        from_words(line.split())
    assert str(caught.value) == text


def test_the_command_line_part_loads_no_reader() -> None:
    heavy = "('msgspec', 'yaml', 'tomllib', 'csv')"
    code = f"import sys, diana.jobfile.commandline; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
