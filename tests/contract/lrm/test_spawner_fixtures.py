"""A claim log and a talk over the spawner's socket as the first release left them: every later release reads both."""

from __future__ import annotations

import typing
from pathlib import Path

from diana.adapters.lrm.spawner import protocol
from diana.adapters.lrm.spawner.claims import claimlog, records
from diana.adapters.lrm.spawner.claims.replay import ClaimHistory
from diana.adapters.lrm.spawner.identity import MachineIdentity
from diana.model.facts import Outcome
from diana.model.run_columns import Runs

FIXTURES = Path(__file__).parents[1] / "fixtures"
PART, GROUP = "alpha-1/0", "alpha-1"
COLLECTS: list[list[protocol.Collected]] = [[("out/h.npz", "0/out/h.npz", False)], [], [("err", "2/err", True)]]


def life() -> list[records.Record]:
    """Three runs: one ended, one is about to be executed, one is merely claimed. An older claim is forgotten."""
    end = records.End(2, 0, Outcome.FAILED, 3, 10.0, 12.5, 2.25, 4096, "0-1.log", 7, 40, True, "alpha-1.0: exit 3")
    return [
        records.LogOpened(1, 4, 2, MachineIdentity("boot", 11, 12), 100.0, 1.75e9),
        records.Term(3),
        records.Claimed(1, "beta-9/1", 5, "beta-9", 1, 0.0, 1 << 20, False, [6], [2], []),
        records.Claimed(2, PART, 1, GROUP, 2, 60.0, 1 << 20, True, [0, 1, 2], [1, 1, 2], COLLECTS),
        records.Starting(
            [records.Begin(2, 0, [0, 1], 9.5, "0-1.log", 7), records.Begin(2, 1, [2, 3], 9.75, "2-1.log", 0)]
        ),
        records.Started([records.Proc(2, 0, 4711, 9.625)]),
        records.Finished([end]),
        records.Dropped([(1, [6])]),
        records.Leased("beta", 160.0),
    ]


def talk() -> list[protocol.Message]:
    """Each kind of message once, as node and spawner say them in turn."""
    runs = [Runs(PART, 1, [0, 1, 2], [1, 1, 2])]
    order = protocol.Order(
        subgroup=PART,
        epoch=1,
        group=GROUP,
        processors=2,
        time_limit_s=60.0,
        memory_bytes=1 << 30,
        log_limit_bytes=1 << 20,
        own_directory=True,
        directory="",
        indices=[0, 1, 2],
        attempts=[1, 1, 2],
        argv=[],
        argvs=[["prog", "a b"], ["prog", "; x"], ["prog", "é"]],
        environment=[("A", "1")],
        environments=[],
        stdouts=["out.txt"] * 3,
        stderrs=[],
        collects=COLLECTS,
    )
    batch = protocol.EndedRuns(
        subgroup=PART,
        epoch=1,
        own_directory=True,
        indices=[0],
        attempts=[1],
        outcomes=[int(Outcome.FAILED)],
        exit_codes=[3],
        started_s=[10.0],
        ended_s=[12.5],
        cpu_s=[2.25],
        max_rss_bytes=[4096],
        log_segments=["0-1.log"],
        log_offsets=[7],
        log_lengths=[40],
        log_truncated=[True],
        errors=[(0, "alpha-1.0: exit 3")],
        collects=COLLECTS[:1],
    )
    return [
        protocol.Hello(1, 3, "alpha", 4),
        protocol.Refused("a node of term 4 commands"),
        protocol.Welcome(1, 4, runs),
        order,
        protocol.Lease("beta", 160.0),
        protocol.Kill(PART, 1, (1, 3)),
        protocol.Ended([batch]),
        protocol.Forget(runs),
        protocol.SetSlots(2),
        protocol.Shutdown(),
        protocol.Recall(PART, 1, (2, 3)),
        protocol.HeldRuns(runs),
        protocol.LetGo(PART, 1, [2], [[("DIANA_GANG_RANK", "2")]]),
        protocol.AskLog(7, PART, 1, 2, 1),
        protocol.LogPlace(7, "runs", "alpha-1/0-1.log", 7, 40, 1000),
        protocol.Save(PART, 1, (0, 2), "USR1", 60.0),
        protocol.StepsDone(runs, [[(12.5, 40.0, 100.0)] * len(each.indices) for each in runs]),
    ]


def write_fixtures() -> None:
    """Once per version: `python -c "from tests.contract.lrm.test_spawner_fixtures import *; write_fixtures()"`."""
    claimlog.ClaimLog(FIXTURES / f"claims-v{records.VERSION}.log", life()).close()
    (FIXTURES / f"spawner-talk-v{protocol.VERSION}.bin").write_bytes(b"".join(map(protocol.frame, talk())))


def test_the_claim_log_of_the_first_release_is_read() -> None:
    kept = claimlog.read(FIXTURES / "claims-v1.log")
    assert kept == life()
    past = ClaimHistory(kept)
    assert (past.term, past.last_number) == (3, 2)
    assert {at: (run.begin is not None, run.end is not None) for at, run in past.runs.items()} == {
        (2, 0): (True, True),
        (2, 1): (True, False),
        (2, 2): (False, False),
    }


def test_the_spawner_talk_of_the_first_release_is_understood() -> None:
    assert list(protocol.Frames().feed((FIXTURES / "spawner-talk-v1.bin").read_bytes())) == talk()


def test_the_fixtures_hold_every_kind_there_is() -> None:
    """A new kind of record or message belongs into the fixtures of its release."""
    assert {type(record) for record in life()} == set(typing.get_args(records.Record))
    assert {type(message) for message in talk()} == set(typing.get_args(protocol.Message))
