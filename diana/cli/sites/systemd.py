"""The unit of a node's service as text, and `systemctl`, which is asked for everything else."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from diana.errors import DianaError, UsageError

SYSTEM_FOLDER = Path("/etc/systemd/system")
MOST_UNIT_BYTES = 1 << 16
_DATA = "X-Diana-Data="
"""Key of ours in the unit's first section, which systemd passes over: the data directory that it serves."""
_STEP_S = 30.0
_START_S = 960.0
"""Seconds for one order to systemctl: a little more than the unit's own TimeoutStartSec."""

_UNIT = """\
# Written by `diana service install`, which also says whether it is as it would be written now: diana service status.
[Unit]
Description=diana, node of {site}
{data_key}{data}
{network}
[Service]
# It has started when the node answers.
Type=notify
{account}ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
# The spawner and the jobs are no part of the node: they outlive it, and the next one takes them over.
KillMode=process
# A control group for each job; with the node in one of its own the kernel holds their memory.
Delegate=yes
DelegateSubgroup=node
Restart=on-failure
RestartSec=5
# A mistake in site.toml is mended by nobody's new start.
RestartPreventExitStatus=2
# A large journal is read first; on a full disk the node waits for room.
TimeoutStartSec=15min
TimeoutStopSec=30
{bounds}
[Install]
WantedBy={target}
"""


@dataclass(frozen=True)
class NodeUnit:
    """A node as a service."""

    site: str
    data: Path
    """Absolute."""
    command: tuple[str, ...]
    """Program and words that run its node, without --data."""
    account: str
    """The account of the node; empty: that of the user whose systemd it is."""

    def text(self) -> str:
        """Return the file's content: of the system with an account, else of a user's own systemd."""
        system = bool(self.account)
        words = (*self.command, "--data", str(self.data))
        return _UNIT.format(
            site=_specifiers(self.site),
            data_key=_DATA,
            data=self.data,
            network="Wants=network-online.target\nAfter=network-online.target\n" if system else "",
            account=f"User={_specifiers(self.account)}\n" if system else "",
            command=" ".join(quoted(word) for word in words),
            bounds="LimitNOFILE=65536\nTasksMax=infinity\n" if system else "",
            target="multi-user.target" if system else "default.target",
        )


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def quoted(word: str) -> str:
    """The word as systemd reads it in ExecStart (systemd.service(5), "Command lines"); UsageError for a line's end, and
    for a backslash at the end, by which a line of a unit goes on in the next."""
    if "\n" in word or "\r" in word or word.endswith("\\"):
        raise UsageError(
            f"{word!r}: a unit holds no path with a line's end, or a backslash at its end; move the directory"
        )
    escaped = _specifiers(word).replace("$", "$$")
    if re.fullmatch(r"[\w@%+=:,./$-]+", escaped):
        return escaped
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'


def data_of(file: Path) -> str:
    """The data directory that a unit of ours serves; empty for any other file, and for one that cannot be read."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_UNIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    found = re.search(f"^{_DATA}(.*)$", text, re.MULTILINE)
    return found[1] if found else ""


@dataclass(frozen=True)
class Systemd:
    """The system's systemd, or that of the user who asks."""

    user: bool

    @property
    def folder(self) -> Path:
        """Where units are written; systemd passes over variables that are no absolute path, too."""
        if not self.user:
            return SYSTEM_FOLDER
        config, home = (os.environ.get(name, "") for name in ("XDG_CONFIG_HOME", "HOME"))
        if not os.path.isabs(config):
            config = os.path.join(home if os.path.isabs(home) else _home(), ".config")
        return Path(config, "systemd", "user")

    def said(self, order: str) -> str:
        """The command line, for people."""
        return f"systemctl{' --user' if self.user else ''} {order}"

    def runs(self) -> bool:
        """True where it is there and takes orders."""
        try:
            done = self._call("is-system-running")
        except OSError:
            return False
        return done.stdout.strip() not in ("", "offline", "unknown")

    def units_of(self, data: Path) -> list[Path]:
        """Files of the units that serve this data directory."""
        return sorted(file for file in self.folder.glob("*.service") if data_of(file) == str(data))

    def asked(self, order: str, unit: str) -> str:
        """The word by which `is-enabled` or `is-active` answers; empty for none."""
        return self._call(order, unit).stdout.strip()

    def order(self, *words: str) -> None:
        """Give an order; DianaError with what systemctl says where it fails."""
        done = self._call(*words, patience_s=_START_S)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
            raise DianaError(f"{self.said(' '.join(words))}: {lines[0].strip()}")

    def _call(self, *words: str, patience_s: float = _STEP_S) -> subprocess.CompletedProcess[str]:
        try:
            return _run("systemctl", *(["--user"] if self.user else []), "--no-pager", *words, patience_s=patience_s)
        except subprocess.TimeoutExpired:
            raise DianaError(f"{self.said(' '.join(words))}: no answer within {patience_s:g} s") from None


def _run(*command: str, patience_s: float = _STEP_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=patience_s,
        check=False,
    )


def _home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise UsageError(f"HOME is no absolute path, and user {os.getuid()} has no account; set HOME") from None


def lingers(account: str) -> bool | None:
    """True where the user's systemd runs without a login; None: nobody knows."""
    try:
        done = _run("loginctl", "show-user", account, "--property=Linger", "--value")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(done.stdout.strip())
