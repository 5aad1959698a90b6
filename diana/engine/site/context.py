"""The working set of one site, handed to every room: state, view, timers, and the effects of the event at hand.

A room that remembers more between two events keeps it in a *book*, a class of its own that `Context.book` finds by its
type; `engine.py` makes them all. So this file knows none of the rooms above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from diana.engine.journal import fold
from diana.engine.journal.effects import Effect, LookUp, Notify, Persist, Reply, Send, Warn
from diana.engine.journal.events import LookedUp
from diana.engine.journal.records import ORDERED, ControlIssued, Record
from diana.engine.journal.state import CustodyKey, SiteState
from diana.engine.machines.calendar import Calendar
from diana.engine.machines.machines import Workers
from diana.engine.messages.messages import Message, Prepare
from diana.engine.messages.orders import OriginOrder
from diana.engine.queue.littles import Line
from diana.engine.queue.queues import Queues
from diana.engine.site.complaints import Complaints
from diana.engine.site.parties import Parties
from diana.engine.site.roster import Roster
from diana.engine.site.run_book import RunBook
from diana.engine.site.running_totals import Totals
from diana.engine.site.surroundings import Keyring
from diana.engine.site.timers import TimerKey, Timers
from diana.engine.site.view import View
from diana.model.bygone import GroupOrder
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.job.urls import DEFAULT_ALLOWED
from diana.policy.allocation.ahead import Lookout, Outlook
from diana.policy.gang.policies import POLICIES, GangPolicy
from diana.policy.trust import seals

Book = TypeVar("Book")


class RecordWatcher(Protocol):
    """Somebody who is told of each folded record."""

    def saw(self, record: Record) -> bool:
        """Note the record; False: tell no more."""


class Context:
    """The working set of one site. Only `persist` changes `state`; everything else here is volatile."""

    def __init__(self, site: SiteId, state: SiteState, keyring: Keyring, now: float) -> None:
        self.site = site
        self.state = state
        self.keyring = keyring
        self.now = self.started_at_s = self.last_written_s = now
        self.view = View(state.links, lambda: self.now)
        self.roster = Roster(site, self.view, lambda: self.state.settings.default_bytes_per_s)
        self.timers = Timers()
        self.tries: dict[TimerKey, int] = {}
        """Times a timer was armed again by `back_off`."""
        self.queues = Queues(state.settings, state.service)
        self.line = Line(now, state.settings.migration_window_s)
        self.run_book = RunBook(state)
        self.totals = Totals(state, self.run_book.expected_s, now)
        self.parties = Parties(site, state)
        self.workers = Workers(self.totals.runs, state, now)
        self.calendar = Calendar()
        self.effects: list[Effect] = []
        self.own_words: list[Message] = []
        """Messages of this site to itself, taken in when the event at hand is through."""
        self.requeue: set[CustodyKey] = set()
        """Custodies whose waiting jobs changed; counted anew when the event at hand is through."""
        self.moved: set[CustodyKey] = set()
        """Custodies of others whose progress changed since it was told."""
        self.to_place: set[GroupId] = set()
        """Groups to price when the event at hand is through."""
        self.touched: set[GroupId] = set()
        """Groups that something happened to in the event at hand."""
        self.to_check: set[GroupId] = set()
        """Groups that may be complete; looked at when the event at hand is through."""
        self.to_pull: dict[tuple[GroupId, SiteId], str] = {}
        """(group, site) whose waiting jobs are called back when the event at hand is through -> why."""
        self.waiting_notes: dict[GroupId, str] = {}
        """Group -> why its jobs cannot be placed just now."""
        self.order: tuple[GroupId, GroupOrder] | None = None
        """The user's order at hand, until a record of its group has taken it along."""
        self.term = 0
        """Term of the site's leadership; every order carries it."""
        self.allowed_urls: tuple[str, ...] = DEFAULT_ALLOWED
        """Beginnings of the URLs that jobs may read here."""
        self.low_room = ""
        """Why no new work is taken just now; running jobs still land."""
        self.lookups: dict[int, Callable[[LookedUp], None]] = {}
        """Ticket -> what to do when the stager has looked."""
        self.speaker = SiteId("")
        """Peer whose word is being handled; empty: nobody's."""
        self.complaints = Complaints()
        self.watcher: RecordWatcher | None = None
        self.look_ahead: Callable[[Lookout], Outlook] | None = None
        """The driver's way to roll placements forward, a function of what it is given; None: it has none."""
        self.gang_policies: Mapping[str, GangPolicy] = POLICIES
        """Placements of gangs by name: the papers', and those that the operator installed."""
        self.counters: dict[str, int] = {}
        self.summary_counter = 0
        """Number of this site's latest word about itself."""
        self._next_ticket = 1
        self._sealed = (-1, b"")
        """Length of the journal when it was sealed last, and that seal."""
        self._books: dict[type, Any] = {}

    # --- books of the rooms ----------------------------------------------------------------------

    def keep(self, *books: object) -> None:
        """Take in the rooms' books, one of each type."""
        self._books.update((type(book), book) for book in books)

    def book(self, kind: type[Book]) -> Book:
        """Return the site's one book of this type."""
        found: Book = self._books[kind]
        return found

    # --- effects ---------------------------------------------------------------------------------

    def persist(self, record: Record) -> None:
        if self.order is not None and isinstance(record, ORDERED):
            group, order = self.order
            if group == (group_of(record.subgroup) if isinstance(record, ControlIssued) else record.group):
                record, self.order = msgspec.structs.replace(record, ordered=order), None
        self.effects.append(Persist(record))
        fold.apply(self.state, record, self.site)
        self.totals.saw(record, self.now)
        self.parties.saw(record)
        if self.watcher is not None and not self.watcher.saw(record):
            self.watcher = None

    def send(self, to: SiteId, message: Message) -> None:
        if isinstance(message, OriginOrder | Prepare):
            state = self.state
            message = msgspec.structs.replace(
                message, origin_db_uuid=state.db_uuid, origin_seq=state.seq, seal=self.seal()
            )
        if to == self.site:
            # A gang of several sites may have a component at home.
            self.own_words.append(message)
        else:
            self.effects.append(Send(to, message))

    def seal(self) -> bytes:
        """Seal the word how long this journal is now: whoever hears the length can show it again."""
        if self._sealed[0] != self.state.seq:
            self._sealed = (self.state.seq, self.seal_at(self.state.seq))
        return self._sealed[1]

    def seal_at(self, seq: int) -> bytes:
        """Seal the word of this boot that the journal has that many records."""
        state = self.state
        return seals.length(
            state.seal_key,
            site=self.site,
            db_uuid=state.db_uuid,
            former=state.former,
            generation=state.generation,
            boot_nonce=state.boot_nonce,
            seq=seq,
        )

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def reply(self, reply: Reply) -> None:
        self.effects.append(reply)

    def notify(self, group: GroupId) -> None:
        self.effects.append(Notify(group))
        self.touched.add(group)

    def look_up(self, refs: tuple[str, ...], then: Callable[[LookedUp], None], owner: str = "") -> None:
        """Ask the stager what lies here of `refs` for jobs of `owner`; `then` is handed its answer, as part of a later
        event."""
        ticket = self.ticket()
        self.lookups[ticket] = then
        self.effects.append(LookUp(ticket=ticket, refs=refs, owner=owner))

    def warn(self, text: str, machine: str = "") -> None:
        """Count a peer's nonsense, or that of a machine of this site, and log it unless there is too much of it. It is
        ordinary input, never an error."""
        self.count("nonsense")
        line = self.complaints.line(SiteId(f"machine {machine}") if machine else self.speaker, text, self.now)
        if line:
            self.effects.append(Warn(line, self.speaker, machine))

    def count(self, what: str, by: int = 1) -> None:
        self.counters[what] = self.counters.get(what, 0) + by

    def drained(self) -> str:
        """Return why the site takes no new work just now, by its operator's word; empty: it takes work."""
        return self.state.drained or self.calendar.closed

    # --- time ------------------------------------------------------------------------------------

    def after(self, key: TimerKey, seconds: float) -> None:
        self.timers.set(key, self.now + seconds)

    def back_off(self, key: TimerKey) -> None:
        """Arm `key` again, each time twice as far away, between the two resend settings."""
        settings = self.state.settings
        tries = self.tries.get(key, 0)
        self.tries[key] = tries + 1
        self.after(key, min(settings.resend_most_s, settings.resend_first_s * 2.0 ** min(tries, 30)))

    def settle(self, key: TimerKey) -> None:
        """Stop waiting by `key`, whose answer has come, and forget how often it was tried."""
        self.timers.cancel(key)
        self.tries.pop(key, None)

    def ticket(self) -> int:
        self._next_ticket += 1
        return self._next_ticket - 1
