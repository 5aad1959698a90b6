"""A pre-emptible job that makes way for a claim, as a model: it is ended, goes back to its origin and runs anew, and no
crash loses it or runs it twice (SPEC D4, K5; docs/decisions/gangs.md).

One origin, one job, a site of one processor, one claim that comes while the job runs there, and another site that is
idle. A site keeps that a job makes way before its machine is told to end it; what the machine then tells is the end of
that attempt. What is durable stays; a crash of the site takes the order that was not yet carried out. Its user may
cancel the job at any time. Messages are late, doubled or never there. Claims themselves are another model's
(`claiming`), and so is the start of what was placed (`handover`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.protocol.search import Step

Phase = Literal["unknown", "waits", "runs", "makes way", "done", "made way", "cancelled", "failed"]
Process = Literal["none", "lives", "done", "killed"]
OVER: tuple[Phase, ...] = ("done", "made way", "cancelled", "failed")


class Row(NamedTuple):
    """One attempt at the site."""

    phase: Phase = "unknown"
    cancel: bool = False
    process: Process = "none"
    elsewhere: bool = False
    """True: it was placed at the other site."""


class Said(NamedTuple):
    what: Literal["PLACE", "CANCEL", "END"]
    attempt: int
    end: Phase = "unknown"


class State(NamedTuple):
    """Everything at one instant."""

    attempt: int = 1
    placed: bool = True
    result: Phase = "unknown"
    """As its origin accepted it; "unknown": none yet."""
    cancel: bool = False
    rows: tuple[Row, ...] = (Row(),)
    due: bool = False
    """Volatile: the machine is to end what runs."""
    claim: Literal["none", "waits", "stands", "over"] = "none"
    network: frozenset[Said] = frozenset()
    ghost: str = ""
    """Harm that no later state shows."""


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    kept_first: bool = True
    """The order that a job makes way is durable before its machine is told;"""
    told_again: bool = True
    """after a crash the machine is told again."""
    end_first: bool = True
    """The origin is told once the process has ended, and not when it is to end."""
    done_stands: bool = True
    """A job that was done before the order reached it is done."""
    names_attempt: bool = True
    """An end counts for the attempt that it names alone."""
    cancel_wins: bool = True
    """A job that its user cancelled does not run anew, whatever it made way for."""
    room_is_kept: bool = True
    """Processors that come free for a claim are given to nobody else while it waits."""


@dataclass(frozen=True)
class MakingWay:
    attempts: int = 3
    rules: Rules = field(default_factory=Rules)
    endless: bool = False
    """True: the job does not end by itself, and nobody cancels it."""

    def initial(self) -> State:
        return self.normal(State())

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            yield Step(name, self.normal(after))

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        yield from self.origin_acts(s)
        for said in s.network:
            if said.what == "END":
                yield from self.origin_hears(s, said)
            else:
                yield from self.site_hears(s, said)
        for n in range(1, len(s.rows) + 1):
            yield from self.site_acts(s, n)
        if s.due:
            yield "the site crashes", s._replace(due=False)
        yield from self.claims(s)

    # --- the origin ---------------------------------------------------------------------------------------

    def origin_acts(self, s: State) -> Iterator[tuple[str, State]]:
        if not self.endless and not s.cancel and s.result == "unknown":
            yield "its user cancels the job", s._replace(cancel=True)
        if s.placed or s.result != "unknown":
            return
        if s.cancel and self.rules.cancel_wins:
            yield "the origin cancels it", s._replace(result="cancelled")
        elif s.attempt < self.attempts:
            ghost = s.ghost or ("a cancelled job is placed anew" if s.cancel else "")
            again = s._replace(attempt=s.attempt + 1, placed=True, ghost=ghost)
            yield f"attempt {again.attempt} is placed there again", again._replace(rows=(*s.rows, Row()))
            other = Row(elsewhere=True)
            yield f"attempt {again.attempt} is placed elsewhere", again._replace(rows=(*s.rows, other))

    def origin_hears(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        if not s.placed or s.result != "unknown" or (self.rules.names_attempt and said.attempt != s.attempt):
            return
        name = f"the origin hears that attempt {said.attempt} is {said.end}"
        yield name, s._replace(placed=False) if said.end == "made way" else s._replace(result=said.end)

    # --- the site -----------------------------------------------------------------------------------------

    def site_hears(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        row, name = s.rows[said.attempt - 1], f"the site hears {said.what} {said.attempt}"
        if said.what == "PLACE" and row.phase == "unknown":
            yield name, with_row(s, said.attempt, row._replace(phase="waits"))
        elif said.what == "CANCEL" and row.phase == "waits":
            yield name, with_row(s, said.attempt, row._replace(phase="cancelled"))
        elif said.what == "CANCEL" and row.phase in ("runs", "makes way") and not row.cancel:
            yield name, with_row(s, said.attempt, row._replace(cancel=True))._replace(due=True)

    def site_acts(self, s: State, n: int) -> Iterator[tuple[str, State]]:
        row = s.rows[n - 1]
        kept = s.claim == "stands" or (self.rules.room_is_kept and s.claim == "waits")
        if row.phase == "waits" and (row.elsewhere or (is_idle(s) and not kept)):
            yield f"attempt {n} begins", with_row(s, n, row._replace(phase="runs", process="lives"))
        if row.phase == "runs" and s.claim == "waits" and not (s.due or row.elsewhere):
            if self.rules.kept_first:
                yield f"attempt {n} makes way", with_row(s, n, row._replace(phase="makes way"))._replace(due=True)
            else:
                yield f"the machine is to end attempt {n}", s._replace(due=True)
        if row.phase == "runs" and s.due and not self.rules.kept_first:
            yield f"it is kept that attempt {n} makes way", with_row(s, n, row._replace(phase="makes way"))
        meant = row.phase in ("runs", "makes way") and (row.cancel or row.phase == "makes way")
        if meant and row.process == "lives" and not s.due and self.rules.told_again:
            yield f"the machine is told again to end attempt {n}", s._replace(due=True)
        if row.process == "lives":
            if s.due:
                yield f"attempt {n} is killed", with_row(s, n, row._replace(process="killed"))._replace(due=False)
            if not self.endless:
                yield f"attempt {n} ends by itself", with_row(s, n, row._replace(process="done"))
        elif row.phase in ("runs", "makes way"):
            yield f"the site takes the end of attempt {n}", with_row(s, n, row._replace(phase=self.end(row)))

    def end(self, row: Row) -> Phase:
        """The end of an attempt whose process is over."""
        if row.process == "done":
            return "done" if row.phase == "runs" or self.rules.done_stands else "made way"
        if row.cancel and (self.rules.cancel_wins or row.phase == "runs"):
            return "cancelled"
        # A process that was killed, and nobody knows why, has failed.
        return "made way" if row.phase == "makes way" else "failed"

    def claims(self, s: State) -> Iterator[tuple[str, State]]:
        if s.claim == "none":
            yield "a claim comes", s._replace(claim="waits")
        elif s.claim == "waits" and is_idle(s):
            yield "the claim has its processor", s._replace(claim="stands")
        elif s.claim == "stands":
            yield "the gang ends", s._replace(claim="over")

    # --- normal form --------------------------------------------------------------------------------------

    def sends(self, s: State) -> Iterator[Said]:
        if s.placed and s.result == "unknown":
            yield Said("PLACE", s.attempt)
            if s.cancel:
                yield Said("CANCEL", s.attempt)
        for n, row in enumerate(s.rows, 1):
            if row.phase in OVER:
                yield Said("END", n, row.phase)
            elif row.phase == "makes way" and not self.rules.end_first:
                yield Said("END", n, "made way")

    def normal(self, s: State) -> State:
        return s._replace(network=frozenset(m for m in {*s.network, *self.sends(s)} if self.can_matter(s, m)))

    def can_matter(self, s: State, m: Said) -> bool:
        phase = s.rows[m.attempt - 1].phase
        if m.what == "PLACE":
            return phase == "unknown"
        if m.what == "CANCEL":
            return phase not in OVER
        return s.result == "unknown" and (m.attempt == s.attempt or not self.rules.names_attempt)


def is_idle(s: State) -> bool:
    """True if nothing runs at the site with the claim."""
    return not any(one.process == "lives" and not one.elsewhere for one in s.rows)


def with_row(s: State, attempt: int, row: Row) -> State:
    return s._replace(rows=(*s.rows[: attempt - 1], row, *s.rows[attempt:]))


# --- what must hold ---------------------------------------------------------------------------------------


def one_attempt_lives(s: State) -> str | None:
    live = [n for n, row in enumerate(s.rows, 1) if row.process == "lives"]
    return f"attempts {live} run at one time" if len(live) > 1 else None


def what_is_done_does_not_begin_again(s: State) -> str | None:
    done = next((n for n, row in enumerate(s.rows, 1) if row.process == "done"), 0)
    return f"attempt {done} was done, and {len(s.rows)} are placed" if 0 < done < len(s.rows) else None


def nothing_fails_for_a_claim(s: State) -> str | None:
    return "a job that made way counts as failed" if s.result == "failed" else None


def what_is_cancelled_stays_so(s: State) -> str | None:
    return s.ghost or None


def one_claim_ends_it_once(s: State) -> str | None:
    times = sum(row.phase == "made way" for row in s.rows)
    return f"it made way {times} times for one claim" if times > 1 else None


def all_is_well(s: State) -> bool:
    """True where the gang ran, and the job has its result or runs in the last attempt that is modelled."""
    return s.claim == "over" and (s.result != "unknown" or s.rows[-1].process == "lives" or s.attempt == 3)
