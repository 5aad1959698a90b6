"""Numbers of the membership protocol: who is drawn, how often news is repeated, how long a suspicion lasts.

After SWIM (Das, Gupta, Motivala 2002: news repeated about log n times, suspicion before loss, refutation by a newer
version) and Lifeguard (Dadgar, Phillips, Currey 2018: suspicion shortened by independent confirmations, widened by
whoever is slow itself).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from math import ceil, log, log2, log10
from typing import NamedTuple, TypeVar
from zlib import crc32

_T = TypeVar("_T")
_MASK = (1 << 64) - 1


class State(IntEnum):
    """Of two words about the same version of a site, the higher one counts."""

    ALIVE = 0
    SUSPECT = 1
    LOST = 2
    LEFT = 3


class Pace(NamedTuple):
    """What the kind of network asks for."""

    redial_s: float
    """A stream that fell is had again within this, or its site is suspected."""
    suspicion_s: float
    """A suspicion nobody confirms lasts this long among up to ten sites, and longer among more."""


PACES = {"lan": Pace(2.0, 3.0), "wan": Pace(4.0, 6.0)}

CONFIRMATIONS = 3
"""With so many others of the same opinion a suspicion is as short as it gets."""
SHORTEST = 0.4
"""Of the unconfirmed time."""
SEEKERS = 8
"""So many sites call one that was lost."""
MOST_HEALTH = 8
"""How much slower than asked a site may find itself; Lifeguard's local health multiplier."""


def suspicion_s(base_s: float, sites: int, confirmations: int, health: int) -> float:
    """How long a suspicion lasts before the site is lost. Lifeguard, section IV.C: it falls with the logarithm of the
    independent confirmations from its longest to its shortest; both grow with log10 of the sites."""
    longest_s = base_s * max(1.0, log10(max(1, sites)))
    shortest_s = SHORTEST * longest_s
    share = log(min(confirmations, CONFIRMATIONS) + 1) / log(CONFIRMATIONS + 1)
    return (longest_s - (longest_s - shortest_s) * share) * (1 + min(health, MOST_HEALTH))


def repeats(sites: int) -> int:
    """How often a site passes one piece of news on; SWIM, section 4.1: a small multiple of log n."""
    return 2 * ceil(log2(sites + 2))


def tries(away: int, others: int, seed: int) -> int:
    """How many of the lost sites one of `others` calls now, so that about `SEEKERS` call each of them, whatever n is: a
    site that returns is not met by everybody at once."""
    share = away * SEEKERS / max(1, others)
    return int(share) + (_mixed(seed) % 1_000_000 < (share % 1.0) * 1_000_000)


def score(home: str, site: str) -> int:
    """Rank of `site` among those `home` may hold streams to, the lowest first: even over sites, its own for each home,
    and the same whoever else comes and goes (rendezvous hashing)."""
    return crc32(f"{home}|{site}".encode())


def ring_distance(one: str, other: str) -> int:
    """How far two sites lie apart on the ring of hashed names, the short way round."""
    apart = (_place(one) - _place(other)) & (_MASK >> 1)
    return min(apart, (_MASK >> 1) + 1 - apart)


@lru_cache(maxsize=1 << 15)
def _place(site: str) -> int:
    """On the ring; asked again and again of the same sites."""
    return mark(site)


def mark(site: str) -> int:
    """63 bits of a site; sets of sites are compared by the exclusive or of theirs."""
    return _mixed(crc32(site.encode()) | crc32(b"|" + site.encode()) << 32) >> 1


def drawn(of: Sequence[_T], count: int, seed: int) -> list[_T]:
    """`count` different ones of them (or all), each equally likely; the same seed draws the same."""
    pool = list(of)
    if len(pool) <= count:
        return pool
    for at in range(count):
        seed = _mixed(seed + at)
        other = at + seed % (len(pool) - at)
        pool[at], pool[other] = pool[other], pool[at]
    return pool[:count]


def _mixed(z: int) -> int:
    """splitmix64."""
    z = (z + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
