"""Whether what the site offers its jobs (`[software]`) is there for this account."""

from __future__ import annotations

import subprocess
from functools import partial

from diana.adapters.lrm.software import Software
from diana.node.doctor.bounded import Check, Results, blocking, fail, ok

LIMIT_S = 1.8
"""For one command."""


def checks(software: Software, where: str) -> list[Check]:
    """`where`: the site file, for the mend."""
    out = []
    if software.container:
        work = partial(_container, software.container, where)
        out.append(blocking("containers", work, f"{software.container} hangs on this machine"))
    for name, line in sorted(software.modules.items()):
        if name != "*":
            hangs = f'its line in {where}:software.modules."{name}" hangs'
            out.append(blocking(f"module {name}", partial(_module, name, line, where), hangs))
    return out


def _container(program: str, where: str) -> Results:
    mend = f"install it, or name another in {where}:software.container"
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except FileNotFoundError:
        return [fail("containers", f"no {program} in the PATH of this account", mend)]
    if done.returncode:
        return [fail("containers", f"{program}: {_last(done.stderr) or f'exit code {done.returncode}'}", mend)]
    return [ok("containers", _last(done.stdout))]


def _module(name: str, line: str, where: str) -> Results:
    shell = ["/bin/sh", "-c", f"{{ {line}\n}} >/dev/null"]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        found = _last(done.stderr) or f"its line ends with exit code {done.returncode}"
        return [fail(f"module {name}", found, f'mend its line in {where}:software.modules."{name}"')]
    return [ok(f"module {name}", "can be made ready on this machine")]


def _last(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
