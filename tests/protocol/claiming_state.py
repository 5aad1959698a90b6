"""The values of claiming's model: jobs at their origins, components' rows at sites, and what is said.

All values are tuples of words and small numbers, because a search hashes hundreds of thousands of them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeVar

Value = TypeVar("Value")

Phase = Literal["placing", "claiming", "going", "released", "giving up", "done"]
"""A job at its origin. "released": its GO is durable; "going" is the mutant that speaks before that. "giving up": its
GO was durable, and a component of it is closed."""
Known = Literal["placed", "asked", "claimed", "closed", "ended"]
"""A component, as its origin knows it. "placed" and "asked" are volatile until the claim is heard of."""
RowState = Literal[
    "unknown", "waits", "stands", "stands unkept", "runs", "over", "closed", "withdrawn", "runs on", "stray"
]
"""A component at a site. "waits": for processors, or in the batch queue. "stands": processors are held, the task has
begun and waits at the barrier, all of it durable. "over": ended well. "closed": a tombstone. "withdrawn": closed, and
its submission still stands in the batch queue. Mutants only: a claim that is not durable ("stands unkept"), a program
that runs though its site said that it is closed ("runs on"), a task no node knows of ("stray")."""
What = Literal["CLAIM", "RELEASE", "ABORT", "CLAIMED", "CLOSED", "RESULT", "YIELD"]
"""The first three are said to a site, the others to an origin."""

AT_BARRIER = frozenset({"stands", "stands unkept"})
RUNS = frozenset({"runs", "runs on"})
HOLDS = AT_BARRIER | RUNS | {"stray"}
CAN_BE_ABORTED = AT_BARRIER | {"waits", "runs"}
FOR_EVER = frozenset({"over", "closed", "withdrawn"})
"""States in which a component is decided; its epoch is never claimed again."""
SITES_SAY: tuple[tuple[What, frozenset[str]], ...] = (
    ("CLAIMED", AT_BARRIER),
    ("CLOSED", frozenset({"closed", "withdrawn", "stray", "runs on"})),
    ("RESULT", frozenset({"over"})),
)
SETTLED = frozenset({"closed", "ended"})


class Part(NamedTuple):
    """A component at its origin: durable, but for "placed" and "asked"."""

    site: int
    epoch: int
    known: Known
    failed: int | None = None
    """The last site that failed it, where there is a liar."""


class Job(NamedTuple):
    """A gang at its origin."""

    phase: Phase
    parts: tuple[Part, ...]


class Row(NamedTuple):
    """A component at one of its sites: the newest epoch that was heard of there."""

    epoch: int = 0
    state: RowState = "unknown"


class Place(NamedTuple):
    """A site that a component may have."""

    job: int
    part: int
    site: int


class Message(NamedTuple):
    """Something said of a component at a site, under an epoch."""

    what: What
    job: int
    part: int
    site: int
    epoch: int


class State(NamedTuple):
    """Everything at one instant."""

    jobs: tuple[Job, ...]
    rows: tuple[Row, ...]
    """One for each `Place`."""
    local: tuple[int, ...]
    """Processors of each site that other work holds."""
    network: frozenset[Message]


def replaced(some: tuple[Value, ...], at: int, value: Value) -> tuple[Value, ...]:
    """`some` with another value at one place."""
    return (*some[:at], value, *some[at + 1 :])


def with_part(job: Job, at: int, part: Part) -> Job:
    """`job` with one component changed."""
    return Job(job.phase, replaced(job.parts, at, part))
