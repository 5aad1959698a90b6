"""The engine: one door in, ordered effects out (see `events.py`, `effects.py`). Both drivers drive this object."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from diana.engine import (
    chains,
    completion,
    control,
    custody,
    datasets,
    dependencies,
    dispatching,
    draining,
    execution,
    exporting,
    fold,
    gossip,
    guard,
    handover,
    leases,
    ledger,
    lines,
    links,
    machines,
    maintenance,
    migrating,
    moving,
    outputs,
    pulling,
    queries,
    quoting,
    reads,
    records,
    recovery,
    renewing,
    retrying,
    rooms,
    staging,
    stocktaking,
    submitting,
    witness,
)
from diana.engine import effects as fx
from diana.engine import events as ev
from diana.engine import lease_messages as lm
from diana.engine import messages as ms
from diana.engine import migration_messages as mm
from diana.engine import recovery_messages as rm
from diana.engine.context import Context
from diana.engine.membership import learning, spreading
from diana.engine.state import SiteState, decode_state, encode_state
from diana.engine.timers import TimerKey
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, SubgroupId, group_of
from diana.model.urls import DEFAULT_ALLOWED
from diana.model.views import Invitations

if TYPE_CHECKING:
    from diana.engine.surroundings import Journal, Keyring
    from diana.model.settings import Settings

HOUSEKEEPING_S = 600.0


class Engine:
    """One site. Synchronous, deterministic, without clock, chance or IO.

    `restore` folds a journal; `start` opens a new boot generation and says what is in flight again; then `handle`
    per event. `now` is site time in seconds, never running backwards; an earlier `now` counts as the latest seen.
    """

    def __init__(self, site: SiteId, state: SiteState, keyring: Keyring, now: float) -> None:
        self.core = Context(site, state, keyring, now)
        self.boot_seq = state.seq
        """Records in the journal before this boot."""

    @classmethod
    def restore(cls, journal: Journal, *, site: SiteId, keyring: Keyring, now: float) -> Engine:
        """From a store's content, new or old. StoreNewer: a later release wrote it."""
        state = decode_state(journal.snapshot) if journal.snapshot is not None else SiteState()
        for stored in journal.records:
            fold.apply(state, lines.decode(stored), site)
        return cls(site, state, keyring, max(now, journal.at_s))

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
    ) -> list[fx.Effect]:
        """Open the next boot generation. `restored`: the store is a backup put back (PROMISES section 4, restore).
        `newest`: the store surely lacks nothing that it once held; else jobs wait until their origins spoke.
        `urls`: beginnings of those that jobs may read here; `software`: what they may ask for. `machine`: the one this
        node runs on, whose slots the settings tell. `term`: of the site's leadership, 0 without a standby. `address`:
        where peers reach it; empty: it can only dial out."""
        core = self.core
        core.term = term
        core.newest = newest and not restored
        core.unproven = core.doubted = not newest and not restored
        core.unsure = core.unproven and bool(core.state.peers)
        core.knew = frozenset(core.state.peers)
        core.allowed_urls = urls
        core.workers.site_offers(software)
        core.persist(
            records.Opened(
                generation=core.state.generation + 1,
                boot_nonce=boot_nonce,
                db_uuid=db_uuid,
                restored=restored,
                first_group=recovery.first_group(core, db_uuid) if restored else 0,
            )
        )
        self._settings(settings)
        ledger.apply(core)
        machines.begin(core, machine)
        maintenance.look(core)
        recovery.begin(core)
        gossip.begin(core, address)
        core.after(("housekeeping",), HOUSEKEEPING_S)
        for key in sorted(core.state.custodies):
            held = core.state.custodies[key]
            if held.runnable:
                staging.begin(core, held)
        leases.begin(core)
        renewing.begin(core)
        handover.resend_all(core)
        custody.say_again(core)
        outputs.resume_all(core)
        dependencies.rebuild(core)
        core.to_check.update(core.state.groups)
        core.to_place.update(core.state.groups)
        return self._done()

    @property
    def generation(self) -> int:
        return self.core.state.generation

    @property
    def counters(self) -> dict[str, int]:
        return self.core.counters

    def deadline(self) -> float | None:
        """Site time of the next `Tick` that is needed at the latest; None: no need."""
        return self.core.timers.earliest()

    def snapshot(self) -> bytes:
        """The whole state after everything handled so far."""
        return encode_state(self.core.state)

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        """The only mutator. The effects' order is binding (`effects.py`)."""
        core = self.core
        core.now = max(core.now, now)
        match event:
            case ev.Tick():
                for key in core.timers.pop_due(core.now):
                    self._due(key)
            case ev.JobsEnded():
                execution.on_jobs_ended(core, event)
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
                submitting.submit(core, event)
            case ev.SubmitChain():
                chains.submit(core, event)
            case ev.CancelJobs():
                control.cancel(core, event)
            case ev.HoldJobs():
                control.hold(core, event)
            case ev.MoveJobs():
                moving.move(self.core, event)
            case ev.ReleaseJobs():
                control.release(core, event)
            case ev.RetryJobs():
                retrying.retry(core, event)
            case ev.AddDataset():
                datasets.add(core, event)
            case ev.RemoveDataset():
                datasets.remove(core, event)
            case ev.Ask():
                reads.ask(core, event)
            case ev.Leaving():
                gossip.leave(core)
            case ev.PeerUp():
                gossip.on_peer_up(core, event.hello)
            case ev.PeerDown():
                recovery.parted(core, event.site)
                gossip.on_peer_down(core, event.site)
                queries.on_peer_down(core, event.site)
            case ev.SayStatement():
                ledger.say(core, event)
            case ev.NameSite():
                ledger.name_site(core, event)
            case ev.NoteInvitation():
                core.persist(records.InvitationNoted(invitation=event.invitation))
                core.reply(fx.Reply(event.request, Invitations(core.state.invitations)))
            case ev.DrainSite():
                draining.drain(core, event)
            case ev.GoOn():
                stocktaking.go_on(core, event)
            case ev.RegisterAsked():
                witness.asked(core, event)
            case ev.LinkMeasured():
                links.on_measured(core, event)
            case ev.LrmSized():
                machines.on_sized(core, event)
            case ev.LrmReady():
                machines.on_ready(core, event)
            case ev.LrmLost():
                machines.on_lost(core, event)
            case ev.MachineRemoved():
                machines.remove(core, event)
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
        """A read on whose occasion nothing else is done: for a driver that wants to know, not to drive."""
        core = self.core
        core.now = max(core.now, now)
        reads.ask(core, event)
        out, core.effects = core.effects, []
        return out

    def _done(self) -> list[fx.Effect]:
        """What every event ends with: groups to price, groups that may be complete, room to fill."""
        core = self.core
        if core.policy_changed:
            self._settings(core.own_settings)
        while core.guard.to_pull or core.to_place or core.to_check:
            pulling.settle(core)
            for name in sorted(core.to_place):
                core.to_place.discard(name)
                if name in core.state.groups:
                    quoting.replace(core, core.state.groups[name])
            for name in sorted(core.to_check):
                core.to_check.discard(name)
                if name in core.state.groups:
                    completion.check_complete(core, core.state.groups[name])
        dispatching.dispatch(core)
        core.speaker = SiteId("")
        out, core.effects = core.effects, []
        return out

    def _received(self, sender: SiteId, message: ms.Message) -> None:
        core = self.core
        match message:
            case ms.Summary():
                gossip.on_summary(core, sender, message)
            case ms.Gossip():
                learning.on_gossip(core, sender, message)
            case ms.LedgerNews():
                ledger.on_news(core, sender, message)
            case ms.QuoteRequest():
                quoting.answer_quote(core, sender, message)
            case ms.Quote():
                quoting.on_quote(core, sender, message)
            case ms.QueueRequest():
                queries.answer(core, sender, message)
            case ms.QueueReport():
                queries.on_report(core, sender, message)
            case lm.Renew():
                leases.on_renew(core, sender, message)
            case lm.Renewed():
                renewing.granted(core, sender, message)
            case mm.Surplus():
                exporting.on_surplus(core, sender, message)
            case mm.RoomRequest():
                rooms.on_request(core, sender, message)
            case mm.RoomGrant():
                migrating.on_grant(core, sender, message)
            case rm.Met():
                stocktaking.on_met(core, sender, message)
            case rm.Holdings():
                stocktaking.on_holdings(core, sender, message)
            case ms.Prepare() | ms.Commit() | ms.Abort() | ms.Control() | ms.ResultAck():
                custody.on_order(core, sender, message)
            case (
                ms.Prepared()
                | ms.Refused()
                | ms.Committed()
                | ms.Aborted()
                | ms.Lost()
                | ms.Progress()
                | ms.Result()
                | ms.ControlAck()
            ):
                handover.on_report(core, sender, message)
            case _:
                assert_never(message)

    def _stage_done(self, event: ev.StageDone) -> None:
        if event.ticket in self.core.gathers:
            outputs.on_gathered(self.core, event)
        elif event.ticket in self.core.staging.tickets:
            staging.on_staged(self.core, event)

    def _looked_up(self, event: ev.LookedUp) -> None:
        then = self.core.lookups.pop(event.ticket, None)
        if then is not None:
            then(event)

    def _due(self, key: TimerKey) -> None:
        core = self.core
        match key:
            case ("summary",):
                gossip.tell_all(core)
            case ("news",):
                spreading.hurry(core)
            case ("contacts",):
                learning.save_contacts(core)
            case ("links",):
                links.record(core)
            case ("unheard",):
                recovery.begin_if_heard_out(core, patient=False)
            case ("met", site):
                recovery.again(core, SiteId(site))
            case ("housekeeping",):
                self._housekeeping()
            case ("quotes", number):
                quoting.quotes_due(core, number)
            case ("query", number):
                queries.due(core, number)
            case ("place", group):
                core.to_place.add(GroupId(group))
            case ("offer" | "commit" | "control", part):
                handover.resend(core, SubgroupId(part))
            case ("room", room):
                migrating.drop_unanswered(core, room)
            case ("lease", site):
                leases.over(core, SiteId(site))
            case ("disown", site):
                leases.disown(core, SiteId(site))
            case ("renew", origin):
                renewing.ask(core, SiteId(origin))
            case ("lease-over", origin):
                renewing.over(core, SiteId(origin))
            case ("guard", _):
                # A site on probation may try one more: the look at what to start, which ends each event, does that.
                core.workers.look_again()
            case ("offer-over", part):
                handover.offer_over(core, SubgroupId(part))
            case ("prepared", part, epoch):
                custody.remind(core, SubgroupId(part), epoch)
            case ("result", part, epoch, batch):
                custody.result_due(core, SubgroupId(part), epoch, batch)
            case ("machine", name):
                machines.not_expected(core, name)
            case ("maintenance",):
                maintenance.look(core)
            case ("flush", part, epoch):
                execution.flush_due(core, SubgroupId(part), epoch)
            case ("stage", part, epoch, number):
                staging.stage_again(core, SubgroupId(part), epoch, number)
            case ("gather", part, epoch, batch):
                outputs.gather_again(core, SubgroupId(part), epoch, batch)
            case _:
                raise AssertionError(f"no such timer: {key}")

    def _settings(self, settings: Settings) -> None:
        """`settings`: the operator's own."""
        self.core.own_settings, self.core.policy_changed = settings, False
        settings = ledger.effective(self.core, settings)
        if settings != self.core.state.settings:
            self.core.persist(records.SettingsChanged(settings=settings))
        leases.configured(self.core)
        machines.configured(self.core)
        self.core.migration.configure(self.core.state.settings, self.core.now)

    def _housekeeping(self) -> None:
        core = self.core
        core.after(("housekeeping",), HOUSEKEEPING_S)
        guard.tidy(core)
        settings = core.state.settings
        for name in dependencies.expirable(core, settings.keep_s):
            dependencies.forget(core, core.state.groups[name])
            core.persist(records.GroupExpired(group=name))
            core.emit(fx.DropGroup(name))
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
