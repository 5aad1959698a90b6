"""The comparison with other tools: no loss is left out, no absence is silent, and the page says what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import bench_peers
from benchmarks.bench_peers import row
from benchmarks.peers import installs, table
from benchmarks.peers.cells import CELLS
from benchmarks.peers.installs import NAMES, Peer

ROOT = Path(__file__).parents[2]
RATE, TIME = CELLS[0], next(cell for cell in CELLS if cell.name == "time to the first start")
XARGS = Peer("xargs", version="4.9")


def found(*rows: dict[str, object], absent: tuple[dict[str, str], ...] = ()) -> table.Found:
    return {"machine": "2 processors", "command": "c", "taken": "3 rounds", "rows": rows, "absent": absent}


def test_the_ratio_of_a_rate_and_of_a_time_is_above_one_where_diana_is_better() -> None:
    assert row(RATE, XARGS, 10, [200.0], [100.0])["ratio"] == 2.0
    assert row(TIME, XARGS, 1, [200.0], [100.0])["ratio"] == 0.5


def test_the_ratio_is_that_of_each_round_s_pair_and_not_of_the_medians() -> None:
    """A load that halves both of one round changes nothing."""
    made = row(RATE, XARGS, 10, [200.0, 100.0, 20.0], [100.0, 50.0, 10.0])
    assert (made["ratio"], made["ratio_range"]) == (2.0, [2.0, 2.0])
    assert (made["ours"], made["ours_range"]) == (100.0, [20.0, 200.0])


def test_a_row_that_diana_loses_stands_in_the_table() -> None:
    told = table.table(found(row(TIME, XARGS, 1, [200.0], [100.0])))
    assert "| time to the first start, 1 | xargs 4.9 | 200 ms | 100 ms | 0.50 x | 0.50 to 0.50 |" in told.splitlines()


def test_a_peer_that_cannot_be_had_or_fails_is_named_with_the_reason() -> None:
    lost = row(RATE, Peer("ray"), 10, [], [], "ray: no room")
    told = table.table(found(lost, absent=({"peer": "hyperqueue", "why": "no such package"},)))
    assert "- Not here: hyperqueue (no such package)." in told
    assert '- Failed: ray at "no-op processes" (ray: no room).' in told


def test_the_table_goes_between_the_marks_and_leaves_the_page_as_it_is() -> None:
    page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    now = table.written(page, found(row(RATE, XARGS, 10, [2.0], [1.0])))
    assert now.startswith("before\n") and now.endswith("\nafter\n") and "old" not in now and "2.00 x" in now
    with pytest.raises(ValueError, match="the page has no line"):
        table.written("a page without marks", found())


def test_a_peer_measured_later_takes_the_place_of_its_old_rows_alone() -> None:
    ray = Peer("ray")
    old = found(
        row(RATE, XARGS, 10, [2.0], [1.0]), row(RATE, ray, 10, [], [], "no room"), row(TIME, XARGS, 1, [2.0], [1.0])
    )
    now = bench_peers.added(old, found(row(RATE, ray, 10, [6.0], [2.0])))
    assert [(one["cell"], one["peer"], one.get("ratio")) for one in now["rows"]] == [
        ("no-op processes", "xargs", 2.0),
        ("no-op processes", "ray", 3.0),
        ("time to the first start", "xargs", 0.5),
    ]


def test_every_peer_has_work_in_some_cell_and_every_cell_s_peers_are_known() -> None:
    assert {name for cell in CELLS for name in cell.theirs} == set(NAMES)


def test_a_peer_of_python_that_is_not_installed_is_absent_without_an_installation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(installs, "PLACE", tmp_path)
    assert installs.peer("ray", install=False).absent
    assert not list(tmp_path.iterdir())


def test_the_page_shows_the_figures_that_were_measured_last() -> None:
    measured = json.loads((ROOT / "benchmarks" / "peers" / "measured.json").read_text())
    page = (ROOT / "docs" / "peers.md").read_text()
    assert table.written(page, measured) == page
    assert bench_peers.__doc__ and len(measured["rows"]) > len(NAMES) / 2
