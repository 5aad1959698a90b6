"""The page of a report: whole in one file, the same each time, every plot with its numbers, whatever names say."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.sim.main import run
from diana.sim.report import charts
from diana.sim.report.drawing import BUCKETS, MOST_BARS, drawing_of
from diana.sim.report.figures import GridCapacity
from diana.sim.report.intervals import Interval
from diana.sim.report.outcome import JobTimes

SCENARIO = """
version = 1
name = "a <b> & c"
about = "Names as $x_1$ and <script> stay what they are."
report = ["groups", "digest"]
sites = [{ name = "a", slots = 2 }, { name = "b", slots = 3 }]
users = [{ name = "ann$1$@vo" }, { name = "bob<i>@vo" }]
[[workload]]
name = "w"
site = "a"
jobs = 20
work_s = 10.0
spread = 0.5
repeat = 4
every_s = 20.0
generate = { users = ["bob<i>@vo", "ann$1$@vo"] }
"""
COMPARING = """
[[policies]]
name = "diana <1>"
[[policies]]
name = "paper & co"
settings = { cost_model = "paper" }
[compare]
loads = [0.8, 1.2]
seeds = 2
"""
VOID = {"meta", "line", "path", "use", "image", "rect"}


class _Nesting(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"{tag} closes what it did not open"


def made(tmp_path: Path, text: str, name: str = "page.html") -> tuple[str, str]:
    scenario, page, out = tmp_path / "x.toml", tmp_path / name, io.StringIO()
    scenario.write_text(text)
    assert run(scenario, html=page, out=out, workers=1, as_json=True) == 0
    return page.read_text(), out.getvalue()


def checked(page: str) -> list[str]:
    """Its tags. Nothing is fetched, nothing runs, what names say is text, and every plot is well-formed."""
    parser = _Nesting()
    parser.feed(page)
    assert parser.open == [] and "script" not in parser.tags and "link" not in parser.tags
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\"'<> ]+", page)) <= namespaces
    assert all(one.startswith(("data:image/png;base64,", "#")) for one in re.findall(r'href="([^"]*)"', page))
    for svg in re.findall(r"<figure>(<svg.*?</svg>)</figure>", page, re.DOTALL):
        ElementTree.fromstring(svg)
        assert not re.search(r"#0[1-5]0\d0\d\b", svg), "a colour that the page should give"
    for name in re.findall(r"var\(--(\w+)\)", page):
        assert page.count(f"--{name}:") == 2, f"--{name} is said once for light and once for dark"
    return parser.tags


@pytest.mark.wide
def test_a_comparison_is_one_page_with_plots_and_their_numbers(tmp_path: Path) -> None:
    page, _ = made(tmp_path, SCENARIO + COMPARING)
    tags = checked(page)
    assert tags.count("figure") >= 8 + 2 * 5 + 3 + 2 + 1 + 2 and tags.count("details") >= 5
    for title in ("Figures", "Load 0.8", "Load 1.2", "Distributions", "Over time", "One run: diana &lt;1&gt;", "Runs"):
        assert f">{title}<" in page
    for words in ("Turnaround, p95, s", "Jain index of slowdowns", "Moved between sites, GB", "Who ran where and when"):
        assert words in page
    assert "paper &amp; co" in page and "a &lt;b&gt; &amp; c" in page and "$x_1$" in page and "bob&lt;i&gt;@vo" in page
    assert len(page) < 2_000_000


@pytest.mark.wide
def test_the_same_runs_give_the_same_page(tmp_path: Path) -> None:
    assert made(tmp_path, SCENARIO)[0] == made(tmp_path, SCENARIO, "again.html")[0]


@pytest.mark.wide
def test_a_scenario_that_compares_nothing_has_a_page_and_the_report_it_would_have_without(tmp_path: Path) -> None:
    page, with_page = made(tmp_path, SCENARIO)
    checked(page)
    assert "Differences" not in page and ">One run: as written<" in page and "Who ran where and when" in page
    out = io.StringIO()
    assert run(tmp_path / "x.toml", out=out, workers=1, as_json=True) == 0
    assert out.getvalue() == with_page


@pytest.mark.wide
def test_several_seeds_of_it_are_reported_as_without_a_page(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(SCENARIO.replace('["groups", "digest"]', '["groups", "faults"]'))
    said = []
    for html in (None, tmp_path / "y.html"):
        out = io.StringIO()
        assert run(path, seeds=3, html=html, out=out, workers=1) == 0
        said.append(out.getvalue())
    assert said[0] == said[1] and "seeds" in said[0]
    assert "3 (0 to 2)" in (tmp_path / "y.html").read_text()


# --- what is drawn ---------------------------------------------------------------------------------------


def drawn_from(submit: list[float], wait: list[float], took: list[float], wide: list[int], sites: int) -> JobTimes:
    at, waited, ran = (np.array(column, np.float64) for column in (submit, wait, took))
    place = np.arange(len(at), dtype=np.int32)
    return JobTimes(
        user=place % 3,
        home=np.zeros(len(at), np.int32),
        site=place % sites,
        processors=np.array(wide, np.int32),
        submit_s=at,
        start_s=at + waited,
        end_s=at + waited + ran,
        run_s=ran,
        users=("x", "y", "z"),
        sites=tuple(f"s{k}" for k in range(sites)),
        bytes_moved=0.0,
    )


jobs = st.lists(
    st.tuples(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0.1, 1e3), st.integers(1, 3)), min_size=1, max_size=60
)


@settings(deadline=None)
@given(jobs, st.integers(1, 40))
def test_courses_add_up_to_what_ran(rows: list[tuple[float, float, float, int]], sites: int) -> None:
    outcome = drawn_from(*(list(column) for column in zip(*rows, strict=True)), sites)  # type: ignore[call-arg]
    found = drawing_of(outcome, GridCapacity((200,) * sites, 1.0))
    assert found is not None and len(found.times_s) == len(found.waiting) == len(found.busy) == BUCKETS
    assert found.waiting[-1] == 0 and min(found.waiting) >= 0
    width_s = found.times_s[0]
    done_s = sum(found.busy) * width_s * 200 * sites
    assert done_s == pytest.approx(sum(took * wide for _, _, took, wide in rows), rel=1e-6)
    assert len(found.sites) + found.other_sites == sites and len(found.sites) <= 24
    if not found.other_sites:
        assert sum(site.jobs for site in found.sites) == len(rows)
        assert sum(map(sum, found.imports)) == sum(site.imported for site in found.sites)
        assert sum(map(sum, found.exports)) == sum(site.exported for site in found.sites)
    assert found.turnaround_s == sorted(found.turnaround_s)
    assert found.turnaround_s[-1] == pytest.approx(max(wait + took for _, wait, took, _ in rows))


@settings(deadline=None)
@given(jobs)
def test_no_two_bars_of_a_site_lie_on_each_other(rows: list[tuple[float, float, float, int]]) -> None:
    outcome = drawn_from(*(list(column) for column in zip(*rows, strict=True)), 2)  # type: ignore[call-arg]
    found = drawing_of(outcome, GridCapacity((9, 9), 1.0))
    assert found is not None and found.all_bars
    area_s = sum((bar.end_s - bar.start_s) * bar.lanes for bar in found.bars)
    assert area_s == pytest.approx(sum(took * wide for _, _, took, wide in rows))
    by_lane: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for bar in found.bars:
        for lane in range(bar.lane, bar.lane + bar.lanes):
            by_lane.setdefault((bar.site, lane), []).append((bar.start_s, bar.end_s))
    for spans in by_lane.values():
        spans.sort()
        assert all(one[1] <= other[0] + 1e-6 for one, other in pairwise(spans))


def test_a_large_run_is_drawn_with_bounded_means() -> None:
    many = 90_000
    rng = np.random.Generator(np.random.PCG64(1))
    columns = (rng.uniform(0, 1e5, many), rng.uniform(0, 100, many), rng.uniform(1, 100, many))
    found = drawing_of(drawn_from(*(c.tolist() for c in columns), [1] * many, 300), GridCapacity((9,) * 300, 1.0))  # type: ignore[call-arg]
    assert found is not None and len(found.bars) == MOST_BARS and not found.all_bars and found.other_sites == 276
    assert drawing_of(drawn_from([], [], [], [], 2), GridCapacity((1, 1), 1.0)) is None


def test_a_plot_takes_figures_that_are_missing_or_have_no_interval() -> None:
    rows = [[Interval(1.0, None, None), None], [None, Interval(2.0, 1.5, 2.5)]]
    for loads in ([0.5, 0.9], [0.5]):
        svg = charts.sweep("t", loads, [row[: len(loads)] for row in rows], ["a", "b"])
        assert svg.startswith("<svg") and "var(--s0)" in svg
