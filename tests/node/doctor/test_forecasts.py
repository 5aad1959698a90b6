"""`diana doctor` says how foretold ends came out."""

from __future__ import annotations

import pytest

from diana.node.doctor.running import forecasts
from diana.wire.client.peers import PeersResponse


def test_nothing_is_said_before_the_first_range_was_scored() -> None:
    assert not forecasts(PeersResponse(site="alpha"))


@pytest.mark.parametrize(
    ("ranges", "held", "state"), [(10, 0.1, "ok"), (30, 0.8, "ok"), (30, 0.4, "warn"), (100, 1.0, "warn")]
)
def test_ranges_that_held_too_seldom_or_always_are_told_once_there_are_enough(
    ranges: int, held: float, state: str
) -> None:
    (row,) = forecasts(PeersResponse(site="alpha", ranges=ranges, ranges_held=held, forecasts=9, forecast_error=0.25))
    assert row.state == state and f"{held:.0%} of the last {ranges} ranges" in row.found and "by 25%" in row.found
    assert bool(row.mend) == (state == "warn")
