"""Machines of this site come, go and are given up; what each has is reconciled (PROMISES section 2, step 5; SPEC D8).

Nothing is concluded about the jobs of a machine that is away: they may run on. Only its own inventory, or an operator's
word that it is gone for good, says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import NamedTuple

import msgspec

from diana.engine.data import datasets, outputs
from diana.engine.dispatch import renewals
from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.handover import availability, execution, inputs, own_runs, saving
from diana.engine.handover.gangs import claims, making_way
from diana.engine.journal.effects import ForgetRuns, KillRuns, Refusal, Reply
from diana.engine.journal.events import LrmLost, LrmReady, LrmSized, MachineRemoved, Run, ScratchSeen
from diana.engine.journal.records import CustodyRunnable, MachineGone, MachineKnown, RunsStarted, RunsVoided
from diana.engine.journal.state import Custody, CustodyKey, Machine
from diana.engine.machines.machine import EXPECTED_BACK_S, Worker
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.journal_doubt import JournalDoubt
from diana.engine.site.timers import MachineTimer
from diana.model.ids import GroupId, group_of
from diana.model.indexset import IndexSet
from diana.model.job import declared
from diana.model.settings import MOST_SLOTS
from diana.model.views.views import Ok
from diana.policy.trust.authorise import Action, authorise

SHOWN_AWAY_S = 5.0
"""Seconds; a machine that is away for less is not mentioned."""

MOST_MISSED = 1000
"""Attempts of one job that a copy of the journal can have missed; a claim that is further ahead is not this site's."""

_FORGOTTEN = (
    "the claim log of machine {} lost what it once held, so nobody knows whether it ran; see what it did, then rerun "
    "or give up the job"
)


# --- they come and go ----------------------------------------------------------------------------------------


def begin(core: Context, own: str) -> None:
    """Begin when the node starts, on the machine `own`; the others have yet to come."""
    core.workers.own_is(own, core.now)
    for name in core.workers.names():
        _expect(core, name)
    _told_queues(core)


def configured(core: Context) -> None:
    """Take over changed settings, and with them this machine's slots."""
    core.workers.configured()
    core.workers.told_slots = -1
    _told_queues(core)
    inputs.platforms_changed(core)


def on_ready(core: Context, event: LrmReady) -> None:
    """Reconcile a machine that is ready. Its inventory is the truth about it: jobs it was given and never claimed are
    pending again, jobs that are over are forgotten there, jobs that were given up meanwhile are ended there."""
    name = event.worker
    before = core.state.machines.get(name)
    identity = event.identity or (before.identity if before is not None else "")
    gpus = (event.gpus, event.all_gpus)
    log_before = before.claim_log if before is not None else ""
    known = Machine(
        min(max(0, event.slots), MOST_SLOTS),
        event.memory_bytes,
        event.widest,
        gpus,
        identity=identity,
        software=event.software,
        scratch_bytes=max(0, event.scratch_bytes),
        claim_log=event.claim_log or log_before,
        speed=event.speed if 0 < event.speed < inf else 0.0,
        resources=declared.sane(event.resources),
    )
    core.workers.ready(name, event.session, known, core.now)
    core.workers.sized(name, event.ahead, trouble=event.trouble)
    core.workers.scratch_seen(name, event.scratch_free_bytes)
    core.totals.runs.gives_back(name, event.recalls)
    core.totals.runs.looks(name, event.looks)
    core.timers.cancel(MachineTimer("machine", name))
    availability.came(core, name, event.cluster)
    news = _news(core, name, event.known)
    core.book(JournalDoubt).inventoried.add(name)
    found, lost = _unheard_of(core, news), own_runs.without_custody(core, news)
    older = own_runs.prove_older(core, lost) or not all(core.state.custodies[key].on_hold for key in found)
    # A pair that was taken over by force lacks the end of its journal, and goes on under its name.
    if older and not core.term:
        # Nothing is written, or the next start would not know; this is met again under the new name.
        journal_doubt.fell(core, f"{name} runs jobs that this site's database does not know of")
        return
    if _is_news(core, name, before, known):
        core.persist(_record(name, known))
    _reconcile(core, name, event.known, forgot=bool(log_before) and known.claim_log != log_before)
    own_runs.tells_anew(core, name)
    own_runs.take_over(core, name, lost)
    _adopt(core, name, _unheard_of(core, news) if lost else found)
    stray = [run for run in event.known if not _runs(core, run)]
    if before is not None and before.gone:
        _end_what_was_given_up(core, name, stray)
    if over := own_runs.keep_lost(core, name, stray):
        core.emit(ForgetRuns(tuple(over), name))
    for key in sorted(core.totals.runs.held_by(name)) if event.recalls else ():
        execution.recall(core, core.state.custodies[key])
        saving.save(core, core.state.custodies[key])
    for key in core.totals.runs.held_by(name):
        making_way.again(core, core.state.custodies[key])
    outputs.machine_back(core, name)
    _told_queues(core)
    inputs.platforms_changed(core)


def _news(core: Context, name: str, known: tuple[Run, ...]) -> tuple[Run, ...]:
    """Return the machine's runs without those it invents. Once it has told this boot what it has, the journal knows all
    that it was given later; the journal also knows what other machines have that told. The site's own machine is
    believed, and so are all where the journal was put back: it has yet to learn what runs."""
    doubt = core.book(JournalDoubt)
    odd = {run for run in known if not _runs(core, run)}
    if not odd or name == core.workers.own or doubt.fallen or core.state.recovering:
        return known
    if name in doubt.inventoried:
        lies = odd - own_runs.told_before(core, name)
    else:
        theirs: dict[GroupId, set[int]] = {group_of(run.subgroup): set() for run in odd}
        for key, custody in core.state.custodies.items():
            if (indices := theirs.get(group_of(key[0]))) is not None and key not in doubt.adopted:
                indices.update(_with_others(core, name, custody))
        lies = {run for run in odd if run.index in theirs[group_of(run.subgroup)]}
    if lies and (_unheard_of(core, tuple(lies)) or own_runs.without_custody(core, lies)):
        core.warn(f"machine {name} says that it has {len(lies)} runs that nobody gave it", name)
    return tuple(run for run in known if run not in lies)


def _with_others(core: Context, name: str, custody: Custody) -> IndexSet:
    """Return its running jobs that are with other machines than this one, which have told this boot what they have."""
    told, running = core.book(JournalDoubt).inventoried, custody.by_machine(IndexSet.of(custody.running))
    return IndexSet.union(IndexSet.of(some) for other, some in running.items() if other != name and other in told)


def groups_came_back(core: Context, groups: Collection[GroupId]) -> None:
    """Take over what this site's machines run of groups that its journal had lost."""
    for name, runs in own_runs.came_back(core, groups).items():
        own_runs.take_over(core, name, own_runs.without_custody(core, runs))
        _adopt(core, name, _unheard_of(core, tuple(runs)))
        if stray := [run for run in runs if not _runs(core, run)]:
            core.emit(ForgetRuns(tuple(stray), name))


def _is_news(core: Context, name: str, before: Machine | None, known: Machine) -> bool:
    """True if the figures of the machine must be recorded. For the node's own machine only GPUs, disk, identity,
    claim log and declared resources count: the settings say the rest."""
    if name != core.workers.own:
        return before != known
    return _own_figures(known) != _own_figures(before if before is not None else Machine(0))


def _record(name: str, machine: Machine) -> MachineKnown:
    return MachineKnown(
        machine=name,
        slots=machine.slots,
        memory_bytes=machine.memory_bytes,
        widest=machine.widest,
        gpus=machine.gpus,
        identity=machine.identity,
        software=machine.software,
        scratch_bytes=machine.scratch_bytes,
        claim_log=machine.claim_log,
        speed=machine.speed,
        resources=machine.resources,
    )


def _own_figures(machine: Machine) -> tuple[object, ...]:
    return machine.gpus, machine.scratch_bytes, machine.identity, machine.claim_log, machine.resources


def on_sized(core: Context, event: LrmSized) -> None:
    """Take over a machine's new size. It is the same machine with the same jobs; it only takes more or less from now
    on."""
    name, worker, known = event.worker, core.workers.find(event.worker), core.state.machines.get(event.worker)
    if worker is None or worker.session != event.session or known is None or name == core.workers.own:
        return
    if known.slots != event.slots:
        core.persist(_record(name, msgspec.structs.replace(known, slots=event.slots)))
    core.workers.sized(name, event.ahead, max(0.0, event.delay_s), event.trouble)
    core.workers.look_again()
    _told_queues(core)


def on_scratch(core: Context, event: ScratchSeen) -> None:
    worker = core.workers.find(event.worker)
    if worker is not None and worker.session == event.session:
        core.workers.scratch_seen(event.worker, event.free_bytes)


def on_lost(core: Context, event: LrmLost) -> None:
    worker = core.workers.find(event.worker)
    again = worker is not None and worker.session is None
    core.workers.lost(event.worker, core.now, event.why)
    availability.went(core, event.worker)
    if not again:
        _expect(core, event.worker)
    _end_claims(core, event.worker)


def _end_claims(core: Context, name: str) -> None:
    """End the claims on a member that is away; a batch system that tells nothing for a while, and so says why, holds
    what it holds."""
    worker = core.workers.find(name)
    if worker is not None and worker.session is None and name != core.workers.own and not worker.trouble:
        claims.machine_away(core, name)


def not_expected(core: Context, name: str) -> None:
    """Count without a machine that has been away for too long."""
    core.workers.not_expected(name, core.now)
    _end_claims(core, name)
    availability.not_met(core, name)
    _told_queues(core)


def _expect(core: Context, name: str) -> None:
    worker = core.workers.find(name)
    if worker is not None and worker.session is None and name != core.workers.own:
        core.after(MachineTimer("machine", name), EXPECTED_BACK_S)


def _told_queues(core: Context) -> None:
    """Tell the queues the site's slots: shares of service are over all of them (SPEC D4, default mode)."""
    # Each machine says what it likes of itself, and their sum must be one that settings can have.
    slots = min(core.workers.slots(), MOST_SLOTS)
    if slots != core.workers.told_slots:
        core.workers.told_slots = slots
        core.queues.configure(msgspec.structs.replace(core.state.settings, slots=slots), core.now)


def _reconcile(core: Context, name: str, known: tuple[Run, ...], forgot: bool) -> None:
    """`forgot`: its claim log is not the one it was, so a run that is not claimed there now may have been."""
    unsure = 0
    claimed = {(run.subgroup, run.epoch, run.index, run.attempt) for run in known}
    for key, indices in core.totals.runs.held_by(name).items():
        custody = core.state.custodies[key]
        void = IndexSet.of(i for i in indices if (*key, i, custody.running[i]) not in claimed)
        dying = custody.cancelled & (IndexSet.of(indices) - void)
        if void and forgot:
            unsure += len(void)
            execution.give_up(core, custody, list(void), _FORGOTTEN.format(name))
        elif void:
            execution.void(core, custody, void)
        if dying:
            core.emit(KillRuns(worker=name, subgroup=key[0], epoch=key[1], indices=dying))
    if forgot:
        core.warn(f"{name}: its claim log lost what it once held; {unsure} jobs that it may have started are not sure")


def _unheard_of(core: Context, known: tuple[Run, ...]) -> dict[CustodyKey, dict[int, list[int]]]:
    """Return runs there whose attempts this journal never heard of: custody -> attempts it missed -> indices. The
    journal is an older copy then; those jobs were committed here and have started, whatever it says, but for
    components of gangs, which were claimed at least."""
    found: dict[CustodyKey, dict[int, list[int]]] = {}
    for run in known:
        custody = core.state.custodies.get((run.subgroup, run.epoch))
        if custody is None or run.index not in custody.indices:
            continue
        # An attempt that the journal takes to run, and that is not claimed there, will have been made.
        last = custody.running.get(run.index, custody.attempts.get(run.index, custody.attempt_base))
        open_ = run.index in custody.pending or run.index in custody.running or not custody.runnable
        if open_ and last < run.attempt <= last + MOST_MISSED:
            found.setdefault(custody.key, {}).setdefault(run.attempt - last, []).append(run.index)
    return found


def _adopt(core: Context, name: str, found: dict[CustodyKey, dict[int, list[int]]]) -> None:
    """Record the found attempts as started: a machine's claims outrank the journal."""
    for key in sorted(found):
        core.warn(f"{name} runs jobs of {key[0]} that the journal does not know of: it is an older copy")
        core.book(JournalDoubt).adopted.add(key)
        custody = core.state.custodies[key]
        if custody.spec.is_gang and not custody.runnable:
            # It may stand at its barrier still, without its origin's word; how long it does is not known.
            core.book(ClaimBook).older.add(key)
        elif not custody.runnable:
            core.persist(CustodyRunnable(subgroup=key[0], epoch=key[1]))
            renewals.committed(core, custody)
        taken = IndexSet.of(i for some in found[key].values() for i in some if i in custody.running)
        if taken:
            # Another machine was given them meanwhile; what it does of them is stray when it tells.
            core.persist(RunsVoided(subgroup=key[0], epoch=key[1], indices=taken))
        for behind, indices in sorted(found[key].items()):
            some = IndexSet.of(indices)
            for _ in range(behind - 1):
                # The attempts in between are known to run no more.
                core.persist(RunsStarted(subgroup=key[0], epoch=key[1], indices=some, worker=name))
                core.persist(RunsVoided(subgroup=key[0], epoch=key[1], indices=some))
            core.persist(RunsStarted(subgroup=key[0], epoch=key[1], indices=some, worker=name))
        core.requeue.add(key)


def _runs(core: Context, run: Run) -> bool:
    custody = core.state.custodies.get((run.subgroup, run.epoch))
    return custody is not None and custody.running.get(run.index) == run.attempt


def _end_what_was_given_up(core: Context, name: str, stray: list[Run]) -> None:
    by_transfer: dict[CustodyKey, list[int]] = {}
    for run in stray:
        by_transfer.setdefault((run.subgroup, run.epoch), []).append(run.index)
    for key in sorted(by_transfer):
        core.emit(KillRuns(worker=name, subgroup=key[0], epoch=key[1], indices=IndexSet.of(by_transfer[key])))


# --- given up ------------------------------------------------------------------------------------------------


def remove(core: Context, event: MachineRemoved) -> None:
    """Give a machine up. Its jobs are interrupted, as far as anybody will ever know; `on_crash` of each group decides
    what follows."""
    name, why = event.machine, authorise(event.principal, Action.REMOVE_MACHINE)
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return
    held = core.totals.runs.held_by(name) if core.workers.find(name) is not None else {}
    wrong = _not_removable(core, name, bool(held))
    if wrong:
        core.reply(Reply(event.request, Refusal(code="usage", text=wrong)))
        return
    core.persist(MachineGone(machine=name))
    own_runs.machine_gone(core, name)
    availability.removed(core, name)
    core.workers.not_expected(name, core.now)
    core.timers.cancel(MachineTimer("machine", name))
    for key, indices in held.items():
        error = (
            f"machine {name} was removed by the operator while it ran; look at its log, then rerun or give up the job"
        )
        execution.give_up(core, core.state.custodies[key], indices, error)
    lost = outputs.machine_lost(core, name)
    core.reply(Reply(event.request, Ok(lost + sum(map(len, held.values())))))
    _told_queues(core)


def _not_removable(core: Context, name: str, holds_jobs: bool) -> str:
    """Return why the machine may not be given up; empty: it may."""
    worker, known = core.workers.find(name), core.state.machines.get(name)
    if name == core.workers.own:
        return f"machine {name} is the one this node runs on; name another"
    if not holds_jobs and (known is None or known.gone):
        others = sorted(n for n, machine in core.state.machines.items() if not machine.gone)
        near = datasets.near(name, others)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(others[:8]) or 'none'}"
        return f"no machine {name} at {core.site}; {hint}"
    if worker is not None and worker.session is not None:
        return f"machine {name} is in touch; stop its node first"
    return ""


# --- shown ---------------------------------------------------------------------------------------------------


def count(core: Context) -> int:
    """Count the machines of the site that were not given up, this one included."""
    own = core.workers.own
    return 1 + sum(name != own and not machine.gone for name, machine in core.state.machines.items())


class Absent(NamedTuple):
    """Jobs of a custody on one machine that is away."""

    jobs: int
    claimed: int
    """Those of `jobs` that wait there for a slot."""
    note: str


def absent(core: Context, custody: Custody) -> list[Absent]:
    """Return the custody's running jobs on machines that are away, one row per machine, by the machine's name."""
    out = []
    for worker in _silent(core):
        lane = worker.lane
        on, ahead = (sum(key == custody.key for key, _ in some) for some in (lane.on, lane.ahead))
        if on + ahead:
            out.append(Absent(on + ahead, ahead, _note(core, worker)))
    return out


def note(core: Context, key: CustodyKey) -> str:
    """One line about the first machine that has jobs of the custody and is away; empty: there is none."""
    custody = core.state.custodies.get(key)
    for worker in _silent(core) if custody is not None and custody.running else ():
        if any(held == key for some in (worker.lane.on, worker.lane.ahead) for held, _ in some):
            return _note(core, worker)
    return ""


def _silent(core: Context) -> list[Worker]:
    return [worker for worker in core.workers.absent() if core.now - worker.away_since_s >= SHOWN_AWAY_S]


def _note(core: Context, worker: Worker) -> str:
    return f"machine {worker.name} not heard of for {core.now - worker.away_since_s:.0f} s"
