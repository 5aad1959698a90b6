from __future__ import annotations

import pytest

from diana.policy.queueing.residual import left_s


@pytest.mark.parametrize(("ran_s", "left"), [(0.0, 100.0), (99.0, 1.0), (100.0, 0.0), (103.0, 3.0), (1000.0, 900.0)])
def test_a_job_is_expected_to_be_over_as_foretold_and_then_to_go_on_for_as_long_as_it_is_late(
    ran_s: float, left: float
) -> None:
    assert left_s(100.0, ran_s) == left
