"""The one place that knows how an engine is made and started, for the simulator and for tests that break one."""

from __future__ import annotations

from typing import Protocol

from diana import ports
from diana.engine.engine import Engine
from diana.engine.journal.effects import Effect
from diana.engine.messages.messages import Hello
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.replica.machine import Replica

PROTOCOL = 1


class EngineType(Protocol):
    """`Engine`, or a test's subclass of it."""

    def restore(self, journal: ports.Journal, *, site: SiteId, keyring: ports.Keyring, now: float) -> Engine: ...


class Boot:
    """Makes the engines of a simulation; `engine` and `replica` may be subclasses that break a rule on purpose."""

    __slots__ = ("_engine", "replica")

    def __init__(self, engine: EngineType = Engine, replica: type[Replica] = Replica) -> None:
        self._engine = engine
        self.replica = replica

    def restored(self, site: SiteId, store: ports.Store, keyring: ports.Keyring, now: float) -> Engine:
        """The engine that the store holds, not started yet."""
        return self._engine.restore(store.load(), site=site, keyring=keyring, now=now)

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
            restored=bool(store.meta("restored_from")),
            newest=store.standing() == "newest",
            address=address,
            software=software,
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
        )
