"""The users of a scenario: what they submit, how they insist on an answer, and how long their jobs really run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from diana.engine.journal.effects import GroupAccepted, GroupsAccepted, Refusal, Reply
from diana.engine.journal.events import (
    CancelJobs,
    Event,
    HoldJobs,
    Member,
    MoveJobs,
    ReleaseJobs,
    RetryJobs,
    Run,
    SubmitChain,
    SubmitGroup,
)
from diana.errors import UsageError
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from diana.model.trust.principal import Principal, Role
from diana.sim.kernel import chance
from diana.sim.kernel.clock import Clock
from diana.sim.load import generated, past, popularity, swf, traced
from diana.sim.load.handed_in import Share, gang_size, group_spec, shares, slowdown_of
from diana.sim.load.life import JobLife
from diana.sim.load.popularity import Reading
from diana.sim.specs.chains import before, together
from diana.sim.specs.demand_spec import GenerateSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.work_spec import MoveSpec, WorkSpec

INSIST_S = 5.0
"""Seconds after which a user without an answer, or refused, asks again with the same key."""
PATIENCE = 60
"""Refusals a user takes before giving up."""
MERGE_RUN_S = 1.0
LIFTS = 12
"""Times that a user asks for a group of a restored site to go on."""


class UserOrder(NamedTuple):
    """An order that a user gives about a group later on."""

    at_s: float
    """Simulated time when it is given."""
    kind: type[CancelJobs | HoldJobs | ReleaseJobs | RetryJobs] | MoveSpec
    """Order to the whole group, or a move of some of its jobs."""
    tries: int = 1
    """Times that it is asked while it is refused."""
    jobs: IndexSet | None = None
    """Jobs that it is about; None: the whole group, or those of the move."""

    def event(self, request: int, principal: Principal, group: GroupId) -> Event:
        if not isinstance(self.kind, MoveSpec):
            return self.kind(request=request, principal=principal, group=group, indices=self.jobs)
        jobs = self.kind.jobs
        some = IndexSet.span(self.kind.first, self.kind.first + jobs) if jobs else self.jobs
        return MoveJobs(request=request, principal=principal, group=group, indices=some, to=SiteId(self.kind.to))


class Submission:
    """One group of the workload and what its user was told."""

    __slots__ = (
        "chain",
        "earlier",
        "entry",
        "failed",
        "first",
        "group",
        "jobs",
        "name",
        "orders",
        "principal",
        "refs",
        "refusals",
        "refused",
        "run_s",
        "seed",
        "site",
        "slowdown",
        "spec",
        "submit_s",
        "why",
        "work",
    )

    def __init__(
        self,
        work: WorkSpec,
        entry: str,
        submit_s: float,
        scenario: Scenario,
        luck: int,
        principal: Principal,
        share: Share | None = None,
        *,
        name: str = "",
        first: int = 0,
        run_s: swf.Real | None = None,
        bygone: past.PastWork | None = None,
    ) -> None:
        """`luck`: the seed of the luck of the entry's jobs; without a share this group's are those from `first` on.
        `run_s`: the true run time of each job, where a trace has them."""
        self.work = work
        self.entry = entry
        """Name of the entry under which it is reported."""
        self.name = name = f"{entry} at {share.site}" if share else name or entry
        self.first = share.first if share else first
        """The number of its first job among the entry's."""
        self.jobs = share.jobs if share else work.jobs * gang_size(work)
        self.site = SiteId(work.site)
        self.submit_s = submit_s
        self.principal = principal
        self.spec, self.refs = group_spec(work, name, scenario, share)
        self.slowdown = slowdown_of(work, scenario)
        self.seed = luck
        self.run_s = run_s
        self.failed: frozenset[int] = bygone.failed if bygone else frozenset()
        """Jobs whose last attempt failed, in a history."""
        self.earlier: Mapping[int, tuple[float, ...]] = bygone.earlier if bygone else {}
        """Job -> seconds of its earlier attempts, in a history."""
        self.chain: tuple[Submission, ...] = ()
        """All submissions that are made together with it, itself included; empty: it alone."""
        self.group: GroupId | None = None
        self.refusals = 0
        self.why = ""
        """The last refusal."""
        self.refused = ""
        times = (
            (CancelJobs, work.cancel_s),
            (HoldJobs, work.hold_s),
            (ReleaseJobs, work.release_s),
            (RetryJobs, work.retry_s),
        )
        orders = [UserOrder(at_s, kind) for kind, at_s in times if at_s >= 0]
        then = _then(bygone.orders, submit_s, work.name) if bygone else ()
        moves = (UserOrder(m.at_s, m) for m in work.moves)
        self.orders = sorted((*orders, *moves, *then), key=lambda order: order.at_s)
        """Orders that its user has yet to give, one after the other: the next when the last was answered."""

    def life(self, index: int, attempt: int = 1) -> JobLife:
        work = self.work
        if index >= self.jobs:
            return JobLife(MERGE_RUN_S)
        run_s = float(self.run_s[index]) if self.run_s is not None else 0.0
        if index in self.failed or index in self.earlier:
            before = self.earlier.get(index, ())
            if attempt <= len(before):
                return JobLife(max(1e-6, before[attempt - 1]), 1)
            return JobLife(max(1e-6, run_s), int(index in self.failed), work.output_bytes)
        # Components that wait for each other's messages end together.
        number = index // self.spec.gang_size if self.slowdown else index
        luck = chance.fraction(self.seed, self.first + number)
        index += self.first
        fails = work.fail_fraction > 0 and chance.fraction(self.seed ^ attempt, index) < work.fail_fraction
        run_s = run_s or (work.true_work_s or work.work_s) * (1.0 + work.spread * (2.0 * luck - 1.0))
        return JobLife(max(1e-6, run_s), 1 if fails else 0, work.output_bytes, self.slowdown)


_ORDERS: dict[str, type[CancelJobs | HoldJobs | ReleaseJobs | RetryJobs]] = {
    "cancel": CancelJobs,
    "hold": HoldJobs,
    "release": ReleaseJobs,
    "retry": RetryJobs,
}


def _then(notes: Sequence[past.OrderNote], submit_s: float, group: str) -> Iterator[UserOrder]:
    """The orders that a history remembers of a group."""
    for note in notes:
        kind = MoveSpec(note.to, submit_s + note.after_s) if note.kind == "move" else _ORDERS.get(note.kind)
        if kind is None:
            raise UsageError(f"history: group {group}: order {note.kind!r}: want move, {', '.join(_ORDERS)}")
        yield UserOrder(submit_s + note.after_s, kind, jobs=IndexSet.parse(note.jobs) if note.jobs else None)


class Coming:
    """Groups that are made when their time comes: of a million that are drawn none is an object before. `made` gives
    them in order of submission, `count` says how many."""

    __slots__ = ("came", "count", "made", "place")

    def __init__(self, made: Iterator[Submission], count: int) -> None:
        self.made = made
        self.count = count
        self.came: list[Submission] = []
        self.place = 0
        """Place of the next one among the callbacks due at one time."""

    def all(self) -> list[Submission]:
        """All groups, also those whose time has not come; none comes any more."""
        self.came.extend(self.made)
        return self.came


def _planned(scenario: Scenario, seed: int, accounts: dict[str, traced.Account]) -> Iterator[Submission | Coming]:
    """Submissions in the order written, the groups of an entry one after the other. `accounts`: of the traces, by
    entry."""
    principals = {user.name: Principal(Role(user.role), user.name) for user in scenario.users}
    first_user = scenario.users[0].name
    for work in scenario.workload:
        data = popularity.reading(work, work.data, scenario, seed) if work.data is not None else None
        if work.trace is not None:
            luck, some = chance.text_seed(seed, work.name), traced.taken(work, work.trace, scenario, seed)
            accounts[work.name] = some.account
            people = {name: Principal(Role.USER, name) for name in some.users}
            for k, (one, first, run_s) in enumerate(traced.groups(work, scenario, some)):
                w, who, name = data.added(one, k) if data else one, people[one.user], one.name
                yield Submission(w, work.name, w.submit_s, scenario, luck, who, name=name, first=first, run_s=run_s)
            continue
        if work.history is not None:
            luck = chance.text_seed(seed, work.name)
            for then in past.groups(work, work.history, scenario, seed):
                w, who = then.work, principals[then.work.user or first_user]
                yield Submission(
                    w, work.name, w.submit_s, scenario, luck, who,
                    name=w.name, first=then.first, run_s=then.run_s, bygone=then,
                )  # fmt: skip
            continue
        if work.generate is not None:
            drawn = _drawn(work, work.generate, scenario, seed, principals, data)
            # Orders that its users give later may be due before a group comes.
            if work.moves or max(work.cancel_s, work.hold_s, work.release_s, work.retry_s) >= 0:
                yield from drawn
            else:
                yield Coming(drawn, work.repeat)
            continue
        for k in range(work.repeat):
            entry = work.name if k == 0 else f"{work.name}-{k + 1}"
            luck, submit_s = chance.text_seed(seed, entry), work.submit_s + k * work.every_s
            w, who = data.added(work, k) if data else work, principals[work.user or first_user]
            for share in shares(work) or (None,):
                yield Submission(w, entry, submit_s, scenario, luck, who, share)


def _drawn(
    work: WorkSpec,
    spec: GenerateSpec,
    scenario: Scenario,
    seed: int,
    principals: dict[str, Principal],
    data: Reading | None,
) -> Iterator[Submission]:
    luck = chance.text_seed(seed, work.name)
    for k, one in enumerate(generated.groups(work, spec, scenario, seed)):
        w, who, name = data.added(one, k) if data else one, principals[one.user], one.name
        yield Submission(w, work.name, w.submit_s, scenario, luck, who, name=name, first=k * work.jobs)


class Users:
    """Submits, asks again until answered, cancels. `deliver(site, event)` is best effort: the site may be down."""

    def __init__(self, clock: Clock, scenario: Scenario, seed: int, deliver: Callable[[SiteId, Event], None]) -> None:
        self._clock = clock
        self._deliver = deliver
        self._requests = 0
        self._waiting: dict[int, tuple[Submission, UserOrder | None]] = {}
        self.submissions: dict[str, Submission] = {}
        """Submissions by name; those that are to be made later are not among them before their time."""
        self.traces: dict[str, traced.Account] = {}
        """Accounts of the jobs of each trace, by entry."""
        self._planned = list(_planned(scenario, seed, self.traces))
        self._to_come = 0
        """Number of `Coming` that are not through."""
        self._open: dict[str, Submission] = {}
        """Submissions that may have no answer yet; all others have one."""
        for one in self._planned:
            if isinstance(one, Submission):
                self.submissions[one.name] = self._open[one.name] = one
        for names in together(scenario.workload):
            chain = tuple(self.submissions[name] for name in names)
            for submission in chain:
                submission.chain, submission.submit_s = chain, chain[0].submit_s
        self._workload = scenario.workload

    def begin(self) -> None:
        for submission in self._planned:
            if isinstance(submission, Coming):
                submission.place = self._clock.reserve(submission.count)
                self._to_come += 1
                self._next(submission)
                continue
            if not submission.chain or submission is submission.chain[0]:
                self._clock.at(submission.submit_s, self._submit, submission)
            if submission.orders:
                self._clock.at(submission.orders[0].at_s, self._order, submission)

    def follow(self, coming: Coming) -> None:
        """Let more groups come than the scenario says; before `begin`."""
        self._planned.append(coming)

    def _next(self, coming: Coming) -> None:
        submission = next(coming.made, None)
        if submission is None:
            self._to_come -= 1
            return
        self._clock.at_place(coming.place, submission.submit_s, self._comes, coming, submission)
        coming.came.append(submission)
        coming.place += 1

    def _comes(self, coming: Coming, submission: Submission) -> None:
        self.submissions[submission.name] = self._open[submission.name] = submission
        self._next(coming)
        self._submit(submission)

    def in_order(self) -> Iterator[Submission]:
        """All submissions that the scenario asks for, as written; one that has not come by now never does."""
        for one in self._planned:
            if isinstance(one, Coming):
                yield from one.all()
            else:
                yield one

    def settled(self) -> bool:
        """True if every submission was answered, and every order too."""
        if self._to_come:
            return False
        for name, s in list(self._open.items()):
            if s.orders if s.group is not None else not s.refused:
                return False
            del self._open[name]
        return True

    def unanswered(self, site: SiteId) -> bool:
        """True if a submission there is asked for and has no answer."""
        due = (s for s in self.submissions.values() if s.site == site and s.group is None and not s.refused)
        return any(s.submit_s <= self._clock.now_s for s in due)

    def life_of(self, run: Run, spec: GroupSpec) -> JobLife:
        submission = self.submissions.get(spec.name)
        return submission.life(run.index, run.attempt) if submission is not None else JobLife(MERGE_RUN_S)

    def request(self, submission: Submission, order: UserOrder | None = None) -> int:
        self._requests += 1
        self._waiting[self._requests] = (submission, order)
        return self._requests

    def _submit(self, submission: Submission) -> None:
        if submission.group is not None or submission.refused:
            return
        self._deliver(submission.site, self._event(submission))
        self._clock.after(INSIST_S, self._submit, submission)

    def _event(self, submission: Submission) -> Event:
        key = f"key-{submission.name}"
        if not submission.chain:
            return SubmitGroup(
                request=self.request(submission),
                principal=submission.principal,
                key=key,
                spec=submission.spec,
                jobs=submission.jobs,
                refs=submission.refs,
                wall_s=self._clock.now_s,
            )
        places = {one.name: at for at, one in enumerate(submission.chain)}
        members = tuple(
            Member(
                spec=one.spec,
                jobs=one.jobs,
                refs=one.refs,
                after=tuple(places[name] for name in before(one.work, self._workload)),
            )
            for one in submission.chain
        )
        return SubmitChain(
            request=self.request(submission),
            principal=submission.principal,
            key=key,
            members=members,
            wall_s=self._clock.now_s,
        )

    def _order(self, submission: Submission) -> None:
        if not submission.orders or submission.refused:
            return
        order = submission.orders[0]
        if order.at_s > self._clock.now_s:
            self._clock.at(order.at_s, self._order, submission)
            return
        if submission.group is not None:
            request = self.request(submission, order)
            self._deliver(submission.site, order.event(request, submission.principal, submission.group))
        self._clock.after(INSIST_S, self._order, submission)

    def lift(self, site: SiteId, at_s: float) -> None:
        """The users of a site whose database was put back let their groups go on, once it has heard all others."""
        for submission in self.submissions.values():
            if submission.site == site and submission.group is not None:
                self._open[submission.name] = submission
                submission.orders.append(UserOrder(at_s, ReleaseJobs, LIFTS))
                submission.orders.sort(key=lambda order: order.at_s)
                self._clock.at(at_s, self._order, submission)

    def answered(self, reply: Reply) -> Submission | None:
        """Take note of a reply; gives the submission it belongs to."""
        submission, order = self._waiting.pop(reply.request, (None, None))
        if submission is None:
            return None
        if order is not None:
            # Refused is answered too: nothing may be left to hold or to retry.
            if order in submission.orders:
                submission.orders.remove(order)
                if isinstance(reply.body, Refusal) and order.tries > 1:
                    submission.orders.insert(0, order._replace(tries=order.tries - 1))
            return submission
        match reply.body:
            case GroupAccepted():
                submission.group = reply.body.group
            case GroupsAccepted():
                for one, accepted in zip(submission.chain, reply.body.groups, strict=True):
                    one.group = accepted.group
            case Refusal():
                submission.refusals += reply.body.code != "retry"
                submission.why = reply.body.text
                if submission.refusals >= PATIENCE and submission.group is None:
                    for one in submission.chain or (submission,):
                        one.refused = reply.body.text
        return submission
