"""Two nodes that show one name, met by nobody who could compare them, are found by gossip (SPEC U1, D9)."""

from __future__ import annotations

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.membership import twins
from diana.engine.membership.table import MembershipTable
from diana.engine.site.surroundings import Journal
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.model.trust.principal import Principal, Role
from diana.model.views.views import Sites
from tests.engine.builders import PlainKeyring
from tests.engine.gossiping import Node, entry, hello

FAR = SiteId("far")
OPERATOR = Principal(Role.OPERATOR, "root@vo")


class Street:
    """Engines in a row, each linked with its neighbours; two may have one name. Messages arrive at once."""

    def __init__(self, *sites: str) -> None:
        self.now = 1000.0
        self.engines: list[Engine] = []
        self.sites = [SiteId(site) for site in sites]
        for at, site in enumerate(self.sites):
            journal = Journal(snapshot=None, seq=0, at_s=self.now, records=[])
            engine = Engine.restore(journal, site=site, keyring=PlainKeyring(), now=self.now)
            self.engines.append(engine)
            address = f"{site}:{7400 + at}"
            engine.start(Settings(slots=1), boot_nonce=f"n{at}", db_uuid=f"db{at}", address=address)
        for at in range(len(sites)):
            for other in self._next_to(at):
                self._take(at, self.engines[at].handle(ev.PeerUp(hello(self.sites[other])), self.now))

    def _next_to(self, at: int) -> list[int]:
        return [one for one in (at - 1, at + 1) if 0 <= one < len(self.sites)]

    def _take(self, at: int, effects: list[fx.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, fx.Send):
                for other in self._next_to(at):
                    if self.sites[other] == effect.to:
                        heard = ev.Received(self.sites[at], effect.message)
                        self._take(other, self.engines[other].handle(heard, self.now))

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds * 10)):
            self.now += 0.1
            for at, engine in enumerate(self.engines):
                due = engine.deadline()
                if due is not None and due <= self.now:
                    self._take(at, engine.handle(ev.Tick(), self.now))

    def notes(self, site: str) -> list[str]:
        return [twins.note(engine.core, SiteId(site)) for engine in self.engines]


def test_all_hear_of_two_nodes_of_one_name_that_share_no_neighbour() -> None:
    between = ("alpha", "beta", "gamma")
    street = Street("far", *between, "far")
    street.wait(90.0)
    wanted = "two nodes: one at far:7400, another at far:7404; stop one of them"
    assert street.notes("far")[1:-1] == [wanted] * len(between)
    for other in between:
        assert not any(street.notes(other))
    done = street.engines[1].handle(ev.Ask(request=7, principal=OPERATOR, what="sites"), street.now)
    answer = next(e.body for e in done if isinstance(e, fx.Reply))
    assert isinstance(answer, Sites)
    assert {row.shown.site: row.shown.note for row in answer.sites}["far"] == wanted


def test_a_row_of_sites_with_names_of_their_own_is_told_nothing() -> None:
    street = Street("alpha", "beta", "gamma", "delta")
    street.wait(60.0)
    assert not any(note for site in street.sites for note in street.notes(site))


def test_a_site_that_moves_now_and_then_is_one_node() -> None:
    node = Node()
    node.up("beta")
    for turn in range(12):
        node.told("beta", entry("far", turn, 1, address=f"far:{7400 + turn}"))
        node.wait(5.0, "beta")
        assert not twins.note(node.engine.core, FAR)


def test_a_takeover_and_its_echoes_are_one_node() -> None:
    node = Node()
    node.up("beta")
    for version, port in ((1, 1), (2, 2), (3, 1), (4, 2)):
        node.told("beta", entry("far", 1, version, address=f"far:{port}"))
        node.wait(1.0, "beta")
    node.wait(120.0, "beta")
    assert not twins.note(node.engine.core, FAR)


def test_it_is_told_for_a_while_after_one_of_the_two_was_stopped() -> None:
    node = Node()
    node.up("beta")
    for version in range(8):
        node.told("beta", entry("far", 1, version, address=f"far:{version % 2}"))
        node.wait(4.0, "beta")
    assert twins.note(node.engine.core, FAR) == "two nodes: one at far:0, another at far:1; stop one of them"
    node.wait(twins.TELL_S, "beta")
    assert not twins.note(node.engine.core, FAR)


def test_a_site_learns_that_another_node_has_its_name() -> None:
    node = Node()
    node.up("beta")
    for version in range(8):
        assert version >= twins.SURE or not twins.note(node.engine.core, node.engine.core.site)
        mine = node.engine.core.book(MembershipTable).incarnation
        node.told("beta", entry("alpha", mine, version, address="elsewhere:7400"))
        node.wait(4.0, "beta")
    done = node.engine.handle(ev.Ask(request=7, principal=OPERATOR, what="sites"), node.now)
    (answer,) = [e.body for e in done if isinstance(e, fx.Reply)]
    assert isinstance(answer, Sites) and answer.sites[0].shown.home
    assert answer.sites[0].shown.note == "two nodes: one at alpha:7400, another at elsewhere:7400; stop one of them"


def test_an_entry_of_an_earlier_run_is_no_other_node() -> None:
    node = Node()
    node.up("beta")
    for version in range(8):
        node.told("beta", entry("alpha", 0, version, address="alpha:7300"))
        node.wait(4.0, "beta")
    assert not twins.note(node.engine.core, node.engine.core.site)
