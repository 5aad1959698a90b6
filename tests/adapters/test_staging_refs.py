"""No name that comes from outside becomes a path outside."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from diana.adapters.file_names import BadName, parts_of
from diana.adapters.staging.catalogue.holdings import DataReader, LocalData
from diana.adapters.staging.refs import LiveRef, LogRef, OutputRef, output_ref, parse_ref
from diana.errors import Denied
from diana.model.ids import SiteId, SubgroupId
from diana.model.layout import DataDir

PIECES = st.sampled_from(["..", ".", "", "/", "a", "b c", "~", "$HOME", "\0", "\n", "é", "\\", ";", "-o", "\ud800"])


@given(st.lists(PIECES, max_size=6).map("/".join) | st.text(max_size=30))
def test_a_name_is_refused_or_stays_below_its_root(name: str) -> None:
    try:
        parts = parts_of(name)
    except BadName as refusal:
        assert "\n" not in str(refusal)
        return
    joined = posixpath.normpath(posixpath.join("/root", *parts))
    assert joined == "/root/" + name and "\0" not in name


@given(st.text(max_size=60))
@example("\n@")
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    for scheme in ("", "dataset:", "blob:", "output:", "log:", "live:", "live:alpha-1/0/1/"):
        try:
            parse_ref(scheme + text)
        except BadName as refusal:
            assert "\n" not in str(refusal)


@pytest.mark.parametrize(
    "text",
    [
        "dataset:a@0",
        "dataset:a@x/y",
        "manifest:../x",
        "dataset:a/",
        "dataset:/etc/passwd",
        "dataset:../x/y",
        "dataset:a/../b",
        "blob:../x",
        "blob:" + "A" * 64,
        "output:alpha-1/0/1/../../x",
        "output:alpha-1/0/x/y",
        "output:alpha/0/1/y",
        "output:alpha-1/../1/y",
        "log:alpha-1",
        "log:../alpha-1/x",
        "log:x/alpha-1",
        "live:alpha-1/0/1/2/3",
        "live:alpha-1/0/1/-2/0/9",
        "live:../0/1/2/0/9",
        "live:alpha-1/0/1/2/x/9",
        "file:/etc/passwd",
    ],
)
def test_references_that_point_elsewhere_are_refused(text: str) -> None:
    with pytest.raises(BadName):
        parse_ref(text)


def test_outputs_and_logs_name_the_group_they_belong_to() -> None:
    subgroup = SubgroupId("alpha-1/3")
    assert parse_ref(output_ref(subgroup, 2, "a/b")) == OutputRef(subgroup, 2, "a/b")
    assert parse_ref("output:alpha-1/3/e2/a") == OutputRef(subgroup, 2, "a")
    assert parse_ref("log:alpha-1/s0") == LogRef("alpha-1", "alpha-1/s0")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reader", "reads"),
    [
        (DataReader("site", "alpha"), True),
        (DataReader("site", "beta"), True),
        (DataReader("site", "gamma"), False),
        (DataReader("member", "beta/m1"), False),
        (DataReader("user", "alpha"), False),
    ],
)
def test_the_log_of_a_running_job_is_shown_to_its_origin_and_its_own_site_alone(
    tmp_path: Path, reader: DataReader, reads: bool
) -> None:
    nothing: Any = None
    held = LocalData(DataDir(tmp_path), SiteId("beta"), nothing, nothing)
    asked: list[LiveRef] = []
    held.running = lambda ref: asked.append(ref)  # type: ignore[func-returns-value, assignment, return-value]
    if reads:
        held.open("live:alpha-1/0/3/5/-70/99999999", reader)
        assert asked == [LiveRef(SubgroupId("alpha-1/0"), 3, 5, -70, 1 << 18)]
    else:
        with pytest.raises(Denied, match="may not read it"):
            held.open("live:alpha-1/0/3/5/-70/99", reader)
        assert not asked
