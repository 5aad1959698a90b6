"""Sites from a CSV file: columns by name, the largest first, those that were measured; and the line a mistake gives."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from diana.errors import UsageError
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate

TABLE = """host,jobs,cpus,fast,city
rl.ac.uk,90,5,1.5,London
CERN-lx13.ch,900,40,1,Geneva
small.org,90,1,2,Bern
far.org,7,3,1,Tokyo
"""
TIMES = "src_city,dst_city,rtt_avg\nLondon,Geneva,20\nGeneva,London,22\nBern,Geneva,4\nBern,London,24\n"
TEXT = """version = 1
sites_from = { file = "sites.csv", name = "host", slots = "cpus" }
[[workload]]
name = "w"
site = "rl-ac-uk"
jobs = 9
"""


def folder(path: Path, table: str = TABLE) -> Path:
    (path / "sites.csv").write_text(table)
    (path / "rtt.csv").write_text(TIMES)
    return path


def parsed(path: Path, keys: str = "", top: str = "") -> Scenario:
    text = TEXT.replace('"cpus" }', f'"cpus"{", " + keys if keys else ""} }}\n{top}')
    return sc.parse(text, "x.toml", path)


def names(scenario: Scenario) -> list[str]:
    return [site.name for site in scenario.sites]


def test_each_line_is_a_site_with_the_columns_that_were_named(tmp_path: Path) -> None:
    made = parsed(folder(tmp_path), 'speed = "fast", place = "city"')
    assert [(s.name, s.slots, s.speed, s.place) for s in made.sites] == [
        ("rl-ac-uk", 5, 1.5, "London"),
        ("cern-lx13-ch", 40, 1.0, "Geneva"),
        ("small-org", 1, 2.0, "Bern"),
        ("far-org", 3, 1.0, "Tokyo"),
    ]
    assert sc.parse(written(made)) == made
    assert simulate(made, 0).groups["w"].done == 9


def test_the_largest_come_first_and_of_equal_ones_the_one_above(tmp_path: Path) -> None:
    folder(tmp_path)
    assert names(parsed(tmp_path, 'by = "jobs", top = 3')) == ["cern-lx13-ch", "rl-ac-uk", "small-org"]
    assert names(parsed(tmp_path, 'top = 3, by = "cpus"')) == ["cern-lx13-ch", "rl-ac-uk", "far-org"]


def test_sites_of_the_file_come_after_those_of_the_scenario(tmp_path: Path) -> None:
    assert names(parsed(folder(tmp_path), "top = 1", 'sites = [{ name = "own" }]')) == ["own", "rl-ac-uk"]


def test_only_measured_sites_are_taken_where_asked_for(tmp_path: Path) -> None:
    folder(tmp_path)
    made = parsed(tmp_path, 'place = "city", measured = true', 'rtt_from = "rtt.csv"')
    assert names(made) == ["rl-ac-uk", "cern-lx13-ch", "small-org"]
    assert [link.latency_s for link in made.links] == pytest.approx([0.0105, 0.012, 0.002])


def test_pairs_nobody_measured_are_refused_or_like_the_default_link(tmp_path: Path) -> None:
    folder(tmp_path)
    with pytest.raises(UsageError, match=r"sites far-org: place: no line of rtt\.csv has 'Tokyo'"):
        parsed(tmp_path, 'place = "city"', 'rtt_from = "rtt.csv"')
    made = parsed(tmp_path, 'place = "city"', 'rtt_from = "rtt.csv"\nrtt_missing = "default"')
    assert len(made.sites) == 4 and len(made.links) == 3
    assert not any("far-org" in link.between for link in made.links)


def test_a_table_may_be_packed_and_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "sites.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + TABLE.encode()))
    text = TEXT.replace("sites.csv", "sites.csv.gz")
    assert len(sc.parse(text, "x.toml", tmp_path).sites) == 4


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ('"cpus"', '"cpu"', "sites.csv: line 1: column for slots: 'cpu' is not known; did you mean 'cpus'?"),
        ('"sites.csv"', '"none.csv"', "sites_from: none.csv: no such file or directory; give the path of a CSV file"),
        (", slots", ", slot", "unknown key 'slot' in sites_from; did you mean 'slots'?"),
        (
            '"cpus"',
            '"city"',
            "sites.csv: line 2: city: 'London': want a whole number, 0 to 1e+09; mend or drop the line",
        ),
        ('"cpus"', '"cpus", top = -1', "sites_from: top = -1: want 0 to 1e+06"),
        (
            '"cpus"',
            '"cpus", measured = true',
            "measured = true picks what rtt_from knows; give rtt_from, or leave it out",
        ),
        ('"host"', '"jobs"', "sites.csv: line 2: jobs: '90' makes no site name; begin it with a letter"),
    ],
)
def test_a_mistake_is_one_line_with_file_line_and_mend(tmp_path: Path, was: str, now: str, says: str) -> None:
    folder(tmp_path)
    with pytest.raises(UsageError) as refused:
        sc.parse(TEXT.replace(was, now, 1), "x.toml", tmp_path)
    assert says in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (TABLE + "more,1\n", "line 6: 2 fields where the header has 5; mend the line"),
        (TABLE.replace("far.org", "rl-ac.uk"), "sites: 'rl-ac-uk' stands twice; names must differ"),
        (TABLE.splitlines()[0], "none of its lines makes a site"),
        ("", "line 1: column for name: 'host' is not known; known: none"),
    ],
)
def test_a_bad_table_is_named_with_its_line(tmp_path: Path, table: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(folder(tmp_path, table))
    assert says in str(refused.value) and "\n" not in str(refused.value)
