"""The network of a scenario: links, routers, routes over several links, transfers that belong to no job.

Links are full duplex: each direction has the whole `bytes_per_s`. Two sites talk over, in this order: a `[[routes]]`
entry of theirs, a link of their own, the quickest way over routers (`scenario/topology.py`), or else a link like
`default_link` that nobody shares.
"""

from __future__ import annotations

import msgspec


class LinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    between: tuple[str, str]
    """Sites or routers."""
    latency_s: float = 0.01
    """One way."""
    bytes_per_s: float = 125e6
    """In each direction."""
    loss: float = 0.0
    """Share of packets lost: pings go unanswered, messages come later by a round trip each time they are sent again."""
    noise: float = 0.0
    """Measurements of this link lie evenly in value * (1 - noise) .. value * (1 + noise); the link itself is steady."""
    name: str = ""
    """Name for `[[routes]]`; empty: its ends, as in A-B."""

    def called(self) -> str:
        return self.name or "-".join(self.between)


class LinksSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Links not listed one by one."""

    latency_s: float = 0.01
    """One way."""
    bytes_per_s: float = 125e6
    """In each direction."""
    loss: float = 0.0
    """Share of packets: pings go unanswered, messages come a round trip later."""
    noise: float = 0.0
    """Error of measurements, as a share, either way."""


class RouteSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The way two sites reach each other, both ways."""

    between: tuple[str, str]
    """Two sites."""
    links: tuple[str, ...] = ()
    """Names of links, from the first site to the second; none: as it would be without this entry."""
    latency_s: float = -1.0
    """One way, as measured; negative: the sum over the links."""


class TransferSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that move between two sites beside what the jobs want: a load on the links."""

    name: str
    """Name for the report."""
    source: str
    """The site the bytes lie at."""
    to: str
    """The site that fetches them."""
    size_bytes: int
    """Size of each."""
    at_s: float = 0.0
    """Time when the first begins."""
    repeat: int = 1
    """This many of them, `every_s` apart, named NAME, NAME-2, ..."""
    every_s: float = 0.0
    """Seconds between the beginnings of two of them."""
