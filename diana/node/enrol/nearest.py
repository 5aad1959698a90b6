"""The nearest of several sites that invited a lone machine, by measured round trip (SPEC D8: a small site joins the
nearest SubGrid)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import NamedTuple

from diana.errors import DianaError, UsageError
from diana.node.config.site_file import host_port
from diana.node.enrol import asking, tokens

PROBES = 5
"""Greetings sent to each site; the shortest time counts, since a busy machine only lengthens them."""
PROBE_S = 2.0
MOST_SITES = 32


class SiteDistance(NamedTuple):
    """A site that invited, as measured from here."""

    site: str
    token: str
    rtt_s: float
    """Infinite: it is not to be had, for the reason `why`."""
    why: str = ""


def nearest(texts: Sequence[str], measure: Callable[[str], float] | None = None) -> list[SiteDistance]:
    """Return the sites that the tokens `texts` invite a machine to, the nearest first and ties by name. `measure` gives
    the seconds of a round trip to an address (default: `round_trip_s`).

    UsageError if the tokens are not invitations for machines of different sites of one VO; the fault of the first site
    if none can be reached. No invitation is used.
    """
    found = [(text, tokens.decode(text)) for text in texts]
    for _, token in found:
        if token.kind != "member":
            raise UsageError(
                f"join --or: the invitation of {token.site} is for a {token.kind}; only a machine chooses among sites, "
                "ask each for: diana invite --member"
            )
        if token.vo != found[0][1].vo:
            raise UsageError(f"join --or: {token.site} is of VO {token.vo}, {found[0][1].site} of {found[0][1].vo}")
    named = [token.site for _, token in found]
    twice = sorted({site for site in named if named.count(site) > 1})
    if twice:
        raise UsageError(f"join --or: two invitations of site {twice[0]}; give one of each site")
    if len(found) > MOST_SITES:
        raise UsageError(f"join --or: {len(found)} sites; at most {MOST_SITES} are measured")
    faults: list[DianaError] = []
    out = []
    for text, token in found:
        try:
            address = asking.find_inviter(token).address
            out.append(SiteDistance(token.site, text, (measure or round_trip_s)(address)))
        except DianaError as error:
            faults.append(error)
            out.append(SiteDistance(token.site, text, inf, str(error)))
    out.sort(key=lambda one: (one.rtt_s, one.site))
    if out[0].rtt_s == inf:
        raise faults[0]
    return out


def round_trip_s(address: str) -> float:
    """Return the shortest of `PROBES` times from a greeting to the node's answer: a round trip, and a few milliseconds
    of its work. A connection alone would tell how far the next relay or tunnel is. Infinite if none comes about."""
    host, port = host_port(address)
    best_s = inf
    for _ in range(PROBES):
        with suppress(OSError), socket.create_connection((host.strip("[]"), port), PROBE_S) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            begun_s = time.perf_counter()
            with asking.greeting().wrap_socket(plain):
                best_s = min(best_s, time.perf_counter() - begun_s)
    return best_s
