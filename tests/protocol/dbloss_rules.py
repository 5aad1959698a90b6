"""Invariants when a database is lost or put back (`dbloss.py`)."""

from __future__ import annotations

from tests.protocol.dbloss_state import State


def nothing_is_started_twice_unasked(s: State) -> str | None:
    """Promises 3 and 7: one start, and one more for each word of the operator."""
    if s.starts > 1 + s.reassigned:
        return f"started {s.starts} times, the operator spoke {s.reassigned} times"
    return None


def what_is_committed_is_what_stands_there(s: State) -> str | None:
    """An epoch names one piece of work, also after the origin's memory of it is gone."""
    row = s.d.rows[s.o.epoch]
    rests = s.o.state == "committed" and s.o.db_uuid == s.d.db_uuid and row.phase in ("prepared", "runnable")
    if rests and s.o.content and row.content != s.o.content:
        return f"the origin committed content {s.o.content}, the destination runs {row.content}"
    return None


HARMS = (nothing_is_started_twice_unasked, what_is_committed_is_what_stands_there)


def ended_or_shown(s: State) -> bool:
    """Promise 4: done, or a visible UNREACHABLE or HELD; or to be placed, when the search is out of epochs."""
    return s.o.state in ("done", "unreachable", "held") or (s.o.state == "local" and s.o.epoch + 1 == len(s.d.rows))
