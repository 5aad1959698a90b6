"""Puts the root program of `run_as` and its allow-list where only root can change them; says the one line of sudoers.

Nothing is written to sudoers: a broken line there locks everybody out, so that a person adds it with visudo.
"""

from __future__ import annotations

import os
import stat
import subprocess
from importlib import resources
from pathlib import Path

from diana.adapters.lrm.runas.run_as import ALLOWED
from diana.errors import UsageError
from diana.node.config.site_file import SiteConfig
from diana.node.ways_in.users import account_of

_PYTHONS = (
    "/usr/bin/python3",
    "/usr/bin/python3.14",
    "/usr/bin/python3.13",
    "/usr/bin/python3.12",
    "/usr/bin/python3.11",
)
"""The system's own, which nobody but root changes; not this one, which may lie in a user's folder."""


def install(config: SiteConfig, data: Path, allowed: Path = Path(ALLOWED)) -> list[str]:
    """Install the program, as root; returns what was done and what is left to do, a line each. An allow-list that is
    there already is not changed. UsageError where it cannot be done."""
    if os.geteuid() != 0:
        raise UsageError("site run-as install: wants root; run it with sudo")
    accounts = sorted(set(config.run_as.values()))
    if not accounts:
        raise UsageError(f'{data / "site.toml"}:run_as: empty; add lines like "ann@{config.vo}" = "ann" first')
    program = Path(config.run_as_program)
    # The node is whoever owns its data directory, not whoever runs this command.
    node = account_of(data.stat().st_uid)
    source = resources.files("diana.adapters.lrm.runas").joinpath("run_as.py").read_text(encoding="utf-8")
    _put(program, f"#!{_python()} -IS\n{source}", 0o755)
    said = [f"{program} installed"]
    if allowed.exists():
        said.append(f'{allowed} is there already; see that nodes holds "{node}" and accounts {", ".join(accounts)}')
    else:
        listed = ", ".join(f'"{account}"' for account in accounts)
        _put(allowed, f'nodes = ["{node}"]\naccounts = [{listed}]\nmin_uid = 1000\nmax_processes = 4096\n', 0o644)
        said.append(f"{allowed} made: node {node} may become {', '.join(accounts)}")
    if node != "root":
        said.append("now add these lines with `visudo -f /etc/sudoers.d/diana`:")
        said.append(f"Defaults!{program} !requiretty, !use_pty")
        said.append(f"{node} ALL=(root) NOPASSWD: {program}")
    return said


def _python() -> str:
    for python in _PYTHONS:
        try:
            status = os.stat(python)
            if status.st_uid == 0 and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                subprocess.run([python, "-IS", "-c", "import tomllib"], check=True, capture_output=True, env={})
                return python
        except (OSError, subprocess.CalledProcessError):
            continue
    raise UsageError("no Python 3.11 or later in /usr/bin; install the system's, which only root can change")


def _put(path: Path, text: str, mode: int) -> None:
    """Whole, or not at all."""
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        spare = path.with_name(path.name + ".new")
        fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchown(fd, 0, 0)
            os.fchmod(fd, mode)
        spare.replace(path)
    except OSError as error:
        raise UsageError(f"{error.filename or path}: {error.strerror}; mend that and install again") from None
