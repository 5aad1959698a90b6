"""Numbers of the membership protocol: draws of sites, repetitions of news, length of a suspicion.

After SWIM (Das, Gupta, Motivala 2002: news repeated about log n times, suspicion before loss, refutation by a newer
version) and Lifeguard (Dadgar, Phillips, Currey 2018: suspicion shortened by independent confirmations, and lengthened
at a site that is slow itself).
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
    """State of a site. Between two reports about the same version of a site, the higher state counts."""

    ALIVE = 0
    SUSPECT = 1
    LOST = 2
    LEFT = 3


class Pace(NamedTuple):
    """Times of the protocol for one kind of network."""

    redial_s: float
    """Seconds within which a fallen stream must stand again, or its site is suspected."""
    suspicion_s: float
    """Seconds an unconfirmed suspicion lasts among up to ten sites; longer among more."""


PACES = {"lan": Pace(2.0, 3.0), "wan": Pace(4.0, 6.0)}

CONFIRMATIONS = 3
"""Number of confirmations at which a suspicion is shortest."""
SHORTEST = 0.4
"""Length of the shortest suspicion, as a share of an unconfirmed one."""
SEEKERS = 8
"""Number of sites, about, that call each lost one."""
MOST_HEALTH = 8
"""Largest `health`: steps by which a site that is slow itself lengthens its suspicions; Lifeguard's local health
multiplier."""


def suspicion_s(base_s: float, sites: int, confirmations: int, health: int) -> float:
    """Seconds a suspicion lasts before the site counts as lost. Lifeguard, section IV.C: it falls from its longest to
    its shortest with the logarithm of the independent confirmations; both grow with log10 of the sites."""
    longest_s = base_s * max(1.0, log10(max(1, sites)))
    shortest_s = SHORTEST * longest_s
    share = log(min(confirmations, CONFIRMATIONS) + 1) / log(CONFIRMATIONS + 1)
    return (longest_s - (longest_s - shortest_s) * share) * (1 + min(health, MOST_HEALTH))


def repeats(sites: int) -> int:
    """Number of times a site passes one piece of news on; SWIM, section 4.1: a small multiple of log n."""
    return 2 * ceil(log2(sites + 2))


def tries(away: int, others: int, seed: int) -> int:
    """Number of the `away` lost sites that one of `others` calls now. About `SEEKERS` sites then call each of them,
    however many sites there are, and a site that returns is not called by all at once."""
    share = away * SEEKERS / max(1, others)
    return int(share) + (_mixed(seed) % 1_000_000 < (share % 1.0) * 1_000_000)


def score(home: str, site: str) -> int:
    """Rank of `site` among those `home` may hold streams to, the lowest first: spread evenly over sites, different for
    each home, and independent of other sites that come and go (rendezvous hashing)."""
    return crc32(f"{home}|{site}".encode())


def ring_distance(one: str, other: str) -> int:
    """Distance of two sites on the ring of hashed names, the short way round."""
    apart = (_place(one) - _place(other)) & (_MASK >> 1)
    return min(apart, (_MASK >> 1) + 1 - apart)


@lru_cache(maxsize=1 << 15)
def _place(site: str) -> int:
    """Place of a site on the ring; cached, since the same sites are looked up again and again."""
    return mark(site)


def mark(site: str) -> int:
    """63-bit hash of a site; sets of sites are compared by the exclusive or of their members' hashes."""
    return _mixed(crc32(site.encode()) | crc32(b"|" + site.encode()) << 32) >> 1


def drawn(of: Sequence[_T], count: int, seed: int) -> list[_T]:
    """Draw `count` different members of `of` (or all, or none), each equally likely; the same seed draws the same."""
    pool = list(of)
    if len(pool) <= count:
        return pool
    for at in range(count):
        seed = _mixed(seed + at)
        other = at + seed % (len(pool) - at)
        pool[at], pool[other] = pool[other], pool[at]
    return pool[: max(0, count)]


def _mixed(z: int) -> int:
    """Mix 64 bits by splitmix64."""
    z = (z + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
