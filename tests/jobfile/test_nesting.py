"""Job files that are deeper, or larger once written out, than a parser stands: one line, and the process lives on.

Each is parsed in a process of its own, for what goes wrong here ends the process.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest

from diana.bounds import MOST_DEPTH
from diana.errors import UsageError
from diana.jobfile.nesting import MOST_ALIASED
from tests.jobfile.builders import parse

DEPTH = 50_000
PARSE = """
import sys
from diana.errors import UsageError
from tests.jobfile.builders import parse
try:
    parse(sys.stdin.buffer.read(), sys.argv[1])
except UsageError as error:
    print(error)
"""
DEEP = {
    "yaml-lists": ("yaml", "group: " + "[" * DEPTH + "]" * DEPTH),
    "yaml-maps": ("yaml", "group: " + "{a: " * DEPTH + "1" + "}" * DEPTH),
    "yaml-dashes": ("yaml", "group:\n - " + "- " * DEPTH + "1"),
    "yaml-keys": ("yaml", "? " * DEPTH + "1"),
    "yaml-unclosed": ("yaml", "group: " + "[" * DEPTH),
    "toml-lists": ("toml", "group = " + "[" * DEPTH + "]" * DEPTH),
    "toml-tables": ("toml", "group = " + "{a=" * DEPTH + "1" + "}" * DEPTH),
    "toml-dots": ("toml", "a . " * DEPTH + "a = 1"),
    "toml-dots-within": ("toml", "group = {x = 1, " + "'a'." * DEPTH + '"a" = 1}'),
    "toml-header": ("toml", "[" + '"a\\"b".' * DEPTH + "a]\nx = 1"),
    "toml-headers": ("toml", "[[ " + "a." * DEPTH + "a]]\nx = 1"),
    "json-lists": ("json", '{"group": ' + "[" * DEPTH + "]" * DEPTH + "}"),
    "json-maps": ("json", '{"group": ' + '{"a":' * DEPTH + "1" + "}" * DEPTH + "}"),
    "json-unclosed": ("json", '{"group": ' + "[" * DEPTH),
}
NINE_TIMES = "[" + ", ".join(["*a{0}"] * 9) + "]"


def levels(value: str) -> str:
    """Eleven anchors, each of which names the one before it nine times."""
    lines = [f"  a{at}: &a{at} {value.replace('{0}', str(at - 1))}\n" for at in range(1, 12)]
    return "group:\n  command: x\nsweep:\n  a0: &a0 {k: 1}\n" + "".join(lines)


@pytest.mark.parametrize(("format", "text"), DEEP.values(), ids=DEEP)
def test_a_job_file_nested_fifty_thousand_levels_deep_is_refused_in_one_line(format: str, text: str) -> None:
    began = time.process_time()
    command = [sys.executable, "-c", PARSE, format]
    ended = subprocess.run(command, input=text.encode(), capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    said = ended.stdout.decode()
    assert said.startswith("job: ") and said.count("\n") == 1, said
    assert "nested too deeply" in said
    assert time.process_time() - began < 5.0


@pytest.mark.parametrize("value", [NINE_TIMES, "{<<: " + NINE_TIMES + "}"], ids=["values", "merged-keys"])
def test_aliases_that_write_out_to_billions_are_refused(value: str) -> None:
    command = [sys.executable, "-c", PARSE, "yaml"]
    ended = subprocess.run(command, input=levels(value).encode(), capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    says = r"job: line \d+, column \d+: aliases that write out to more than 1 MiB; mend the YAML there\n"
    assert re.fullmatch(says, ended.stdout.decode())


def test_an_alias_within_what_it_names_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"^job: line 3, column 14: an alias within what it names; mend the YAML there$"
    ):
        parse("group:\n  command: x\n  sites: &a [*a]\n", "yaml")


def test_depth_is_counted_with_aliases_written_out() -> None:
    lines = "".join(f"  a{at}: &a{at} [*a{at - 1}]\n" for at in range(1, MOST_DEPTH + 1))
    with pytest.raises(UsageError, match="nested too deeply"):
        parse(f"sweep:\n  a0: &a0 [1]\n{lines}", "yaml")


def test_anchors_and_merged_keys_serve_as_ever() -> None:
    job = parse(
        "group:\n  command: echo {x} {y}\n  environment: &env {A: one}\nsweep:\n  x: &some [1, 2]\n  y: *some\n", "yaml"
    )
    assert job.jobs == 4
    assert MOST_ALIASED == 1 << 20


@pytest.mark.parametrize("text", ["'" + "a." * 100 + "'", '"""\n' + "a.b " * 100 + '"""'])
def test_dots_in_a_text_are_no_depth(text: str) -> None:
    assert parse(f"group.command = ['echo', {text}]").jobs == 1
