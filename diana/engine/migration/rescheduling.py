"""Running jobs that break their contracts, or would end sooner elsewhere, are stopped at a checkpoint and restarted
there (SPEC G5, G6). The origin decides it, by quotes, and relaxes a contract where no move pays. Volatile: after a
restart it judges by the next reports."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any, NamedTuple

from diana.engine.handover import steps
from diana.engine.journal.state import CustodyKey, Group, Subgroup
from diana.engine.matching.match import Match
from diana.engine.messages.messages import JobSteps
from diana.engine.migration import moves
from diana.engine.placement import candidates, control, quote_round, recall
from diana.engine.placement.draft import Draft, Pricing
from diana.engine.placement.manifest import Manifest
from diana.engine.site.context import Context
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.policy.grads.contract import Kept, StepPace, judge
from diana.policy.grads.rescheduling import Here, MoveVerdict, There, decide

VIOLATED_AGAIN_S = 15.0
"""Seconds between two looks for a better place of one job that breaks its contract."""
UNSETTLED_S, MOST_UNSETTLED = 3.0, 5
"""The same while its pace still changes, and how often: its contract is not made anew by a mean of two paces."""
CHANCE_AGAIN_S = 60.0
"""The same for one that keeps it: another site may have come free."""
SAVES_S = 120.0
"""Seconds that a job which was asked to save is left alone."""
SLOW_S = 1800.0
"""Seconds for which a site where a job of a group was slow is taken to be as slow for others of it."""
MOST_ASKED = 16

JobKey = tuple[GroupId, int]


class Relaxed(NamedTuple):
    """A contract that was made anew, since no move paid."""

    attempt: int
    foretold_s: float
    why: str


class Anew(NamedTuple):
    """An attempt that was given a checkpoint and began again: its command does not read it, as its reports say."""

    attempt: int
    done: float
    """Steps that it told first."""
    had: float
    """Steps that the attempt which saved had told last."""


class ContractBook:
    def __init__(self) -> None:
        self.relaxed: dict[JobKey, Relaxed] = {}
        self.violated: dict[JobKey, int] = {}
        """Job -> its attempt that broke its contract."""
        self.not_before_s: dict[JobKey, float] = {}
        """Job that breaks its contract -> not to be looked at again before."""
        self.reached: dict[JobKey, tuple[int, float]] = {}
        """Job that reports -> (its latest attempt, the steps that it told last)."""
        self.anew: dict[JobKey, Anew] = {}
        self.unsettled: dict[JobKey, tuple[int, int]] = {}
        """Job that breaks its contract -> (attempt, how often it was looked at while its pace changed)."""
        self.chance_s: dict[JobKey, float] = {}
        """The same of one that keeps it."""
        self.slow_at: dict[tuple[GroupId, SiteId], tuple[float, float]] = {}
        """(group, site that one of its jobs left since it was slow) -> (achieved over foretold time, until when that is
        believed of the site): its quotes know nothing of a load that is not a job's."""
        self.asked: set[GroupId] = set()
        """Groups with quotes on their way for one of their jobs."""


class Running(NamedTuple):
    """A job that runs and reports, and how it keeps to its contract."""

    part: Subgroup
    told: JobSteps
    kept: Kept
    relaxed: str
    """Why its contract was made anew; empty: it was not."""


def running(core: Context, group: Group) -> list[Running]:
    """Return the group's running jobs that report, by index."""
    contract = group.spec.contract
    if contract is None or group.state:
        return []
    out = []
    for part in group.subgroups.values():
        foretold_s = -1.0
        for told in reported(core, part):
            if told.index not in part.indices or not 0 < told.total < inf or told.done > told.total:
                continue
            if foretold_s < 0:
                foretold_s = _foretold_s(core, group, part.site)
            relaxed = core.book(ContractBook).relaxed.get((group.group, told.index))
            stands = relaxed is not None and relaxed.attempt == told.attempt
            allowed_s = relaxed.foretold_s if relaxed is not None and stands else foretold_s
            kept = judge(StepPace(told.last_s, told.mean_s), told.done, told.total, allowed_s, contract.tolerance)
            out.append(Running(part, told, kept, relaxed.why if relaxed is not None and stands else ""))
    return sorted(out, key=lambda one: one.told.index)


def reported(core: Context, part: Subgroup) -> tuple[JobSteps, ...]:
    """Return what the running jobs of a part reported last."""
    if not part.open_jobs() or part.unreachable:
        return ()
    if part.site == core.site:
        custody = core.state.custodies.get((part.subgroup, part.epoch))
        return steps.told(core, custody) if custody is not None else ()
    heard = core.view.progress.get(part.subgroup)
    return heard.steps if heard is not None and heard.epoch == part.epoch else ()


def _foretold_s(core: Context, group: Group, site: SiteId) -> float:
    """Return the seconds that a job was foretold to run at the site: by its model, else by its declared work, else by
    past runs of its like; 0: by none."""
    rows = (row for decision in reversed(group.decisions) for row in decision.candidates if row.site == site)
    model_s = next((row.model_s for row in rows if row.model_s > 0), 0.0)
    if model_s:
        return model_s
    learned = core.state.work_times.mean_s(group.template, group.owner)
    work_s = group.spec.resources.work_s or learned or 0.0
    peer = core.view.peers.get(site)
    told = peer.summary.speed if peer is not None and peer.summary is not None else 0.0
    speed = core.state.settings.speed if site == core.site else told
    return work_s / speed if 0 < speed < inf else 0.0


def note(core: Context, group: Group) -> str:
    """Return a line on a job that began anew in spite of its checkpoint, else on the slowest that breaks its contract;
    empty: there is none."""
    if group.spec.contract is None:
        return ""
    some = running(core, group)
    for one in some:
        if (anew := _began_anew(core, group, one)) is not None:
            return (
                f"{group.group}.{one.told.index} was given its checkpoint at {one.part.site} and began anew:"
                f" {anew.done:g} steps after {anew.had:g} of {one.told.total:g};"
                " its command has to read it where DIANA_CHECKPOINT is set"
            )
    slow = [one for one in some if one.kept.state == "slow"]
    worst = max(slow, key=lambda one: one.kept.mean, default=None)
    if worst is None:
        return ""
    more = f", and {len(slow) - 1} more" if len(slow) > 1 else ""
    return (
        f"{group.group}.{worst.told.index} breaks its contract at {worst.part.site}: {worst.kept.mean:.1f} times as"
        f" slow as foretold, {worst.kept.remaining_s:.0f} s left{more}"
    )


# --- rescheduling ----------------------------------------------------------------------------------------------------


def look(core: Context) -> None:
    """Look at each turn whether a job is to go elsewhere; one of each group at a time."""
    for part, told in list(core.view.progress.items()):
        if told.steps and (group := core.state.groups.get(GroupId(part.rpartition("/")[0]))) is not None:
            _look_at(core, group)
    for key in reporting_here(core):
        _look_at(core, core.state.groups[GroupId(key[0].rpartition("/")[0])])


def tidy(core: Context) -> None:
    """Forget groups that are over."""
    book = core.book(ContractBook)
    pauses: tuple[dict[Any, Any], ...] = (book.not_before_s, book.chance_s, book.unsettled)
    for some in (*pauses, book.relaxed, book.violated, book.reached, book.anew, book.slow_at):
        for key in [key for key in some if (group := core.state.groups.get(key[0])) is None or group.state]:
            del some[key]


def _look_at(core: Context, group: Group) -> None:
    book, contract = core.book(ContractBook), group.spec.contract
    some = running(core, group)
    for one in some:
        _follow(core, group, one)
        key = (group.group, one.told.index)
        if one.kept.state == "slow" and book.violated.get(key) != one.told.attempt:
            book.violated[key] = one.told.attempt
            core.count("contracts_violated")
    if contract is None or not contract.move or not control.saves_state(group) or group.group in book.asked:
        return
    due = [one for one in some if one.told.done < one.told.total and _is_due(core, group, one)]
    worst = max(due, key=lambda one: (one.kept.state == "slow", one.kept.remaining_s), default=None)
    if worst is None:
        return
    key, slow = (group.group, worst.told.index), worst.kept.state == "slow"
    book.chance_s[key] = core.now + CHANCE_AGAIN_S
    if slow:
        book.not_before_s[key] = core.now + VIOLATED_AGAIN_S
    among = _others(core, group, worst.part.site, free=not slow)
    if among:
        _ask(core, group, worst, among)
    elif slow:
        _stay(core, group, worst, "no other site takes it")


def _follow(core: Context, group: Group, one: Running) -> None:
    """See by the first reports of an attempt whether it went on from its checkpoint. One that lost less than half of
    the steps may have saved earlier than it told."""
    book, key, told = core.book(ContractBook), (group.group, one.told.index), one.told
    attempt, had = book.reached.get(key, (told.attempt, 0.0))
    saved = group.checkpoints.get(told.index)
    if saved is not None and saved.files and saved.attempt == attempt < told.attempt and told.done < had / 2:
        book.anew[key] = Anew(told.attempt, told.done, had)
    if told.attempt >= attempt:
        book.reached[key] = (told.attempt, told.done)


def _began_anew(core: Context, group: Group, one: Running) -> Anew | None:
    found = core.book(ContractBook).anew.get((group.group, one.told.index))
    return found if found is not None and found.attempt == one.told.attempt else None


def _is_due(core: Context, group: Group, one: Running) -> bool:
    book, key = core.book(ContractBook), (group.group, one.told.index)
    pauses = book.not_before_s if one.kept.state == "slow" else book.chance_s
    return pauses.get(key, 0.0) <= core.now


def reporting_here(core: Context) -> list[CustodyKey]:
    """Return the custodies at this site, of its own groups, of which jobs report."""
    held = ((key, core.state.custodies.get(key)) for key in core.book(steps.StepBook).here)
    return [key for key, custody in held if custody is not None and custody.origin == core.site]


def _others(core: Context, group: Group, here: SiteId, *, free: bool) -> tuple[SiteId, ...]:
    """Return the sites that may take a job of the group. `free`: only those that say they have a free slot."""
    match, found = Match(core, group.spec), []
    for site in core.view.alive(core.now, core.state.settings.suspect_after_s):
        told = core.view.peers[site].summary
        if told is None or not told.slots or not told.accepting or (free and not told.free_slots):
            continue
        if site != here and site not in core.view.banned and match.may_take(site):
            found.append(site)
    if here != core.site and core.workers.slots() and not core.drained() and match.may_take(core.site):
        found.append(core.site)
    return tuple(sorted(found)[:MOST_ASKED])


def _ask(core: Context, group: Group, one: Running, among: tuple[SiteId, ...]) -> None:
    index = one.told.index
    decided = partial(_decided, core, group.group, index, one.told.attempt, among)
    pricing = Pricing(group.group, frozenset(among), decided, behind=True)
    indices = IndexSet.span(index, index + 1)
    draft = Draft(core.ticket(), group.spec, indices, group.refs, owner=group.owner, purpose=pricing)
    core.book(ContractBook).asked.add(group.group)
    quote_round.ask(core, draft)


def _decided(core: Context, name: GroupId, index: int, attempt: int, among: tuple[SiteId, ...], draft: Draft) -> None:
    """Decide with the quotes that came, and by the latest reports."""
    core.book(ContractBook).asked.discard(name)
    group = core.state.groups.get(name)
    some = running(core, group) if group is not None else []
    one = next((one for one in some if (one.told.index, one.told.attempt) == (index, attempt)), None)
    manifest = Manifest(core, draft)
    if group is None or one is None or manifest.missing:
        return
    asked = [c for c in candidates.field(core, draft, manifest).candidates if c.site in among]
    rows, _ = moves.priced(core, draft, manifest, asked)
    others = []
    for site, row in sorted(rows.items()):
        if site != one.part.site and not row.rejected and row.total_s < inf:
            after_s = row.stage_out_s + row.network_s
            error_s = max(0.0, row.total_high_s - row.total_low_s) / 2
            before_s = max(0.0, row.total_s - row.run_s - after_s)
            others.append(There(site, before_s, row.run_s * _slowness(core, name, site), after_s, error_s))
    verdict = decide(_here(core, group, one), others, core.state.settings.migration_gain_s)
    if verdict.to is not None:
        _go(core, group, one, verdict)
    elif one.kept.state == "slow":
        _stay(core, group, one, verdict.reason)


def _slowness(core: Context, name: GroupId, site: SiteId) -> float:
    ratio, until_s = core.book(ContractBook).slow_at.get((name, site), (1.0, 0.0))
    return ratio if core.now < until_s else 1.0


def _here(core: Context, group: Group, one: Running) -> Here:
    left = one.told.total - one.told.done
    error_s = abs(one.told.last_s - one.told.mean_s) * left / 2
    # One that does not read its checkpoint does all of its steps again wherever it goes.
    part = 1.0 if _began_anew(core, group, one) is not None else left / one.told.total
    return Here(one.kept.remaining_s, error_s, part)


def _go(core: Context, group: Group, one: Running, verdict: MoveVerdict) -> None:
    index, to = one.told.index, verdict.to
    assert to is not None
    core.count("jobs_rescheduled")
    book, key = core.book(ContractBook), (group.group, index)
    book.not_before_s[key] = book.chance_s[key] = core.now + SAVES_S
    if one.kept.state == "slow":
        book.slow_at[(group.group, one.part.site)] = (one.kept.mean, core.now + SLOW_S)
    parts = [(one.part, IndexSet.span(index, index + 1))]
    recall.order(core, group, parts, IndexSet(), to, f"from a checkpoint: {verdict.reason}", save=True)


def _stay(core: Context, group: Group, one: Running, why: str) -> None:
    """Hold the job from now on against its own pace, once it has one; look again soon while it has not."""
    book, key = core.book(ContractBook), (group.group, one.told.index)
    attempt, looks = book.unsettled.get(key, (one.told.attempt, 0))
    looks = looks if attempt == one.told.attempt else 0
    if looks < MOST_UNSETTLED and not StepPace(one.told.last_s, one.told.mean_s).settled():
        book.unsettled[key] = (one.told.attempt, looks + 1)
        book.not_before_s[key] = core.now + UNSETTLED_S
        return
    book.unsettled.pop(key, None)
    _relax(core, group, one, why)


def _relax(core: Context, group: Group, one: Running, why: str) -> None:
    core.count("contracts_relaxed")
    foretold_s = one.told.mean_s * one.told.total
    core.book(ContractBook).relaxed[(group.group, one.told.index)] = Relaxed(one.told.attempt, foretold_s, why)
    core.notify(group.group)
