"""`diana service`: a unit of this very installation, installed once, started when the node answers, and taken away.

The nodes are real; the `systemctl` is that of `systemctl.py`, since a test cannot be sure of a running systemd."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import json_shapes
from tests.e2e import systemctl
from tests.e2e.grid import Grid, free_port, until

pytestmark = pytest.mark.e2e
DIANA = [sys.executable, "-m", "diana.cli"]


class Account:
    """An account with a site, at a machine whose systemd runs."""

    def __init__(self, root: Path) -> None:
        self.data = root / "delta"
        self.config = root / "config"
        self.state = root / "state"
        self.state.mkdir()
        programs = systemctl.put_into(root / "bin")
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "SYSTEMCTL_STATE": str(self.state),
            "XDG_CONFIG_HOME": str(self.config),
        }
        self.file = self.config / "systemd" / "user" / "diana-delta.service"
        self.port = free_port()
        assert self.diana("init", "delta", "--root-jobs", "--listen", f"127.0.0.1:{self.port}").returncode == 0

    def diana(self, verb: str, *words: str, data: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [*DIANA, verb, "--data", str(data or self.data), *words]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=False)

    def service(self, order: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.diana("service", order, "--user", *words)

    def calls(self) -> list[str]:
        """Orders given to systemctl since the last call; questions are left out."""
        file = self.state / "calls"
        calls = file.read_text().splitlines()
        file.write_text("")
        return [call.removeprefix("--user --no-pager ") for call in calls if " is-" not in call]


@pytest.fixture
def account(grid: Grid) -> Iterator[Account]:
    made = Account(grid.root)
    try:
        yield made
    finally:
        made.diana("stop")
        until(lambda: made.diana("status").returncode == 4, "it has ended")


def test_a_service_is_installed_once_runs_jobs_and_is_taken_away(account: Account) -> None:
    shown = account.service("install", "--print")
    assert shown.returncode == 0 and not account.file.exists() and not (account.state / "calls").exists()
    missing = account.service("status")
    assert missing.returncode == 1 and "there is no service of " in missing.stdout

    done = account.service("install")
    assert done.returncode == 0 and "diana-delta.service installed: it runs" in done.stdout, done
    assert "loginctl enable-linger" in done.stdout and account.file.read_text() == shown.stdout
    assert account.calls() == ["daemon-reload", "enable diana-delta.service", "start diana-delta.service"]
    # It answers when `install` returns.
    ran = account.diana("submit", "--wait", "--", "sh", "-c", 'test -z "$NOTIFY_SOCKET"')
    assert ran.returncode == 0, ran

    again = account.service("install")
    assert again.returncode == 0 and "is installed already and runs; nothing was changed" in again.stdout, again
    assert account.calls() == []
    status = account.service("status")
    assert status.returncode == 0 and f"diana-delta.service of {account.data}: runs" in status.stdout, status
    (told,) = json_shapes.check_lines("service", account.service("status", "--json").stdout)
    assert told["active"] and told["enabled"] and told["current"] and not told["linger"]
    second = account.service("install", "--name", "other")
    assert second.returncode == 2 and second.stderr.startswith(f"diana: {account.file} serves {account.data} already;")

    account.file.write_text(account.file.read_text().replace("RestartSec=5", "RestartSec=9"))
    differs = account.service("install")
    assert differs.returncode == 2 and "is there and differs; " in differs.stderr and "--replace" in differs.stderr
    assert "not as this installation would write it" in account.service("status").stdout
    account.calls()
    assert "diana-delta.service replaced: it runs" in account.service("install", "--replace").stdout
    assert account.calls()[-1] == "restart diana-delta.service" and account.file.read_text() == shown.stdout

    gone = account.service("uninstall")
    assert gone.returncode == 0 and "diana-delta.service stopped and removed; running jobs run on" in gone.stdout, gone
    assert account.calls() == ["disable --now diana-delta.service", "daemon-reload"] and not account.file.exists()
    assert account.diana("status").returncode == 4 and (account.data / "site.toml").exists()
    assert "nothing was changed" in account.service("uninstall").stdout


def test_what_stands_in_its_way_is_one_line_and_nothing_is_installed(account: Account) -> None:
    with socket.create_server(("127.0.0.1", account.port)):
        taken = account.service("install")
    who, mend = f"process {os.getpid()} (", f"; stop that, or set listen in {account.data / 'site.toml'}\n"
    assert taken.returncode == 2 and taken.stderr.endswith(mend), taken
    assert taken.stderr.startswith(f"diana: port {account.port} on 127.0.0.1 is taken by {who}"), taken
    assert account.diana("node", "--detach", "--no-zeroconf").returncode == 0
    runs = account.service("install")
    assert runs.returncode == 2 and "its node runs already, and not as this service; diana stop --data " in runs.stderr
    assert account.diana("stop").returncode == 0
    until(lambda: account.diana("status").returncode == 4, "it has ended")

    config = account.data / "site.toml"
    config.write_text(config.read_text().replace("root_jobs = true", "root_jobs = false"))
    if os.getuid() == 0:
        fails = account.service("install")
        assert fails.returncode == 2 and "nothing was left installed; journalctl --user -u diana-delta" in fails.stderr
        assert account.calls()[-2:] == ["disable --now diana-delta.service", "daemon-reload"]
    assert not account.file.exists() and not list(account.state.glob("*.enabled"))
