"""One engine that hears of other sites by hand, for tests of membership."""

from __future__ import annotations

from typing import Any

import msgspec

from diana.engine.engine import Engine
from diana.engine.journal import codec
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.engine.site.surroundings import Journal
from diana.engine.site.view import PeerView
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.policy.membership import State
from tests.engine.builders import PlainKeyring

HOME, BETA, FAR = SiteId("alpha"), SiteId("beta"), SiteId("far")


class Node:
    """One engine at a time that only moves when told."""

    def __init__(self, stored: list[bytes] | None = None, now: float = 1000.0, **settings: object) -> None:
        self.stored = stored or []
        self.now = now
        journal = Journal(snapshot=None, seq=len(self.stored), at_s=now, records=list(self.stored))
        self.engine = Engine.restore(journal, site=HOME, keyring=PlainKeyring(), now=now)
        self.effects: list[fx.Effect] = []
        made = Settings(slots=1, **settings)  # type: ignore[arg-type]
        self.take(self.engine.start(made, boot_nonce="n", db_uuid="db", address="alpha:7400"))

    def take(self, effects: list[fx.Effect]) -> None:
        self.stored += [codec.encode(e.record) for e in effects if isinstance(e, fx.Persist)]
        self.effects += effects

    def handle(self, event: ev.Event) -> None:
        self.take(self.engine.handle(event, self.now))

    def up(self, site: str, generation: int = 1) -> None:
        self.handle(ev.PeerUp(hello(site, generation)))
        self.hears(site, entry(site, generation, 1))

    def down(self, site: str) -> None:
        self.handle(ev.PeerDown(SiteId(site)))

    def hears(self, sender: str, message: ms.Message) -> None:
        self.handle(ev.Received(SiteId(sender), message))

    def told(self, sender: str, *entries: ms.Summary, age_s: float = 0.0) -> None:
        self.hears(sender, ms.Gossip(entries=entries, ages_s=(age_s,) * len(entries)))

    def rumour(self, sender: str, site: str, at: tuple[int, int], state: State, by: str = "gamma") -> None:
        self.hears(sender, ms.Gossip(rumours=(ms.Rumour(SiteId(site), *at, state, SiteId(by)),)))

    def wait(self, seconds: float, *speaking: str) -> None:
        """Turns go by; the sites of `speaking` say something newer at each."""
        end = self.now + seconds
        while (due := self.engine.deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.handle(ev.Tick())
            for site in speaking:
                old = self.peer(site).summary
                assert old is not None
                self.hears(site, msgspec.structs.replace(old, counter=old.counter + 1))
        self.now = end

    def peer(self, site: str) -> PeerView:
        return self.engine.core.view.peers[SiteId(site)]

    def told_of(self, site: str) -> ms.Summary:
        told = self.peer(site).summary
        assert told is not None
        return told

    def state(self, site: str) -> State:
        return self.peer(site).state

    def version(self, site: str) -> tuple[int, int]:
        told = self.told_of(site)
        return (told.generation, told.counter)

    def sent(self, kind: type, to: str = "") -> list[Any]:
        some = [e for e in self.effects if isinstance(e, fx.Send) and isinstance(e.message, kind)]
        return [e.message for e in some if not to or e.to == to]

    def contacts(self) -> dict[str, fx.Contact]:
        """As a driver has them by now."""
        book: dict[str, fx.Contact] = {}
        for effect in self.effects:
            if isinstance(effect, fx.Contact):
                book[effect.site] = effect
            elif isinstance(effect, fx.ForgetContact):
                book.pop(effect.site, None)
        return book


def hello(site: str, generation: int = 1) -> ms.Hello:
    return ms.Hello(
        site=SiteId(site), protocol=1, release="t", capabilities=(), db_uuid=f"db-{site}", generation=generation,
        boot_nonce=f"{site}{generation}", seq=0, term=0, data_address=f"{site}:7400",
    )  # fmt: skip


def entry(site: str, generation: int = 1, counter: int = 1, **more: object) -> ms.Summary:
    fields: dict[str, object] = {
        "site": SiteId(site), "generation": generation, "counter": counter, "seq": 0, "slots": 4, "free_slots": 4,
        "speed": 1.0, "queued_jobs": 0, "running_jobs": 0, "work_ahead_s": 0.0, "datasets": (), "accepting": True,
        "address": f"{site}:7400",
    }  # fmt: skip
    return ms.Summary(**(fields | more))  # type: ignore[arg-type]
