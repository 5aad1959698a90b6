"""A member machine, whatever it is connected to: orders become staged inputs and starts, ends are kept and told until
they are forgotten.

A run is claimed once the spawner was given it. Runs ordered and not claimed when a stream or the spawner is lost are
dropped, and said not to be known: the site orders them anew (the rule of the session, `engine/journal/events.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from diana.adapters.lrm.software import Software
from diana.adapters.subgrid import protocol
from diana.adapters.subgrid.ends import EndBatch, EndBook
from diana.adapters.tasks import begin
from diana.engine.journal import columns
from diana.engine.journal.effects import Go, KillRuns, RecallRuns, RenewLease, SaveRuns, StageIn, Start, TellRoster
from diana.engine.journal.events import (
    AtBarrier,
    Event,
    JobsEnded,
    LrmLost,
    LrmReady,
    Run,
    ScratchSeen,
    StageDone,
    StepsReported,
)
from diana.model.data import DataFile, Fetch
from diana.model.facts import JobError, Outcome, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of, job_id
from diana.model.indexset import IndexSet
from diana.model.job.checkpoint import readers
from diana.model.job.resources import GPUS, Amounts, amount, others
from diana.model.job.spec import GroupSpec, decode_spec
from diana.model.kept_log import MOST_SHOWN_BYTES, LiveLog
from diana.model.run_columns import Runs
from diana.ports import LocalResourceManager

_log = logging.getLogger("diana.member")

Gone = list[tuple[SubgroupId, int, OutputFile]]


class OwnLrm(LocalResourceManager, Protocol):
    """The embedded LRM."""

    def set_slots(self, slots: int) -> None: ...

    def set_term(self, term: int) -> None: ...

    def offered(self) -> tuple[str, ...]: ...

    @property
    def devices(self) -> Amounts: ...

    @property
    def gives_back(self) -> bool: ...

    def use(self, software: Software) -> None: ...

    async def look_at_log(self, run: Run, start: int, most: int) -> LiveLog: ...


class OwnStager(Protocol):
    def stage_in(self, order: StageIn) -> None: ...

    def cancel(self, ticket: int) -> None: ...

    def drop_subgroup(self, subgroup: SubgroupId) -> None: ...


class Channel(Protocol):
    """A stream to the RootGrid, as far as this module sees it."""

    def send(self, message: protocol.FromMember) -> None: ...

    def deliver(self, kept: EndBatch) -> None: ...


class SubgridMember:
    """A member. Belongs to the loop. The machine's LRM and stager emit into `local_event`."""

    def __init__(
        self,
        site: SiteId,
        machine: str,
        slots: int,
        memory_bytes: int,
        clock: Callable[[], float],
        *,
        subgroups_here: Callable[[], list[str]],
        dropped: Callable[[SubgroupId, bool], None],
        delete: Callable[[Gone], None],
        expired: Callable[[GroupId], None] | None = None,
    ) -> None:
        """`dropped` is told of a subgroup nobody needs, and True if its group has none left here; `delete` of
        outputs that were delivered; `expired`, at a machine that may lead, of a group nobody knows any more."""
        self.site = site
        self.machine = machine
        self.slots = slots
        self.memory_bytes = memory_bytes
        self.term = 0
        self.ends = EndBook()
        self._clock = clock
        self._subgroups_here = subgroups_here
        self._dropped = dropped
        self._delete = delete
        self._expired = expired
        self._local: OwnLrm
        self._stager: OwnStager
        self._channel: Channel | None = None
        self._disk = (0, -1)
        """(Size, free bytes) of the disk where jobs have their scratch directories, as its LRM said last."""
        self._disk_news = -1
        self._claim_log = ""
        self._local_session = 0
        """Session of the embedded LRM; 0: the spawner is away."""
        self._looking: set[asyncio.Task[None]] = set()
        self._session = 0
        self._claimed: set[Run] = set()
        self._held: dict[Run, int] = {}
        """Runs that were told to wait at the barrier, each with the port that was free then."""
        self._specs: dict[SubgroupId, GroupSpec] = {}
        self._files: dict[SubgroupId, dict[str, DataFile]] = {}
        self._here: dict[SubgroupId, set[str]] = {}
        """Refs staged since the stream began."""
        self._staging: dict[int, tuple[Start, list[str]]] = {}
        self._tickets = 0

    def use(self, local: OwnLrm, stager: OwnStager) -> None:
        self._local, self._stager = local, stager

    # --- the stream --------------------------------------------------------------------------------------

    def attached(self, channel: Channel, term: int) -> None:
        """Take a stream on which a RootGrid of this term, durably noted, listens."""
        self._channel = channel
        if term != self.term:
            self.term = term
            self._local_session = 0
            self._local.set_term(term)
        self._inventory()

    def detached(self) -> None:
        """Note the end of the stream: jobs run on; runs that were not claimed are dropped."""
        self._channel = None
        self._drop_staging()
        self._specs.clear()
        self._files.clear()
        self._here.clear()

    def set_slots(self, slots: int) -> None:
        if slots != self.slots:
            self.slots = slots
            self._local.set_slots(slots)
            self._inventory()

    def _inventory(self) -> None:
        """Tell what is known here, under a new session, then every end that nobody has forgotten."""
        channel = self._channel
        if channel is None or not self._local_session:
            return
        self._drop_staging()
        self._session += 1
        devices = self._local.devices
        known = sorted(self._claimed | self.ends.runs(), key=lambda r: (r.subgroup, r.epoch, r.index, r.attempt))
        channel.send(
            protocol.Ready(
                self._session,
                self.slots,
                self.memory_bytes,
                self._subgroups_here(),
                list(self._local.offered()),
                amount(devices, GPUS),
                self._local.gives_back,
                *self._disk,
                self._claim_log,
                True,
                list(others(devices)),
            )
        )
        parts = protocol.in_parts(known)
        for at, part in enumerate(parts):
            channel.send(protocol.Known(self._session, protocol.columns(part), at == len(parts) - 1))
        for kept in self.ends.batches():
            channel.deliver(kept)
        for run, port in self._held.items():
            channel.send(protocol.HeldRuns(protocol.columns([run]), port))

    def offer(self, software: Software) -> None:
        """Use this software for jobs that are ordered from now on; the site's leader is told anew."""
        before = self._local.offered()
        self._local.use(software)
        if self._local.offered() != before:
            self._inventory()

    def heard(self, message: protocol.FromRoot) -> None:
        """Act on a message. ValueError for nonsense."""
        match message:
            case protocol.Spec(subgroup, spec):
                self._specs[SubgroupId(subgroup)] = decode_spec(spec)
            case protocol.Files(subgroup, files):
                self._files.setdefault(SubgroupId(subgroup), {}).update((file.ref, file) for file in files)
            case protocol.Order():
                self._on_order(message)
            case protocol.Kill():
                self._on_kill(message)
            case protocol.Recall():
                self._on_recall(message)
            case protocol.AskToSave():
                self._on_save(message)
            case protocol.RosterTold():
                self._on_roster(message)
            case protocol.LetGo():
                self._on_go(message)
            case protocol.Forget(runs):
                self._on_forget(protocol.runs_of(runs))
            case protocol.Drop(subgroups):
                for name in subgroups:
                    self._on_drop(SubgroupId(name))
            case protocol.Expired(groups):
                for name in groups:
                    self._on_expired(GroupId(name))
            case protocol.ShowLog():
                self._looking.add(task := begin(self._show_log(message), "a look at a log"))
                task.add_done_callback(self._looking.discard)
            case protocol.Beat(_, leases, load_sent_s):
                self._on_leases(leases, load_sent_s)
            case protocol.Welcome() | protocol.Refused():
                raise ValueError("a second greeting")

    async def _show_log(self, asked: protocol.ShowLog) -> None:
        run = Run(SubgroupId(asked.subgroup), asked.epoch, asked.index, asked.attempt)
        log = await self._local.look_at_log(run, asked.start, min(asked.most, MOST_SHOWN_BYTES))
        if self._channel is not None:
            self._channel.send(protocol.LogShown(asked.number, log))

    # --- orders ------------------------------------------------------------------------------------------

    def _on_order(self, order: protocol.Order) -> None:
        if order.session != self._session or order.term != self.term or not self._local_session:
            return
        subgroup = SubgroupId(order.subgroup)
        spec = self._specs.get(subgroup)
        if spec is None:
            raise ValueError(f"{subgroup}: an order without its spec")
        start = Start(
            worker=self.machine,
            session=self._local_session,
            term=order.term,
            subgroup=subgroup,
            epoch=order.epoch,
            owner=order.owner,
            spec=spec,
            indices=IndexSet.checked(order.bounds),
            attempts=tuple(order.attempts),
            lease=order.lease,
            barrier_s=self._clock() + order.hold_s if order.hold_s >= 0.0 else 0.0,
            saved=tuple(order.saved),
        )
        here = self._here.setdefault(subgroup, set())
        missing = [ref for ref in order.refs if ref not in here]
        if not missing:
            self._begin(start)
            return
        told = self._files.get(subgroup, {})
        if any(ref not in told for ref in missing):
            raise ValueError(f"{subgroup}: an order names a file nobody told of")
        self._stage(start, missing)

    def _stage(self, start: Start, refs: list[str]) -> None:
        self._tickets += 1
        self._staging[self._tickets] = (start, refs)
        told = self._files[start.subgroup]
        files = tuple(Fetch(told[ref], (self.site,)) for ref in refs)
        self._stager.stage_in(StageIn(ticket=self._tickets, subgroup=start.subgroup, files=files, owner=start.owner))

    def _on_leases(self, leases: list[tuple[str, float]], load_sent_s: float) -> None:
        for origin, left_s in leases if load_sent_s >= 0 else ():
            self._local.lease(RenewLease(origin=SiteId(origin), until_s=load_sent_s + left_s))

    def _begin(self, start: Start) -> None:
        self._claimed.update(_runs_of(start))
        self._local.start(start)

    def _on_staged(self, done: StageDone) -> None:
        start, refs = self._staging.pop(done.ticket, (None, []))
        if start is None:
            return
        why = f" at machine {self.machine}: {done.error}"
        if lost := start.indices & readers(start.saved, done.spoilt):
            self._never_ran(start, lost, Outcome.UNRESTORED, why)
            if rest := start.indices - lost:
                self._stage(msgspec.structs.replace(start, indices=rest), [ref for ref in refs if ref != done.spoilt])
        elif done.error:
            self._never_ran(start, start.indices, Outcome.STAGING_FAILED, why)
        else:
            self._here.setdefault(start.subgroup, set()).update(refs)
            self._begin(start)

    def _on_kill(self, order: protocol.Kill) -> None:
        if order.term != self.term:
            return
        indices = IndexSet.checked(order.bounds)
        self._end_staging(order, indices, Outcome.CANCELLED)
        self._local.kill(
            KillRuns(worker=self.machine, subgroup=SubgroupId(order.subgroup), epoch=order.epoch, indices=indices)
        )

    def _on_recall(self, order: protocol.Recall) -> None:
        if order.term != self.term:
            return
        indices = IndexSet.checked(order.bounds)
        self._end_staging(order, indices, Outcome.UNBEGUN)
        self._local.recall(
            RecallRuns(worker=self.machine, subgroup=SubgroupId(order.subgroup), epoch=order.epoch, indices=indices)
        )

    def _on_save(self, order: protocol.AskToSave) -> None:
        if order.term != self.term:
            return
        self._local.save(
            SaveRuns(
                worker=self.machine,
                subgroup=SubgroupId(order.subgroup),
                epoch=order.epoch,
                indices=IndexSet.checked(order.bounds),
                signal=order.signal,
                wait_s=order.wait_s,
            )
        )

    def _on_go(self, order: protocol.LetGo) -> None:
        if order.term != self.term:
            return
        self._local.go(
            Go(
                worker=self.machine,
                subgroup=SubgroupId(order.subgroup),
                epoch=order.epoch,
                indices=IndexSet.checked(order.bounds),
                environment=tuple(order.environment),
                size=max(1, order.size),
                spares=max(0, order.spares),
            )
        )

    def _on_roster(self, order: protocol.RosterTold) -> None:
        if order.term != self.term:
            return
        self._local.tell_roster(
            TellRoster(
                worker=self.machine,
                subgroup=SubgroupId(order.subgroup),
                epoch=order.epoch,
                indices=IndexSet.checked(order.bounds),
                number=order.number,
                active=order.active,
            )
        )

    def _end_staging(self, order: protocol.Kill | protocol.Recall, indices: IndexSet, outcome: Outcome) -> None:
        """End jobs whose inputs are on their way."""
        for ticket, (start, refs) in list(self._staging.items()):
            if (start.subgroup, start.epoch) != (order.subgroup, order.epoch) or not start.indices & indices:
                continue
            left = start.indices - indices
            if left:
                self._staging[ticket] = (msgspec.structs.replace(start, indices=left), refs)
            else:
                del self._staging[ticket]
                self._stager.cancel(ticket)
            self._never_ran(start, start.indices & indices, outcome, "")

    def _never_ran(self, start: Start, indices: IndexSet, outcome: Outcome, why: str) -> None:
        some, attempts = list(indices), dict(start.attempts)
        group = group_of(start.subgroup)
        facts = columns.never_ran(
            self.site,
            some,
            [attempts.get(index, 1) for index in some],
            [int(outcome)] * len(some),
            0,
            [JobError(index, job_id(group, index) + why) for index in some] if why else [],
            self._clock(),
        )
        self._on_ended(JobsEnded(subgroup=start.subgroup, epoch=start.epoch, facts=facts))

    def _drop_staging(self) -> None:
        for ticket in self._staging:
            self._stager.cancel(ticket)
        self._staging.clear()

    def _on_forget(self, runs: list[Run]) -> None:
        # A run that is still running is forgotten once its end was told.
        self._claimed.difference_update([run for run in runs if run in self.ends])
        if gone := self.ends.forget(runs, delivered=self.may_lead):
            self._delete(gone)
        self._local.forget(tuple(runs))

    def _on_drop(self, subgroup: SubgroupId) -> None:
        # Its runs of the subgroup that still run are ended by orders of their own.
        left = {run.subgroup for run in self._claimed | self.ends.runs()}
        if subgroup in left:
            return
        self._specs.pop(subgroup, None)
        self._files.pop(subgroup, None)
        self._here.pop(subgroup, None)
        group = group_of(subgroup)
        others = {*left, *self._specs, *(start.subgroup for start, _ in self._staging.values())}
        self._stager.drop_subgroup(subgroup)
        self._dropped(subgroup, all(group_of(other) != group for other in others))

    def _on_expired(self, group: GroupId) -> None:
        held = {group_of(run.subgroup) for run in self._claimed | self.ends.runs()}
        if self._expired is not None and group not in held:
            self._expired(group)

    # --- how it is ---------------------------------------------------------------------------------------

    def given(self) -> int:
        """Return the number of jobs claimed here that have not ended."""
        return sum(run not in self.ends for run in self._claimed)

    def staging(self) -> int:
        """Return the number of jobs ordered whose inputs are on their way."""
        return sum(len(start.indices) for start, _ in self._staging.values())

    def disk_news(self) -> int:
        """Return how many bytes are free of the disk of scratch directories, once after each change worth a word; -1:
        nothing changed."""
        news, self._disk_news = self._disk_news, -1
        return news

    @property
    def may_lead(self) -> bool:
        return self._expired is not None

    # --- this machine --------------------------------------------------------------------------------------

    def local_event(self, event: Event) -> None:
        match event:
            case LrmReady():
                self._claimed = set(event.known)
                # It tells anew which wait.
                self._held.clear()
                self._local_session = event.session
                self._claim_log = event.claim_log
                self._disk, self._disk_news = (event.scratch_bytes, event.scratch_free_bytes), -1
                self._inventory()
            case ScratchSeen(free_bytes=free_bytes):
                self._disk = (self._disk[0], free_bytes)
                self._disk_news = free_bytes
            case LrmLost():
                self._local_session = 0
                self._drop_staging()
                if self._channel is not None:
                    self._channel.send(protocol.SpawnerLost())
            case AtBarrier(runs=runs, port=port):
                self._held.update(dict.fromkeys(runs, port))
                if self._channel is not None and self._local_session:
                    self._channel.send(protocol.HeldRuns(protocol.columns(runs), port))
            case StepsReported():
                self._on_steps(event)
            case JobsEnded():
                self._on_ended(event)
            case StageDone():
                self._on_staged(event)
            case _:
                _log.warning("%.100r: nothing a member machine knows", event)

    def _on_steps(self, told: StepsReported) -> None:
        """Tell progress to who leads; while nobody does it is lost, and the jobs report again."""
        if self._channel is None or not self._local_session:
            return
        now_s = self._clock()
        runs = Runs(told.subgroup, told.epoch, [step[0] for step in told.steps], [step[1] for step in told.steps])
        steps = [(now_s - at_s, done, total) for _, _, at_s, done, total in told.steps]
        self._channel.send(protocol.StepsTold([runs], [steps], [list(told.own)]))

    def _on_ended(self, ended: JobsEnded) -> None:
        if self._held:
            for index, attempt in zip(ended.facts.indices, ended.facts.attempts, strict=True):
                self._held.pop(Run(ended.subgroup, ended.epoch, index, attempt), None)
        for kept in self.ends.add(ended):
            if self._channel is not None:
                self._channel.deliver(kept)


def _runs_of(start: Start) -> list[Run]:
    attempts = dict(start.attempts)
    return [Run(start.subgroup, start.epoch, index, attempts.get(index, 1)) for index in start.indices]
