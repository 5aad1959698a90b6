"""The state of late binding's model (`binding.py`) at one instant, and its normal form."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Transfer(NamedTuple):
    """An offer of a job. The origin said PREPARE, which may arrive at any later time; "dropped" is a tombstone."""

    site: int
    row: Literal["unknown", "prepared", "runnable", "over", "dropped"] = "unknown"
    commit_said: bool = False


class Job(NamedTuple):
    """The origin's durable record of a job, and the rows of its transfers at their sites; the last is the current."""

    state: Literal["unplaced", "offered", "committed"] = "unplaced"
    transfers: tuple[Transfer, ...] = ()


class Told(NamedTuple):
    """The origin's memory of its last word to a site. Volatile."""

    jobs: int
    called: int = 0


class Seat(NamedTuple):
    """A site's memory of the reservation. Volatile."""

    seq: int
    jobs: int
    calling: int = 0
    last_call: int = 0
    unanswered: int = 0
    newest: int = 0
    """Ghost: the jobs of the origin's newest word that was heard while it stands."""
    newest_seq: int = 0


class Site(NamedTuple):
    """A site with one slot. Of this the number of its calls alone outlives a crash."""

    seat: Seat | None = None
    room: int = 0
    """Jobs that were called and did not come yet: their room is not called for again."""
    calls: int = 0


class Word(NamedTuple):
    """A Reserve under way."""

    to: int
    seq: int
    jobs: int
    called: int


class Call(NamedTuple):
    """A call under way."""

    site: int
    number: int
    jobs: int


class State(NamedTuple):
    """Everything at one instant."""

    jobs: tuple[Job, ...]
    told: tuple[Told | None, ...]
    sites: tuple[Site, ...]
    """The honest sites; the liar, if there is one, has the next number and no memory."""
    waiting: bool = False
    """The origin lets the group wait for its turn. Volatile."""
    seq: int = 0
    """Number of its last word. Volatile: a restart counts anew."""
    words: frozenset[Word] = frozenset()
    calls: frozenset[Call] = frozenset()
    taken_back: int = 0
    given_again: bool = False
    """Ghost: a call was answered twice while the site stood in the origin's memory."""

    def unplaced(self) -> int:
        return sum(job.state == "unplaced" for job in self.jobs)

    def load(self, site: int) -> int:
        """Jobs that a site prepared or may run."""
        return sum(t.site == site and t.row in ("prepared", "runnable") for job in self.jobs for t in job.transfers)


def with_job(s: State, at: int, job: Job) -> State:
    """`s` with one job changed."""
    return s._replace(jobs=(*s.jobs[:at], job, *s.jobs[at + 1 :]))


def with_row(s: State, at: int, number: int, transfer: Transfer) -> State:
    """`s` with a transfer of a job changed."""
    job = s.jobs[at]
    some = (*job.transfers[:number], transfer, *job.transfers[number + 1 :])
    return with_job(s, at, job._replace(transfers=some))


def with_site(s: State, at: int, site: Site) -> State:
    """`s` with one site's memory changed."""
    return s._replace(sites=(*s.sites[:at], site, *s.sites[at + 1 :]))


def with_told(s: State, at: int, told: Told | None) -> State:
    """`s` with the origin's memory of one site changed."""
    return s._replace(told=(*s.told[:at], told, *s.told[at + 1 :]))


def normal(s: State) -> State:
    """The same in one form for all that are equal: jobs and honest sites are interchangeable, an offer that was taken
    back and cannot run any more is forgotten, and so is what a job did after it ended."""
    s = _small(s._replace(jobs=tuple(map(_remembered, s.jobs))))
    if len(s.sites) < 2:
        return s
    return min(s, _small(_exchanged(s)), key=_order)


def _remembered(job: Job) -> Job:
    last = len(job.transfers) - 1
    kept = [
        t
        for number, t in enumerate(job.transfers)
        if t.commit_said or t.row in ("runnable", "over") or (number == last and job.state == "offered")
    ]
    return job._replace(transfers=tuple(kept))


def _exchanged(s: State) -> State:
    """The same with sites 0 and 1 exchanged."""
    of = (1, 0, *range(2, len(s.told)))
    jobs = [job._replace(transfers=tuple(t._replace(site=of[t.site]) for t in job.transfers)) for job in s.jobs]
    return s._replace(
        jobs=tuple(jobs),
        told=tuple(s.told[at] for at in of),
        sites=tuple(s.sites[at] for at in of[: len(s.sites)]),
        words=frozenset(w._replace(to=of[w.to]) for w in s.words),
        calls=frozenset(c._replace(site=of[c.site]) for c in s.calls),
    )


def _order(s: State) -> tuple[object, ...]:
    told = [one or () for one in s.told]
    sites = [(site.seat or (), site.room, site.calls) for site in s.sites]
    return s.jobs, told, sites, sorted(s.words), sorted(s.calls)


def _small(s: State) -> State:
    """The same with all numbers as small as their order allows: they are only compared, and an origin counts on from
    `seq`, a site from `calls`. Jobs are interchangeable."""
    seqs = {w.seq for w in s.words} | {
        n for site in s.sites if site.seat for n in (site.seat.seq, site.seat.newest_seq)
    }
    ranks = {n: rank for rank, n in enumerate(sorted({0, s.seq, *(n for n in seqs if n <= s.seq)}))}
    top = ranks[s.seq]
    ranks |= {n: top + n - s.seq for n in seqs if n > s.seq}
    words, calls, sites, told = set(), set(), [], list(s.told)
    for at, site in enumerate(s.sites):
        seat, mine = site.seat, told[at]
        numbers = {
            0,
            site.calls,
            *(w.called for w in s.words if w.to == at),
            *(c.number for c in s.calls if c.site == at),
        }
        if seat is not None:
            numbers.add(seat.last_call)
        if mine is not None:
            numbers.add(mine.called)
        low = {n: rank for rank, n in enumerate(sorted(numbers))}
        if mine is not None:
            told[at] = mine._replace(called=low[mine.called])
        if seat is not None:
            seat = seat._replace(seq=ranks[seat.seq], newest_seq=ranks[seat.newest_seq], last_call=low[seat.last_call])
        sites.append(Site(seat, site.room, low[site.calls]))
        words |= {w._replace(seq=ranks[w.seq], called=low[w.called]) for w in s.words if w.to == at}
        calls |= {c._replace(number=low[c.number]) for c in s.calls if c.site == at}
    return s._replace(
        jobs=tuple(sorted(s.jobs)),
        told=tuple(told),
        sites=tuple(sites),
        seq=top,
        words=frozenset(words),
        calls=frozenset(calls),
    )
