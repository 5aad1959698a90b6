"""The hands every part of the engine works with: state, view, timers, and the effects of the event at hand."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

import msgspec

from diana.engine import fold, learning
from diana.engine.calendar import Calendar
from diana.engine.complaints import Complaints
from diana.engine.effects import Effect, LookUp, Notify, Persist, Reply, Send, Warn
from diana.engine.events import LookedUp
from diana.engine.guard import Guard
from diana.engine.lease_book import LeaseBook
from diana.engine.littles import Line
from diana.engine.membership.table import Members
from diana.engine.messages import Message, Progress
from diana.engine.migration_book import MigrationBook
from diana.engine.orders import Order
from diana.engine.parties import Parties
from diana.engine.predictions import Predictions
from diana.engine.queues import Queues
from diana.engine.records import Record
from diana.engine.recovery_messages import Holdings
from diana.engine.roster import Roster
from diana.engine.running_totals import Totals
from diana.engine.stagebook import StageBook
from diana.engine.state import CustodyKey, SiteState
from diana.engine.timers import TimerKey, Timers
from diana.engine.view import View
from diana.engine.workers import Workers
from diana.model.facts import Facts, FactsKey
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.urls import DEFAULT_ALLOWED

if TYPE_CHECKING:
    from diana.engine.chains import Chain
    from diana.engine.draft import Draft
    from diana.engine.gauges import Gauges
    from diana.engine.load import Given
    from diana.engine.queries import Query
    from diana.engine.surroundings import Keyring


class Ended:
    """Ends of one custody's runs that the LRM told and the journal does not have yet; told again if we crash."""

    __slots__ = ("facts", "flushed_s", "indices")

    def __init__(self) -> None:
        self.facts: list[Facts] = []
        self.indices: set[int] = set()
        self.flushed_s = float("-inf")


class Context:
    """One site's working set. Only `persist` changes `state`; everything else here is volatile."""

    def __init__(self, site: SiteId, state: SiteState, keyring: Keyring, now: float) -> None:
        self.site = site
        self.state = state
        self.keyring = keyring
        self.now = self.started_at_s = now
        self.view = View(state.links, lambda: self.now)
        self.roster = Roster(site, self.view, lambda: self.state.settings.default_bytes_per_s)
        self.members = Members(site)
        self.timers = Timers()
        self.queues = Queues(state.settings, state.service)
        self.line = Line(now)
        self.leases = LeaseBook(state.settings.lease_s if state.generation else 0.0)
        self.migration = MigrationBook(state.settings, now)
        self.predictions = Predictions()
        self.guard = Guard()
        self.queries: dict[int, Query] = {}
        """What clients asked that other sites must answer first."""
        self.requeue: set[CustodyKey] = set()
        """Custodies whose waiting jobs changed; counted anew when the event at hand is through."""
        self.started_s: dict[CustodyKey, dict[int, float]] = {}
        """When each run was given to the LRM, as far as this run of the node knows."""
        self.run_s: dict[CustodyKey, float] = {}
        """Mean run time of a custody's jobs here, learned."""
        self.expected: dict[str, float] = {}
        """Per template and user: the learned run time that waiting work is counted with."""
        self.totals = Totals(state, lambda custody: learning.expected_s(self, custody), now)
        self.held: tuple[tuple[float, int, int], Given] | None = None
        """What the LRM holds, as `load.held` counted it last, and when nothing had changed since."""
        self.parties = Parties(site, state)
        self.gauges: Gauges | None = None
        """From the first time that somebody asks for figures."""
        self.effects: list[Effect] = []
        self.workers = Workers(self.totals.runs, state, now)
        self.term = 0
        """Of the site's leadership, which all orders carry."""
        self.merges: set[CustodyKey] = set()
        """Waiting merge commands, which run on this very machine."""
        self.allowed_urls: tuple[str, ...] = DEFAULT_ALLOWED
        """Beginnings of the URLs that jobs may read here."""
        self.own_settings = state.settings
        """As the site's operator set them, before the VO's policy."""
        self.policy_changed = False
        self.banned: frozenset[SiteId] = frozenset()
        self.ledger_told: dict[SiteId, tuple[float, float, tuple[str, str]]] = {}
        """When a site was last told of the ledger here, how long until again, and of which two digests."""
        self.calendar = Calendar()
        self.low_room = ""
        """Why no new work is taken just now; what runs still lands."""
        self.newest = True
        """The journal surely lacks nothing that it once held."""
        self.fallen = ""
        """Who knows that it does; nothing starts any more."""
        self.unproven = False
        """Nothing beside this boot's journal shows that it is the newest, or that it is not."""
        self.knew: frozenset[SiteId] = frozenset()
        """Peers that the journal knew when this boot began."""
        self.denied_by: set[SiteId] = set()
        """Peers that say that they know a later state, against what is shown here: their own jobs wait."""
        self.doubted = False
        """The store says so at the next start too, until everybody has spoken."""
        self.unsure = False
        """Nobody knows whether the journal is the newest this site had."""
        self.spoken: set[SiteId] = set()
        """Peers that have judged this boot's journal and found it whole."""
        self.fell: dict[SiteId, str] = {}
        """Peers whose journal is shorter than it was, and in which boot."""
        self.heard_seq: dict[SiteId, tuple[str, int]] = {}
        """How long a peer's journal was when it last spoke: db_uuid and records."""
        self.holdings: dict[SiteId, dict[int, Holdings]] = {}
        """Pages of what a peer holds, until all are here."""
        self.strangers: dict[SiteId, frozenset[GroupId]] = {}
        """Peers that a restored journal does not know, and the groups they say they have jobs of."""
        self.inventoried: set[str] = set()
        """Machines that have told this boot what they claimed."""
        self.ended: dict[CustodyKey, Ended] = {}
        self.progress: dict[SubgroupId, Progress] = {}
        """What destinations say they are doing."""
        self.lookups: dict[int, Callable[[LookedUp], None]] = {}
        """Ticket -> what to do when the stager has looked."""
        self.gathers: dict[int, tuple[FactsKey, SiteId]] = {}
        """Ticket -> which outputs come from where."""
        self.outputs_at: dict[FactsKey, tuple[str, IndexSet]] = {}
        """Outputs this site has collected and cannot gather: the machine they lie on, which is away, and whose they
        are."""
        self.registrations: dict[int, GroupId] = {}
        """Ticket -> whose outputs are being registered as a dataset."""
        self.dependents: dict[GroupId, list[GroupId]] = {}
        """Group -> those that are to come after it."""
        self.blocked: set[GroupId] = set()
        """Groups that wait for one that did not end well (`dependencies.py`)."""
        self.first_closed_s = -inf
        """No group here was closed before."""
        self.chains: list[Chain] = []
        """Submissions of several groups that are looked at and not accepted yet."""
        self.drafts: dict[int, Draft] = {}
        self.drafted: set[GroupId] = set()
        """Groups that were accepted and of which a draft is in the making."""
        self.staging = StageBook()
        self.staged_bytes: dict[CustodyKey, int] = {}
        """Brought here and not told yet."""
        self.avoid: dict[GroupId, dict[SiteId, float]] = {}
        """Sites that refused part of a group, and until when they are no candidates for it."""
        self.waiting_notes: dict[GroupId, str] = {}
        """Why a group's jobs cannot be placed just now."""
        self.to_place: set[GroupId] = set()
        self.to_check: set[GroupId] = set()
        """Groups the engine prices, or looks over for completion, when the event at hand is through."""
        self.moved: set[CustodyKey] = set()
        """Custodies of others whose progress changed since it was told."""
        self.tries: dict[TimerKey, int] = {}
        self.speaker = SiteId("")
        """Whose word is being handled; empty: nobody's."""
        self.complaints = Complaints()
        self.counters: dict[str, int] = {}
        self.next_ticket = 1
        self.summary_counter = 0

    # --- effects ---------------------------------------------------------------------------------

    def persist(self, record: Record) -> None:
        self.effects.append(Persist(record))
        fold.apply(self.state, record, self.site)
        self.totals.saw(record, self.now)
        self.parties.saw(record)
        if self.gauges is not None and not self.gauges.saw(record):
            self.gauges = None

    def send(self, to: SiteId, message: Message) -> None:
        if isinstance(message, Order):
            state = self.state
            message = msgspec.structs.replace(message, origin_db_uuid=state.db_uuid, origin_seq=state.seq)
        self.effects.append(Send(to, message))

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def reply(self, reply: Reply) -> None:
        self.effects.append(reply)

    def notify(self, group: GroupId) -> None:
        self.effects.append(Notify(group))

    def look_up(self, refs: tuple[str, ...], then: Callable[[LookedUp], None]) -> None:
        """Ask the stager what lies here of `refs`; `then` is handed its answer, as part of a later event."""
        ticket = self.ticket()
        self.lookups[ticket] = then
        self.effects.append(LookUp(ticket=ticket, refs=refs))

    def warn(self, text: str) -> None:
        """A peer's nonsense is ordinary input: counted, and told unless too much of it is; never an error."""
        self.count("nonsense")
        line = self.complaints.line(self.speaker, text, self.now)
        if line:
            self.effects.append(Warn(line))

    def count(self, what: str, by: int = 1) -> None:
        self.counters[what] = self.counters.get(what, 0) + by

    def drained(self) -> str:
        """Why the site takes no new work just now, by its operator's word; empty: it does."""
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
        """What `key` waited for has come."""
        self.timers.cancel(key)
        self.tries.pop(key, None)

    def ticket(self) -> int:
        self.next_ticket += 1
        return self.next_ticket - 1
