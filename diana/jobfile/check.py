"""Check that the command exists, and is none that only a shell would understand. Done at submission, while its author
is still there to mend a mistake."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable

from diana.model.job.spec import GroupSpec
from diana.model.job.template import compile_template, quoted

_SKIP = "or submit with --no-check-command if only other sites have it"


def shell_command(spec: GroupSpec, path: str) -> str | None:
    """Return one line when the first word of a command is a whole command line in quotes, whatever site is to run it;
    else None."""
    return None if spec.script else _first_line(spec, lambda first: shell_line(first, path))


def missing_command(spec: GroupSpec, path: str) -> str | None:
    """Return one line when the command (or the script's interpreter) is neither on this machine nor among the inputs;
    else None.

    `path` is the PATH to search. None also when it cannot be checked: the command names a placeholder, or is looked for
    in an image or after modules were made ready.
    """
    if spec.container or spec.modules:
        return None
    if spec.script:
        return _missing_interpreter(spec.script)
    return _first_line(spec, lambda first: _missing(spec, first, path))


def _first_line(spec: GroupSpec, line_of: Callable[[str], str | None]) -> str | None:
    """Return the first line on the first word of a command: that of the group, or one of a component's own."""
    commands = [("", spec.argv), *((f"components[{at}].", each.argv) for at, each in enumerate(spec.components))]
    lines = ((where, line_of(words[0])) for where, words in commands if words)
    return next((f"{where}{line}" for where, line in lines if line), None)


_SHELLS = re.compile(r"[|;<>&]")
"""Characters that mean something to a shell alone, and are in no path that anybody has."""


def shell_line(first: str, path: str) -> str | None:
    """The same of a first word, as written. The path of a program may hold blanks."""
    head = (first.split() or [""])[0]
    if first == head or os.path.isfile(first.replace("{{", "{").replace("}}", "}")):
        return None
    needs_shell = _SHELLS.search(first) is not None
    if "/" in head and not (needs_shell or shutil.which(head, path=path)):
        return None
    apart = "" if needs_shell else " leave out its quotes, or"
    return f"command {quoted(first)}: is one word, with blanks;{apart} have a shell run it: sh -c {quoted(first)}"


def _missing(spec: GroupSpec, first: str, path: str) -> str | None:
    template = compile_template(first)
    if template.names:
        return None
    command = template.render({})
    if "/" not in command:
        return _missing_in_path(spec, command, path)
    if os.path.isabs(command):
        return (
            None
            if _runnable(command)
            else f"command {command}: {_why(command)} on this machine; mend the path, {_SKIP}"
        )
    if spec.cwd or _among_inputs(spec, command):
        return None
    # A file's name stands there as a template.
    name = os.path.basename(command).replace("{", "{{").replace("}", "}}")
    return (
        f"command {command}: not among the inputs (a job starts in a directory of its own);"
        f' add it to the job file: [[inputs]] url = "{name}", executable = true'
    )


def _missing_in_path(spec: GroupSpec, command: str, path: str) -> str | None:
    if shutil.which(command, path=path):
        return None
    if _among_inputs(spec, command):
        return f"command {command}: an input of that name is not looked for in PATH; write ./{command}"
    return f"command {command}: not found in the PATH of this machine; mend its name, add it to the inputs, {_SKIP}"


def _missing_interpreter(script: str) -> str | None:
    first = script.partition("\n")[0].removeprefix("#!").split()
    if not first:
        return 'script: its first line names no interpreter; write one, such as "#!/bin/sh"'
    return (
        None
        if _runnable(first[0])
        else f"script: interpreter {first[0]}: {_why(first[0])} on this machine; mend the first line, {_SKIP}"
    )


def _among_inputs(spec: GroupSpec, command: str) -> bool:
    """True if the command is an input, or below one that may be a directory, or may be one whose name varies."""
    name = os.path.normpath(command)
    if name == spec.program:
        return True
    for file in spec.every_input():
        template = compile_template(file.path)
        if template.names:
            return True
        given = os.path.normpath(template.render({}))
        if name == given or name.startswith(given + "/"):
            return True
    return False


def _runnable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _why(path: str) -> str:
    return "not executable" if os.path.isfile(path) else "no such file"
