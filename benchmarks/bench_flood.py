"""Others' waits while one user, peer or stranger floods a node, beside the quiet node of the same run (PROMISES 5.12).

    python -m benchmarks.bench_flood [KIND ...] [--rounds 3] [--calls 300]

One real node with jobs at a neighbour. A second user calls it in turns while it is left alone and while it is flooded
at full speed: `status` and a submission of one job, 99th of a hundred. The flood comes from a process at the lowest
priority: it stands for another machine, whose processors are not the node's. Memory is the node's peak after each kind.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

from diana.adapters.trust import certificates
from diana.client import Client
from diana.errors import DianaError, Overloaded
from diana.model.layout import DataDir
from diana.node.config.setup import init_user
from tests.e2e.grid import Grid, Site
from tests.real.lies import AT_BETA, FORGED, NOW, liar

JOB = {"group": {"command": ["true"]}}
HELD = {"group": {"command": ["sleep", "900"], "sites": ["beta"]}, "sweep": {"array": "0-3"}}
BURST_S = 6.0
"""Seconds after which the burst that the rates allow is over."""
USERS = {"calls": 3, "calls-32": 32, "submissions": 8}
"""Flood by a user -> connections."""


class Waits(NamedTuple):
    status_s: float
    submit_s: float


def _peer_payload(kind: str) -> bytes:
    if kind == "peer-long":
        return NOW.payload("quote_request", quote=1, processors=1, jobs=1, refs=["dataset:" + "x" * 90] * 38_000)
    if kind == "peer-short":
        return NOW.payload("committed", subgroup=AT_BETA, epoch=1)
    entries = [{"site": f"{FORGED}-{n}", "counter": 1, "notice": "x" * 900} for n in range(120)]
    return NOW.payload("gossip", entries=entries, ages_s=[0.0] * 120)


PEERS = ("peer-long", "peer-short", "peer-gossip")
STRANGER = "connects"
KINDS = (*USERS, *PEERS, STRANGER)


def flood(kind: str, root: Path, address: str) -> None:
    """In a process of its own, until its standard input ends."""
    if kind in USERS:
        ann = root / "ann"

        def call() -> None:
            with Client(credential=ann) as client:
                while True:
                    with suppress(Overloaded):
                        if kind == "submissions":
                            client.submit(JOB)
                        else:
                            client.status()

        _threads(call, USERS[kind])
    elif kind in PEERS:
        payload = _peer_payload(kind)
        name = f"mallory-{kind}"
        site = Site("alpha", root / "alpha", int(address.rpartition(":")[2]), "flood")
        with liar(name, root / name, site, "alpha-vo") as mallory:
            if not mallory.met():
                raise SystemExit(mallory.problem)
            _threads(lambda: _forever(lambda: mallory.send(payload)), 1)
            sys.stdin.read()
        return
    else:
        host, _, port = address.rpartition(":")

        def connect() -> None:
            while True:
                with suppress(OSError), socket.create_connection((host, int(port)), timeout=5.0):
                    pass

        _threads(connect, 8)
    sys.stdin.read()


def _forever(what: Callable[[], None]) -> None:
    while True:
        what()


def _threads(work: Callable[[], None], number: int) -> None:
    for _ in range(number):
        threading.Thread(target=work, daemon=True).start()


@contextmanager
def flooded(kind: str, root: Path, address: str) -> Iterator[None]:
    words = ["nice", "-n", "19", sys.executable, "-m", "benchmarks.bench_flood", "--flood", kind, str(root), address]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            time.sleep(BURST_S)
            if process.poll() is not None:
                raise SystemExit(f"the flood {kind} ended by itself")
            yield
        finally:
            process.kill()


def waits(client: Client, calls: int) -> Waits:
    def p99(call: Callable[[], object]) -> float:
        took = []
        for _ in range(calls):
            began_s = time.perf_counter()
            call()
            took.append(time.perf_counter() - began_s)
            time.sleep(0.01)
        return sorted(took)[int(calls * 0.99)]

    group = client.submit(JOB).group
    return Waits(p99(lambda: client.status([group])), p99(lambda: client.submit(JOB)))


def memory_mib(site: Site) -> int:
    assert site.process is not None
    text = Path(f"/proc/{site.process.pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) >> 10


def run(kinds: list[str], rounds: int, calls: int) -> None:
    with ExitStack() as stack:
        grid = Grid()
        stack.callback(grid.close)
        alpha = grid.add("alpha", slots=2)
        grid.add("beta", slots=4)
        grid.join()
        for user in ("ann", "bob"):
            init_user(alpha.data, user, grid.root / user)
        for kind in PEERS:
            certificates.issue_site(DataDir(alpha.data).keys, f"mallory-{kind}", grid.root / f"mallory-{kind}")
        grid.start()
        bob = stack.enter_context(Client(credential=grid.root / "bob"))
        with alpha.client() as client:
            client.submit(HELD)
        waits(bob, 30)
        print("flood         status quiet  flooded  ratio   submit quiet  flooded  ratio    MiB", flush=True)
        for kind in kinds:
            pairs = []
            for _ in range(rounds):
                quiet = waits(bob, calls)
                with flooded(kind, grid.root, alpha.address):
                    pairs.append((quiet, waits(bob, calls)))
                time.sleep(3.0)
            print(f"{kind:12}", _cells(pairs, 0), _cells(pairs, 1), f"{memory_mib(alpha):6}", flush=True)


def _cells(pairs: list[tuple[Waits, Waits]], which: int) -> str:
    quiet, loud = (median(pair[side][which] for pair in pairs) for side in (0, 1))
    ratio = median(pair[1][which] / pair[0][which] for pair in pairs)
    return f"{1000 * quiet:10.1f} ms {1000 * loud:5.1f} ms {ratio:6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--flood", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.flood:
        kind, root, address = args.flood
        flood(kind, Path(root), address)
        return
    unknown = [kind for kind in args.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"{unknown[0]} is none of {', '.join(KINDS)}")
    try:
        run(args.kinds or list(KINDS), args.rounds, args.calls)
    except DianaError as error:
        raise SystemExit(f"bench_flood: {error}") from error


if __name__ == "__main__":
    main()
