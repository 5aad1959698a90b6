"""One demand against one table of sites: the terms of the turnaround model (SPEC D1), as arrays over sites.

The seconds of a term are the same whether the whole group or a part of it is priced; this is where they are worked
out, once per placement.
"""

from __future__ import annotations

from collections.abc import Iterable

from diana.model.arrays import Floats, Ints, np
from diana.model.ids import SiteId
from diana.policy.pricing.demand import Demand, Need
from diana.policy.pricing.sites import LinkColumns, SiteTable


class Grid:
    """S sites, and K kinds of data: needs that have the same holders are one kind, and come over the same link.

    H holders: the sites and pseudo-sites that hold any of the data.
    """

    def __init__(self, demand: Demand, table: SiteTable) -> None:
        self.demand, self.table = demand, table
        self.sites = len(table)
        self.jobs = len(demand.indices)
        lanes = table.slots if demand.processors == 1 else np.floor(table.slots / demand.processors)
        self.lanes: Floats = np.minimum(lanes, demand.max_parallel) if demand.max_parallel else lanes
        """(S,) jobs of this group that run at once."""
        self.job_s: Floats = np.where(table.run_s > 0, table.run_s, demand.work_s / table.speed)
        """(S,) run time of one job: as learned, else work over speed."""
        self.rate: Floats = self.lanes / self.job_s
        """(S,) jobs per second; 0 where none can run."""
        self.wait_s = table.wait_s
        self.network_s: Floats = 2.0 * table.rtt_s
        """(S,) control messages: two round trips."""
        self.out_s: Floats | None = None
        """(S,) seconds to bring one job's outputs to the origin; None: they stay, or there are none."""
        if demand.output_bytes:
            self.out_s = demand.output_bytes * table.out_s_per_byte
        self.program_s: Floats | None = None
        """(S,) seconds to bring the executables from the origin."""
        if demand.executable_bytes:
            columns = table.link
            known = np.isfinite(columns.s_per_byte)
            away = table.rtt_s > 0
            self.program_s = np.where(known & away, demand.executable_bytes * np.where(known, columns.s_per_byte, 0), 0)
        self.data = Data(demand, table) if demand.needs else None

    def repeated(self, times: int) -> Grid:
        """Return a grid of the same sites `times` times side by side, so that as many deals can be worked out as one.
        Its `table` still has each site once."""
        out = Grid.__new__(Grid)
        out.__dict__.update(self.__dict__)
        out.sites = times * self.sites
        for name in ("lanes", "job_s", "rate", "wait_s", "network_s", "out_s", "program_s"):
            values = getattr(self, name)
            setattr(out, name, None if values is None else np.tile(values, times))
        out.data = None if self.data is None else self.data.repeated(times)
        return out

    def scaled(self, weights: Iterable[tuple[str, float]]) -> Grid:
        """Return the grid in weighted seconds, for decisions; reports use the one without weights."""
        out = Grid.__new__(Grid)
        out.__dict__.update(self.__dict__)
        for name, weight in weights:
            if name == "wait":
                out.wait_s = self.wait_s * weight
            elif name == "run":
                out.job_s, out.rate = self.job_s * weight, self.rate / weight
            elif name == "network_s":
                out.network_s = self.network_s * weight
            elif name == "stage_out" and self.out_s is not None:
                out.out_s = self.out_s * weight
            elif name == "stage_in":
                out.program_s = None if self.program_s is None else self.program_s * weight
                out.data = None if self.data is None else self.data.scaled(weight)
        return out


class Data:
    """Transfer of each kind of data to each site, from the holder whose link is the fastest for all of that kind."""

    def __init__(self, demand: Demand, table: SiteTable) -> None:
        sites = len(table)
        kinds: dict[tuple[SiteId, ...], int] = {}
        self.size: Floats = np.array([n.size_bytes() for n in demand.needs], dtype=np.float64)
        """(N,) bytes of each need."""
        self.kind: Ints = np.array([kinds.setdefault(tuple(sorted(n.holders)), len(kinds)) for n in demand.needs])
        """(N,) kind of each need."""
        self.everyones = np.array([_all_read(demand, n) for n in demand.needs])
        """(N,) True if every job reads the need; then nothing starts before it is there."""
        self.kinds = tuple(kinds)
        self.holders: tuple[SiteId, ...] = tuple(sorted({h for some in kinds for h in some}))
        self.shared: Floats = sums_by(self.kind, self.size * self.everyones, len(kinds))
        """(K,) bytes that every job reads."""
        self.own: Floats = sums_by(self.kind, self.size * ~self.everyones, len(kinds))
        """(K,) bytes that only some jobs read."""
        total = self.shared + self.own
        shape = (len(kinds), sites)
        self.s_per_byte: Floats = np.empty(shape)
        """(K, S) seconds per byte; 0 where the site holds the kind, infinite where it cannot be brought."""
        self.start_s: Floats = np.empty(shape)
        """(K, S) seconds before the first byte: a round trip, and the bytes queued on the link already."""
        self.via: Ints = np.zeros(shape, dtype=np.int64)
        """(K, S) position in `holders` of the holder it comes from."""
        self.missing: Floats = np.ones(shape)
        """(K, S) 0 where the site holds the kind, else 1."""
        uplinks = [table.row.get(h) for h in self.holders]
        self.uplink_s_per_byte: Floats = np.array([0.0 if r is None else table.uplink_s_per_byte[r] for r in uplinks])
        """(H,) seconds per byte of each holder's uplink; 0: not known."""
        self.uplinks = any(self.uplink_s_per_byte)
        number = {holder: at for at, holder in enumerate(self.holders)}
        for k, some in enumerate(self.kinds):
            self._choose(k, [(number[h], table.from_holder(h)) for h in some], total[k])
            held = [table.row[h] for h in some if h in table.row]
            if held:
                self.s_per_byte[k, held] = self.start_s[k, held] = self.missing[k, held] = 0.0

    def _choose(self, k: int, links: list[tuple[int, LinkColumns]], size: float) -> None:
        if len(links) == 1:
            at, link = links[0]
            self.s_per_byte[k], self.start_s[k], self.via[k] = link.s_per_byte, link.start_s, at
            return
        best_s = np.full(self.s_per_byte.shape[1], np.inf)
        self.s_per_byte[k], self.start_s[k] = np.inf, 0.0
        for at, link in links:
            takes_s = link.start_s + max(size, 1.0) * link.s_per_byte
            better = takes_s < best_s
            best_s = np.where(better, takes_s, best_s)
            self.s_per_byte[k] = np.where(better, link.s_per_byte, self.s_per_byte[k])
            self.start_s[k] = np.where(better, link.start_s, self.start_s[k])
            self.via[k] = np.where(better, at, self.via[k])

    def of_link(self, name: str, table: SiteTable) -> Floats:
        """(K, S) one column of the link each kind comes over; 0 where the site holds it."""
        columns: list[Floats] = [getattr(table.from_holder(holder), name) for holder in self.holders]
        if len(columns) == 1:
            return columns[0] * self.missing
        if not columns:
            return np.zeros(self.via.shape)
        out: Floats = np.array(columns)[self.via, np.arange(self.via.shape[1])] * self.missing
        return out

    def repeated(self, times: int) -> Data:
        """Return the data for the sites `times` times side by side, as `Grid.repeated`."""
        out = Data.__new__(Data)
        out.__dict__.update(self.__dict__)
        for name in ("s_per_byte", "start_s", "via", "missing"):
            setattr(out, name, np.tile(getattr(self, name), (1, times)))
        return out

    def scaled(self, weight: float | Floats) -> Data:
        """Return the data with all seconds times `weight`, which may differ by kind and site."""
        out = Data.__new__(Data)
        out.__dict__.update(self.__dict__)
        out.s_per_byte, out.start_s = self.s_per_byte * weight, self.start_s * weight
        if isinstance(weight, float):
            out.uplink_s_per_byte = self.uplink_s_per_byte * weight
        return out


def _all_read(demand: Demand, need: Need) -> bool:
    return need.readers == demand.indices or demand.indices.issubset(need.readers)


def sums_by(kind: Ints, values: Floats, kinds: int) -> Floats:
    """(K,) the sum of the values of each kind."""
    out: Floats = np.bincount(kind, values, kinds).astype(np.float64)
    return out


def completion(wait_s: Floats, lead_s: Floats, stage_s: Floats, run_s: Floats, tail_s: Floats) -> tuple[Floats, Floats]:
    """(start, end of the last job): nothing starts before the wait is over and the first jobs' data (`lead_s`) are
    there; when the last data come (`stage_s`) their jobs (`tail_s`) are still to run."""
    start = np.maximum(wait_s, lead_s)
    end: Floats = start + run_s
    if stage_s is not lead_s:
        end = np.maximum(end, stage_s + tail_s)
    return start, end


def stage_out_s(jobs: Floats | float, lanes: Floats, out_s: Floats, busy_s: Floats, job_s: Floats) -> Floats:
    """(S,) seconds that outputs add after the last job has ended. Outputs leave as jobs end, so all but the last wave's
    go while others run. If the link is slower than the jobs, outputs pile up from the first end on, and the rest still
    has to go."""
    # Where data never come `busy_s` is NaN; fmax then takes the other number.
    out: Floats = np.fmax(np.minimum(jobs, lanes) * out_s, jobs * out_s - (busy_s - job_s))
    return out
