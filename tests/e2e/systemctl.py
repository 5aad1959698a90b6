"""A `systemctl` for machines without a running systemd: it reads real unit files, starts what they say, waits for
READY=1 as Type=notify does, and keeps what it knows in the folder SYSTEMCTL_STATE. Each call is a line of `calls`."""

from __future__ import annotations

import configparser
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = f'#!/bin/sh\nexec {sys.executable} -P {__file__} "$@"\n'
START_S = 300.0


def put_into(folder: Path) -> Path:
    """A folder for a PATH with `systemctl`, and `loginctl` whose users do not linger."""
    folder.mkdir(exist_ok=True)
    for name, text in {"systemctl": PROGRAM, "loginctl": "#!/bin/sh\necho no\n"}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


class Manager:
    def __init__(self, state: Path, units: Path) -> None:
        self.state = state
        self.units = units

    def pid(self, unit: str) -> int:
        """0: it does not run."""
        try:
            pid = int((self.state / f"{unit}.pid").read_text())
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            return 0
        return 0 if fields[0] == "Z" else pid

    def start(self, unit: str) -> int:
        if self.pid(unit):
            return 0
        service = self._service(unit)
        assert service["type"] == "notify" and service["killmode"] == "process"
        path = self.state / f"{unit}.notify"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear, (self.state / f"{unit}.out").open("ab") as out:
            ear.bind(str(path))
            ear.settimeout(0.1)
            words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(service["execstart"])]
            process = subprocess.Popen(
                words,
                cwd="/",
                env={**os.environ, "NOTIFY_SOCKET": str(path)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            (self.state / f"{unit}.pid").write_text(str(process.pid))
            until_s = time.monotonic() + START_S
            while process.poll() is None and time.monotonic() < until_s:
                try:
                    if b"READY=1" in ear.recv(4096).split(b"\n"):
                        return 0
                except TimeoutError:
                    continue
        print(f"Job for {unit} failed because the control process exited with error code.", file=sys.stderr)
        return 1

    def stop(self, unit: str) -> int:
        if pid := self.pid(unit):
            os.kill(pid, signal.SIGTERM)
            while self.pid(unit):
                time.sleep(0.02)
        return 0

    def _service(self, unit: str) -> configparser.SectionProxy:
        read = configparser.ConfigParser(interpolation=None, strict=False)
        read.read_string((self.units / unit).read_text())
        return read["Service"]


def main(words: list[str]) -> int:
    state = Path(os.environ["SYSTEMCTL_STATE"])
    with (state / "calls").open("a") as file:
        file.write(shlex.join(words) + "\n")
    assert words[0] == "--user", words
    words = [word for word in words if word not in ("--user", "--no-pager")]
    manager = Manager(state, Path(os.environ["XDG_CONFIG_HOME"], "systemd", "user"))
    order, unit = words[0], words[-1]
    enabled = state / f"{unit}.enabled"
    if order == "is-system-running":
        print("running")
    elif order == "is-active":
        print("active" if manager.pid(unit) else "inactive")
    elif order == "is-enabled":
        print("enabled" if enabled.exists() else "disabled")
    elif order == "daemon-reload":
        pass
    elif order == "enable":
        enabled.touch()
    elif order == "disable":
        enabled.unlink(missing_ok=True)
        return manager.stop(unit) if "--now" in words else 0
    elif order in ("start", "restart"):
        if order == "restart":
            manager.stop(unit)
        return manager.start(unit)
    else:
        raise SystemExit(f"Unknown command verb {order}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
