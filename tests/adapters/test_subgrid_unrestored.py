"""A member machine to which a checkpoint's file cannot be brought: the jobs that go on from it do not begin, and say
so; the others of the same order do."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from diana.adapters.subgrid import protocol
from diana.adapters.subgrid.member import SubgridMember
from diana.engine.journal.effects import StageIn, Start
from diana.engine.journal.events import LrmReady, StageDone
from diana.model.data import DataFile
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.job.checkpoint import SavedFile, SavedJob
from diana.model.job.software import CHECKPOINT
from diana.model.job.spec import CheckpointSpec, GroupSpec, encode_spec

PART = SubgroupId("alpha-1/0")
GOOD, BAD = "1" * 64, "2" * 64


class Machine:
    def __init__(self) -> None:
        self.asked: list[StageIn] = []
        self.begun: list[Start] = []
        self.ended: dict[int, tuple[int, str]] = {}
        local: Any = Mock(devices=(), gives_back=True, offered=lambda: (CHECKPOINT,), start=self.begun.append)
        stager: Any = Mock(stage_in=self.asked.append)
        channel: Any = Mock(deliver=self._delivered)
        self.member = SubgridMember(
            SiteId("alpha"), "m1", 4, 1, lambda: 0.0, subgroups_here=list, dropped=Mock(), delete=Mock()
        )
        self.member.use(local, stager)
        self.member.attached(channel, 1)
        self.member.local_event(LrmReady(session=1, slots=4, known=()))
        saved = [SavedJob(at, 1, (SavedFile("state", 1, sha),)) for at, sha in enumerate((GOOD, BAD))]
        refs = [f"blob:{GOOD}", f"blob:{BAD}"]
        spec = GroupSpec(argv=("p",), checkpoint=CheckpointSpec(paths=("state",)))
        self.member.heard(protocol.Spec(PART, encode_spec(spec)))
        self.member.heard(protocol.Files(PART, [DataFile(ref, 1, ref[5:]) for ref in refs]))
        attempts = [(0, 2), (1, 2)]
        self.member.heard(protocol.Order(1, 1, PART, 1, "u@vo", (0, 2), attempts, refs, saved=saved))

    def _delivered(self, kept: Any) -> None:
        facts = kept.facts
        errors = {error.index: error.text for error in facts.errors}
        for index, outcome in zip(facts.indices, facts.outcomes, strict=True):
            self.ended[index] = outcome, errors.get(index, "")

    def staged(self, spoilt: str = "", error: str = "") -> None:
        order = self.asked.pop()
        self.member.local_event(StageDone(ticket=order.ticket, bytes_moved=1, error=error, spoilt=spoilt))


def test_a_spoilt_checkpoint_keeps_its_own_job_from_beginning_and_no_other() -> None:
    machine = Machine()
    machine.staged(f"blob:{BAD}", "checksum differs")
    assert machine.ended == {1: (Outcome.UNRESTORED, "alpha-1.1 at machine m1: checksum differs")}
    (again,) = machine.asked
    assert [fetch.file.ref for fetch in again.files] == [f"blob:{GOOD}"]
    machine.staged()
    (start,) = machine.begun
    assert list(start.indices) == [0]


def test_a_file_that_does_not_come_fails_all_as_before() -> None:
    machine = Machine()
    machine.staged(error="alpha: is away")
    assert {outcome for outcome, _ in machine.ended.values()} == {Outcome.STAGING_FAILED}
    assert set(machine.ended) == {0, 1} and not machine.begun
