"""Entry of this package: takes a job file's bytes, gives a checked `GroupSpec` or one line for its author."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from diana.bounds import MOST_TABLE_BYTES
from diana.errors import UsageError, one_line
from diana.jobfile.build import build_spec, file_name, local_path
from diana.jobfile.chunks import Cut, no_cut, with_chunks
from diana.jobfile.dag import members, waits
from diana.jobfile.gang import components, flexible, own_inputs
from diana.jobfile.options import apply
from diana.jobfile.package import AskModel, no_models, with_model
from diana.jobfile.parsed import ParsedFile, ParsedJob, SentFile
from diana.jobfile.problems import checked
from diana.jobfile.raw import RawJob, raw_input
from diana.jobfile.read import FORMATS, read_data, read_text
from diana.jobfile.scripts.named import check_program, is_text, known_to_slurm, script_of
from diana.jobfile.scripts.reading import ReadScript, read_script
from diana.jobfile.scripts.variables import array_environment
from diana.jobfile.sweeps import BuiltSweep, build_sweep, text_of, with_ranks
from diana.jobfile.urls import check_count
from diana.model.job.notices import checked_targets
from diana.model.job.spec import GroupSpec
from diana.model.job.sweep import Parameters, refs_of
from diana.model.job.template import GIVEN

MOST_REFS = 1_000_000
"""Most different files a group may read. More would make placement as large as the data."""


def parse_file(
    content: bytes,
    format: str,
    source_name: str,
    options: Mapping[str, str],
    files: Mapping[str, SentFile],
    put_blob: Callable[[bytes], str],
    read_blob: Callable[[str], bytes],
    model: AskModel = no_models,
    submitted_in: str = "",
    cut: Cut = no_cut,
) -> ParsedFile:
    """Check a job file of one group or several; `format` is toml, yaml, json or script.

    `options` override its keys (see `jobfile/options.py`); `files` are the local files sent so far, by the name
    written in the job file; `put_blob` keeps the rows of a sweep and gives their SHA-256 (called last, when all else
    is in order), `read_blob` gives the content of a sent file, `model` the equations of a model that is installed here.
    `submitted_in` is the folder where its author was, for notes; empty: not known. `cut` divides a sent file.
    UsageError: one line, beginning with `source_name`.
    """
    rows: list[bytes] = []

    def put_later(content: bytes) -> str:
        rows.append(content)
        return ""

    try:
        tables, options, script = _tables(content, format, source_name, options)
        groups = []
        for name, table in tables:
            try:
                whole = apply(table, options)
                groups.append(_parse(whole, source_name, files, put_later, read_blob, model, script, submitted_in, cut))
            except (ValueError, OverflowError) as error:
                raise ValueError(f"group {name}: {error}" if len(tables) > 1 else str(error)) from None
        needs = tuple(dict.fromkeys(path for group in groups for path in group.needs_files))
        if needs or any(not group.jobs for group in groups):
            return ParsedFile(groups=(), needs_files=needs)
        found = waits(groups)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{source_name}: {one_line(str(error))}") from None
    for content in rows:
        put_blob(content)
    notes = list(script.notes) if script else []
    for (name, _), one in zip(tables, groups, strict=True):
        notes += (f"group {name}: {note}" if len(tables) > 1 else note for note in one.notes)
    told = dict.fromkeys(notes)
    return ParsedFile(groups=tuple(groups), waits=found, notes=tuple(f"{source_name}: {note}" for note in told))


def _tables(
    content: bytes, format: str, source: str, options: Mapping[str, str]
) -> tuple[list[tuple[str, dict[str, Any]]], Mapping[str, str], ReadScript | None]:
    """(groups by name, each as a file of one group; options still to be put over them; the script, if it is one)."""
    check_format(format, source)
    if format == "script":
        script = read_script(read_text(content, source), options, source.rpartition("/")[2] or source)
        return [("", script.data)], script.options, script
    data = read_data(content, format, source)
    if isinstance(data.get("group"), list):
        return members(data, options), {}, None
    return [("", data)], options, None


def check_format(format: str, source: str) -> None:
    if format not in FORMATS:
        raise UsageError(f"{source}: format {format!r} is not understood; want one of {', '.join(FORMATS)}")


def _parse(
    data: dict[str, Any],
    source: str,
    files: Mapping[str, SentFile],
    put_blob: Callable[[bytes], str],
    read_blob: Callable[[str], bytes],
    model: AskModel,
    own: ReadScript | None,
    submitted_in: str,
    cut: Cut,
) -> ParsedJob:
    """`own`: the script that the job file itself is."""
    raw, others = checked(data)
    if "sweep" in data and not raw.sweep:
        raise ValueError("sweep: empty; name a value, such as x = [1, 2], or leave [sweep] out")
    needs = tuple(path for path in _local_files(raw) if path not in files)
    built = with_ranks(_built_sweep(raw, files, read_blob), components(raw, others.of_components), flexible(raw))
    table_to_come = "from" in raw.sweep and built.sweep.table is None
    parameters = None if table_to_come else Parameters(built.sweep, built.rows)
    script = script_of(raw, files, read_blob, own)
    spec = build_spec(
        raw, others, built.sweep, parameters, script.text, files, _default_name(source), _array_variables(raw, built)
    )
    if built.max_parallel and not spec.max_parallel:
        spec = msgspec.structs.replace(spec, max_parallel=built.max_parallel)
    if raw.package.model and not needs:
        spec = with_model(spec, raw, model)
    if needs or parameters is None:
        return ParsedJob(spec=GroupSpec(), jobs=0, refs=(), needs_files=needs)
    spec = with_chunks(spec, raw, cut)
    refs = refs_of(spec, parameters)
    if len(refs) > MOST_REFS:
        raise ValueError(
            f"inputs: {len(refs)} different files; at most {MOST_REFS} make one group, submit it in pieces"
        )
    check_count(ref for ref, _ in refs)
    notes = [*script.notes, *check_program(raw, spec, files, read_blob)]
    if spec.script:
        spec, more = known_to_slurm(spec, own, submitted_in)
        notes += more
    if built.content:
        put_blob(built.content)
    return ParsedJob(
        spec=spec,
        jobs=parameters.size,
        refs=refs,
        after=tuple(raw.group.after),
        notify=_notify(raw.group.notify),
        notes=(*built.notes, *notes, *_left_to_the_shell(raw, parameters.names)),
    )


def _left_to_the_shell(raw: RawJob, swept: Sequence[str]) -> Iterator[str]:
    """Tell of each `${name}` that stays as it is though a job has a value of that name."""
    command = raw.group.command
    written = [command] if isinstance(command, str) else command
    texts = "\n".join((*written, raw.group.executable, *map(text_of, raw.group.arguments)))
    if "${" in texts:
        for name in sorted({*swept, *GIVEN}):
            if f"${{{name}}}" in texts:
                yield f"${{{name}}} is left to the shell; the value of each job is {{{name}}}"


def _notify(written: str | list[str]) -> tuple[str, ...]:
    try:
        return checked_targets(written.split(",") if isinstance(written, str) else written)
    except ValueError as error:
        raise ValueError(f"group.notify: {error}") from None


def _local_files(raw: RawJob) -> list[str]:
    """Local files that the job file names, once each, in order."""
    out = []
    source = raw.sweep.get("from")
    if isinstance(source, str):
        out.append(source)
    if raw.group.script and not is_text(raw.group.script):
        out.append(raw.group.script)
    for key, inputs in (("inputs", raw.inputs), *own_inputs(raw)):
        for at, item in enumerate(map(raw_input, inputs)):
            try:
                local = local_path(item.url)
            except ValueError as error:
                raise ValueError(f"{key}[{at}].url: {error}") from None
            # A placeholder here is refused later, with its reason.
            with suppress(ValueError, KeyError):
                if local:
                    out.append(file_name(local))
    out += (path for path in raw.package.builds.values() if path and not path.endswith("/"))
    return list(dict.fromkeys(out))


def _built_sweep(raw: RawJob, files: Mapping[str, SentFile], read_blob: Callable[[str], bytes]) -> BuiltSweep:
    name = raw.sweep.get("from")
    if not isinstance(name, str) or name not in files:
        return build_sweep(raw.sweep, None, "")
    if files[name].size_bytes > MOST_TABLE_BYTES:
        raise ValueError(f"{name}: a table of more than {MOST_TABLE_BYTES >> 20} MiB; submit it in pieces")
    return build_sweep(raw.sweep, read_text(read_blob(files[name].sha256), name), name)


def _array_variables(raw: RawJob, built: BuiltSweep) -> dict[str, str]:
    return array_environment(*built.array) if built.array and raw.group.script else {}


def _default_name(source: str) -> str:
    """`runs/sweep.toml` -> `sweep`; empty when the source is no file's name."""
    stem, dot, suffix = source.rpartition("/")[2].rpartition(".")
    return stem if dot and suffix in _SUFFIXES and stem.isprintable() else ""


_SUFFIXES = frozenset({"toml", "yaml", "yml", "json", "sh", "bash", "slurm", "sbatch", "py"})
