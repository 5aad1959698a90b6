#!/usr/bin/env python3
"""Particles that attract each other from afar and repel each other when near (Van der Waals), in a square whose edges
meet, as a program that GrADS would schedule: a small twin of its Fish. How much work a particle is depends on how many
others are near, so that the work of a process changes while it runs.

    fish.py PARTICLES STEPS [--seed SEED] [--balance K] [--pause SECONDS] [--slow FILE]

Each process moves a share of the particles, and tells all others where they are. With `--balance` each measures its
speed every K steps by the same few particles, and the particles are divided anew in place: a process whose machine
others use gets fewer. In a gang with spares (`gang.spares`) a process that stands by knows all particles, too, and
takes the place of a slow one at the end of a step once it is told to. The answer is the same to the last bit however
many processes there are, however they share, and whoever they are.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

import numpy as np
from ranks import Progress, Ranks

NEAR = 0.12
"""Side of the square is 1; particles farther apart do not feel each other."""
RADIUS = 0.02
DT = 2e-4
STRONGEST = 50.0
PROBE_S = 0.02
TRY = 10
"""Steps between two tries of a process that stands by."""
SLOW_S = 0.4
"""Seconds by which a part takes longer where the file of `--slow` is."""


def first_school(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (places, velocities): half of them swim in a shoal."""
    chance = np.random.default_rng(seed)
    places = chance.random((count, 2))
    places[: count // 2] = 0.5 + (places[: count // 2] - 0.5) * 0.4
    return places, chance.normal(0.0, 0.3, (count, 2))


def force(place: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the force on one particle, by those that are near."""
    away = place - places
    away -= np.round(away)
    square = (away * away).sum(axis=1)
    near = (square < NEAR * NEAR) & (square > 0)
    away, square = away[near], np.maximum(square[near], (0.4 * RADIUS) ** 2)
    ratio = (RADIUS * RADIUS / square) ** 3
    pull = np.clip(24.0 * (2.0 * ratio * ratio - ratio) / square * 1e-3, -STRONGEST / NEAR, STRONGEST / NEAR)
    out: np.ndarray = (away * pull[:, None]).sum(axis=0)
    return out


def moved(mine: range, places: np.ndarray, speeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (places, velocities) of these particles after a step."""
    pulls = np.array([force(places[at], places) for at in mine]).reshape(len(mine), 2)
    own = speeds[mine.start : mine.stop] + DT * pulls
    return (places[mine.start : mine.stop] + DT * own) % 1.0, own


def probe_s(places: np.ndarray) -> float:
    """Return the seconds that the same few particles take here now, as often as `PROBE_S` lets them: a machine that
    others use is not theirs at every moment."""
    began_s, rounds, took_s = time.monotonic(), 0, 0.0
    while took_s < PROBE_S:
        for at in range(min(8, len(places))):
            force(places[at], places)
        rounds, took_s = rounds + 1, time.monotonic() - began_s
    return took_s / rounds


def timed(mine: range, places: np.ndarray, speeds: np.ndarray, slow: str) -> tuple[Any, float]:
    """Return the particles after a step, and the seconds that this process took for them."""
    began_s = time.monotonic()
    part = moved(mine, places, speeds)
    if slow and os.path.exists(slow):
        time.sleep(SLOW_S)
    return part, time.monotonic() - began_s


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("particles", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--balance", type=int, default=0, help="steps between two divisions anew; 0: there is none")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of rest after each step")
    parser.add_argument("--slow", default="", help="to try an exchange: rank R is slow while FILE.R is there")
    args = parser.parse_args()
    ranks = Ranks()
    slow, own_s = args.slow and f"{args.slow}.{ranks.rank}", 0.0
    progress = Progress(ranks, args.steps, args.pause)
    saved = progress.begun()
    places, speeds = (saved["places"], saved["speeds"]) if saved else first_school(args.particles, args.seed)
    mine = ranks.share(len(places))
    while progress.more():
        if args.balance and progress.step and progress.step % args.balance == 0:
            mine = ranks.balanced(len(places), probe_s(places))
            print("share", len(mine), flush=True)
        part = None
        if ranks.place >= 0:
            part, own_s = timed(mine, places, speeds, slow)
        elif progress.step % TRY == 0:
            # The part of another, so that the seconds are of the same work; what comes out is thrown away.
            _, own_s = timed(ranks.share_of(0, len(places)), places, speeds, slow)
        parts = ranks.parts(part)
        places, speeds = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
        progress.did({"places": places, "speeds": speeds}, own_s)
        if ranks.exchanged():
            mine = ranks.share(len(places))
            print("roster", ranks.roster, "place", ranks.place, flush=True)
    progress.answer([f"{places.sum():.12f} {np.square(speeds).sum():.12f}"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
