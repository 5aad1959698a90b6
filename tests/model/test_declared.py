"""Resources that operators declare: their names, the text they travel as, and what groups that ask for some have in
common with others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.history import program_key, template_key
from diana.model.job import declared, software
from diana.model.job.spec import GroupSpec, Resources, decode_spec, encode_spec, is_newer

PLAIN = GroupSpec(argv=("x",))


def asking(**others: int) -> GroupSpec:
    return msgspec.structs.replace(PLAIN, resources=Resources(others=tuple(sorted(others.items()))))


def test_a_spec_that_asks_for_some_is_read_back_and_one_that_asks_for_none_has_the_bytes_it_had() -> None:
    asked = asking(fpga=1, tape=2)
    assert decode_spec(encode_spec(asked)) == asked
    assert b"others" not in encode_spec(PLAIN)
    assert is_newer(encode_spec(asked)) and not is_newer(encode_spec(PLAIN))


def test_another_request_has_another_history() -> None:
    several = (PLAIN, asking(fpga=1), asking(fpga=2), asking(tape=1), asking(fpga=1, tape=1))
    for key in (template_key, program_key):
        assert len({key(spec) for spec in several}) == len(several)
    # As journals have them that were written before there were any.
    assert (template_key(PLAIN), program_key(PLAIN)) == ("d618a3a9066f809a", "6838525dfa950001")


def test_a_site_that_has_more_of_one_has_it_and_one_of_an_older_release_has_none() -> None:
    asked = software.needed(asking(fpga=1, tape=2))
    assert asked == ("resource fpga 1", "resource tape 2") == declared.named((("fpga", 1), ("tape", 2)))
    assert software.had(("resource fpga 2", "resource tape 1"), asked) == ("resource fpga 1",)
    assert software.lacking(("resource fpga 2", "resource tape 1"), asked) == "has 1 of the 2 tape a job needs"
    assert software.lacking(("resource tape 9",), asked) == "has no fpga"
    assert software.lacking(("resource fpga 2", "resource tape 2"), asked) == ""
    assert declared.is_named(asked[0]) and not declared.is_named("licence fpga 1")
    # A licence of the same name is another thing.
    assert software.lacking(("licence fpga 4", "licence tape 4"), asked) == "has no fpga"


@pytest.mark.parametrize(
    "said",
    ["resource x", "resource x -1", "resource x 99999999", "resource x \u00b2", "resource a b 1", "resource X 1"],
)
def test_what_a_peer_says_that_is_no_resource_is_none(said: str) -> None:
    assert not declared.among((said,)) and declared.lacking((said,), "resource x 1") == "has no x"
    assert software.lacking(("resource x 4",), (said,)) == "has no such resource"
    assert software.had(("resource x 4",), (said,)) == ()


@dataclass
class Full:
    """As many needs as a group may have."""

    modules: tuple[str, ...] = tuple(f"m{number}" for number in range(software.MOST_MODULES))
    licences: tuple[tuple[str, int], ...] = tuple((f"l{number:02}", 1) for number in range(16))
    others: tuple[tuple[str, int], ...] = tuple((f"r{number:02}", 1) for number in range(declared.MOST_DECLARED))


def test_no_need_of_a_group_that_asks_for_as_much_as_it_may_is_lost_on_the_way() -> None:
    full = Full()
    spec = GroupSpec(argv=("x",), modules=full.modules, resources=Resources(licences=full.licences, others=full.others))
    assert software.plain(spec)
    assert set(software.asked(software.needed(spec))) == set(software.needed(spec))


@pytest.mark.parametrize(
    "others",
    [
        (("fpga", 0),),
        (("fpga", -1),),
        (("fpga", 2**62),),
        (("tape", 1), ("fpga", 1)),
        (("fpga", 1), ("fpga", 1)),
        (("gpus", 1),),
        (("Fpga", 1),),
        (("", 1),),
        tuple((f"r{number:02}", 1) for number in range(17)),
    ],
)
def test_a_spec_from_elsewhere_with_what_no_job_file_says_is_not_plain(others: Any) -> None:
    assert not software.plain(msgspec.structs.replace(PLAIN, resources=Resources(others=others)))


@given(
    st.lists(st.tuples(st.text(max_size=50) | st.sampled_from(["fpga", "tape", "gpus"]), st.integers(-(2**63), 2**63)))
)
def test_whatever_a_machine_tells_is_few_small_and_well_named(told: list[tuple[str, int]]) -> None:
    kept = declared.sane(told)
    assert declared.plain(kept) or any(declared.nearest(name) for name, _ in kept)
    assert len(kept) <= declared.MOST_DECLARED and all(0 < count <= declared.MOST_AMOUNT for _, count in kept)
    assert kept == tuple(sorted(dict(kept).items()))
