"""An HTCondor that stands in where no real one runs: its commands, and a schedd that starts what they are given.

Faithful to HTCondor 23.9 in what the adapter meets, as a real one printed it: what `-terse`, `-json`, `condor_rm` and
`condor_config_val` print, also where there is nothing; what a job's environment lacks; JobStatus, holds and their
codes, NumJobStarts; that `periodic_remove` ends what was evicted or held; that a job leaves the queue for the history;
the words it refuses with. `tests/clusters` asks the same of a real one. The schedd is a thread of the test; the
commands, processes of their own, speak to it by files."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

COMMANDS = ("condor_submit", "condor_q", "condor_history", "condor_rm", "condor_status", "condor_version")
COMMANDS += ("condor_config_val",)
HOST = "head.lab"
VERSION = "$CondorVersion: {} 2026-07-12 PackageID: 23.9.6+dfsg-2.1+b10 $\n$CondorPlatform: X86_64-Debian_13 $"
AWAY = """
-- Failed to fetch ads from: <127.0.0.1:9618?addrs=127.0.0.1-9618&alias=head.lab&noUDP&sock=schedd_1_50fd> : head.lab
SECMAN:2007:Failed to end classad message."""
PERIODIC_S = 0.5
MOST_PER_SUBMISSION, MOST_PER_OWNER = 500, 2000
Ad = dict[str, object]


class FakeHTCondor:
    """`down`: its schedd does not answer; `unheard`: it takes what is submitted, and nobody hears of it; `unset`: its
    settings cannot be asked; `requirement`: why its administrator takes no job. `running` holds processes by
    (ClusterId, ProcId)."""

    def __init__(self, root: Path, cpus: int = 8, version: str = "23.9.6", domain: str = "lab") -> None:
        self.root, self.cpus, self.version, self.domain = root, cpus, version, domain
        self.config, self.bin = root / "condor_config", root / "bin"
        for folder in (self.bin, root / "new", root / "rm", root / "execute"):
            folder.mkdir(parents=True)
        self.config.write_text("use role:personal\n")
        here = f"#!{sys.executable}\nimport sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        for name in COMMANDS:
            (self.bin / name).write_text(f"{here}from tests.batch.fake_htcondor import command; command()\n")
            (self.bin / name).chmod(0o755)
        self.queue: dict[tuple[int, int], Ad] = {}
        self.history: list[Ad] = []
        self.running: dict[tuple[int, int], subprocess.Popen[bytes]] = {}
        self.down = self.unheard = self.unset = False
        self.requirement = ""
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._turns = threading.Thread(target=self._run, daemon=True)

    def up(self) -> None:
        self._write()
        self._turns.start()

    def close(self) -> None:
        self._over.set()
        self._turns.join()
        for key in list(self.running):
            self._kill(key)

    def evict(self, key: tuple[int, int]) -> None:
        with self._lock:
            self._kill(key)
            self._leave(key, 1)

    def hold(self, key: tuple[int, int], code: int, reason: str) -> None:
        with self._lock:
            if key in self.running:
                self._kill(key)
                self._leave(key, 5)
            self.queue[key] |= {"JobStatus": 5, "HoldReason": reason, "HoldReasonCode": code}

    # --- the schedd ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.wait(0.02):
            with self._lock:
                self._take_in()
                self._reap()
                self._start()
                self._police()
                self._write()

    def _take_in(self) -> None:
        for path in sorted((self.root / "new").glob("*.json"), key=lambda path: int(path.stem)):
            for ad in json.loads(path.read_text()):
                self.queue[ad["ClusterId"], ad["ProcId"]] = ad
            path.unlink()
        for path in (self.root / "rm").glob("*.json"):
            for cluster, process in json.loads(path.read_text()):
                if (key := (cluster, process)) in self.queue:
                    before = self.queue[key]["JobStatus"]
                    if key in self.running:
                        self._kill(key)
                        self._leave(key, 2)
                    self._forget(key, 3, LastJobStatus=before, RemoveReason="via condor_rm (by user someone)")
            path.unlink()

    def _kill(self, key: tuple[int, int]) -> None:
        process = self.running.pop(key)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _leave(self, key: tuple[int, int], status: int) -> None:
        """The machine: how often it started there is told the schedd only then."""
        ad = self.queue[key]
        host = ad.pop("RemoteHost")
        ad |= {"JobStatus": status, "LastJobStatus": 2, "LastRemoteHost": host, "EnteredCurrentStatus": time.time()}
        ad["NumJobStarts"] = int(str(ad["NumJobStarts"])) + 1

    def _forget(self, key: tuple[int, int], status: int, **more: object) -> None:
        ad = self.queue.pop(key) | {"JobStatus": status, "EnteredCurrentStatus": time.time(), **more}
        if "HoldReason" in ad:
            ad |= {"LastHoldReason": ad.pop("HoldReason"), "LastHoldReasonCode": ad.pop("HoldReasonCode")}
        self.history.insert(0, ad)

    def _reap(self) -> None:
        for key, process in list(self.running.items()):
            if process.poll() is not None:
                del self.running[key]
                self._leave(key, 4)
                code = process.returncode
                ended = {"ExitBySignal": True, "ExitSignal": -code} if code < 0 else {"ExitCode": code}
                self._forget(key, 4, CompletionDate=int(time.time()), **ended)

    def _start(self) -> None:
        for key, ad in self.queue.items():
            fits = self._used() + int(str(ad["RequestCpus"])) <= self.cpus
            if ad["JobStatus"] == 1 and not ad["NumJobStarts"] and fits:
                scratch = self.root / "execute" / f"dir_{key[0]}_{key[1]}"
                scratch.mkdir()
                told: dict[str, str] = ad["_environment"]  # type: ignore[assignment]
                ad |= {"JobStatus": 2, "LastJobStatus": 1, "RemoteHost": f"slot1_1@{HOST}"}
                self.running[key] = subprocess.Popen(
                    [str(ad["Cmd"])],
                    cwd=str(ad["Iwd"]),
                    env={**told, "TMPDIR": str(scratch), "_CONDOR_SLOT": "slot1_1", "BATCH_SYSTEM": "HTCondor"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )

    def _police(self) -> None:
        """The condition of the adapter's PeriodicRemove."""
        for key, ad in list(self.queue.items()):
            evicted = ad["JobStatus"] == 1 and ad["NumJobStarts"]
            held = ad["JobStatus"] == 5 and (ad["NumJobStarts"] or ad["HoldReasonCode"] not in (1, 15, 16))
            if (evicted or held) and time.time() - float(str(ad.setdefault("_since", time.time()))) > PERIODIC_S:
                why = f"The job attribute PeriodicRemove expression '{ad['PeriodicRemove']}' evaluated to TRUE"
                self._forget(key, 3, LastJobStatus=ad["JobStatus"], RemoveReason=why)

    def _used(self) -> int:
        return sum(int(str(self.queue[key]["RequestCpus"])) for key in self.running)

    def _write(self) -> None:
        state = {"queue": list(self.queue.values()), "history": self.history, "down": self.down, "cpus": self.cpus}
        state |= {"unheard": self.unheard, "unset": self.unset, "requirement": self.requirement}
        new = self.root / "state.new"
        new.write_text(
            json.dumps({**state, "used": self._used(), "version": self.version, "domain": self.domain}, default=str)
        )
        new.replace(self.root / "state")


# --- the commands ------------------------------------------------------------------------------------------


def command() -> None:
    root = Path(os.environ["CONDOR_CONFIG"]).parent
    state = json.loads((root / "state").read_text())
    name, words = Path(sys.argv[0]).name, sys.argv[1:]
    options = {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("-")}
    if options.get("-name", HOST) != HOST:
        fail(f"{name}: unknown host {options['-name']}")
    if state["down"] and name in ("condor_submit", "condor_q", "condor_rm"):
        fail("\nERROR: Failed to connect to local queue manager\nSECMAN:2007:x" if name == "condor_submit" else AWAY)
    if name == "condor_submit":
        submit(root, state)
    elif name == "condor_rm":
        remove(root, state, options["-constraint"])
    elif name == "condor_q":
        assert options["-constraint"] == "DianaToken =!= undefined"
        show(state["queue"], options, nothing="")
    elif name == "condor_history":
        wanted = {int(job) for job in re.findall(r"ClusterId == (\d+)", options["-constraint"])}
        scanned = scan(state["history"], options)
        (root / "scanned").write_text(str(len(scanned)))
        show([ad for ad in scanned if ad["ClusterId"] in wanted], options, nothing="[\n]")
    elif name == "condor_status":
        show([slot(state)], options, nothing="")
    elif name == "condor_version":
        print(VERSION.format(state["version"]))
    else:
        if state["unset"]:
            fail("Failed to connect to the schedd")
        known = {"MAX_JOBS_PER_SUBMISSION": MOST_PER_SUBMISSION, "MAX_JOBS_PER_OWNER": MOST_PER_OWNER}
        known |= {"MAX_JOBS_SUBMITTED": 2**31 - 1, "FILESYSTEM_DOMAIN": "lab"}
        print(*(known[word] for word in words if word.isupper()), sep="\n")


def fail(words: str) -> None:
    print(words, file=sys.stderr)
    sys.exit(1)


def slot(state: dict[str, object]) -> Ad:
    cpus, used = int(str(state["cpus"])), int(str(state["used"]))
    head = {"Name": f"slot1@{HOST}", "SlotType": "Partitionable", "State": "Unclaimed", "GPUs": 2, "TotalSlotGPUs": 2}
    sizes = {"Cpus": cpus - used, "TotalSlotCpus": cpus, "Memory": 8192 - 128 * used, "TotalSlotMemory": 8192}
    return {**head, **sizes, "FileSystemDomain": state["domain"]}


def show(ads: list[Ad], options: dict[str, str], *, nothing: str) -> None:
    names = options["-attributes"].split(",")
    texts = [json.dumps({key: ad[key] for key in sorted(names) if key in ad}, indent=2) for ad in ads]
    print("[\n" + "\n,\n".join(texts) + "\n]" if texts else nothing, end="\n" if texts or nothing else "")


def scan(history: list[Ad], options: dict[str, str]) -> list[Ad]:
    """From its end back: to the first that fulfils `-since`, which is not among them, or so many."""
    if "-since" in options:
        since_s = float(options["-since"].removeprefix("EnteredCurrentStatus < "))
        return list(itertools.takewhile(lambda ad: float(str(ad["EnteredCurrentStatus"])) >= since_s, history))
    return history[: int(options["-scanlimit"])]


def submit(root: Path, state: dict[str, object]) -> None:
    said, _, rest = sys.stdin.read().partition("\nqueue DianaTask from (\n")
    known = {
        key.strip().lower(): value.strip() for key, _, value in (line.partition("=") for line in said.splitlines())
    }
    if state["requirement"]:
        fail(f"\nERROR: Failed to commit job submission into the queue.\nERROR: {state['requirement']}")
    if not Path(script := macros(known["executable"], 0, 0)).exists():
        fail(f"\nERROR: Executable file {script} does not exist")
    if known.get("requirements", "").count("(") != known.get("requirements", "").count(")"):
        fail(f"\nERROR: Parse error in expression: \n\tRequirements = {known['requirements']}")
    tasks = [int(line) for line in rest.split() if line != ")"]
    queue: list[Ad] = state["queue"]  # type: ignore[assignment]
    for limit, name, there in (
        (MOST_PER_SUBMISSION, "MAX_JOBS_PER_SUBMISSION", 0),
        (MOST_PER_OWNER, "MAX_JOBS_PER_OWNER", len(queue)),
    ):
        if len(tasks) + there > limit:
            fail(f"\nERROR: Failed to create proc\nNumber of submitted jobs would exceed {name}")
    cluster = 1 + int((root / "last").read_text()) if (root / "last").exists() else 1
    (root / "last").write_text(str(cluster))
    ads = []
    for process, task in enumerate(tasks):
        pairs = re.findall(r"'([^']*)'|([^\s\"']+)", macros(known["environment"], cluster, task).strip('"'))
        told = dict((quoted or plain).partition("=")[::2] for quoted, plain in pairs)
        ads.append(
            {
                "ClusterId": cluster,
                "ProcId": process,
                "JobStatus": 1,
                "NumJobStarts": 0,
                "ExitBySignal": False,
                "QDate": int(time.time()),
                "Cmd": script,
                "Iwd": macros(known["initialdir"], cluster, task),
                "RequestCpus": int(known["request_cpus"]),
                "RequestGPUs": int(known.get("request_gpus", 0)),
                "JobBatchName": known["batch_name"],
                "PeriodicRemove": known["periodic_remove"],
                "DianaToken": json.loads(known["+dianatoken"]),
                "DianaTask": int(macros(known["+dianatask"], cluster, task)),
                "_environment": told,
            }
        )
    (root / f"{cluster}.tmp").write_text(json.dumps(ads))
    (root / f"{cluster}.tmp").rename(root / "new" / f"{cluster}.json")
    wait_until_gone(root / "new" / f"{cluster}.json")
    if state["unheard"]:
        # The schedd has it, and the connection broke before it could say so.
        fail("\nERROR: Failed to commit job submission into the queue.")
    print(f"{cluster}.0 - {cluster}.{len(ads) - 1}")


def macros(text: str, cluster: int, task: int) -> str:
    for name, value in (("ClusterId", cluster), ("DianaTask", task), ("DOLLAR", "$")):
        text = text.replace(f"$({name})", str(value))
    return text


def remove(root: Path, state: dict[str, object], constraint: str) -> None:
    cluster = int(re.match(r"ClusterId == (\d+) && \(", constraint)[1])  # type: ignore[index]
    spans = [(int(a), int(b)) for a, b in re.findall(r"DianaTask >= (\d+) && DianaTask < (\d+)", constraint)]
    queue: list[dict[str, int]] = state["queue"]  # type: ignore[assignment]
    gone = [
        (ad["ClusterId"], ad["ProcId"])
        for ad in queue
        if ad["ClusterId"] == cluster and any(a <= ad["DianaTask"] < b for a, b in spans)
    ]
    if not gone:
        fail(f"Couldn't find/remove all jobs matching constraint ({constraint})")
    (root / f"{os.getpid()}.rm").write_text(json.dumps(gone))
    (root / f"{os.getpid()}.rm").rename(root / "rm" / f"{os.getpid()}.json")
    wait_until_gone(root / "rm" / f"{os.getpid()}.json")
    print(f"All jobs matching constraint ({constraint}) have been marked for removal")


def wait_until_gone(path: Path) -> None:
    until_s = time.monotonic() + 5
    while path.exists() and time.monotonic() < until_s:
        time.sleep(0.005)
