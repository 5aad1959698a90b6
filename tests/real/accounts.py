"""Local accounts for tests of `run_as`, and the root program installed where only root can change it."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from diana.model.layout import DataDir
from diana.node.config.run_as_install import install
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config


@contextmanager
def accounts(*names: str) -> Iterator[dict[str, pwd.struct_passwd]]:
    """Made for the test, gone after it with all their processes."""
    made = []
    try:
        for name in names:
            subprocess.run(["userdel", "--force", name], capture_output=True, check=False)
            subprocess.run(["useradd", "--no-create-home", "--user-group", name], check=True, capture_output=True)
            made.append(name)
        yield {name: pwd.getpwnam(name) for name in names}
    finally:
        for name in made:
            for pid in processes_of(pwd.getpwnam(name).pw_uid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            subprocess.run(["userdel", "--force", name], check=False, capture_output=True)


def processes_of(uid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == uid:
                found.append(int(name))
    return found


def map_accounts(folder: Path, data: Path, run_as: Mapping[str, str], *, allow: Mapping[str, object] = {}) -> Path:
    """Install the program into `folder` (root's), its allow-list beside it, and have the site in `data` use them."""
    folder.mkdir(mode=0o755, exist_ok=True)
    program, paths = folder / "diana-run-as", DataDir(data)
    config = msgspec.structs.replace(load_config(paths.config), run_as=dict(run_as), run_as_program=str(program))
    write_config(paths.config, msgspec.structs.replace(config, root_jobs=False))
    listed = folder / "run-as.toml"
    listed.unlink(missing_ok=True)
    install(config, data, listed)
    text = listed.read_text()
    for key, value in allow.items():
        text = "".join(line for line in text.splitlines(True) if not line.startswith(f"{key} ")) + f"{key} = {value}\n"
    listed.write_text(text)
    return program
