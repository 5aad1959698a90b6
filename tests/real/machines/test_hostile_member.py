"""A machine of a site that lies to its real RootGrid, message by message (PROMISES 1.3, 5.3): it holds the certificate
of a member and speaks its own gRPC. `docs/security-messages.md` says what a lie of each kind costs.

Another machine has the jobs of a group, which wait for a file. Whatever the liar says, they run once, end once with
their own outputs, and the audit trail names the liar where it can be told from an honest machine.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import grpc
import msgspec
import pytest

from diana.adapters.subgrid import protocol
from diana.adapters.trust import certificates
from diana.model.facts import Facts, Outcome, OutputFile
from diana.model.ids import SiteId
from diana.model.kept_log import LiveLog
from diana.model.run_columns import Runs
from diana.wire.pb import subgrid_pb2, subgrid_pb2_grpc
from diana.wire.tls import server_name
from tests.e2e.grid import Grid, Starts, outcomes, until
from tests.real.lies import FAR, FORGED, NAN
from tests.real.members import add_member

pytestmark = pytest.mark.e2e

JOBS, PART = 4, "alpha-1/0"
RUNS = [Runs(PART, 1, list(range(JOBS)), [1] * JOBS)]
LATER = [Runs(PART, 1, list(range(JOBS)), [2] * JOBS), Runs("alpha-1/7", 5, list(range(JOBS)), [1] * JOBS)]


class Lie(NamedTuple):
    said: list[Any]
    audited: str = ""
    """Part of the line of the audit trail about it; empty: it is about itself, or counts for nothing."""


def ready(**changes: Any) -> list[Any]:
    return [msgspec.structs.replace(protocol.Ready(1, 1, 1 << 30), **changes), protocol.Known(1, [], True)]


def ended(outcome: Outcome, **changes: Any) -> protocol.DeliveredRuns:
    """Ends of the jobs of the other machine, with logs and outputs of the liar's making."""
    n, log = JOBS, FORGED.encode()
    facts = Facts(
        site=SiteId("alpha"),
        indices=list(range(n)),
        attempts=[1] * n,
        outcomes=[int(outcome)] * n,
        exit_codes=[0] * n,
        started_s=[1.0] * n,
        ended_s=[2.0] * n,
        cpu_s=[1.0] * n,
        max_rss_bytes=[1] * n,
        log_segments=["x"] * n,
        log_offsets=[0] * n,
        log_lengths=[len(log)] * n if outcome is Outcome.DONE else [0] * n,
        log_truncated=[False] * n,
        outputs=[OutputFile(0, "out", 6, "0" * 64)] if outcome is Outcome.DONE else [],
    )
    return protocol.DeliveredRuns(0, 1, PART, 1, msgspec.structs.replace(facts, **changes))


OTHERS = "jobs of alpha-1/0 that are with others"
LIES: dict[str, dict[str, Lie]] = {
    "Hello": {"a second one": Lie([protocol.Hello(1, "m2", "x", "9", 0, 1, 1)], "a second Hello")},
    "Ready": {"slots beyond all": Lie(ready(slots=2**62, memory_bytes=2**62, gpus=2**40))},
    "Known": {
        "the jobs of another": Lie([protocol.Ready(1, 1, 1), protocol.Known(1, RUNS, True)]),
        "later attempts of the jobs of another": Lie(
            [protocol.Ready(1, 1, 1), protocol.Known(1, LATER, True)], "runs that nobody gave it"
        ),
        "an inventory that nothing began": Lie([protocol.Known(7, RUNS, True)], "an inventory that nothing began"),
    },
    "SpawnerLost": {"its own": Lie([*ready(), protocol.SpawnerLost()])},
    "Load": {"of no number": Lie([protocol.Load(NAN, 1e300, FAR)])},
    "HeldRuns": {"the jobs of another": Lie([*ready(), protocol.HeldRuns(RUNS, 70_000)], "is not its own to hold")},
    "LogShown": {"not asked for": Lie([protocol.LogShown(FAR, LiveLog(2, 1, FORGED.encode()))])},
    "StepsTold": {
        "the jobs of another": Lie([*ready(), protocol.StepsTold(RUNS, [[(0.0, 9.0, 9.0)] * JOBS])]),
        "columns that do not fit": Lie([*ready(), protocol.StepsTold(RUNS, [])], "shorter"),
    },
    "DeliveredRuns": {
        "never begun": Lie([*ready(), ended(Outcome.UNBEGUN)], OTHERS),
        "done, with logs and outputs": Lie([*ready(), ended(Outcome.DONE)], OTHERS),
        "failed": Lie([*ready(), ended(Outcome.FAILED)], OTHERS),
        "at no time": Lie([*ready(), ended(Outcome.FAILED, ended_s=[NAN] * JOBS)], "alpha-1/0"),
        "columns of no length": Lie([*ready(), ended(Outcome.FAILED, cpu_s=[])]),
    },
}
ALL = [(kind, name) for kind, some in LIES.items() for name in some]


def test_every_message_that_a_member_may_say_has_a_lie() -> None:
    assert LIES.keys() == {kind.__name__ for kind in (*protocol.FromMember.__args__, protocol.DeliveredRuns)}


class Attacked:
    def __init__(self, grid: Grid, starts: Starts) -> None:
        self.grid, self.starts = grid, starts
        self.alpha = grid.add("alpha", 0)
        grid.start()
        self.honest = add_member(grid, self.alpha, "m1", JOBS)
        self.honest.start()
        self.go = grid.root / "go"
        wait = ("sh", "-c", f"while [ ! -e {self.go} ]; do sleep 0.2; done; echo mine > out-$1", "sh", "{index}")
        job = starts.job(JOBS, wait)
        job["outputs"] = {"collect": ["out-{index}"]}
        with self.alpha.client() as client:
            self.group = client.submit(job).group
        starts.wait_for(JOBS)
        self.liars = 0

    def tell(self, lie: Lie) -> str:
        """Attach as a machine of its own, say it all, and see it taken in; return the machine's name."""
        self.liars += 1
        name = f"liar{self.liars}"
        keys = self.grid.root / name
        certificates.issue_member(self.alpha.paths.keys, "alpha", name, keys)
        texts = [(keys / one).read_bytes() for one in ("vo.pem", "member.key", "member.pem")]
        host = server_name("alpha", certificates.vo_of(self.alpha.paths.keys))
        options = [("grpc.ssl_target_name_override", host), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.secure_channel(self.alpha.address, grpc.ssl_channel_credentials(*texts), options) as channel:
            stub: Any = subgrid_pb2_grpc.SubGridStub(channel)  # type: ignore[no-untyped-call]
            out: queue.Queue[Any] = queue.Queue()
            out.put(frame(protocol.Hello(protocol.VERSION, name, name, "9.9", 0, 1, 1 << 30)))
            call = stub.Attach(iter(out.get, None))
            (welcome,) = protocol.from_root(next(call).messages)
            assert isinstance(welcome, protocol.Welcome), welcome
            draining = threading.Thread(target=drained, args=(call,), daemon=True)
            draining.start()
            try:
                for one in lie.said:
                    if isinstance(one, protocol.DeliveredRuns):
                        self.deliver(stub, msgspec.structs.replace(one, link=welcome.link))
                    else:
                        out.put(frame(one))
                if lie.audited:
                    until(lambda: lie.audited in self.audited(name), lambda: f"audited: {self.audited(name)!r}", 10)
            finally:
                # The node ends the stream once it has handled all that was said on it.
                out.put(None)
                draining.join(20)
            assert not draining.is_alive(), self.alpha.story()
        until(lambda: f"machine {name} is away" in self.alpha.paths.node_log.read_text(), self.alpha.story, 20)
        return name

    @staticmethod
    def deliver(stub: Any, batch: protocol.DeliveredRuns) -> None:
        data = FORGED.encode() * (sum(batch.facts.log_lengths) // len(FORGED)) + b"forged" * len(batch.facts.outputs)
        frames = [subgrid_pb2.DeliverFrame(batch=protocol.encode_batch(batch))]
        frames += [subgrid_pb2.DeliverFrame(data=data)] if data else []
        with suppress(grpc.RpcError):
            next(stub.Deliver(iter(frames)))

    def audited(self, machine: str) -> str:
        lines = self.alpha.paths.audit.read_text().splitlines()
        return "\n".join(line for line in lines if f'"machine:{machine}"' in line)

    def unharmed(self) -> None:
        self.alpha.assert_runs()
        with self.alpha.client() as client:
            (seen,) = client.status([self.group])
        assert (seen.running, seen.done, seen.failed, seen.held) == (JOBS, 0, 0, 0), seen
        assert len(self.starts.all()) == JOBS, "nothing is begun a second time"
        kept = [path for path in self.alpha.paths.root.rglob("*") if path.is_file()]
        forged = [path for path in kept if path.suffix not in (".pem", ".key") and FORGED.encode() in path.read_bytes()]
        assert not forged, forged


def frame(message: Any) -> subgrid_pb2.SubGridFrame:
    return subgrid_pb2.SubGridFrame(messages=protocol.pack([protocol.encode_one(message)]))


def drained(call: Any) -> None:
    with suppress(grpc.RpcError):
        for _ in call:
            pass


@pytest.fixture(scope="module")
def attacked() -> Iterator[Attacked]:
    grid = Grid()
    try:
        yield Attacked(grid, Starts(grid))
    finally:
        grid.close()


@pytest.mark.parametrize(("kind", "name"), ALL, ids=lambda text: text.replace(" ", "-"))
def test_no_lie_of_a_machine_harms_the_jobs_of_another(attacked: Attacked, kind: str, name: str) -> None:
    attacked.tell(LIES[kind][name])
    attacked.unharmed()


def test_after_all_lies_the_jobs_end_once_with_their_own_outputs(attacked: Attacked) -> None:
    attacked.go.touch()
    with attacked.alpha.client() as client:
        seen = client.wait(attacked.group, timeout_s=60)
        assert (seen.state, seen.done) == ("done", JOBS), seen
        assert set(outcomes(client, attacked.group).values()) == {"done"}
        assert b"".join(one.data for one in client.fetch_chunks(attacked.group)).count(b"mine") == JOBS
    assert len(attacked.starts.all()) == JOBS and not attacked.starts.doubled()
