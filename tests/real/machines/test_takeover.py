"""A site of four machines loses whichever of them leads while a group runs; init, invite and join made all of it
(SPEC D8, U1; PROMISES section 2 Standby). DIANA_FULL=1: 20 kills and nine stops in a group of 5,000 jobs."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from diana.adapters.sqlite_store.store import SqliteStore
from diana.client import Client
from diana.errors import DianaError
from tests.e2e.grid import Grid, Site, Starts, free_port, outcomes, timely, until
from tests.real.members import Machine
from tests.real.pairs import durability, in_sync

FULL = bool(os.environ.get("DIANA_FULL"))
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600 if FULL else 300)]

JOBS = 5000 if FULL else 1500
JOB_S = "1.0" if FULL else "0.15"
KILLS = 20 if FULL else 1
STOPS_S = (5, 30, 120, 5, 30, 120, 5, 30, 120) if FULL else (30,)
LONGEST_LEASE_S = 6.0
TAKEOVER_S = 20.0
LOGS = 60
END_S = 1200.0 if FULL else 90.0


def test_a_site_survives_whatever_befalls_the_machine_that_leads_it(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    site = made(grid)
    group = site.submit(starts)
    took: list[float] = []
    faults = ["kill"] * KILLS + [str(stop_s) for stop_s in STOPS_S]
    for number, fault in enumerate(faults, 1):
        starts.wait_for(JOBS * number // (len(faults) + 3), END_S)
        time.sleep(chance.uniform(0.0, 0.5))
        if fault == "kill":
            site.leader.kill()
            took.append(site.taken_over(group))
            site.leader.launch()
            site.swap()
        else:
            took += site.stopped_for(int(fault), group)
        print(f"{fault}: {took[-1:]}", flush=True)
        in_sync(site.leader)
        assert durability(site.other) == 0
    print("takeovers after", *(f"{seconds:.1f}" for seconds in took), "s")
    with Client(credential=site.credential) as client:
        status = client.wait(group, timeout_s=END_S)
        assert (status.state, status.done, status.durability) == ("done", JOBS, 2), f"{status}\n{grid.story()}"
        assert dict(outcomes(client, group)) == dict.fromkeys(range(JOBS), "done")
        # Wherever they lie: here, or on the machine that led when the job ended.
        for index in chance.sample(range(JOBS), LOGS):
            chunks = list(client.logs(f"{group}.{index}"))
            assert b"".join(one.data for one in chunks) == f"this is {index}\n".encode(), (chunks, grid.story())
    assert len(starts.all()) == JOBS and not starts.doubled(), starts.doubled()
    site.same_journals()


class FourMachines:
    """alpha: main and spare, which keep the journal, m1 and m2, which have most slots; `leader` leads now."""

    def __init__(self, grid: Grid, main: Site, spare: Site, credential: Path) -> None:
        self.grid = grid
        self.leader, self.other = main, spare
        self.credential = credential

    def swap(self) -> None:
        self.leader, self.other = self.other, self.leader

    def submit(self, starts: Starts) -> str:
        with Client(credential=self.credential) as client:
            then = ("sh", "-c", f"echo this is $DIANA_INDEX; exec sleep {JOB_S}")
            group = client.submit(starts.job(JOBS, then=then)).group
            assert client.status([group])[0].jobs == JOBS
            return group

    def taken_over(self, group: str, within_s: float = TAKEOVER_S) -> float:
        """Seconds until the other machine tells of the group."""
        begun = time.monotonic()
        until(lambda: told(self.other, group), lambda: f"{self.other.name} leads\n{self.grid.story()}", within_s, 0.05)
        took_s = time.monotonic() - begun
        timely(took_s, within_s, "the takeover")
        return took_s

    def stopped_for(self, stop_s: int, group: str) -> list[float]:
        """SIGSTOP of the leader; how long the takeover took, if one was due."""
        stopped = self.leader
        process = stopped.process
        assert process is not None
        begun = time.monotonic()
        process.send_signal(signal.SIGSTOP)
        # Stopped means stopped: what is asked of it from here on, it reads when it wakes up.
        until(lambda: state_of(process.pid) == "T", "it is stopped", 5.0)
        asked = Asked(stopped)
        took = [self.taken_over(group)] if stop_s > LONGEST_LEASE_S else []
        time.sleep(max(0.0, begun + stop_s - time.monotonic()))
        process.send_signal(signal.SIGCONT)
        said = asked.answer()
        if took:
            assert isinstance(said, DianaError), f"a leader that woke up too late answered {said}"
            self.swap()
        else:
            assert isinstance(said, str), f"a leader that leads on answered {said}\n{self.grid.story()}"
        return took

    def same_journals(self) -> None:
        """Nothing that a deposed leader wrote is left anywhere: both disks hold the same log, term by term."""
        for machine in (self.leader, self.other):
            assert machine.terminate() == 0
        ends = []
        for machine in (self.leader, self.other):
            store = SqliteStore(machine.paths.journal)
            ends.append((store.log_end().seq, store.log_end().starts))
            store.close()
        (long, long_starts), (short, short_starts) = sorted(ends, reverse=True)
        # The leader, stopped first or last, may say its farewell to its own disk alone.
        assert long - short < 20 and [s for s in long_starts if s.first_seq <= short] == list(short_starts), ends


class Asked:
    """A submission that is under way to a machine while that is stopped."""

    def __init__(self, site: Site) -> None:
        self._said: str | DianaError | None = None
        self._site = site
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        try:
            with self._site.client() as client:
                self._said = client.submit({"group": {"command": ["true"]}}).group
        except DianaError as error:
            self._said = error

    def answer(self) -> str | DianaError | None:
        self._thread.join(40.0)
        return self._said


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def told(site: Site, group: str) -> bool:
    try:
        with site.client() as client:
            return client.status([group])[0].jobs == JOBS
    except DianaError:
        return False


def made(grid: Grid) -> FourMachines:
    main = Site("main", grid.root / "main", free_port(), grid.mark)
    says(grid, main, "init", "alpha", "--data", str(main.data), "--listen", main.address, "--slots", "1")
    grid.sites["main"] = main
    main.launch()
    answers(main)
    beta = newcomer(grid, main, Site("beta", grid.root / "beta", free_port(), grid.mark), "--site", slots=0)
    beta.launch()
    answers(beta)
    until(lambda: "beta" in linked(main), lambda: f"beta is linked\n{grid.story()}", 30.0, 0.1)
    spare = newcomer(grid, main, Site("spare", grid.root / "spare", free_port(), grid.mark), "--standby", slots=1)
    members = [
        newcomer(grid, main, Machine(name, grid.root / name, 0, grid.mark), "--member", slots=4)
        for name in ("m1", "m2")
    ]
    for machine in (spare, *members):
        machine.launch()
    in_sync(main)
    token = invited(grid, main, "--user", "ann")
    says(grid, main, "join", token, "ann", "--out", str(grid.root / "ann"))
    return FourMachines(grid, main, spare, grid.root / "ann")


def answers(site: Site) -> None:
    def info() -> bool:
        site.assert_runs()
        try:
            with site.client() as client:
                return bool(client.info().site)
        except DianaError:
            return False

    until(info, lambda: f"{site.name} answers\n{site.story()}", 60.0, 0.1)


def newcomer(grid: Grid, inviter: Site, machine: Site, kind: str, slots: int) -> Site:
    token = invited(grid, inviter, kind, machine.name)
    where = () if kind == "--member" else ("--listen", machine.address)
    says(grid, inviter, "join", token, machine.name, "--data", str(machine.data), "--slots", str(slots), *where)
    grid.sites[machine.name] = machine
    return machine


def invited(grid: Grid, inviter: Site, *words: str) -> str:
    return str(json.loads(says(grid, inviter, "invite", "--data", str(inviter.data), "--json", *words))["token"])


def says(grid: Grid, site: Site, *words: str) -> str:
    done = grid.run(site, *words)
    assert done.returncode == 0, f"{words}: {done.stderr}\n{grid.story()}"
    return done.stdout


def linked(site: Site) -> set[str]:
    with site.client() as client:
        return {other.site for other in client.sites() if other.state == "alive"}
