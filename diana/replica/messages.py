"""Inputs and outputs of a replica's state machine: events in, effects out, messages between the two replicas, durable
state.

The names are those of PROMISES section 2 "Standby" and of tests/protocol/standby*.py. An *entry* is one transaction of
the journal; its *index* is the journal's seq after it, and it belongs to the *term* of the leader that made it. The
entries themselves (payloads) never pass through the machine except in `Append` and `StoreEntry`, as opaque bytes.

What a driver owes, in one place:

- Effects are carried out in order. `SaveState` is durable (fsynced) before the next effect of the list is begun.
- `Saved` lies outside the journal's file (a seed replaces that file, a promise must outlive it). A disk without a
  `Saved`, or without a journal, is a new one: both begin anew, the journal under a new `replica_uuid`.
- `now` is seconds of one monotonic clock that goes on while the machine sleeps; each replica has its own.
- Messages of one link arrive in order or the link is lost; after `LinkLost` come `LinkUp` and new messages.
- What the engine wants done leaves only if `Replica.may_act(now, seq)` says so at that very moment, `seq` being that of
  the last record it rests on (a read rests on the last record committed before it).
- Every `AskWitness` is answered by one `WitnessSaid` or `WitnessAway`; late ones and doubles do no harm.
"""

from __future__ import annotations

import msgspec

from diana.model.trust.register import Copy, Register

MOST_STARTS = 64
"""Most beginnings of terms remembered in a log; a follower whose history is older gets a copy of the whole journal."""


class TermStart(msgspec.Struct, frozen=True):
    """The first entry of a term in a log."""

    seq: int
    """Seq of the first journal record in that entry."""
    term: int


class Log(msgspec.Struct, frozen=True):
    """The shape of a journal: its end, and the terms of its parts. Two logs with the same term at the same seq are
    equal up to there."""

    last: int = 0
    """Seq of the last entry; 0: empty."""
    starts: tuple[TermStart, ...] = ()
    """Beginnings of terms, rising in seq and term. Entries before the first are of term 0, made before there was a
    standby; or of unknown terms (`forgotten`)."""
    forgotten: bool = False
    """True if older starts were dropped: entries before the first are of unknown terms."""
    history: str = ""
    """The journal's db_uuid: journals of different ones are never a beginning of each other."""

    def term_at(self, seq: int) -> int:
        """The term of the entry that ends at or covers `seq`; 0: before the first known; -1: forgotten."""
        for start in reversed(self.starts):
            if start.seq <= seq:
                return start.term
        return -1 if self.forgotten and seq > 0 else 0

    def cut(self, last: int) -> Log:
        """Return the log without the entries after the one that ends at `last`."""
        starts = tuple(start for start in self.starts if start.seq <= last)
        return Log(min(self.last, last), starts, self.forgotten, self.history)

    def grown(self, first: int, last: int, term: int) -> Log:
        """Return the log with one more entry, which covers first..last."""
        starts, forgotten = self.starts, self.forgotten
        if not starts or starts[-1].term != term:
            starts = (*starts, TermStart(first, term))
        if len(starts) > MOST_STARTS:
            starts, forgotten = starts[-MOST_STARTS:], True
        return Log(last, starts, forgotten, self.history)


def common(one: Log, two: Log) -> int:
    """Return the seq up to which the logs are surely equal. Equal seq and term mean an equal past, because each term
    has one leader, which writes each seq once."""
    if one.history != two.history:
        return 0
    seq = min(one.last, two.last)
    while seq > 0:
        terms = (one.term_at(seq), two.term_at(seq))
        if -1 in terms:
            return 0
        if terms[0] == terms[1]:
            return seq
        newer = one if terms[0] > terms[1] else two
        seq = min(seq, max(start.seq for start in newer.starts if start.seq <= seq)) - 1
    return 0


def begins(beginning: Log, whole: Log) -> bool:
    """True if `beginning` is a prefix of `whole`."""
    return beginning.history == whole.history and common(beginning, whole) == beginning.last


class Saved(msgspec.Struct, frozen=True):
    """The machine's durable state."""

    term: int = 0
    """The highest term followed, asked for or led; a lower one is never followed."""
    led: int = 0
    """The highest term led."""
    founder: bool = False
    """True if this replica had the journal before the site had a standby: it alone may make the first register."""
    taken_by_force: int = 0
    """Highest term asked for by an operator's force; see `Lead.history_term`."""
    register: Register | None = None
    """The register as last seen. Where no witness is configured, this is the register."""


# --- messages between the replicas -----------------------------------------------------------------------


class Beat(msgspec.Struct, frozen=True, tag=True):
    """Leader to follower: I lead, this is my log, grant me a lease."""

    term: int
    to: str
    """Replica uuid of the copy spoken to; empty: whichever it is."""
    sent_s: float
    """Time of sending by the leader's clock; echoed, so that the lease counts from it."""
    log: Log
    register: Register


class Append(msgspec.Struct, frozen=True, tag=True):
    """Leader to follower: the entry after `after`."""

    term: int
    """The leader's present term."""
    to: str
    """Replica uuid of the copy it is for."""
    after: int
    """Seq of the entry before this one."""
    after_term: int
    """Term of the entry before this one (0: none, or before all terms)."""
    seq: int
    of_term: int
    """Term of the leader that made the entry."""
    payload: bytes = b""


class Ack(msgspec.Struct, frozen=True, tag=True):
    """Follower to leader: so much of your log is on my disk; with `granted_s`, your lease is granted."""

    term: int
    copy: Copy
    fsynced: int
    """Seq up to which the leader's log is on this disk."""
    log: Log
    """The follower's own log, whether or not it agrees with the leader's."""
    granted_s: float | None = None
    """The `sent_s` of the beat this answers."""
    beat_last: int = 0
    """`log.last` of that beat: entries shipped before it have arrived or are lost."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Answer to a leader whose term is over: a higher one was followed or asked for."""

    term: int


class HandedOver(msgspec.Struct, frozen=True, tag=True):
    """The leader of `register.term` - 1 handed over, acts no more and gives back its lease."""

    register: Register


Message = Beat | Append | Ack | Refused | HandedOver


# --- events ------------------------------------------------------------------------------------------------


class Appended(msgspec.Struct, frozen=True):
    """Leader: the engine's next transaction is `first`..`seq` and is being written (not yet durable). Told in order;
    the journal keeps it under the term that `Replica.term` has at this call."""

    first: int
    seq: int


class Fsynced(msgspec.Struct, frozen=True):
    """The journal is durable up to and with `seq`: leader's entries as well as those of `StoreEntry`."""

    seq: int


class Received(msgspec.Struct, frozen=True):
    message: Message


class LinkUp(msgspec.Struct, frozen=True):
    """The other replica can be reached; earlier messages may be lost."""


class LinkLost(msgspec.Struct, frozen=True):
    """The connection to the other replica ended."""


class WitnessSaid(msgspec.Struct, frozen=True):
    """The register after an `AskWitness`, whether changed by it or not. None: nothing was ever recorded."""

    register: Register | None


class WitnessAway(msgspec.Struct, frozen=True):
    """The witness did not answer; the question may yet have reached it."""


class Tick(msgspec.Struct, frozen=True):
    """The deadline has come."""


class Holds(msgspec.Struct, frozen=True):
    """Leader: the driver can ship every entry after `after`."""

    after: int


class Minted(msgspec.Struct, frozen=True):
    """The journal's db_uuid is a new one, as `Lead.history_term` asked for."""

    history: str


class SeedEnded(msgspec.Struct, frozen=True):
    """Leader: the copying ordered by `Seed` has ended, well or not."""


class Seeded(msgspec.Struct, frozen=True):
    """Follower: a whole copy of the leader's journal was installed, atomically, as `log` under `replica_uuid`. Only
    after `Replica.may_seed(term)` said yes, and with no other event between."""

    replica_uuid: str
    log: Log


class EntriesDropped(msgspec.Struct, frozen=True):
    """Follower: of the entries given to `StoreEntry`, none after the one that ends at `after` was written or will be.
    That one may still be under way."""

    after: int


class ForceTakeover(msgspec.Struct, frozen=True):
    """An operator: lead, though not recorded in sync; the other is stopped. Answered."""

    request: int


class Promote(msgspec.Struct, frozen=True):
    """An operator, to the leader: hand over to the other replica in an orderly way. Answered."""

    request: int


class RemoveStandby(msgspec.Struct, frozen=True):
    """An operator, to the leader: record that this replica is alone, and take nobody back. Answered when recorded."""

    request: int


Event = (
    Appended
    | Fsynced
    | Received
    | LinkUp
    | LinkLost
    | WitnessSaid
    | WitnessAway
    | Tick
    | Holds
    | Minted
    | SeedEnded
    | Seeded
    | EntriesDropped
    | ForceTakeover
    | Promote
    | RemoveStandby
)


# --- effects -----------------------------------------------------------------------------------------------


class SaveState(msgspec.Struct, frozen=True):
    """Make this durable before the next effect."""

    saved: Saved


class Say(msgspec.Struct, frozen=True):
    """Send this to the other replica, at best effort."""

    message: Message


class Ship(msgspec.Struct, frozen=True):
    """Leader: send each entry in (after, up_to] as an `Append` of `term` to the copy `to`, in order; `Log.term_at` of
    the machine's log gives `of_term` and `after_term`."""

    term: int
    to: str
    after: int
    up_to: int


class StoreEntry(msgspec.Struct, frozen=True):
    """Follower: append this entry to the journal, with its `of_term`; say `Fsynced(entry.seq)` when it is durable."""

    entry: Append


class Seed(msgspec.Struct, frozen=True):
    """Leader: copy the whole journal to the other replica, whose own is no beginning of it or lags too far; say
    `SeedEnded`. At most one runs."""

    term: int
    to: Copy


class AskWitness(msgspec.Struct, frozen=True):
    """Compare-and-set the register from the version `expect_term`; `register` None: only read it."""

    expect_term: int
    register: Register | None


class ReleaseUpTo(msgspec.Struct, frozen=True):
    """Effects that rest on entries up to `seq` may leave, if `may_act` agrees at that moment. Repeated when a lapsed
    lease stands again."""

    seq: int


class Lead(msgspec.Struct, frozen=True):
    """This replica leads in `term`: open an engine over the journal and greet the workers under `term`. A driver that
    makes a new process of itself for that hands `Replica.register` to its `won`."""

    term: int
    forced: bool
    """True: ask all workers which jobs they started, not only the workers the journal names."""
    history_term: int
    """Not 0: other copies of this history were given up. Unless the journal's db_uuid was minted for this very term
    already, mint a new one before anything is sent, and report `Minted`."""


class TermRose(msgspec.Struct, frozen=True):
    """The leader goes on under a higher term, since the standby came or went: greet the workers anew. Entries appended
    from now on are of this term."""

    term: int


class StepDown(msgspec.Struct, frozen=True):
    """Act no more, answer nobody, begin anew as a follower (a new process). The machine answers nothing after it."""

    reason: str


class HoldIntake(msgspec.Struct, frozen=True):
    """Leader: take no new work (`on`), because a hand-over is coming; or take it again."""

    on: bool


class Answered(msgspec.Struct, frozen=True):
    """Answer to an operator's event."""

    request: int
    error: str
    """Empty: done. Else one line: the fault, its place, the mend."""


Effect = (
    SaveState
    | Say
    | Ship
    | StoreEntry
    | Seed
    | AskWitness
    | ReleaseUpTo
    | Lead
    | TermRose
    | StepDown
    | HoldIntake
    | Answered
)
