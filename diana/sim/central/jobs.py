"""A scenario as a central policy knows it: every machine, every job with its true run time, and the time its data take
to come. The jobs are those of the simulated users, under the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.sim.faults.swarm import drawn
from diana.sim.kernel.clock import Clock
from diana.sim.load.workload import Submission, Users
from diana.sim.scenario.central_checks import check_central
from diana.sim.scenario.topology import Topology
from diana.sim.specs.capacity import machines
from diana.sim.specs.scenario_spec import Scenario

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int32]


class Machines(NamedTuple):
    """M machines that run jobs; those that fail every job are left out."""

    site: Ints
    """(M,) place in `sites`."""
    slots: Ints
    speed: Floats
    sites: tuple[str, ...]
    """S sites, in the scenario's order."""

    @staticmethod
    def of(scenario: Scenario) -> Machines:
        rows = []
        for place, site in enumerate(scenario.sites):
            broken = [site.fails, *(site.fails or machine.fails for machine in site.machines)]
            some = zip(machines(scenario, site), broken, strict=True)
            rows += [(place, slots, speed) for (slots, speed), bad in some if slots > 0 and not bad]
        return Machines(
            np.array([place for place, _, _ in rows], np.int32),
            np.array([slots for _, slots, _ in rows], np.int32),
            np.array([speed for _, _, speed in rows], np.float64),
            tuple(site.name for site in scenario.sites),
        )


class Only(NamedTuple):
    """Data that lie at one site alone."""

    holder: int
    """Place in `sites`."""
    takes_s: Floats
    """(M,) seconds that its bytes alone take from there."""


class Kind:
    """Jobs that are alike but for their run time."""

    __slots__ = ("fits", "items", "own_bytes", "own_from", "own_s", "pace", "processors", "uniform")

    def __init__(
        self,
        processors: int,
        pace: Floats,
        items: tuple[int, ...] = (),
        own_s: Floats | None = None,
        own_bytes: float = 0.0,
        own_from: tuple[Only, ...] = (),
    ) -> None:
        """`pace`: (M,) seconds there per second of work; infinite where it may not or cannot run. `items`: data it
        reads, which stay at a site once they came. `own_s`: (M,) seconds for `own_bytes` nobody else reads."""
        self.processors, self.pace, self.items = processors, pace, items
        self.own_s, self.own_bytes, self.own_from = own_s, own_bytes, own_from
        known = pace[np.isfinite(pace)]
        self.fits = bool(len(known))
        self.uniform = self.fits and float(known.min()) == float(known.max())
        """True if it is as fast wherever it runs."""


class Items:
    """Data that several jobs read. Where each is, or when it will have come, as (M,) arrays over machines."""

    def __init__(self, site: Ints) -> None:
        self.site = site
        self.size_bytes: list[float] = []
        self.only: list[Only | None] = []
        self.fetch_s: list[Floats] = []
        """(M,) seconds from the holder nearest in time, with the link to itself."""
        self.there_s: list[Floats] = []
        """(M,) time from which on it is at the site, past or to come; infinite: nobody sent for it."""

    def add(self, size_bytes: float, fetch_s: Floats, only: Only | None = None) -> int:
        self.size_bytes.append(size_bytes)
        self.only.append(only)
        self.fetch_s.append(fetch_s)
        self.there_s.append(np.where(fetch_s > 0, inf, -inf))
        return len(self.size_bytes) - 1

    def ready_s(self, kind: Kind, now_s: float) -> Floats | None:
        """(M,) times when a job's data are there, if sent for now; None: it reads nothing. Several links bring data at
        once."""
        out: Floats | None = None
        for item in kind.items:
            one = np.minimum(self.there_s[item], now_s + self.fetch_s[item])
            out = one if out is None else np.maximum(out, one)
        if kind.own_s is not None:
            own = now_s + kind.own_s
            out = own if out is None else np.maximum(out, own)
        return out

    def send_for(self, kind: Kind, machine: int, now_s: float) -> float:
        """Send for the data of a job that is to run there; returns the bytes that move on its account."""
        moved = kind.own_bytes if kind.own_s is not None and kind.own_s[machine] > 0 else 0.0
        for item in kind.items:
            if self.there_s[item][machine] == inf:
                here = self.site == self.site[machine]
                self.there_s[item][here] = now_s + self.fetch_s[item][machine]
                moved += self.size_bytes[item]
        return moved


class Jobs(NamedTuple):
    """N jobs in order of submission, a row each; jobs that no machine can take are left out."""

    submission: Ints
    """Place in `submissions`."""
    kind: Ints
    """Place in `kinds`."""
    work_s: Floats
    """True run time at speed 1."""
    done: NDArray[np.bool_]
    """True if it exits 0."""
    submissions: tuple[Submission, ...]
    submit_s: Floats
    """Time of each submission, rising."""
    kinds: tuple[Kind, ...]
    items: Items
    machines: Machines
    users: tuple[str, ...]


def jobs_of(scenario: Scenario, seed: int) -> Jobs:
    """UsageError: the scenario asks for what no central policy here can do."""
    scenario = drawn(scenario, seed)
    try:
        check_central(scenario)
    except ValueError as e:
        raise UsageError(str(e)) from None
    users = Users(Clock(), scenario, seed, lambda site, event: None)
    # A sort that keeps the order of the users for what comes at the same time.
    submissions = tuple(sorted(users.in_order(), key=lambda s: s.submit_s))
    known = _Kinds(scenario, submissions)
    names = {user.name: None for user in scenario.users} | {s.principal.name: None for s in submissions}
    at: list[int] = []
    kind: list[int] = []
    work_s: list[float] = []
    done: list[bool] = []
    for number, submission in enumerate(submissions):
        if not known.fits(submission):
            continue
        lives = [submission.life(index) for index in range(submission.jobs)]
        at += [number] * submission.jobs
        kind += known.of(submission)
        work_s += [life.run_s for life in lives]
        done += [life.exit_code == 0 for life in lives]
    return Jobs(
        np.array(at, np.int32),
        np.array(kind, np.int32),
        np.array(work_s, np.float64),
        np.array(done, np.bool_),
        submissions,
        np.array([s.submit_s for s in submissions], np.float64),
        tuple(known.kinds),
        known.items,
        known.machines,
        tuple(names),
    )


class _Kinds:
    """Kinds by what makes jobs alike; data by how they are named."""

    def __init__(self, scenario: Scenario, submissions: Sequence[Submission]) -> None:
        self.machines = Machines.of(scenario)
        self.items = Items(self.machines.site)
        self.kinds: list[Kind] = []
        self._held = {d.name: (d.site, *d.replicas) for d in scenario.datasets}
        self._whole = {d.name: float(d.files * d.file_bytes) for d in scenario.datasets}
        self._file = {d.name: float(d.file_bytes) for d in scenario.datasets}
        self._topology = Topology(scenario)
        self._links: dict[str, tuple[Floats, Floats]] = {}
        self._by_name: dict[str, int] = {}
        self._by_key: dict[object, int] = {}
        self._paces: dict[tuple[int, tuple[str, ...]], Floats] = {}
        self._fits: dict[tuple[int, tuple[str, ...]], bool] = {}
        self._read: dict[str, int] = {}
        """Readers of each ref, up to two."""
        for submission in submissions:
            for ref, readers in submission.refs:
                self._read[ref] = min(2, self._read.get(ref, 0) + min(2, len(readers)))

    def fits(self, submission: Submission) -> bool:
        key = (submission.spec.resources.processors, submission.spec.sites)
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = bool(np.isfinite(self._pace(*key)).any())
        return found

    def of(self, submission: Submission) -> list[int]:
        """The kind of each job."""
        processors, sites = submission.spec.resources.processors, submission.spec.sites
        everyones: list[str] = []
        ones: dict[int, list[str]] = {}
        for ref, readers in submission.refs:
            if len(readers) == submission.jobs:
                everyones.append(ref)
            else:
                for start, stop in readers.ranges():
                    for index in range(start, stop):
                        ones.setdefault(index, []).append(ref)
        plain = self._kind(processors, sites, everyones) if len(ones) < submission.jobs else -1
        out = [plain] * submission.jobs
        for index, refs in ones.items():
            out[index] = self._kind(processors, sites, [*everyones, *refs])
        return out

    def _kind(self, processors: int, sites: tuple[str, ...], refs: Sequence[str]) -> int:
        """The number of the kind of such jobs. For files that nobody else reads, only place and size make a
        difference."""
        shared = tuple(sorted(self._item(ref) for ref in refs if self._read[ref] > 1))
        alone = tuple(sorted((_dataset(ref), self._size(ref)) for ref in refs if self._read[ref] == 1))
        key = (processors, sites, shared, alone)
        number = self._by_key.get(key)
        if number is None:
            number = self._by_key[key] = len(self.kinds)
            pace = self._pace(processors, sites)
            own_s: Floats | None = None
            if alone:
                own_s = np.max([self._fetch_s(name, size) for name, size in alone], axis=0)
            only = tuple(one for name, size in alone if (one := self._only(name, size)))
            self.kinds.append(Kind(processors, pace, shared, own_s, sum(size for _, size in alone), only))
        return number

    def _pace(self, processors: int, sites: tuple[str, ...]) -> Floats:
        pace = self._paces.get((processors, sites))
        if pace is None:
            fits = (self.machines.slots >= processors) & self._may(sites)
            pace = self._paces[processors, sites] = np.where(fits, 1.0 / self.machines.speed, inf)
        return pace

    def _may(self, sites: tuple[str, ...]) -> NDArray[np.bool_]:
        if not sites:
            return np.ones(len(self.machines.site), np.bool_)
        some = [place for place, name in enumerate(self.machines.sites) if name in sites]
        return np.isin(self.machines.site, some)

    def _item(self, ref: str) -> int:
        number = self._by_name.get(ref)
        if number is None:
            size, name = self._size(ref), _dataset(ref)
            number = self._by_name[ref] = self.items.add(size, self._fetch_s(name, size), self._only(name, size))
        return number

    def _size(self, ref: str) -> float:
        name = _dataset(ref)
        return self._file[name] if ref != f"dataset:{name}" else self._whole[name]

    def _fetch_s(self, dataset: str, size_bytes: float) -> Floats:
        """(M,) a round trip and the bytes, from the holder that brings it first; 0 where it is held."""
        out = np.full(len(self.machines.sites), inf)
        for holder in self._held[dataset]:
            start_s, bytes_per_s = self._link(holder)
            out = np.minimum(out, start_s + size_bytes / bytes_per_s)
        for holder in self._held[dataset]:
            out[self.machines.sites.index(holder)] = 0.0
        by_machine: Floats = out[self.machines.site]
        return by_machine

    def _only(self, dataset: str, size_bytes: float) -> Only | None:
        if len(self._held[dataset]) > 1:
            return None
        holder = self._held[dataset][0]
        takes_s: Floats = (size_bytes / self._link(holder)[1])[self.machines.site]
        return Only(self.machines.sites.index(holder), takes_s)

    def _link(self, holder: str) -> tuple[Floats, Floats]:
        """(round trip, bytes per second) from there to every site, (S,)."""
        if holder not in self._links:
            figures = [self._topology.figures(SiteId(holder), SiteId(name)) for name in self.machines.sites]
            self._links[holder] = (
                np.array([2.0 * latency_s for latency_s, *_ in figures]),
                np.array([one[1] for one in figures]),
            )
        return self._links[holder]


def _dataset(ref: str) -> str:
    return ref.partition(":")[2].partition("/")[0]
