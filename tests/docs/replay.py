"""Plays a page of the documentation to a shell, command by command, and compares what comes with what the page shows.

What counts on a page:

- ```console blocks: lines that begin with `$ ` are typed (`> ` goes on with the line before), the others are what is
  to be seen. `...` alone stands for any lines, within a line for any text; runs of spaces count as one.
- A word in capitals, TOKEN, is what the reader copies: it stands for what was shown in its place, also in later
  commands. A first line `token: ...` is what the reader answers: the command has it as its standard input.
- Each command is to exit 0, unless the next one is `echo $?`, which shows the code.
- Other blocks with a title are files to be written, of that name below the home folder.

As a reader would, the player types the next command when a node that was just started answers: one that ends with
exit code 4 (a node cannot be reached) is tried again. A command that only looks is looked at again until it shows what
is expected. Both for `PATIENCE_S` at most.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_S = 30.0
COMMAND_S = 120.0
AGAIN_S = 0.5
NOT_REACHED = 4
LOOKS = re.compile(r"diana (?:status|sites|peers|links|queue|explain|datasets$|doctor)|ls |cat |squeue")
COPIED = "TOKEN"
ASKED = "token: "

_NOTICE = re.compile(r"^bash: line \d+: +\d+ Killed .*\n?", re.MULTILINE)
"""The shell's own word of a job that a command killed comes now or with a later command."""

APART = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""Before the shell: whatever it starts ends with it. Root's."""

_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Step:
    """A command with what is to be seen of it, or a file to write."""

    page: str
    line: int
    command: str = ""
    shown: list[str] = field(default_factory=list)
    file: str = ""
    content: str = ""


def steps(page: Path) -> list[Step]:
    """Those of a page, in its order. AssertionError for a block that cannot be played."""
    text = page.read_text(encoding="utf-8")
    out: list[Step] = []
    for block in _BLOCK.finditer(text):
        language, title, body = block.groups()
        line = text.count("\n", 0, block.start()) + 2
        if language == "console":
            out += _commands(page.name, line, body.splitlines())
        elif title:
            out.append(Step(page.name, line, file=title, content=body))
    return out


def _commands(page: str, first: int, lines: Sequence[str]) -> list[Step]:
    out: list[Step] = []
    for number, line in enumerate(lines, first):
        if line.startswith("$ "):
            out.append(Step(page, number, command=line[2:]))
            continue
        assert out, f"{page}:{number}: a block begins with a command, after `$ `"
        if line.startswith("> ") and not out[-1].shown:
            out[-1].command += "\n" + line[2:]
        else:
            out[-1].shown.append(line)
    return out


def pattern(shown: Sequence[str]) -> re.Pattern[str]:
    """Matches the whole of what a command printed, lines stripped and spaces squeezed."""
    parts = []
    for line in map(_squeezed, shown):
        if line == "...":
            parts.append(r"(?:.*\n)*?")
            continue
        words = re.escape(line).replace(r"\.\.\.", ".*?")
        parts.append(words.replace(COPIED, r"(?P<copied>[\w-]+)") + r"\n")
    return re.compile("".join(parts))


def _squeezed(line: str) -> str:
    return re.sub(r"\s+", " ", line.strip())


class Shell:
    """A bash with a home of its own, and what it started: in a namespace of processes that ends with it. AssertionError
    says where a page is wrong, and shows what came."""

    def __init__(self, home: Path, path: str, *, around: Sequence[str] = (), environment: dict[str, str] | None = None):
        self.home = home
        self.copied = ""
        self._mark = f"--played-{os.getpid()}--"
        words = [*around, *APART, "bash", "--norc", "--noprofile"]
        self._bash = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=home,
            # A user's columns; nothing of the tests' own environment.
            env={"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "COLUMNS": "120", **(environment or {})},
        )

    def close(self) -> None:
        self._bash.kill()
        self._bash.wait(60)
        assert self._bash.stdin and self._bash.stdout
        self._bash.stdin.close()
        self._bash.stdout.close()

    def type(self, command: str) -> None:
        """One command, whatever it prints; it is to exit 0."""
        self._do(Step("typed", 0, command=command, shown=["..."]), code_is_shown=False)

    def play(self, page: Path) -> int:
        """How many commands the page had."""
        todo = steps(page)
        assert todo, f"{page.name}: nothing to play"
        for step, following in zip(todo, [*todo[1:], None], strict=True):
            if step.file:
                (self.home / step.file).write_text(step.content, encoding="utf-8")
            else:
                self._do(step, code_is_shown=following is not None and following.command == "echo $?")
        return sum(1 for step in todo if step.command)

    def _do(self, step: Step, *, code_is_shown: bool) -> None:
        command, shown = step.command, step.shown
        if shown and shown[0].startswith(ASKED):
            command, shown = f"{command} <<< '{shown[0].removeprefix(ASKED)}'", shown[1:]
        command = re.sub(rf"\b{COPIED}\b", self.copied or COPIED, command)
        wanted = pattern(shown)
        by_s = time.monotonic() + PATIENCE_S
        while True:
            told, code = self._typed(command)
            met = wanted.fullmatch("".join(f"{_squeezed(line)}\n" for line in told.splitlines()))
            good = code == 0 or code_is_shown
            print(f"$ {command}\n{told.rstrip()}")
            if met and good:
                break
            again = (code == NOT_REACHED and not code_is_shown) or LOOKS.match(command)
            if not again or time.monotonic() > by_s:
                shown = "\n".join(step.shown)
                raise AssertionError(
                    f"{step.page}:{step.line}: $ {command}\nexit code {code}; it printed\n{told}\n"
                    f"the page shows\n{shown}"
                )
            time.sleep(AGAIN_S)
        if "copied" in wanted.groupindex:
            self.copied = met["copied"]

    def _typed(self, command: str) -> tuple[str, int]:
        """(what it printed, its exit code). The shell keeps the code for a later `echo $?`."""
        assert self._bash.stdin and self._bash.stdout
        script = f"{command}\n__code=$?; printf '\\n%s %d\\n' '{self._mark}' $__code; (exit $__code)\n"
        self._bash.stdin.write(script.encode())
        self._bash.stdin.flush()
        told, by_s = b"", time.monotonic() + COMMAND_S
        end = re.compile(rf"\n{re.escape(self._mark)} (\d+)\n".encode())
        while not (ended := end.search(told)):
            left_s = by_s - time.monotonic()
            ready = left_s > 0 and select.select([self._bash.stdout], [], [], left_s)[0]
            more = os.read(self._bash.stdout.fileno(), 65536) if ready else b""
            assert more, (
                f"$ {command}\nis not over after {COMMAND_S:g} s, or the shell ended; it printed\n{told.decode()}"
            )
            told += more
        return _NOTICE.sub("", told[: ended.start()].decode()), int(ended[1])
