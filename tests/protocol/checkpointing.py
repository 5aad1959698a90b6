"""Stops at a checkpoint as a model: the components of a gang stop, their files come home, and the next attempt begins
where the last whole checkpoint ends (SPEC G6; docs/decisions/handover.md). An ordinary job is a gang of one.

One origin, a gang of two, each component at a site of its own; attempts are numbered. An attempt is placed by one
record (claims and GO are another model's, `claiming`), runs at each site from when that hears of it, and is over at
each site on its own. A component stops with its files, or without (its program wrote half of them), or is deaf. What
has stopped may be lost with its site before its files are home. What both sides keep is durable, so a crash takes only
what a mutant said before it kept it. Messages are never forgotten while they can matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from tests.protocol.search import Step

Known = Literal["open", "stopped", "closed"]
Files = Literal["-", "coming", "home", "lost"]
Phase = Literal["none", "runs", "stopped", "bare", "killed"]
BOTH = (0, 1)
NONE: tuple[Files, ...] = ("-", "-")


class Said(NamedTuple):
    """A message about one component of one attempt."""

    what: Literal["GO", "SAVE", "KILL", "STOPPED", "BARE", "CLOSED"]
    attempt: int
    at: int


class State(NamedTuple):
    """Everything at one instant."""

    attempt: int = 1
    known: tuple[Known, ...] = ("open", "open")
    """The origin's word on the components of the latest attempt."""
    asked: bool = False
    gives_up: bool = False
    """The origin ends what did not stop with the others."""
    files: tuple[tuple[Files, ...], ...] = (NONE,)
    """By attempt: what became of each component's files."""
    whole: tuple[int, ...] = (0, 0)
    """The attempts whose files the next one begins from; 0: it begins anew."""
    rows: tuple[tuple[Phase, ...], ...] = (("none", "none"),)
    """By attempt: each component at its site."""
    network: frozenset[Said] = frozenset()
    lost_work: int = 0
    """Ghost: an attempt that was whole, or still to be, when a later one began before it."""


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    all_over_first: bool = True
    """The gang is placed anew when all components of the attempt before are over;"""
    ended_first: bool = True
    """those that do not stop are ended first, and have said so."""
    names_attempt: bool = True
    """STOPPED names the attempt."""
    kept_first: bool = True
    """A site keeps the end of an attempt before it speaks of it."""
    tombstone: bool = True
    """KILL of what never began there leaves a tombstone. A late GO meets it."""
    all_parts: bool = True
    """A checkpoint counts when the files of all components are home,"""
    one_attempt: bool = True
    """and all of one attempt."""
    waits_for_files: bool = True
    """The gang is not placed while files are on their way."""
    resent: bool = True
    """A word that is not answered is said again."""
    gives_up: bool = True
    """An origin waits for those that do not stop for a while, and not for ever."""


@dataclass(frozen=True)
class Checkpointing:
    """A gang of two, at most `attempts` of it."""

    attempts: int = 3
    rules: Rules = field(default_factory=Rules)
    asks: bool = True
    """False: the origin stops nothing any more."""
    deaf: bool = False
    """True: one of the components never stops of its own accord."""

    def initial(self) -> State:
        return self.normal(State())

    def quiet(self) -> Checkpointing:
        return replace(self, asks=False)

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            yield Step(name, self.normal(after))

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        yield from self.origin_acts(s)
        yield from self.sites_act(s)
        for said in s.network:
            yield from HEARS[said.what](self, s, said)

    # --- the origin ---------------------------------------------------------------------------------------

    def origin_acts(self, s: State) -> Iterator[tuple[str, State]]:
        if self.asks and not s.asked and s.attempt < self.attempts:
            yield f"the origin asks attempt {s.attempt} to save", s._replace(asked=True)
        some_over = any(known != "open" for known in s.known)
        if self.rules.gives_up and some_over and "open" in s.known and not s.gives_up:
            known = s.known if self.rules.ended_first else tuple(k if k != "open" else "closed" for k in s.known)
            yield "the origin ends what did not stop", s._replace(gives_up=True, known=known)
        for at in BOTH:
            if s.files[-1][at] == "coming":
                yield f"the files of {at} come home", self.home(s, at)
                yield f"the files of {at} are lost with its site", with_files(s, at, "lost")
        over = all(known != "open" for known in s.known) or (some_over and not self.rules.all_over_first)
        if over and s.attempt < self.attempts and not (self.rules.waits_for_files and "coming" in s.files[-1]):
            yield f"attempt {s.attempt + 1} is placed from {s.whole}", self.placed(s)

    def placed(self, s: State) -> State:
        coming = [n for n, files in enumerate(s.files, 1) if all(one in ("coming", "home") for one in files)]
        lost = next((n for n in coming if n > min(s.whole)), 0)
        return s._replace(
            attempt=s.attempt + 1,
            known=("open", "open"),
            asked=False,
            gives_up=False,
            files=(*s.files, NONE),
            rows=(*s.rows, ("none", "none")),
            lost_work=s.lost_work or lost,
        )

    def home(self, s: State, at: int) -> State:
        s, now = with_files(s, at, "home"), s.attempt
        if all(one == "home" for one in s.files[-1]):
            return s._replace(whole=(now, now))
        if not self.rules.all_parts:
            return s._replace(whole=tuple(now if i == at else old for i, old in enumerate(s.whole)))
        if not self.rules.one_attempt:
            latest = [max((n for n, f in enumerate(s.files, 1) if f[i] == "home"), default=0) for i in BOTH]
            return s._replace(whole=tuple(latest)) if all(latest) else s
        return s

    def hears_end(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        if said.attempt != s.attempt and self.rules.names_attempt:
            return
        if s.known[said.at] != "open" or (said.what == "CLOSED" and not s.gives_up):
            return
        known: Known = "closed" if said.what == "CLOSED" else "stopped"
        after = s._replace(known=put(s.known, said.at, known))
        if said.what == "STOPPED" and said.attempt == s.attempt:
            after = with_files(after, said.at, "coming")
        yield f"the origin hears {said.what} of {said.at}, attempt {said.attempt}", after

    # --- the sites ----------------------------------------------------------------------------------------

    def sites_act(self, s: State) -> Iterator[tuple[str, State]]:
        """The first that stops has the others stop, by the program's own means."""
        for n, row in enumerate(s.rows, 1):
            for at in BOTH:
                if row[at] == "runs" and row[1 - at] in ("stopped", "bare"):
                    yield from self.stops(s, n, at)

    def stops(self, s: State, attempt: int, at: int) -> Iterator[tuple[str, State]]:
        if self.deaf and at:
            return
        yield f"{at} of attempt {attempt} saves and stops", with_row(s, attempt, at, "stopped")
        yield f"{at} of attempt {attempt} stops with half of its files", with_row(s, attempt, at, "bare")
        if not self.rules.kept_first:
            told = s.network | {Said("STOPPED", attempt, at)}
            yield f"{at} of attempt {attempt} is told to have stopped, and is not", s._replace(network=told)

    def hears_go(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        if s.rows[said.attempt - 1][said.at] == "none":
            yield f"{said.at} of attempt {said.attempt} begins", with_row(s, said.attempt, said.at, "runs")

    def hears_save(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        if s.rows[said.attempt - 1][said.at] == "runs":
            yield from self.stops(s, said.attempt, said.at)

    def hears_kill(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        phase, name = s.rows[said.attempt - 1][said.at], f"{said.at} of attempt {said.attempt} is ended"
        if phase == "none" and not self.rules.tombstone:
            yield name, s._replace(network=s.network | {Said("CLOSED", said.attempt, said.at)})
        elif phase in ("none", "runs"):
            yield name, with_row(s, said.attempt, said.at, "killed")

    # --- normal form --------------------------------------------------------------------------------------

    def sends(self, s: State) -> Iterator[Said]:
        for at in BOTH:
            if s.known[at] == "open":
                yield Said("GO", s.attempt, at)
                if s.asked:
                    yield Said("SAVE", s.attempt, at)
            if s.gives_up:
                yield Said("KILL", s.attempt, at)
        for n, row in enumerate(s.rows, 1) if self.rules.resent else ():
            for at in BOTH:
                if row[at] in ENDS:
                    yield Said(ENDS[row[at]], n, at)

    def normal(self, s: State) -> State:
        said = {*s.network, *self.sends(s)}
        return s._replace(network=frozenset(m for m in said if self.can_matter(s, m)))

    def can_matter(self, s: State, m: Said) -> bool:
        phase = s.rows[m.attempt - 1][m.at]
        if m.what in ("GO", "KILL", "SAVE"):
            return phase in ("none", "runs")
        return not self.rules.names_attempt or (m.attempt == s.attempt and s.known[m.at] == "open")


ENDS: dict[Phase, Literal["STOPPED", "BARE", "CLOSED"]] = {"stopped": "STOPPED", "bare": "BARE", "killed": "CLOSED"}
HEARS: dict[str, Callable[[Checkpointing, State, Said], Iterator[tuple[str, State]]]] = {
    "GO": Checkpointing.hears_go,
    "SAVE": Checkpointing.hears_save,
    "KILL": Checkpointing.hears_kill,
    "STOPPED": Checkpointing.hears_end,
    "BARE": Checkpointing.hears_end,
    "CLOSED": Checkpointing.hears_end,
}


def put(some: tuple[Known, ...], at: int, known: Known) -> tuple[Known, ...]:
    return tuple(known if i == at else one for i, one in enumerate(some))


def with_files(s: State, at: int, files: Files) -> State:
    last = tuple(files if i == at else one for i, one in enumerate(s.files[-1]))
    return s._replace(files=(*s.files[:-1], last))


def with_row(s: State, attempt: int, at: int, phase: Phase) -> State:
    row = tuple(phase if i == at else one for i, one in enumerate(s.rows[attempt - 1]))
    return s._replace(rows=(*s.rows[: attempt - 1], row, *s.rows[attempt:]))


# --- what must hold ---------------------------------------------------------------------------------------


def one_attempt_lives(s: State) -> str | None:
    """No component has two live attempts, and none of an older attempt runs beside one of a later."""
    live = [n for n, row in enumerate(s.rows, 1) if "runs" in row]
    return f"attempts {live} run at one time" if len(live) > 1 else None


def whole_ones_only(s: State) -> str | None:
    """Nothing begins from a part of a checkpoint, or from parts of two."""
    return f"a checkpoint of attempts {s.whole}" if len(set(s.whole)) > 1 else None


def no_work_is_lost(s: State) -> str | None:
    return f"what attempt {s.lost_work} saved is done again" if s.lost_work else None


def runs_whole(s: State) -> bool:
    """True where all components of the latest attempt run, or have ended in the last one that is modelled."""
    return all(phase == "runs" for phase in s.rows[-1]) or all(known != "open" for known in s.known)
