"""The RootGrid's part of a site of several machines: its LRM over all of them, the service members attach to, and what
they may read.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from diana.adapters.batch.cluster import ClusterLrm
from diana.adapters.batch.systems import kinds
from diana.adapters.batch.systems.system import BatchSystem
from diana.adapters.grpc.pacing import Slack
from diana.adapters.grpc.server import peer_identity
from diana.adapters.lrm.local import LocalLrm
from diana.adapters.lrm.software import Software
from diana.adapters.subgrid.lrm import SubGridLrm
from diana.adapters.subgrid.notes import Notes
from diana.adapters.subgrid.service import SubGridService
from diana.engine.journal.events import Event, LrmReady
from diana.model.ids import GroupId, SubgroupId
from diana.model.layout import DataDir
from diana.model.trust.principal import Principal, Role
from diana.node.config.running_as import accounts_of
from diana.node.config.site_file import SiteConfig
from diana.policy.trust.authorise import Action, authorise
from diana.ports import Emit


def of_this_site(config: SiteConfig) -> Callable[[Any, str], str]:
    """Make the check of attaching machines (PROMISES 5.3): a member's certificate names the machine; a machine that may
    come to lead holds one of the site itself. The check returns the refusal, or nothing."""

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
        known: Callable[[], Container[GroupId]],
        known_as: Callable[[str], str],
        leaders: Callable[[], list[str]],
        holds_as: Callable[[str], str],
        elsewhere: Callable[[str, SubgroupId, int, Sequence[int]], bool],
        paired: bool = False,
        slack: Slack | None = None,
    ) -> None:
        """`holds_as`: the identity of a worker that jobs are with; empty: none are. `paired`: this machine may come to
        be a member of the site that it leads now. StoreFailed for a damaged file of what a member must not forget."""
        self._holds_as = holds_as
        self._notes = Notes(paths.root / "member.json") if paired else None
        self.note_term(term())
        own = self._own_emit(emit)
        self.local = LocalLrm(
            paths,
            config.site,
            config.settings.slots,
            own,
            clock,
            worker=config.machine,
            term=term(),
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
            known=known,
            known_as=known_as,
            leaders=leaders,
            elsewhere=elsewhere,
            urls=config.staging.urls,
        )
        self.clusters: dict[str, ClusterLrm] = {}
        for name, settings in sorted(config.clusters.items()):
            system = kinds.make(settings, f"{paths.config}:clusters.{name}")
            self.lrm.add_cluster(name, partial(self._cluster, paths, config, name, system, clock, term()))
        self.service = SubGridService(self.lrm, of_this_site(config), slack)

    def _cluster(
        self,
        paths: DataDir,
        config: SiteConfig,
        name: str,
        system: BatchSystem,
        clock: Callable[[], float],
        term: int,
        emit: Emit,
    ) -> ClusterLrm:
        settings = config.clusters[name]
        made = ClusterLrm(
            paths,
            config.site,
            name,
            settings,
            system,
            emit,
            clock,
            term=term,
            leader=config.machine,
            software=config.software,
            before=partial(self._holds_as, name),
            keep_failed_s=config.keep_failed_s,
            copy_bytes=config.staging.copy_bytes,
            most_grace_s=config.max_grace_s,
        )
        self.clusters[name] = made
        return made

    def _own_emit(self, emit: Emit) -> Emit:
        """Add this machine's identity to its events: the journal is to know which data directory has its name, as
        another machine leads one day."""
        notes = self._notes
        if notes is None:
            return emit

        def telling(event: Event) -> None:
            if isinstance(event, LrmReady):
                event = msgspec.structs.replace(event, identity=notes.identity)
            emit(event)

        return telling

    def note_term(self, term: int) -> None:
        """This machine's spawner is about to see it: as a member it will obey none below. Durable on return."""
        if self._notes is not None:
            self._notes.note_term(term)

    def term_rose(self, term: int) -> None:
        """The site's leader goes on in this one."""
        self.note_term(term)
        self.local.set_term(term)
        for cluster in self.clusters.values():
            cluster.set_term(term)
        self.lrm.greet_anew()

    def use(self, software: Software) -> None:
        """Use this software for jobs ordered from now on; machines of the site go by files of their own."""
        self.local.use(software)
        for cluster in self.clusters.values():
            cluster.use(software)

    def attach(self, server: Any) -> None:
        self.service.attach(server)

    async def start(self) -> None:
        await self.local.connect()
        for cluster in self.clusters.values():
            await cluster.connect()
        self.service.start()

    async def stop(self) -> None:
        await self.service.stop()
        for cluster in self.clusters.values():
            await cluster.close()
        await self.local.close(stop_spawner=True)
