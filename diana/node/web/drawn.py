"""Selects the links a map shows: one line for the two directions of a pair, the site's own first."""

from __future__ import annotations

import msgspec

from diana.model.views.link import LinkMap, LinkView

MOST_LINES = 600


class DrawnLine(msgspec.Struct, rename="camel", omit_defaults=True):
    """A line between two sites, by name; the worse of what is known of either direction. Negative: not known."""

    a: str
    b: str
    rtt_s: float = -1.0
    bytes_per_s: float = -1.0
    loss: float = -1.0
    backlog_bytes: int = 0
    """Bytes ordered over it and not there yet, both ways."""
    to: str = ""
    """The one of the two that most of that goes to; empty: nothing is ordered."""


class Drawn(msgspec.Struct, rename="camel", omit_defaults=True):
    lines: list[DrawnLine]
    left_out: int = 0
    """Pairs that are known and not among `lines`, and links the site itself leaves out."""


def drawn(links: LinkMap) -> Drawn:
    """Select at most MOST_LINES: those of the site itself, then those data move over, then the shortest."""
    pairs: dict[tuple[str, str], list[LinkView]] = {}
    for link in links.links:
        pairs.setdefault((min(link.source, link.target), max(link.source, link.target)), []).append(link)

    def rank(item: tuple[tuple[str, str], list[LinkView]]) -> tuple[bool, bool, float, tuple[str, str]]:
        pair, both = item
        rtt_s = max(link.rtt_s for link in both)
        busy = any(link.backlog_bytes for link in both)
        return links.site not in pair, not busy, rtt_s if rtt_s >= 0 else 1e9, pair

    ranked = sorted(pairs.items(), key=rank)
    lines = [_line(pair, both) for pair, both in ranked[:MOST_LINES]]
    return Drawn(lines=lines, left_out=max(0, len(ranked) - MOST_LINES) + links.links_left_out)


def _line(pair: tuple[str, str], both: list[LinkView]) -> DrawnLine:
    rates = [link.bytes_per_s for link in both if link.bytes_per_s > 0]
    busiest = max(both, key=lambda link: link.backlog_bytes)
    return DrawnLine(
        a=pair[0],
        b=pair[1],
        # A picture wants no more digits, and what does not change is not sent.
        rtt_s=_short(max(link.rtt_s for link in both)),
        bytes_per_s=_short(min(rates, default=-1.0)),
        loss=_short(max(link.loss for link in both)),
        backlog_bytes=sum(link.backlog_bytes for link in both),
        to=busiest.target if busiest.backlog_bytes else "",
    )


def _short(value: float) -> float:
    return float(f"{value:.2g}")
