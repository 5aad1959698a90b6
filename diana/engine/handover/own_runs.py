"""Runs of this site's own groups that its machines tell of and its journal has no custody for: an older copy was put
back, made before they were placed at home (PROMISES section 2, "Database lost or restored").

A machine of the site tells what peers tell of what they hold (`recovery/stocktaking.py`): a restored origin takes its
jobs over, so that they end once and are begun nowhere else. What cannot go on without the records that are gone
(components of gangs, a merge, jobs that were cancelled meanwhile) is ended, and holds its group until it surely is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from diana.engine.handover import execution
from diana.engine.journal import fold_recovery
from diana.engine.journal.effects import KillRuns
from diana.engine.journal.events import JobsEnded, Run
from diana.engine.journal.records import ControlTaken, CustodyTaken, JobsRetried, PartReported, RunsVoided
from diana.engine.journal.state import CustodyKey, Group
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.journal_doubt import JournalDoubt
from diana.model.ids import GroupId, group_of, origin_of, subgroup_id
from diana.model.indexset import IndexSet
from diana.model.job.spec import encode_spec

MOST_SINCE = 1000
"""Parts of a group that a copy of the journal can have missed, beyond one for each job, and attempts of a job; a run of
one that is further ahead is not this site's."""
MOST_DIGITS = 18
"""Digits of the number of a part."""


class UnknownRuns:
    """Runs that the journal does not know of and that are to end before their groups go on. Volatile: each boot has
    them from its machines, and no group that was put back goes on before those have told."""

    def __init__(self) -> None:
        self.runs: dict[str, set[Run]] = {}
        """Machine -> runs."""
        self.lost: dict[str, set[Run]] = {}
        """Machine -> runs of groups that went with the end of the journal: they are taken over where those come back
        (`recovery/stocktaking.py`)."""


def without_custody(core: Context, known: Iterable[Run]) -> dict[CustodyKey, dict[int, int]]:
    """Return the runs of this site's groups that no custody here accounts for, and no part that is over or was taken
    back: key -> index -> attempt."""
    found: dict[CustodyKey, dict[int, int]] = {}
    for run in known:
        name, key = group_of(run.subgroup), (run.subgroup, run.epoch)
        group = core.state.groups.get(name)
        if origin_of(name) != core.site or group is None or key in core.state.custodies:
            continue
        if _can_be(group, run) and _may_be_open(group, key, run.index):
            attempts = found.setdefault(key, {})
            attempts[run.index] = max(run.attempt, attempts.get(run.index, 0))
    return found


def keep_lost(core: Context, machine: str, strays: Iterable[Run]) -> list[Run]:
    """Keep those of the runs whose groups may come back; return the others, which their machine is to forget."""
    lost = {run for run in strays if _may_come_back(core, run)}
    core.book(UnknownRuns).lost[machine] = lost
    return [run for run in strays if run not in lost]


def _may_come_back(core: Context, run: Run) -> bool:
    name = group_of(run.subgroup)
    lost = origin_of(name) == core.site and name not in core.state.groups and journal_doubt.forgotten(core, name)
    return lost and core.state.recovering and not all(core.state.reported.values())


def came_back(core: Context, groups: Collection[GroupId]) -> dict[str, list[Run]]:
    """Return the runs of these groups that machines told of before they came back: machine -> runs."""
    book = core.book(UnknownRuns).lost
    found = {name: [run for run in runs if group_of(run.subgroup) in groups] for name, runs in sorted(book.items())}
    for name, some in found.items():
        book[name].difference_update(some)
    return {name: sorted(some, key=_order) for name, some in found.items() if some}


def _order(run: Run) -> tuple[str, int, int, int]:
    return (run.subgroup, run.epoch, run.index, run.attempt)


def _can_be(group: Group, run: Run) -> bool:
    """True if a run of the group can be called so: each machine says what it likes."""
    number = run.subgroup.partition("/")[2]
    named = number.isdecimal() and run.subgroup == subgroup_id(group.group, int(number[:MOST_DIGITS]))
    return named and run.epoch > 0 and 0 <= run.index <= group.jobs and 0 < run.attempt <= MOST_SINCE


def _may_be_open(group: Group, key: CustodyKey, index: int) -> bool:
    part = group.subgroups.get(key[0])
    if part is not None:
        # A component that the copy shows as offered, and whose claim it lacks; or a number that was given anew.
        return part.epoch == key[1] and bool(group.open_of(part.indices & IndexSet.of((index,))))
    bound = MOST_SINCE + group.jobs
    return key[0] not in group.past and _number(key) <= group.next_number + bound and key[1] <= group.epoch + bound


def prove_older(core: Context, lost: Mapping[CustodyKey, object]) -> bool:
    """True if any of them shows that the journal lacks its end: each part is durable under its number, epoch and site
    before anything of it runs. A store that was put back is known to lack it, of the groups that wait for their
    users."""
    for key in lost:
        group = core.state.groups[group_of(key[0])]
        part = group.subgroups.get(key[0])
        elsewhere = part is not None and part.site != core.site
        if not _waits(core, group) and (elsewhere or _came_later(group, key)):
            return True
    return False


def _number(key: CustodyKey) -> int:
    return int(key[0].rpartition("/")[2])


def _came_later(group: Group, key: CustodyKey) -> bool:
    return _number(key) >= group.next_number or key[1] > group.epoch


def _waits(core: Context, group: Group) -> bool:
    """True for a group that was put back and has not gone on since."""
    return fold_recovery.in_the_copy(core.state, group) and bool(group.on_hold or group.state)


def told_before(core: Context, machine: str) -> set[Run]:
    """Return the runs that the machine told of in this boot and that are to end, or may be taken over."""
    book = core.book(UnknownRuns)
    return book.runs.get(machine, set[Run]()) | book.lost.get(machine, set[Run]())


def tells_anew(core: Context, machine: str) -> None:
    """The machine's inventory takes the place of what it told before."""
    core.book(UnknownRuns).runs.pop(machine, None)


def take_over(core: Context, machine: str, lost: Mapping[CustodyKey, Mapping[int, int]]) -> None:
    """Give the jobs of these runs a part and a custody, under which they are adopted; or have them ended."""
    book = core.book(UnknownRuns).runs
    # Of two parts that have a job the later one has it.
    for key in sorted(lost, key=lambda key: (-key[1], key)):
        group = core.state.groups[group_of(key[0])]
        # A pair that was taken over by force goes on under its name, without the end of its journal.
        if not _waits(core, group) and not (core.term and _came_later(group, key)):
            continue
        attempts = lost[key]
        told = _claimed_last(group, key, IndexSet.of(attempts))
        ends = told if key[0] in group.subgroups else _cannot_go_on(group, told, attempts)
        if ends:
            core.warn(f"{machine} runs {len(ends)} jobs of {key[0]} that the journal does not know of: they are ended")
            book.setdefault(machine, set()).update(Run(*key, index, attempts[index]) for index in ends)
            core.emit(KillRuns(worker=machine, subgroup=key[0], epoch=key[1], indices=ends))
        if told - ends:
            _give_custody(core, group, key, told - ends, min(attempts[index] for index in told - ends))
    for name, group in core.state.groups.items() if core.state.recovering else ():
        if group.on_hold:
            # It may go on once the machines have told.
            core.notify(name)


def _claimed_last(group: Group, key: CustodyKey, told: IndexSet) -> IndexSet:
    """Those of the jobs that nobody was given later, as far as the copy and the peers tell, and that are not done."""
    others = (part for part in group.subgroups.values() if part.subgroup != key[0])
    return told - IndexSet.union(part.indices for part in others if part.epoch >= key[1]) - group.done.within(told)


def _cannot_go_on(group: Group, told: IndexSet, attempts: Mapping[int, int]) -> IndexSet:
    """Those that are ended: components, whose others are not known; a merge, whose group may not be at it any more;
    jobs that count as cancelled, perhaps since."""
    if group.spec.is_gang:
        return told
    jobs = told & IndexSet.span(0, group.jobs)
    ends = (told - jobs) | group.cancelled.within(jobs)
    if _reads(group) and jobs - ends:
        # Only one that goes back as never begun is given its inputs again, and a custody tells that by one number.
        lowest = min(attempts[index] for index in jobs - ends)
        ends = ends | IndexSet.of(index for index in jobs if attempts[index] != lowest)
    return ends


def _reads(group: Group) -> bool:
    return bool(group.refs) or group.spec.checkpoint is not None


def _give_custody(core: Context, group: Group, key: CustodyKey, jobs: IndexSet, attempt: int) -> None:
    """`attempt`: the lowest of theirs."""
    again = jobs - group.open_of(jobs)
    if again:
        # They were tried again since the copy was made.
        core.persist(JobsRetried(group=group.group, indices=again))
    others = sorted(one for one in core.state.custodies if group_of(one[0]) == group.group)
    for other in others:
        running = jobs & IndexSet.of(core.state.custodies[other].running)
        if running:
            # The copy takes an earlier attempt to run; what its machine tells of that is stray.
            core.persist(RunsVoided(subgroup=other[0], epoch=other[1], indices=running))
    # Which inputs they were given went with the journal. Those that turn out not to have begun go back and are placed
    # anew; those that are interrupted are held, whatever their group says.
    reads = _reads(group)
    seq, back = (1, jobs) if reads else (0, IndexSet())
    core.book(JournalDoubt).adopted.add(key)
    core.persist(
        PartReported(
            subgroup=key[0],
            epoch=key[1],
            site=core.site,
            db_uuid=core.state.db_uuid,
            open=jobs,
            control_seq=seq,
            recalled=back,
        )
    )
    core.persist(
        CustodyTaken(
            subgroup=key[0],
            epoch=key[1],
            indices=jobs,
            memory_bytes=group.memory_bytes,
            attempt_base=max(0, attempt - 1),
            origin=core.site,
            owner=group.owner,
            spec=encode_spec(replace(group.spec, on_crash="hold")) if reads else group.spec_bytes,
            submitted_s=group.submitted_s,
        )
    )
    if reads:
        core.persist(ControlTaken(subgroup=key[0], epoch=key[1], control_seq=seq, recall=back))
    for other in others:
        core.requeue.add(other)
        execution.close_if_over(core, core.state.custodies[other])
    core.to_check.add(group.group)
    core.notify(group.group)


def on_ended(core: Context, event: JobsEnded) -> None:
    """Let a group go on once the last of what was ended for it is over. A member tells of its own runs alone."""
    book, lost = core.book(UnknownRuns).runs, core.book(UnknownRuns).lost
    if not book and not lost:
        return
    rows = zip(event.facts.indices, event.facts.attempts, strict=True)
    over = {Run(event.subgroup, event.epoch, index, attempt) for index, attempt in rows}
    for machine in (event.worker,) if event.worker else sorted({*book, *lost}):
        lost.get(machine, set[Run]()).difference_update(over)
        if book.get(machine, set[Run]()).isdisjoint(over):
            continue
        book[machine] -= over
        if not book[machine]:
            del book[machine]
        core.notify(group_of(event.subgroup))


def machine_gone(core: Context, machine: str) -> None:
    """Nobody will tell how its runs ended: an operator's word counts as their end."""
    core.book(UnknownRuns).runs.pop(machine, None)
    core.book(UnknownRuns).lost.pop(machine, None)


def waits_for(core: Context, group: GroupId) -> str:
    """The machines that still end jobs of the group which the journal does not know of, in words; empty: none."""
    book = core.book(UnknownRuns).runs
    some = {name: sum(group_of(run.subgroup) == group for run in runs) for name, runs in sorted(book.items())}
    told = ", ".join(f"{count} at {name}" for name, count in some.items() if count)
    return f"waits until jobs of it that this database does not know of are ended: {told}" if told else ""
