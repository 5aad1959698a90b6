"""Migration: choose the queued work that moves and its site, and say why the rest stays (SPEC D7;
papers/diana-bulk-scheduling section IX).

A class of equal jobs moves by count, so that a million jobs cost no more to decide on than ten. The paper's rule holds
for each of them: the j-th job moves only if fewer jobs stand ahead of it there than here, and the cost there is not
higher. Beyond the paper it must gain a minimum of time behind all that waits there and all that is promised room there,
the j - 1 jobs before it included, which are gone from here. So no job is passed for the sake of a gain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple
from zlib import crc32

from diana.model.durations import seconds
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.words import counted
from diana.policy.membership import drawn
from diana.policy.migration.congestion import Mode
from diana.policy.migration.migrants import Migrant, MigrantQuote, MigrationPlan, MigrationSettings, Move, Peer
from diana.policy.queueing.priority import LEVEL_WIDTH

RAISE = LEVEL_WIDTH
"""Raise of the priority of jobs that moved in paper mode, for good: they go on there one level higher (section IX,
"increase the job's priority")."""
MOST_REASONS = 16
"""Sites named for work that stays; the others are counted."""
PORTIONS = 64
"""Most portions a class is dealt out in, so that sites with alike gains share it, and its size costs nothing."""


def split_off(indices: IndexSet, jobs: int) -> tuple[IndexSet, IndexSet]:
    """Split off the last `jobs` indices: (those that stay, those that move)."""
    return indices.take(max(0, len(indices) - jobs))


def plan(
    migrant: Migrant,
    peers: Sequence[Peer],
    settings: MigrationSettings,
    *,
    budget: int,
    seed: int,
    mode: Mode = "default",
    cost_in_s: bool = True,
) -> MigrationPlan:
    """Plan at most `budget` moves.

    Among the sites that may take a migrant, the order is: fewest jobs ahead, lowest cost, shortest queue, lowest id;
    among equals two are drawn by `seed` and the migrant's key. The plan does not depend on the order of peers and
    quotes. In paper mode only the paper's rule holds: no least gain, no draw.
    """
    return _Round(peers, settings, budget, seed, mode, cost_in_s).place(migrant)


class _Here(NamedTuple):
    """State of the migrant at home after the moves so far."""

    jobs: int
    """Jobs of the migrant that are still here."""
    jobs_ahead: int
    ends_s: float
    s_per_job: float
    """Seconds by which each job that leaves brings the end nearer."""


class _Option(NamedTuple):
    quote: MigrantQuote
    jobs: int
    """Number of jobs that may go there; 0: none."""
    at_once: int
    """Number of jobs that would start there at once."""
    jobs_ahead: int
    """Jobs ahead there, those this plan sends included."""
    queued_jobs: int
    gain_s: float
    why: str
    """Reason why none may go there; empty when some may."""


def _left(m: Migrant, gone: int) -> _Here:
    """State at home with `gone` of its jobs gone."""
    rate = m.processors_per_s
    return _Here(
        jobs=m.jobs - gone,
        jobs_ahead=m.jobs_ahead - gone,
        ends_s=max(0.0, m.ends_s - gone * m.processors / rate) if rate > 0 else m.ends_s,
        s_per_job=m.processors / rate if rate > 0 else 0.0,
    )


class _Round:
    def __init__(
        self,
        peers: Sequence[Peer],
        settings: MigrationSettings,
        budget: int,
        seed: int,
        mode: Mode,
        cost_in_s: bool,
    ) -> None:
        self.peers = {peer.site: peer for peer in peers}
        self.settings = settings
        self.budget = budget
        self.seed = seed
        self.paper = mode == "paper"
        self.cost_in_s = cost_in_s
        self._sent: dict[SiteId, int] = {}
        """Processors of the jobs this plan sends to each site."""

    def place(self, m: Migrant) -> MigrationPlan:
        moves: dict[SiteId, Move] = {}
        for portion in count():
            here = _left(m, sum(move.jobs for move in moves.values()))
            options = [self._option(m, quote, here, moves.get(quote.site)) for quote in m.quotes]
            fit = [option for option in options if option.jobs]
            spent = len(moves) >= self.budget
            open_ = [option for option in fit if option.quote.site in moves] if spent else fit
            if not open_:
                break
            chosen = self._choose(m.key, portion, open_)
            jobs = min(chosen.jobs, max(chosen.at_once, -(-chosen.jobs // len(open_)), -(-m.jobs // PORTIONS)))
            site = chosen.quote.site
            moves[site] = self._move(m, here, chosen, jobs, moves.get(site))
            self._sent[site] = self._sent.get(site, 0) + jobs * m.processors
        reasons = self._reasons(options, moves, bool(fit)) if here.jobs else ()
        return MigrationPlan(tuple(moves.values()), here.jobs, reasons)

    def _option(self, m: Migrant, quote: MigrantQuote, here: _Here, before: Move | None) -> _Option:
        """Work out how many jobs may go to the quoting site. `before`: the move of this migrant that goes there
        already."""
        peer = self.peers.get(quote.site)
        if peer is None:
            return _Option(quote, 0, 0, 0, 0, 0.0, f"site {quote.site}: not known")
        # The paper counts jobs ahead and nothing else.
        room = 0 if self.paper else peer.free_processors
        room -= self._sent.get(quote.site, 0)
        gain_s = here.ends_s - quote.ends_s

        def waiting(jobs: int) -> int:
            """Processors that must come free there before `jobs` of these could all run."""
            return max(0, jobs * m.processors - room)

        def ahead(jobs: int) -> int:
            """Jobs ahead of the last of `jobs` moved ones."""
            return quote.jobs_ahead + -(-waiting(jobs - 1) // m.processors)

        def waits_s(jobs: int) -> float:
            """Seconds the last of `jobs` moved ones waits there, behind the others."""
            wait = waiting(jobs)
            return 0.0 if not wait else wait / quote.processors_per_s if quote.processors_per_s > 0 else float("inf")

        def saves_s(jobs: int) -> float:
            """Seconds the last of `jobs` moved ones gains, those before it being gone from here and waiting there."""
            return gain_s - (jobs - 1) * here.s_per_job - waits_s(jobs)

        def too_many(jobs: int) -> bool:
            if ahead(jobs) >= here.jobs_ahead - (jobs - 1):
                return True
            return not self.paper and not saves_s(jobs) >= self.settings.migration_gain_s

        why = self._refusal(m, quote, peer, here, ahead(1))
        most = min(here.jobs, quote.max_jobs - (before.jobs if before else 0) if quote.max_jobs else here.jobs)
        # Both rules only get harder with each job: halving finds the last that may go.
        jobs = 0 if why else bisect_left(range(1, most + 1), True, key=too_many)
        if not jobs and before:
            why = f"site {quote.site}: takes {before.jobs:,} of it and no more now"
        elif not jobs and not why:
            why = self._too_little(quote, peer, gain_s)
        return _Option(quote, jobs, max(0, room // m.processors), ahead(1), peer.queued_jobs, gain_s, why)

    def _refusal(self, m: Migrant, quote: MigrantQuote, peer: Peer, here: _Here, ahead: int) -> str:
        """Say why no job goes there, the time saved apart; empty: some may."""
        site = f"site {quote.site}"
        if peer.refused or quote.rejected:
            return f"{site}: {peer.refused or quote.rejected}"
        if peer.age_s > self.settings.quote_age_s:
            return f"{site}: its quote is {seconds(peer.age_s)} old"
        if ahead >= here.jobs_ahead:
            return f"{site}: {counted(ahead, 'job')} ahead there, {here.jobs_ahead:,} at home"
        if not quote.cost <= m.cost:
            return f"{site}: cost {self._higher(quote.cost, m.cost)} at home"
        return ""

    def _higher(self, there: float, home: float) -> str:
        shown = [seconds(cost) if self.cost_in_s else f"{cost:.3g}" for cost in (there, home)]
        if shown[0] == shown[1]:
            shown = [f"{cost!r}{' s' if self.cost_in_s else ''}" for cost in (there, home)]
        return " is higher than ".join(shown)

    def _too_little(self, quote: MigrantQuote, peer: Peer, gain_s: float) -> str:
        least = seconds(self.settings.migration_gain_s)
        if not gain_s >= self.settings.migration_gain_s:
            return f"site {quote.site}: saves {seconds(max(0.0, gain_s))}, less than {least}"
        sent = self._sent.get(quote.site, 0)
        taken = f", {sent} of them taken by what moves there already" if sent else ""
        return (
            f"site {quote.site}: with {counted(peer.free_processors, 'processor')} free{taken}, none would start early"
            f" enough to save {least}"
        )

    def _choose(self, key: str, portion: int, fit: Sequence[_Option]) -> _Option:
        """Choose the better of two sites drawn at random. This keeps the fullest site near the mean (Mitzenmacher: "The
        power of two choices in randomized load balancing", 2001); else the cheapest site would get everything from
        everybody."""
        order = sorted(fit, key=lambda o: (o.jobs_ahead, o.quote.cost, o.queued_jobs, o.quote.site))
        best = order[0]
        if self.paper:
            return best
        close = best.quote.cost + self.settings.alike * abs(best.quote.cost)
        equals = [o for o in order if o.jobs_ahead == best.jobs_ahead and o.quote.cost <= close]
        two = drawn(equals, 2, self.seed ^ crc32(f"{key}|{portion}".encode()))
        return min(two, key=lambda o: (-o.jobs, o.queued_jobs, o.quote.site))

    def _move(self, m: Migrant, here: _Here, chosen: _Option, jobs: int, before: Move | None) -> Move:
        """Return the move with `jobs` more. Its gain and its latest start are those of the last portion, which has the
        smallest."""
        site, quote = chosen.quote.site, chosen.quote
        within_s = chosen.gain_s
        if not self.paper:
            # The last of them ends at home at `last_s`; there it may start so late that it still gains enough.
            last_s = here.ends_s - (jobs - 1) * here.s_per_job
            within_s = max(0.0, last_s - (quote.ends_s - quote.starts_s) - self.settings.migration_gain_s)
        if before:
            jobs += before.jobs
            reason = before.reason
        else:
            ahead = f"{counted(chosen.jobs_ahead, 'job')} ahead there, {here.jobs_ahead:,} at home"
            saves = f"; saves up to {seconds(chosen.gain_s)}" if 0 < chosen.gain_s < float("inf") else ""
            data = "; its data are elsewhere" if m.data_elsewhere else ""
            reason = f"site {site}: {ahead}{saves}{data}"
        return Move(site, jobs, jobs * m.processors, chosen.gain_s, within_s, reason)

    def _reasons(self, options: Sequence[_Option], moves: dict[SiteId, Move], spent: bool) -> tuple[str, ...]:
        """Reasons why the rest stays; `spent`: some could go, but no more moves may start now."""
        got = [f"site {site}: takes {move.jobs:,} of it and no more now" for site, move in sorted(moves.items())]
        if spent:
            return (*got[:MOST_REASONS], "no more moves may start now")
        reasons = [o.why for o in sorted(options, key=lambda o: (o.quote.site not in moves, o.quote.site))]
        if len(reasons) > MOST_REASONS:
            reasons[MOST_REASONS:] = [f"{counted(len(reasons) - MOST_REASONS, 'more site')} no better"]
        return tuple(reasons) or ("no other site was asked",)
