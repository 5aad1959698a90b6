"""Lines jobs write themselves, into one file: that they began, and with which code they end. No word of diana's own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from diana.engine.journal.events import Run
from diana.model.ids import GroupId, SubgroupId, group_of

_SCRIPT = (
    'printf "b %s %s %s %s\\n" "$DIANA_RUN" "$DIANA_SITE" "$EPOCHREALTIME" "$$" >> "$MARKS"; "$@"; code=$?; '
    'printf "e %s %s %s %s\\n" "$DIANA_RUN" "$DIANA_SITE" "$EPOCHREALTIME" "$code" >> "$MARKS"; exit $code'
)


class Began(NamedTuple):
    site: str
    at_s: float
    """Seconds of the machine's wall clock."""
    pid: int


class Ended(NamedTuple):
    at_s: float
    code: int


class Marks:
    """`job` makes jobs that write; `read` takes in what they wrote."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()
        self.began: dict[Run, list[Began]] = {}
        self.ended: dict[Run, list[Ended]] = {}
        self._read_to = 0
        self._counts: Counter[GroupId] = Counter()

    def job(self, jobs: int, then: tuple[str, ...], **group: object) -> dict[str, object]:
        """A job file whose jobs run `then` between their two marks."""
        return {
            "group": {
                "command": ["bash", "-c", _SCRIPT, "job", *then],
                "environment": {"MARKS": str(self.path)},
                **group,
            },
            "sweep": {"array": f"0-{jobs - 1}"},
            "resources": {"work": 0.5},
        }

    def count(self, group: str) -> int:
        """Indices of the group's jobs that ended, as often as they did. Reads on from where it stopped last."""
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            *whole, torn = file.read().split(b"\n")
            self._read_to = file.tell() - len(torn)
        for line in whole:
            kind, name, *_ = line.decode().split()
            if kind == "e":
                self._counts[group_of(_run(name).subgroup)] += 1
        return self._counts[GroupId(group)]

    def read(self) -> None:
        """A line is one write to a file opened for appending: never torn, never mixed with another."""
        self.began, self.ended = {}, {}
        for line in self.path.read_text().splitlines():
            kind, name, site, at_s, last = line.split()
            run = _run(name)
            if kind == "b":
                self.began.setdefault(run, []).append(Began(site, float(at_s), int(last)))
            else:
                self.ended.setdefault(run, []).append(Ended(float(at_s), int(last)))


def _run(name: str) -> Run:
    """From `FOLDER:SUBGROUP:EPOCH:INDEX:ATTEMPT`, by which the spawner knows a run's processes."""
    front, epoch, index, attempt = name.rsplit(":", 3)
    return Run(SubgroupId(front.partition(":")[2]), int(epoch), int(index), int(attempt))
