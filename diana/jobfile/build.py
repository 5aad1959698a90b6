"""The typed job file to a `GroupSpec`: units read, words split, names checked, each complaint with its key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from diana.jobfile import package
from diana.jobfile.chunks import check_split
from diana.jobfile.collect import as_kept, clash, meets_found
from diana.jobfile.gang import (
    check_component_sites,
    check_gang_saves,
    components,
    expressions,
    flexible,
    gang_level,
    gang_placement,
    mapper,
    own_inputs,
    runner,
    search,
    slowdown,
)
from diana.jobfile.parsed import SentFile
from diana.jobfile.problems import DeclaredCounts
from diana.jobfile.raw import RawInput, RawJob, RawResources, Scalar, raw_input
from diana.jobfile.sweeps import text_of
from diana.jobfile.units import duration_s, memory_bytes, size_bytes, split_command
from diana.jobfile.urls import check_output_url, default_path, url_input
from diana.model.ids import site_id
from diana.model.job.checkpoint import FOLDER, LEAST_EVERY_S, MOST_PATHS, MOST_WAIT_S
from diana.model.job.counts import Counts
from diana.model.job.grace import LEAST_GRACE_S, MOST_GRACE_S
from diana.model.job.licences import check as check_licences
from diana.model.job.output_names import OWN_NAMES
from diana.model.job.patterns import is_found
from diana.model.job.software import MOST_MODULES, MOST_TEXT, is_module
from diana.model.job.spec import (
    CheckpointSpec,
    ComponentSpec,
    ContractSpec,
    GroupSpec,
    InputFile,
    Outputs,
    Resources,
    RetryRules,
    Sweep,
)
from diana.model.job.sweep import Parameters
from diana.model.job.template import GIVEN, Template, compile_template, is_name, unknown_name, written_template
from diana.model.job.urls import is_url
from diana.policy.requirements.group import GroupRequirements, alone

MOST_NAME = 200
MOST_WORD_BYTES = 128 * 1024 - 256
"""Bytes of a word of a command, and of a variable's text: Linux executes nothing with a word of 128 KiB, its variable's
name among it."""
MOST_ENVIRONMENT_BYTES = 1 << 20
"""Bytes of all variables of a job. Linux bounds them by its stack, together with the words of the command: 2 MiB of the
usual 8."""
_LONG_WORD = f"{MOST_WORD_BYTES:,} at most. Put what is long into a file, and name that under inputs"

N = TypeVar("N", int, float)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_DATASET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,119}\Z")


class AllowedNames(msgspec.Struct, frozen=True):
    """The placeholders allowed. `known` None: a table is still to come, so they cannot be checked yet."""

    known: frozenset[str] | None

    def check(self, text: str, key: str) -> Template:
        """Return the template of a text as written; its own text is what a spec holds. ValueError names the key."""
        try:
            template = written_template(text)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
        if "\0" in text:
            raise ValueError(f"{key}: holds a NUL character; remove it")
        if (size := len(text.encode(errors="replace"))) > MOST_WORD_BYTES:
            raise ValueError(f"{key}: a text of {size:,} bytes; {_LONG_WORD}")
        if self.known is not None:
            line = unknown_name(template, self.known | GIVEN, text)
            if line:
                raise ValueError(f"{key}: {line}")
        return template

    def words(self, written: Sequence[str], key: str) -> tuple[str, ...]:
        """The same of several, as a spec holds them."""
        return tuple(self.check(word, key).text for word in written)


def build_spec(
    raw: RawJob,
    others: DeclaredCounts,
    sweep: Sweep,
    parameters: Parameters | None,
    script: str,
    files: Mapping[str, SentFile],
    default_name: str,
    extra_environment: Mapping[str, str],
) -> GroupSpec:
    """Build the group's spec. `others`: declared resources of its jobs; `parameters` None: the sweep's table is still
    to come. ValueError names the key."""
    names = AllowedNames(frozenset(parameters.names) if parameters else None)
    inputs = _inputs(raw.inputs, files, names, is_gang=bool(raw.components))
    group = raw.group
    argv = names.words(*_argv(raw))
    program = package.program(raw, argv[0] if argv and not group.script else "")
    spec = GroupSpec(
        name=_name(group.name or default_name or (argv[0].rpartition("/")[2] if argv else "script")),
        argv=argv,
        script=script,
        environment=_environment(group.environment, extra_environment, names),
        container=_software_name(group.container, "group.container"),
        modules=_modules(group.modules),
        mpi=group.mpi,
        own_directory=group.directory,
        stdout=_path(group.stdout, "group.stdout", names) if group.stdout else "",
        stderr=_path(group.stderr, "group.stderr", names) if group.stderr else "",
        resources=_resources(raw.resources, others.of_jobs),
        sweep=sweep,
        inputs=inputs + package.builds(raw, program, files),
        builds=tuple(sorted(raw.package.builds)),
        program=program,
        outputs=_outputs(raw, sweep, parameters, names),
        sites=_sites(group.sites, "group.sites"),
        not_sites=_sites(group.not_sites, "group.not_sites"),
        requirements=expressions(group.requirements),
        link_requirements=expressions(group.link_requirements),
        set_requirements=expressions(group.set_requirements),
        rank=group.rank.strip(),
        on_crash=group.on_crash,
        on_site_lost=group.on_site_lost,
        preemptible=group.preemptible,
        retries=group.retries if isinstance(group.retries, int) else 0,
        retry=_retry_rules(raw),
        cwd=_cwd(raw),
        max_parallel=group.max_parallel,
        job_class=group.job_class,
        max_subgroup=group.max_subgroup,
        division=group.division,
        bind=group.bind,
        log_limit_bytes=_unit(size_bytes, group.log_limit, "group.log_limit"),
        grace_s=_grace(group.grace),
        components=_components(raw, others, inputs, files, names),
        spares=raw.gang.spares,
        flexible=flexible(raw),
        gang_placement=gang_placement(raw),
        slowdown=slowdown(raw),
        runner=runner(raw),
        gang_level=gang_level(raw),
        mapper=mapper(raw),
        search=search(raw),
        checkpoint=_checkpoint(raw, names),
        contract=_contract(raw),
    )
    if spec.builds and any(file.path in (program, "builds") for file in spec.every_input()):
        raise ValueError(f"package.program: {program!r} is an input's path, too; give that another path")
    if spec.requires or any(each.requires for each in spec.components):
        GroupRequirements(spec)
    for at, each in enumerate(spec.components):
        if each.requires:
            _check_component(spec, each, f"components[{at}]")
    if spec.sites and not set(spec.sites) - set(spec.not_sites):
        raise ValueError("group.not_sites: leaves out every site of group.sites; keep at least one")
    check_component_sites(spec)
    check_gang_saves(spec)
    return spec


def local_path(url: str) -> str | None:
    """Return the local file that a url means; None for data known by name and for real URLs. ValueError for a scheme
    nobody knows."""
    if is_url(url):
        return None
    scheme = _SCHEME.match(url)
    if not scheme:
        return url
    if scheme[1] == "dataset":
        return None
    if scheme[1] == "file":
        return url[5:]
    raise ValueError(
        f"{url!r}: {scheme[1]}: is not understood; want dataset:NAME, dataset:NAME/FILE, a local path or a URL such as"
        " https://host/file"
    )


def file_name(local: str) -> str:
    """Return the name of a local file that `local_path` found, its doubled braces as they are on the disk. ValueError
    for a text that is no template."""
    return written_template(local).render({}) if "{" in local or "}" in local else local


def _components(
    raw: RawJob,
    others: DeclaredCounts,
    inputs: Sequence[InputFile],
    files: Mapping[str, SentFile],
    names: AllowedNames,
) -> tuple[ComponentSpec, ...]:
    """`inputs`: those of the group, which all of them read."""
    out, own = list(components(raw, others.of_components)), own_inputs(raw)
    for at, each in enumerate(out):
        argv = names.words(each.argv, f"components[{at}].command")
        read: tuple[InputFile, ...] = ()
        if at < len(own) and own[at][1]:
            read = _inputs(own[at][1], files, names, own[at][0], inputs, is_gang=True)
        out[at] = msgspec.structs.replace(each, argv=argv, inputs=read)
    return tuple(out)


def _check_component(spec: GroupSpec, component: ComponentSpec, key: str) -> None:
    try:
        GroupRequirements(alone(spec, component))
    except ValueError as error:
        raise ValueError(re.sub(r"^group(?=\.(link_|set_)?requirements)", key, str(error))) from None


def _argv(raw: RawJob) -> tuple[tuple[str, ...], str]:
    """Return the words to run and the key they stand under."""
    group = raw.group
    given = [key for key in ("command", "executable", "script") if getattr(group, key)]
    if len(given) != 1:
        if given:
            raise ValueError(f"group.{given[1]}: written beside group.{given[0]}; keep one of them")
        raise ValueError(
            'group.command: missing; write what to run, such as command = "./sim {x}" (or script, or executable)'
        )
    arguments = tuple(map(text_of, group.arguments))
    if given == ["command"]:
        if arguments:
            raise ValueError("group.arguments: belongs to executable or script; write the arguments into command")
        command = group.command
        words = split_command(command, "group.command") if isinstance(command, str) else tuple(command)
        if not words or not words[0]:
            raise ValueError("group.command: empty; write a program and its arguments")
        return words, "group.command"
    if given == ["executable"]:
        return (group.executable, *arguments), "group.executable" if not arguments else "group.arguments"
    return arguments, "group.arguments"


def _name(text: str) -> str:
    if len(text) > MOST_NAME or not text.isprintable():
        raise ValueError(f"group.name: want at most {MOST_NAME} printable characters")
    return text


def _environment(
    written: Mapping[str, Scalar], extra: Mapping[str, str], names: AllowedNames
) -> tuple[tuple[str, str], ...]:
    values = {**extra, **{name: text_of(value) for name, value in written.items()}}
    for name, text in values.items():
        if not is_name(name):
            raise ValueError(f"group.environment.{name}: no variable's name; want letters, digits and underscores")
        values[name] = names.check(text, f"group.environment.{name}").text
    size = sum(len(f"{name}={text}".encode()) + 1 for name, text in values.items())
    if size > MOST_ENVIRONMENT_BYTES:
        raise ValueError(
            f"group.environment: {size:,} bytes; a job takes {MOST_ENVIRONMENT_BYTES:,} at most. Put what is long into"
            " a file, and name that under inputs"
        )
    return tuple(sorted(values.items()))


def _path(text: str, key: str, names: AllowedNames) -> str:
    """Check and return a template of a path that stays below its folder."""
    shown = f"{key}: {text!r}"
    text = names.check(text, key).text
    if text.startswith("/"):
        raise ValueError(f"{shown}: absolute; write a path below the job's directory")
    parts = text.removeprefix("./").split("/")
    if ".." in parts:
        raise ValueError(f"{shown}: leaves the job's directory; write a path below it")
    if any(part in ("", ".") for part in parts) or not text.isprintable():
        raise ValueError(f"{shown}: no plain path of a file; write names between single slashes")
    if any(part.startswith(OWN_NAMES) for part in parts):
        raise ValueError(f"{shown}: names that begin with {OWN_NAMES} are diana's own; write another")
    return "/".join(parts)


def _collected(text: str, key: str, names: AllowedNames) -> str:
    """Check and return an item of `outputs.collect`: a path, a pattern of paths, or a folder with a slash behind it."""
    path = _path(text.removesuffix("/"), key, names)
    if any("**" in part and part != "**" for part in path.split("/")):
        raise ValueError(
            f"{key}: {text!r}: '**' stands for folders and is a name by itself; write '**/' before the rest"
        )
    return f"{path}/" if text.endswith("/") else path


def _resources(raw: RawResources, others: Counts) -> Resources:
    if raw.cpus is not None and raw.processors is not None and raw.cpus != raw.processors:
        raise ValueError(
            f"resources.processors: {raw.processors} beside cpus = {raw.cpus}; they are one thing, keep one"
        )
    return Resources(
        processors=raw.cpus or raw.processors or 1,
        memory_bytes=_unit(memory_bytes, raw.memory, "resources.memory"),
        time_limit_s=_unit(duration_s, raw.time, "resources.time"),
        gpus=raw.gpus,
        scratch_bytes=_unit(size_bytes, raw.scratch, "resources.scratch"),
        licences=check_licences(raw.licences, "resources.licences"),
        others=others,
        work_s=_unit(duration_s, raw.work, "resources.work"),
    )


MOST_CWD = 4096
"""Characters of a path."""


def _cwd(raw: RawJob) -> str:
    """Jobs that begin in a folder of the site's read and leave their files there."""
    cwd, group = raw.group.cwd, raw.group
    if not cwd:
        return ""
    if not cwd.startswith("/") or not cwd.isprintable() or len(cwd) > MOST_CWD:
        raise ValueError(f"group.cwd: {cwd[:80]!r} is no absolute path; write one that is the same at its sites")
    beside = {
        "inputs": raw.inputs,
        "components.inputs": any(inputs for _, inputs in own_inputs(raw)),
        "outputs.collect": raw.outputs.collect,
        "group.directory": group.directory,
        "group.stdout": group.stdout,
        "group.stderr": group.stderr,
        "group.container": group.container,
        "package": raw.package.builds,
    }
    if key := next((key for key, value in beside.items() if value), ""):
        raise ValueError(f"{key}: does not go with group.cwd, as its jobs work in a folder of the site's; keep one")
    return cwd


def _retry_rules(raw: RawJob) -> RetryRules | None:
    rules = raw.group.retries
    if isinstance(rules, int):
        return None
    if rules.out_of_memory and raw.resources.memory in ("", 0):
        raise ValueError("group.retries.out_of_memory: the job names no memory; write resources.memory, such as 2G")
    return RetryRules(
        failed=rules.failed,
        timed_out=rules.timed_out,
        out_of_memory=rules.out_of_memory,
        factor=rules.factor,
        pause_s=_unit(duration_s, rules.pause, "group.retries.pause"),
    )


def _unit(read: Callable[[Any], N], value: str | float, key: str) -> N:
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _grace(value: str | float) -> float:
    grace_s = _unit(duration_s, value, "group.grace")
    if not LEAST_GRACE_S <= grace_s <= MOST_GRACE_S:
        raise ValueError(f"group.grace: {value!r}: want {LEAST_GRACE_S:g} s to {MOST_GRACE_S:g} s")
    return grace_s


def _inputs(
    raw: list[str | RawInput],
    files: Mapping[str, SentFile],
    names: AllowedNames,
    key: str = "inputs",
    others: Sequence[InputFile] = (),
    *,
    is_gang: bool,
) -> tuple[InputFile, ...]:
    """`key`: the key of the list; `others`: what its readers read besides."""
    out = []
    seen = {file.path: f"inputs[{at}]" for at, file in enumerate(others)}
    for at, item in enumerate(map(raw_input, raw)):
        here = f"{key}[{at}]"
        file = _input(item, here, files, names)
        local, varies = file.source.startswith("blob:"), bool(compile_template(file.path).names)
        check_split(item, here, local=local, varies=varies, components=is_gang)
        if item.mode == "link":
            file = msgspec.structs.replace(file, link=True)
        if file.path in seen:
            raise ValueError(f"{here}.path: {file.path!r} is that of {seen[file.path]} too; give it another path")
        seen[file.path] = here
        out.append(file)
    return tuple(out)


def _input(item: RawInput, key: str, files: Mapping[str, SentFile], names: AllowedNames) -> InputFile:
    try:
        local = local_path(item.url)
    except ValueError as error:
        raise ValueError(f"{key}.url: {error}") from None
    template = names.check(item.url, f"{key}.url")
    if is_url(item.url):
        path = _path(item.path or default_path(item.url), f"{key}.path", names)
        return url_input(template, path, bool(item.executable), f"{key}.url")
    if local is None:
        if "group" in template.names:
            raise ValueError(f"{key}.url: {{group}} is not known when data is placed; name it otherwise")
        _path(item.url.partition(":")[2], f"{key}.url", names)
        path = item.path or item.url.partition(":")[2].rpartition("/")[2]
        return InputFile(source=template.text, path=_path(path, f"{key}.path", names), executable=bool(item.executable))
    if template.names:
        raise ValueError(
            f"{key}.url: a local file's name cannot vary by job; register the files as a dataset"
            " (diana datasets add NAME PATH) and write dataset:NAME/FILE"
        )
    if not local or local.endswith("/"):
        raise ValueError(f"{key}.url: {item.url!r} is no file; name a file, or register the folder as a dataset")
    path = _path(item.path or local.rpartition("/")[2], f"{key}.path", names)
    sent = files.get(file_name(local))
    if sent is None:
        return InputFile(source=f"blob:{'0' * 64}", path=path)
    executable = sent.executable if item.executable is None else item.executable
    return InputFile(source=f"blob:{sent.sha256}", path=path, size_bytes=sent.size_bytes, executable=executable)


def _outputs(raw: RawJob, sweep: Sweep, parameters: Parameters | None, names: AllowedNames) -> Outputs:
    out = raw.outputs
    listed = [out.collect] if isinstance(out.collect, str) else out.collect
    key = "outputs.collect"
    collect = tuple(_collected(text, key, names) for text in listed)
    if any(text.split("/")[0] == FOLDER for text in collect):
        raise ValueError(f"{key}: names in {FOLDER}/ are kept for checkpoints; write another")
    if len(set(collect)) < len(collect):
        raise ValueError(f"{key}: names one file twice; remove one of them")
    if collect and parameters is not None:
        found = next(filter(is_found, collect), "")
        plain = [compile_template(text) for text in collect if not is_found(text)]
        line = clash([as_kept(template) for template in plain], sweep, parameters)
        if not line and found:
            own = [compile_template(text) for text in (raw.group.stdout, raw.group.stderr) if text]
            line = meets_found([*plain, *own], found, parameters)
        if line:
            raise ValueError(f"{key}: {line}")
    if is_url(out.to):
        check_output_url(out.to)
    elif out.to and (not out.to.startswith("/") or ".." in out.to.split("/") or not out.to.isprintable()):
        raise ValueError(
            f"outputs.to: {out.to!r}: want an absolute folder at the submitter's site, such as /home/me/results, or a"
            " URL of s3, sftp or file"
        )
    words = split_command(out.merge, "outputs.merge") if isinstance(out.merge, str) else tuple(out.merge)
    # It runs once for the whole group, so no swept value has a meaning there.
    merge = AllowedNames(frozenset()).words(words, "outputs.merge")
    if merge and not collect:
        raise ValueError("outputs.merge: there is nothing to merge; name the jobs' files in outputs.collect")
    if out.to and not collect:
        raise ValueError("outputs.to: there is nothing to gather; name the jobs' files in outputs.collect")
    if out.dataset and not collect:
        raise ValueError("outputs.dataset: there is nothing to register; name the jobs' files in outputs.collect")
    if out.dataset and not _DATASET.match(out.dataset):
        raise ValueError(
            f"outputs.dataset: {out.dataset!r}: want 1 to 120 letters, digits, '.', '_', '+', '-',"
            " the first a letter or digit"
        )
    size = _unit(size_bytes, out.size, "outputs.size")
    if size and not collect:
        raise ValueError("outputs.size: there is nothing to gather; name the jobs' files in outputs.collect")
    return Outputs(collect=collect, kept=bool(collect), to=out.to, merge=merge, dataset=out.dataset, size_bytes=size)


def _checkpoint(raw: RawJob, names: AllowedNames) -> CheckpointSpec | None:
    written = raw.checkpoint
    if written is None:
        return None
    if raw.group.mpi or raw.group.container or raw.gang.runner not in ("env", "none"):
        other = "group.mpi" if raw.group.mpi else "group.container" if raw.group.container else "gang.runner"
        raise ValueError(f"checkpoint: jobs with {other} are not asked to save yet; remove one of the two")
    if raw.group.cwd:
        raise ValueError("checkpoint: group.cwd: files there are not a job's own; remove one of the two")
    listed = [written.paths] if isinstance(written.paths, str) else written.paths
    paths = tuple(_path(text, "checkpoint.paths", names) for text in listed)
    if not 1 <= len(paths) <= MOST_PATHS or len(set(paths)) < len(paths):
        raise ValueError(f"checkpoint.paths: want 1 to {MOST_PATHS} different files that are a job's whole state")
    restart, key = written.restart, "checkpoint.restart"
    words = names.words(split_command(restart, key) if isinstance(restart, str) else tuple(restart), key)
    if restart and not (words and words[0]):
        raise ValueError(f"{key}: empty; write a program and its arguments, or leave it out")
    wait_s = _unit(duration_s, written.wait, "checkpoint.wait")
    if not 0 < wait_s <= MOST_WAIT_S:
        raise ValueError(f"checkpoint.wait: {written.wait!r}: want more than 0 s and at most {MOST_WAIT_S:.0f} s")
    every_s = _unit(duration_s, written.every, "checkpoint.every")
    if every_s and not LEAST_EVERY_S <= every_s <= MOST_WAIT_S:
        raise ValueError(
            f"checkpoint.every: {written.every!r}: want {LEAST_EVERY_S:.0f} s to {MOST_WAIT_S:.0f} s, or leave it out"
        )
    return CheckpointSpec(paths=paths, signal=written.signal, restart=words, wait_s=wait_s, every_s=every_s)


def _contract(raw: RawJob) -> ContractSpec | None:
    written = raw.contract
    if written is None:
        return None
    if raw.components or raw.flexible is not None:
        raise ValueError("contract: gangs report no progress yet; remove it, or the components")
    low, high = written.tolerance
    if not 0 <= low < 1 < high <= 1000:
        raise ValueError(f"contract.tolerance: [{low:g}, {high:g}]: want one below 1 and one above, such as [0.7, 1.3]")
    if written.yields and raw.checkpoint is None:
        raise ValueError("contract.yields: a job that yields saves its state; write [checkpoint], or remove it")
    return ContractSpec(tolerance=(low, high), window=written.window, move=written.move, yields=written.yields)


def _sites(names: list[str], key: str) -> tuple[str, ...]:
    try:
        return tuple(sorted({site_id(name) for name in names}))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _software_name(text: str, key: str) -> str:
    """Check a name; ValueError for one that could be read as something else where it arrives."""
    if len(text) > MOST_TEXT or not text.isprintable() or text.strip() != text or text.startswith("-"):
        raise ValueError(f"{key}: {text[:60]!r}: want a name of at most {MOST_TEXT} printable characters")
    return text


def _modules(names: Sequence[str]) -> tuple[str, ...]:
    if len(names) > MOST_MODULES:
        raise ValueError(f"group.modules: names {len(names)}; want at most {MOST_MODULES}")
    for at, name in enumerate(names):
        if not is_module(name):
            raise ValueError(f"group.modules[{at}]: {name[:60]!r} names none; write the name of a module")
        if name in names[:at]:
            raise ValueError(f"group.modules[{at}]: {name!r} stands there before; keep one")
    return tuple(names)
