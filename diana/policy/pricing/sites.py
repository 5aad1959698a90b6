"""A table of candidate sites, one array per property, so that pricing ten thousand of them is a few array operations.

A table is either built from the candidates of one placement, or kept by an owner that sees all peers and changed in
place as their summaries arrive: a row changes in constant time, a join or a leave moves one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, sqrt

from diana.model.arrays import Floats, Ints, np
from diana.model.ids import SiteId
from diana.policy.pricing.demand import Candidate, LinkForecast

MSS_BYTES = 1460.0
MATHIS_C = 1.22
LEAST_LOSS = 1e-3
"""Share of packets that a link is taken to lose at least. The record of a link holds less than a thousand pings (an
hour of them), so fewer losses than that cannot be told from none. One floor for all links: a floor by each link's own
number of pings would make a link dear for being new."""

COLUMNS = (
    "slots",
    "speed",
    "wait_s",
    "wait_low_s",
    "wait_high_s",
    "work_ahead_s",
    "jobs_ahead",
    "queued_jobs",
    "busy_fraction",
    "run_s",
    "run_low_s",
    "run_high_s",
    "runs_seen",
    "max_jobs",
    "rtt_s",
    "age_s",
    "out_s_per_byte",
    "uplink_s_per_byte",
    "widest",
)
_LINK = ("s_per_byte", "start_s", "error", "losses_per_rate", "least_losses_per_rate", "loss", "bytes_per_s")


def throughput_bytes_per_s(link: LinkForecast) -> float:
    """Return the measured throughput, but no more than the Mathis bound MSS/RTT * C/sqrt(loss) (SPEC D1)."""
    if link.loss > 0 and link.rtt_s > 0:
        return min(link.bytes_per_s, MSS_BYTES / link.rtt_s * MATHIS_C / sqrt(link.loss))
    return link.bytes_per_s


def _link_cells(link: LinkForecast) -> tuple[float, ...]:
    """Cells of one link, in the order of `_LINK`."""
    rate = throughput_bytes_per_s(link)
    if rate <= 0:
        return (inf, 0.0, 0.0, 0.0, 0.0, link.loss, 0.0)
    start_s = link.rtt_s + link.backlog_bytes / rate
    losses = (link.loss / link.bytes_per_s, max(link.loss, LEAST_LOSS) / link.bytes_per_s)
    return (1.0 / rate, start_s, link.error, *losses, link.loss, rate)


class LinkColumns:
    """Links for fetching from one holder, over the table's sites. A site without a link has `s_per_byte` infinite."""

    s_per_byte: Floats
    """Seconds per byte at the bounded throughput."""
    start_s: Floats
    """Seconds before our first byte: a round trip and the bytes queued on the link."""
    error: Floats
    losses_per_rate: Floats
    """The paper's network cost, losses / bandwidth (section IV); bandwidth as measured."""
    least_losses_per_rate: Floats
    """The same with at least `LEAST_LOSS`: on links that lost nothing the bare quotient is 0, however slow they are."""
    loss: Floats
    bytes_per_s: Floats

    def __init__(self, capacity: int) -> None:
        self.cells = np.zeros((len(_LINK), capacity))
        self.cells[0] = inf

    def put(self, row: int, link: LinkForecast) -> None:
        self.cells[:, row] = _link_cells(link)

    def view(self, rows: int) -> None:
        for at, name in enumerate(_LINK):
            setattr(self, name, self.cells[at, :rows])


class SiteTable:
    """Table of sites. `table.slots`, `table.wait_s`, ...: arrays over the rows, as `COLUMNS`; `sites[row]` is the site
    of a row.

    Ties go to the lower rank: in order of the candidates a table was built from, otherwise home first, then by site id.
    A site that can take nothing has 0 slots.
    """

    slots: Floats
    speed: Floats
    wait_s: Floats
    """Seconds until this work would start; where the site makes no prediction, until the work ahead is through."""
    wait_low_s: Floats
    wait_high_s: Floats
    work_ahead_s: Floats
    jobs_ahead: Floats
    queued_jobs: Floats
    busy_fraction: Floats
    run_s: Floats
    """Learned run time of a job; 0: not known, then declared work and speed count."""
    run_low_s: Floats
    run_high_s: Floats
    runs_seen: Floats
    max_jobs: Floats
    """Most jobs of the group; infinite: no limit."""
    rtt_s: Floats
    age_s: Floats
    out_s_per_byte: Floats
    """Seconds per byte of outputs to the origin; 0: outputs cost nothing."""
    uplink_s_per_byte: Floats
    widest: Floats
    """Processors of one job that lies on one machine."""

    def __init__(self, home: SiteId | None = None, capacity: int = 16) -> None:
        self.home = home
        self.sites: list[SiteId] = []
        self.row: dict[SiteId, int] = {}
        self.link = LinkColumns(capacity)
        """The link to the origin, and from holders that have no columns of their own in `links`."""
        self.links: dict[SiteId, LinkColumns] = {}
        self._cells = np.zeros((len(COLUMNS), capacity))
        self._ranks: Ints | None = None
        self._view()

    @staticmethod
    def of(candidates: Iterable[Candidate], holders: Iterable[SiteId] = ()) -> SiteTable:
        """Build a table of one row per candidate, in the order given, with links from these holders. Give no rejected
        candidates."""
        some = list(candidates)
        table = SiteTable(capacity=max(1, len(some)))
        table.sites = [c.site for c in some]
        table.row = {c.site: at for at, c in enumerate(some)}
        table._ranks = np.arange(len(some))
        if some:
            table._cells = np.array([_site_cells(c) for c in some]).T.copy()
            table.link.cells = np.array([_link_cells(c.link) for c in some]).T.copy()
        for holder in sorted(set(holders)):
            columns = table.links[holder] = LinkColumns(len(table._cells[0]))
            if some:
                columns.cells = np.array([_link_cells(_from(c, holder)) for c in some]).T.copy()
        table._view()
        return table

    def __len__(self) -> int:
        return len(self.sites)

    def add(self, candidate: Candidate) -> int:
        """Append the site, or replace its row; return the row's number."""
        row = self.row.get(candidate.site)
        if row is None:
            row = len(self.sites)
            if row == self._cells.shape[1]:
                self._grow()
            self.sites.append(candidate.site)
            self.row[candidate.site] = row
            self._ranks = None
            self._view()
        self._put(row, candidate)
        return row

    def remove(self, site: SiteId) -> None:
        """Remove a site; the last row takes its place. Unknown sites are ignored."""
        row = self.row.pop(site, None)
        if row is None:
            return
        last = len(self.sites) - 1
        moved = self.sites.pop()
        if row != last:
            self.sites[row] = moved
            self.row[moved] = row
        for cells in (self._cells, self.link.cells, *(one.cells for one in self.links.values())):
            cells[:, row] = cells[:, last]
        self.links.pop(site, None)
        self._ranks = None
        self._view()

    def update(self, row: int, **values: float) -> None:
        """Set some of `COLUMNS` in one row. Where `wait_s` is not known, give a negative one, or leave it out and give
        the work ahead."""
        cells = self._cells
        if values.get("wait_s", -1.0) >= 0:
            cells[_WAITS, row] = values["wait_s"]
        for name, value in values.items():
            cells[_AT[name], row] = value
        if "slots" in values and "widest" not in values:
            cells[_AT["widest"], row] = values["slots"]
        if values.get("wait_s", -1.0) < 0 and not values.keys().isdisjoint(_WAITING):
            speed = cells[_AT["slots"], row] * cells[_AT["speed"], row]
            wait_s = cells[_AT["work_ahead_s"], row] / speed if speed > 0 else 0.0
            cells[_WAITS, row] = wait_s

    def set_link(self, row: int, link: LinkForecast, holder: SiteId | None = None) -> None:
        """Set the link over which the site in this row fetches from `holder`; None: from the origin and from all
        holders without columns of their own."""
        if holder is None:
            self.link.put(row, link)
            return
        columns = self.links.get(holder)
        if columns is None:
            columns = self.links[holder] = LinkColumns(self._cells.shape[1])
            columns.cells[:] = self.link.cells
            columns.view(len(self))
        columns.put(row, link)

    def ranks(self) -> Ints:
        """(S,) ranks of the sites, which decide ties."""
        if self._ranks is None:
            ranks = np.empty(len(self.sites), dtype=np.int64)
            ranks[sorted(range(len(self)), key=lambda r: (self.sites[r] != self.home, self.sites[r]))] = np.arange(
                len(self)
            )
            self._ranks = ranks
        return self._ranks

    def _put(self, row: int, c: Candidate) -> None:
        self._cells[:, row] = _site_cells(c)
        self.link.put(row, c.link)
        for holder, columns in self.links.items():
            columns.put(row, _from(c, holder))

    def _grow(self) -> None:
        self._cells = _wider(self._cells)
        for columns in (self.link, *self.links.values()):
            columns.cells = _wider(columns.cells)

    def _view(self) -> None:
        rows = len(self.sites)
        for at, name in enumerate(COLUMNS):
            setattr(self, name, self._cells[at, :rows])
        for columns in (self.link, *self.links.values()):
            columns.view(rows)

    def from_holder(self, holder: SiteId) -> LinkColumns:
        return self.links.get(holder, self.link)


def _site_cells(c: Candidate) -> tuple[float, ...]:
    """Cells of one site, in the order of `COLUMNS`."""
    speed = c.slots * c.speed
    wait_s = c.wait_s if c.wait_s >= 0 else (c.work_ahead_s / speed if speed > 0 else 0.0)
    return (
        c.slots if c.alive and not c.rejected else 0.0,
        c.speed,
        wait_s,
        min(wait_s, c.wait_low_s) if c.wait_low_s >= 0 else wait_s,
        max(wait_s, c.wait_high_s),
        c.work_ahead_s,
        c.jobs_ahead,
        c.queued_jobs,
        c.busy_fraction,
        c.run_s,
        c.run_low_s,
        c.run_high_s,
        c.runs_seen,
        c.max_jobs or inf,
        c.rtt_s,
        c.age_s,
        1.0 / c.out_bytes_per_s if c.out_bytes_per_s > 0 else 0.0,
        1.0 / c.uplink_bytes_per_s if c.uplink_bytes_per_s > 0 else 0.0,
        min(c.widest or c.slots, c.slots) if c.alive and not c.rejected else 0.0,
    )


def _from(c: Candidate, holder: SiteId) -> LinkForecast:
    """Return the link over which the site fetches from this holder."""
    if holder in c.links:
        return c.links[holder]
    if holder in c.fetch_bytes_per_s:
        return LinkForecast(bytes_per_s=c.fetch_bytes_per_s[holder])
    return c.link


_AT = {name: at for at, name in enumerate(COLUMNS)}
_WAITS = [_AT["wait_s"], _AT["wait_low_s"], _AT["wait_high_s"]]
_WAITING = frozenset({"wait_s", "work_ahead_s", "slots", "speed"})


def _wider(cells: Floats) -> Floats:
    """Widen the cells by half only, since a simulation holds thousands of tables."""
    out = np.zeros((cells.shape[0], cells.shape[1] + max(1, cells.shape[1] // 2)))
    out[:, : cells.shape[1]] = cells
    return out


def in_order(keys: Sequence[Floats], table: SiteTable) -> Ints:
    """Sort the rows by the first key, ties by the next, last ties by rank."""
    out: Ints = np.lexsort((table.ranks(), *reversed(keys)))
    return out
