"""Names of groups and jobs as callers write them."""

from __future__ import annotations

import pytest

from diana.errors import UsageError
from diana.node.api.desk import checked_group, checked_job


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("alpha12", "group 'alpha12': want SITE-NUMBER, such as alpha-12; `diana status` lists yours"),
        ("alpha-1.0", "alpha-1.0 is a job, and a group is wanted here; diana status alpha-1.0 tells how it fares"),
        ("alpha-1.x", "group 'alpha-1.x': want SITE-NUMBER, such as alpha-12; `diana status` lists yours"),
    ],
)
def test_a_name_that_is_no_groups_is_refused_with_what_it_is(text: str, line: str) -> None:
    with pytest.raises(UsageError) as refusal:
        checked_group(text)
    assert str(refusal.value) == line
    assert checked_job("alpha-1.0") == ("alpha-1", 0)
