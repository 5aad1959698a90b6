"""Long walks at random through what two machines can do: where the exhaustive search would never end.

The rules are those of the model (tests/protocol/standby_rules.py), asked of each state in the model's words.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.protocol.standby_rules import HARMS, RULES
from tests.replica.world import State, World

RARE = (
    "crashes",
    "loses its disk",
    "loses its register",
    "drops what waits",
    "link is lost",
    "is to hand over",
    "is forced",
)
SELDOM = ("drops what waits", "time passes", "reads", "is seeded")


class Found(NamedTuple):
    """Breaches that a walk met."""

    broken: str
    how: str
    story: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.broken}: {self.how}\n" + "\n".join(self.story[-60:])


def weight(name: str) -> float:
    if any(word in name for word in RARE):
        return 0.12
    return 0.35 if any(word in name for word in SELDOM) else 1.0


def walk(world: World, seed: int, steps: int) -> Found | None:
    """The first thing that breaks, or None."""
    rng = random.Random(seed)
    state: State = world.initial()
    seen = world.seen_as(state)
    story: list[str] = []
    for _ in range(steps):
        moves = list(world.transitions(state))
        if not moves:
            return None
        move = rng.choices(moves, [weight(move.name) for move in moves])[0]
        story.append(move.name)
        before, state, seen = seen, move.state, world.seen_as(move.state)
        for harm in HARMS:
            if how := harm(seen):
                return Found(harm.__name__, how, tuple(story))
        for rule in RULES:
            if how := rule(before, seen):
                return Found(rule.__name__, how, tuple(story))
    return None


def told(world: World, story: list[tuple[str, ...]]) -> Found | None:
    """Follow a story whose steps are named by what their names contain. None: it could not be told to its end, or no
    harm came of it."""
    state = world.initial()
    for words in story:
        named = [move for move in world.transitions(state) if all(word in move.name for word in words)]
        if not named:
            return None
        state = named[-1].state
        for harm in HARMS:
            if how := harm(world.seen_as(state)):
                return Found(harm.__name__, how, tuple(map(" ".join, story)))
    return None


def first_found(world: World, seeds: range, steps: int) -> tuple[int, Found] | None:
    """The first seed whose walk breaks something."""
    for seed in seeds:
        found = walk(world, seed, steps)
        if found is not None:
            return seed, found
    return None
