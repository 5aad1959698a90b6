"""The spans of a trace: a group's, told by the site it was submitted at, and a part's, told by the site that ran it.
All in site time."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from diana.engine.journal.state import Group, Subgroup
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of

MOST_PARTS = 500
MOST_EVENTS = 50
"""Most events of one group."""
MOST_NOTE = 300

Value = str | int | float | bool


class Event(NamedTuple):
    name: str
    at_s: float
    attributes: dict[str, Value]


class Span(NamedTuple):
    name: str
    trace_id: int
    """128 bits."""
    span_id: int
    """64 bits."""
    parent_id: int
    """0: the trace's first."""
    begin_s: float
    end_s: float
    attributes: dict[str, Value]
    events: tuple[Event, ...] = ()
    fault: str = ""
    """The fault; empty: none."""


class Ran(NamedTuple):
    """A part as its site saw it."""

    part: SubgroupId
    epoch: int
    taken_s: float
    first_s: float
    """First start among its jobs; negative: none started."""
    last_s: float
    """Last end among its jobs."""
    over_s: float
    jobs: int
    """Jobs that ended."""
    failed: int
    bytes_staged: int


def trace_id(vo: str, group: GroupId) -> int:
    """Id of the group's trace, the same at every site of the VO."""
    return _id(16, vo, group)


def span_id(vo: str, *names: object) -> int:
    return _id(8, vo, *names)


def _id(size: int, *names: object) -> int:
    """A number made of the names; never 0, which stands for none."""
    return int.from_bytes(sha256("\0".join(("diana-trace-1", *map(str, names))).encode()).digest()[:size], "big") or 1


def of_group(vo: str, group: Group) -> list[Span]:
    """Spans of a group, which is final, and of its parts. A group that was retried and is final again is another span
    of the same trace."""
    trace, again = trace_id(vo, group.group), len(group.retried) > 0
    first = span_id(vo, group.group)
    root = span_id(vo, group.group, group.closed_s) if again else first
    counts = {"done": group.done, "failed": group.failed, "cancelled": group.cancelled, "unknown": group.held}
    events = tuple(
        Event(
            "placed",
            decision.decided_at_s,
            {
                "diana.plan": decision.plan,
                "diana.reason": decision.reason[:MOST_NOTE],
                # Negative: not known.
                "diana.predicted_s": decision.end_s(),
                "diana.sites": ", ".join(part.site for part in decision.parts[:16]),
            },
        )
        for decision in group.decisions[-MOST_EVENTS:]
    )
    whole = Span(
        name=f"group {group.spec.name}".strip(),
        trace_id=trace,
        span_id=root,
        parent_id=first if again else 0,
        begin_s=group.submitted_s,
        end_s=group.closed_s,
        attributes={
            "diana.group": group.group,
            "diana.owner": group.owner,
            "diana.state": group.state,
            "diana.jobs": group.jobs,
            "diana.bytes_moved": group.bytes_moved,
            **{f"diana.{kind}": len(jobs) for kind, jobs in counts.items()},
        },
        events=events,
        fault="" if group.state == "done" else (group.note or group.state)[:MOST_NOTE],
    )
    spans = [whole]
    for part in sorted(group.subgroups.values(), key=lambda part: part.epoch)[-MOST_PARTS:]:
        spans += _of_part(vo, group, part, root)
    return spans


def _of_part(vo: str, group: Group, part: Subgroup, root: int) -> list[Span]:
    trace, placed_s = trace_id(vo, group.group), group.submitted_s
    merges = part.indices.bounds[:1] == (group.jobs,)
    if merges:
        placed_s += max(0.0, part.first_start_s)
    elif part.decision < len(group.decisions):
        placed_s = group.decisions[part.decision].decided_at_s
    ended_s = group.submitted_s + part.last_end_s if part.last_end_s >= 0 else group.closed_s
    home_s = group.submitted_s + part.gathered_s if part.gathered_s >= 0 else ended_s
    own = span_id(vo, part.subgroup, part.epoch)
    about: dict[str, Value] = {"diana.group": group.group, "diana.part": part.subgroup, "diana.at": part.site}
    spans = [
        Span(
            name=f"{'merge' if merges else 'part'} at {part.site}",
            trace_id=trace,
            span_id=own,
            parent_id=root,
            begin_s=placed_s,
            end_s=max(placed_s, ended_s, home_s),
            attributes={
                **about,
                "diana.jobs": part.finished,
                "diana.done": part.done,
                "diana.failed": part.failed,
                "diana.bytes_in": part.bytes_in,
            },
            fault=f"{part.failed} of {part.finished} jobs failed" if part.failed else "",
        )
    ]
    if home_s > ended_s:
        gathering = span_id(vo, part.subgroup, part.epoch, "gather")
        spans.append(Span("outputs home", trace, gathering, own, ended_s, home_s, about))
    return spans


def of_run(vo: str, site: SiteId, ran: Ran) -> list[Span]:
    """A part's spans by the site that ran it: the wait for inputs and a slot, then from the first start to the last
    end."""
    trace, parent = trace_id(vo, group_of(ran.part)), span_id(vo, ran.part, ran.epoch)
    about: dict[str, Value] = {"diana.group": group_of(ran.part), "diana.part": ran.part, "diana.at": site}
    begun_s = ran.first_s if ran.first_s >= 0 else ran.over_s
    # A first start may be told before the part was seen here: after a restart.
    taken_s = min(ran.taken_s, begun_s)
    wait = span_id(vo, ran.part, ran.epoch, "wait")
    spans = [Span(f"wait at {site}", trace, wait, parent, taken_s, begun_s, about)]
    if ran.first_s >= 0:
        told = {**about, "diana.jobs": ran.jobs, "diana.failed": ran.failed, "diana.bytes_in": ran.bytes_staged}
        fault = f"{ran.failed} of {ran.jobs} jobs failed" if ran.failed else ""
        run = span_id(vo, ran.part, ran.epoch, "run")
        spans.append(Span(f"run at {site}", trace, run, parent, begun_s, max(begun_s, ran.last_s), told, fault=fault))
    return spans
