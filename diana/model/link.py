"""Links between sites as they are remembered and shown: bounded histories, rows of forecasts, ways over sites."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId

RING = 64
"""Samples kept per link and quantity."""
MOST_LINKS = 1024
"""Links whose history is kept over restarts; of more, those measured last."""

Sample = tuple[float, float]
"""(site time in seconds, value)."""


class LinkSamples(msgspec.Struct, frozen=True, array_like=True):
    """What was measured of one link since the last record."""

    site: SiteId
    rtts: tuple[Sample, ...] = ()
    """Seconds."""
    rates: tuple[Sample, ...] = ()
    """Bytes per second towards this site."""
    jitter_s: float = -1.0
    """As it stands now; negative: not known."""
    sent: int = 0
    lost: int = 0
    """Pings."""


class LinkHistory(msgspec.Struct):
    """Oldest first, at most `RING` of each."""

    rtts: list[Sample] = []
    rates: list[Sample] = []
    pings: list[tuple[int, int]] = []
    """(sent, lost) of one record each."""
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


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """One direction of a link: `target` fetches from `source`. Negative: not measured, or not told."""

    source: SiteId
    target: SiteId
    rtt_s: float
    bytes_per_s: float
    jitter_s: float
    loss: float
    """Share of pings that went unanswered, 0 to 1."""
    error: float
    """Past error of the throughput forecast, relative."""
    predictor: str
    """Which one made the throughput forecast, or that of the round trip where throughput was never measured."""
    samples: int
    age_s: float
    """Since the newest throughput sample; since the newest round trip where throughput was never measured."""
    rtt_error_s: float = -1.0
    rtt_predictor: str = ""
    rtt_age_s: float = -1.0
    backlog_bytes: int = 0
    told: bool = False
    """By `target` in its summary; else this site measured it."""


class NearSite(msgspec.Struct, frozen=True, kw_only=True):
    """How another site lies to the one asked about."""

    site: SiteId
    rtt_s: float
    """Negative: nothing is known."""
    estimated: bool
    """Nobody measured this pair: by triangle through common neighbours."""
    bytes_per_s: float = -1.0
    """From `site` to the one asked about, directly; negative: not measured."""
    shortest: tuple[SiteId, ...] = ()
    """Least sum of measured round trips, from the site asked about to `site`, both named."""
    shortest_s: float = -1.0
    widest: tuple[SiteId, ...] = ()
    """The way of data from `site` to the one asked about whose narrowest link is widest."""
    widest_bytes_per_s: float = -1.0


class LinkMap(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    """Who answers."""
    links: tuple[LinkView, ...] = ()
    links_left_out: int = 0
    near: tuple[NearSite, ...] = ()
    """Nearest first; only where paths were asked for."""
