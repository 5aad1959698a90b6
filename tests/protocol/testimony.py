"""A peer's word that a site's journal is an older copy, as a model with a site that lies (PROMISES section 2, "Database
lost or restored"; 5.5).

Three sites. The victim has a job of its own; a friend tells the truth; a liar says what harms, and shows any statement
of the victim's own that it ever heard, late or early. The victim seals each word about the length of its journal, so a
statement of another's making is not among those that can be shown. The victim's machine restarts with all it had, or
has an older copy put back, and the mark beside its journal is lost each time: with the mark nobody's word counts, and
nothing need be searched. The friend may be of a release that keeps no seals (`old_friend`), and restarts.

What the hand-over does besides is in `dbloss.py`, where the word that a journal fell is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.protocol.search import Step


class Statement(NamedTuple):
    """The victim's own word about its journal, under its seal."""

    name: int = 0
    """The journal's."""
    former: tuple[int, ...] = ()
    boot: int = 0
    generation: int = 0
    seq: int = 0


class Journal(NamedTuple):
    """The victim's database."""

    name: int = 0
    former: tuple[int, ...] = ()
    generation: int = 0
    seq: int = 0
    begun: tuple[int, ...] = (0,)
    """By generation: its length when that boot began."""
    started: bool = False
    """It knows that its own job was started."""
    held: bool = False
    """It was put back and says so: nothing of it starts unasked."""


class Memory(NamedTuple):
    """A peer's memory of the victim. `told` is as long a journal as it heard of; `shown` what it can show of that."""

    told: Statement = Statement()
    shown: Statement | None = None


class State(NamedTuple):
    j: Journal = Journal()
    boot: int = 0
    boot_seq: int = 0
    copy: Journal | None = None
    faults: int = 0
    waits: frozenset[str] = frozenset()
    """Peers whose word this boot's own job waits for."""
    denied: bool = False
    """True if an operator must speak first."""
    sure: bool = True
    """True if the mark shows that this boot's journal is the newest: then nobody's word counts."""
    friend: Memory = Memory()
    heard_by_liar: frozenset[Statement] = frozenset()
    whole: bool = True
    """Ghost: the journal has all that stood in it under its name."""
    starts: int = 0
    anew: str = ""
    """Ghost: how it started anew though its journal was whole."""


@dataclass(frozen=True)
class Rules:
    """The sentences. All hold; a mutant is the protocol without one."""

    needs_evidence: bool = True
    """The word that it fell starts a site anew only with a statement of its own."""
    evidence_is_later: bool = True
    """The statement is of a longer journal, or of a boot that the journal does not know;"""
    of_another_boot: bool = True
    """what it said itself in this boot shows nothing;"""
    of_this_name: bool = True
    """of the journal's name, or of one that it had later: what it said under a former name is over."""
    says_its_names: bool = True
    """A statement tells the names that the journal had before, so that it speaks also of these."""
    every_length_sealed: bool = True
    """Each word that tells a length has its seal, not the first one of a boot alone."""
    length_of_its_boot: bool = True
    """A length is held against that which the journal had when the same boot ended: it has grown since, perhaps from
    an older copy that nobody met."""
    seal_kept_with_length: bool = True
    """A peer writes the seal down with the length."""
    old_release_heard: bool = True
    """The word of a site whose release keeps no seals is evidence of nothing, and may be true: an operator decides."""
    no_way_back: bool = True
    """Whoever kept seals once is never taken for such a site."""


@dataclass(frozen=True)
class JournalWord:
    faults: int = 2
    records: int = 2
    rules: Rules = field(default_factory=Rules)
    old_friend: bool = False
    troubled: bool = True
    """False: nothing breaks any more and the operator is away."""

    def initial(self) -> State:
        return self.said(State(), first=True)

    def transitions(self, s: State) -> Iterator[Step[State]]:
        for name, after in self.moves(s):
            yield Step(name, after)

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        j = s.j
        if not (j.started or j.held or s.waits or s.denied):
            began = s._replace(j=j._replace(started=True, seq=j.seq + 1), starts=s.starts + 1)
            yield "the job is started", self.said(began)
        if self.troubled:
            yield from self.troubles(s)
        if "friend" in s.waits:
            yield from self.friend_speaks(s)
        yield from self.liar_speaks(s)

    # --- what goes wrong ---------------------------------------------------------------------------------

    def troubles(self, s: State) -> Iterator[tuple[str, State]]:
        if s.copy is None:
            yield "the database is copied", s._replace(copy=s.j)
        if s.j.seq < self.records * (1 + s.boot):
            yield "something else is written", self.said(s._replace(j=s.j._replace(seq=s.j.seq + 1)))
        kept = s.friend.shown if self.rules.seal_kept_with_length else None
        if s.friend.shown != kept:
            yield "the friend restarts", s._replace(friend=s.friend._replace(shown=kept))
        if s.faults < self.faults:
            more = s._replace(faults=s.faults + 1)
            yield "it restarts with all it had", self.booted(more, s.j)
            if s.copy is not None and s.copy != s.j:
                yield "the copy is put back", self.booted(more._replace(whole=False), s.copy)

    def booted(self, s: State, j: Journal) -> State:
        """A boot that cannot tell whether its journal is the newest. Its Hello is heard when it is answered."""
        opened = j._replace(generation=j.generation + 1, seq=j.seq + 1, begun=(*j.begun, j.seq))
        waits = frozenset({"friend", "liar"})
        s = s._replace(j=opened, boot=s.boot + 1, boot_seq=j.seq, waits=waits, denied=False, sure=False)
        return s._replace(heard_by_liar=s.heard_by_liar | {self.statement(s, s.boot_seq)})

    # --- what is said ------------------------------------------------------------------------------------

    def statement(self, s: State, seq: int) -> Statement:
        return Statement(s.j.name, s.j.former if self.rules.says_its_names else (), s.boot, s.j.generation, seq)

    def said(self, s: State, first: bool = False) -> State:
        """The victim tells both how long its journal is; a friend that found it fallen keeps what it knew."""
        if not first and s.waits:
            return s
        now = self.statement(s, s.boot_seq if first else s.j.seq)
        sealed = first or self.rules.every_length_sealed
        shown = now if sealed and not self.old_friend else s.friend.shown
        heard = s.heard_by_liar | ({now} if sealed else set())
        return s._replace(friend=Memory(now, shown), heard_by_liar=heard)

    def friend_speaks(self, s: State) -> Iterator[tuple[str, State]]:
        told, j = s.friend.told, s.j
        same = told.name == j.name
        fell = same and (told.generation >= j.generation or self.ended(s, told.generation) < told.seq)
        fell = fell or (not same and j.name in told.former)
        # A release of that time keeps a peer's former names by itself.
        fell = fell or (j.name != told.name and j.name < told.name)
        if fell:
            yield from self.hears_that_it_fell(s, "friend", s.friend.shown, old=self.old_friend)
        else:
            hello = self.statement(s, s.boot_seq)
            memory = Memory(hello, None if self.old_friend else hello)
            yield "the friend finds it whole", self.heard_out(s._replace(friend=memory), "friend")

    def liar_speaks(self, s: State) -> Iterator[tuple[str, State]]:
        """It may speak to each boot as often as it likes; it keeps seals, and may say that its release does not."""
        if not s.boot:
            return
        for shown in (None, *sorted(s.heard_by_liar)):
            yield from self.hears_that_it_fell(s, "liar", shown, old=False)
        if not self.rules.no_way_back:
            yield from self.hears_that_it_fell(s, "liar", None, old=True)

    def hears_that_it_fell(self, s: State, who: str, shown: Statement | None, old: bool) -> Iterator[tuple[str, State]]:
        if s.sure:
            return
        if (shown is not None and self.shows(s, shown)) or not self.rules.needs_evidence:
            # It holds what it has, under another name, and tells whoever comes.
            j = s.j._replace(name=s.boot, former=(*s.j.former, s.j.name), held=True, seq=s.j.seq + 1)
            anew = f"at the word of the {who}" if s.whole else s.anew
            fresh = s._replace(j=j, waits=frozenset(), denied=False, sure=True, whole=True, anew=anew)
            yield f"it starts anew at the word of the {who}, who shows {shown}", self.said(fresh, first=False)
        elif old and self.rules.old_release_heard:
            yield f"the {who} of an old release says that it fell", s._replace(denied=True)
        else:
            yield f"the {who} shows {shown}, which is nothing", self.heard_out(s, who)

    def shows(self, s: State, shown: Statement) -> bool:
        """True if that statement is of a later state than this journal."""
        j = s.j
        if not self.rules.evidence_is_later:
            return shown.name == j.name
        if shown.boot == s.boot and self.rules.of_another_boot:
            return False
        later = shown.generation >= j.generation or shown.seq > self.ended(s, shown.generation)
        if shown.name == j.name or not self.rules.of_this_name:
            return later
        return j.name in shown.former

    def ended(self, s: State, generation: int) -> int:
        """The length of this journal when that boot of it ended, as far as it knows."""
        if not self.rules.length_of_its_boot or generation + 1 >= len(s.j.begun):
            return s.boot_seq
        return s.j.begun[generation + 1]

    def heard_out(self, s: State, who: str) -> State:
        if who not in s.waits:
            return s
        after = s._replace(waits=s.waits - {who})
        return after if after.waits else self.said(after)


def no_whole_journal_starts_anew(s: State) -> str | None:
    """A lie takes nothing down."""
    return f"its journal was whole, and it started anew {s.anew}" if s.anew else None


def nothing_is_started_twice(s: State) -> str | None:
    """Promise 3: nor does the distrust of lies start anything twice."""
    return f"started {s.starts} times" if s.starts > 1 else None


HARMS = (no_whole_journal_starts_anew, nothing_is_started_twice)


def started_or_held_as_older(s: State) -> bool:
    """The job came to its start; or its site found out that the journal is an older copy and shows it."""
    return s.j.started or s.j.held
