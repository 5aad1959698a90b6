"""One real Slurm cluster on loopback, without systemd; several may run side by side. Needs root, and the packages
slurm-wlm, slurm-client and munge."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tests.clusters.programs import search_path
from tests.e2e.grid import free_port

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel", "scontrol", "sinfo")

_CONF = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={root}/run/munge.socket
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/run/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobCompType=jobcomp/filetxt
JobCompLoc={root}/log/jobcomp.txt
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=15
MaxArraySize={most_tasks}
MaxJobCount=20000
GresTypes=gpu
Licenses=matlab:2,mdcs@flex:3
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,default_queue_depth=1000,bf_interval=1
{machines}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=00:02:00 State=UP
"""
_MACHINE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} {memory}Gres=gpu:2 State=UNKNOWN"
)


_HOLDS_MEMORY = {
    "cgroup": {"TaskPlugin=task/none": "TaskPlugin=task/cgroup"},
    "gather": {
        "JobAcctGatherType=jobacct_gather/none": "JobAcctGatherType=jobacct_gather/linux\n"
        "JobAcctGatherFrequency=task=1\nJobAcctGatherParams=OverMemoryKill"
    },
}


class SlurmSite:
    kind = "slurm"

    def __init__(
        self,
        root: Path,
        name: str,
        cpus: int = 8,
        most_tasks: int = 1001,
        machines: int = 1,
        memory_mib: int = 0,
        holds_memory: str = "",
    ) -> None:
        """`cpus`: of each of its machines, which are daemons on this one. `holds_memory`: how jobs are held to the
        memory they asked for, by `cgroup` or by `gather`, which looks once a second; empty: they are not."""
        self.root, self.name = root, name
        self.machines = [f"{name}-n{number + 1}" for number in range(machines)]
        self.config = root / "slurm.conf"
        self.environment = {**os.environ, "PATH": search_path(), "SLURM_CONF": str(self.config)}
        for folder in ("state", "spool", "log", "run"):
            (root / folder).mkdir(parents=True)
        # Its daemon runs as another account, and wants every folder above its socket passable.
        for folder in (root, *root.parents):
            with suppress(PermissionError):
                folder.chmod(folder.stat().st_mode | 0o011)  # type: ignore[attr-defined]
        key = root / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        (root / "run").chmod(0o755)
        for path in (key, root / "run"):
            shutil.chown(path, "munge", "munge")
        memory = f"RealMemory={memory_mib} " if memory_mib else ""
        host = subprocess.run(["hostname", "-s"], capture_output=True, text=True, check=True).stdout.strip()
        self.config.write_text(
            _CONF.format(
                name=name,
                host=host,
                root=root,
                port=free_port(),
                machines="\n".join(
                    _MACHINE.format(name=each, host=host, port=free_port(), cpus=cpus, memory=memory)
                    for each in self.machines
                ),
                most_tasks=most_tasks,
            )
        )

        if holds_memory:
            changes = {"CR_CPU\n": "CR_CPU_Memory\n"} | _HOLDS_MEMORY[holds_memory]
            text = self.config.read_text()
            for line, other in changes.items():
                assert line in text
                text = text.replace(line, other)
            self.config.write_text(text)
        if holds_memory == "cgroup":
            (root / "cgroup.conf").write_text(
                "CgroupPlugin=autodetect\nCgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\n"
            )
        # Two devices, to be handed out; what they are does not matter.
        gpus = [root / f"gpu{number}" for number in range(2)]
        for gpu in gpus:
            os.mknod(gpu, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        (root / "gres.conf").write_text("".join(f"Name=gpu File={gpu}\n" for gpu in gpus))

    def up(self) -> None:
        run = self.root / "run"
        self.run(
            *("setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups", "munged", "--force"),
            f"--key-file={self.root / 'munge.key'}",
            f"--socket={run / 'munge.socket'}",
            *(f"--{kind}-file={run / f'munged.{kind}'}" for kind in ("pid", "log", "seed")),
        )
        self.start_controller()
        for machine in self.machines:
            (self.root / "spool" / machine).mkdir(exist_ok=True)
            self.run("slurmd", "-f", str(self.config), "-N", machine)
        self.until_idle()

    def start_controller(self) -> None:
        self.run("slurmctld", "-f", str(self.config))

    def kill_controller(self) -> None:
        pid = int((self.root / "slurmctld.pid").read_text())
        os.kill(pid, 9)
        by_s = time.monotonic() + 60
        while Path(f"/proc/{pid}").exists() and time.monotonic() < by_s:
            time.sleep(0.02)

    def mend(self) -> None:
        """The operator's mend after a controller came back with an old state: it drains machines whose jobs it does
        not remember, and holds what it could not start."""
        self.run("scontrol", "update", f"nodename={self.name}-n1", "state=resume", check=False)
        held = self.run("squeue", "-h", "-t", "PD", "-r", "-o", "%F_%K|%r", check=False)
        for line in held.splitlines():
            job, _, why = line.partition("|")
            if "JobHeldUser" in why or "JobHeldAdmin" in why:
                self.run("scontrol", "release", job, check=False)

    def until_idle(self, within_s: float = 60.0) -> None:
        by_s = time.monotonic() + within_s
        while True:
            state = self.run("sinfo", "-h", "-o", "%T", "-p", "main", check=False).strip()
            if state and set(state.split()) <= {"idle", "mixed", "allocated"}:
                return
            assert time.monotonic() < by_s, f"Slurm {self.name} is not up: {state}"
            time.sleep(0.1)

    def down(self) -> None:
        self.run("scancel", "-u", "root", check=False)
        time.sleep(0.2)
        daemons = (f"run/slurmd-{machine}.pid" for machine in self.machines)
        for name in (*daemons, "slurmctld.pid", "run/munged.pid"):
            with suppress(OSError, ValueError):
                os.kill(int((self.root / name).read_text()), 15)

    def run(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 or not check, f"{argv[0]}: {done.stderr}"
        return done.stdout
