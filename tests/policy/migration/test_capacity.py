"""SPEC D7, beyond the paper: twenty congested sites do not herd to one idle site."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from diana.model.ids import SiteId
from diana.policy.migration.capacity import Promises, grant
from diana.policy.migration.migrants import Migrant, MigrantQuote, MigrationSettings, Move, Peer
from diana.policy.migration.plan import plan

IDLE = SiteId("idle")
EXPORTERS = 20


def herd(free: int, rate: float, home_s: float, jobs: int, seeds: list[int]) -> list[Move]:
    """Decisions of twenty sites that see the same quotes, none knowing of the others."""
    moves = []
    for number, seed in enumerate(seeds):
        quotes = (MigrantQuote(IDLE, 0, 5.0, 5.0, rate),)
        backlog = Migrant(f"site{number}", jobs, 1, jobs, home_s, home_s, 1.0, quotes=quotes)
        moves += plan(backlog, [Peer(IDLE, 0, free, 1.0)], MigrationSettings(), budget=5, seed=seed).moves
    return moves


@settings(max_examples=60)
@given(
    st.integers(0, 200),
    st.floats(0, 4),
    st.floats(0, 2000),
    st.integers(1, 3000),
    st.lists(st.integers(0, 10**9), min_size=EXPORTERS, max_size=EXPORTERS),
    st.randoms(use_true_random=False),
)
def test_the_idle_site_never_gets_more_than_it_can_start_within_the_gain(
    free: int, rate: float, home_s: float, jobs: int, seeds: list[int], rng: Random
) -> None:
    moves, book = herd(free, rate, home_s, jobs, seeds), Promises(60.0)
    rng.shuffle(moves)
    for at, move in enumerate(moves):
        given = grant(
            move.jobs,
            1,
            move.gain_s,
            free_processors=free + int(rate * move.gain_s),
            promised_processors=book.total(0.0),
        )
        if given.jobs:
            book.make(f"{at}", given.jobs, 0.0)
            assert book.total(0.0) <= free + rate * move.gain_s + 1e-6
        assert given.jobs == move.jobs or given.reason
    if moves:
        # It is filled, too: the first to ask got all that was decided for it alone.
        assert book.total(0.0) >= max(move.jobs for move in moves[:1])


def test_whoever_comes_when_all_is_promised_hears_so() -> None:
    book = Promises(60.0)
    first = grant(40, 1, 200.0, free_processors=30, promised_processors=book.total(0.0))
    assert (first.jobs, first.reason) == (30, "can start 30 jobs within 3m20s, later than which the move would not pay")
    book.make("a-1/0", 30, 0.0)
    second = grant(5, 1, 200.0, free_processors=30, promised_processors=book.total(0.0))
    assert second == (
        0,
        "can start none within 3m20s, later than which the move would not pay, 30 of its processors being promised",
    )


def test_processors_that_are_fewer_than_a_job_wants_take_none() -> None:
    assert grant(100, 4, 10.0, free_processors=11, promised_processors=0).jobs == 2
    assert grant(100, 1, 0.0, free_processors=3, promised_processors=8).jobs == 0


def test_what_comes_uses_up_what_was_promised_for_it() -> None:
    book = Promises(60.0)
    book.make("a-1/0", 30, 0.0)
    assert not book.use("a-1/0", 31, 1.0) and not book.use("a-1/9", 1, 1.0)
    assert book.use("a-1/0", 10, 1.0) and book.total(1.0) == 20
    assert book.use("a-1/0", 20, 1.0) and book.total(1.0) == 0
    assert not book.use("a-1/0", 1, 1.0)


def test_a_promise_that_was_taken_back_or_forgotten_blocks_nothing() -> None:
    book = Promises(60.0)
    book.make("a-1/0", 30, 0.0)
    book.make("a-1/1", 5, 10.0)
    book.make("a-1/2", 7, 20.0)
    book.make("a-1/2", 4, 20.0)
    book.over("a-1/1")
    book.over("a-1/9")
    assert book.total(30.0) == 34
    assert (book.total(60.0), book.total(80.0)) == (4, 0)
