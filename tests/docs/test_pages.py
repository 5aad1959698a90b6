"""Things that pages name exist: tests, files of this repository, messages of the code, keys of the models."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from diana.jobfile.raw import RawFile, RawJob
from diana.sim.specs.scenario_spec import Scenario
from docs.web import check, keys, rpc
from tests.e2e.grid import REPO

DOCS = REPO / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *REPO.glob("*.md")])
SPAN = re.compile(r"`([^`\n]+)`")
OURS = re.compile(r"(?:benchmarks|diana|docs|examples|proto|scenarios|tests)/[\w./*-]+(?:::\w+)?")


@cache
def source() -> str:
    """All of the product's code, as one text."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((REPO / "diana").rglob("*.py")))


def named(page: Path) -> set[str]:
    """Paths of this repository in code spans; what a command makes is not among them."""
    return {found[0] for span in SPAN.findall(page.read_text(encoding="utf-8")) if (found := OURS.fullmatch(span))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_every_file_and_every_test_a_page_names_is_there(page: Path) -> None:
    missing = []
    for name in named(page):
        path, _, test = name.partition("::")
        found = list(REPO.glob(path.rstrip("/"))) or path.startswith("benchmarks/out")
        if not found or (test and f"def {test}(" not in (REPO / path).read_text(encoding="utf-8")):
            missing.append(name)
    assert not missing


def test_tests_named_in_short_after_a_file_are_there_too() -> None:
    text = (DOCS / "security.md").read_text(encoding="utf-8")
    for path, rest in re.findall(r"`(tests/[\w/.]+)::\w+`((?:, `::\w+`)+)", text):
        for test in re.findall(r"::(\w+)", rest):
            assert f"def {test}(" in (REPO / path).read_text(encoding="utf-8"), test


def test_every_promise_has_a_test() -> None:
    text = (DOCS / "promise.md").read_text(encoding="utf-8")
    promises = re.findall(r"^(\d+)\.  \*\*", text, re.MULTILINE)
    assert promises == [str(number) for number in range(1, len(promises) + 1)] and len(promises) >= 9
    assert len(re.findall(r"^    Shown by `tests/", text, re.MULTILINE)) == len(promises)


def test_every_symptom_of_an_incident_is_what_the_code_says() -> None:
    text = (DOCS / "incidents.md").read_text(encoding="utf-8")
    first = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    pieces = [piece.strip(" :;,") for cell in first for span in SPAN.findall(cell) for piece in span.split("...")]
    assert len(pieces) > 30
    assert not [piece for piece in pieces if piece not in source()]


@pytest.mark.parametrize("root", [RawJob, RawFile, Scenario])
def test_every_key_of_a_file_says_what_it_means(root: type) -> None:
    assert not keys.silent(root)


def test_the_page_of_the_job_file_has_types_defaults_and_meanings_of_the_model() -> None:
    page = keys.job_page()
    assert '| `on_crash` | `"hold"`, `"rerun"` | `"hold"` |' in page
    assert "| `division` | whole number 0 to 1000000 | `0` |" in page
    assert re.search(r"^\| `url` \| text \| must be given \| `dataset:NAME`", page, re.MULTILINE)
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        *("## [group]", "## [sweep]", "## [group.retries]", "## [resources]", "## [[inputs]]", "## [outputs]"),
        *("## [[components]]", "## [flexible]", "## [gang]", "## [package]", "## [package.mapper]"),
        *("## [checkpoint]", "## [contract]", "## [[group]]"),
    ]


def test_the_page_of_the_scenario_has_each_table_under_the_name_it_is_written_with() -> None:
    page = keys.scenario_page()
    titles = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert len(titles) == len(set(titles))
    assert {"Top level", "[[sites]]", "[[sites.machines]]", "[[workload]]", "[workload.generate]", "[faults]"} <= {
        *titles
    }
    for schema_key in Scenario.__struct_fields__:
        assert f"| `{schema_key}` |" in page


def test_the_page_of_the_service_has_every_call_with_what_it_is_for_and_links_that_lead_somewhere() -> None:
    page = rpc.page()
    calls = re.findall(r"^\| `Client\.(\w+)` \| .* \| .* \| (.*) \|$", page, re.MULTILINE)
    service = (REPO / "proto/diana/v1/client.proto").read_text(encoding="utf-8").partition("service Client {")[2]
    assert [name for name, _ in calls] == re.findall(r"^  rpc (\w+)\(", service, re.MULTILINE)
    assert not [name for name, said in calls if not said], "say in a comment above it what the call is for"
    titles = {title.lower() for title in re.findall(r"^### (\w+)$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(\w+)\)", page)) <= titles


def site(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(f"<html><body>{text}</body></html>")
    return folder


def test_a_site_in_order_has_no_faults(tmp_path: Path) -> None:
    there = site(tmp_path, a='<a href="b.html#x">b</a><a href="https://example.org/">away</a>', b='<p id="x">')
    assert check.faults(there) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('<a href="c.html">c</a>', "no such file"),
        ('<a href="b.html#y">b</a>', "no such anchor"),
        ('<a href="#y">y</a>', "no such anchor"),
        ('<a href="../../etc/passwd">x</a>', "leads out of the site"),
        ('<script src="https://cdn.example.org/x.js"></script>', "another host"),
        ('<link rel="stylesheet" href="//fonts.example.org/x.css">', "another host"),
        ('<p style="background: url(https://example.org/x.png)">', "another host"),
        ('<img src="x.png">', "no such file"),
    ],
)
def test_a_link_that_leads_nowhere_and_what_comes_from_elsewhere_are_faults(
    tmp_path: Path, text: str, wrong: str
) -> None:
    (found,) = check.faults(site(tmp_path, a=text, b='<p id="x">'))
    assert found.startswith("a.html: ") and found.endswith(wrong)


def test_a_style_that_fetches_a_font_from_elsewhere_is_a_fault(tmp_path: Path) -> None:
    (site(tmp_path, a="") / "x.css").write_text('@import "https://fonts.example.org/x.css";')
    assert check.faults(tmp_path) == ["x.css: https://fonts.example.org/x.css: fetched from another host"]
