"""A PBS that stands in until a real one can run here: its commands, and a server that starts what they are given.

Faithful to OpenPBS 20 in what the adapter meets: ids (`7[].host`, `7[3].host`), states (Q, B, R, X, F), what `qstat -f
-t`, `-x`, `-Bf`, `-Qf` and `pbsnodes -a` print and how they wrap it, the least size of an array, that arrays may be
run again always, and the words it refuses with. The server is a thread of the test; the commands, processes of their
own, speak to it by files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

HOST = "pbs-head"
COMMANDS = ("qsub", "qstat", "qdel", "pbsnodes")
NODE = """\
n1
     Mom = n1.lab
     state = {state}
     pcpus = {cpus}
     resources_available.mem = 16777216kb
     resources_available.ncpus = {cpus}
     resources_assigned.ncpus = {used}

n2
     Mom = n2.lab
     state = down,offline
     pcpus = 64
     resources_available.ncpus = 64
     resources_assigned.ncpus = 0
"""
SERVER = f"""\
Server: {HOST}
    server_state = Active
    default_queue = workq
    pbs_version = 20.0.1
    max_array_size = 500
"""
QUEUES = """\
Queue: workq
    queue_type = Execution
    enabled = True
    started = True

Queue: short
    queue_type = Execution
    resources_max.walltime = 00:02:00
    enabled = True
    started = True
"""


class FakePbs:
    def __init__(self, root: Path, cpus: int = 8) -> None:
        self.root, self.cpus = root, cpus
        self.config = root / "pbs.conf"
        self.bin = root / "bin"
        for folder in (self.bin, root / "new", root / "del"):
            folder.mkdir(parents=True)
        self.config.write_text(f"PBS_SERVER={HOST}\n")
        for name in COMMANDS:
            program = self.bin / name
            program.write_text(
                f"#!{sys.executable}\nimport sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
            )
            with program.open("a") as file:
                file.write("from tests.batch.fake_pbs import command; command()\n")
            program.chmod(0o755)
        self.jobs: dict[str, dict[str, object]] = {}
        self.processes: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self.ended_by: dict[tuple[str, int], int] = {}
        self.down = False
        self.others = 0
        """Processors that jobs of others hold."""
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._turns = threading.Thread(target=self._run, daemon=True)

    def up(self) -> None:
        self._write()
        self._turns.start()

    def close(self) -> None:
        self._over.set()
        self._turns.join()
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    # --- the server ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.wait(0.02):
            self._take_in()
            self._reap()
            self._start()
            self._write()

    def _take_in(self) -> None:
        for path in sorted((self.root / "new").glob("*.json"), key=lambda path: int(path.stem)):
            job = json.loads(path.read_text())
            self.jobs[path.stem] = {**job, "tasks": {str(k): "Q" for k in job["range"]}, "exits": {}}
            path.unlink()
        for path in (self.root / "del").iterdir():
            number, _, spans = path.read_text().partition(" ")
            path.unlink()
            tasks: dict[str, str] = self.jobs[number]["tasks"]  # type: ignore[assignment]
            for key in spans.split(","):
                if tasks.get(key) == "Q":
                    tasks[key] = "X"
                elif tasks.get(key) == "R":
                    self._end(number, int(key), 271)

    def _end(self, number: str, task: int, code: int) -> None:
        self.ended_by.setdefault((number, task), code)
        with suppress(ProcessLookupError):
            os.killpg(self.processes[number, task].pid, signal.SIGKILL)

    def _reap(self) -> None:
        for (number, task), process in list(self.processes.items()):
            job = self.jobs[number]
            limit_s, began_s = float(str(job["walltime"])), job["began"][str(task)]  # type: ignore[index]
            if limit_s and time.monotonic() - began_s > limit_s:
                self._end(number, task, -29)
            if process.poll() is not None:
                del self.processes[number, task]
                job["tasks"][str(task)] = "X"  # type: ignore[index]
                job["exits"][str(task)] = self.ended_by.pop((number, task), process.returncode)  # type: ignore[index]

    def _start(self) -> None:
        for number, job in self.jobs.items():
            for key, state in job["tasks"].items():  # type: ignore[attr-defined]
                if state == "Q" and self._used() + int(str(job["ncpus"])) <= self.cpus:
                    name = f"{number}[].{HOST}" if job["array"] else f"{number}.{HOST}"
                    environment = {**job["environment"], "PBS_JOBID": name.replace("[]", f"[{key}]")}  # type: ignore[dict-item]
                    environment |= {"PBS_ARRAY_ID": name, "PBS_ARRAY_INDEX": key} if job["array"] else {}
                    job.setdefault("began", {})[key] = time.monotonic()  # type: ignore[index]
                    self.processes[number, int(key)] = subprocess.Popen(
                        ["/bin/sh", str(job["script"])],
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                    job["tasks"][key] = "R"  # type: ignore[index]

    def _used(self) -> int:
        return self.others + sum(int(str(self.jobs[number]["ncpus"])) for number, _ in self.processes)

    def _write(self) -> None:
        # Tests write too, beside its thread.
        with self._writing:
            kept = {number: {**job, "began": {}} for number, job in self.jobs.items()}
            new = self.root / "state.new"
            new.write_text(json.dumps({"jobs": kept, "used": self._used(), "cpus": self.cpus, "down": self.down}))
            new.replace(self.root / "state")


# --- the commands ------------------------------------------------------------------------------------------


def command() -> None:
    root = Path(os.environ["PBS_CONF_FILE"]).parent
    state = json.loads((root / "state").read_text())
    name, words = Path(sys.argv[0]).name, sys.argv[1:]
    if state["down"]:
        fail(f"Connection refused\n{name}: cannot connect to server {HOST} (errno=111)", 111)
    if name == "qsub":
        qsub(root, words, state)
    elif name == "qdel":
        qdel(root, words, state)
    elif name == "pbsnodes":
        busy = "job-busy" if state["used"] >= state["cpus"] else "free"
        print(NODE.format(state=busy, cpus=state["cpus"], used=state["used"]))
    else:
        qstat(words, state)


def fail(words: str, code: int) -> None:
    print(words, file=sys.stderr)
    sys.exit(code)


def qsub(root: Path, words: list[str], state: dict[str, object]) -> None:
    options: dict[str, list[str]] = {}
    while len(words) > 1:
        options.setdefault(words[0], []).append(words[1])
        words = words[2:]
    queue, span = options.get("-q", ["workq"])[0], options.get("-J", [""])[0]
    if queue not in ("workq", "short"):
        fail("qsub: Unknown queue", 170)
    if options.get("-A") == ["nobody"]:
        fail("qsub: Invalid account", 1)
    first, _, last = span.partition("-")
    if span and int(last) <= int(first):
        fail("qsub: illegal -J value", 2)
    if span and int(last) - int(first) >= 500:
        fail("qsub: Array job exceeds server or queue size limit", 1)
    if span and "-r" in options:
        fail("qsub: cannot submit non-rerunable Array Job", 1)
    if options.get("-C") != [""]:
        fail("this fake reads no directives", 2)
    wants = dict(part.partition("=")[::2] for text in options["-l"] for part in text.replace(":", ",").split(","))
    variables = dict(each.partition("=")[::2] for each in options.get("-v", []))
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables}
    alone = int(variables.get("PBS_ARRAY_INDEX", "0"))
    job = {
        "name": options["-N"][0],
        "array": bool(span),
        "range": list(range(int(first), int(last) + 1)) if span else [alone],
        "ncpus": int(wants["ncpus"]),
        "walltime": float(wants.get("walltime", "0")),
        "environment": environment,
        "variables": variables,
        "script": words[0],
        "queue": queue,
    }
    number = 1 + int((root / "last").read_text()) if (root / "last").exists() else 1
    (root / "last").write_text(str(number))
    new = root / f"{number}.tmp"
    new.write_text(json.dumps(job))
    new.rename(root / "new" / f"{number}.json")
    until = time.monotonic() + 5
    while (root / "new" / f"{number}.json").exists() and time.monotonic() < until:
        time.sleep(0.005)
    print(f"{number}[].{HOST}" if span else f"{number}.{HOST}")


def qdel(root: Path, words: list[str], state: dict[str, object]) -> None:
    jobs: dict[str, dict[str, dict[str, str]]] = state["jobs"]  # type: ignore[assignment]
    code = 0
    for at, word in enumerate(words):
        number, bracket, rest = word.partition(".")[0].partition("[")
        tasks = jobs.get(number, {}).get("tasks", {})
        first, dash, last = rest.rstrip("]").partition("-")
        keys = [str(k) for k in range(int(first), int(last if dash else first) + 1)] if bracket else list(tasks)
        if not any(tasks.get(key) in ("Q", "R") for key in keys):
            code = 35 if tasks else 153
            print(f"qdel: {'Job has finished' if tasks else 'Unknown Job Id'} {word}", file=sys.stderr)
            continue
        (root / f"{number}.{at}.del").write_text(f"{number} {','.join(keys)}")
        (root / f"{number}.{at}.del").rename(root / "del" / f"{os.getpid()}.{at}")
    sys.exit(code)


def qstat(words: list[str], state: dict[str, object]) -> None:
    if words == ["-Bf"]:
        print(SERVER)
        return
    if words == ["-Qf"]:
        print(QUEUES)
        return
    wanted = next((word for word in words if not word.startswith("-")), "")
    jobs: dict[str, dict[str, object]] = state["jobs"]  # type: ignore[assignment]
    number = wanted.partition(".")[0].partition("[")[0]
    if wanted and number not in jobs:
        fail(f"qstat: Unknown Job Id {wanted}", 153)
    for each, job in jobs.items():
        if not wanted or each == number:
            show(each, job, past="-x" in words)


def show(number: str, job: dict[str, object], *, past: bool) -> None:
    tasks: dict[str, str] = job["tasks"]  # type: ignore[assignment]
    exits: dict[str, int] = job["exits"]  # type: ignore[assignment]
    live = any(state in "QR" for state in tasks.values())
    if not live and not past:
        return
    if job["array"]:
        left = ",".join(key for key, state in tasks.items() if state == "Q") or "-"
        begun = "B" if any(state != "Q" for state in tasks.values()) else "Q"
        told = {"array": "True", "array_indices_remaining": left}
        block(f"{number}[].{HOST}", job, begun if live else "F", told)
    for key, state in tasks.items():
        name = f"{number}[{key}].{HOST}" if job["array"] else f"{number}.{HOST}"
        shown = state if job["array"] or state != "X" else "F"
        if state == "X" and not past and not job["array"]:
            continue
        block(name, job, shown, {"Exit_status": str(exits[key])} if past and key in exits else {})


def block(name: str, job: dict[str, object], state: str, more: dict[str, str]) -> None:
    print(f"Job Id: {name}")
    variables = {"PBS_O_HOME": "/home/someone/of/a/long/name", **job["variables"], "PBS_O_HOST": HOST}  # type: ignore[dict-item]
    known = {
        "Job_Name": job["name"],
        "Job_Owner": f"someone@{HOST}",
        "job_state": state,
        "queue": job["queue"],
        "Resource_List.ncpus": job["ncpus"],
        **more,
        "Variable_List": ",".join(f"{key}={value}" for key, value in variables.items()),
    }
    for key, value in known.items():
        text = f"{key} = {value}"
        # As it wraps long ones.
        print(f"    {text[:70]}", *(text[at : at + 70] for at in range(70, len(text), 70)), sep="\n\t")
    print()
