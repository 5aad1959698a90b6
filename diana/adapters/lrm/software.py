"""The software that a job's site makes ready for it: modules, and the image it runs in.

Both stand before the job's own command as a shell that becomes it. A failure to make them ready ends with
`UNREADY_EXIT` and a file that says so: the command was not executed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from diana.adapters.lrm.runners import installed, own
from diana.adapters.lrm.runners.interface import GangToRun, Launch
from diana.adapters.lrm.spawner.processes import MARKER
from diana.adapters.lrm.spawner.protocol import UNREADY_EXIT, UNREADY_FILE
from diana.model.ids import SubgroupId
from diana.model.job.software import (
    CONTAINERS,
    MPI,
    MPI_INSIDE,
    MPI_OVER_SITES,
    is_module,
    is_runner,
    module,
    plain,
    platform,
    runner,
)
from diana.model.job.spec import GroupSpec, build_path
from diana.model.layout import DataDir

_TOOLS = "/usr/local/bin:/usr/bin:/bin"
"""PATH where tools are looked for that a job's own PATH does not have."""
_NOT_INSIDE = "PATH|HOME|SHELL|PWD|OLDPWD|SHLVL|_|LD_.*|CONTAINERS_.*|DOCKER_.*|diana_.*"
"""Variables of the machine that mean something else in an image."""
COUNT = "{n}"
"""Placeholder in a launcher's words for the number of the job's processes."""
_OF_THE_JOB = ("apptainer", "singularity")
"""Programs that become what they run: each process of an MPI job is then one of its launcher's."""
_RUN = MARKER.decode().rstrip("=")
_GUARD = f"""\
diana_at=$PWD diana_told=${{TMPDIR:-$PWD}}/{UNREADY_FILE}.$DIANA_JOB.$DIANA_ATTEMPT
trap 'trap - 0; echo "diana: $diana_what" >&2; echo "$diana_what" > "$diana_told"; exit {UNREADY_EXIT}' 0
diana_what='TMPDIR cannot be written'
command : > "$diana_told" || exit
lost() {{ diana_what=$1; exit; }}"""
"""Shell lines after which the file is there, with the reason in it, however a later line ends the shell: by `exit 0`, a
syntax error or what it sources."""
_PLAIN = 'unset IFS\nset +eu\ncd "$diana_at" || exit'
"""Shell lines after the operator's own."""
_BEGIN = 'trap - 0\nrm -f "$diana_told"'
"""Shell lines before the command."""


def _enter(folder: str) -> Iterator[str]:
    """Yield the lines that enter a folder of the machine's, with the rights of the job's account."""
    if folder:
        where = shlex.quote(folder)
        what = shlex.quote(f"no folder {folder} here that its account may enter (cwd)")
        yield f"diana_what={what}\ncd -- {where} 2>/dev/null || exit"


class Software(msgspec.Struct, frozen=True, kw_only=True):
    """The software of a site, as its operator says."""

    container: Literal["", "apptainer", "singularity", "podman", "docker"] = ""
    """The program that runs containers, found by PATH; empty: jobs that want one do not run here."""
    modules: dict[str, str] = {}
    """Name jobs ask for -> shell line that makes it ready; "*": any other, whose name is in $module."""
    mpi: str = ""
    """Shell words before the command of an MPI job, which start it {n} times; empty: such jobs do not run here."""
    mpi_over_sites: str = ""
    """MPICH's launcher, `mpiexec.hydra`, for MPI jobs over several sites; empty: no component of such runs here."""

    def offered(self) -> tuple[str, ...]:
        """Return the software as other sites are told it (`model/job/software.py`)."""
        inside = (MPI_INSIDE,) if self.container in _OF_THE_JOB else ()
        mpi = (MPI, *inside) if self.mpi else ()
        over = (MPI_OVER_SITES,) if self.mpi_over_sites else ()
        gangs = (*over, *map(runner, installed.names()))
        return (*((CONTAINERS,) if self.container else ()), *map(module, self.modules), *mpi, *gangs)

    def before(self, spec: GroupSpec, subgroup: SubgroupId, data: DataDir) -> list[str]:
        """Return the words that stand before the command of the group's jobs; empty: nothing. ValueError: not to be
        had here."""
        launch = self._launch(spec)
        if not (spec.container or spec.modules or spec.mpi or spec.builds or any(launch) or spec.cwd):
            return []
        if not plain(spec):
            raise ValueError("its jobs want software by a name that cannot be one")
        lines = [_GUARD]
        if any(name == "PATH" for name, _ in spec.environment):
            lines.append(f"PATH=$PATH:{_TOOLS}")
        lines += map(self._module, spec.modules)
        if spec.builds:
            lines.append(_build(spec.program))
        launcher = self._launcher(spec) if spec.mpi else ""
        if any(launch):
            lines += [f"diana_what='its runner {spec.runner} could not be made ready'\n{_PLAIN}"]
            # In a container they have to be programs of the image.
            lines += [] if spec.container else map(_found_by_runner, launch.programs)
            lines.append(f'set -- {" ".join(map(shlex.quote, launch.words))} "$@"')
        elif launcher:
            lines += [f"diana_what='its MPI launcher could not be made ready'\n{_PLAIN}", _found(launcher)]
        if spec.container:
            lines += self._container(spec, subgroup, data, launcher)
        else:
            lines += [_PLAIN, *_enter(spec.cwd), _BEGIN, f'exec {launcher}"$@"']
        return ["/bin/sh", "-c", "\n".join(lines), "diana"]

    def _module(self, name: str) -> str:
        """Return the lines that make a module ready: a function, for its line may set positional parameters, which
        are the command's words here."""
        line = self.modules.get(name) or self.modules.get("*")
        if line is None:
            raise ValueError(f"its jobs want {module(name)}, which software.modules in site.toml does not have")
        what = shlex.quote(f"{module(name)} could not be made ready")
        begin = f"diana_what={what} module={shlex.quote(name)}"
        return f"{begin}\ndiana_line() {{\n{line}\n}}\ndiana_line || exit\nunset -v module"

    def _launcher(self, spec: GroupSpec) -> str:
        if not self.mpi:
            raise ValueError("it is an MPI job, and its operator has named no launcher of such jobs (mpi) in site.toml")
        if spec.container and self.container not in _OF_THE_JOB:
            raise ValueError(
                f"it is an MPI job in a container, whose processes no launcher can start in {self.container}"
            )
        return self.mpi.replace(COUNT, str(spec.resources.processors)) + " "

    def _launch(self, spec: GroupSpec) -> Launch:
        """Return what the runner of the group's gangs puts before their command."""
        every = tuple(spec.component(rank).processors for rank in range(spec.gang_size)) if spec.components else ()
        gang = GangToRun(spec.argv, spec.resources.processors, every)
        if spec.runner in ("", "none"):
            return own.env(gang)
        if spec.mpi or (spec.container and spec.runner == "mpi"):
            raise ValueError(f"its gang's runner {spec.runner} starts all processes; no launcher nor container does")
        if not is_runner(spec.runner):
            raise ValueError("its gang's runner has a name that cannot be one")
        if spec.runner != "mpi":
            return installed.launch(spec.runner, gang)
        if not self.mpi_over_sites:
            raise ValueError(
                "its gang is an MPI job over several sites, and its operator has named no launcher of such jobs"
                " (mpi_over_sites) in site.toml"
            )
        return own.mpi(self.mpi_over_sites, gang)

    def _container(self, spec: GroupSpec, subgroup: SubgroupId, data: DataDir, launcher: str) -> Iterator[str]:
        """Yield the lines that run the container. The words of its program's command are put before the job's one
        after the other, the last ones first."""
        program = self.container
        if not program:
            raise ValueError("its jobs want a container, and software.container in site.toml names no program for them")
        own = [str(folder) for folder in (data.jobs(subgroup), data.staged(subgroup), data.root / "cache")]
        if ":" in own[0]:
            raise ValueError(f"its jobs want a container, and none can see {data.root}, whose name has a colon")
        yield f"diana_what='what its container needs could not be made ready'\n{_PLAIN}"
        yield f"command -v {program} >/dev/null || lost '{program} is not on this machine'"
        image = shlex.quote(spec.container)
        if program in ("docker", "podman"):
            bind = "--volume"
            missing = shlex.quote(f"{spec.container} is no image that {program} has or can fetch")
            # Processes it leaves running for all its containers are not this run's.
            client = f"env -u {_RUN} {program}"
            yield f"{client} image inspect {image} >/dev/null 2>&1 || {client} pull {image} >&2 || lost {missing}"
            command = _run(program, spec)
        else:
            bind, command = "--bind", f'{program} exec --pwd "$PWD"' + (" --nv" if spec.resources.gpus else "")
            if "://" not in spec.container:
                yield f"[ -e {image} ] || lost {shlex.quote(f'{spec.container} is not on this machine')}"
        yield f'set -- {image} "$@"'
        # The folder the job may write lies within one it may only read: the latter comes first, then.
        yield f'[ "${{TMPDIR:-$PWD}}" = "$PWD" ] || set -- {bind} "$TMPDIR:$TMPDIR" "$@"'
        yield f'set -- {bind} "$PWD:$PWD" "$@"'
        if spec.inputs:
            yield _linked(bind, own)
        for folder in map(shlex.quote, own):
            yield f'[ ! -d {folder} ] || set -- {bind} {folder}:{folder}:ro "$@"'
        # The shell hands TERM on, and has to be there for that.
        yield f"{_BEGIN}\ntrap : TERM"
        yield f'{launcher}{command} "$@"'
        yield "exit $?"


NONE = Software()


def here() -> str:
    """Return the offer of this machine's platform."""
    return platform(os.uname().machine)


def _build(program: str) -> str:
    """Return the lines that put the machine's own build in place: it is asked where the job begins, since a batch
    system may have machines of several kinds."""
    own = build_path("$(uname -m)", program)
    return (
        f"diana_what='its build for this machine could not be put in place'\n{_PLAIN}\n"
        f'[ -e "{own}" ] || lost "there is no build for $(uname -m)"\nln -sf "{own}" {program} || exit'
    )


def _run(program: str, spec: GroupSpec) -> str:
    """Return the words that run a container whose job is a process of the node's account: the site knows it by its
    environment as any other. The program that looks after the container is not known so, and clears it away when the
    job was ended."""
    words = [f"env -u {_RUN} {program} run --rm --network host --pid host --log-driver none --entrypoint ''"]
    words.append('--security-opt label=disable --workdir "$PWD" --user "$(id -u):$(id -g)"')
    if program == "podman":
        words.append('$([ "$(id -u)" = 0 ] || echo --userns keep-id)')
        words.append("--device nvidia.com/gpu=all" if spec.resources.gpus else "")
    else:
        words.append("--gpus all" if spec.resources.gpus else "")
        words.append(f"--memory {spec.resources.memory_bytes}" if spec.resources.memory_bytes else "")
    names = f"env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p' | grep -v -x -E '{_NOT_INSIDE}|{_RUN}'"
    words.append(f'--env {_RUN}="${_RUN}" $({names} | sed "s/^/--env /")')
    # A name that the group itself sets means what it means inside.
    words += [f"--env {name}" for name, _ in spec.environment if not name.startswith("DIANA_")]
    return " ".join(filter(None, words))


def _linked(bind: str, own: Iterable[str]) -> str:
    """Return lines that bind folders lying elsewhere to which the job's directory links: data used where they are."""
    apart = " ".join(f"-e {shlex.quote('^' + _literally(folder) + '/')}" for folder in own)
    found = "find -L . -type f -exec readlink -f {} + 2>/dev/null | sed 's,/[^/]*$,,' | sort -u"
    return f"""while IFS= read -r folder; do
case $folder in
*:*) lost "$folder has a colon, so that no container can see it" ;;
''|"$PWD"|"$PWD"/*) ;;
*) set -- {bind} "$folder:$folder:ro" "$@" ;;
esac
done <<LINKED
$({found} | grep -v {apart})
LINKED"""


def _found(launcher: str) -> str:
    """Return a line that looks for the launcher when the job runs: the job's own PATH, or a module, may bring it."""
    mend = "have its operator install it there, or name another in its site.toml (mpi)"
    return _wanted(shlex.split(launcher)[0], "starts MPI jobs", mend)


def _found_by_runner(program: str) -> str:
    return _wanted(program, "the gang's runner needs", "have its operator install it there")


def _wanted(program: str, why: str, mend: str) -> str:
    named = shlex.quote(program)
    words = f"which {why}, is not on this machine${{DIANA_SITE:+ of site $DIANA_SITE}}"
    return f'command -v {named} >/dev/null || lost {named}", {words}; {mend}"'


def _literally(text: str) -> str:
    """Escape a text for `grep`."""
    return "".join(f"\\{c}" if c in "\\.[]*^$" else c for c in text)


def check(software: Software) -> None:
    """Check names. ValueError: names that cannot stand."""
    if software.mpi_over_sites and not re.fullmatch(r"[\w./+-]+", software.mpi_over_sites, re.ASCII):
        raise ValueError(f"mpi_over_sites = {software.mpi_over_sites!r}: want a program, such as mpiexec.hydra")
    if software.mpi:
        check_launcher(software.mpi)
        if COUNT not in software.mpi:
            raise ValueError(f"mpi = {software.mpi!r}: want {COUNT} where it is told how many processes to start")
    for name, line in software.modules.items():
        if name != "*" and not is_module(name):
            raise ValueError(f'modules."{name}": no job can ask for that; want letters, digits and . _ / + @ : = , -')
        if not line.strip():
            raise ValueError(f'modules."{name}": empty; write the shell line that makes it ready')


def check_launcher(words: str) -> None:
    """Check a launcher. ValueError: no words of a shell."""
    try:
        first = shlex.split(words)[:1]
    except ValueError as fault:
        raise ValueError(f"mpi = {words!r}: want words of a shell ({fault})") from None
    if not first or "=" in first[0] or not words.isprintable():
        raise ValueError(f"mpi = {words!r}: want one line that begins with a program, such as mpirun -n {COUNT}")
