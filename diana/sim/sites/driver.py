"""The one place that knows how an engine is made and started, for the simulator and for tests that break one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from diana import ports
from diana.engine.engine import Engine
from diana.engine.journal.effects import Effect
from diana.engine.messages.messages import Hello
from diana.gang_plug_ins import policies
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.policy.allocation.ahead import Lookout, Outlook
from diana.replica.machine import Replica

PROTOCOL = 1


class EngineType(Protocol):
    """`Engine`, or a test's subclass of it."""

    def restore(self, journal: ports.Journal, *, site: SiteId, keyring: ports.Keyring, now: float) -> Engine: ...


class Boot:
    """Makes the engines of a simulation; `engine` and `replica` may be subclasses that break a rule on purpose.
    `look_ahead`: the way in which they roll placements forward; None: they do not."""

    __slots__ = ("_engine", "look_ahead", "replica")

    def __init__(
        self,
        engine: EngineType = Engine,
        replica: type[Replica] = Replica,
        look_ahead: Callable[[Lookout], Outlook] | None = None,
    ) -> None:
        self._engine = engine
        self.replica = replica
        self.look_ahead = look_ahead

    def looking(self, look_ahead: Callable[[Lookout], Outlook]) -> Boot:
        """The same, with engines that look ahead."""
        return Boot(self._engine, self.replica, look_ahead)

    def restored(self, site: SiteId, store: ports.Store, keyring: ports.Keyring, now: float) -> Engine:
        """The engine that the store holds, not started yet."""
        engine = self._engine.restore(store.load(), site=site, keyring=keyring, now=now)
        engine.look_ahead_by(self.look_ahead)
        return engine

    def start(
        self,
        engine: Engine,
        settings: Settings,
        store: ports.Store,
        boot: int,
        address: str = "",
        software: tuple[str, ...] = (),
    ) -> list[Effect]:
        """Open the next generation; the nonce names the boot, so it differs at every start."""
        if store.standing() == "older":
            ports.call_restored(store, f"{store.meta('db_uuid')}-restored-{boot}")
        db_uuid = store.meta("db_uuid")
        return engine.start(
            settings,
            boot_nonce=f"{db_uuid}-{boot}",
            db_uuid=db_uuid,
            seal_key=f"key of {db_uuid}".encode(),
            restored=bool(store.meta("restored_from")),
            newest=store.standing() == "newest",
            address=address,
            software=software,
            gang_policies=policies(),
        )

    def hello(self, engine: Engine, site: SiteId, store: ports.Store, boot: int, address: str = "") -> Hello:
        db_uuid = store.meta("db_uuid")
        return Hello(
            site=site,
            protocol=PROTOCOL,
            release="simulated",
            capabilities=(),
            db_uuid=db_uuid,
            generation=engine.generation,
            boot_nonce=f"{db_uuid}-{boot}",
            seq=engine.boot_seq,
            term=0,
            data_address=address,
            former=engine.state.former,
            begun=engine.state.begun,
            seal=engine.boot_seal,
        )
