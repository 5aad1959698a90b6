"""The offers that stand here: sites that can only dial out keep a call open and are told by it when somebody asks."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from diana.adapters.relay.ends import NoWay, ServedEnd
from diana.model.ids import SiteId

TICKET_WAIT_S = 5.0
MOST_UNANSWERED = 32
"""Most tickets of one site that wait for its answer."""


class Ticket(NamedTuple):
    number: int
    asker: SiteId


class StandingOffer:
    """One site's open call."""

    def __init__(self, site: SiteId) -> None:
        self.site = site
        self.tickets: asyncio.Queue[Ticket] = asyncio.Queue(MOST_UNANSWERED)
        self.ended = asyncio.Event()


class _Open(NamedTuple):
    site: SiteId
    answer: asyncio.Future[ServedEnd]


class TunnelOffers:
    """One offer per site, the newest; tickets are good for one answer by the site they were given to."""

    def __init__(self) -> None:
        self._offers: dict[SiteId, StandingOffer] = {}
        self._open: dict[int, _Open] = {}
        self._last = 0

    def __contains__(self, site: SiteId) -> bool:
        return site in self._offers

    def sites(self) -> tuple[SiteId, ...]:
        return tuple(sorted(self._offers))

    def put(self, site: SiteId) -> StandingOffer:
        """Put up a new offer; the one it replaces ends."""
        self.drop(self._offers.get(site))
        offer = self._offers[site] = StandingOffer(site)
        return offer

    def drop(self, offer: StandingOffer | None) -> None:
        if offer is not None:
            offer.ended.set()
            if self._offers.get(offer.site) is offer:
                del self._offers[offer.site]

    async def connect(self, target: SiteId, asker: SiteId) -> ServedEnd:
        """Return the call by which the target answers. NoWay when it has no offer here or does not answer in time."""
        offer = self._offers.get(target)
        if offer is None:
            raise NoWay(f"{target} has made no offer here")
        self._last += 1
        number = self._last
        answer: asyncio.Future[ServedEnd] = asyncio.get_running_loop().create_future()
        self._open[number] = _Open(target, answer)
        try:
            offer.tickets.put_nowait(Ticket(number, asker))
            async with asyncio.timeout(TICKET_WAIT_S):
                return await answer
        except asyncio.QueueFull:
            raise NoWay(f"{target} is asked for too many tunnels at once") from None
        except TimeoutError:
            raise NoWay(f"{target} did not answer its offer in time") from None
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled():
                answer.result().close()
            raise
        finally:
            del self._open[number]

    def answered(self, number: int, site: SiteId, end: ServedEnd) -> bool:
        """Hand an answer to whoever waits for it; True if this site holds that ticket and somebody still waits."""
        waiting = self._open.get(number)
        if waiting is None or waiting.site != site or waiting.answer.done():
            return False
        waiting.answer.set_result(end)
        return True
