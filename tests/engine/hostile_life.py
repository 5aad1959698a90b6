"""The living grid that `hostile.py` speaks to, and what is judged after every word (SPEC section 6).

A word of a site that is no party to the transfer it names changes nothing and starts nothing; a word of a party changes
that group alone; whatever is said, nothing raises, nothing grows, and the work of the others comes to its end.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec

from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch import quote_answer
from diana.engine.dispatch.turns import Turns
from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.membership.table import MembershipTable
from diana.engine.messages import messages as ms
from diana.engine.messages.binding import TurnCall
from diana.engine.messages.leases import Renew, Renewed
from diana.engine.messages.migration import RoomGrant, RoomRequest, Surplus
from diana.engine.messages.recovery import Holdings, Met
from diana.engine.migration.table import MigrationBook
from diana.engine.placement.draft import Drafts
from diana.engine.placement.reservations import Reservations
from diana.engine.site.surroundings import Journal
from diana.model.ids import GroupId, SiteId, SubgroupId, group_id, group_of, origin_of
from diana.model.indexset import IndexSet
from tests.engine.bench import Grid, Site
from tests.engine.builders import OPERATOR, dataset, spec
from tests.engine.hostile import LIAR, STRANGER, Tongue, garbled, read, records_of, through_the_wire, transfers

ABOUT_NOBODY = (r.ContactsLearned, r.LinksRecorded, r.PeerSeen)
"""Records that words of no transfer may lead to."""
OF_ALL = (Met, Holdings, Surplus, RoomGrant, Renew, Renewed)
"""Words about all that stands between two sites."""
MOVES_AS_ROOM_COMES = (r.RunsStarted, r.RunsVoided)
"""Records that may be about any work: room that a party's word frees goes to whoever is next."""
IDLE = (fx.Warn, fx.Send, fx.Notify, fx.Reply, fx.LookUp, fx.Contact, fx.ForgetContact)
"""Effects that leave no trace in what runs and what is remembered."""
MOST_HELD = 400
"""Entries in any volatile collection of an engine, whatever was said to it."""


class HostileLife(Grid):
    def __init__(self, seed: int, binding: str) -> None:
        self.rng = random.Random(seed)
        self.tongue = Tongue(self.rng)
        self.tally: Counter[str] = Counter()
        self.payloads: list[bytes] = []
        self.told: list[tuple[SiteId, ms.Message]] = []
        """To the liar, the latest last."""
        self.asked = 10_000
        self.submitted = 0
        self.binding = binding
        settings = {"binding": binding, "max_queued_jobs": 300, "offer_wait_s": 4.0, "licences": {"matlab": 2}}
        super().__init__(settings, alpha=3, beta=4)
        for site in self.sites.values():
            site.handle(ev.AddDataset(request=9, principal=OPERATOR, dataset=dataset("d", "f")))
            self.meet_liar(site)

    def meet_liar(self, site: Site) -> None:
        hello = ms.Hello(
            site=LIAR,
            protocol=1,
            release="t",
            capabilities=(),
            db_uuid="db-gamma",
            generation=1,
            boot_nonce="g",
            seq=0,
            term=0,
            data_address="",
        )
        site.handle(ev.PeerUp(hello))
        said = ms.Summary(
            site=LIAR,
            generation=1,
            counter=int(self.now),
            seq=1,
            slots=4,
            free_slots=4,
            speed=1.0,
            queued_jobs=0,
            running_jobs=0,
            work_ahead_s=0.0,
            datasets=(),
            accepting=True,
        )
        site.handle(ev.Received(LIAR, said))

    def post(self, sender: SiteId, to: SiteId, message: ms.Message) -> None:
        if to == LIAR:
            self.told = [*self.told[-9:], (sender, message)]
        if to == LIAR and isinstance(message, ms.QuoteRequest | RoomRequest):
            asked = message.quote if isinstance(message, ms.QuoteRequest) else message.room
            self.tongue.quotes = [*self.tongue.quotes[-4:], asked]
        super().post(sender, to, message)

    # --- real work -------------------------------------------------------------------------------------

    def work(self) -> None:
        """A little of what honest sites and their users do, some of it lost or doubled."""
        rng = self.rng
        step = rng.randrange(10)
        site = rng.choice(list(self.sites.values()))
        if step == 0 and self.submitted < 25:
            self._submit(site)
        elif step == 1:
            self.now += rng.choice((0.01, 0.3, 2.0))
            for one in self.sites.values():
                one.handle(ev.Tick())
        elif step == 2:
            site.obey_kills()
            site.end(rng.randrange(1, 4))
        elif step == 3 and site.engine.core.state.groups:
            self._command(site, rng.choice(sorted(site.engine.core.state.groups)))
        elif step == 4 and rng.random() < 0.3:
            self._look(site)
        elif step == 5 and rng.random() < 0.05:
            site.restart()
            self.meet_liar(site)
        else:
            for _ in range(min(len(self.post_box), rng.randrange(1, 6))):
                fate = rng.random()
                if fate < 0.1:
                    self.post_box.append(self.post_box[0])
                if fate < 0.95:
                    self.deliver_one()
                else:
                    self.post_box.popleft()
        self._listen()

    def _submit(self, site: Site) -> None:
        rng = self.rng
        self.submitted += 1
        jobs = rng.randrange(1, 9)
        # One of four may end up with the liar, who then may say what it likes of it.
        late = self.binding == "late"
        at = rng.choice((("alpha",), ("beta",), ("alpha", "beta"), ("beta", "gamma") if late else ("gamma",)))
        wanted = spec(jobs, work_s=rng.choice((1.0, 50.0)), sites=at, on_crash=rng.choice(("hold", "rerun")))
        if rng.random() < 0.2:
            licensed = msgspec.structs.replace(wanted.resources, licences=(("matlab", 1),))
            wanted = msgspec.structs.replace(wanted, resources=licensed)
        site.submit(wanted, jobs, 100 + self.submitted, settle=False)

    def _command(self, site: Site, group: str) -> None:
        some = self.rng.choice((None, IndexSet.span(0, 2)))
        command = self.rng.choice((site.hold, site.release_jobs, site.retry, site.cancel))
        if self.rng.random() < 0.6:
            site.move(group, self.rng.choice(("alpha", "beta")), settle=False)
        else:
            command(group, some, settle=False)

    def _look(self, site: Site) -> None:
        """Users and operators look on; what liars said of themselves is shown like all else."""
        what = self.rng.choice(("groups", "sites", "links", "peers", "info", "queue", "explain"))
        groups = sorted(site.engine.core.state.groups)
        if what == "explain" and not groups:
            return
        group = self.rng.choice(groups) if what == "explain" else None
        asked = self.rng.choice((None, LIAR)) if what == "queue" else None
        self.asked += 1
        site.handle(ev.Ask(request=self.asked, principal=OPERATOR, what=what, group=group, site=asked))
        if what == "queue" and asked:
            self.tongue.quotes = [*self.tongue.quotes[-4:], site.engine.core._next_ticket - 1]

    def _listen(self) -> None:
        """The liar sees everything."""
        known = [t for s in self.sites.values() for t in transfers(s.engine.core.state, s.name)]
        own = [t for t in known if LIAR in (t.origin, t.site)]
        self.tongue.known = [t for some in (known, own) for t in self.rng.sample(some, min(8, len(some)))]
        if self.post_box:
            payload, _ = through_the_wire(self.post_box[0][2], Counter())
            self.payloads = [*self.payloads[-30:], payload]

    # --- lies ------------------------------------------------------------------------------------------

    def lie(self) -> None:
        rng = self.rng
        if self.told and rng.random() < 0.1:
            self._say_true(*self.told.pop())
            return
        site = rng.choice(list(self.sites.values()))
        sender = STRANGER if rng.random() < 0.05 else LIAR
        payload, message = through_the_wire(self.tongue.message(), self.tally)
        if rng.random() < 0.3:
            message = read(garbled(rng, rng.choice([*self.payloads, payload])), self.tally)
        if message is not None:
            self.hear(site, sender, message)

    def _say_true(self, to: SiteId, message: ms.Message) -> None:
        """So that the liar gets work, too."""
        answer: ms.Message | None = None
        if isinstance(message, ms.QuoteRequest):
            answer = quote_answer.quote(self.sites[to].engine.core, message)
            answer = msgspec.structs.replace(answer, rejected="", near_miss="", wait_s=0.0, work_ahead_s=0.0)
        elif isinstance(message, ms.Prepare):
            answer = ms.Prepared(subgroup=message.subgroup, epoch=message.epoch, db_uuid="db-gamma", seq=1)
        elif isinstance(message, ms.Commit):
            answer = ms.Committed(subgroup=message.subgroup, epoch=message.epoch)
        if answer is not None:
            self.hear(self.sites[to], LIAR, answer)

    def hear(self, site: Site, sender: SiteId, message: ms.Message) -> None:
        concerned = self._concerned(site, sender, message)
        look = self.rng.random() < 0.02
        before = site.engine.snapshot() if look else b""
        nonsense = site.engine.counters.get("nonsense", 0)
        effects = site.engine.handle(ev.Received(sender, message), self.now)
        self._judge(sender, message, effects, concerned | self._whose_turn_came(site, effects))
        if look and not records_of(effects):
            assert site.engine.snapshot() == before, f"{sender} changed {site.name} without a record: {message}"
        kind = "refused" if site.engine.counters.get("nonsense", 0) > nonsense else "heard"
        self.tally[f"{type(message).__name__} {kind}"] += 1
        site.run(effects)
        for answer in site.replies.values():
            msgspec.json.encode(answer)
        site.replies.clear()

    def _concerned(self, site: Site, sender: SiteId, message: ms.Message) -> set[GroupId]:
        """The groups that a word of this sender may be about."""
        core = site.engine.core
        if isinstance(message, ms.Quote):
            draft = core.book(Drafts).open.get(message.quote)
            # A submission has no name yet.
            asked = draft is not None and sender in draft.waiting
            return {(draft and draft.group) or group_id(site.name, core.state.next_group)} if asked else set()
        if isinstance(message, TurnCall):
            # Whoever waits at a site may be called by it; nothing else is said by a call.
            return {message.group} if sender in core.book(Reservations).told.get(message.group, {}) else set()
        if isinstance(message, OF_ALL):
            shared = {group.group for group, _ in core.parties.handed_to(sender)}
            shared |= {group_of(part) for part, _ in core.parties.taken_from(sender)}
            asked_room = core.book(MigrationBook).asked.get(message.room) if isinstance(message, RoomGrant) else None
            return shared | ({asked_room.group} if asked_room and asked_room.to == sender else set())
        part: SubgroupId | None = getattr(message, "subgroup", None)
        if part is None:
            return set()
        name = group_of(part)
        if origin_of(name) == sender:
            return {name}
        group = core.state.groups.get(name)
        found = group.subgroups.get(part) if group else None
        past = group.past.get(part) if group else None
        party = (found and found.site == sender) or (past and past.site == sender)
        return {name} if party else set()

    def _whose_turn_came(self, site: Site, effects: list[fx.Effect]) -> set[GroupId]:
        """The site's own groups that it calls as room comes: that is said by nobody."""
        placed = [one for one in records_of(effects) if isinstance(one, r.GroupPlaced)]
        # Of jobs that are moved the reason begins with that.
        late = [one for one in placed if f"their turn came at {site.name}" in one.decision.reason]
        return {GroupId(one.group) for one in late}

    def _judge(self, sender: SiteId, message: Any, effects: list[fx.Effect], concerned: set[GroupId]) -> None:
        said = f"{sender} said {str(message)[:400]}"
        for record in records_of(effects):
            if isinstance(record, ABOUT_NOBODY):
                continue
            if getattr(record, "site", None) == sender and not hasattr(record, "group"):
                continue
            assert concerned, f"{said}: {record}"
            if not isinstance(record, MOVES_AS_ROOM_COMES):
                name = getattr(record, "group", None) or group_of(record.subgroup)
                assert name in concerned, f"{said}: {record}"
        if not concerned:
            odd = [e for e in effects if not isinstance(e, (*IDLE, fx.Persist))]
            assert not odd, f"{said}: {odd}"

    # --- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """The liar falls silent; what it has no part in ends, each job once, and nothing has piled up."""
        for _ in range(200):
            for site in self.sites.values():
                site.obey_kills()
                site.end()
                for group in site.engine.core.state.groups.values():
                    if group.holding or any(part.holding for part in group.subgroups.values()):
                        site.release_jobs(group.group, settle=False)
            self.settle()
            self.pass_time(2.0)
            if not self._open():
                break
        assert not self._open(), f"not over: {self._open()}; {self.story()}"
        for site in self.sites.values():
            self._counted(site)
            self._bounded(site.engine)
            self._remembered(site)
        twice = {key: n for key, n in self.claims().items() if n > 1 and not self._may_repeat(GroupId(key[0]))}
        assert not twice, f"started twice: {twice}"

    def _may_repeat(self, name: GroupId) -> bool:
        """The liar's own work; and what users retried or had rerun, whose attempts count on."""
        if origin_of(name) == LIAR:
            return True
        group = self.sites[origin_of(name)].engine.core.state.groups[name]
        return bool(group.retried) or group.spec.on_crash == "rerun"

    def _open(self) -> list[GroupId]:
        """Groups the liar was never a party to that have no end."""
        found = []
        for site in self.sites.values():
            for group in site.engine.core.state.groups.values():
                if not group.state and LIAR not in group.spec.sites:
                    found.append(group.group)
        return found

    def _counted(self, site: Site) -> None:
        for group in site.engine.core.state.groups.values():
            live = len(group.unplaced) + sum(part.open_jobs() for part in group.subgroups.values())
            assert group.finished() + live == group.jobs, f"{group.group}: {group.finished()} + {live} of {group.jobs}"
            assert all(part.open_jobs() >= 0 for part in group.subgroups.values())

    def _bounded(self, engine: Engine) -> None:
        core = engine.core
        books = (core.book(MembershipTable), core.book(StageBook), core.book(Turns), core.book(Reservations))
        for holder in (core, core.view, core.timers, core.queues, *books):
            held = vars(holder) if hasattr(holder, "__dict__") else {n: getattr(holder, n) for n in holder.__slots__}
            for name, value in held.items():
                if isinstance(value, (dict, set, list)):
                    assert len(value) <= MOST_HELD, f"{type(holder).__name__}.{name} holds {len(value)}"

    def _remembered(self, site: Site) -> None:
        """The journal alone gives the state that stands."""
        journal = Journal(snapshot=None, seq=len(site.stored), at_s=self.now, records=list(site.stored))
        again = Engine.restore(journal, site=site.name, keyring=site.keyring, now=self.now)
        assert again.snapshot() == site.engine.snapshot(), f"{site.name}: its records give another state"


def live(seed: int, words: int, binding: str = "early") -> Counter[str]:
    """One life under so many lies; what became of them."""
    life = HostileLife(seed, binding)
    try:
        for _ in range(words):
            if life.rng.random() < 0.2:
                life.work()
            life.lie()
        life.close()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return life.tally
