"""A real bash that has read the completion script, and what it offers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from diana.cli import completion

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
    """What bash offers for the last word, which may be empty."""
    listed = " ".join(f'"{word}"' for word in (program, *words))
    script = (
        f"COMP_WORDS=({listed}); COMP_CWORD={len(words)}\n"
        'compopt() { :; }\n_shtab_diana\nprintf "%s\\n" "${COMPREPLY[@]}"'
    )
    return [line for line in bash(program, script) if line]
