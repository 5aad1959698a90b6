"""SPEC D8: a site counts how often its machines are there, and elects the most available one where it may.

`Kept` is what both machines of a pair keep. Any machine may open an engine over it, as after a restart, a takeover or a
hand-over; nothing else passes from one engine to the next.
"""

from __future__ import annotations

import random

import pytest

from diana.engine.engine import Engine
from diana.engine.handover.availability import AGAIN_S, SHORT_S, WRITTEN_EVERY_S
from diana.engine.journal import codec
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.machines.machine import EXPECTED_BACK_S
from diana.engine.site import surroundings
from diana.model.ids import SiteId
from diana.model.presence import Presence, RollCall
from diana.model.settings import Settings
from diana.policy import availability as rule
from tests.engine.builders import OPERATOR, PlainKeyring

HOUR_S = 3600.0


class Kept:
    """The journal of a site, and who leads it."""

    def __init__(self, *members: str, elect: bool = True, standby: str = "spare") -> None:
        self.now = 1000.0
        self.stored: list[bytes] = []
        self.written_s = 0.0
        self.members = members
        self.standby = standby
        self.settings = Settings(slots=2, elect=elect, summary_every_s=300.0, suspect_after_s=3600.0)
        self.processes = 0
        self.sessions = 0
        self.effects: list[fx.Effect] = []
        self.down: set[str] = set()
        self.leads("main")

    def leads(self, machine: str, *, anew: bool = False) -> None:
        """The machine opens the journal. `anew`: the same process as before."""
        self.processes += not anew
        self.machine = machine
        journal = surroundings.Journal(
            snapshot=None, seq=len(self.stored), at_s=self.written_s, records=list(self.stored)
        )
        self.engine = Engine.restore(journal, site=SiteId("alpha"), keyring=PlainKeyring(), now=self.now)
        process = f"process {self.processes}"
        self.run(self.engine.start(self.settings, boot_nonce="n", db_uuid="u", machine=machine, process=process))
        for name in ("main", self.standby, *self.members):
            if name and name not in self.down:
                self.ready(name)
        if self.standby:
            self.stands(in_sync=True)

    def run(self, effects: list[fx.Effect]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, fx.Persist):
                self.stored.append(codec.encode(effect.record))
                self.written_s = self.now

    def handle(self, event: ev.Event) -> None:
        self.run(self.engine.handle(event, self.now))

    def ready(self, name: str, cluster: bool = False) -> None:
        self.sessions += 1
        self.handle(ev.LrmReady(worker=name, session=self.sessions, slots=2, known=(), cluster=cluster))

    def stands(self, *, in_sync: bool) -> None:
        other = "main" if self.machine == self.standby else self.standby
        self.handle(ev.PairStands(standby=other, in_sync=in_sync))

    def lose(self, name: str) -> None:
        self.down.add(name)
        self.handle(ev.LrmLost(name))

    def back(self, name: str) -> None:
        self.down.discard(name)
        self.ready(name)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.engine.deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.handle(ev.Tick())
        self.now = until
        self.handle(ev.Tick())

    def counted(self, name: str) -> Presence:
        """Figures of the journal, as of now."""
        return rule.counted(self.engine.state.presences[name], self.now)

    def orders(self) -> list[str]:
        return [effect.to for effect in self.effects if isinstance(effect, fx.HandOver)]

    def calls(self) -> list[RollCall]:
        """Records that were written of the machines."""
        found = [one for one in map(codec.decode, self.stored) if isinstance(one, r.ContactsLearned)]
        return [one.machines for one in found if one.machines is not None]


# --- what is counted -----------------------------------------------------------------------------------------


def test_a_site_of_one_machine_writes_nothing_of_it() -> None:
    site = Kept(standby="")
    site.pass_time(10 * HOUR_S)
    site.leads("main")
    assert not site.calls() and not site.engine.state.presences


def test_a_batch_system_is_no_machine_that_could_lead() -> None:
    site = Kept(standby="")
    site.ready("slurm", cluster=True)
    assert not site.engine.state.presences
    site.ready("m1")
    assert sorted(site.engine.state.presences) == ["m1", "main"]


def test_time_here_and_away_and_each_going_are_counted_and_outlive_a_restart() -> None:
    site = Kept("m1")
    site.pass_time(HOUR_S)
    site.lose("m1")
    site.pass_time(HOUR_S)
    site.back("m1")
    site.pass_time(HOUR_S)
    site.leads("main", anew=True)
    m1 = site.counted("m1")
    assert m1.here_s == pytest.approx(2 * HOUR_S, rel=0.02)
    assert m1.away_s == pytest.approx(HOUR_S, rel=0.02)
    assert m1.goings == pytest.approx(1, rel=0.02)
    assert site.counted("spare").goings == 0 and site.counted("spare").away_s == 0


def test_a_standby_is_counted_from_the_pair_on_though_it_never_came_to_work() -> None:
    site = Kept(standby="")
    for in_sync in (False, True):
        site.handle(ev.PairStands(standby="spare", in_sync=in_sync))
        assert sorted(site.engine.state.presences) == ["main", "spare"]
    site.pass_time(100.0)
    assert (site.counted("main").standing, site.counted("spare").standing) == ("here", "here")
    site.handle(ev.PairStands(standby="spare", in_sync=False))
    site.pass_time(100.0)
    assert (site.counted("spare").standing, round(site.counted("spare").goings)) == ("away", 1)


def test_a_link_that_was_dialled_anew_is_no_going() -> None:
    site = Kept("m1")
    site.pass_time(HOUR_S)
    site.lose("m1")
    site.pass_time(SHORT_S / 2)
    site.back("m1")
    site.pass_time(HOUR_S)
    assert site.counted("m1").goings == 0


def test_nothing_is_written_per_going_of_a_machine_that_flaps_and_hourly_else() -> None:
    site = Kept("m1")
    site.pass_time(HOUR_S)
    before = len(site.calls())
    for _ in range(100):
        site.lose("m1")
        site.pass_time(3.0)
        site.back("m1")
        site.pass_time(3.0)
    assert len(site.calls()) - before <= 600 / 60 + 1
    site.pass_time(100.0)
    assert site.counted("m1").goings == pytest.approx(100, rel=0.02)
    before = len(site.calls())
    site.pass_time(10 * HOUR_S)
    assert len(site.calls()) - before == 10
    assert len(site.engine.state.presences) == 3


def test_a_leader_that_dies_and_comes_back_went_and_one_that_only_began_anew_did_not() -> None:
    site = Kept()
    site.pass_time(HOUR_S)
    site.leads("main", anew=True)
    assert site.counted("main").goings == 0
    site.now += 5.0
    site.leads("main")
    assert site.counted("main").goings == pytest.approx(1, rel=0.02)
    assert site.counted("spare").goings == 0, "that it was not met for 5 s is no fault of its own"


def test_a_leader_that_was_off_for_two_days_was_away_and_nobody_knows_of_the_others() -> None:
    site = Kept()
    site.pass_time(HOUR_S)
    before = site.counted("spare")
    site.now += 48 * HOUR_S
    site.leads("main")
    assert 0.75 < site.counted("main").away_s / (48 * HOUR_S - WRITTEN_EVERY_S) < 1, "the first hours fade already"
    assert site.counted("spare").known_s <= before.known_s


def test_a_leader_whose_standby_took_over_went_and_one_that_handed_over_did_not() -> None:
    for planned in (False, True):
        site = Kept()
        site.pass_time(HOUR_S)
        if planned:
            site.handle(ev.LeadLeft(request=1, to="spare"))
        site.down.add("main")
        site.now += 15.0
        site.leads("spare")
        site.pass_time(20.0)
        site.back("main")
        assert site.counted("main").goings == pytest.approx(0 if planned else 1, rel=0.02), planned
        assert site.counted("spare").goings == 0


def test_a_machine_that_does_not_come_to_a_new_leader_went_when_that_one_began() -> None:
    site = Kept("m1")
    site.pass_time(HOUR_S)
    site.down.add("m1")
    site.leads("main", anew=True)
    site.pass_time(EXPECTED_BACK_S + 70.0)
    assert site.counted("m1").goings == pytest.approx(1, rel=0.02)
    assert site.counted("m1").away_s == pytest.approx(EXPECTED_BACK_S + 70.0, rel=0.02)


def test_a_machine_that_an_operator_removed_is_counted_no_more() -> None:
    site = Kept("m1")
    site.lose("m1")
    site.handle(ev.MachineRemoved(request=1, principal=OPERATOR, machine="m1"))
    site.pass_time(3 * HOUR_S)
    assert sorted(site.engine.state.presences) == ["main", "spare"]


# --- who leads -----------------------------------------------------------------------------------------------


def flap(site: Kept, times: int, down_s: float = 4.0, up_s: float = 3.0) -> None:
    for _ in range(times):
        site.pass_time(up_s)
        site.now += down_s
        site.leads(site.machine)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(4, 12))])
def test_after_five_restarts_of_a_flapping_machine_the_more_available_one_leads(seed: int) -> None:
    """Both may flap, the first one five times in any case; when it is quiet again the pair elects at most once."""
    rng = random.Random(seed)
    site = Kept(*(f"m{n}" for n in range(rng.randrange(3))))
    site.pass_time(rng.uniform(0, 3 * 24 * HOUR_S))
    for _ in range(rng.randrange(2)):
        site.lose("spare")
        site.pass_time(5.0)
        site.back("spare")
    for _ in range(5):
        site.pass_time(rng.uniform(1, 8))
        site.now += rng.uniform(2, 60)
        site.leads("main")
    assert site.orders() == [], f"seed {seed}: it waits until it has led for a while"
    site.pass_time(rule.SETTLED_S + 15.0)
    assert site.orders() == ["spare"], f"seed {seed}: {site.counted('main')} {site.counted('spare')}"
    site.leads("spare")
    assert site.counted("main").goings < 5.1, "the hand-over is no going"
    site.pass_time(24 * HOUR_S)
    assert site.orders() == ["spare"], f"seed {seed}"
    most = max(("main", "spare"), key=lambda name: rule.availability(site.counted(name)))
    assert most == site.machine == "spare"


def test_a_site_that_may_not_elect_proposes_the_command_once() -> None:
    site = Kept(elect=False)
    flap(site, 5)
    site.pass_time(HOUR_S)
    assert not site.orders()
    said = [effect.text for effect in site.effects if isinstance(effect, fx.Warn)]
    assert len(said) == 1 and said[0].startswith("spare is more available than main: "), said
    assert said[0].endswith("hand over with: diana site promote")


def test_a_leader_with_a_minority_of_the_machines_elects_nobody() -> None:
    """Its standby is in sync and more available; yet it sees two of five."""
    site = Kept("m1", "m2", "m3")
    for name in ("m1", "m2", "m3"):
        site.lose(name)
    flap(site, 6)
    site.pass_time(HOUR_S)
    assert not site.orders()
    site.back("m1")
    site.pass_time(30.0)
    assert site.orders() == ["spare"]


def test_a_standby_that_is_not_in_sync_is_not_elected() -> None:
    site = Kept()
    flap(site, 6)
    site.stands(in_sync=False)
    site.pass_time(HOUR_S)
    assert not site.orders()
    site.stands(in_sync=True)
    site.pass_time(25.0)
    assert site.orders() == ["spare"]


def test_the_reason_of_an_election_is_durable_before_the_lead_is_given_away() -> None:
    site = Kept()
    flap(site, 5)
    site.pass_time(30.0)
    kinds = [e.record if isinstance(e, fx.Persist) else e for e in site.effects]
    given = next(n for n, one in enumerate(kinds) if isinstance(one, r.ContactsLearned) and one.lead)
    assert given < next(n for n, one in enumerate(kinds) if isinstance(one, fx.HandOver))


def test_an_operators_word_on_who_leads_stands_for_a_day() -> None:
    site = Kept()
    flap(site, 5)
    site.pass_time(30.0)
    site.leads("spare")
    site.pass_time(HOUR_S)
    site.handle(ev.LeadLeft(request=1, to="main"))
    site.leads("main")
    site.pass_time(23 * HOUR_S)
    assert site.orders() == ["spare"]
    flap(site, 3)
    site.pass_time(2 * HOUR_S)
    assert site.orders() == ["spare", "spare"]


def test_a_hand_over_that_came_to_nothing_is_tried_again_later_and_excuses_no_later_death() -> None:
    site = Kept()
    flap(site, 5)
    site.pass_time(30.0)
    site.handle(ev.HandOverFailed(error="spare was not made leader in time; main goes on"))
    site.pass_time(AGAIN_S / 2)
    assert site.orders() == ["spare"]
    site.pass_time(AGAIN_S)
    assert site.orders() == ["spare", "spare"]
    site.handle(ev.HandOverFailed(error="spare was not made leader in time; main goes on"))
    before = site.counted("main").goings
    site.down.add("main")
    site.leads("spare")
    assert site.counted("main").goings > before + 0.9


def test_a_standby_that_came_into_sync_just_now_is_not_elected_yet() -> None:
    """A write is due by then, and each look at the time is one at who ought to lead."""
    site = Kept("m1")
    flap(site, 5)
    site.stands(in_sync=False)
    site.lose("m1")
    site.back("m1")
    site.pass_time(57.0)
    site.stands(in_sync=True)
    site.pass_time(5.0)
    assert not site.orders()
    site.pass_time(15.0)
    assert site.orders() == ["spare"]
