"""The RootGrid's part of a site of several machines: its LRM over all of them, the service members attach to, and what
they may read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from diana.adapters.grpc_server import peer_identity
from diana.adapters.lrm.local import LocalLrm
from diana.adapters.subgrid.lrm import SubGridLrm
from diana.adapters.subgrid.service import SubGridService
from diana.errors import StoreFailed
from diana.model.ids import SubgroupId
from diana.model.layout import DataDir
from diana.model.principal import Principal, Role
from diana.node.config import SiteConfig
from diana.node.running_as import accounts_of
from diana.policy.authorise import Action, authorise
from diana.ports import Emit


def of_this_site(config: SiteConfig) -> Callable[[Any, str], str]:
    """Who may attach as which machine (PROMISES 5.3): a member's certificate names the machine; a machine that may
    come to lead holds one of the site itself."""

    def may_attach(context: Any, machine: str) -> str:
        shown = peer_identity(context)
        asked = f"{config.site}/{machine}"
        if shown.vo != config.vo:
            return authorise(Principal(Role.NOBODY, ""), Action.ATTACH, asked)
        if shown.kind == "site" and shown.name == config.site:
            return ""
        role = Role.MEMBER if shown.kind == "member" else Role.NOBODY
        return authorise(Principal(role, shown.name), Action.ATTACH, asked)

    return may_attach


class SubGrid:
    """`lrm` is the site's `ports.LocalResourceManager`; `local` the embedded one of this machine, which it owns."""

    def __init__(
        self,
        paths: DataDir,
        config: SiteConfig,
        emit: Emit,
        clock: Callable[[], float],
        *,
        term: Callable[[], int],
        alive: Callable[[], Iterable[SubgroupId]],
        needed: Callable[[SubgroupId, int], bool],
        given_up: Callable[[str], bool],
    ) -> None:
        """StoreFailed for a damaged file of machines."""
        self.local = LocalLrm(
            paths,
            config.site,
            config.settings.slots,
            emit,
            clock,
            worker=config.machine,
            term=term(),
            accounts=accounts_of(config),
        )
        try:
            self.lrm = SubGridLrm(
                paths,
                config.site,
                config.machine,
                self.local,
                emit,
                clock,
                term=term,
                alive=alive,
                needed=needed,
                given_up=given_up,
                urls=config.staging.urls,
            )
        except ValueError as fault:
            raise StoreFailed(f"{paths.root / 'machines.json'}: {fault}; restore it or delete it") from None
        self.service = SubGridService(self.lrm, of_this_site(config))

    def attach(self, server: Any) -> None:
        self.service.attach(server)

    async def start(self) -> None:
        await self.local.connect()
        self.service.start()

    async def stop(self) -> None:
        await self.service.stop()
        await self.local.close(stop_spawner=True)
