"""Others' waits while a user, peer, machine or stranger floods a node, beside the quiet node of the same run (PROMISES
5.12).

    python -m benchmarks.bench_flood [KIND ...] [--rounds 3] [--seconds 15] [--json FILE]

One real node with jobs at a neighbour. A second user calls it in turns while it is left alone and while it is flooded
at full speed: `status` and a submission of one job, 99th of a hundred. `together` is a user, a peer and a machine of
the site at once, each with a certificate of its own. A flood comes from a process that the kernel runs when no other
wants the processor: it stands for another machine, whose processors are not the node's. Memory is the node's peak
after each kind, and what it holds then; the load is the machine's own, of whatever else runs there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

import grpc

from diana.adapters.subgrid import protocol
from diana.adapters.trust import certificates
from diana.client import Client
from diana.errors import DianaError, NodeAway, Overloaded
from diana.model.facts import Facts
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.run_columns import Runs
from diana.node.config.setup import init_user
from diana.wire.pb import subgrid_pb2
from diana.wire.tls import load_credentials, server_name
from tests.e2e.grid import Grid, Site
from tests.real.lies import AT_BETA, FORGED, NOW, Liar, liar, lies

T = TypeVar("T")
JOB = {"group": {"command": ["true"]}}
HELD = {"group": {"command": ["sleep", "900"], "sites": ["beta"]}, "sweep": {"array": "0-3"}}
BURST_S = 6.0
"""Seconds after which the burst that the rates allow is over."""
USERS = {"calls": (3, 0), "calls-32": (32, 0), "submissions": (0, 8), "user": (8, 8)}
"""Flood by a user -> connections that ask, and that submit."""
VO = "alpha-vo"


class Waits(NamedTuple):
    status_s: float
    submit_s: float


class Growth(NamedTuple):
    peak_mib: int
    began_mib: int
    ended_mib: int


def _peer_payload(kind: str) -> bytes:
    if kind == "peer-long":
        return NOW.payload("quote_request", quote=1, processors=1, jobs=1, refs=["dataset:" + "x" * 90] * 38_000)
    if kind == "peer-short":
        return NOW.payload("committed", subgroup=AT_BETA, epoch=1)
    return _gossip(0)


def _gossip(first: int) -> bytes:
    entries = [{"site": f"{FORGED}-{n}", "counter": 1, "notice": "x" * 900} for n in range(first, first + 120)]
    return NOW.payload("gossip", entries=entries, ages_s=[0.0] * 120)


def _all_lies(mallory: Liar) -> list[bytes]:
    """Forgeries of the hand-over and all other lies, reservations and calls, and gossip about sites that never were."""
    short = [
        NOW.payload(kind, **lie.fields)
        for kind, some in lies(mallory.site, mallory.boot_nonce).items()
        for lie in some
        if kind != "hello"
    ]
    beyond = {"jobs": 10**12, "share": 10**15, "processors": 1, "memory_bytes": 2**62, "submitted_s": -1e9}
    for n in range(2_000):
        of_its_own = {"group": f"{mallory.site}-{n}", "seq": 1, "owner": f"eve{n % 8}@{VO}"}
        short.append(NOW.payload("reserve", **of_its_own, **(beyond if n % 2 else beyond | {"memory_bytes": 0})))
        short.append(NOW.payload("turn_call", group=f"alpha-{1 + n % 50}", call=n + 1, jobs=10**12))
        short.append(NOW.payload("prepared", subgroup=f"alpha-{1 + n % 50}/0", epoch=1, db_uuid=FORGED, seq=1))
    # Both paces, that of messages and that of bytes, are made use of.
    out = [*(_gossip(120 * n) for n in range(180)), *short]
    random.Random(1).shuffle(out)
    return out


PEERS = ("peer-long", "peer-short", "peer-gossip", "peer")
MEMBER = "member"
STRANGER = "connects"
ONES = (*USERS, *PEERS, MEMBER, STRANGER)
TOGETHER = ("user", "peer", MEMBER)
KINDS = (*ONES, "together")


def flood(kind: str, root: Path, address: str) -> None:
    """In a process of its own, until its standard input ends."""
    # Below whatever runs at any nice value.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    alpha = Site("alpha", root / "alpha", int(address.rpartition(":")[2]), "flood")
    if kind in USERS:
        asking, submitting = USERS[kind]
        _threads(lambda: _user(root / "ann", Client.status), asking)
        _threads(lambda: _user(root / "ann", lambda client: client.submit(JOB)), submitting)
    elif kind in PEERS:
        _threads(lambda: _forever(lambda: _peer(kind, root, alpha)), 1)
    elif kind == MEMBER:
        _threads(lambda: _forever(lambda: _machine(root / MEMBER, alpha)), 1)
    else:
        host, _, port = address.rpartition(":")

        def connect() -> None:
            while True:
                with suppress(OSError), socket.create_connection((host, int(port)), timeout=5.0):
                    pass

        _threads(connect, 8)
    sys.stdin.read()


def _user(credential: Path, call: Callable[[Client], object]) -> None:
    with Client(credential=credential) as client:
        while True:
            with suppress(Overloaded, NodeAway):
                call(client)


def _peer(kind: str, root: Path, to: Site) -> None:
    """Say what is to be said until the stream ends."""
    name = f"mallory-{kind}"
    with liar(name, root / name, to, VO) as mallory:
        if not mallory.met():
            time.sleep(0.2)
            return
        for payload in itertools.cycle(_all_lies(mallory) if kind == "peer" else [_peer_payload(kind)]):
            mallory.send(payload)
            if mallory.problem:
                return


def _machine(keys: Path, to: Site) -> None:
    """Attach as a machine of the site, and say at full speed what no machine was given, until the stream ends."""
    texts = load_credentials(keys, "member")
    credentials = grpc.ssl_channel_credentials(texts.root, texts.key, texts.certificate)
    options = [("grpc.ssl_target_name_override", server_name(to.name, VO)), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(to.address, credentials, options) as channel, suppress(grpc.RpcError):
        hello = protocol.Hello(protocol.VERSION, MEMBER, "somebody", "9.9", 0, 4, 1 << 30)
        said = itertools.chain([[hello]], itertools.cycle(_untrue_words()))
        attached: Any = channel.stream_stream("/diana.v1.SubGrid/Attach")(
            subgrid_pb2.SubGridFrame(messages=protocol.pack(list(map(protocol.encode_one, some)))).SerializeToString()
            for some in said
        )
        welcome = protocol.from_root(subgrid_pb2.SubGridFrame.FromString(next(attached)).messages)[0]
        if not isinstance(welcome, protocol.Welcome):
            return
        ends = itertools.cycle(_untrue_ends(welcome.link))
        delivered = channel.stream_stream("/diana.v1.SubGrid/Deliver")(
            subgrid_pb2.DeliverFrame(batch=protocol.encode_batch(batch)).SerializeToString() for batch in ends
        )
        _threads(lambda: _to_its_end(delivered), 1)
        _to_its_end(attached)


def _to_its_end(answers: Any) -> None:
    with suppress(grpc.RpcError):
        for _ in answers:
            pass


def _untrue_words() -> list[list[protocol.FromMember]]:
    """Frames of inventories, progress, barriers and loads of jobs that it never had."""
    out: list[list[protocol.FromMember]] = []
    for n in range(200):
        theirs = [Runs(f"alpha-{1 + n}/0", 1, list(range(1_000)), [1] * 1_000)]
        some = [Runs(f"alpha-{1 + n}/0", 1, [0], [1])]
        out += [
            [protocol.Ready(n, 4, 1 << 30), protocol.Known(n, theirs, last=True)],
            [protocol.HeldRuns(theirs, 7)],
            [protocol.StepsTold(theirs, [[(0.0, 1.0, 2.0)] * 1_000])],
            *([protocol.HeldRuns(some, 7)] for _ in range(5)),
            *([protocol.StepsTold(some, [[(0.0, 1.0, 2.0)]])] for _ in range(5)),
            *([protocol.Load(0.0, float(n), 1 << 30)] for _ in range(5)),
        ]
    return out


def _untrue_ends(link: int) -> list[protocol.DeliveredRuns]:
    """Ends of jobs that it never had, of one and of a thousand."""
    out = []
    for n in range(200):
        count = 1_000 if n % 10 == 0 else 1
        zeros, nothing = [0] * count, [""] * count
        facts = Facts(
            site=SiteId("alpha"),
            indices=list(range(count)),
            attempts=[1] * count,
            outcomes=zeros,
            exit_codes=zeros,
            started_s=[1.0] * count,
            ended_s=[2.0] * count,
            cpu_s=[1.0] * count,
            max_rss_bytes=zeros,
            log_segments=nothing,
            log_offsets=zeros,
            log_lengths=zeros,
            log_truncated=[False] * count,
        )
        out.append(protocol.DeliveredRuns(link, n, f"alpha-{1 + n}/0", 1, facts))
    return out


def _forever(what: Callable[[], None]) -> None:
    while True:
        what()


def _threads(work: Callable[[], None], number: int) -> None:
    for _ in range(number):
        threading.Thread(target=work, daemon=True).start()


@contextmanager
def flooded(kinds: tuple[str, ...], root: Path, address: str) -> Iterator[None]:
    words = ["nice", "-n", "19", sys.executable, "-m", "benchmarks.bench_flood"]
    with ExitStack() as stack:
        processes = []
        for kind in kinds:
            started = subprocess.Popen([*words, "--flood", kind, str(root), address], stdin=subprocess.PIPE)
            stack.enter_context(started)
            stack.callback(started.kill)
            processes.append(started)
        time.sleep(BURST_S)
        yield
        for kind, process in zip(kinds, processes, strict=True):
            if process.poll() is not None:
                raise SystemExit(f"the flood {kind} ended by itself")


def answered(call: Callable[[], T]) -> T:
    """Whoever asks while a lie has the node start anew waits for it."""
    while True:
        with suppress(NodeAway):
            return call()
        time.sleep(0.1)


def waits(client: Client, seconds: float) -> Waits:
    """99th of a hundred of calls and submissions in turns, for so long."""
    group = answered(lambda: client.submit(JOB)).group
    calls: tuple[Callable[[], object], ...] = (lambda: client.status([group]), lambda: client.submit(JOB))
    took: tuple[list[float], ...] = ([], [])
    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        for call, times in zip(calls, took, strict=True):
            began_s = time.perf_counter()
            answered(call)
            times.append(time.perf_counter() - began_s)
            time.sleep(0.01)
    return Waits(*(sorted(times)[int(len(times) * 0.99)] for times in took))


def memory_mib(site: Site, field: str = "VmHWM:") -> int:
    assert site.process is not None
    text = Path(f"/proc/{site.process.pid}/status").read_text()
    return int(text.partition(field)[2].split()[0]) >> 10


def run(kinds: list[str], rounds: int, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
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
        certificates.issue_member(DataDir(alpha.data).keys, "alpha", MEMBER, grid.root / MEMBER)
        grid.start()
        bob = stack.enter_context(Client(credential=grid.root / "bob"))
        with alpha.client() as client:
            client.submit(HELD)
        waits(bob, 3.0)
        print(
            "flood         status quiet  flooded  ratio   submit quiet  flooded  ratio  MiB quiet   then   peak   load",
            flush=True,
        )
        for kind in kinds:
            pairs, began_mib = [], memory_mib(alpha, "VmRSS:")
            for _ in range(rounds):
                quiet = waits(bob, seconds)
                with flooded(TOGETHER if kind == "together" else (kind,), grid.root, alpha.address):
                    pairs.append((quiet, waits(bob, seconds)))
                    grown = Growth(memory_mib(alpha), began_mib, memory_mib(alpha, "VmRSS:"))
                time.sleep(3.0)
            load = os.getloadavg()[0]
            memory = f"{grown.began_mib:11} {grown.ended_mib:6} {grown.peak_mib:6} {load:6.2f}"
            print(f"{kind:12}", _cells(pairs, 0), _cells(pairs, 1), memory, flush=True)
            found[kind] = {
                "status_ratio": _ratio(pairs, 0),
                "submit_ratio": _ratio(pairs, 1),
                "rounds": [{"quiet": quiet._asdict(), "flooded": loud._asdict()} for quiet, loud in pairs],
                **grown._asdict(),
                "load": load,
            }
    return found


def _ratio(pairs: list[tuple[Waits, Waits]], which: int) -> float:
    return median(pair[1][which] / pair[0][which] for pair in pairs)


def _cells(pairs: list[tuple[Waits, Waits]], which: int) -> str:
    quiet, loud = (median(pair[side][which] for pair in pairs) for side in (0, 1))
    return f"{1000 * quiet:10.1f} ms {1000 * loud:5.1f} ms {_ratio(pairs, which):6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each part of a round (default: 15)")
    parser.add_argument("--json", type=Path)
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
        found = run(args.kinds or list(KINDS), args.rounds, args.seconds)
    except DianaError as error:
        raise SystemExit(f"bench_flood: {error}") from error
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
