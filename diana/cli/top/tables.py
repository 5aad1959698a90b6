"""The page's tables as cells: which rows, in which order, how many are left out. Knows nothing of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from diana.cli.groups.gangs import progress
from diana.cli.groups.look import heard
from diana.cli.groups.queue import LEVELS, starts_in
from diana.cli.shared import output
from diana.cli.top.reading import SHOWN
from diana.model.views.group import GroupStatus
from diana.model.views.queue import QueueClass, QueueUser, QueueView
from diana.model.views.site import Site
from diana.wire.client import messages as wire
from diana.wire.client.peers import MachineRow, PeerRow, PeersResponse

T = TypeVar("T")
BUSY = 10
"""Marks of a bar."""
DONE = 16
LONGEST = 20
"""Characters of a group's name."""

SITES = ("SITE", "STATE", "BUSY", ">SLOTS", ">RUNNING", ">QUEUED", ">AHEAD", ">RTT", ">HEARD")
QUEUE = ("USER", ">QUOTA", *(f">{level}" for level in LEVELS), ">RUNNING", "STARTS IN")
GROUPS = ("GROUP", "NAME", "STATE", "PROGRESS", ">DONE", ">FAILED", ">END", ">RUNNING", ">WAITING", "LEVEL", "OWNER")
MACHINES = ("MACHINE", "ROLE", "STATE", "BUSY", ">SLOTS", ">JOBS")
PEERS = ("PEER", "STATE", "LINK", ">RTT", ">HEARD")


class TableRow(NamedTuple):
    key: str
    cells: tuple[str, ...]


class TableContent(NamedTuple):
    rows: list[TableRow]
    left_out: int
    """Rows beyond those that are shown."""
    hidden: int = 0
    """Rows that do not hold the word looked for."""


def _shown(values: Iterable[T], row: Callable[[T], TableRow], word: str, left_out: int = 0) -> TableContent:
    rows: list[TableRow] = []
    hidden = 0
    for value in values:
        if word and word not in searched(made := row(value)):
            hidden += 1
        elif len(rows) < SHOWN:
            rows.append(made if word else row(value))
        else:
            left_out += 1
    return TableContent(rows, left_out, hidden)


def searched(row: TableRow) -> str:
    return " ".join(cell for cell in row.cells if not isinstance(cell, output.ProgressBar)).casefold()


def _clean(key: str, *cells: object) -> TableRow:
    return TableRow(
        key, tuple(cell if isinstance(cell, output.ProgressBar) else output.clean(str(cell)) for cell in cells)
    )


def sites(found: Sequence[Site], word: str) -> TableContent:
    """This site first, the others by name."""
    return _shown(sorted(found, key=lambda site: (not site.home, site.site)), _site, word)


def _site(site: Site) -> TableRow:
    busy = max(0, site.slots - site.free_slots)
    return _clean(
        site.site,
        f"{site.site} (here)" if site.home else site.site,
        site.note.partition(":")[0] or site.state,
        output.bar([(busy, "#")], site.slots, BUSY),
        f"{busy:,}/{site.slots:,}",
        f"{site.running_jobs:,}",
        f"{site.queued_jobs:,}",
        output.seconds(site.work_ahead_s),
        "-" if site.home else output.milliseconds(site.rtt_s),
        heard(site.age_s),
    )


def queue(found: QueueView, word: str) -> TableContent:
    """A row per user: the jobs in each level, and when the first of them may start."""
    per_user: dict[str, list[QueueClass]] = {}
    for one in found.classes:
        per_user.setdefault(one.user, []).append(one)

    def row(user: QueueUser) -> TableRow:
        classes = per_user.get(user.user, [])
        soonest = min((one for one in classes if one.low_s >= 0), key=lambda one: one.low_s, default=None)
        counts = (sum(one.jobs for one in classes if one.level == level) for level in LEVELS)
        return _clean(
            user.user,
            user.user,
            f"{user.quota:g}",
            *(f"{count:,}" for count in counts),
            f"{user.running:,}",
            starts_in(soonest.low_s, soonest.high_s) if soonest else "-",
        )

    ranked = sorted(found.users, key=lambda user: (-user.queued, -user.running, user.user))
    return _shown(ranked, row, word)


def groups(found: wire.StatusResponse, word: str) -> TableContent:
    """Groups that are not over first; the newest first among these and the others."""
    ranked = sorted(found.groups, key=lambda group: (group.final, -group.submitted_wall_s, group.group))
    return _shown(ranked, _group, word, found.left_out)


def _group(group: GroupStatus) -> TableRow:
    parts = [(group.done, "#"), (group.failed + group.cancelled, "x"), (group.running, "-")]
    return _clean(
        group.group,
        group.group,
        clipped(group.name or "-") + (f" ({progress(group)})" if group.gangs else ""),
        group.state,
        output.bar(parts, group.jobs, DONE),
        f"{group.done:,}/{group.jobs:,}",
        f"{group.failed:,}",
        ending(group),
        f"{group.running:,}",
        f"{group.unplaced + group.staging + group.queued:,}",
        f"{group.level} {group.priority:.2f}" if group.level else "-",
        group.owner,
    )


def clipped(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def ending(group: GroupStatus) -> str:
    """`in 3m05s`, as it was planned; `12.0 s late`; `took 2m00s` once it is over."""
    if group.final:
        return f"took {output.seconds(group.last_end_s)}" if group.last_end_s > 0 else "-"
    if group.expected_end_s <= 0:
        return "-"
    left_s = group.expected_end_s - group.age_s
    return f"in {output.seconds(left_s)}" if left_s >= 0 else f"{output.seconds(-left_s)} late"


def machines(found: PeersResponse, word: str) -> TableContent:
    return _shown(found.machines, _machine, word)


def _machine(machine: MachineRow) -> TableRow:
    here = machine.state == "here"
    return _clean(
        machine.machine,
        machine.machine,
        machine.role,
        "here" if here else f"away for {output.seconds(machine.away_s)}" if machine.away_s > 0 else "away",
        output.bar([(machine.used_slots, "#")] if here else [], machine.slots, BUSY),
        f"{machine.used_slots:,}/{machine.slots:,}" if here else f"-/{machine.slots:,}",
        f"{machine.jobs:,}",
    )


def peers(found: PeersResponse, word: str) -> TableContent:
    return _shown(sorted(found.peers, key=lambda peer: peer.site), _peer, word)


def _peer(peer: PeerRow) -> TableRow:
    return _clean(
        peer.site,
        peer.site,
        peer.state,
        peer.link or "-",
        output.milliseconds(peer.rtt_s),
        heard(peer.age_s),
    )
