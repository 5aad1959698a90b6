"""Messages of the client service about links between sites. See `model/views/link.py` for the fields."""

from __future__ import annotations

from diana.wire.client.base import Base as _Message


class LinksRequest(_Message, frozen=True):
    source: str = ""
    """Site whose data come over the links wanted; empty: all links."""
    paths: str = ""
    """Site to which the distances of all others are wanted, too; empty: none."""


class LinkView(_Message, frozen=True):
    source: str
    target: str
    rtt_s: float = 0.0
    bytes_per_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    error: float = 0.0
    predictor: str = ""
    samples: int = 0
    age_s: float = 0.0
    rtt_error_s: float = 0.0
    rtt_predictor: str = ""
    rtt_age_s: float = 0.0
    backlog_bytes: int = 0
    told: bool = False


class NearSite(_Message, frozen=True):
    site: str
    rtt_s: float = 0.0
    estimated: bool = False
    bytes_per_s: float = 0.0
    shortest: tuple[str, ...] = ()
    shortest_s: float = 0.0
    widest: tuple[str, ...] = ()
    widest_bytes_per_s: float = 0.0


class LinkMap(_Message, frozen=True):
    site: str
    links: tuple[LinkView, ...] = ()
    links_left_out: int = 0
    near: tuple[NearSite, ...] = ()
