"""SPEC J4 as a check: no group is placed before those it waits for are done, none is done before its dataset stands."""

from __future__ import annotations

from diana.engine.journal import records as r
from diana.model.ids import GroupId
from diana.model.job.spec import decode_spec


class OrderCheck:
    """Follows the records that become durable at all sites; its cost grows with a group's records, never with its
    jobs."""

    __slots__ = ("_after", "_datasets", "_state")

    def __init__(self) -> None:
        self._after: dict[GroupId, tuple[GroupId, ...]] = {}
        self._datasets: dict[GroupId, str] = {}
        """Datasets that are promised and not registered yet."""
        self._state: dict[GroupId, str] = {}

    def look(self, record: r.Record) -> tuple[GroupId, str] | None:
        """The group and what is wrong; None: nothing."""
        match record:
            case r.GroupSubmitted():
                self._after[record.group] = record.after
                dataset = decode_spec(record.spec).outputs.dataset
                if dataset:
                    self._datasets[record.group] = dataset
            case r.GroupPlaced():
                early = [name for name in self._after.get(record.group, ()) if self._state.get(name) != "done"]
                if early:
                    return record.group, f"placed before {', '.join(early)} is done"
            case r.OutputsRegistered():
                self._datasets.pop(record.group, None)
            case r.JobsRetried():
                self._state.pop(record.group, None)
            case r.GroupClosed():
                self._state[record.group] = record.state
                if record.state == "done" and record.group in self._datasets:
                    return record.group, f"done before dataset {self._datasets[record.group]} is registered"
        return None
