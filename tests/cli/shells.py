"""Real shells that have read the completion script, and what they offer."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from diana.cli.published import completion
from tests.cli.terminal import Terminal

ROOT = Path(__file__).parents[2]


def make_program(folder: Path) -> Path:
    """A `diana` as it stands in a PATH, and the bash script beside it."""
    program = folder / "diana"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m diana.cli "$@"\n')
    program.chmod(0o755)
    (folder / "diana.bash").write_text(completion.script("bash"))
    return program


def bash(program: Path, script: str) -> list[str]:
    """The lines a fresh bash prints that has read the completion script."""
    command = ["bash", "--norc", "--noprofile", "-c", f'source "{program.parent / "diana.bash"}"\n{script}']
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stderr == ""
    return ended.stdout.splitlines()


def completed(program: Path, *words: str) -> list[str]:
    """Words that bash offers for the last one, which may be empty."""
    listed = " ".join(f'"{word}"' for word in (program, *words))
    script = (
        f"COMP_WORDS=({listed}); COMP_CWORD={len(words)}\n"
        'compopt() { :; }\n_shtab_diana\nprintf "%s\\n" "${COMPREPLY[@]}"'
    )
    return [line for line in bash(program, script) if line]


_ASKED = "\x18\x14"
_RC = """
PS1='ready> '
fpath=({folder} $fpath)
path=({folder} $path)
autoload -U compinit; compinit -u -D
_told() {{
  local -a told
  compadd() {{
    # With these it only fills arrays of who calls.
    if [[ ${{@[1,(i)(-|--)]}} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
    local -a hits; builtin compadd -A hits "$@"; told+=($hits)
    builtin compadd "$@"
  }}
  _main_complete
  unfunction compadd
  print -rl -- $told "end of $BUFFER" >> {folder}/told
  compstate[insert]= compstate[list]=
}}
zle -C told complete-word _told
bindkey '^X^T' told
"""


class Zsh:
    """An interactive zsh on a terminal whose $fpath has the script as `_diana`. Use it as a context."""

    def __init__(self, program: Path) -> None:
        self._folder = program.parent
        (self._folder / "_diana").write_text(completion.script("zsh"))
        (self._folder / "rc").write_text(_RC.format(folder=self._folder))
        self._told = self._folder / "told"
        self._told.touch()
        self.terminal = Terminal(["zsh", "-f", "-i"], columns=120, environment={"ZDOTDIR": str(self._folder)})

    def __enter__(self) -> Zsh:
        self.terminal.press(f"source {self._folder}/rc\n")
        self.terminal.until("ready> ")
        return self

    def __exit__(self, *exc: object) -> None:
        self.terminal.__exit__()

    def completed(self, line: str, within_s: float = 60.0) -> list[str]:
        """Words offered for the last one of this line, which may be empty."""
        self._told.write_text("")
        self.terminal.press(line + _ASKED)
        end = time.monotonic() + within_s
        while not (told := self._told.read_text()).endswith(f"end of {line}\n"):
            assert time.monotonic() < end, f"{told}\n{self.terminal.raw.decode(errors='replace')}"
            self.terminal.read()
        # The line is taken away again.
        self.terminal.press("\x15")
        return told.splitlines()[:-1]

    def typed(self, line: str, becomes: str) -> None:
        """The line with a TAB behind it, as it then stands on the terminal."""
        self.terminal.raw = b""
        self.terminal.press(line + "\t")
        self.terminal.until(becomes)
        self.terminal.press("\x15")
