"""A command that is not there is found at submission."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.jobfile.check import missing_command, shell_command
from diana.model.job.spec import ComponentSpec, GroupSpec, InputFile


def missing(*argv: str, inputs: tuple[str, ...] = (), path: str = "/usr/bin:/bin") -> str | None:
    files = tuple(InputFile(source="dataset:d/f", path=name) for name in inputs)
    return missing_command(GroupSpec(argv=argv, inputs=files), path)


@pytest.mark.parametrize(
    ("argv", "inputs"),
    [
        (("sh", "-c", "x"), ()),
        (("/bin/sh",), ()),
        (("{tool}", "x"), ()),
        (("./sim",), ("sim",)),
        (("bin/sim",), ("bin/sim",)),
        (("tools/bin/sim",), ("tools",)),
        (("./sim-a",), ("sim-{x}",)),
    ],
)
def test_a_command_that_is_there_or_may_be_passes(argv: tuple[str, ...], inputs: tuple[str, ...]) -> None:
    assert missing(*argv, inputs=inputs) is None


@pytest.mark.parametrize(
    ("first", "apart"),
    [
        ("echo {x} | wc -c", ""),
        ("echo {x}", " leave out its quotes, or"),
        ("echo hi > out.txt", ""),
        ("nosuch -a {x}", " leave out its quotes, or"),
        ("/bin/echo {x}", " leave out its quotes, or"),
        ("cd /data && ./run {x}", ""),
        ("./run.sh {x} > {x}.out", ""),
        ("echo\t{x}", " leave out its quotes, or"),
    ],
)
def test_a_command_line_in_quotes_is_told_how_a_shell_runs_it(first: str, apart: str) -> None:
    line = f"command '{first}': is one word, with blanks;{apart} have a shell run it: sh -c '{first}'"
    component = ComponentSpec(count=2, processors=1, argv=(first,))
    for spec in (
        GroupSpec(argv=(first,)),
        GroupSpec(argv=(first, "{y}")),
        GroupSpec(argv=(first,), container="image"),
    ):
        assert shell_command(spec, "/usr/bin:/bin") == line
    of_component = GroupSpec(argv=("sh",), components=(component,))
    assert shell_command(of_component, "/usr/bin:/bin") == f"components[0].{line}"
    assert shell_command(GroupSpec(argv=(first,), script="#!/bin/sh\n"), "/usr/bin:/bin") is None


def test_a_program_whose_path_has_a_blank_is_one(tmp_path: Path) -> None:
    (tmp_path / "my tool").touch(mode=0o755)
    (tmp_path / "my {own} tool").touch(mode=0o755)
    (tmp_path / "R&D {own} tool").touch(mode=0o755)
    assert shell_command(GroupSpec(argv=(f"{tmp_path}/R&D {{{{own}}}} tool",)), "/usr/bin:/bin") is None
    for first in (f"{tmp_path}/my tool", f"{tmp_path}/my {{tool}}", f"{tmp_path}/my {{{{own}}}} tool", "./my tool"):
        assert shell_command(GroupSpec(argv=(first,)), "/usr/bin:/bin") is None
        assert missing(first, inputs=("my tool",)) is None
    assert shell_command(GroupSpec(argv=("sh", "-c", "echo {x} | wc")), "/usr/bin:/bin") is None


def test_what_is_looked_for_in_an_image_or_after_modules_cannot_be_told() -> None:
    assert missing_command(GroupSpec(argv=("/opt/tool",), container="image"), "") is None
    assert missing_command(GroupSpec(script="#!/no/python\n", modules=("python",)), "") is None


def test_a_missing_command_says_where_was_looked_and_what_mends_it(tmp_path: Path) -> None:
    skip = "or submit with --no-check-command if only other sites have it"
    assert missing("nosuch") == (
        f"command nosuch: not found in the PATH of this machine; mend its name, add it to the inputs, {skip}"
    )
    assert missing("/no/such") == f"command /no/such: no such file on this machine; mend the path, {skip}"
    plain = tmp_path / "plain"
    plain.touch(mode=0o644)
    assert missing(str(plain)) == f"command {plain}: not executable on this machine; mend the path, {skip}"
    assert missing("./sim", inputs=("other",)) == (
        "command ./sim: not among the inputs (a job starts in a directory of its own);"
        ' add it to the job file: [[inputs]] url = "sim", executable = true'
    )
    assert (
        missing("sim", inputs=("sim",)) == "command sim: an input of that name is not looked for in PATH; write ./sim"
    )


def test_a_script_is_checked_by_its_interpreter() -> None:
    assert missing_command(GroupSpec(script="#!/bin/sh -e\n"), "") is None
    line = missing_command(GroupSpec(script="#!/no/python\n"), "")
    assert line is not None and line.startswith("script: interpreter /no/python: no such file on this machine;")
    assert missing_command(GroupSpec(script="#!\n"), "") is not None


def test_a_component_whose_own_command_is_missing_is_told_as_well() -> None:
    spec = GroupSpec(argv=("/bin/sh",), components=(ComponentSpec(), ComponentSpec(argv=("nosuch", "-x"))))
    line = missing_command(spec, "/bin")
    assert line is not None
    assert line.startswith("components[1].command nosuch: not found in the PATH of this machine;")
    assert missing_command(GroupSpec(argv=("/bin/sh",), components=(ComponentSpec(argv=("/bin/ls",)),)), "") is None
