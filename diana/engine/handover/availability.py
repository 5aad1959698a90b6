"""How often the machines of this site were there, and what follows for who leads it (SPEC D8).

Counted from the second machine on: one alone has no choice. What changes is written at once or, where much does, once a
minute; else all is written once an hour. A leader that starts counts what the journal says of the one before it: a
process that went without a word is a going of its machine, a planned hand-over is none. Where a machine that the new
leader has not met yet was meanwhile, nobody knows, and it is not counted.
"""

from __future__ import annotations

from diana.engine.journal.effects import HandOver, Reply, Warn
from diana.engine.journal.events import HandOverFailed, LeadLeft, PairStands
from diana.engine.journal.records import ContactsLearned
from diana.engine.site.context import Context
from diana.engine.site.timers import SiteTimer
from diana.model.presence import LeadGiven, Presence, RollCall, Whereabouts
from diana.model.views.views import Ok
from diana.policy import availability as rule

WRITTEN_EVERY_S = 3600.0
WRITTEN_AT_LEAST_AFTER_S = 60.0
"""Seconds between two writes of machines that come and go."""
SHORT_S = 2.0
"""A machine that is back sooner did not go: its link was dialled anew."""
LOOK_EVERY_S = 10.0
"""Seconds between two looks at who ought to lead, while a standby is in sync."""
AGAIN_S = 600.0
"""Seconds until a hand-over that came to nothing is tried again."""

_TIMER = SiteTimer("availability")


class Attendance:
    """Counts that the journal lacks yet, and the node's words on the pair."""

    def __init__(self) -> None:
        self.presences: dict[str, Presence] = {}
        self.changed: dict[str, None] = {}
        """Machines whose figures are to be written soon."""
        self.written_s = 0.0
        self.left_s: dict[str, float] = {}
        """Machine -> when it went away."""
        self.was_here: dict[str, None] = {}
        """Machines that were here when this leader's predecessor wrote last, and were not met since."""
        self.process = ""
        self.standby = ""
        self.in_sync_s = -1.0
        """Site time since which the standby is in sync; negative: it is not."""
        self.not_before_s = 0.0
        self.proposed = ""
        """Machine that was proposed in the log."""


def begin(core: Context, process: str) -> None:
    """Begin when the node starts. `process`: its identity; one that only began anew did not go."""
    book, state, own = core.book(Attendance), core.state, core.workers.own
    book.process = process
    if not state.presences:
        return
    same = bool(process) and state.led == own and state.led_process == process
    last_s = core.now if same else max(core.last_written_s, max(one.at_s for one in state.presences.values()))
    for name, presence in sorted(state.presences.items()):
        before = rule.counted(presence, min(last_s, core.now))
        if name == state.led and name == own:
            book.presences[name] = _own_again(core, before, went=not same)
        elif name == own:
            book.presences[name] = rule.turned(rule.counted(before, core.now), core.now, "here")
        elif name == state.led and state.handed_to != own:
            book.presences[name] = rule.counted(rule.turned(before, before.at_s, "away", 1.0), core.now)
        elif before.standing == "away":
            book.presences[name] = rule.counted(before, core.now)
        else:
            book.was_here[name] = None
            book.presences[name] = rule.counted(rule.turned(before, before.at_s, "unknown"), core.now)
    if own not in book.presences:
        book.presences[own] = Presence(machine=own, at_s=core.now, standing="here")
    _write(core, book.presences)


def _own_again(core: Context, before: Presence, *, went: bool) -> Presence:
    """Count the time in which nobody led. Its first hour is not counted: so old may be what was written last."""
    if not went:
        return rule.turned(before, core.now, "here")
    unsure_until_s = min(core.now, before.at_s + WRITTEN_EVERY_S)
    gone = rule.turned(before, before.at_s, "unknown", 1.0)
    gone = rule.turned(gone, unsure_until_s, "away")
    return rule.turned(gone, core.now, "here")


# --- machines come and go ------------------------------------------------------------------------------------


def came(core: Context, name: str, cluster: bool) -> None:
    """Count a machine as here. A batch system is no machine that could lead."""
    book, own = core.book(Attendance), core.workers.own
    if cluster or (not book.presences and name == own):
        return
    book.was_here.pop(name, None)
    _own_counts(core)
    presence = book.presences.get(name)
    if presence is not None and presence.standing == "here":
        return
    left_s = book.left_s.pop(name, None)
    blinked = left_s is not None and core.now - left_s < SHORT_S
    _turn(core, name, "here", -1.0 if blinked else 0.0)


def _own_counts(core: Context) -> None:
    book, own = core.book(Attendance), core.workers.own
    if own not in book.presences:
        book.presences[own] = Presence(machine=own, at_s=core.now, standing="here")
        book.changed[own] = None


def went(core: Context, name: str) -> None:
    book = core.book(Attendance)
    presence = book.presences.get(name)
    if presence is not None and presence.standing == "here" and name != core.workers.own:
        book.left_s[name] = core.now
        _turn(core, name, "away", 1.0)


def not_met(core: Context, name: str) -> None:
    """Count as gone, since this leader began, a machine that was here before and did not come to it."""
    book = core.book(Attendance)
    if name in book.was_here:
        del book.was_here[name]
        book.presences[name] = rule.turned(book.presences[name], core.started_at_s, "away", 1.0)
        _turn(core, name, "away")


def removed(core: Context, name: str) -> None:
    book = core.book(Attendance)
    for one in (book.presences, book.changed, book.left_s, book.was_here):
        one.pop(name, None)


def _turn(core: Context, name: str, standing: Whereabouts, going: float = 0.0) -> None:
    book = core.book(Attendance)
    before = book.presences.get(name) or Presence(machine=name, at_s=core.now)
    book.presences[name] = rule.turned(before, core.now, standing, going)
    book.changed[name] = None
    # All that could ever have been elected count for a majority, so a new one is written at once.
    if name not in core.state.presences or core.now >= book.written_s + WRITTEN_AT_LEAST_AFTER_S:
        _write(core, book.changed)
    _arm(core)


def _write(core: Context, names: dict[str, None] | dict[str, Presence]) -> None:
    book = core.book(Attendance)
    for name in names:
        book.presences[name] = rule.counted(book.presences[name], core.now)
    told = tuple(book.presences[name] for name in sorted(names))
    core.persist(ContactsLearned(machines=RollCall(led=core.workers.own, process=book.process, machines=told)))
    book.changed.clear()
    book.written_s = core.now
    _arm(core)


def _arm(core: Context) -> None:
    """Set the timer to the next write or look."""
    book = core.book(Attendance)
    due_s = book.written_s + (WRITTEN_AT_LEAST_AFTER_S if book.changed else WRITTEN_EVERY_S)
    if book.in_sync_s >= 0:
        due_s = min(due_s, core.now + LOOK_EVERY_S)
    core.timers.set(_TIMER, due_s)


def due(core: Context) -> None:
    """Write what is to be written, and look at who ought to lead."""
    book = core.book(Attendance)
    if book.presences and core.now >= book.written_s + WRITTEN_EVERY_S:
        _write(core, book.presences)
    elif book.changed and core.now >= book.written_s + WRITTEN_AT_LEAST_AFTER_S:
        _write(core, book.changed)
    _elect(core)
    _arm(core)


# --- who leads -----------------------------------------------------------------------------------------------


def pair_stands(core: Context, event: PairStands) -> None:
    """Take over what the node knows of the pair. Both machines are counted from then on, and a standby in sync is here
    also before it comes to work."""
    book, worker = core.book(Attendance), core.workers.find(event.standby)
    book.standby = event.standby
    if event.in_sync:
        came(core, event.standby, cluster=False)
    elif event.standby not in book.presences:
        _own_counts(core)
        _turn(core, event.standby, "unknown")
    elif worker is None or worker.session is None:
        went(core, event.standby)
    if not event.in_sync:
        book.in_sync_s = -1.0
    elif book.in_sync_s < 0:
        book.in_sync_s = core.now
    _arm(core)


def figures(core: Context) -> dict[str, Presence]:
    """Return machine -> its figures as of now."""
    return {name: rule.counted(one, core.now) for name, one in core.book(Attendance).presences.items()}


def verdict(core: Context) -> rule.Succession:
    """Return who ought to lead by the figures as of now, and why."""
    book = core.book(Attendance)
    if core.state.handed_s >= 0 and core.now < core.state.handed_s + rule.REST_S:
        return rule.Succession("", "the lead was given over within the last day")
    return rule.successor(figures(core), core.workers.own, book.standby, book.in_sync_s >= 0)


def stand_in(core: Context) -> str:
    """Return the machine that ought to stand by; empty: there is none, or nothing is counted."""
    return rule.stand_in(figures(core), core.workers.own, core.book(Attendance).standby)


def _elect(core: Context) -> None:
    book = core.book(Attendance)
    settled = book.in_sync_s >= 0 and core.now - max(book.in_sync_s, core.started_at_s) >= rule.SETTLED_S
    if not settled or core.now < book.not_before_s:
        return
    found = verdict(core)
    if not found.to:
        return
    if core.state.settings.elect:
        book.not_before_s = core.now + AGAIN_S
        _write(core, book.presences)
        core.persist(ContactsLearned(lead=LeadGiven(to=found.to, at_s=core.now, why=found.why)))
        core.emit(Warn(f"hands over to {found.to}: {found.why}"))
        core.emit(HandOver(found.to))
    elif found.to != book.proposed:
        book.proposed = found.to
        core.emit(Warn(f"{found.why}; hand over with: diana site promote"))


def lead_left(core: Context, event: LeadLeft) -> None:
    """Note that an operator has this machine hand over."""
    if core.book(Attendance).presences:
        core.persist(ContactsLearned(lead=LeadGiven(to=event.to, at_s=core.now, why="an operator said so")))
    core.reply(Reply(event.request, Ok(0)))


def hand_over_failed(core: Context, event: HandOverFailed) -> None:
    """Go on leading."""
    book = core.book(Attendance)
    book.not_before_s = core.now + AGAIN_S
    if core.state.handed_to:
        core.persist(ContactsLearned(lead=LeadGiven(to="", at_s=core.now, why=event.error)))
    core.emit(Warn(f"the hand-over came to nothing: {event.error}"))
