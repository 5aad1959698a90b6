"""Maker of a data directory with a finished, a running, a queued and a held group, as a release leaves it when its node
was stopped and its machine went down: plain files, the databases as SQL.

No key is kept. Site certificates hold a week, so whoever puts the folder up again (`site_of_old.py`) makes new ones.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

LISTEN = "127.0.0.1:24811"
DATA = "@DATA@"
KEPT_S = 1e10
"""A finished group is looked at whenever the tests run."""
LEFT_OUT = (
    *("keys", "control", "slots", "lock", "ballast", "node.log", "audit.log", "journal.db-owner"),
    *("spawner/spawner.sock", "spawner/lock"),
)
DATABASES = ("journal.db", "catalogue.db")
_STARTED = 'echo "$0 $DIANA_INDEX" >> {up}/starts; '


def group(name: str, jobs: int, then: str, up: str = "../..", **more: Any) -> dict[str, Any]:
    """A job file; each job first writes its line into the file `starts` of the data directory."""
    command = ["sh", "-c", _STARTED.format(up=up) + then, name]
    return {"group": {"command": command, "name": name}, "sweep": {"array": f"0-{jobs - 1}"}, **more}


FINISHED = group(
    "finished",
    3,
    'echo "out of $DIANA_INDEX" > out-$DIANA_INDEX.txt; echo "says $DIANA_INDEX"',
    "../../../..",
    outputs={"collect": ["out-{index}.txt"], "dataset": "made"},
)
RUNNING = group("running", 2, "exec sleep 600", resources={"work": 600.0})
QUEUED = group("queued", 3, "exit 0")
HELD = group("held", 2, "exit 0")


class _Old:
    """A node of the release whose code lies in `code`."""

    def __init__(self, code: Path, data: Path) -> None:
        self.code, self.data = code, data
        self.environment = {**os.environ, "PYTHONPATH": str(code), "HOME": str(data.parent)}

    def run(self, verb: str, *words: str, given: str = "") -> Any:
        command = [sys.executable, "-m", "diana.cli", verb, "--json", "--data", str(self.data), *words]
        ended = subprocess.run(
            command, env=self.environment, cwd=self.code, input=given, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, (verb, ended.stderr)
        return json.loads(ended.stdout) if ended.stdout.strip() else None

    def node(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "diana.cli", "node", "--no-zeroconf", "--data", str(self.data)]
        return subprocess.Popen(command, env=self.environment, cwd=self.code, stdout=subprocess.DEVNULL)

    def submit(self, wanted: dict[str, Any]) -> str:
        answer = self.run("submit", "--format", "json", "--key", wanted["group"]["name"], "-", given=json.dumps(wanted))
        return str(answer["group"])

    def status(self, name: str) -> dict[str, Any]:
        (found,) = self.run("status", name)["groups"]
        return dict(found)


def make_site(code: Path, folder: Path) -> None:
    """Into `folder`, which is made anew."""
    root = Path(tempfile.mkdtemp(prefix="diana-fix-"))
    try:
        old = _Old(code, root / "alpha")
        old.run("init", "--slots", "2", "--listen", LISTEN, "alpha")
        _settle(old.data / "site.toml")
        node = old.node()
        try:
            told = _life(old)
        finally:
            node.send_signal(signal.SIGTERM)
            node.wait(60)
            _kill_all(old.data)
        shutil.rmtree(folder, ignore_errors=True)
        _keep(old.data, folder)
        (folder.parent / "site.json").write_text(json.dumps(told, indent=1) + "\n")
    finally:
        shutil.rmtree(root)


def _settle(path: Path) -> None:
    text = path.read_text().replace("#keep_s = 2592000.0", f"keep_s = {KEPT_S}")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    # Of the machine it was made on.
    path.write_text("\n".join(line for line in lines if not line.startswith("memory_bytes")) + "\n")


def _life(old: _Old) -> dict[str, Any]:
    """Group by name -> what `diana status` says of it."""

    def up() -> bool:
        with suppress(AssertionError):
            return old.run("status") is not None
        return False

    _until(up)
    names = {"finished": old.submit(FINISHED)}
    _until(lambda: old.status(names["finished"])["state"] == "done")
    names["running"] = old.submit(RUNNING)
    _until(lambda: old.status(names["running"]).get("running") == 2)
    names["queued"] = old.submit(QUEUED)
    names["held"] = old.submit(HELD)
    old.run("hold", names["held"])
    _until(lambda: old.status(names["held"]).get("held") == 2)
    return {name: old.status(number) for name, number in names.items()}


def _until(look: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not look():
        assert time.monotonic() < end
        time.sleep(0.1)


def _kill_all(data: Path) -> None:
    """Its spawner and its jobs at once, as the machine goes down."""
    where = os.stat(data / "spawner")
    run = f"DIANA_RUN={where.st_dev}-{where.st_ino}:".encode()
    pids = [int((data / "spawner" / "lock").read_text())]
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and run in (entry / "environ").read_bytes():
                pids.append(int(entry.name))
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _keep(data: Path, folder: Path) -> None:
    for path in sorted(data.rglob("*")):
        name = str(path.relative_to(data))
        if name.startswith(LEFT_OUT) or not path.is_file() or name.endswith(("-wal", "-shm")):
            continue
        to = folder / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if name in DATABASES:
            with closing(sqlite3.connect(path)) as connection:
                text = "\n".join(connection.iterdump())
                version = connection.execute("PRAGMA user_version").fetchone()[0]
            to.with_suffix(".sql").write_text(f"PRAGMA user_version = {version};\n{text.replace(str(data), DATA)}\n")
        else:
            shutil.copyfile(path, to)
