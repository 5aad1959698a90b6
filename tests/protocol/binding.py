"""Late binding as a model: reservations and calls, all of them volatile, over the hand-over's one commit point.

One origin with a group, honest sites of one slot, and at will a liar that calls whatever it likes and reserves for a
group that is not its own. Origin and sites crash and links break at any time and without bound; messages are lost,
doubled, late and reordered, words of an earlier boot too. A message of the hand-over that was said may arrive at any
later time: it is derived from what is durable, and `handover.py` takes it apart. A number is only compared, so the
numbers have no bound. Bounds: `under_way` words and calls of a site at a time (more are lost, the oldest first), and
`take_backs` offers that the origin takes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.protocol.binding_state import (
    Call,
    Job,
    Seat,
    Site,
    State,
    Told,
    Transfer,
    Word,
    normal,
    with_job,
    with_row,
    with_site,
    with_told,
)
from tests.protocol.search import Step

TELL_PART = 0.75
MOST_UNANSWERED = 2
"""Three in the engine: how many makes no difference here."""


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    gives_unplaced_only: bool = True
    """A call is given jobs that are unplaced when it comes, and no others."""
    commit_kept_first: bool = True
    """COMMITTED is durable before COMMIT is said."""
    newest_counts: bool = True
    """An older word does not replace a newer one."""
    withdrawn: bool = True
    """A word of no jobs ends the reservation: nothing is called any more."""
    own_groups_only: bool = True
    """A site takes reservations for a group from its origin alone."""
    answered_once: bool = True
    """A call whose number was answered is not answered again."""
    released: bool = True
    """A call that is not answered is no longer counted after a while."""
    room_lapses: bool = True
    """Nor is the room for jobs that did not come."""
    dropped: bool = True
    """A reservation of which several calls in a row were not answered is dropped."""
    told_again: bool = True
    """A group that waits is priced, and its sites are told, again and again."""
    drafted_anew: bool = True
    """An origin that restarted prices what is unplaced."""


@dataclass(frozen=True)
class Binding:
    """`jobs` jobs and `sites` honest sites."""

    sites: int = 2
    jobs: int = 2
    liar: bool = False
    under_way: int = 1
    take_backs: int = 1
    rules: Rules = field(default_factory=Rules)
    rough: bool = True
    """False: no crash, no loss, nothing doubled, a liar that is silent."""

    def initial(self) -> State:
        """A group was submitted, nothing of it is placed."""
        told = (None,) * (self.sites + self.liar)
        return State((Job(),) * self.jobs, told, (Site(),) * self.sites)

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            yield Step(name, normal(after))

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        """The same, before the states are brought into normal form."""
        yield from self.origin_prices(s)
        yield from self.hand_over(s)
        for call in s.calls:
            yield f"the origin hears {call}", self.hears_call(s, call)
        for word in s.words:
            yield f"S{word.to} hears {word}", self.hears_word(s, word)
        for at, site in enumerate(s.sites):
            yield from self.site_acts(s, at, site)
        if self.rough:
            yield from self.faults(s)
            if self.liar:
                yield from self.lies(s)

    # --- faults and lies ------------------------------------------------------------------------------

    def faults(self, s: State) -> Iterator[tuple[str, State]]:
        """Crashes and links that break."""
        parted = tuple(site._replace(seat=None) for site in s.sites)
        nobody = (None,) * len(s.told)
        yield "the origin restarts", s._replace(told=nobody, waiting=False, seq=0, sites=parted)
        for at, site in enumerate(s.sites):
            gone = with_told(s, at, None)
            yield f"S{at} restarts", with_site(gone, at, Site(calls=site.calls))
            yield f"the link to S{at} breaks", with_site(gone, at, site._replace(seat=None))

    def lies(self, s: State) -> Iterator[tuple[str, State]]:
        """The liar calls all there is, under a new number, called or not; and it reserves for the origin's group."""
        liar = self.sites
        for jobs in (1, self.jobs):
            yield f"the liar calls {jobs}", self.answers(s, liar, jobs)
        for at, site in enumerate(s.sites):
            for jobs in (0, self.jobs):
                if not self.rules.own_groups_only and (site.seat is None or site.seat.seq <= s.seq):
                    seq = site.seat.seq + 1 if site.seat else 1
                    word = Word(at, seq, jobs, 0)
                    yield f"the liar reserves {jobs} at S{at}", self.hears_word(s, word, forged=True)

    # --- the origin -----------------------------------------------------------------------------------

    def origin_prices(self, s: State) -> Iterator[tuple[str, State]]:
        """A draft: some can start at once and are offered, the others wait at all sites."""
        again = s.waiting and self.rules.told_again
        first = not s.waiting and self.rules.drafted_anew
        if not s.unplaced() or not (again or first or s == self.initial()):
            return
        yield "the origin prices what is unplaced", self.tells_all(s._replace(waiting=True))
        if self.rough:
            for site in range(len(s.told)):
                yield f"one job can start at S{site} at once", self.tells_all(self.offers(s, site, 1, True))

    def tells_all(self, s: State) -> State:
        """Tell every site what is left; nothing left: withdraw."""
        for at in range(len(s.told)):
            s = self.tells(s, at)
        return s if s.unplaced() else s._replace(waiting=False)

    def tells(self, s: State, at: int) -> State:
        """Tell one."""
        left, told = s.unplaced(), s.told[at]
        if not left and told is None:
            return s
        called = told.called if told is not None else 0
        s = with_told(s._replace(seq=s.seq + 1), at, Told(left, called) if left else None)
        if at == self.sites:
            return s
        words = sorted(w for w in s.words if w.to == at)[-(self.under_way - 1) :] if self.under_way > 1 else []
        others = [w for w in s.words if w.to != at]
        return s._replace(words=frozenset([*others, *words, Word(at, s.seq, left, called)]))

    def hears_call(self, s: State, call: Call) -> State:
        """Give jobs, if the call is new and the site was told of any."""
        told = s.told[call.site]
        if told is None:
            return s
        if call.number <= told.called:
            if self.rules.answered_once:
                return s
            s = s._replace(given_again=True)
        s = with_told(s, call.site, told._replace(called=max(told.called, call.number)))
        return self.answers(s, call.site, call.jobs)

    def answers(self, s: State, site: int, jobs: int) -> State:
        """Offer what is unplaced, and tell what is left."""
        if not s.waiting or s.told[site] is None:
            return s
        s = self.offers(s, site, jobs, self.rules.gives_unplaced_only)
        left = s.unplaced()
        known = max((one.jobs for at, one in enumerate(s.told) if one is not None and at != site), default=0)
        return self.tells_all(s) if not left or left < TELL_PART * known else self.tells(s, site)

    def offers(self, s: State, site: int, jobs: int, unplaced_only: bool) -> State:
        """UNPLACED -> OFFERED, durable; PREPARE may arrive from now on."""
        for at, job in enumerate(s.jobs):
            if jobs and (job.state == "unplaced" or not unplaced_only):
                s, jobs = with_job(s, at, Job("offered", (*job.transfers, Transfer(site)))), jobs - 1
        return s._replace(waiting=True)

    # --- the hand-over --------------------------------------------------------------------------------

    def hand_over(self, s: State) -> Iterator[tuple[str, State]]:
        """PREPARE, PREPARED, COMMIT, ended, taken back: every step from what is durable."""
        for at, job in enumerate(s.jobs):
            if job.state == "offered":
                yield from self.origin_decides(s, at, job)
            for number, one in enumerate(job.transfers):
                name = f"job {at}, offer {number}, S{one.site}"
                if one.site == self.sites and not self.rough:
                    continue
                if one.row == "unknown":
                    prepared = with_row(s, at, number, one._replace(row="prepared"))
                    if one.site < self.sites:
                        site = s.sites[one.site]
                        prepared = with_site(prepared, one.site, site._replace(room=max(0, site.room - 1)))
                    yield f"{name} prepares", prepared
                if one.row == "prepared" and one.commit_said:
                    yield f"{name} hears COMMIT", with_row(s, at, number, one._replace(row="runnable"))
                current = job.state == "offered" and number == len(job.transfers) - 1
                if one.row == "prepared" and not one.commit_said and not current:
                    yield f"{name} hears ABORT", with_row(s, at, number, one._replace(row="dropped"))
                if one.row == "runnable":
                    yield f"{name} ends", with_row(s, at, number, one._replace(row="over"))

    def origin_decides(self, s: State, at: int, job: Job) -> Iterator[tuple[str, State]]:
        """OFFERED -> COMMITTED, once it is prepared; or back to UNPLACED, and those who wait are told of it."""
        last, one = len(job.transfers) - 1, job.transfers[-1]
        silent = one.site == self.sites and not self.rough
        if one.row == "prepared" and not silent:
            said = with_row(s, at, last, one._replace(commit_said=True))
            yield (
                f"the origin commits job {at} to S{one.site}",
                with_job(said, at, said.jobs[at]._replace(state="committed")),
            )
            if not self.rules.commit_kept_first and self.rough:
                yield f"the origin says COMMIT of job {at} and crashes before it is kept", said
        if silent or (self.rough and s.taken_back < self.take_backs):
            back = with_job(s, at, job._replace(state="unplaced"))._replace(taken_back=s.taken_back + (not silent))
            known = max((told.jobs for told in s.told if told is not None), default=0)
            more = s.waiting and 0 < known < back.unplaced()
            yield f"the origin takes job {at} back from S{one.site}", self.tells_all(back) if more else back

    # --- a site ---------------------------------------------------------------------------------------

    def site_acts(self, s: State, at: int, site: Site) -> Iterator[tuple[str, State]]:
        """Call for jobs; count calls and room for them no longer."""
        seat = site.seat
        free = 1 - s.load(at) - site.room
        if seat is not None and seat.jobs > seat.calling and free > 0:
            for jobs in {1, seat.jobs - seat.calling}:
                number = site.calls + 1
                calling = seat._replace(calling=seat.calling + jobs, last_call=number)
                after = with_site(s, at, Site(calling, site.room + jobs, number))
                mine = sorted(c for c in s.calls if c.site == at)[-(self.under_way - 1) :] if self.under_way > 1 else []
                others = [c for c in s.calls if c.site != at]
                yield f"S{at} calls {jobs}", after._replace(calls=frozenset([*others, *mine, Call(at, number, jobs)]))
        if seat is not None and seat.calling and self.rules.released:
            unanswered = min(MOST_UNANSWERED, seat.unanswered + 1)
            room = 0 if self.rules.room_lapses else site.room
            left: Seat | None = seat._replace(calling=0, unanswered=unanswered)
            if unanswered == MOST_UNANSWERED and self.rules.dropped:
                left = None
            yield f"S{at} counts its calls as lost", with_site(s, at, Site(left, room, site.calls))
        if site.room and self.rules.room_lapses:
            yield f"S{at} keeps its room no longer", with_site(s, at, site._replace(room=0))

    def hears_word(self, s: State, word: Word, forged: bool = False) -> State:
        """A newer word counts."""
        site, rules = s.sites[word.to], self.rules
        old = site.seat
        if old is not None and word.seq <= old.seq and rules.newest_counts:
            return s
        seat = old or Seat(0, 0)
        if not forged and word.seq >= seat.newest_seq:
            seat = seat._replace(newest_seq=word.seq, newest=word.jobs)
        if not word.jobs and rules.withdrawn:
            return with_site(s, word.to, site._replace(seat=None))
        seat = seat._replace(seq=word.seq, jobs=word.jobs or seat.jobs)
        if word.called >= seat.last_call:
            seat = seat._replace(calling=0, unanswered=0)
        return with_site(s, word.to, site._replace(seat=seat))


# --- what must hold ---------------------------------------------------------------------------------------


def one_site_may_run_it(s: State) -> str | None:
    """I4: a job is committed to one site, and no other may run it."""
    for at, job in enumerate(s.jobs):
        bound = [t.site for t in job.transfers if t.commit_said or t.row in ("runnable", "over")]
        if len(bound) > 1 or (bound and job.state == "unplaced"):
            return f"job {at} is {job.state} and bound to {bound}"
    return None


def no_job_is_lost(s: State) -> str | None:
    """A job is unplaced at its origin, or its current offer is at a site that did not drop it."""
    for at, job in enumerate(s.jobs):
        if job.state != "unplaced" and (not job.transfers or job.transfers[-1].row == "dropped"):
            return f"job {at} is {job.state} and nowhere"
    return None


def a_call_is_answered_once(s: State) -> str | None:
    """A call that comes twice brings no more jobs."""
    return "a call was answered twice" if s.given_again else None


def the_newest_word_bounds_the_calls(before: State, after: State) -> str | None:
    """A site calls for no more than the newest word of the origin that it heard lets it."""
    for at, (old, new) in enumerate(zip(before.sites, after.sites, strict=True)):
        if new.calls > old.calls and new.seat is not None and new.seat.calling > new.seat.newest:
            return f"S{at} calls {new.seat.calling} jobs in all and was told of {new.seat.newest}"
    return None


INVARIANTS = (one_site_may_run_it, no_job_is_lost, a_call_is_answered_once)
RULES = (the_newest_word_bounds_the_calls,)


def all_bound(s: State) -> bool:
    """Every job is committed."""
    return all(job.state == "committed" for job in s.jobs)


def nothing_is_kept(s: State) -> bool:
    """Every job is committed, and no site keeps room or a reservation for what will not come."""
    return all_bound(s) and not any(site.room or site.seat for site in s.sites)
