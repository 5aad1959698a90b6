"""The composition root of a machine that only runs jobs: its spawner, its cache, and a stream to whoever leads its
site. It keeps no journal and serves nobody.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import msgspec

from diana import __version__
from diana.adapters.datadir import OpenDataDir
from diana.adapters.lrm.cgroups.bounds import memory_bytes
from diana.adapters.lrm.local import LocalLrm
from diana.adapters.tasks import begin, end, keep_up
from diana.errors import DianaError
from diana.model.ids import SiteId, SubgroupId
from diana.node.config.running_as import OwnersInputs, accounts_of
from diana.node.config.site_file import SiteConfig, limits_of, load_config
from diana.node.disk_space import EVERY_S, SCRATCH_LOOKS
from diana.node.ending import Stop
from diana.node.node_log import put_output_aside

CONTROL_GRACE_S = 0.2

_log = logging.getLogger("diana.node")


async def serve_member(opened: OpenDataDir, config: SiteConfig, overrides: Mapping[str, Any]) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code. Running jobs run on."""
    node = MemberNode(opened, config, overrides)
    print(
        f"diana {__version__}: machine {config.machine} of site {config.site}, data in {opened.paths.root}", flush=True
    )
    _log.info("diana %s: machine %s of site %s of %s", __version__, config.machine, config.site, config.vo)
    control = node.control()
    try:
        await control.start()
        await node.start()
        await node.serve()
    finally:
        await control.stop(CONTROL_GRACE_S)
        await node.stop()
    _log.info("machine %s stops; jobs that run, run on", config.machine)
    return 0


class MemberNode:
    """`key` names the files below `keys` that it shows: a standby shows those of its site."""

    def __init__(
        self,
        opened: OpenDataDir,
        config: SiteConfig,
        overrides: Mapping[str, Any],
        *,
        key: str = "member",
        others: Callable[[], list[str]] = list,
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        """`others`: more addresses the site may be led from; `renewed`: told when this machine's certificate was."""
        from diana.adapters.staging.stager import FileStager
        from diana.adapters.subgrid.cleaning import subgroups_in
        from diana.adapters.subgrid.dialling import Dialler
        from diana.adapters.subgrid.member import SubgridMember
        from diana.adapters.subgrid.notes import Notes

        paths = self.paths = opened.paths
        self.opened = opened
        self.config = config
        self._overrides = overrides
        self._key = key
        self._others = others
        self._renewed = renewed
        self._found: list[str] = []
        self._stop = Stop()
        self._dialling: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._discovery: Any = None
        self._cleaning: set[asyncio.Task[None]] = set()
        notes = Notes(paths.root / "member.json")
        self.member = SubgridMember(
            config.site,
            config.machine,
            config.settings.slots,
            memory_bytes(),
            boot_s,
            subgroups_here=lambda: subgroups_in(paths),
            dropped=self._dropped,
            delete=self._delete,
            expired=None if key == "member" else lambda group: self.stager.drop_group(group),
        )
        self.member.term = notes.term
        emit = self.member.local_event
        self.local = LocalLrm(
            paths,
            config.site,
            config.settings.slots,
            emit,
            boot_s,
            worker=config.machine,
            term=notes.term,
            accounts=accounts_of(config),
            software=config.software,
            gpus=config.gpus,
            resources=config.resources,
            pins=config.pin_cpus,
            max_processes=config.max_processes,
            keep_failed_s=config.keep_failed_s,
            copy_bytes=config.staging.copy_bytes,
            most_grace_s=config.max_grace_s,
        )
        # Not the site's own name: what lies at the site is another place than here.
        self._here = SiteId(f"{config.site}.{config.machine}")
        self.stager = FileStager(
            paths,
            self._here,
            emit,
            self._data_channel,
            lambda *_: None,
            limits=limits_of(config.staging),
            allowed_urls=config.staging.urls,
        )
        if config.run_as:
            self.stager.read_by(OwnersInputs(accounts_of(config)))
        self.member.use(self.local, self.stager)
        self.dialler = Dialler(
            self.member,
            paths,
            notes,
            __version__,
            self.addresses,
            self._open,
            clock=boot_s,
            urls=self.stager.allow_urls,
        )

    def addresses(self) -> list[str]:
        """Addresses the site may be led from: those configured, then those found on the network."""
        return list(dict.fromkeys((*self._others(), *self.config.root, *self._found)))

    def found_root(self, address: str) -> None:
        """The local network says the site is served there; tried when the known addresses fail. Who answers must show
        the site's certificate, as ever."""
        if address not in self.config.root:
            self._found = [address, *(a for a in self._found if a != address)][:4]

    def _open(self, address: str) -> Any:
        from diana.wire.tls import load_credentials, open_channel

        return open_channel(address, self.config.site, self.config.vo, load_credentials(self.paths.keys, self._key))

    def _data_channel(self, site: SiteId) -> Any:
        return self.dialler.data_channel if site == self.config.site else None

    def control(self) -> Any:
        """The server of its control socket, not started."""
        from diana.node.member.api import MemberApi
        from diana.node.ways_in.control import ControlServer
        from diana.node.ways_in.users import users_of_machine

        config = self.config
        users = users_of_machine(config)
        api: Any = MemberApi(config, self.paths, self.dialler, self.member, boot_s, self._stop.set, self.local)
        return ControlServer(self.paths.socket, api, users)

    # --- life ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """DianaError where there is no spawner; `attach` may follow all the same, and one is tried to be had."""
        await self.local.connect()
        await self.attach()

    async def attach(self) -> None:
        """Find who leads, and serve it from now on."""
        self._dialling = begin(self.dialler.run(), "attaching to the RootGrid")
        self._renewing = keep_up(self._renewal().run, "renewing this machine's certificate")
        if self.config.zeroconf:
            from diana.adapters.zeroconf_discovery import ZeroconfDiscovery

            self._discovery = ZeroconfDiscovery(
                site=self.config.site,
                vo=self.config.vo,
                port=0,
                found=lambda _: None,
                found_root=lambda address: self.found_root(address.rpartition("@")[2]),
            )
            await self._discovery.start()

    def _renewal(self) -> Any:
        """The renewal of this machine's certificate, by way of the RootGrid, whichever site signs."""
        from diana.node.enrol.renewing import Renewal
        from diana.node.enrol.signers import SignerBook
        from diana.node.enrol.signing import Signing

        signing = Signing(
            keys=self.paths.keys,
            site=self._here,
            trust=self.config.trust,
            book=SignerBook(self.paths.signers),
            channel_for=self._data_channel,
            peers=lambda: iter((self.config.site,)),
        )
        # The next stream shows the new one; the RootGrid ends this one when the old certificate runs out.
        return Renewal(
            keys=self.paths.keys, kind=self._key, signing=signing, renewed=self._renewed, note=lambda *_: None
        )

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        watching = begin(self.watch_room(), "watching the room on the disk")
        stopping = asyncio.create_task(self._stop.wait())
        try:
            assert self._dialling is not None
            done, _ = await asyncio.wait({self._dialling, stopping, watching}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopping}:
                task.result()
        finally:
            watching.cancel()
            stopping.cancel()

    async def stop(self, *, stop_spawner: bool = True) -> None:
        """Jobs that run, run on. `stop_spawner`: the spawner goes too if it has none."""
        if self._discovery is not None:
            await self._discovery.stop()
        await end(self._renewing, self._dialling)
        if self._cleaning:
            await asyncio.wait(self._cleaning)
        await self.local.close(stop_spawner=stop_spawner)
        await self.stager.close()

    async def watch_room(self) -> None:
        """Watch the disk until cancelled: one that is nearly full takes no new work."""
        for look in count():
            low = await asyncio.to_thread(self.opened.keep_room)
            put_output_aside(self.paths.node_out)
            self.member.set_slots(0 if low else self.config.settings.slots)
            if look % SCRATCH_LOOKS == 0:
                await self.local.look_at_disk()
            await asyncio.sleep(EVERY_S)

    def reload(self) -> None:
        """SIGHUP: a bad file changes nothing."""
        try:
            config = load_config(self.paths.config)
            slots = self._overrides.get("slots", config.settings.slots)
            config = msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, slots=slots))
        except (DianaError, ValueError) as error:
            _log.error("settings kept as they were: %s", error)
            return
        if (config.site, config.machine, config.role) != (self.config.site, self.config.machine, self.config.role):
            _log.error("settings kept as they were: site, machine and role change with a new start only")
            return
        self.config = config
        self.member.set_slots(slots)
        self.member.offer(config.software)
        _log.info("%s was read again", self.paths.config)

    # --- cleaning up ---------------------------------------------------------------------------------------

    def _dropped(self, subgroup: SubgroupId, last: bool) -> None:
        from diana.adapters.subgrid import cleaning

        if self._key == "site":
            # What it gathered while it led is asked for until the group expires.
            return
        self._clean(cleaning.drop, self.paths, subgroup, last)

    def _delete(self, gone: Any) -> None:
        from diana.adapters.subgrid import ends

        self._clean(ends.delete, self.paths, gone)

    def _clean(self, work: Any, *args: Any) -> None:
        task = asyncio.ensure_future(asyncio.to_thread(work, *args))
        self._cleaning.add(task)
        task.add_done_callback(self._cleaned)

    def _cleaned(self, task: asyncio.Task[None]) -> None:
        self._cleaning.discard(task)
        if not task.cancelled() and (fault := task.exception()):
            _log.error("what nobody needs could not be deleted: %s", fault)


def boot_s() -> float:
    """This machine's clock, suspended time included; turned into site time when ends are told."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
