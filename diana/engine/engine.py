"""The engine: one door in, ordered effects out (see `journal/events.py`, `journal/effects.py`). Both drivers drive this
object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, assert_never

from diana.engine.data import datasets, outputs
from diana.engine.data.output_datasets import Registrations
from diana.engine.data.outputs import Gathers
from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch import claim_book, claimed_ahead, dispatch, maintenance, promised_capacity, renewals, turns
from diana.engine.dispatch.capacity import Capacity, PromisedCapacity
from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.dispatch.lease_book import LeaseBook
from diana.engine.dispatch.predictions import Predictions
from diana.engine.dispatch.turns import Turns
from diana.engine.dispatch.use import Uses
from diana.engine.dispatch.way_book import WayBook
from diana.engine.dispatch.wide_places import WidePlaces
from diana.engine.groups import chains, completion, dropping, gang_closing, retry, submit
from diana.engine.guard import guard
from diana.engine.guard.guard import Guard
from diana.engine.guard.machine_guard import MachineGuard
from diana.engine.handover import (
    availability,
    destination,
    drain,
    execution,
    inputs,
    leases,
    machine_events,
    own_runs,
    rosters,
    saving,
    steps,
)
from diana.engine.handover import origin as handover_origin
from diana.engine.handover.availability import Attendance
from diana.engine.handover.gangs import attempts, claims, making_way
from diana.engine.handover.gangs.attempt_book import GangAttempts
from diana.engine.handover.own_runs import UnknownRuns
from diana.engine.journal import codec, fold, records
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.state import Custody, SiteState, Step, decode_state, encode_state
from diana.engine.membership import contacts, gossip, merge, spreading, trust_ledger, witness
from diana.engine.membership.table import MembershipTable
from diana.engine.membership.trust_ledger import TrustBook
from diana.engine.messages import binding as bm
from diana.engine.messages import exchange as xm
from diana.engine.messages import leases as lm
from diana.engine.messages import messages as ms
from diana.engine.messages import migration as mm
from diana.engine.messages import recovery as rm
from diana.engine.messages.messages import Summary
from diana.engine.migration import inviting, metascheduling, moves, rescheduling, swaps
from diana.engine.migration import origin as migration_origin
from diana.engine.migration.stranded import Stranded
from diana.engine.migration.table import MigrationBook
from diana.engine.migration.unmet import Unmet
from diana.engine.placement import control, late, pull_back, quote_round, recall, reservations
from diana.engine.placement.draft import Drafts
from diana.engine.placement.gangs import queues as gang_queues
from diana.engine.placement.gangs.queues import GangQueues
from diana.engine.placement.pull_back import PullBack
from diana.engine.placement.reservations import Reservations
from diana.engine.queue.queues import Queues
from diana.engine.recovery import stocktaking
from diana.engine.recovery.stocktaking import Stocktaking
from diana.engine.site import dependencies, journal_doubt, links
from diana.engine.site.context import Context
from diana.engine.site.dependencies import Dependencies
from diana.engine.site.harm import HarmBook
from diana.engine.site.journal_doubt import JournalDoubt
from diana.engine.site.timers import (
    BatchTimer,
    CustodyTimer,
    GangTimer,
    GroupTimer,
    MachineTimer,
    PartTimer,
    PeerTimer,
    RequestTimer,
    SiteTimer,
    TimerKey,
)
from diana.engine.site.view import PeerView
from diana.engine.views import answers, queries
from diana.engine.views.queries import OpenQueries
from diana.model.data import RegisteredDataset
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, SubgroupId, group_of
from diana.model.job.urls import DEFAULT_ALLOWED
from diana.model.views.views import Invitations
from diana.policy.gang.policies import POLICIES, GangPolicy

if TYPE_CHECKING:
    from diana.engine.site.surroundings import Journal, Keyring
    from diana.model.settings import Settings
    from diana.policy.allocation.ahead import Lookout, Outlook

HOUSEKEEPING_S = 600.0


class Engine:
    """One site. Synchronous, deterministic, without clock, chance or IO.

    `restore` folds a journal; `start` opens a new boot generation and says what is in flight again; then `handle`
    per event. `now` is site time in seconds, never running backwards; an earlier `now` counts as the latest seen.
    """

    def __init__(self, site: SiteId, state: SiteState, keyring: Keyring, now: float) -> None:
        self.core = Context(site, state, keyring, now)
        self.core.keep(
            Attendance(),
            Capacity(),
            ClaimBook(),
            WayBook(),
            WidePlaces(),
            Dependencies(),
            Drafts(),
            GangAttempts(),
            UnknownRuns(),
            GangQueues(),
            Gathers(),
            Guard(),
            JournalDoubt(),
            MachineGuard(),
            LeaseBook(state.settings.lease_s if state.generation else 0.0),
            MembershipTable(site),
            MigrationBook(state.settings, now),
            OpenQueries(),
            Predictions(),
            PromisedCapacity(),
            Uses(),
            PullBack(),
            Reservations(),
            Registrations(),
            StageBook(),
            steps.StepBook(),
            rosters.RosterBook(),
            swaps.SwapBook(),
            rescheduling.ContractBook(),
            metascheduling.MetaBook(),
            HarmBook(),
            Stocktaking(),
            Stranded(),
            Unmet(),
            TrustBook(state.settings),
            Turns(),
        )
        self.boot_seq = state.seq
        """Records in the journal before this boot."""

    @classmethod
    def restore(cls, journal: Journal, *, site: SiteId, keyring: Keyring, now: float) -> Engine:
        """Make the engine from a store's content, new or old. StoreNewer: a later release wrote it."""
        by = journal.release
        state = decode_state(journal.snapshot, by) if journal.snapshot is not None else SiteState()
        for stored in journal.records:
            fold.apply(state, codec.decode(stored, by), site)
        engine = cls(site, state, keyring, max(now, journal.at_s))
        engine.core.last_written_s = journal.at_s
        return engine

    def look_ahead_by(self, look: Callable[[Lookout], Outlook] | None) -> None:
        """Let `look`, a function of what it is given, roll placements of new groups forward; None: none are."""
        self.core.look_ahead = look

    def start(
        self,
        settings: Settings,
        *,
        boot_nonce: str,
        db_uuid: str,
        restored: bool = False,
        newest: bool = True,
        urls: tuple[str, ...] = DEFAULT_ALLOWED,
        software: tuple[str, ...] = (),
        machine: str = MAIN_MACHINE,
        term: int = 0,
        address: str = "",
        seal_key: bytes = b"",
        process: str = "",
        gang_policies: Mapping[str, GangPolicy] = POLICIES,
    ) -> list[fx.Effect]:
        """Open the next boot generation. `restored`: the store is a backup put back (PROMISES section 4, restore).
        `newest`: the store surely lacks nothing that it once held; else jobs wait until their origins spoke.
        `urls`: beginnings of the URLs jobs may read here; `software`: what they may ask for. `machine`: the one this
        node runs on, whose slots the settings tell. `term`: of the site's leadership, 0 without a standby. `address`:
        where peers reach it; empty: it can only dial out. `seal_key`: a secret for the site's seals, taken where the
        journal has none yet; empty: none are made. `process`: identity of the node's process, which one that begins
        anew keeps. `gang_policies`: placements of gangs by name."""
        core = self.core
        core.term = term
        doubt = core.book(JournalDoubt)
        doubt.newest = newest and not restored
        doubt.unproven = doubt.doubted = not newest and not restored
        doubt.unsure = doubt.unproven and bool(core.state.peers)
        doubt.seq = self.boot_seq
        if core.state.seal_key:
            doubt.showing = frozenset(site for site, known in core.state.peers.items() if known.sealing)
        core.allowed_urls = urls
        core.gang_policies = gang_policies
        core.workers.site_offers(software)
        core.persist(
            records.Opened(
                generation=core.state.generation + 1,
                boot_nonce=boot_nonce,
                db_uuid=db_uuid,
                restored=restored,
                first_group=journal_doubt.first_group(core, db_uuid) if restored else 0,
                seal_key=b"" if core.state.seal_key else seal_key,
            )
        )
        self._settings(settings)
        trust_ledger.apply(core)
        machine_events.begin(core, machine)
        availability.begin(core, process)
        maintenance.look(core)
        journal_doubt.begin(core)
        gossip.begin(core, address)
        core.book(ClaimBook).host = address.rpartition(":")[0].strip("[]")
        core.after(SiteTimer("housekeeping"), HOUSEKEEPING_S)
        for key in sorted(core.state.custodies):
            held = core.state.custodies[key]
            if claim_book.stands(held):
                core.book(ClaimBook).older.add(key)
            if held.runnable or held.spec.is_gang:
                inputs.begin(core, held)
        leases.begin(core)
        renewals.begin(core)
        attempts.begin(core)
        saving.begin(core)
        handover_origin.resend_all(core)
        destination.say_again(core)
        outputs.resume_all(core)
        dependencies.rebuild(core)
        core.to_check.update(core.state.groups)
        core.to_place.update(core.state.groups)
        return self._done()

    @property
    def boot_seal(self) -> bytes:
        """Seal of the word that the journal had `boot_seq` records before this boot."""
        return self.core.seal_at(self.boot_seq)

    @property
    def generation(self) -> int:
        return self.core.state.generation

    # --- what drivers read ---------------------------------------------------------------------------

    @property
    def state(self) -> SiteState:
        """The state after everything handled so far: to be read at once, never written."""
        return self.core.state

    def is_binding(self) -> bool:
        """True while jobs wait here for their turn or a plan, and after `BindAll` while any are offered to a site and
        not committed there."""
        core = self.core
        book = core.book(Reservations)
        if book.groups or core.book(Drafts).groups:
            return True
        open_ = (group for group in core.state.groups.values() if not group.state)
        return book.closed and any(part.step is Step.OFFERED for group in open_ for part in group.subgroups.values())

    @property
    def queues(self) -> Queues:
        """The queues of the site: to be read at once, never written."""
        return self.core.queues

    @property
    def peers(self) -> Mapping[SiteId, PeerView]:
        """The other sites as this one sees them just now."""
        return self.core.view.peers

    def holds_runs_of(self, worker: str) -> bool:
        """True if the worker has jobs whose ends are not told."""
        return bool(self.core.totals.runs.held_by(worker))

    def runs_elsewhere(self, machine: str, subgroup: SubgroupId, epoch: int, indices: Iterable[int]) -> bool:
        """True if any of these jobs runs on another machine of the site than the one named."""
        custody = self.core.state.custodies.get((subgroup, epoch))
        return custody is not None and bool(execution.elsewhere(custody, machine, indices))

    def run_of(self, subgroup: SubgroupId, epoch: int, index: int) -> tuple[str, int] | None:
        """Return the worker that the job was given to, and the attempt; None: it is with none."""
        custody = self.core.state.custodies.get((subgroup, epoch))
        attempt = custody.running.get(index) if custody is not None else None
        if custody is None or attempt is None:
            return None
        return execution.worker_of(custody, index), attempt

    def gave_up(self, machine: str) -> bool:
        """True if an operator removed that machine of the site."""
        return outputs.machine_gone(self.core, machine)

    def missed_datasets(self, registered: Iterable[RegisteredDataset]) -> list[ev.AddDataset | ev.RemoveDataset]:
        """Return the events by which the state takes in datasets that the catalogue has and it lacks, and the other way
        round."""
        return datasets.missed(self.core, registered)

    def length_heard(self, site: SiteId) -> int:
        """Return the records that the peer's journal had at least, under its present name."""
        return journal_doubt.length_heard(self.core, site)

    def lease_lapsed(self, custody: Custody) -> bool:
        """True if nothing of the custody starts now, since its origin's lease is over."""
        return renewals.lapsed(self.core, custody)

    def summary(self) -> Summary:
        """Return this site's next word about itself."""
        return gossip.summary(self.core)

    # --- what drivers tell beside events -------------------------------------------------------------

    def term_rose(self, term: int) -> None:
        """Carry another term of the site's leadership in all orders from now on."""
        self.core.term = term

    def begin_turns_in(self, seconds: float) -> None:
        """Have the next turn of gossip begin so late, so that sites that start together do not speak together."""
        self.core.after(SiteTimer("summary"), seconds)

    def introduce(self, summaries: Iterable[Summary], now: float) -> None:
        """Take in sites as known, as if they had been heard of long ago: nobody is told of them."""
        for told in summaries:
            if told.site != self.core.site and told.site not in self.core.view.peers:
                merge.learn(self.core, told, now)
        table = self.core.book(MembershipTable)
        table.news.clear()
        table.fresh.clear()
        self.core.effects.clear()

    @property
    def counters(self) -> dict[str, int]:
        return self.core.counters

    def deadline(self) -> float | None:
        """Return the site time by which the next `Tick` is needed; None: none is."""
        return self.core.timers.earliest()

    def snapshot(self) -> bytes:
        """Return the whole state after everything handled so far."""
        return encode_state(self.core.state)

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        """Handle one event: the only mutator. The effects' order is binding (`journal/effects.py`)."""
        core = self.core
        core.now = max(core.now, now)
        core.order = None
        match event:
            case ev.Tick():
                for key in core.timers.pop_due(core.now):
                    self._due(key)
            case ev.JobsEnded():
                execution.on_jobs_ended(core, event)
                own_runs.on_ended(core, event)
            case ev.Received():
                core.speaker = event.sender
                if event.sender == core.site:
                    core.warn("a peer speaks by this site's name")
                else:
                    core.view.heard(event.sender, core.now)
                    self._received(event.sender, event.message)
            case ev.StageDone():
                self._stage_done(event)
            case ev.OutputsInCatalogue():
                completion.on_registered(core, event)
            case ev.LookedUp():
                self._looked_up(event)
            case ev.SubmitGroup():
                submit.submit(core, event)
            case ev.SubmitChain():
                chains.submit(core, event)
            case ev.CancelJobs():
                control.cancel(core, event)
            case ev.HoldJobs():
                control.hold(core, event)
            case ev.MoveJobs():
                recall.move(self.core, event)
            case ev.ReleaseJobs():
                control.release(core, event)
            case ev.RetryJobs():
                retry.retry(core, event)
            case ev.DropGroups():
                dropping.drop(core, event)
            case ev.AddDataset():
                datasets.add(core, event)
            case ev.RemoveDataset():
                datasets.remove(core, event)
            case ev.Ask():
                answers.ask(core, event)
            case ev.BindAll():
                reservations.bind_all(core)
            case ev.Leaving():
                gossip.leave(core)
            case ev.PeerUp():
                gossip.on_peer_up(core, event.hello)
            case ev.PeerDown():
                journal_doubt.parted(core, event.site)
                gossip.on_peer_down(core, event.site)
                queries.on_peer_down(core, event.site)
                reservations.parted(core, event.site)
                turns.parted(core, event.site)
            case ev.SayStatement():
                trust_ledger.say(core, event)
            case ev.NameSite():
                trust_ledger.name_site(core, event)
            case ev.NoteInvitation():
                core.persist(records.InvitationNoted(invitation=event.invitation))
                core.reply(fx.Reply(event.request, Invitations(core.state.invitations)))
            case ev.DrainSite():
                drain.drain(core, event)
            case ev.GiveUpSite():
                retry.give_up(core, event)
            case ev.GoOn():
                stocktaking.go_on(core, event)
            case ev.RegisterAsked():
                witness.asked(core, event)
            case ev.LinkMeasured():
                links.on_measured(core, event)
            case ev.LrmSized():
                machine_events.on_sized(core, event)
            case ev.ScratchSeen():
                machine_events.on_scratch(core, event)
            case ev.LrmReady():
                machine_events.on_ready(core, event)
            case ev.AtBarrier():
                claims.on_barrier(core, event)
            case ev.HostsMet():
                claims.on_reached(core, event)
            case ev.RunsSeen():
                guard.seen(core, event)
            case ev.StepsReported():
                steps.on_steps(core, event)
            case ev.LrmLost():
                machine_events.on_lost(core, event)
            case ev.PairStands():
                availability.pair_stands(core, event)
            case ev.LeadLeft():
                availability.lead_left(core, event)
            case ev.HandOverFailed():
                availability.hand_over_failed(core, event)
            case ev.MachineRemoved():
                machine_events.remove(core, event)
            case ev.SettingsLoaded():
                core.allowed_urls = event.urls
                core.workers.site_offers(event.software)
                self._settings(event.settings)
            case ev.CalendarTold():
                maintenance.told(core, event)
            case ev.RoomChecked():
                core.low_room = event.low
            case _:
                assert_never(event)
        return self._done()

    def look(self, event: ev.Ask, now: float) -> list[fx.Effect]:
        """Answer a read and do nothing else: for a driver that wants to know, not to drive."""
        core = self.core
        core.now = max(core.now, now)
        answers.ask(core, event)
        out, core.effects = core.effects, []
        return out

    def _done(self) -> list[fx.Effect]:
        """End an event: price groups, close those that are complete, fill free room; return the effects."""
        core = self.core
        if core.book(TrustBook).policy_changed:
            self._settings(core.book(TrustBook).own_settings)
        self._settle()
        while own := turns.look(core):
            for call in own:
                late.on_call(core, core.site, call)
            self._settle()
        core.speaker = SiteId("")
        out, core.effects = core.effects, []
        return out

    def _settle(self) -> None:
        """Settle groups and give machines their work, until this site has no more to say to itself."""
        core = self.core
        while True:
            while core.own_words:
                words, core.own_words = core.own_words, []
                for message in words:
                    self._received(core.site, message)
            self._settle_groups()
            claims.look_again(core)
            dispatch.dispatch(core)
            making_way.look(core)
            if not core.own_words:
                return

    def _settle_groups(self) -> None:
        """Price groups, close those that are complete, and tell the sites where others wait how much is left."""
        core = self.core
        while core.to_pull or core.to_place or core.to_check or core.touched or core.book(GangAttempts).broken:
            gang_closing.settle(core)
            pull_back.settle(core)
            for name in sorted(core.to_place):
                core.to_place.discard(name)
                group = core.state.groups.get(name)
                if group is not None and not metascheduling.stays_back(core, group):
                    quote_round.replace(core, group)
            for name in sorted(core.to_check):
                core.to_check.discard(name)
                if name in core.state.groups:
                    completion.check_complete(core, core.state.groups[name])
            for name in sorted(core.touched):
                core.touched.discard(name)
                if name in core.state.groups:
                    reservations.touched(core, core.state.groups[name])

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        core = self.core
        match message:
            case ms.Summary():
                gossip.on_summary(core, sender, message)
            case ms.Gossip():
                merge.on_gossip(core, sender, message)
            case ms.LedgerNews():
                trust_ledger.on_news(core, sender, message)
            case ms.QuoteRequest():
                quote_round.answer_quote(core, sender, message)
            case ms.Quote():
                quote_round.on_quote(core, sender, message)
            case ms.QueueRequest():
                queries.answer(core, sender, message)
            case ms.QueueReport():
                queries.on_report(core, sender, message)
            case lm.Renew():
                leases.on_renew(core, sender, message)
            case lm.Renewed():
                renewals.granted(core, sender, message)
            case mm.Surplus():
                migration_origin.on_surplus(core, sender, message)
            case mm.WorkInvited():
                inviting.on_invited(core, sender, message)
            case mm.RoomRequest():
                promised_capacity.on_request(core, sender, message)
            case mm.RoomGrant():
                moves.on_grant(core, sender, message)
            case bm.Reserve():
                turns.on_reserve(core, sender, message)
            case bm.TurnCall():
                late.on_call(core, sender, message)
            case rm.Met():
                stocktaking.on_met(core, sender, message)
            case rm.Holdings():
                stocktaking.on_holdings(core, sender, message)
            case ms.Prepare() | ms.GangClaim() | ms.Commit() | ms.Abort() | ms.Control() | ms.ResultAck():
                destination.on_order(core, sender, message)
            case (
                ms.Prepared()
                | ms.GangClaimed()
                | ms.GangYield()
                | ms.Refused()
                | ms.Committed()
                | ms.Aborted()
                | ms.Lost()
                | ms.Progress()
                | ms.Result()
                | ms.ControlAck()
            ):
                handover_origin.on_report(core, sender, message)
            case xm.GangRoster():
                rosters.on_roster(core, sender, message)
            case _:
                assert_never(message)

    def _stage_done(self, event: ev.StageDone) -> None:
        if event.ticket in self.core.book(Gathers).moving:
            outputs.on_gathered(self.core, event)
        elif event.ticket in self.core.book(StageBook).tickets:
            key, _ = self.core.book(StageBook).tickets[event.ticket]
            inputs.on_staged(self.core, event)
            custody = self.core.state.custodies.get(key)
            if custody is not None:
                destination.staged(self.core, custody)

    def _looked_up(self, event: ev.LookedUp) -> None:
        then = self.core.lookups.pop(event.ticket, None)
        if then is not None:
            then(event)

    def _due(self, key: TimerKey) -> None:
        core = self.core
        match key:
            case SiteTimer("summary"):
                gossip.tell_all(core)
            case SiteTimer("news"):
                spreading.hurry(core)
            case SiteTimer("contacts"):
                contacts.save(core)
            case SiteTimer("links"):
                links.record(core)
            case SiteTimer("unheard"):
                journal_doubt.begin_if_heard_out(core, patient=False)
            case PeerTimer("met", site):
                journal_doubt.again(core, site)
            case SiteTimer("housekeeping"):
                self._housekeeping()
            case RequestTimer("quotes", number):
                quote_round.quotes_due(core, number)
            case RequestTimer("query", number):
                queries.due(core, number)
            case GroupTimer("place", group):
                core.to_place.add(group)
            case PartTimer("offer" | "commit" | "control", part):
                handover_origin.resend(core, part)
            case RequestTimer("room", room):
                moves.drop_unanswered(core, room)
            case PeerTimer("lease", site):
                leases.over(core, site)
            case PeerTimer("disown", site):
                leases.disown(core, site)
            case PeerTimer("renew", origin):
                renewals.ask(core, origin)
            case PeerTimer("lease-over", origin):
                renewals.over(core, origin)
            case GroupTimer("guard", _):
                # A site on probation may try one more: the look at what to start, which ends each event, does that.
                core.workers.look_again()
            case PartTimer("claim", part):
                attempts.claim_again(core, part)
            case GangTimer("claims-over", group, gang):
                attempts.over(core, group, gang)
            case GangTimer("save-over", group, gang):
                gang_closing.save_over(core, group, gang)
            case CustodyTimer("claim", part, epoch):
                claims.lapse(core, (part, epoch))
            case CustodyTimer("save", part, epoch):
                saving.due(core, (part, epoch))
            case CustodyTimer("closing", part, epoch):
                saving.closing(core, (part, epoch))
            case CustodyTimer("claim-waits", part, epoch):
                claims.waits_on(core, (part, epoch))
            case CustodyTimer("make-way", part, epoch):
                making_way.too_late(core, (part, epoch))
            case PartTimer("offer-over", part):
                handover_origin.offer_over(core, part)
            case CustodyTimer("prepared", part, epoch):
                destination.remind(core, part, epoch)
            case BatchTimer("result", part, epoch, batch):
                destination.result_due(core, part, epoch, batch)
            case MachineTimer("machine", name):
                machine_events.not_expected(core, name)
            case SiteTimer("availability"):
                availability.due(core)
            case SiteTimer("gangs"):
                gang_queues.due(core)
            case SiteTimer("turns"):
                # The look at whose turn has come, which ends each event, does it.
                pass
            case SiteTimer("claims"):
                claimed_ahead.look(core)
            case SiteTimer("maintenance"):
                maintenance.look(core)
            case CustodyTimer("flush", part, epoch):
                execution.flush(core, (part, epoch))
            case BatchTimer("stage", part, epoch, number):
                inputs.stage_again(core, part, epoch, number)
            case BatchTimer("gather", part, epoch, batch):
                outputs.gather_again(core, part, epoch, batch)
            case _:
                raise AssertionError(f"no such timer: {key}")

    def _settings(self, settings: Settings) -> None:
        """Apply the operator's own settings, under the VO's policy."""
        self.core.book(TrustBook).own_settings, self.core.book(TrustBook).policy_changed = settings, False
        settings = trust_ledger.effective(self.core, settings)
        if settings != self.core.state.settings:
            self.core.persist(records.SettingsChanged(settings=settings, at_s=self.core.now))
        leases.configured(self.core)
        machine_events.configured(self.core)
        self.core.line.configure(self.core.state.settings.migration_window_s, self.core.now)

    def _housekeeping(self) -> None:
        core = self.core
        core.after(SiteTimer("housekeeping"), HOUSEKEEPING_S)
        guard.tidy(core)
        pull_back.tidy(core)
        steps.tidy(core)
        rosters.tidy(core)
        swaps.tidy(core)
        rescheduling.tidy(core)
        metascheduling.tidy(core)
        settings = core.state.settings
        dropping.expire(core, settings.keep_s)
        dropped: list[GroupId] = []
        for key in sorted(core.state.tombstones):
            tombstone = core.state.tombstones[key]
            if core.now - tombstone.at_s > settings.tombstone_s:
                core.persist(records.TombstoneExpired(subgroup=key[0], epoch=key[1]))
                dropped.append(group_of(key[0]))
        here = {group_of(part) for part, _ in (*core.state.tombstones, *core.state.custodies)}
        for name in dict.fromkeys(dropped):
            # Facts and logs are kept per group: the last part to go takes them along.
            if name not in here:
                core.emit(fx.DropGroup(name))
