"""Placement policies that an operator installed: none of their answers is believed (SPEC K2)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana import gang_plug_ins
from diana.policy.gang.installed import checked
from diana.policy.gang.policies import POLICIES, GangPolicy, unknown
from diana.policy.gang.requests import (
    Component,
    FlexibleRequest,
    GangPlacement,
    GangRequest,
    NeededFile,
    PlacedComponent,
    Rooms,
    SiteRoom,
    Unplaced,
)
from tests.policy.gang.grids import no_transfer
from tests.policy.gang.test_total_order import REQUESTS, by_pair, sites

TWO = [Component(4, amounts=(("gpus", 1),)), Component(2, site="b")]


def two_sites() -> Rooms:
    return Rooms([SiteRoom("a", 4, 8, left={"gpus": 1}), SiteRoom("b", 4, 4, widest=3, left={"gpus": 0})])


def saying(*parts: tuple[Any, Any, Any], **more: Any) -> GangPolicy:
    return lambda *_: GangPlacement(tuple(PlacedComponent(*part, **more) for part in parts))


def raising(request: GangRequest, *_: object) -> GangPlacement:
    raise RuntimeError(f"{len(request)}\nlines")  # type: ignore[arg-type]


class Mute(Exception):
    def __str__(self) -> str:
        raise self


def mute(*_: object) -> GangPlacement:
    raise Mute


class Sly:
    """Not what it seems."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("a")


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (raising, "failed: RuntimeError: 2 lines"),
        (lambda *_: sys.exit("bye"), "failed: SystemExit: bye"),
        (mute, "failed: Mute"),
        (lambda *_: None, "answered with NoneType, which is no placement"),
        (lambda *_: GangPlacement((("a", 4),)), "answered with GangPlacement, which is no placement"),  # type: ignore[arg-type]
        (lambda *_: GangPlacement(7), "failed: TypeError"),  # type: ignore[arg-type]
        (lambda one: None, "failed: TypeError"),
        (saying(), "components of none, where 4+2 are asked for"),
        (saying((0, 4, "a")), "components of 4, where 4+2"),
        (saying((0, 4, "a"), (0, 2, "b")), "not every component once"),
        (saying((0, 4, "a"), (2, 2, "b")), "not every component once"),
        (saying((0, 4, "a"), (1, 3, "b")), "components of 4+3"),
        (saying((0, 4, "a"), (1, "2", "b")), "a part wants two whole numbers"),
        (saying((0, 4, "a"), ("1", 2, "b")), "a part wants two whole numbers"),
        (saying((0, 4, "b"), (1, 2, "b")), "b has no room for component 1"),
        (saying((0, 4, "a"), (1, 2, "a")), "a has no room for component 2"),
        (saying((0, 4, "mars"), (1, 2, "b")), "mars has no room for component 1"),
        (saying((0, 4, ["a"]), (1, 2, "b")), "and a site's name"),
        (saying((0, 4, Sly()), (1, 2, "b")), "and a site's name"),
    ],
)
def test_an_answer_that_does_not_hold_is_one_line_that_names_the_policy(policy: GangPolicy, why: str) -> None:
    answer = checked("lab", policy)(TWO, two_sites(), no_transfer, None)
    assert isinstance(answer, Unplaced) and not answer.never
    assert answer.reason.startswith("the plug-in lab ") and why in answer.reason and "\n" not in answer.reason


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ((4, 2), ""),
        ((4, 3), "4+3 is no division of 6 into 2 or more each"),
        ((4, 1, 1), "3 components, where 1 to 2 are allowed"),
        ((5, 1), "is no division"),
        ((), "0 components"),
        ((float("nan"), 6), "two whole numbers"),
    ],
)
def test_a_division_keeps_the_bounds_of_the_request(sizes: tuple[int, ...], why: str) -> None:
    policy = saying(*((at, size, f"s{at}") for at, size in enumerate(sizes)))
    rooms = Rooms([SiteRoom(f"s{at}", 6, 6) for at in range(3)])
    answer = checked("lab", policy)(FlexibleRequest(6, 2, 2), rooms, no_transfer, None)
    assert isinstance(answer, Unplaced) if why else isinstance(answer, GangPlacement)
    assert not isinstance(answer, Unplaced) or why in answer.reason


def test_a_division_is_one_of_the_splits_where_there_are_some() -> None:
    wanted = FlexibleRequest(6, splits=((5, 1), (3, 3)))
    rooms = Rooms([SiteRoom("a", 6, 6), SiteRoom("b", 6, 6)])
    found = [
        checked("lab", saying((0, one, "a"), (1, 6 - one, "b")))(wanted, rooms, no_transfer, None)
        for one in (5, 3, 4, 1)
    ]
    assert [isinstance(each, GangPlacement) for each in found] == [True, True, False, False]


def test_its_refusal_is_cut_to_one_line_and_its_replicas_are_the_nearest() -> None:
    said = checked("lab", lambda *_: Unplaced("no\nroom " * 1000, never=1))(TWO, two_sites(), no_transfer, None)  # type: ignore[arg-type]
    assert isinstance(said, Unplaced) and said.reason.startswith("lab: no room") and len(said.reason) < 400
    assert not said.never
    file = NeededFile("f", 1.0, ("b", "c"))
    lying = saying((0, 1, "a"), files=(("f", "x", -7.0),))
    placed = checked("lab", lying)([Component(1, files=(file,))], two_sites(), by_pair, None)
    assert isinstance(placed, GangPlacement) and placed.parts[0].files[0].source == "c" and placed.transfer_s == 1.0


@given(st.sampled_from(sorted(POLICIES)), REQUESTS, sites())
def test_a_policy_of_the_papers_is_as_good_when_it_is_a_plug_in(
    policy: str, request_: GangRequest, some: list[SiteRoom]
) -> None:
    own = POLICIES[policy](request_, Rooms(some), by_pair, None)
    answer = checked("lab", POLICIES[policy])(request_, Rooms(some), by_pair, None)
    if isinstance(own, GangPlacement):
        assert answer == own
    else:
        assert isinstance(answer, Unplaced) and answer.never == own.never


@given(REQUESTS, sites(), st.lists(st.tuples(st.integers(0, 6), st.sampled_from("abcdefz")), max_size=4))
def test_whatever_a_plug_in_answers_no_site_gives_more_than_it_has(
    request_: GangRequest, some: list[SiteRoom], drawn: list[tuple[int, str]]
) -> None:
    parts = [(at, size, site) for at, (size, site) in enumerate(drawn)]
    if not isinstance(request_, FlexibleRequest):
        # Of the right sizes, so that the sites alone are wrong.
        parts = [(at, each.processors, site) for at, (each, (_, site)) in enumerate(zip(request_, drawn, strict=False))]
    answer = checked("lab", saying(*parts))(request_, Rooms(some), by_pair, None)
    if isinstance(answer, GangPlacement):
        for site in some:
            assert sum(part.processors for part in answer.parts if part.site == site.name) <= site.idle
        wanted = request_.processors if isinstance(request_, FlexibleRequest) else sum(c.processors for c in request_)
        assert sum(part.processors for part in answer.parts) == wanted


# --- entry points --------------------------------------------------------------------------------------------

LAB = """
from diana.policy.gang.worst_fit import worst_fit
def last(request, rooms, transfer_time, history):
    return worst_fit(request, rooms.only(rooms.names()[-1:]), transfer_time)
constant = 7
"""


@dataclass
class Lab:
    folder: Path

    def policies(self) -> dict[str, GangPolicy]:
        return dict(gang_plug_ins.policies())


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A package with policies, as an operator installs one."""
    (tmp_path / "lab_gangs.py").write_text(LAB)
    (tmp_path / "lab_script.py").write_text("raise SystemExit(3)")
    (tmp_path / "lab_broken.py").write_text("raise OSError('no licence')")
    about = tmp_path / "lab_gangs-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-gangs\nVersion: 1.0\n")
    names = ("last", "constant", "missing")
    lines = [
        *(f"{name} = lab_gangs:{name}" for name in names),
        "sick = lab_broken:x",
        "quits = lab_script:x",
        "worst-fit = lab_gangs:last",
    ]
    (about / "entry_points.txt").write_text("\n".join([f"[{gang_plug_ins.GROUP}]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    gang_plug_ins.policies.cache_clear()
    yield Lab(tmp_path)
    gang_plug_ins.policies.cache_clear()


def test_an_installed_policy_places_by_its_name(lab: Lab) -> None:
    answer = lab.policies()["last"]([Component(1)], two_sites(), no_transfer, None)
    assert isinstance(answer, GangPlacement) and answer.sites == ("b",)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("constant", "the plug-in constant does not load: lab_gangs:constant is no function"),
        ("missing", "the plug-in missing does not load: AttributeError"),
        ("quits", "the plug-in quits does not load: SystemExit: 3"),
        ("sick", "the plug-in sick does not load: OSError: no licence"),
    ],
)
def test_one_that_does_not_load_says_so_where_it_is_asked(lab: Lab, name: str, why: str) -> None:
    answer = lab.policies()[name]([Component(1)], two_sites(), no_transfer, None)
    assert isinstance(answer, Unplaced) and answer.reason.startswith(why)


def test_a_name_of_dianas_own_stays_its_own(lab: Lab) -> None:
    assert lab.policies()["worst-fit"] is POLICIES["worst-fit"]


def test_an_unknown_name_is_told_with_the_nearest_and_all_that_are_known(lab: Lab) -> None:
    gang_plug_ins.check("last", "here")
    gang_plug_ins.check("", "here")
    with pytest.raises(
        ValueError, match="here: 'lasst': no such placement; did you mean last\\? Known here: close-to-fi"
    ):
        gang_plug_ins.check("lasst", "here")
    assert unknown("zzz\n" * 100, ["a"]).endswith("': no such placement; known here: a")
    assert "\n" not in unknown("zzz\n" * 100, ["a"])


def test_the_policy_of_the_documentation_places() -> None:
    page = (Path(__file__).parents[3] / "docs" / "job-file.md").read_text(encoding="utf-8")
    text = page.partition("### A placement of your own")[2].partition("```python\n")[2].partition("```")[0]
    lab: dict[str, Any] = {}
    exec(text, lab)
    answer = checked("by-name", lab["by_name"])([Component(2)] * 2, two_sites(), no_transfer, None)
    assert isinstance(answer, GangPlacement) and answer.sites == ("a",)
    refused = checked("by-name", lab["by_name"])([Component(9)], two_sites(), no_transfer, None)
    assert isinstance(refused, Unplaced) and "component 1 wants 9 processors" in refused.reason
