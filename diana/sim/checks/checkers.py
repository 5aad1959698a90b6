"""The invariants of PROMISES section 4, kept apart from the code they judge.

They watch the records that became durable (at their commit), the jobs that really ran (the LRM) and the answers to
users. The cost of a check grows with its event, never with the number of jobs; `recount` at crash, heal and end is the
exception. I6 (one leader per term) is judged in `sites/replicas.py`; I8 is judged by the runner at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from diana.engine.journal import records as r
from diana.engine.journal.events import Run
from diana.engine.journal.records import PartDisowned
from diana.engine.journal.state import SiteState
from diana.model.facts import Outcome
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, group_of
from diana.model.indexset import IndexSet
from diana.model.job.spec import Resources, decode_spec
from diana.sim.checks.aftermath import Aftermath
from diana.sim.checks.caps import Caps, MachineCap
from diana.sim.checks.findings import Findings
from diana.sim.checks.leases import placed_anew
from diana.sim.checks.order import OrderCheck
from diana.sim.checks.recounting import recount
from diana.sim.checks.standing import Standing
from diana.sim.checks.stories import UNSURE, GroupStory, Life, Transfer, TransferStory
from diana.sim.kernel.clock import Clock


class Checkers(Findings):
    """`feeds`: what each machine may hold; `user_max_running`: jobs of one user a site may run."""

    __slots__ = (
        "_by_type",
        "_caps",
        "_generation",
        "_given_up",
        "_groups",
        "_keys",
        "_lease_over",
        "_order",
        "_standing",
        "_transfers",
        "_void",
        "aftermath",
        "watch",
    )

    def __init__(
        self,
        clock: Clock,
        feeds: dict[tuple[SiteId, str], MachineCap],
        user_max_running: Mapping[SiteId, int] | None = None,
    ) -> None:
        super().__init__(clock)
        self._groups: dict[GroupId, GroupStory] = {}
        self._transfers: dict[Transfer, TransferStory] = {}
        self._void: set[Run] = set()
        self._given_up: set[Run] = set()
        """Runs of which nobody will know how they ended: their machine was removed by an operator, or lost power before
        they began."""
        self._lease_over: set[Run] = set()
        """Runs that ended, or were not started, because their lease was over: their site tries them again."""
        self._generation: dict[SiteId, int] = {}
        self._keys: dict[str, GroupId] = {}
        self._order = OrderCheck()
        self.aftermath = Aftermath()
        self._standing = Standing()
        self._caps = Caps(feeds, user_max_running or {})
        self.watch: Callable[[SiteId, r.Record], None] | None = None
        """Called with every record too, once it is checked."""
        self._by_type: dict[type, Callable[[SiteId, Any], None]] = {
            r.Opened: self._opened,
            r.GroupSubmitted: self._submitted,
            r.GroupPlaced: self._placed,
            r.MergeStarted: self._merge_started,
            r.TransferCommitted: self._transfer_committed,
            r.GangGo: self._gang_go,
            r.TakenBack: self._taken_back,
            r.PartUnreachable: self._part_unreachable,
            PartDisowned: self._part_disowned,
            r.ResultAccepted: self._result_accepted,
            r.ResultStale: self._result_stale,
            r.JobsFailed: self._jobs_cancelled,
            r.JobsCancelled: self._jobs_cancelled,
            r.JobsRetried: self._jobs_retried,
            r.GroupClosed: self._group_closed,
            r.GroupExpired: self._group_expired,
            r.CustodyTaken: self._custody_taken,
            r.CustodyRunnable: self._custody_runnable,
            r.CustodyDropped: self._custody_dropped,
            r.ControlTaken: self._control_taken,
            r.RunsStarted: self._runs_started,
            r.RunsVoided: self._runs_voided,
            r.RunsReturned: self._runs_voided,
            r.RunsRepeated: self._runs_repeated,
            r.RunsEnded: self._runs_ended,
            r.MachineGone: self._machine_gone,
            r.BatchAcked: self._batch_acked,
        }

    def committed(self, site: SiteId, record: r.Record) -> None:
        """`record` became durable at `site`."""
        wrong = self._order.look(record)
        if self.aftermath.excuses(record):
            wrongly = self.aftermath.look(record, self._groups, self._transfers)
            if wrongly is not None:
                self._fail("I2", site, *wrongly)
        else:
            check = self._by_type.get(type(record))
            if check is not None:
                check(site, record)
            if wrong:
                self._fail("J4", site, wrong[0], -1, wrong[1])
            self._told(site, self._standing.look(site, record))
            self._told(site, self._caps.look(site, record))
        if self.watch is not None:
            self.watch(site, record)

    def _group(self, site: SiteId, name: GroupId) -> GroupStory:
        group = self._groups.get(name)
        if group is None:
            self._fail("I3", site, name, -1, "work of a group that was never made durable")
            group = self._groups[name] = GroupStory(0)
        return group

    # --- what users are told ---------------------------------------------------------------------------

    def acknowledged(self, site: SiteId, key: str, group: GroupId) -> None:
        """I3: an id is given for what is durable, and one key has one group for ever."""
        known = self._groups.get(group)
        if known is None:
            self._fail("I3", site, group, -1, "acknowledged before it was durable")
            return
        known.acknowledged = True
        if self._keys.setdefault(key, group) != group:
            self._fail("I3", site, group, -1, f"key {key!r} was answered {self._keys[key]} before")

    # --- records of an origin --------------------------------------------------------------------------

    def _opened(self, site: SiteId, record: r.Opened) -> None:
        before = self._generation.get(site, 0)
        if record.generation <= before:
            self._fail("I5", site, GroupId("-"), -1, f"boot generation {record.generation} after {before}")
        self._generation[site] = record.generation

    def _submitted(self, site: SiteId, record: r.GroupSubmitted) -> None:
        if record.group in self._groups:
            self._fail("I3", site, record.group, -1, "submitted twice")
        spec = decode_spec(record.spec)
        self._groups[record.group] = GroupStory(
            record.jobs, spec.gang_size if spec.is_gang else 0, spec.flexible.processors if spec.flexible else 0
        )

    def _placed(self, site: SiteId, record: r.GroupPlaced) -> None:
        for part in record.parts:
            self._place(site, record.group, part)

    def _place(self, site: SiteId, name: GroupId, part: r.Part) -> None:
        group = self._group(site, name)
        if not part.indices.issubset(group.unplaced):
            twice = part.indices - group.unplaced
            self._fail("I4", site, name, twice.bounds[0], f"placed at {part.site} while {twice} has an owner")
        if part.epoch < group.epoch or (part.subgroup, part.epoch) in self._transfers:
            self._fail("I5", site, name, -1, f"{part.subgroup} placed with epoch {part.epoch} after {group.epoch}")
        group.epoch = max(group.epoch, part.epoch)
        group.unplaced = group.unplaced - part.indices
        self._transfers[(part.subgroup, part.epoch)] = TransferStory(part, part.site == site and not group.gang_size)

    def _merge_started(self, site: SiteId, record: r.MergeStarted) -> None:
        group = self._group(site, record.group)
        group.unplaced = group.unplaced | record.part.indices
        self._place(site, record.group, record.part)

    def _transfer(self, site: SiteId, record: Any) -> TransferStory | None:
        found = self._transfers.get((record.subgroup, record.epoch))
        if found is None:
            text = f"{type(record).__name__} of {record.subgroup} epoch {record.epoch}, which nobody placed"
            self._fail("I5", site, group_of(record.subgroup), -1, text)
        return found

    def _transfer_committed(self, site: SiteId, record: r.TransferCommitted) -> None:
        transfer = self._transfer(site, record)
        if transfer is None:
            return
        if transfer.taken_back or not transfer.taken:
            text = f"{record.subgroup} epoch {record.epoch} committed, but {transfer.site} has not taken it"
            self._fail("I4", site, group_of(record.subgroup), -1, text)
        transfer.committed = True

    def _gang_go(self, site: SiteId, record: r.GangGo) -> None:
        """K5: one record lets go of every component of a gang, each of which its site holds."""
        group, let_go, processors = self._group(site, record.group), [], 0
        number = len(group.go)
        for part in record.parts:
            transfer = self._transfer(site, part)
            if transfer is None:
                continue
            let_go.append(transfer.indices)
            processors += transfer.processors * len(transfer.indices)
            # A claim may have lapsed while the word that it stands was under way.
            if transfer.taken_back or not transfer.taken:
                text = f"{part.subgroup} epoch {part.epoch} let go, but {transfer.site} has not taken it"
                self._fail("I4", site, record.group, transfer.indices.bounds[0], text)
            elif unclaimed := [index for index in transfer.indices if index not in transfer.attempts]:
                text = f"let go, but {transfer.site} has never claimed processors for it"
                self._fail("I4", site, record.group, unclaimed[0], text)
            transfer.committed = True
            group.go[(part.subgroup, part.epoch)] = number
        if not record.unused.issubset(group.unplaced):
            self._fail(
                "I4", site, record.group, record.unused.bounds[0], f"{record.unused} counts as unused, and is not"
            )
        if processors != group.flexible:
            self._fail("I4", site, record.group, -1, f"let go with {processors} of {group.flexible} processors")
        group.unplaced, group.unused = group.unplaced - record.unused, group.unused | record.unused
        gang = IndexSet.union((*let_go, record.unused))
        if gang != IndexSet.of(group.members(gang.bounds[0])):
            self._fail("I4", site, record.group, gang.bounds[0], f"let go {gang}, which is no gang")

    def _taken_back(self, site: SiteId, record: r.TakenBack) -> None:
        transfer = self._transfer(site, record)
        if transfer is None:
            return
        group = self._group(site, group_of(record.subgroup))
        if transfer.runnable:
            text = f"{record.subgroup} epoch {record.epoch} taken back while runnable at {transfer.site}"
            self._fail("I4", site, group_of(record.subgroup), transfer.indices.bounds[0], text)
        if transfer.committed and not transfer.dropped:
            text = f"{record.subgroup} epoch {record.epoch} taken back after its commit point, no tombstone stands"
            self._fail("I4", site, group_of(record.subgroup), -1, text)
        transfer.taken_back = True
        group.unplaced = group.unplaced | transfer.indices
        group.divided_anew(transfer.indices)

    def _part_unreachable(self, site: SiteId, record: r.PartUnreachable) -> None:
        self._group(site, group_of(record.subgroup)).unreachable = True

    def _part_disowned(self, site: SiteId, record: PartDisowned) -> None:
        transfer, name = self._transfer(site, record), group_of(record.subgroup)
        if transfer is not None:
            for index, text in placed_anew(self._group(site, name), transfer, record):
                self._fail("I4", site, name, index, text)

    def _result_accepted(self, site: SiteId, record: r.ResultAccepted) -> None:
        transfer = self._transfer(site, record)
        name = group_of(record.subgroup)
        if transfer is None:
            return
        if record.batch in transfer.batches:
            self._fail("I2", site, name, -1, f"{record.subgroup} batch {record.batch} accepted twice")
        transfer.batches.add(record.batch)
        self._back(site, name, transfer, record.revoked)
        self._checkpointed(site, name, record)
        lives = self._group(site, name).lives
        for kind in (record.done, record.failed, record.cancelled, record.held):
            self._accept(site, name, kind)
        for index in record.done:
            life = lives.get(index)
            if life is None or life.outcome is not Outcome.DONE:
                self._fail(
                    "I2", site, name, index, f"accepted as done, but it ended {life.outcome if life else 'nowhere'}"
                )
        for index in record.failed | record.cancelled:
            life = lives.get(index)
            if life is not None and life.outcome in (None, Outcome.DONE):
                how = "it runs" if life.outcome is None else "it was done"
                self._fail("I2", site, name, index, f"accepted as failed or cancelled, but {how}")
        self._group(site, name).done += len(record.done)

    def _checkpointed(self, site: SiteId, name: GroupId, record: r.ResultAccepted) -> None:
        """The origin has jobs back that stopped at a checkpoint, each of which closed its attempt (I1)."""
        group = self._group(site, name)
        for job in record.saved:
            life = group.lives.pop(job.index, None)
            ended = job.index in record.made_way and life is not None and life.outcome is Outcome.CANCELLED
            if life is not None and life.outcome not in (Outcome.CHECKPOINTED, Outcome.UNRESTORED) and not ended:
                text = f"taken back from a checkpoint, but its attempt {life.run.attempt} has {life.outcome}"
                self._fail("I1", site, name, job.index, text)
            if job.index in group.accepted:
                self._fail("I2", site, name, job.index, "taken back from a checkpoint after its result")
        indices = IndexSet.of(job.index for job in record.saved)
        group.unplaced = group.unplaced | indices
        group.divided_anew(indices)

    def _back(self, site: SiteId, name: GroupId, transfer: TransferStory, indices: IndexSet) -> None:
        """The origin has recalled jobs again, which the executing site must never start from then on."""
        if not indices.issubset(transfer.revoked):
            early = indices - transfer.revoked
            self._fail("I4", site, name, early.bounds[0], f"taken back while {transfer.site} may start {early}")
        group = self._group(site, name)
        group.unplaced = group.unplaced | indices
        group.divided_anew(indices)

    def _accept(self, site: SiteId, name: GroupId, indices: IndexSet) -> None:
        accepted = self._group(site, name).accepted
        for index in indices:
            if not accepted.add(index):
                self._fail("I2", site, name, index, "a second result was accepted")

    def _result_stale(self, site: SiteId, record: r.ResultStale) -> None:
        transfer = self._transfer(site, record)
        if transfer is not None:
            transfer.batches.add(record.batch)

    def _jobs_cancelled(self, site: SiteId, record: r.JobsCancelled | r.JobsFailed) -> None:
        group = self._group(site, record.group)
        group.unplaced = group.unplaced - record.indices
        self._accept(site, record.group, record.indices)

    def _jobs_retried(self, site: SiteId, record: r.JobsRetried) -> None:
        """The user's own new attempt (promise 3): only of jobs that have a result, and never of one that is done."""
        group = self._group(site, record.group)
        for index in record.indices:
            life = group.lives.pop(index, None)
            if index not in group.accepted and index not in group.unused:
                self._fail("I4", site, record.group, index, "retried while its last attempt is open")
            if life is not None and life.outcome is Outcome.DONE:
                self._fail("I1", site, record.group, index, "retried, though it is done")
        group.accepted.discard_set(record.indices)
        group.unused = group.unused - record.indices
        group.unplaced = group.unplaced | (record.indices & IndexSet.span(0, group.jobs))

    def _group_closed(self, site: SiteId, record: r.GroupClosed) -> None:
        group = self._group(site, record.group)
        ended = len(group.accepted) - (group.jobs in group.accepted) + len(group.unused)
        if ended < group.jobs and not group.unreachable:
            self._fail("I9", site, record.group, -1, f"closed with {ended} of {group.jobs} jobs ended")
        if record.state == "done" and group.done + len(group.unused) < group.jobs:
            self._fail("I9", site, record.group, -1, f"closed as done with {group.done} of {group.jobs} jobs done")

    def _group_expired(self, site: SiteId, record: r.GroupExpired) -> None:
        self._groups.pop(record.group, None)
        self._keys = {k: g for k, g in self._keys.items() if g != record.group}

    # --- records of an executing site ------------------------------------------------------------------

    def _custody_taken(self, site: SiteId, record: r.CustodyTaken) -> None:
        transfer = self._transfer(site, record)
        if transfer is None:
            return
        if transfer.site != site or transfer.indices != record.indices:
            self._fail("I4", site, group_of(record.subgroup), -1, f"took {record.subgroup}, offered to {transfer.site}")
        if transfer.dropped:
            self._fail("I5", site, group_of(record.subgroup), -1, f"took {record.subgroup} again over its tombstone")
        transfer.taken = True

    def _custody_runnable(self, site: SiteId, record: r.CustodyRunnable) -> None:
        transfer = self._transfer(site, record)
        if transfer is None:
            return
        if not transfer.committed or transfer.taken_back or transfer.dropped:
            text = f"{record.subgroup} epoch {record.epoch} made runnable, but its origin has not committed it here"
            self._fail("I4", site, group_of(record.subgroup), transfer.indices.bounds[0], text)
        transfer.runnable = True

    def _custody_dropped(self, site: SiteId, record: r.CustodyDropped) -> None:
        transfer = self._transfer(site, record)
        if transfer is None:
            return
        if transfer.runnable and transfer.attempts:
            self._fail("I4", site, group_of(record.subgroup), -1, f"{record.subgroup} dropped after its jobs started")
        transfer.dropped = True
        transfer.runnable = False

    def _control_taken(self, site: SiteId, record: r.ControlTaken) -> None:
        transfer = self._transfer(site, record)
        if transfer is not None:
            transfer.held = record.hold

    def _runs_started(self, site: SiteId, record: r.RunsStarted) -> None:
        transfer = self._transfer(site, record)
        if transfer is None:
            return
        claims = self._group(site, group_of(record.subgroup)).gang_size and transfer.taken and not transfer.dropped
        if not (transfer.runnable or claims) or transfer.site != site:
            text = f"{record.subgroup} epoch {record.epoch} started, but it is not runnable here"
            self._fail("I4", site, group_of(record.subgroup), record.indices.bounds[0], text)
        if not transfer.revoked.isdisjoint(record.indices):
            started = transfer.revoked & record.indices
            self._fail("I4", site, group_of(record.subgroup), started.bounds[0], "started although it was given back")
        if started := transfer.held & record.indices:
            self._fail("I7", site, group_of(record.subgroup), started.bounds[0], "started although it is held")
        attempts = transfer.attempts
        for index in record.indices:
            attempts[index] = attempts.get(index, transfer.base) + 1
            if record.worker != MAIN_MACHINE:
                transfer.machines[index] = record.worker
            else:
                transfer.machines.pop(index, None)

    def _runs_ended(self, site: SiteId, record: r.RunsEnded) -> None:
        transfer = self._transfer(site, record)
        if transfer is None:
            return
        transfer.ended.update(record.ended)
        transfer.revoked = transfer.revoked | record.revoked
        for index in record.revoked:
            run = Run(record.subgroup, record.epoch, index, transfer.attempts.get(index, 0))
            # A component that ended with its lease begins anew with the others, and never at the site alone.
            over = run in self._lease_over and self._group(site, group_of(record.subgroup)).gang_size > 0
            if index in transfer.attempts and index not in transfer.unbegun and not over:
                self._fail("I4", site, group_of(record.subgroup), index, "given back after it was given to a machine")

    def _machine_gone(self, site: SiteId, record: r.MachineGone) -> None:
        """Count the machine's jobs as interrupted from here on, whatever really became of them."""
        for (subgroup, epoch), transfer in self._transfers.items():
            if transfer.site != site or group_of(subgroup) not in self._groups:
                continue
            lives = self._groups[group_of(subgroup)].lives
            for index, machine in transfer.machines.items():
                run = Run(subgroup, epoch, index, transfer.attempts[index])
                if machine != record.machine or index in transfer.ended or run in self._void:
                    continue
                self._given_up.add(run)
                life = lives.get(index)
                if life is not None and life.run == run:
                    life.outcome = Outcome.INTERRUPTED

    def _runs_voided(self, site: SiteId, record: r.RunsVoided | r.RunsReturned) -> None:
        transfer = self._transfer(site, record)
        if transfer is None:
            return
        lives = self._group(site, group_of(record.subgroup)).lives
        transfer.voided(record)
        for index in record.indices:
            run = Run(record.subgroup, record.epoch, index, transfer.attempts.get(index, 0))
            self._void.add(run)
            life = lives.get(index)
            if life is not None and life.run == run:
                self._fail("I1", site, group_of(record.subgroup), index, f"attempt {run.attempt} voided, but it ran")

    def _runs_repeated(self, site: SiteId, record: r.RunsRepeated) -> None:
        lives = self._group(site, group_of(record.subgroup)).lives
        for index in record.indices:
            life = lives.get(index)
            transfer = self._transfers.get((record.subgroup, record.epoch))
            attempt = transfer.attempts.get(index, 0) if transfer is not None else 0
            unsure = life is not None and life.outcome in UNSURE
            run = Run(record.subgroup, record.epoch, index, attempt)
            forgiven = run in self._given_up or run in self._lease_over
            if not unsure and not forgiven and (transfer is None or index not in transfer.disowned):
                self._fail("I1", site, group_of(record.subgroup), index, "repeated, though its outcome is known")

    def _batch_acked(self, site: SiteId, record: r.BatchAcked) -> None:
        """I3: what the origin acknowledged is durable there."""
        transfer = self._transfer(site, record)
        if transfer is not None and record.batch not in transfer.batches:
            text = f"{record.subgroup} batch {record.batch} acknowledged, but its origin does not have it"
            self._fail("I3", site, group_of(record.subgroup), -1, text)

    # --- databases that are put back ------------------------------------------------------------------

    def put_back(self, site: SiteId, state: SiteState) -> None:
        """Take this state as the site's from here on, whatever was durable there before."""
        self.aftermath.put_back(site, state, self._groups, self._transfers)
        self._generation[site] = state.generation
        self._keys = {key: group for key, group in self._keys.items() if group not in self.aftermath.gone}
        self._standing.forgot(site)
        for key, story in self._transfers.items():
            if group_of(key[0]) in self.aftermath.touched:
                self._caps.forgot(story.site, key)

    # --- what really runs ------------------------------------------------------------------------------

    def claimed(self, site: SiteId, worker: str, run: Run, need: Resources) -> None:
        transfer = self._transfers.get((run.subgroup, run.epoch))
        excused = group_of(run.subgroup) in self.aftermath.touched
        if not excused and (transfer is None or transfer.attempts.get(run.index, 0) != run.attempt):
            text = f"attempt {run.attempt} given to the LRM before it was durable as starting"
            self._fail("I1", site, group_of(run.subgroup), run.index, text)
        found = list(self._caps.claimed(site, worker, run, need))
        # Its spawner may have work that its database has forgotten.
        self._told(site, () if site in self.aftermath.sites else found)

    def void(self, site: SiteId, worker: str, run: Run, need: Resources) -> None:
        self._caps.freed(site, worker, run, need)

    def executed(self, site: SiteId, run: Run, on_crash: str) -> None:
        self._told(site, self._caps.began(site, run))
        name = group_of(run.subgroup)
        lives = self._group(site, name).lives
        before = lives.get(run.index)
        # An older copy counts attempts anew.
        excused = name in self.aftermath.touched
        if run in self._void and not excused:
            self._fail("I1", site, name, run.index, f"attempt {run.attempt} runs though it was voided")
        if not excused and run.attempt <= self._group(site, name).attempts.get(run.index, 0):
            self._fail("I5", site, name, run.index, f"attempt {run.attempt} runs, as one of that number or higher did")
        self._group(site, name).attempts[run.index] = run.attempt
        transfer = self._transfers.get((run.subgroup, run.epoch))
        if transfer is not None and self._group(site, name).gang_size and run.index in transfer.disowned:
            self._begins_late(site, name, run)
            return
        if transfer is not None and run.index in transfer.disowned and name not in self.aftermath.lifted:
            self._fail("I1", site, name, run.index, f"attempt {run.attempt} starts after it was placed anew elsewhere")
        if transfer is not None:
            self._begins_whole(site, name, run, transfer)
        again = before is not None and (before.again or before.run in self._lease_over)
        if before is not None and not again and not (before.outcome in UNSURE and on_crash == "rerun"):
            text = f"second start (attempt {run.attempt}); attempt {before.run.attempt} ran at {before.site}"
            self._fail("I1", site, name, run.index, text)
        lives[run.index] = Life(site, run)

    def _begins_whole(self, site: SiteId, name: GroupId, run: Run, transfer: TransferStory) -> None:
        """K5: a component begins after it was let go, and while nothing of an earlier attempt runs."""
        group = self._group(site, name)
        if not group.gang_size:
            return
        if not transfer.runnable and name not in self.aftermath.touched:
            self._fail("I4", site, name, run.index, "a component begins before it was let go")
        for member in group.members(run.index):
            old = group.closing.get(member)
            if old is not None and old.outcome is None:
                text = f"a component begins while {member} of an earlier attempt runs at {old.site}"
                self._fail("I4", site, name, run.index, text)

    def _begins_late(self, site: SiteId, name: GroupId, run: Run) -> None:
        """K5: a component of an attempt that broke may begin all the same, and only before the next attempt does."""
        group = self._group(site, name)
        for member in group.members(run.index):
            if member in group.lives:
                text = f"a component of an earlier attempt begins while {member} runs at {group.lives[member].site}"
                self._fail("I4", site, name, run.index, text)
        group.closing[run.index] = Life(site, run)

    def ended(self, site: SiteId, worker: str, run: Run, need: Resources, outcome: Outcome) -> None:
        self._caps.freed(site, worker, run, need)
        if outcome is Outcome.LEASE_OVER:
            self._lease_over.add(run)
        if run in self._given_up:
            return
        group = self._group(site, group_of(run.subgroup))
        life = group.lives.get(run.index)
        if outcome is Outcome.INTERRUPTED and (life is None or life.run != run):
            self._given_up.add(run)
        group.ended(run, outcome)

    # --- full recount ----------------------------------------------------------------------------------

    def recount(self, site: SiteId, state: SiteState) -> None:
        """Compare what the site remembers with what became durable; after a restart, at heal and at the end."""
        self._told(site, recount(site, state, self._groups, self.aftermath))
