"""`diana_report.h`: programs in C and C++ report as `diana report` does (SPEC G5)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diana import report

PROGRAM = """
#include "diana_report.h"
#include <locale.h>
int main(void) {
    setlocale(LC_ALL, "");
    return 10 * diana_restarted() + diana_report(40.5, 100.0);
}
"""
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-D_POSIX_C_SOURCE=200809L"]
COMPILERS = {
    "c89": ["gcc", "-x", "c", "-std=c89"],
    "c17": ["gcc", "-x", "c", "-std=c17"],
    "c++17": ["g++", "-x", "c++", "-std=c++17"],
}


def header() -> str:
    words = [sys.executable, "-c", "from diana.cli.main import main; main()", "report", "--header"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def compiled(folder: Path, language: str, source: str) -> Path:
    words = COMPILERS[language]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    (folder / "diana_report.h").write_text(header())
    (folder / "program.c").write_text(source)
    program = folder / "program"
    subprocess.run([*words, *STRICT, str(folder / "program.c"), "-o", str(program)], check=True, timeout=60)
    return program


def ran(program: Path, **environment: str) -> int:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("DIANA_", "LC_"))}
    return subprocess.run([str(program)], env={**own, **environment}, timeout=60, check=False).returncode


@pytest.mark.parametrize("language", COMPILERS)
def test_a_program_in_c_reports_as_one_in_python_does(
    tmp_path: Path, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, told, other = compiled(tmp_path, language, PROGRAM), tmp_path / "told", tmp_path / "other"
    assert ran(program, DIANA_REPORT=str(told)) == 1
    monkeypatch.setenv("DIANA_REPORT", str(other))
    assert report(40.5, 100.0) and [float(one) for one in told.read_text().split("/")] == [
        float(one) for one in other.read_text().split("/")
    ]
    assert sorted(path.name for path in tmp_path.glob("told*")) == ["told"], "no half report stays behind"


def test_a_program_without_a_contract_or_with_a_full_disk_goes_on(tmp_path: Path) -> None:
    program = compiled(tmp_path, "c89", PROGRAM)
    assert ran(program) == 0 and ran(program, DIANA_REPORT="") == 0
    assert ran(program, DIANA_REPORT=str(tmp_path / "no folder" / "told")) == 0
    (tmp_path / "folder").mkdir()
    assert ran(program, DIANA_REPORT=str(tmp_path / "folder")) == 0, "it cannot be put in its place"
    assert not list(tmp_path.glob("folder.*"))
    assert ran(program, DIANA_CHECKPOINT="alpha-1.0@1") == 10


def test_what_a_locale_writes_as_a_comma_is_a_point_in_a_report(tmp_path: Path) -> None:
    # No locale with a comma may be installed here: the text is made as one would make it.
    source = PROGRAM.replace(
        '#include "diana_report.h"',
        "#include <stdio.h>\n#include <string.h>\nstatic void comma(char *at) "
        "{ for (; *at; at++) if (*at == '.' && at[1] == '5') *at = ','; }\n"
        "#define sprintf(to, ...) ((sprintf)(to, __VA_ARGS__), comma(to))\n"
        '#include "diana_report.h"',
    )
    program, told = compiled(tmp_path, "c17", source), tmp_path / "told"
    assert ran(program, DIANA_REPORT=str(told)) == 1
    assert told.read_text() == "40.5/100\n"
