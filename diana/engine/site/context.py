"""The working set that all parts of the engine share: state, view, timers, and the effects of the event at hand."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

import msgspec

from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch.lease_book import LeaseBook
from diana.engine.dispatch.predictions import Predictions
from diana.engine.guard.guard import Guard
from diana.engine.journal import fold
from diana.engine.journal.effects import Effect, LookUp, Notify, Persist, Reply, Send, Warn
from diana.engine.journal.events import LookedUp
from diana.engine.journal.records import Record
from diana.engine.journal.state import CustodyKey, SiteState
from diana.engine.machines.calendar import Calendar
from diana.engine.machines.machines import Workers
from diana.engine.membership.table import Members
from diana.engine.messages.messages import Message, Progress
from diana.engine.messages.orders import Order
from diana.engine.messages.recovery import Holdings
from diana.engine.migration.table import MigrationBook
from diana.engine.queue.littles import Line
from diana.engine.queue.queues import Queues
from diana.engine.site import run_times
from diana.engine.site.complaints import Complaints
from diana.engine.site.parties import Parties
from diana.engine.site.roster import Roster
from diana.engine.site.running_totals import Totals
from diana.engine.site.timers import TimerKey, Timers
from diana.engine.site.view import View
from diana.model.facts import Facts, FactsKey
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.urls import DEFAULT_ALLOWED

if TYPE_CHECKING:
    from diana.engine.dispatch.capacity import Given
    from diana.engine.groups.chains import Chain
    from diana.engine.placement.draft import Draft
    from diana.engine.site.surroundings import Keyring
    from diana.engine.views.gauges import Gauges
    from diana.engine.views.queries import Query


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
        """Questions of clients that other sites must answer first, by number."""
        self.requeue: set[CustodyKey] = set()
        """Custodies whose waiting jobs changed; counted anew when the event at hand is through."""
        self.started_s: dict[CustodyKey, dict[int, float]] = {}
        """Site time at which each job was given to the LRM, as far as this run of the node knows."""
        self.run_s: dict[CustodyKey, float] = {}
        """Mean run time of a custody's jobs here, learned."""
        self.expected: dict[str, float] = {}
        """Per template and user: the learned run time that waiting work is counted with."""
        self.totals = Totals(state, lambda custody: run_times.expected_s(self, custody), now)
        self.held: tuple[tuple[float, int, int], Given] | None = None
        """The jobs the LRM holds, as `load.held` last counted them; the first part stamps the state they are valid
        for."""
        self.parties = Parties(site, state)
        self.gauges: Gauges | None = None
        """Counts for those who watch the site; None while nobody asks for figures."""
        self.effects: list[Effect] = []
        self.workers = Workers(self.totals.runs, state, now)
        self.term = 0
        """The term of the site's leadership; every order to a worker carries it. 0: a site without a standby."""
        self.merges: set[CustodyKey] = set()
        """Custodies of waiting merge commands, which run on this very machine."""
        self.allowed_urls: tuple[str, ...] = DEFAULT_ALLOWED
        """Beginnings of the URLs that jobs may read here."""
        self.own_settings = state.settings
        """Settings as the site's operator made them, before the VO's policy."""
        self.policy_changed = False
        self.banned: frozenset[SiteId] = frozenset()
        self.ledger_told: dict[SiteId, tuple[float, float, tuple[str, str]]] = {}
        """Per peer: when it was last told of the ledger here, seconds until it is told again, and (its, this site's)
        digest of then."""
        self.calendar = Calendar()
        self.low_room = ""
        """Line saying which disk is short: no new work is taken, running jobs may still end. Empty: there is room."""
        self.newest = True
        """True if the journal surely lacks nothing that it once held."""
        self.fallen = ""
        """Word of a peer or spawner that the journal is an older copy: nothing starts any more. Empty: there is
        none."""
        self.doubted = False
        """True if the store could not show that its journal is the newest, until all known peers have spoken: before
        that the next start doubts it too."""
        self.unsure = False
        """True while nobody knows whether the journal is the newest this site had, and peers are waited for."""
        self.spoken: set[SiteId] = set()
        """Peers that found this boot's journal whole, or whose word an operator no longer waits for."""
        self.fell: dict[SiteId, str] = {}
        """Peers that came back with a shorter journal -> the nonce of that boot."""
        self.heard_seq: dict[SiteId, tuple[str, int]] = {}
        """Per peer (db_uuid, records): the length its journal is known to have had when it last spoke."""
        self.holdings: dict[SiteId, dict[int, Holdings]] = {}
        """Per peer, the pages of its report of what it holds, by number, until all are here."""
        self.inventoried: set[str] = set()
        """Machines that have told this boot what they claimed."""
        self.ended: dict[CustodyKey, Ended] = {}
        self.progress: dict[SubgroupId, Progress] = {}
        """The latest progress that the destination of each subgroup told."""
        self.lookups: dict[int, Callable[[LookedUp], None]] = {}
        """Ticket -> what to do when the stager has looked."""
        self.gathers: dict[int, tuple[FactsKey, SiteId]] = {}
        """Ticket -> (outputs being gathered, the site they come from)."""
        self.outputs_at: dict[FactsKey, tuple[str, IndexSet]] = {}
        """Outputs this site has collected and cannot gather -> (the absent machine they lie on, the jobs they are
        of)."""
        self.registrations: dict[int, GroupId] = {}
        """Ticket -> the group whose outputs are being registered as a dataset."""
        self.dependents: dict[GroupId, list[GroupId]] = {}
        """Group -> those that are to come after it."""
        self.blocked: set[GroupId] = set()
        """Groups that wait for one that did not end well (`dependencies.py`)."""
        self.first_closed_s = -inf
        """Site time before which no group here was closed."""
        self.chains: list[Chain] = []
        """Submissions of several groups that are looked at and not accepted yet."""
        self.drafts: dict[int, Draft] = {}
        self.drafted: set[GroupId] = set()
        """Accepted groups of which a draft is in the making."""
        self.staging = StageBook()
        self.staged_bytes: dict[CustodyKey, int] = {}
        """Bytes staged in for each custody and not reported yet."""
        self.avoid: dict[GroupId, dict[SiteId, float]] = {}
        """Sites that refused part of a group, and until when they are no candidates for it."""
        self.waiting_notes: dict[GroupId, str] = {}
        """Per group, why its jobs cannot be placed just now."""
        self.to_place: set[GroupId] = set()
        self.to_check: set[GroupId] = set()
        """Groups that are priced (`to_place`) or looked over for completion (`to_check`) when the event at hand is
        through."""
        self.moved: set[CustodyKey] = set()
        """Custodies of others whose progress changed since it was told."""
        self.tries: dict[TimerKey, int] = {}
        self.speaker = SiteId("")
        """The peer whose message is being handled; empty: none is."""
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
        """Count a peer's nonsense, and log it unless there is too much of it. It is ordinary input, never an error."""
        self.count("nonsense")
        line = self.complaints.line(self.speaker, text, self.now)
        if line:
            self.effects.append(Warn(line))

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
        self.next_ticket += 1
        return self.next_ticket - 1
