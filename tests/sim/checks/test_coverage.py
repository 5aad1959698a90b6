"""Operation x fault (PROMISES section 4): what struck what is counted where it happened, and holes are named."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.errors import UsageError
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.views.decision import Decision
from diana.sim.checks import coverage
from diana.sim.checks.coverage import StrikeCount
from diana.sim.checks.operations import impossible
from diana.sim.faults.swarm import concrete
from diana.sim.main import run
from diana.sim.report.report import selected
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.world.runner import simulate
from tests.sim.checks.test_mutants import SCENARIOS

SMALL = SCENARIOS["few at once"]
A, B, C = SiteId("a"), SiteId("b"), SiteId("c")
PART = SubgroupId("a-1/0")
JOBS = IndexSet.span(0, 4)


def placed() -> r.GroupPlaced:
    decision = Decision(plan="whole", reason="", whole_s=1.0, split_s=1.0, candidates=(), parts=(), decided_at_s=0.0)
    return r.GroupPlaced(
        group=GroupId("a-1"), decision=decision, parts=(r.Part(subgroup=PART, epoch=1, site=B, indices=JOBS),)
    )


def watched() -> StrikeCount:
    return StrikeCount(lambda: 0.0, lambda site: ["run"] if site == B else [])


def test_a_cut_strikes_what_is_open_between_its_two_sites_and_nothing_else() -> None:
    seen = watched()
    seen.committed(A, placed())
    seen.struck("cut", (B, C), None)
    seen.struck("cut", (A, B), None)
    assert seen.strikes == {("offer", "cut"): 1, ("summary", "cut"): 2}
    seen.committed(A, r.TransferCommitted(subgroup=PART, epoch=1, db_uuid="b"))
    seen.struck("cut", (A, B), None)
    assert seen.strikes["offer", "cut"] == 1 and seen.strikes["commit", "cut"] == 1


def test_a_partition_strikes_what_is_open_across_its_border() -> None:
    seen = watched()
    seen.committed(A, placed())
    seen.struck("partition", (A, B), None)
    assert not seen.strikes["offer", "partition"]
    seen.struck("partition", (A,), None)
    assert seen.strikes["offer", "partition"] == 1


def test_a_lost_order_counts_for_what_it_orders() -> None:
    seen = watched()
    seen.committed(A, placed())
    order = r.ControlIssued(subgroup=PART, epoch=1, control_seq=1, hold=JOBS)
    seen.committed(A, order)
    lost = ms.Control(subgroup=PART, epoch=1, control_seq=1, cancel=IndexSet(), hold=JOBS)
    seen.struck("loss", (), lost)
    assert seen.strikes == {("hold", "loss"): 1}
    seen.committed(A, r.ControlIssued(subgroup=PART, epoch=1, control_seq=2))
    seen.struck("loss", (), ms.ControlAck(subgroup=PART, epoch=1, control_seq=1))
    assert seen.strikes["release", "loss"] == 1


def test_a_crash_strikes_what_is_committed_or_let_out_at_its_boundary() -> None:
    seen = watched()
    ack = fx.Send(A, ms.Committed(subgroup=PART, epoch=1))
    seen.struck("crash before commit", (B,), [r.CustodyDropped(subgroup=PART, epoch=1, at_s=0.0)])
    assert seen.strikes == {("abort", "crash before commit"): 1}
    seen.committed(B, r.RunsStarted(subgroup=PART, epoch=1, indices=JOBS))
    seen.struck("crash between effects", (B,), ack)
    struck = {operation for operation, fault in seen.strikes if fault == "crash between effects"}
    assert struck == {"start", "commit"}


def test_a_fault_of_a_site_strikes_all_that_it_does() -> None:
    seen = watched()
    seen.committed(A, placed())
    seen.struck("stall", (B,), None)
    assert {operation for operation, _ in seen.strikes} == {"offer", "run", "summary"}


def test_holes_are_named_and_what_cannot_be_has_a_reason() -> None:
    table = {"offer": {"loss": 3, "retell": 0}, "run": {"loss": 0, "retell": 0}}
    found = coverage.report([table, {"offer": {"cut": 1}}])
    assert found["table"]["offer"] == {"cut": 1, "loss": 3, "retell": 0}
    assert found["empty"] == ["run x retell"]
    assert impossible("run", "loss") and impossible("offer", "retell") and not impossible("offer", "cut")
    lines = coverage.text(found)
    assert lines[-1] == "  empty cells: 1: run x retell" and any("1 cut | " in line for line in lines)


def test_the_table_is_reported_when_asked_for_and_changes_nothing() -> None:
    asked = sc.reporting(SMALL, ("faults", "coverage"))
    reports = [simulate(asked, seed) for seed in range(3)]
    assert [x.digest for x in reports] == [simulate(SMALL, seed).digest for seed in range(3)]
    shown = selected(reports, asked.report)
    assert json.loads(json.dumps(shown)) == shown
    for kind in ("loss", "duplicate", "delay"):
        struck = sum(row[kind] for row in shown["coverage"]["table"].values())
        assert struck >= 0.9 * sum(x.fault_kinds.get(kind, 0) for x in reports)
    assert "coverage" not in selected(reports, SMALL.report)


def test_the_command_line_takes_the_keys_of_the_report(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text(written(concrete(SMALL, 1)))
    out = io.StringIO()
    assert run(path, seeds=2, workers=1, out=out, keys=("coverage", "digest")) == 0
    lines = out.getvalue().splitlines()
    assert lines[0] == "coverage: operation x fault" and lines[-1].startswith("digest")
    with pytest.raises(UsageError, match="did you mean 'coverage'"):
        run(path, keys=("coverages",))


def test_the_steps_of_a_gang_are_struck_while_they_are_open() -> None:
    seen = watched()
    seen.committed(A, placed())
    claim = ms.GangClaim(subgroup=PART, epoch=1, db_uuid="b", wait_s=9.0)
    seen.handled(A, None, [fx.Send(B, claim)])
    seen.struck("cut", (A, B), None)
    assert seen.strikes["claim", "cut"] == 1
    asked = ms.GangYield(subgroup=PART, epoch=1)
    seen.handled(B, None, [fx.Send(A, asked)])
    seen.struck("loss", (), asked)
    seen.struck("stall", (A,), None)
    assert seen.strikes["yield", "loss"] == seen.strikes["yield", "stall"] == 1
    go = r.GangGo(group=GroupId("a-1"), parts=(r.ClaimedPart(subgroup=PART, epoch=1, db_uuid="b"),), environment=())
    seen.struck("crash before commit", (A,), [go])
    seen.committed(A, go)
    seen.struck("machine_crash", (B,), None)
    seen.struck("loss", (), ms.Commit(subgroup=PART, epoch=1, db_uuid="b", hosts=("b",), token="t"))
    assert [seen.strikes["go", name] for name in ("crash before commit", "machine_crash", "loss")] == [1, 1, 1]
    assert seen.strikes["claim", "machine_crash"] == seen.strikes["yield", "machine_crash"] == 0
    seen.committed(A, r.CommitAcked(subgroup=PART, epoch=1))
    seen.struck("cut", (A, B), None)
    assert seen.strikes["go", "cut"] == 0


def test_a_yield_that_comes_too_late_is_not_open_for_ever() -> None:
    asked, part = ms.GangYield(subgroup=PART, epoch=1), r.ClaimedPart(subgroup=PART, epoch=1, db_uuid="b")
    taken_back, dropped = (
        r.TakenBack(subgroup=PART, epoch=1, reason=""),
        r.CustodyDropped(subgroup=PART, epoch=1, at_s=0.0),
    )
    for ends in ([r.GangGo(group=GroupId("a-1"), parts=(part,), environment=())], [taken_back]):
        seen = watched()
        seen.committed(A, placed())
        for record in ends:
            seen.committed(A, record)
        seen.handled(B, None, [fx.Send(A, asked)])
        if taken_back in ends:
            seen.committed(B, dropped)
        seen.struck("stall", (A,), None)
        assert seen.strikes["yield", "stall"] == 0
