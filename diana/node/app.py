"""The composition root: settings -> adapters -> runner. Order matters: the spawner starts before grpc is imported,
the boot generation is durable before anyone hears of it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import signal
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diana import __version__
from diana.adapters.datadir import OpenDataDir
from diana.adapters.grpc.pacing import Slack
from diana.adapters.lrm.local import LocalLrm
from diana.adapters.lrm.software import here
from diana.adapters.places import poor_place
from diana.adapters.tasks import end, keep_up
from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages.messages import Hello
from diana.errors import DianaError, StoreFull, UsageError
from diana.gang_plug_ins import policies
from diana.model.ids import SiteId
from diana.model.job.software import BARRIER, CHECKPOINT, FOUND, SPARES
from diana.model.layout import DataDir
from diana.node.config.maintenance import Announcer
from diana.node.config.running_as import OwnersAccounts, OwnersInputs, accounts_of, check_jobs_accounts
from diana.node.config.site_file import SiteConfig, limits_of, load_config, overridden, want_keys
from diana.node.disk_space import wait_for_room, watch_room
from diana.node.ending import AGAIN, Stop, again, begins_anew, report, this_process
from diana.node.loop.clock import SiteClock
from diana.node.loop.leisure import NodeLoop, note_leisure
from diana.node.node_log import log_to
from diana.node.old_copies import is_newest, renamed
from diana.node.pair.follower import Leadership, is_paired, serve_pair
from diana.policy.trust import seals
from diana.ports import Journal

if TYPE_CHECKING:
    from diana.node.linking import Links
    from diana.node.loop.release import Adapters
    from diana.node.loop.runner import Runner
    from diana.node.pair.electing import Electing

BIND_S = 3.0
"""Most seconds that a stop waits until jobs that waited for their turn are bound to sites: less than half of the whole
stop (`ending.py`)."""
SWITCH_S = 0.0005
"""Most seconds for which a thread keeps the interpreter from another that waits for it. A transaction of the store
needs it some ten times; by Python's own 5 ms it took up to 90 ms beside a busy loop, and all answers wait for one."""
_log = logging.getLogger("diana.node")


def run_node(data: Path, overrides: Mapping[str, Any] | None = None) -> int:
    """Serve a site until SIGTERM or SIGINT; the exit code. `overrides`: fields of `SiteConfig` (listen, peers,
    zeroconf) or of its settings (slots) that the command line gave.

    UsageError and its kin for what an operator can mend; an internal error is logged to <data>/node.log and raised.
    """
    sys.setswitchinterval(SWITCH_S)
    paths = DataDir(data)
    if not paths.config.exists():
        raise UsageError(f"{data}: no site here; make one with: diana init NAME --data {data}")
    if not os.path.exists("/proc/self"):
        raise UsageError("/proc: not mounted here, and a node knows its processes by it; mount -t proc proc /proc")
    config = overridden(load_config(paths.config), overrides or {})
    want_keys(config, paths)
    opened = OpenDataDir(data)
    try:
        wait_for_room(opened)
        try:
            log_to(paths.node_log, config.log_format, config.site, config.machine)
        except OSError as error:
            raise UsageError(
                f"{paths.node_log}: {error.strerror}; move away what lies there, or let this account write it"
            ) from None
        check_jobs_accounts(config, paths)
        for found, mend in poor_place(data):
            print(f"diana: warning: {found}; {mend}", flush=True)
            _log.warning("%s; %s", found, mend)
        _launch_spawner(opened)
        if config.role == "member":
            from diana.node.member.member import serve_member

            return asyncio.run(serve_member(opened, config, overrides or {}))
        with asyncio.Runner(loop_factory=NodeLoop) as loops:
            code = loops.run(_serve_or_follow(opened, config, overrides or {}))
    finally:
        opened.close()
    return again() if code == AGAIN else code


def _launch_spawner(opened: OpenDataDir) -> None:
    while True:
        try:
            return LocalLrm.launch(opened.paths)
        except DianaError:
            # Somebody was quicker.
            if not wait_for_room(opened):
                raise


async def _serve_or_follow(opened: OpenDataDir, config: SiteConfig, overrides: Mapping[str, Any]) -> int:
    if not is_paired(opened.paths, config):
        return await _serve(opened, config, overrides)
    return await serve_pair(opened, config, overrides, lambda lead: _serve(opened, config, overrides, lead))


async def _serve(
    opened: OpenDataDir, config: SiteConfig, overrides: Mapping[str, Any], lead: Leadership | None = None
) -> int:
    node = _Node(opened, config, overrides, lead)
    try:
        async with AsyncExitStack() as stack:
            await node.start(stack)
            # Modules and classes stay: no collection has to look at them again, while callers wait.
            gc.collect()
            gc.freeze()
            print(
                f"diana {__version__}: site {config.site} serves {node.address}, data in {opened.paths.root}",
                flush=True,
            )
            _log.info("diana %s: site %s of %s serves %s", __version__, config.site, config.vo, node.address)
            code = await node.serve()
            _log.info("site %s stops; jobs that run, run on", config.site)
    except StoreFull as full:
        # While it began: what comes later waits for room.
        code = await begins_anew(full, lambda: node.ends)
    # It may have been told to stop while it was about to start anew.
    return 0 if code == AGAIN and node.ends else code


def _nobody_to_lead(order: fx.HandOver) -> None:
    _log.error("there is no standby that %s could be", order.to)


class _Node:
    """One run of a node: what was built, in the order it is taken down again (by the exit stack)."""

    def __init__(
        self, opened: OpenDataDir, config: SiteConfig, overrides: Mapping[str, Any], lead: Leadership | None
    ) -> None:
        self.pair = lead.replication if lead else None
        self.lead = lead
        self.again = self.ends = False
        self.opened = opened
        self.paths = opened.paths
        self.config = config
        self.overrides = overrides
        self.address = ""
        self._stop = Stop()
        self.slack = Slack()
        self.runner: Runner
        self.electing: Electing | None = None

    async def start(self, stack: AsyncExitStack) -> None:
        from diana.adapters.trust.keyring import FileKeyring
        from diana.node.enrol.wiring import Enrolling
        from diana.node.ground import Ground, attach_witness, note_blobs
        from diana.node.linking import Links, told_address
        from diana.node.loop.release import Release
        from diana.node.loop.runner import Runner
        from diana.node.notify.notices import Notices, told_of
        from diana.node.pair.choosing_witness import ChoosingWitness
        from diana.node.traces.sending import follow
        from diana.node.trusting import Refusals
        from diana.wire import PROTOCOL

        stack.callback(self._ended)
        paths, config = self.paths, self.config
        self.enrolling = Enrolling(paths, config)
        keyring, self.refusals = FileKeyring(paths.keys), Refusals()
        self.keyring = keyring
        # Bound first: a taken port must show before anything else happens.
        ground = Ground(
            stack,
            paths,
            config.site,
            config.listen,
            keyring,
            self.lead,
            extra_roots=self.enrolling.roots,
            invited=self.enrolling.why_not_invited,
            refused=self.refusals.note,
        )
        server, port, thread = ground.server, ground.port, ground.thread
        told = told_address(config, port)
        self.address = told or f"{config.listen.rpartition(':')[0]}:{port}"
        store, self.thread = thread.store, thread
        self.store = store
        if self.lead is None:
            thread.check_place, thread.watch = self.opened.check_place, self.opened.watch_journal
            thread.watch(True)
        journal = store.load()
        clock = SiteClock(journal.at_s)
        engine = Engine.restore(journal, site=config.site, keyring=keyring, now=clock.now_s())
        newest = is_newest(store, paths, config.site, engine.state.next_group, self.pair is not None)
        self._next_group = engine.state.next_group
        nonce, restored = uuid.uuid4().hex, bool(store.meta("restored_from"))
        db_uuid = store.meta("db_uuid")

        def begin(engine: Engine, restored: bool) -> list[fx.Effect]:
            return engine.start(
                config.settings,
                boot_nonce=nonce,
                db_uuid=db_uuid,
                restored=restored,
                newest=newest,
                seal_key=secrets.token_bytes(seals.KEY_BYTES),
                urls=config.staging.urls,
                software=(*config.software.offered(), here(), BARRIER, CHECKPOINT, SPARES, FOUND),
                address=told,
                machine=config.machine,
                term=self.term(),
                process=this_process(),
                gang_policies=policies(),
            )

        def remake(journal: Journal) -> Engine:
            engine = Engine.restore(journal, site=config.site, keyring=keyring, now=clock.now_s())
            # That the store was put back is among its records since the first start.
            begin(engine, False)
            return engine

        effects = begin(engine, restored)
        thread.make_room, thread.filled_by = self.opened.release_ballast, self.opened.filling.said
        self.runner = Runner(engine, thread, clock, journal.records, self.pair, remake)
        stack.push_async_callback(self.runner.close)
        # Before any machine is ready: nothing starts that would outlast a window.
        self.announcer = Announcer(config.maintenance, clock.now_s, self.runner.emit_own)
        self.announcer.tell()
        stack.push_async_callback(end, keep_up(self.announcer.keep_telling, "maintenance"))
        hello = Hello(
            site=config.site,
            protocol=PROTOCOL,
            release=__version__,
            capabilities=(),
            db_uuid=db_uuid,
            generation=engine.generation,
            boot_nonce=nonce,
            seq=engine.boot_seq,
            term=self.term(),
            data_address=told,
            former=engine.state.former,
            begun=engine.state.begun,
            seal=engine.boot_seal,
        )
        links = Links(paths=paths, config=config, port=port, hello=hello, emit=self.runner.emit_peer, slack=self.slack)
        links.transport.note_refused = self.refusals.note_peer
        links.transport.note_word = self.refusals.note_word
        traced = follow(stack, config, self.runner, clock)
        self.notices = Notices(paths.notices, paths.keys, config.vo, config.notify, clock.now_s, time.time)
        left = told_of(traced, lambda effects: self.notices.saw(effects, self.runner.group))
        adapters = await self._adapters(stack, server, links, left, clock)
        release = Release(config.site, paths, thread, self.runner.callers, adapters)
        # Before the engine gives orders again: none of them may change the catalogue meanwhile.
        for event in engine.missed_datasets(await self.stager.registered()):
            self.runner.emit_own(event)
        await self.runner.open(effects, release)
        self.stager.take_up_drops()
        if restored:
            store.set_meta("restored_from", "")
        attach_witness(server, config, self.runner)
        if self.pair is None:
            self._pairing(server)
        elif self.lead is not None:
            await note_blobs(engine, self.stager)
            self.pair.taken_up, self.pair.hold = self._term_rose, self.runner.hold
            # It may have risen since the engine was started: a hand-over ends the other's stream at once.
            self._term_rose(self.term())
            # Nobody hears of this boot before it is on both disks.
            await self.lead.open(self.runner.seq)
            ChoosingWitness(config, paths, self.pair, self._dialled).begin(stack)
            if self.electing is not None:
                self.electing.begin(stack)
        await self._clients(stack, server, port)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, NodeLoop)
        stack.push_async_callback(end, keep_up(partial(note_leisure, loop, self.slack), "the pace of peers"))
        self.notices.begin(engine.state.groups.values())
        stack.push_async_callback(end, keep_up(self.notices.run, "notices"))

    def _start_anew(self, db_uuid: str) -> None:
        site = self.config.site
        if renamed(self.store, db_uuid, self.paths, site, self._next_group, self.pair is not None):
            self.again = True
            self._stop.set()

    def _revoked(self, rows: tuple[tuple[str, float, str], ...]) -> None:
        """Have the keyring refuse these: (who, since, why)."""
        self.keyring.set_revoked(
            frozenset(who for who, _, _ in rows), {who: s for who, s, _ in rows}, {who: why for who, _, why in rows}
        )

    def term(self) -> int:
        """The term under which this machine leads its site; 0 where no other ever could."""
        return self.pair.replica.term if self.pair else 0

    def _term_rose(self, term: int) -> None:
        self.runner.term_rose(term)
        self.subgrid.term_rose(term)

    def _leaders(self) -> list[str]:
        """Addresses this site may be led from, for its members and users."""
        return [self.address, *(self.pair.others() if self.pair else ())]

    def _channel_for(self, stack: AsyncExitStack) -> Callable[[SiteId], Any]:
        """Channels to whoever has data: other sites, and this site's other machine."""
        from diana.node.pair.elsewhere import OtherMachine

        if self.pair is None:
            return self.transport.channel_for
        elsewhere = OtherMachine(self.config, self.paths.keys, self.pair, self.transport.channel_for)
        stack.push_async_callback(elsewhere.close)
        return elsewhere.channel_for

    def _pairing(self, server: Any) -> None:
        """A standby that shows itself makes this node start anew, as one of two."""
        from diana.node.pair.pairing import Pairing

        def paired() -> None:
            self.again = True
            self._stop.set()

        Pairing(self.config, self.paths, self.address, self._dialled, paired).attach(server)

    def _dialled(self) -> dict[SiteId, str]:
        """Linked sites and where they are, empty where they can only dial out."""
        return {site: hello.data_address for site, hello in self.transport.peers().items()}

    async def _adapters(
        self,
        stack: AsyncExitStack,
        server: Any,
        links: Links,
        left: Callable[[list[fx.Effect]], None] | None,
        clock: SiteClock,
    ) -> Adapters:
        from diana.adapters.grpc.server import peer_identity
        from diana.adapters.link_probe import LinkProbe, ProbeService
        from diana.adapters.reach import Reacher
        from diana.adapters.staging.catalogue.holdings import DataReader
        from diana.adapters.staging.stager import FileStager
        from diana.node.api.live_logs import running_logs
        from diana.node.loop.release import Adapters
        from diana.node.member.subgrid import SubGrid
        from diana.wire.pb import data_pb2_grpc

        paths, config, runner = self.paths, self.config, self.runner
        self.links = links
        transport = self.transport = links.transport
        links.attach(server)
        probe = LinkProbe(
            channel_for=transport.channel_for,
            peers=transport.peers,
            emit=runner.emit_own,
            in_use=links.in_use,
            spare_channel=links.spare_channel,
        )
        probe.configure(config.settings)
        ProbeService(config.site).attach(server)
        self.stager = FileStager(
            paths,
            config.site,
            runner.emit_own,
            self._channel_for(stack),
            probe.observe,
            limits=limits_of(config.staging),
            allowed_urls=config.staging.urls,
        )
        stack.push_async_callback(self.stager.close)
        if config.run_as:
            self.stager.deliver_by(OwnersAccounts(accounts_of(config), runner.owner_of))
            self.stager.read_by(OwnersInputs(accounts_of(config)))
        merging = None
        if self.pair is not None:
            from diana.node.pair.electing import Electing
            from diana.node.pair.elsewhere import beside
            from diana.node.pair.merging import Merging

            self.electing = Electing(self.pair, runner.emit_own)
            self.stager.stand_beside(beside(self.pair, runner.given_up))
            merging = Merging(config.site, self.stager, runner.outputs_of, runner.emit_own, clock.now_s, runner.retried)
            stack.push_async_callback(merging.stop)

        def reader(context: Any) -> DataReader:
            kind, name, _ = peer_identity(context)
            return DataReader(kind, name)

        serve_data: Any = data_pb2_grpc.add_DataServicer_to_server
        serve_data(self.stager.service(reader), server)
        self.subgrid = SubGrid(
            paths,
            config,
            runner.emit_own,
            clock.now_s,
            term=self.term,
            alive=runner.subgroups,
            needed=runner.executes,
            known=runner.groups,
            known_as=runner.known_as,
            leaders=self._leaders,
            holds_as=runner.holds_as,
            elsewhere=runner.elsewhere,
            paired=self.pair is not None,
            slack=self.slack,
        )
        self.subgrid.attach(server)
        self.subgrid.lrm.note_word = self.refusals.note_machine
        self.stager.holdings.member_may_read = self.subgrid.lrm.may_read
        self.stager.show_running(running_logs(runner.run_of, self.subgrid.lrm))
        stack.push_async_callback(links.stop)
        stack.push_async_callback(probe.stop)
        self.probe = probe
        reacher = Reacher(runner.emit_own)
        stack.push_async_callback(reacher.close)
        return Adapters(
            transport=transport,
            lrm=self.subgrid.lrm,
            stager=self.stager,
            heed=self.subgrid.lrm.heed,
            trust=self._revoked,
            start_anew=self._start_anew,
            distrusted=self.refusals.note_word,
            distrusted_machine=self.refusals.note_machine,
            merges=merging,
            left=left,
            hand_over=self.electing.hand_over if self.electing else _nobody_to_lead,
            reach=reacher.look,
        )

    async def _clients(self, stack: AsyncExitStack, server: Any, port: int) -> None:
        from diana.node.api.service import Api
        from diana.node.insight import NodeInsight
        from diana.node.metrics.of_node import of_site
        from diana.node.trusting import watch_links
        from diana.node.ways_in.audit import AUDIT_HEAD, open_audit
        from diana.node.ways_in.client_service import add_client_service
        from diana.node.ways_in.control import ControlServer
        from diana.node.ways_in.door import About
        from diana.node.ways_in.users import users_of_machine
        from diana.node.web.wiring import open_dashboard

        config, paths = self.config, self.paths
        users = users_of_machine(config)
        about = About(site=config.site, vo=config.vo, release=__version__, address=self.address)
        self.audit = open_audit(paths.audit, self.store.meta(AUDIT_HEAD))
        stack.callback(self.audit.close)
        self.refusals.audit = self.audit
        lrm, stager = self.subgrid.local, self.stager
        self.metrics = of_site(config, paths, self.runner, self.transport, stager, lrm, self.pair)
        inviter = await self.enrolling.open(
            stack,
            server,
            port=port,
            transport=self.transport,
            door=self.runner,
            known=self.runner.invitations(),
            keyring=self.keyring,
            note=self.audit.note,
            machines=self._leaders,
            standby=lambda: self.pair.pair.other if self.pair else "",
        )
        api = Api(
            door=self.runner,
            stager=self.stager,
            data=paths,
            about=about,
            stop=self._stop.set,
            audit=self.audit,
            inviter=inviter,
            insight=NodeInsight(paths, config, self.links, self.pair, self.keyring.distrust_site),
            pair=self.pair,
            machine=config.machine,
            metrics=self.metrics,
            notices=self.notices,
            keyring=self.keyring,
            asked=self.slack.asked,
        )
        self.stager.show_past(api.teller(self.keyring, self.runner.settings).tell)
        trusts = self.keyring.distrust_user
        await open_dashboard(stack, config, paths, api, self.thread, users, trusts, must=self.lead is None)
        add_client_service(server, api, users)
        control = ControlServer(paths.socket, api, users)
        discovery = self.links.discovery
        await server.start()
        await self.links.start()
        watch_links(stack, self.transport, self.keyring.distrust_site)
        self.probe.start()
        stack.push_async_callback(self.subgrid.stop)
        await self.subgrid.start()
        await control.start()
        stack.push_async_callback(control.stop)
        await discovery.start()
        stack.push_async_callback(discovery.stop)

    async def serve(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        running = asyncio.create_task(self.runner.run())
        scratch = self.subgrid.local.look_at_disk
        watching = asyncio.create_task(watch_room(self.opened, self.thread, self.audit, self.runner.emit_own, scratch))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({running, stopping, watching}, return_when=asyncio.FIRST_COMPLETED)
        # Also where it ends by itself.
        self._stop.set()
        stopping.cancel()
        fault = watching.exception() if watching.done() else None
        watching.cancel()
        if not running.done():
            await self.runner.bind_all(BIND_S)
            self.runner.emit_own(ev.Leaving())
            await self.runner.drain()
            running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if fault is not None:
            _log.critical("%s", fault)
            return report(fault)
        if running.cancelled():
            return AGAIN if self.again else 0
        return report(running.exception())

    def _end(self) -> None:
        """End for good, also while it stops in order to start anew."""
        self.ends = True
        self._stop.set()

    def _ended(self) -> None:
        """Stop the countdown only where the node is to start anew: after an end for good the rest must end in time as
        well."""
        if not self.ends:
            self._stop.ended()

    def _reload(self) -> None:
        """SIGHUP: a bad file changes nothing."""
        try:
            config = overridden(load_config(self.paths.config), self.overrides)
            self.keyring.reload_revoked()
        except DianaError as error:
            _log.error("settings kept as they were: %s", error)
            return
        self.runner.emit_own(
            ev.SettingsLoaded(
                config.settings,
                config.staging.urls,
                (*config.software.offered(), here(), BARRIER, CHECKPOINT, SPARES, FOUND),
            )
        )
        self.announcer.use(config.maintenance)
        self.subgrid.local.set_slots(config.settings.slots)
        self.subgrid.use(config.software)
        self.stager.allow_urls(config.staging.urls)
        self.stager.set_rate(config.staging.rate_bytes_per_s)
        self.probe.configure(config.settings)
        _log.info("%s was read again", self.paths.config)
