"""Names are text a person can read, and carry their origin with them."""

from __future__ import annotations

import pytest

from diana.model.ids import (
    GroupId,
    SubgroupId,
    group_id,
    group_of,
    is_group_id,
    job_id,
    origin_of,
    site_id,
    subgroup_id,
)


@pytest.mark.parametrize("text", ["a", "alpha", "a-1", "cern-t0", "a" * 40, "x" + "9" * 39])
def test_a_site_id_is_short_lower_case_text(text: str) -> None:
    assert site_id(text) == text


@pytest.mark.parametrize(
    "text", ["", "A", "1a", "-a", "a-", "a_b", "a.b", "a/b", "a b", "a\n", "a\x00", "ä", "../a", "a" * 41]
)
def test_what_could_end_up_as_a_strange_file_name_is_no_site_id(text: str) -> None:
    with pytest.raises(ValueError, match="want 1 to 40 lower-case letters"):
        site_id(text)


def test_a_group_knows_its_origin_also_when_the_site_has_hyphens_and_digits() -> None:
    group = group_id(site_id("cern-7"), 12)
    assert group == "cern-7-12"
    assert origin_of(group) == "cern-7"


def test_subgroups_and_jobs_carry_their_group() -> None:
    group = GroupId("alpha-3")
    assert subgroup_id(group, 0) == "alpha-3/0"
    assert group_of(SubgroupId("alpha-3/17")) == group
    assert job_id(group, 5) == "alpha-3.5"


@pytest.mark.parametrize("text", ["alpha-0", "alpha-01", "alpha", "alpha-", "-1", "alpha-1/0", "alpha-1\n", "Alpha-1"])
def test_a_group_id_is_a_site_and_a_number_from_one(text: str) -> None:
    assert not is_group_id(text)
    assert is_group_id("alpha-1")
