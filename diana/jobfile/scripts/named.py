"""Scripts that a job file names, and what a group's script is given and its author is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from diana.jobfile.build import local_path
from diana.jobfile.gang import own_inputs
from diana.jobfile.parsed import SentFile
from diana.jobfile.raw import RawJob, raw_input
from diana.jobfile.read import read_text
from diana.jobfile.scripts.reading import ReadScript, lines_unread
from diana.jobfile.scripts.text import BEGIN, MOST_HEAD, MOST_SCRIPT_BYTES, ScriptText, runnable, why_not_run
from diana.jobfile.scripts.variables import SlurmLines, environment, told, variables_read
from diana.model.job.spec import GroupSpec

_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})


def is_text(script: str) -> bool:
    """True if `script` is one; else it is the name of a file."""
    return script.startswith("#!") or "\n" in script


def script_of(
    raw: RawJob, files: Mapping[str, SentFile], read_blob: Callable[[str], bytes], own: ReadScript | None
) -> ScriptText:
    """Return the group's script as a machine can run it; `#!` for one that is still to come. `own`: the script that the
    job file itself is. ValueError: it is none."""
    name = raw.group.script
    if not name:
        return ScriptText("", 0, ())
    if own is not None and name == own.data["group"]["script"]:
        # The notes on it were made when it was read.
        where, script = "group.script", ScriptText(name, 0, ())
    elif is_text(name):
        where, script = "group.script", runnable(name)
    elif (sent := files.get(name)) is None:
        return ScriptText("#!", 0, ())
    elif sent.size_bytes > MOST_SCRIPT_BYTES:
        raise ValueError(f"{name}: a script of more than 1 MiB; put its data into files named by inputs")
    else:
        where, script = name, runnable(read_text(read_blob(sent.sha256), name))
        notes = [f"{name}: {note}" for note in script.notes]
        if unread := lines_unread(script.text):
            notes.append(
                f"{name}: its #SBATCH and #DIANA lines, such as line {unread[0] + script.skipped}, are not read beside"
                " a job file; write there what they say, or submit the script itself"
            )
        script = script._replace(notes=tuple(notes))
    if not script.text.startswith("#!"):
        raise ValueError(f"{where}: line 1: {BEGIN}")
    if "\0" in script.text:
        raise ValueError(f"{where}: holds a NUL character; remove it")
    return script


def known_to_slurm(spec: GroupSpec, own: ReadScript | None, submitted_in: str) -> tuple[GroupSpec, list[str]]:
    """Return the spec with Slurm's variables, if its script looks at any or has lines for Slurm, and notes. `own`: the
    script that the job file itself is."""
    read = variables_read(spec.script, own.skipped if own else 0)
    lines = own.slurm if own else SlurmLines()
    if not read and not lines.there:
        return spec, []
    variables = {**environment(spec, lines, read), **dict(spec.environment)}
    spec = msgspec.structs.replace(spec, environment=tuple(sorted(variables.items())))
    return spec, told(read, variables, spec.cwd, submitted_in)


def check_program(
    raw: RawJob, spec: GroupSpec, files: Mapping[str, SentFile], read_blob: Callable[[str], bytes]
) -> list[str]:
    """Look at a script among the inputs that the command runs. ValueError: no machine can. Return notes on one that a
    shell is to read."""
    words = [word.removeprefix("./") for word in spec.argv[:2]]
    for local, path in _programs(raw, files):
        if path not in words:
            continue
        why = why_not_run(read_blob(files[local].sha256)[:MOST_HEAD])
        if why and path == words[0]:
            raise ValueError(f"{local}: line 1: {why}")
        if why and words[0].rpartition("/")[2] in _SHELLS:
            return [f"{local}: line 1: {why}"]
    return []


def _programs(raw: RawJob, files: Mapping[str, SentFile]) -> Iterator[tuple[str, str]]:
    """Yield local inputs, short enough for a script, and the paths where jobs find them."""
    every = [raw.inputs, *(inputs for _, inputs in own_inputs(raw))]
    for item in (raw_input(each) for inputs in every for each in inputs):
        local = local_path(item.url)
        if local and local in files and files[local].size_bytes <= MOST_SCRIPT_BYTES:
            yield local, (item.path or local.rpartition("/")[2]).removeprefix("./")
