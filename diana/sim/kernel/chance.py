"""Chance from one seed. Every user of chance gets a stream of its own, so that drawing more in one place does not
shift what another place draws."""

from __future__ import annotations

import random

import numpy as np

_MASK = (1 << 64) - 1


def stream(seed: int, name: str) -> random.Random:
    """A generator that depends on the seed and the name alone (text seeds do not depend on PYTHONHASHSEED)."""
    return random.Random(f"{seed}/{name}")


def fraction(seed: int, index: int) -> float:
    """A number in [0, 1) for one job: splitmix64, so that a job's luck does not depend on who ran before it."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 11) / (1 << 53)


def text_seed(seed: int, text: str) -> int:
    """64 bits for `fraction` from a seed and a name."""
    return stream(seed, text).getrandbits(64)


def columns(seed: int, name: str) -> np.random.Generator:
    """As `stream`, for whole arrays of draws."""
    return np.random.Generator(np.random.PCG64(text_seed(seed, name)))
