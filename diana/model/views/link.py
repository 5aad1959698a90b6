"""Links between sites as they are remembered and shown: bounded histories, rows of forecasts, paths over sites."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId
from diana.model.views.shown import Shown

RING = 64
"""Samples kept per link and quantity."""
MOST_LINKS = 1024
"""Links whose history is kept over restarts; beyond this many, those measured last."""

Sample = tuple[float, float]
"""(site time in seconds, value)."""


class LinkSamples(msgspec.Struct, frozen=True, array_like=True):
    """Measurements of one link since the last record."""

    site: SiteId
    rtts: tuple[Sample, ...] = ()
    """Round trips, in seconds."""
    rates: tuple[Sample, ...] = ()
    """Throughput towards this site, in bytes per second."""
    jitter_s: float = -1.0
    """Jitter as it stands now; negative: not known."""
    sent: int = 0
    lost: int = 0
    """Pings lost, of the `sent` ones."""


class LinkHistory(msgspec.Struct):
    """Measurements of one link, oldest first, at most `RING` of each quantity."""

    rtts: list[Sample] = []
    rates: list[Sample] = []
    pings: list[tuple[int, int]] = []
    """(sent, lost) pings, one pair per record."""
    jitter_s: float = -1.0

    def add(self, new: LinkSamples) -> None:
        for ring, fresh in ((self.rtts, new.rtts), (self.rates, new.rates)):
            ring.extend(fresh)
            del ring[:-RING]
        if new.sent or new.lost:
            self.pings.append((new.sent, new.lost))
            del self.pings[:-RING]
        if new.jitter_s >= 0:
            self.jitter_s = new.jitter_s

    def last_s(self) -> float:
        """Site time of the newest sample; -inf: none."""
        return max((ring[-1][0] for ring in (self.rtts, self.rates) if ring), default=float("-inf"))


class LinkView(Shown, frozen=True):
    """One direction of a link: `target` fetches from `source`. Negative: not measured, or not told."""

    source: SiteId
    target: SiteId
    rtt_s: float = 0.0
    bytes_per_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    """Share of pings that went unanswered, 0 to 1."""
    error: float = 0.0
    """Past error of the throughput forecast, relative."""
    predictor: str = ""
    """Name of the predictor of the throughput, or of the round trip where throughput was never measured."""
    samples: int = 0
    age_s: float = 0.0
    """Seconds since the newest throughput sample; since the newest round trip where throughput was never measured."""
    rtt_error_s: float = 0.0
    rtt_predictor: str = ""
    rtt_age_s: float = 0.0
    backlog_bytes: int = 0
    told: bool = False
    """True where `target` told it in its summary; else this site measured it."""


class NearSite(Shown, frozen=True):
    """Distance of another site from the one asked about."""

    site: SiteId
    rtt_s: float = 0.0
    """Round trip; negative: nothing is known."""
    estimated: bool = False
    """True if nobody measured this pair: then `rtt_s` is estimated by triangles through common neighbours."""
    bytes_per_s: float = 0.0
    """Throughput from `site` directly to the one asked about; negative: not measured."""
    shortest: tuple[SiteId, ...] = ()
    """Path with the least sum of measured round trips, from the site asked about to `site`, both included."""
    shortest_s: float = 0.0
    widest: tuple[SiteId, ...] = ()
    """Path for data from `site` to the one asked about whose narrowest link is widest."""
    widest_bytes_per_s: float = 0.0


class LinkMap(Shown, frozen=True):
    site: SiteId
    """The site that answers."""
    links: tuple[LinkView, ...] = ()
    links_left_out: int = 0
    near: tuple[NearSite, ...] = ()
    """Other sites, nearest first; only where paths were asked for."""
