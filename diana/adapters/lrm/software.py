"""What a job's site makes ready for it: modules, and the image it runs in.

Both stand before the job's own command as a shell that becomes it. What cannot be made ready ends with `UNREADY_EXIT`:
the command was not executed, and another site may.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from diana.adapters.lrm.spawner.processes import MARKER
from diana.adapters.lrm.spawner.protocol import UNREADY_EXIT
from diana.model.ids import SubgroupId
from diana.model.layout import DataDir
from diana.model.software import CONTAINERS, module
from diana.model.spec import GroupSpec

_NOT_INSIDE = "PATH|HOME|SHELL|PWD|OLDPWD|SHLVL|_|LD_.*|CONTAINERS_.*|DOCKER_.*"
"""Variables of the machine that mean something else in an image."""


class Software(msgspec.Struct, frozen=True, kw_only=True):
    """As the operator of a site says."""

    container: Literal["", "apptainer", "singularity", "podman", "docker"] = ""
    """The program that runs containers, found by PATH; empty: jobs that want one do not run here."""
    modules: dict[str, str] = {}
    """Name jobs ask for -> shell line that makes it ready; "*": any other, which is in $module."""

    def offered(self) -> tuple[str, ...]:
        """As other sites are told (`model/software.py`)."""
        return (*((CONTAINERS,) if self.container else ()), *map(module, self.modules))

    def before(self, spec: GroupSpec, subgroup: SubgroupId, data: DataDir) -> list[str]:
        """What stands before the command of the group's jobs; empty: nothing. ValueError: not to be had here."""
        if not (spec.container or spec.modules):
            return []
        lines = [f'lost() {{ echo "diana: $1" >&2; exit {UNREADY_EXIT}; }}']
        lines += map(self._module, spec.modules)
        lines += self._container(spec, subgroup, data) if spec.container else ['exec "$@"']
        return ["/bin/sh", "-c", "\n".join(lines), "diana"]

    def _module(self, name: str) -> str:
        line = self.modules.get(name) or self.modules.get("*")
        if line is None:
            raise ValueError(f"its jobs want {module(name)}, which software.modules in site.toml does not have")
        why = shlex.quote(f"{module(name)} could not be made ready")
        return f"module={shlex.quote(name)}\n{{ {line}\n}} || lost {why}\nunset -v module"

    def _container(self, spec: GroupSpec, subgroup: SubgroupId, data: DataDir) -> Iterator[str]:
        """The words of the program's command are put before the job's one after the other, the last ones first."""
        program = self.container
        if not program:
            raise ValueError("its jobs want a container, and software.container in site.toml names no program for them")
        yield f"command -v {program} >/dev/null || lost '{program} is not on this machine'"
        if program in ("docker", "podman"):
            command, bind = _run(program, spec), "--volume"
        else:
            command, bind = f'{program} exec --pwd "$PWD"' + (" --nv" if spec.resources.gpus else ""), "--bind"
            if "://" not in spec.container:
                why = shlex.quote(f"{spec.container} is not on this machine")
                yield f"[ -e {shlex.quote(spec.container)} ] || lost {why}"
        yield f'set -- {shlex.quote(spec.container)} "$@"'
        # What the job may write lies within what it may only read: that comes first, then.
        yield f'[ "${{TMPDIR:-$PWD}}" = "$PWD" ] || set -- {bind} "$TMPDIR:$TMPDIR" "$@"'
        yield f'set -- {bind} "$PWD:$PWD" "$@"'
        own = [str(folder) for folder in (data.jobs(subgroup), data.staged(subgroup), data.root / "cache")]
        yield _linked(bind, own)
        for folder in map(shlex.quote, own):
            yield f'[ ! -d {folder} ] || set -- {bind} {folder}:{folder}:ro "$@"'
        # It hands TERM on, and has to be there for that.
        yield "trap : TERM"
        yield f'{command} "$@"'
        yield "exit $?"


NONE = Software()


def _run(program: str, spec: GroupSpec) -> str:
    """The job is a process of the node's account, and the site knows it by its environment as any other. What looks
    after its container is not known so, and clears it away when the job was ended."""
    run = MARKER.decode().rstrip("=")
    words = [f"env -u {run} {program} run --rm --network host --pid host"]
    words.append('--security-opt label=disable --workdir "$PWD" --user "$(id -u):$(id -g)"')
    if program == "podman":
        words.append('$([ "$(id -u)" = 0 ] || echo --userns keep-id)')
        words.append("--device nvidia.com/gpu=all" if spec.resources.gpus else "")
    else:
        words.append("--gpus all" if spec.resources.gpus else "")
    names = f"env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p' | grep -v -x -E '{_NOT_INSIDE}|{run}'"
    words.append(f'--env {run}="${run}" $({names} | sed "s/^/--env /")')
    return " ".join(filter(None, words))


def _linked(bind: str, own: Iterable[str]) -> str:
    """Folders of what the job's directory links to and that lie elsewhere: data used where they are."""
    apart = " ".join(f"-e {shlex.quote('^' + _literally(folder) + '/')}" for folder in own)
    found = "find -L . -type f -exec readlink -f {} + 2>/dev/null | sed 's,/[^/]*$,,' | sort -u"
    return f"""while IFS= read -r folder; do
case $folder in ''|"$PWD"|"$PWD"/*) ;; *) set -- {bind} "$folder:$folder:ro" "$@";; esac
done <<LINKED
$({found} | grep -v {apart})
LINKED"""


def _literally(text: str) -> str:
    """For `grep`."""
    return "".join(f"\\{c}" if c in "\\.[]*^$" else c for c in text)


def check(software: Software) -> None:
    """ValueError: names that cannot stand."""
    for name, line in software.modules.items():
        if not name or not name.isprintable() or len(name) > 100:
            raise ValueError(f"modules.{name}: want a name of at most 100 printable characters")
        if not line.strip():
            raise ValueError(f'modules."{name}": empty; write the shell line that makes it ready')
