"""The users of a scenario: what they submit, how they insist on an answer, and how long their jobs really run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

from diana.engine.effects import GroupAccepted, GroupsAccepted, Refusal, Reply
from diana.engine.events import (
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
from diana.model.data import DataFile, Dataset
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.principal import Principal, Role
from diana.model.spec import Axis, GroupSpec, InputFile, Outputs, Resources, Sweep
from diana.sim import chance, generated
from diana.sim.chains import before, together
from diana.sim.clock import Clock
from diana.sim.lrm import JobLife
from diana.sim.scenario import DatasetSpec, MoveSpec, Scenario, WorkSpec

INSIST_S = 5.0
"""A user without an answer, or refused, asks again with the same key."""
PATIENCE = 60
"""Refusals a user takes before giving up."""
MERGE_RUN_S = 1.0
LIFTS = 12
"""So often a user asks for a group of a restored site to go on."""


class Order(NamedTuple):
    """What a user says of a group later on."""

    at_s: float
    kind: type[CancelJobs | HoldJobs | ReleaseJobs | RetryJobs] | MoveSpec
    tries: int = 1
    """So often it is asked while it is refused."""

    def event(self, request: int, principal: Principal, group: GroupId) -> Event:
        if not isinstance(self.kind, MoveSpec):
            return self.kind(request=request, principal=principal, group=group, indices=None)
        jobs = self.kind.jobs
        some = IndexSet.span(self.kind.first, self.kind.first + jobs) if jobs else None
        return MoveJobs(request=request, principal=principal, group=group, indices=some, to=SiteId(self.kind.to))


"""Site time, and what is asked of the whole group."""


class Share(NamedTuple):
    """What a forced plan gives one site: so many of the entry's jobs from `first` on."""

    site: str
    first: int
    jobs: int


def shares(work: WorkSpec) -> tuple[Share, ...]:
    """Of a forced plan, in the order written."""
    firsts = accumulate(work.forced.values(), initial=0)
    return tuple(Share(site, first, jobs) for (site, jobs), first in zip(work.forced.items(), firsts, strict=False))


class Submission:
    """One group of the workload and what its user was told."""

    __slots__ = (
        "chain",
        "entry",
        "first",
        "group",
        "jobs",
        "name",
        "orders",
        "principal",
        "refs",
        "refusals",
        "refused",
        "seed",
        "site",
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
    ) -> None:
        """`luck`: the seed of that of the entry's jobs; without a share this group's are those from `first` on."""
        self.work = work
        self.entry = entry
        """Under which it is reported."""
        self.name = name = f"{entry} at {share.site}" if share else name or entry
        self.first = share.first if share else first
        """The number of its first job among the entry's."""
        self.jobs = share.jobs if share else work.jobs
        self.site = SiteId(work.site)
        self.submit_s = submit_s
        self.principal = principal
        self.spec, self.refs = _spec(work, name, scenario, share)
        self.seed = luck
        self.chain: tuple[Submission, ...] = ()
        """All that are submitted together with it, itself included; empty: it alone."""
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
        orders = [Order(at_s, kind) for kind, at_s in times if at_s >= 0]
        self.orders = sorted((*orders, *(Order(m.at_s, m) for m in work.moves)), key=lambda order: order.at_s)
        """What its user still wants of it, one after the other: the next when the last was answered."""

    def life(self, index: int, attempt: int = 1) -> JobLife:
        work = self.work
        if index >= self.jobs:
            return JobLife(MERGE_RUN_S)
        index += self.first
        luck = chance.fraction(self.seed, index)
        fails = work.fail_fraction > 0 and chance.fraction(self.seed ^ attempt, index) < work.fail_fraction
        run_s = (work.true_work_s or work.work_s) * (1.0 + work.spread * (2.0 * luck - 1.0))
        return JobLife(max(1e-6, run_s), 1 if fails else 0, work.output_bytes)


def _submissions(scenario: Scenario, seed: int) -> Iterator[Submission]:
    """In the order written, the groups of an entry one after the other."""
    principals = {user.name: Principal(Role(user.role), user.name) for user in scenario.users}
    first_user = scenario.users[0].name
    for work in scenario.workload:
        if work.generate is not None:
            luck = chance.text_seed(seed, work.name)
            for k, one in enumerate(generated.groups(work, work.generate, scenario, seed)):
                who = principals[one.user]
                yield Submission(one, work.name, one.submit_s, scenario, luck, who, name=one.name, first=k * work.jobs)
            continue
        for k in range(work.repeat):
            entry = work.name if k == 0 else f"{work.name}-{k + 1}"
            luck, submit_s = chance.text_seed(seed, entry), work.submit_s + k * work.every_s
            for share in shares(work) or (None,):
                yield Submission(work, entry, submit_s, scenario, luck, principals[work.user or first_user], share)


def black_hole(run: Run, spec: GroupSpec) -> JobLife:
    """What a site that is broken makes of any job."""
    return JobLife(0.01, exit_code=1)


class Users:
    """Submits, asks again until answered, cancels. `deliver(site, event)` is best effort: the site may be down."""

    def __init__(self, clock: Clock, scenario: Scenario, seed: int, deliver: Callable[[SiteId, Event], None]) -> None:
        self._clock = clock
        self._deliver = deliver
        self._requests = 0
        self._waiting: dict[int, tuple[Submission, Order | None]] = {}
        self.submissions: dict[str, Submission] = {}
        for one in _submissions(scenario, seed):
            self.submissions[one.name] = one
        for names in together(scenario.workload):
            chain = tuple(self.submissions[name] for name in names)
            for submission in chain:
                submission.chain, submission.submit_s = chain, chain[0].submit_s
        self._workload = scenario.workload

    def begin(self) -> None:
        for submission in self.submissions.values():
            if not submission.chain or submission is submission.chain[0]:
                self._clock.at(submission.submit_s, self._submit, submission)
            if submission.orders:
                self._clock.at(submission.orders[0].at_s, self._order, submission)

    def settled(self) -> bool:
        """Every submission was answered, every order too."""
        # The last to come is the likeliest to be open: of many groups one is looked at.
        for s in reversed(self.submissions.values()):
            if s.group is None and not s.refused:
                return False
            if s.group is not None and s.orders:
                return False
        return True

    def unanswered(self, site: SiteId) -> bool:
        """Whether a submission there is asked for and has no answer."""
        due = (s for s in self.submissions.values() if s.site == site and s.group is None and not s.refused)
        return any(s.submit_s <= self._clock.now_s for s in due)

    def life_of(self, run: Run, spec: GroupSpec) -> JobLife:
        submission = self.submissions.get(spec.name)
        return submission.life(run.index, run.attempt) if submission is not None else JobLife(MERGE_RUN_S)

    def request(self, submission: Submission, order: Order | None = None) -> int:
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
                submission.orders.append(Order(at_s, ReleaseJobs, LIFTS))
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


def dataset(spec: DatasetSpec) -> tuple[Dataset, tuple[DataFile, ...]]:
    """It and its files."""
    names = sorted(f"f{k}" for k in range(spec.files))
    files = tuple(
        DataFile(f"dataset:{spec.name}/{n}", spec.file_bytes, hashlib.sha256(f"{spec.name}/{n}".encode()).hexdigest())
        for n in names
    )
    digest = hashlib.sha256("\n".join(f.sha256 for f in files).encode()).hexdigest()
    size_bytes = spec.files * spec.file_bytes
    return Dataset(name=spec.name, digest=digest, files=spec.files, size_bytes=size_bytes), files


def _spec(
    work: WorkSpec, name: str, scenario: Scenario, share: Share | None
) -> tuple[GroupSpec, tuple[tuple[str, IndexSet], ...]]:
    """The group as the job file would give it, and its rendered input refs."""
    first, jobs = (share.first, share.jobs) if share else (0, work.jobs)
    sweep = Sweep(axes=(Axis(name="n", start=first, stop=first + jobs),))
    inputs: tuple[InputFile, ...] = ()
    refs: tuple[tuple[str, IndexSet], ...] = ()
    if work.file_per_job:
        sizes = {d.name: d.files for d in scenario.datasets}
        made = {w.produces: w.jobs for w in scenario.workload}
        names = ((d, f"f{k}") if d in sizes else (d, f"{k}.out") for d in work.inputs for k in range((sizes | made)[d]))
        files = tuple(f"{d}/{file}" for d, file in names)[first : first + jobs]
        sweep = Sweep(axes=(Axis(name="file", values=files),))
        inputs = (InputFile(source="dataset:{file}", path="input"),)
        refs = tuple((f"dataset:{f}", IndexSet.span(k, k + 1)) for k, f in enumerate(files))
    elif work.inputs:
        inputs = tuple(InputFile(source=f"dataset:{d}", path=d) for d in work.inputs)
        refs = tuple((f"dataset:{d}", IndexSet.span(0, jobs)) for d in work.inputs)
    outputs = (
        Outputs(collect=("{index}.out",), merge=("merge",) if work.merge else (), dataset=work.produces)
        if work.output_bytes
        else Outputs()
    )
    spec = GroupSpec(
        name=name,
        argv=("simulated",),
        resources=Resources(processors=work.processors, work_s=work.work_s),
        sweep=sweep,
        inputs=inputs,
        outputs=outputs,
        sites=(share.site,) if share else work.sites,
        on_crash=work.on_crash,
        on_site_lost=work.on_site_lost,
        max_parallel=work.max_parallel,
        max_subgroup=work.max_subgroup,
    )
    return spec, refs
