"""Checks that the software the site offers its jobs (`[software]`) is there for this account."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from diana.adapters.lrm.runners import installed
from diana.adapters.lrm.software import Software
from diana.model.ids import SubgroupId
from diana.model.job.spec import GroupSpec
from diana.model.layout import DataDir
from diana.node.doctor.bounded import Check, Results, blocking, fail, ok, warn

LIMIT_S = 1.5
"""Seconds for one command."""
_LOADS = "loads; a node that was started before it was installed has to be restarted"


def checks(software: Software, where: str) -> list[Check]:
    """`where`: the site file, for the mend."""
    out = []
    if software.container:
        work = partial(_container, software.container, where)
        out.append(blocking("containers", work, f"{software.container} hangs on this machine"))
    for name in sorted(software.modules.keys() - {"*"}):
        hangs = f'its line in {where}:software.modules."{name}" hangs'
        mend = f'mend its line in {where}:software.modules."{name}"'
        spec = GroupSpec(argv=("true",), modules=(name,))
        out.append(blocking(f"module {name}", partial(_trial, f"module {name}", spec, software, mend), hangs))
    if software.mpi:
        mend = f"install it, or mend its words in {where}:software.mpi"
        trial = partial(_trial, "mpi", GroupSpec(argv=("true",), mpi=True), software, mend)
        out.append(blocking("mpi", trial, f"the launcher in {where}:software.mpi hangs"))
    if software.mpi_over_sites:
        mend = f"install MPICH and python3, or empty {where}:software.mpi_over_sites"
        trial = partial(_programs, "mpi over sites", (software.mpi_over_sites, "python3"), mend)
        out.append(blocking("mpi over sites", trial, "the PATH of this account hangs"))
    if installed.found():
        out.append(blocking("runners", _runners, "an installed runner hangs as it is loaded"))
    return out


def _runners() -> Results:
    """Tell of each runner that is installed by now whether it loads; the node knows those of its start."""
    mend = f"mend or remove the package whose entry point of {installed.GROUP} it is"
    rows = [(f"runner {name}", runner) for name, runner in sorted(installed.found().items())]
    return [fail(what, each, mend) if isinstance(each, str) else ok(what, _LOADS) for what, each in rows]


def _programs(what: str, names: tuple[str, ...], mend: str) -> Results:
    missing = [name for name in names if shutil.which(name) is None]
    return [fail(what, f"no {missing[0]} in the PATH of this account", mend)] if missing else [ok(what, names[0])]


def _container(program: str, where: str) -> Results:
    mend = f"install it, or name another in {where}:software.container"
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except FileNotFoundError:
        return [fail("containers", f"no {program} in the PATH of this account", mend)]
    except subprocess.TimeoutExpired:
        return [warn("containers", f"{program} said nothing for {LIMIT_S:g} s", "see whether it hangs on this machine")]
    if done.returncode:
        return [fail("containers", f"{program}: {_last(done.stderr) or f'exit code {done.returncode}'}", mend)]
    return [ok("containers", _last(done.stdout))]


def _trial(what: str, spec: GroupSpec, software: Software, mend: str) -> Results:
    """Try the software as a job of it would begin."""
    with tempfile.TemporaryDirectory(prefix="diana-doctor-") as folder:
        before = software.before(spec, SubgroupId("doctor-1/0"), DataDir(Path(folder)))
        known = {key: os.environ[key] for key in ("PATH", "HOME", "USER", "LANG") if key in os.environ}
        try:
            done = subprocess.run(
                [*before, "true"],
                cwd=folder,
                env={**known, "TMPDIR": folder},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [warn(what, f"not ready within {LIMIT_S:g} s", mend)]
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if not line.startswith("diana: ")]
        return [fail(what, _last("\n".join(words)) or _last(done.stderr), mend)]
    return [ok(what, "can be made ready on this machine")]


def _last(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
