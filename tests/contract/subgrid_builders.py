"""A SubGrid of one member as the LRM conformance suite sees it: the RootGrid's LRM and a member node, with a spawner of
its own, on two ends of a real stream.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from diana.adapters.datadir import OpenDataDir
from diana.adapters.grpc.server import make_server
from diana.adapters.lrm.local import LocalLrm
from diana.adapters.subgrid.lrm import SubGridLrm
from diana.adapters.subgrid.service import SubGridService
from diana.adapters.trust import certificates
from diana.adapters.trust.keyring import FileKeyring
from diana.engine.journal.effects import Go, KillRuns, RecallRuns, RenewLease, SaveRuns, Start, TellRoster
from diana.engine.journal.events import Run
from diana.model.kept_log import LiveLog
from diana.model.layout import DataDir
from diana.model.settings import Settings
from diana.node.config.site_file import SiteConfig
from diana.node.member.member import MemberNode
from diana.node.member.subgrid import of_this_site
from tests.contract.lrm_builders import ALPHA, SUBGROUP, RealSite, _is_spawner

MEMBER = "m1"


def make_keys(folder: Path, machine: str = MEMBER) -> tuple[Path, Path]:
    """Folders of keys: of the site's own machine, of a member."""
    certificates.make_vo("vo", folder / "vo")
    certificates.issue_site(folder / "vo", ALPHA, folder / "root")
    certificates.issue_member(folder / "vo", ALPHA, machine, folder / machine)
    return folder / "root", folder / machine


class _AtMember:
    """Orders to the member, whichever machine they name."""

    def __init__(self, lrm: SubGridLrm, term: Callable[[], int]) -> None:
        self.inner = lrm
        self._term = term

    def start(self, order: Start) -> None:
        self.inner.start(msgspec.structs.replace(order, worker=MEMBER, term=self._term()))

    def lease(self, order: RenewLease) -> None:
        self.inner.lease(order)

    def kill(self, order: KillRuns) -> None:
        self.inner.kill(msgspec.structs.replace(order, worker=MEMBER))

    def recall(self, order: RecallRuns) -> None:
        self.inner.recall(msgspec.structs.replace(order, worker=MEMBER))

    def save(self, order: SaveRuns) -> None:
        self.inner.save(msgspec.structs.replace(order, worker=MEMBER))

    def tell_roster(self, order: TellRoster) -> None:
        self.inner.tell_roster(msgspec.structs.replace(order, worker=MEMBER))

    def go(self, order: Go) -> None:
        self.inner.go(msgspec.structs.replace(order, worker=MEMBER))

    def forget(self, runs: tuple[Run, ...], worker: str = "") -> None:
        self.inner.forget(runs, worker)


class SubGridSite(RealSite):
    """`restart_node` restarts the RootGrid, `lose_lrm` kills the member's spawner."""

    lrm: Any

    async def log_of(self, index: int, start: int = 0, most: int = 1 << 18, attempt: int = 1) -> LiveLog:
        run = Run(SUBGROUP, 1, index, attempt)
        return cast("LiveLog", await self.lrm.inner.look_at_log(MEMBER, run, start, most))

    def __init__(self, root: Path, slots: int = 2, term: int = 0) -> None:
        self.keys, member_keys = make_keys(root / "keys")
        self.opened = OpenDataDir(root / "member")
        self.member_data = self.opened.paths
        member_keys.rename(root / "moved")
        for path in (root / "moved").iterdir():
            path.rename(self.member_data.keys / path.name)
        self.term, self.term_of_orders = term, term
        self.alive = [SUBGROUP]
        self.config = SiteConfig(
            site=ALPHA, vo="vo", role="member", machine=MEMBER, zeroconf=False, settings=Settings(slots=slots)
        )
        self.node: MemberNode
        self._serving: tuple[Any, SubGridService]
        OpenDataDir(root / "root").close()
        super().__init__(root / "root", slots)

    def _new(self) -> Any:
        local = LocalLrm(DataDir(self.data.root), ALPHA, 1, self.events.append, time.monotonic)
        return _AtMember(
            SubGridLrm(
                self.data,
                ALPHA,
                "main",
                local,
                self.events.append,
                time.monotonic,
                term=lambda: self.term,
                alive=lambda: self.alive,
                needed=lambda subgroup, _: subgroup in self.alive,
            ),
            lambda: self.term_of_orders,
        )

    async def _serve(self) -> str:
        """The address."""
        server, port = make_server("127.0.0.1:0", self.keys, FileKeyring(self.keys).distrust)
        service = SubGridService(self.lrm.inner, of_this_site(msgspec.structs.replace(self.config, machine="main")))
        service.attach(server)
        await server.start()
        service.start()
        self._serving = (server, service)
        return f"127.0.0.1:{port}"

    async def _stop_serving(self) -> None:
        server, service = self._serving
        await service.stop()
        await server.stop(0.2)

    async def up(self) -> None:
        address = await self._serve()
        LocalLrm.launch(self.member_data)
        self.node = MemberNode(self.opened, msgspec.structs.replace(self.config, root=(address,)), {})
        await self.node.start()
        await self.until(lambda: self.readies() == 1)

    async def restart_node(self) -> None:
        await self.restart_node_within(10.0)

    async def restart_node_within(self, within_s: float) -> None:
        await self.node_down()
        await self.node_up(within_s)

    async def node_down(self) -> None:
        # What was said last is on its way.
        await asyncio.sleep(0.2)
        await self._stop_serving()

    async def node_up(self, within_s: float = 60.0) -> None:
        before = self.readies()
        self.lrm = self._new()
        self.node.found_root(await self._serve())
        await self.until(lambda: self.readies() > before, within_s)

    async def restart_member(self) -> None:
        before = self.readies()
        await self.node.stop()
        self.node = MemberNode(self.opened, msgspec.structs.replace(self.config, root=tuple(self.node.addresses())), {})
        await self.node.start()
        await self.until(lambda: self.readies() > before)

    async def down(self) -> None:
        self.kill(*range(2000))
        await asyncio.sleep(0.05)
        pid = self.spawner_pid()
        await self.node.stop()
        await self._stop_serving()
        self.opened.close()
        if _is_spawner(pid):
            os.kill(pid, signal.SIGKILL)

    def spawner_pid(self) -> int:
        return int((self.member_data.spawner / "lock").read_text() or 0)
