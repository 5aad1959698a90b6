"""The measurements of this site's links: forecasts that follow every sample, and samples the journal has not yet.

The journal's part of them is `SiteState.links`; a link is taken from there when it is first looked at, so forecasts
stand at once after a restart and a site nobody asks about costs nothing.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import inf
from statistics import median

from diana.engine.messages.messages import LinkEstimate
from diana.model.ids import SiteId
from diana.model.views.link import LinkHistory, LinkSamples, Sample
from diana.policy.links.forecast import Forecast, Forecaster

MOST_WAITING = 16
"""Samples of one quantity of a link between two records; round trips beyond it are thinned to their median anyway."""
_JITTER_GAIN = 1 / 16
"""RFC 3550, section 6.4.1."""


class Series:
    """One quantity of one link."""

    __slots__ = ("_forecast", "_forecaster", "last_s", "waiting")

    def __init__(self, ring: Iterable[Sample]) -> None:
        self._forecaster = Forecaster()
        self._forecast: Forecast | None = None
        self.last_s = -inf
        self.waiting: list[Sample] = []
        """The latest samples that are not in the journal yet."""
        for at_s, value in ring:
            self._forecaster.add(value)
            self.last_s = at_s

    def add(self, at_s: float, value: float) -> None:
        self._forecaster.add(value)
        self._forecast = None
        self.last_s = at_s
        self.waiting.append((at_s, value))
        del self.waiting[:-MOST_WAITING]

    def forecast(self) -> Forecast | None:
        if self._forecast is None:
            self._forecast = self._forecaster.forecast()
        return self._forecast

    def age_s(self, now: float) -> float:
        """Return the age of the last sample; negative: never measured."""
        return max(0.0, now - self.last_s) if self.last_s > -inf else -1.0


class MeasuredLink:
    """This site's link to another: round trip, throughput towards here, pings and what became of them."""

    __slots__ = ("_history", "_last_rtt_s", "_loss", "_lost", "_sent", "jitter_s", "rate", "rtt", "site")

    def __init__(self, site: SiteId, history: LinkHistory | None) -> None:
        self.site = site
        self._history = history
        self.rtt = Series(history.rtts if history else ())
        self.rate = Series(history.rates if history else ())
        self.jitter_s = history.jitter_s if history else -1.0
        self._last_rtt_s = -1.0
        self._sent = self._lost = 0
        self._loss: float | None = None

    def measured(self, now: float, rtt_s: float | None, bytes_per_s: float | None, sent: int, lost: int) -> None:
        if rtt_s is not None and 0 <= rtt_s < inf:
            if self._last_rtt_s >= 0:
                apart = abs(rtt_s - self._last_rtt_s)
                self.jitter_s = max(0.0, self.jitter_s)
                self.jitter_s += _JITTER_GAIN * (apart - self.jitter_s)
            self._last_rtt_s = rtt_s
            self.rtt.add(now, rtt_s)
        if bytes_per_s is not None and 0 < bytes_per_s < inf:
            self.rate.add(now, bytes_per_s)
        if 0 <= lost <= sent:
            self._sent += sent
            self._lost += lost
            self._loss = None

    def loss(self) -> float:
        """Return the share of pings lost, in the records kept and since; negative: none was sent."""
        if self._loss is None:
            sent, lost = self._sent, self._lost
            for one_sent, one_lost in self._history.pings if self._history else ():
                sent += one_sent
                lost += one_lost
            self._loss = lost / sent if sent else -1.0
        return self._loss

    def take(self) -> LinkSamples | None:
        """Return the samples for a record, those since the last one; None: there are none."""
        rtts, rates = self.rtt.waiting, self.rate.waiting
        if not (rtts or rates or self._sent):
            return None
        # Round trips come every few seconds: a record keeps the middle one, so that the ring covers an hour.
        told = ((rtts[-1][0], median(value for _, value in rtts)),) if rtts else ()
        taken = LinkSamples(self.site, told, tuple(rates), self.jitter_s, self._sent, self._lost)
        self.rtt.waiting, self.rate.waiting = [], []
        self._sent = self._lost = 0
        self._loss = None
        return taken

    def attach(self, history: LinkHistory | None) -> None:
        """Take the journal's part anew, after a record."""
        self._history = history
        self._loss = None


class LinkBook:
    """The links of this site by the other end. `histories` is the state's own table, only read here."""

    def __init__(self, histories: dict[SiteId, LinkHistory], now: Callable[[], float]) -> None:
        self._histories = histories
        self._now = now
        self._links: dict[SiteId, MeasuredLink] = {}
        self._fresh: set[SiteId] = set()
        self._recent: dict[SiteId, None] = {}
        """Sites measured since the start, the latest last."""
        self._remembered: list[tuple[float, SiteId]] = []
        """(-time of the last sample, site) of the links looked at that the journal knows, the latest first."""
        self._moving: dict[int, tuple[tuple[SiteId, int], ...]] = {}
        """Ticket -> bytes by source."""
        self._backlog: dict[SiteId, int] = {}

    def link(self, site: SiteId) -> MeasuredLink:
        found = self._links.get(site)
        if found is None:
            found = self._links[site] = MeasuredLink(site, self._histories.get(site))
            if (last_s := _last_s(found)) > -inf:
                insort(self._remembered, (-last_s, site))
        return found

    def knows(self, site: SiteId) -> bool:
        """True if the journal has the site's link, or it was looked at. Makes none, as `link` would."""
        return site in self._links or site in self._histories

    def sites(self) -> list[SiteId]:
        """Return, by name, the sites whose links the journal has or that were looked at."""
        return sorted(self._links.keys() | self._histories.keys())

    def fresh(self, site: SiteId) -> None:
        """`site` was measured just now: it has samples that are not in the journal."""
        self._fresh.add(site)
        self._recent.pop(site, None)
        self._recent[site] = None

    def take(self) -> tuple[LinkSamples, ...]:
        taken = [self._links[site].take() for site in sorted(self._fresh)]
        self._fresh.clear()
        return tuple(one for one in taken if one is not None)

    def attach(self, sites: Iterable[SiteId]) -> None:
        for site in sites:
            self.link(site).attach(self._histories.get(site))

    # --- bytes on their way -----------------------------------------------------------------------

    def ordered(self, ticket: int, sizes: Iterable[tuple[SiteId, int]]) -> None:
        """Count bytes that will come from these sites, until `settled`."""
        self.settled(ticket)
        moving = self._moving[ticket] = tuple(sizes)
        for site, size_bytes in moving:
            self._backlog[site] = self._backlog.get(site, 0) + size_bytes

    def settled(self, ticket: int) -> None:
        """Count the ticket's bytes no more: moved, failed or cancelled. Unknown tickets are fine."""
        for site, size_bytes in self._moving.pop(ticket, ()):
            self._backlog[site] -= size_bytes
            if not self._backlog[site]:
                del self._backlog[site]

    def backlog_bytes(self, site: SiteId) -> int:
        return self._backlog.get(site, 0)

    # --- forecasts --------------------------------------------------------------------------------

    def estimate(self, site: SiteId) -> LinkEstimate | None:
        """Return the site's link as forecast; None: nothing was ever measured and nothing moves."""
        link, backlog = self.link(site), self.backlog_bytes(site)
        rtt, rate = link.rtt.forecast(), link.rate.forecast()
        if rtt is None and rate is None and not backlog:
            return None
        shown = rate or rtt
        return LinkEstimate(
            site,
            rtt.value if rtt else -1.0,
            rate.value if rate else -1.0,
            link.jitter_s,
            link.loss(),
            rate.relative_error if rate else -1.0,
            (link.rate if rate else link.rtt).age_s(self._now()),
            backlog,
            shown.predictor if shown else "",
            shown.samples if shown else 0,
        )

    def estimates(self) -> tuple[LinkEstimate, ...]:
        """Return all estimates, in order of the site."""
        found = (self.estimate(site) for site in sorted({*self.sites(), *self._backlog}))
        return tuple(one for one in found if one is not None)

    def freshest(self, most: int) -> tuple[LinkEstimate, ...]:
        """Return the links measured last, at most `most`, in order of the site; costs the same however many there
        are."""
        known = islice(dict.fromkeys(self._latest(most)), most)
        found = (self.estimate(site) for site in sorted(known))
        return tuple(one for one in found if one is not None)

    def _latest(self, most: int) -> Iterator[SiteId]:
        """Yield at least `most` different sites, if there are as many; some may come twice."""
        yield from islice(reversed(self._recent), most)
        yield from (site for _, site in self._remembered[: 2 * most])
        yield from islice(self._backlog, most)


def _last_s(link: MeasuredLink) -> float:
    return max(link.rtt.last_s, link.rate.last_s)
