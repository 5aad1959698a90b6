"""Monte-Carlo input: muon pairs, a Z peak over a falling background, as an analysis would find them.

The mass of a pair is drawn, then the pair is given momentum, decays isotropically in its own frame and is boosted;
what is written are the two four-vectors, so that the program which finds the mass again has real work to do.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from diana.demo.histogram import BINS, HIGH, LOW, MAGIC, PER_GEV

Array = npt.NDArray[np.float64]

Z_MASS, Z_WIDTH = 91.19, 2.495
MUON_MASS = 0.10566
RESOLUTION = 1.3
"""Detector smearing of the pair's mass, GeV."""
SIGNAL = 0.3
"""Part of the events that come from the Z."""
FALL = 28.0
"""Decay constant of the background: exp(-mass / FALL), GeV."""
EVENTS_PER_FILE = 10_000


def pair_masses(rng: np.random.Generator, count: int) -> Array:
    """True masses: a Breit-Wigner cut to 60-120 GeV and smeared, over an exponential from 15 to 200 GeV."""
    low, high = (np.arctan(2.0 * (edge - Z_MASS) / Z_WIDTH) for edge in (60.0, 120.0))
    peak = Z_MASS + 0.5 * Z_WIDTH * np.tan(rng.uniform(low, high, count))
    peak += rng.normal(0.0, RESOLUTION, count)
    # Inverse of the cut exponential's distribution.
    fraction = rng.random(count)
    background = 15.0 - FALL * np.log1p(-fraction * (1.0 - np.exp(-(200.0 - 15.0) / FALL)))
    return np.where(rng.random(count) < SIGNAL, peak, background)


def events(rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    """(count, 8): E, px, py, pz of the positive and the negative muon."""
    mass = pair_masses(rng, count)
    pt, phi = rng.exponential(14.0, count), rng.uniform(-np.pi, np.pi, count)
    rapidity = rng.normal(0.0, 1.1, count)
    transverse = np.sqrt(mass * mass + pt * pt)
    pair = np.stack(
        [transverse * np.cosh(rapidity), pt * np.cos(phi), pt * np.sin(phi), transverse * np.sinh(rapidity)], axis=1
    )
    # In the pair's frame the muons fly back to back, each with half its mass.
    cosine, angle = rng.uniform(-1.0, 1.0, count), rng.uniform(-np.pi, np.pi, count)
    sine = np.sqrt(1.0 - cosine * cosine)
    p = np.sqrt(mass * mass / 4.0 - MUON_MASS**2)
    flight = np.stack([p * sine * np.cos(angle), p * sine * np.sin(angle), p * cosine], axis=1)
    plus, minus = _boosted(flight, pair, mass), _boosted(-flight, pair, mass)
    return np.concatenate([plus, minus], axis=1).astype("<f4")


def _boosted(flight: Array, pair: Array, mass: Array) -> Array:
    """A muon of half the pair's mass-energy and momentum `flight`, from the pair's frame to the laboratory."""
    energy = mass / 2.0
    towards = np.sum(pair[:, 1:] * flight, axis=1)
    lab_energy = (pair[:, 0] * energy + towards) / mass
    factor = (energy + lab_energy) / (pair[:, 0] + mass)
    return np.concatenate([lab_energy[:, None], flight + pair[:, 1:] * factor[:, None]], axis=1)


def write_file(path: Path, seed: int, number: int, count: int = EVENTS_PER_FILE) -> None:
    """Write one file; the same seed and number give the same file everywhere."""
    rng = np.random.Generator(np.random.PCG64([seed, number]))
    path.write_bytes(MAGIC + events(rng, count).tobytes())


def count_directly(paths: list[Path]) -> tuple[list[int], int]:
    """(counts, events) of all files at once, without the job's program: what the merged histogram must equal.

    Elementwise operations in double precision and in the program's order, so each rounds as it does there.
    """
    counts = np.zeros(BINS, dtype=np.int64)
    seen = 0
    for path in paths:
        numbers = np.frombuffer(path.read_bytes()[len(MAGIC) :], dtype="<f4").astype(np.float64).reshape(-1, 8)
        e, x, y, z = (numbers[:, k] + numbers[:, k + 4] for k in range(4))
        square = e * e - (x * x + y * y + z * z)
        mass = np.sqrt(square[square > 0.0])
        mass = mass[(mass >= LOW) & (mass < HIGH)]
        counts += np.bincount(((mass - LOW) * PER_GEV).astype(np.int64), minlength=BINS)
        seen += len(numbers)
    return [int(count) for count in counts], seen
