"""One real Grid Engine on this machine. Needs root, and the packages gridengine-master, -exec and -client.

It wants a host whose name is not loopback's, so it lives in namespaces of its own for names and for /etc/hosts; the
address is added to the loopback interface. Its commands are reached through scripts in `bin`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tests.clusters.programs import search_path
from tests.e2e.grid import free_port

PROGRAMS = ("sge_qmaster", "sge_execd", "qsub", "qstat", "qdel", "qconf", "qacct", "unshare", "nsenter", "ip")
_COMMANDS = ("qsub", "qstat", "qdel", "qconf", "qacct", "qmod", "qhold", "qrls")
_INSTALLED = Path("/var/lib/gridengine"), Path("/var/spool/gridengine/spooldb")
_HOST, _ADDRESS = "gehost", "10.78.0.2"

_QUEUE = """\
qname main.q
hostlist @allhosts
seq_no 0
load_thresholds NONE
suspend_thresholds NONE
nsuspend 1
suspend_interval 00:05:00
priority 0
min_cpu_interval 00:05:00
processors UNDEFINED
qtype BATCH INTERACTIVE
ckpt_list NONE
pe_list smp mpi
rerun FALSE
slots {slots}
tmpdir /tmp
shell /bin/sh
prolog NONE
epilog NONE
shell_start_mode unix_behavior
starter_method NONE
suspend_method NONE
resume_method NONE
terminate_method NONE
notify 00:00:60
owner_list NONE
user_lists NONE
xuser_lists NONE
subordinate_list NONE
complex_values NONE
projects NONE
xprojects NONE
calendar NONE
initial_state default
"""
_LIMITS = ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")
_PARALLEL = """\
pe_name {name}
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule {rule}
control_slaves {many}
job_is_first_task {one}
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""


class GridEngineSite:
    """`bin` belongs at the front of the PATH of who asks."""

    kind = name = "gridengine"

    def __init__(self, root: Path, slots: int = 8) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir()
        for folder in (root, *root.parents):
            with suppress(PermissionError):
                folder.chmod(folder.stat().st_mode | 0o011)
        installed, spool = _INSTALLED
        shutil.copytree(installed, root / "sge", symlinks=True)
        self.config = root / "sge" / "default"
        shutil.copytree(spool, root / "spool" / "spooldb")
        for folder in ("qmaster/job_scripts", "execd"):
            (root / "spool" / folder).mkdir(parents=True)
        subprocess.run(["chown", "-R", "sgeadmin:sgeadmin", root / "spool", self.config / "common"], check=True)
        common = self.config / "common"
        bootstrap = common / "bootstrap"
        bootstrap.write_text(bootstrap.read_text().replace("/var/spool/gridengine", str(root / "spool")))
        (common / "act_qmaster").write_text(f"{_HOST}\n")
        ports = {"SGE_QMASTER_PORT": free_port(), "SGE_EXECD_PORT": free_port()}
        with (common / "settings.sh").open("a") as file:
            file.writelines(f"{name}={port}; export {name}\n" for name, port in ports.items())
        self._environment = {
            **os.environ,
            "PATH": search_path(),
            "SGE_ROOT": str(root / "sge"),
            "SGE_CELL": "default",
            **{name: str(port) for name, port in ports.items()},
        }
        (root / "hosts").write_text(f"127.0.0.1 localhost\n{_ADDRESS} {_HOST}\n")
        self._slots = slots
        self._inside: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        subprocess.run(["ip", "address", "replace", f"{_ADDRESS}/32", "dev", "lo"], check=True)
        enter = f"mount --bind {self.root / 'hosts'} /etc/hosts && hostname {_HOST} && touch {self.root / 'in'}"
        self._inside = subprocess.Popen(["unshare", "-m", "-u", "sh", "-c", f"{enter} && exec sleep infinity"])
        _until(lambda: (self.root / "in").exists(), "its namespaces are there")
        for command in _COMMANDS:
            script = self.bin / command
            real = shutil.which(command, path=search_path())
            script.write_text(f'#!/bin/sh\nexec {" ".join(self._enter())} --wd="$PWD" {real} "$@"\n')
            script.chmod(0o755)
        self.start_master()
        self._configure()
        self.run("sge_execd")
        self.run("qconf", "-Aq", self._file("queue", _QUEUE.format(slots=self._slots) + _no_limits()))
        _until(lambda: "lx-" in self.run("qstat", "-f", check=False), "its machine is there", 60.0)
        self.run("qconf", "-mattr", "exechost", "complex_values", "gpu=2", _HOST)
        self.run("qconf", "-mattr", "exechost", "complex_values", "matlab=2", "global")

    def _configure(self) -> None:
        self.run("qconf", "-as", _HOST)
        settings = {
            "execd_spool_dir": str(self.root / "spool" / "execd"),
            "min_uid": "0",
            "min_gid": "0",
            "load_report_time": "00:00:02",
        }
        self.run("qconf", "-Mconf", self._file("global", _changed(self.run("qconf", "-sconf"), settings)))
        self.run("qconf", "-Ahgrp", self._file("hosts-group", f"group_name @allhosts\nhostlist {_HOST}\n"))
        one_machine = _PARALLEL.format(name="smp", rule="$pe_slots", many="FALSE", one="TRUE")
        several = _PARALLEL.format(name="mpi", rule="$fill_up", many="TRUE", one="FALSE")
        for text in (one_machine, several):
            self.run("qconf", "-Ap", self._file("parallel", text))
        known = [line for line in self.run("qconf", "-sc").splitlines() if line and not line.startswith("#")]
        every = "\n".join([*known, "gpu gpu INT <= YES JOB 0 0", "matlab matlab INT <= YES JOB 0 0", ""])
        self.run("qconf", "-Mc", self._file("complexes", every))
        pace = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
        self.run("qconf", "-Msconf", self._file("scheduler", _changed(self.run("qconf", "-ssconf"), pace)))

    def start_master(self) -> None:
        self.run("sge_qmaster")
        _until(lambda: "execd_spool_dir" in self.run("qconf", "-sconf", check=False), "its master answers")

    def kill_master(self) -> None:
        pid = int((self.root / "spool" / "qmaster" / "qmaster.pid").read_text())
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
        _until(lambda: not Path(f"/proc/{pid}").exists(), "its master is dead")

    def down(self) -> None:
        if self._inside is None:
            return
        self.run("qdel", "-f", "-u", "*", check=False)
        for name in ("execd/gehost/execd.pid", "execd/execd.pid", "qmaster/qmaster.pid"):
            with suppress(OSError, ValueError):
                os.kill(int((self.root / "spool" / name).read_text()), 9)
        self._inside.kill()
        self._inside.wait()
        subprocess.run(["ip", "address", "delete", f"{_ADDRESS}/32", "dev", "lo"], check=False)

    def run(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self._enter(), *argv], env=self._environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0 or not check, f"{argv}: {done.stdout} {done.stderr}"
        return done.stdout

    def _enter(self) -> list[str]:
        assert self._inside is not None
        return ["nsenter", "--target", str(self._inside.pid), "--mount", "--uts"]

    def _file(self, name: str, text: str) -> str:
        path = self.root / name
        path.write_text(text)
        return str(path)


def _changed(text: str, values: dict[str, str]) -> str:
    for key, value in values.items():
        text = re.sub(rf"^{key}\s.*$", f"{key} {value}", text, flags=re.MULTILINE)
    # Its own tool does not read long lines as it writes them.
    return text.replace("\\\n", "")


def _no_limits() -> str:
    return "".join(f"{soft}_{what} INFINITY\n" for what in _LIMITS for soft in "sh")


def _until(happened: object, what: str, within_s: float = 60.0) -> None:
    by_s = time.monotonic() + within_s
    while not happened():  # type: ignore[operator]
        assert time.monotonic() < by_s, f"not within {within_s:g} s: {what}"
        time.sleep(0.1)
