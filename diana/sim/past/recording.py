"""A site's history as files: a log of its jobs, and a scenario that replays them.

Groups come one after another, each with rows of its jobs behind it, and leave as lines at once: memory holds one group.
The log is in the Standard Workload Format (Parallel Workloads Archive, version 2.2) with what that lacks in comments,
see `sim/load/past.py`."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from diana.bounds import MOST_LINE_BYTES
from diana.errors import UsageError
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.job import declared, devices
from diana.model.views.past import PastGroup, PastMachine, PastRows, PastSite
from diana.sim.load import past
from diana.sim.load.past import GroupNote, OrderNote
from diana.sim.scenario.text import written
from diana.sim.specs.compare_spec import SettingsTable
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.demand_spec import UserSpec
from diana.sim.specs.event_spec import EventSpec
from diana.sim.specs.link_spec import LinkSpec
from diana.sim.specs.machine_spec import MachineSpec, MaintenanceSpec
from diana.sim.specs.resources_spec import ResourcesSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.trace_spec import HistorySpec
from diana.sim.specs.work_spec import WorkSpec

Owners = Literal["keep", "hash", "drop"]

SCENARIO = "scenario.toml"
_STATUS = {Outcome.DONE.name: 1, Outcome.CANCELLED.name: 5}
"""Field 11; all others failed: 0."""
_HASH_CHARS = 12
RESTORED_GROUPS = 1_000_000
"""Numbers that a site leaves out when its journal is put back."""
MOST_EARLIER = 1000
"""Jobs of a group whose earlier attempts are told."""
_MOST_NOTE_BYTES = MOST_LINE_BYTES - 1000
"""A group that names thousands of sites or datasets is told without them: readers take no longer line."""


class KnownSite(NamedTuple):
    """A site as its summary showed it."""

    site: str
    slots: int
    speed: float


class Recorded(NamedTuple):
    """Counts of the groups and jobs written, for people."""

    groups: int
    jobs: int
    going_on: int
    """Groups that are not over: their jobs that have ended are in it."""
    without_jobs: int
    """Groups none of whose jobs has ended."""
    clock_back: int
    """Jobs that began before they were submitted, by their sites' clocks: told as if they had not waited."""
    size_bytes: int
    missing: int = 0
    """Groups of the span that the site has forgotten already, as far as their numbers show it."""
    restored: int = 0
    """Times that the site's journal was put back within the span: groups submitted since its copy are missing."""


class Recorder:
    """Use as `with Recorder(...) as it: it.group(...); it.rows(...); ...; it.close(...)`. The log stands whole or not
    at all."""

    def __init__(
        self,
        folder: Path,
        told: PastSite,
        sites: Sequence[KnownSite],
        vo: str,
        owners: Owners = "keep",
        *,
        hash_places: bool = False,
    ) -> None:
        self._hides, self._vo, self._owners, self._folder = hash_places, vo, owners, folder
        # Settings are told to operators alone.
        self._sees_all = bool(told.settings)
        self._told = told = self._hidden_site(told) if hash_places else told
        self._sites = {one.site: one for one in (each._replace(site=self._place(each.site)) for each in sites)}
        self._log = folder / f"{told.site}.swf.gz"
        self._fresh = folder / f".{told.site}.swf.gz.new"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._fresh.open("wb")
        except OSError as error:
            raise UsageError(f"history: {folder}: {error.strerror}; name a folder this account may write to") from None
        # Without its name and the time: the same history is the same bytes.
        self._out = gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0)
        self._partitions: dict[str, int] = {}
        self._users: dict[str, int] = {}
        self._base_wall_s = 0.0
        self._group: PastGroup | None = None
        self._rows: list[PastRows] = []
        self._groups = self._jobs = self._going_on = self._without = self._back = 0
        self._missing = self._restored = self._number = 0
        self._last_s = 0.0
        self._datasets: set[str] = set()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._shut()
        self._fresh.unlink(missing_ok=True)

    def group(self, group: PastGroup) -> None:
        """The next group, in order of submission."""
        self._flush()
        self._count(int(group.group.rpartition("-")[2]))
        if self._hides:
            site, _, number = group.group.rpartition("-")
            group = replace(
                group,
                group=GroupId(f"{self._place(site)}-{number}"),
                sites=tuple(map(self._place, group.sites)),
                datasets=tuple(map(self._dataset, group.datasets)),
                orders=tuple(replace(one, to=self._place(one.to)) for one in group.orders),
                resources=self._hidden(group.resources),
            )
        if not self._groups:
            self._begin(group.submitted_wall_s)
        self._group = group

    def _count(self, number: int) -> None:
        """Count the groups between the last one and this; of others' groups a user is told nothing."""
        between, self._number = number - self._number - 1 if self._number else 0, number
        if between >= RESTORED_GROUPS:
            self._restored += 1
        elif between > 0 and self._sees_all:
            self._missing += between

    def rows(self, rows: PastRows) -> None:
        """Rows of the group told last."""
        self._rows.append(replace(rows, site=SiteId(self._place(rows.site))) if self._hides else rows)

    def has_jobs(self) -> bool:
        """True if a job was recorded that ended."""
        return self._jobs > 0

    def close(
        self,
        links: Iterable[LinkSpec],
        datasets: Iterable[DatasetSpec],
        settings: SettingsTable,
        quotas: dict[str, float],
        *,
        from_wall_s: float | None = None,
    ) -> Recorded:
        """Write the rest and the scenario. UsageError where nothing was told: a span without jobs. `from_wall_s`: it is
        a part of a grid's history that begins then, in seconds since 1970, and may be without jobs."""
        if self._hides:
            links = [replace(one, between=(self._place(one.between[0]), self._place(one.between[1]))) for one in links]
            datasets = [
                replace(
                    one,
                    name=self._dataset(one.name),
                    site=self._place(one.site),
                    replicas=tuple(sorted(map(self._place, one.replicas))),
                )
                for one in datasets
            ]
        self._flush()
        if not self._groups and from_wall_s is not None:
            self._begin(from_wall_s)
        if not self._jobs and from_wall_s is None:
            raise UsageError(
                f"history of {self._told.site}: no job of that span has ended here; choose another span "
                f"(groups are remembered for {self._told.keep_s / 3600:g} h after their end)"
            )
        self._shut()
        raw = self._fresh.stat().st_size
        self._fresh.replace(self._log)
        scenario = self._scenario(links, datasets, settings, quotas)
        (self._folder / SCENARIO).write_text(written(scenario), encoding="utf-8")
        return Recorded(
            self._groups, self._jobs, self._going_on, self._without, self._back, raw, self._missing, self._restored
        )

    def _place(self, site: str) -> str:
        """The name by which a site is told."""
        return f"s{self._hash(site)}" if self._hides and site else site

    def _dataset(self, name: str) -> str:
        return f"d{self._hash(name)}" if self._hides else name

    def _hidden(self, resources: Mapping[str, int]) -> dict[str, int]:
        return {f"r{self._hash(name)}": count for name, count in resources.items()}

    def _hash(self, text: str) -> str:
        # The VO's name is its salt: the same in all its histories, so that they can be merged.
        return hashlib.sha256(f"{self._vo}\n{text}".encode()).hexdigest()[:_HASH_CHARS]

    def _hidden_site(self, told: PastSite) -> PastSite:
        names = {one.name: f"m{number}" for number, one in enumerate(told.machines, 1)}
        return replace(
            told,
            site=SiteId(self._place(told.site)),
            settings="",
            machines=tuple(
                replace(one, name=names[one.name], resources=self._hidden(one.resources)) for one in told.machines
            ),
            resources=self._hidden(told.resources),
            maintenance=tuple(
                replace(one, machines=tuple(names.get(each, each) for each in one.machines), reason="")
                for one in told.maintenance
            ),
        )

    def _shut(self) -> None:
        self._out.close()
        self._file.close()

    # --- the log -------------------------------------------------------------------------------------------

    def _begin(self, from_wall_s: float) -> None:
        self._base_wall_s = floor(from_wall_s)
        lines = [
            "Version: 2.2",
            f"Computer: {self._told.site}",
            f"Installation: {self._vo}",
            f"{past.VERSION}: {past.FORMAT}",
            f"UnixStartTime: {int(self._base_wall_s)}",
            f"MaxProcs: {sum(one.slots for one in self._sites.values()) or self._told.slots}",
            "Note: jobs that ended, of groups submitted here; times have fractions of seconds (fields 2, 3, 4, 9)",
            "Note: field 14 is the group, 15 the site where it was submitted, 16 the site where the job ran",
            "Note: `Group: N {...}` stands before the jobs of group N: its name, user and wishes, as JSON",
            "Note: `PartitionSpeed: N X`: run times at site N times X are those at speed 1.0",
        ]
        self._write("".join(f"; {line}\n" for line in lines))
        for site in sorted(self._sites):
            self._partition(site)

    def _partition(self, site: str) -> int:
        number = self._partitions.get(site)
        if number is None:
            number = self._partitions[site] = len(self._partitions) + 1
            known = self._sites.get(site)
            speed = known.speed if known is not None and known.speed > 0 else 1.0
            told = ((past.PARTITION, site), (past.QUEUE, site), (past.SPEED, f"{speed:g}"))
            self._write("".join(f"; {key}: {number} {text}\n" for key, text in told))
        return number

    def _user(self, owner: str) -> str:
        """The name by which an owner is told."""
        if self._owners == "keep":
            return owner
        if self._owners == "drop":
            return f"user@{self._vo}"
        return f"u{self._hash(owner)}@{self._vo}"

    def _number_of(self, user: str) -> int:
        number = self._users.get(user)
        if number is None:
            number = self._users[user] = len(self._users) + 1
            self._write(f"; {past.USER}: {number} {user}\n")
        return number

    def _flush(self) -> None:
        group, told, self._group, self._rows = self._group, self._rows, None, []
        if group is None:
            return
        newest: dict[int, tuple[int, str, int, PastRows]] = {}
        before: dict[int, list[tuple[int, float]]] = {}
        for rows in told:
            if rows.earlier:
                self._add_earlier(before, rows)
                continue
            for at, (index, attempt) in enumerate(zip(rows.indices, rows.attempts, strict=True)):
                known = newest.get(index)
                if known is None or known[0] <= attempt:
                    newest[index] = (attempt, rows.site, at, rows)
        self._groups += 1
        self._going_on += not group.final
        self._without += not newest
        user = self._user(group.owner)
        who, number = self._number_of(user), self._groups
        submit_s = max(0.0, group.submitted_wall_s - self._base_wall_s)
        self._last_s = max(self._last_s, submit_s)
        self._datasets.update(group.datasets)
        sizes = [rows.output_bytes[at] for _, _, at, rows in newest.values() if rows.output_bytes[at]]
        note = GroupNote(
            name=group.group,
            user=user,
            submit_s=round(submit_s, 3),
            jobs=group.jobs,
            over=group.final,
            work_s=group.work_s,
            processors=max(1, group.processors),
            components=group.components,
            **_resources(group, declared.MOST_AMOUNT),
            memory_bytes=group.memory_bytes,
            datasets=group.datasets,
            file_per_job=group.file_per_job,
            output_bytes=sum(sizes) // len(sizes) if sizes else 0,
            bytes_in=group.bytes_in,
            sites=group.sites,
            max_subgroup=group.max_subgroup,
            max_parallel=group.max_parallel,
            on_crash=group.on_crash,
            on_site_lost=group.on_site_lost,
            retried=group.retried,
            ran="" if len(newest) == group.jobs else str(IndexSet.of(newest)),
            orders=tuple(
                OrderNote(
                    after_s=round(one.after_s, 3),
                    kind=one.kind,
                    jobs="" if one.whole else one.indices,
                    to=one.to,
                )
                for one in group.orders
            ),
            earlier=tuple(
                (index, *(round(work_s, 3) for _, work_s in sorted(tries)))
                for index, tries in sorted(before.items())
                if index in newest
            )[:MOST_EARLIER],
            foretold_after_s=round(max(0.0, group.foretold_after_s), 3),
            foretold_s=round(max(0.0, group.foretold_end_s), 3),
            low_s=round(max(0.0, group.foretold_low_s), 3),
            high_s=round(max(0.0, group.foretold_high_s), 3),
        )
        text = msgspec.json.encode(note)
        if len(text) > _MOST_NOTE_BYTES:
            text = msgspec.json.encode(replace(note, datasets=(), sites=(), orders=(), ran="", earlier=()))
        home = self._partition(self._told.site)
        lines = [f"; {past.GROUP}: {number} {text.decode()}\n"]
        head, asked = _short(submit_s), _short(group.work_s) if group.work_s else "-1"
        wide, memory = max(1, group.processors), group.memory_bytes // 1024 or -1
        for index in sorted(newest):
            _, site, at, rows = newest[index]
            wait_s = rows.started_s[at] - group.submitted_s
            run_s = rows.ended_s[at] - rows.started_s[at]
            self._back += wait_s < 0
            self._jobs += 1
            lines.append(
                f"{self._jobs} {head} {_short(max(0.0, wait_s))} {_short(max(0.0, run_s))} {wide} "
                f"{_short(rows.cpu_s[at] / wide)} {rows.max_rss_bytes[at] // 1024} {wide} {asked} {memory} "
                f"{_STATUS.get(rows.outcomes[at], 0)} {who} -1 {number} {home} {self._partition(site)} -1 -1\n"
            )
        self._write("".join(lines))

    def _add_earlier(self, before: dict[int, list[tuple[int, float]]], rows: PastRows) -> None:
        known = self._sites.get(rows.site)
        speed = known.speed if known is not None and known.speed > 0 else 1.0
        for at, index in enumerate(rows.indices):
            run_s = rows.ended_s[at] - rows.started_s[at]
            if rows.outcomes[at] == Outcome.FAILED.name and run_s > 0:
                before.setdefault(index, []).append((rows.attempts[at], run_s * speed))

    def _write(self, text: str) -> None:
        try:
            self._out.write(text.encode())
        except OSError as error:
            raise UsageError(f"history: {self._log}: {error.strerror}; make room, or name another folder") from None

    # --- the scenario --------------------------------------------------------------------------------------

    def _scenario(
        self,
        links: Iterable[LinkSpec],
        datasets: Iterable[DatasetSpec],
        settings: SettingsTable,
        quotas: dict[str, float],
    ) -> Scenario:
        told, names = self._told, [site for site in self._partitions if site]
        users = tuple(
            UserSpec(user, quota=quotas.get(user, 0.0) if self._owners == "keep" else 0.0) for user in self._users
        )
        return Scenario(
            version=1,
            name=f"history of {told.site}",
            about="Written by diana history export. Other sites are as their summaries showed them.",
            sites=tuple(self._site(name, settings) for name in sorted(names)),
            links=tuple(link for link in links if set(link.between) <= set(names)),
            datasets=tuple(one for one in datasets if one.name in self._datasets and one.site in names),
            users=users,
            events=tuple(sorted((*self._drains(), *self._resized()), key=lambda event: event.at_s)),
            workload=(WorkSpec(f"of-{told.site}", site=told.site, history=HistorySpec(self._log.name)),),
            limit_s=max(1e6, 10 * self._last_s),
        )

    def _drains(self) -> Iterator[EventSpec]:
        """The times when the site was drained, as far as it remembers."""
        began_s, site = -1.0, (self._told.site,)
        for moment in self._told.moments:
            at_s = max(0.0, moment.wall_s - self._base_wall_s)
            if moment.drained and began_s < 0:
                began_s = at_s
            elif not moment.drained and began_s >= 0:
                if at_s > began_s:
                    yield EventSpec(round(began_s, 3), "drain", site, for_s=round(at_s - began_s, 3))
                began_s = -1.0
        if began_s >= 0:
            yield EventSpec(round(began_s, 3), "drain", site)

    def _resized(self) -> Iterator[EventSpec]:
        """The times when the number of its slots changed, after the log's start."""
        slots = self._slots_then()
        for moment in self._told.moments:
            at_s = moment.wall_s - self._base_wall_s
            if at_s > 0 and moment.slots != slots:
                slots = moment.slots
                yield EventSpec(round(at_s, 3), "slots", (self._told.site,), slots=slots)

    def _slots_then(self) -> int:
        """Slots of its own machine when the log begins."""
        before = [one for one in self._told.moments if one.wall_s <= self._base_wall_s]
        first = before[-1:] or self._told.moments[:1]
        return first[0].slots if first else self._told.slots

    def _site(self, name: str, settings: SettingsTable) -> SiteSpec:
        told, known = self._told, self._sites.get(name)
        if name != told.site:
            slots, speed = (known.slots, known.speed) if known is not None else (0, 1.0)
            # Sites of one VO are set alike more often than not.
            return SiteSpec(name, slots=slots, speed=speed or 1.0, settings=settings, recalls=True)
        base, machines = self._base_wall_s, {one.name for one in told.machines if not one.gone}
        return SiteSpec(
            name,
            slots=self._slots_then(),
            speed=told.speed,
            settings=settings,
            # As real machines do with what they have not begun.
            recalls=True,
            **_resources(told),
            machines=tuple(
                MachineSpec(one.name, slots=one.slots, **_resources(one))
                for one in told.machines
                if one.name in machines
            ),
            maintenance=tuple(
                MaintenanceSpec(max(0.0, w.from_wall_s - base), w.to_wall_s - base, w.machines, w.reason)
                for w in told.maintenance
                if w.to_wall_s > base and machines.issuperset(w.machines)
            ),
        )


def _resources(told: PastGroup | PastMachine | PastSite, most_gpus: int = devices.MOST) -> dict[str, Any]:
    """Return the keys of a scenario for what is told, of which another site may have told nonsense."""
    named = {name: count for name, count in declared.sane(told.resources.items()) if declared.may_be(name)}
    return ResourcesSpec(gpus=min(max(0, told.gpus), most_gpus), resources=named).said()


def _short(seconds: float) -> str:
    """Milliseconds, and no more digits than it needs."""
    text = f"{seconds:.3f}"
    return text.rstrip("0").rstrip(".")
