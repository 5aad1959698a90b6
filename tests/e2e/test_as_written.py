"""A job gets what its user wrote, from the command line or a file to the process that runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Site

pytestmark = pytest.mark.e2e
DIANA = [sys.executable, "-m", "diana.cli"]


@pytest.fixture(scope="module")
def alpha() -> Iterator[Site]:
    made = Grid()
    try:
        site = made.add("alpha", 2)
        site.start()
        yield site
    finally:
        made.close()


def said(site: Site, folder: Path, verb: str, *words: str, stdin: str = "") -> tuple[int, str, str]:
    command = [*DIANA, verb, "--data", str(site.data), *words]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        input=stdin,
        timeout=60,
        check=False,
        cwd=folder,
        env=site.environment(),
    )
    return ended.returncode, ended.stdout, ended.stderr


def printed(site: Site, folder: Path, *words: str, stdin: str = "") -> tuple[list[str], str]:
    """Return the logs of a group's jobs, by index, and the words at its submission."""
    code, out, err = said(site, folder, "submit", "--parsable", "--wait", *words, stdin=stdin)
    assert code == 0, err
    (group,) = out.split()
    _, told, _ = said(site, folder, "status", "--json", group)
    jobs = int(told.partition('"jobs":')[2].split(",")[0])
    return [said(site, folder, "logs", f"{group}.{k}")[1].strip() for k in range(jobs)], err


def test_values_of_files_keep_their_spelling(alpha: Site, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "group: {command: [sh, -c, 'echo {x} $V'], environment: {V: no}}\nsweep: {x: [no, 010, 1:30, 3.10]}\n"
    )
    assert printed(alpha, tmp_path, "a.yaml")[0] == ["no no", "010 no", "1:30 no", "3.10 no"]
    (tmp_path / "b.toml").write_text("[group]\ncommand = 'echo {x} {y}'\n[sweep]\nx = [3.10, 1e6]\ny = '001-002'\n")
    assert printed(alpha, tmp_path, "b.toml")[0] == ["3.10 001", "3.10 002", "1e6 001", "1e6 002"]
    (tmp_path / "t.csv").write_text("s, d\nA, 10\n,\n")
    words = ("--set", "sweep.from=t.csv", "--", "echo", "<{s}> <{d}>")
    found, err = printed(alpha, tmp_path, *words)
    assert found == ["<A> <10>"]
    assert err == "diana: job: t.csv: passed over 1 row without a value (line 3)\n"


def test_the_shell_has_its_braces(alpha: Site, tmp_path: Path) -> None:
    assert printed(alpha, tmp_path, "--", "sh", "-c", "echo got-${x:-none}-$1", "sh", "{x}", ":::", "1", "2")[0] == [
        "got-none-1",
        "got-none-2",
    ]
    found, err = printed(alpha, tmp_path, "--", "sh", "-c", "echo ${index}")
    assert found == [""]
    assert "${index} is left to the shell; the value of each job is {index}" in err


def test_linked_lists_and_files_of_values_are_those_of_gnu_parallel(alpha: Site, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("300\n310\n")
    words = ("--", "echo", ":::", "a", "b", ":::+", "1", "2", "::::", "t.txt")
    assert printed(alpha, tmp_path, *words)[0] == ["a 1 300", "a 1 310", "b 2 300", "b 2 310"]
    assert printed(alpha, tmp_path, "--", "echo", "::::", "-", stdin="x y\nz\n")[0] == ["x y", "z"]


def test_a_command_line_in_quotes_is_refused_before_anything_is_accepted(alpha: Site, tmp_path: Path) -> None:
    code, out, err = said(alpha, tmp_path, "submit", "--", "echo {} | wc -c", ":::", "a", "b")
    assert (code, out) == (2, "")
    assert "command 'echo {} | wc -c': is one word, with blanks; have a shell run it: sh -c 'echo {} | wc -c'" in err
    (tmp_path / "j.toml").write_text("[group]\ncommand = ['echo {x} | wc -c']\n[sweep]\nx = [1]\n")
    code, _, err = said(alpha, tmp_path, "submit", "j.toml")
    assert code == 2 and "sh -c 'echo {x} | wc -c'" in err


def test_an_input_with_braces_in_its_name_is_there(alpha: Site, tmp_path: Path) -> None:
    (tmp_path / "{a}").write_text("content of it\n")
    (tmp_path / "j.toml").write_text("inputs = ['{{a}}']\n[group]\ncommand = 'cat {{a}}'\n")
    assert printed(alpha, tmp_path, "j.toml")[0] == ["content of it"]
    assert printed(alpha, tmp_path, "--input", "{a}", "--", "cat", "{{a}}")[0] == ["content of it"]


def test_the_first_script_of_the_docs_runs_as_it_is_printed(alpha: Site, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "job-file.md").read_text()
    script = page.partition("## Scripts\n")[2].partition("```sh\n")[2].partition("```")[0]
    (tmp_path / "run.sh").write_text(script.replace("1-100%20", "2-4%2"))
    code, out, err = said(alpha, tmp_path, "submit", "--parsable", "--wait", "run.sh")
    assert code == 0, err
    assert said(alpha, tmp_path, "fetch", out.strip(), "--to", "made")[0] == 0
    assert {path.name: path.read_text() for path in (tmp_path / "made").iterdir()} == {
        f"square-{n}.txt": f"{n * n}\n" for n in (2, 3, 4)
    }
