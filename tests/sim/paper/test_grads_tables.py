"""The searches and mappers of GrADS over drawn grids, from the product (SPEC G3, G4)."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from diana.errors import UsageError
from diana.sim.main import run
from diana.sim.scenario import scenario as sc

SWAP = Path("scenarios/grads-swap.toml")
SEARCH, MAPPER = Path("scenarios/grads-search.toml"), Path("scenarios/grads-mapper.toml")


@pytest.mark.wide
def test_searches_keep_what_the_papers_say_of_them_on_ten_seeds() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "diana.cli", "simulate", str(SEARCH), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = {each["program"]: each["seeds"] for each in json.loads(done.stdout)["searches"]}
    assert {name: len(rows) for name, rows in told.items()} == {"Jacobi": 10, "Life": 10, "FASTA": 10}
    for rows in told.values():
        assert all(0 < row["models"] <= row["bound"] == 3 * 8 * 2**3 for row in rows)
        assert len({row["oracle_s"] for row in rows}) == 10, "each seed draws a grid of its own"
    for name in ("Jacobi", "Life"):
        assert all(1 <= row["aware_s"] / row["oracle_s"] <= 1.1 for row in told[name])
    assert sum(row["annealed_s"] < row["aware_s"] for row in told["FASTA"]) > 5


def test_mappers_keep_what_the_papers_say_of_them_on_ten_seeds() -> None:
    out = io.StringIO()
    assert run(MAPPER, as_json=True, out=out) == 0
    told = {each["program"]: each["seeds"] for each in json.loads(out.getvalue())["mappers"]}
    assert set(told) == {"Jacobi", "Life", "FASTA"}
    assert all(row["whole"] and row["in_memory"] for rows in told.values() for row in rows)
    assert all(row["mapped_s"] < row["equal_s"] for row in told["Jacobi"] if row["equal_s"] is not None)
    assert any(row["equal_s"] is None for row in told["Life"]), "equal shares do not fit somewhere"


@pytest.mark.wide
def test_a_spare_for_a_slow_machine_ends_a_run_sooner_than_a_restart_and_that_sooner_than_to_stay() -> None:
    out = io.StringIO()
    assert run(SWAP, as_json=True, out=out) == 0
    (told,) = json.loads(out.getvalue())["swaps"]
    assert len(told["seeds"]) == 10 and len({row["stay_s"] for row in told["seeds"]}) == 10
    for row in told["seeds"]:
        assert row["swap_s"] < row["restart_s"] < row["stay_s"] and row["rebalance_s"] < row["stay_s"]


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ("swap_s = 30.0", "want swap before restart before stay"),
        ("slow = 1.1", "want swap before restart before stay"),
        ("spares = 8", "grads.swaps: Fish: want a model, and a machine beside its spares"),
    ],
    ids=["a dear exchange", "a load within the contract", "no machine is left"],
)
def test_an_expectation_of_a_swap_that_fails_is_told(
    more: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "swap.toml"
    file.write_text(SWAP.read_text(encoding="utf-8") + more + "\n", encoding="utf-8")
    try:
        assert run(file, seeds=2, out=io.StringIO()) == 1
        told = capsys.readouterr().err
    except UsageError as error:
        told = str(error)
    assert wrong in told


def test_the_same_seed_gives_the_same_rows() -> None:
    first, again = io.StringIO(), io.StringIO()
    assert (run(MAPPER, seeds=3, as_json=True, out=first), run(MAPPER, seeds=3, as_json=True, out=again)) == (1, 1)
    assert first.getvalue() == again.getvalue(), "better_on asks for more seeds than there are: exit code 1"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("within = 1.1\n", "within = 0.99\n", "Jacobi, seed 0: aware: "),
        ("annealed_within = 1.1\nannealing", "annealing", ""),
        ('program = "FASTA"', 'program = "Life"', "Life: annealing is better on 0 of 2 seeds, no majority"),
    ],
)
def test_an_expectation_that_does_not_hold_is_told_and_ends_with_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, told: str
) -> None:
    (wrong := tmp_path / "wrong.toml").write_text(
        SEARCH.read_text().replace(old, new).replace("machines = 8", "machines = 6")
    )
    code = run(wrong, seeds=2, out=io.StringIO())
    lines = capsys.readouterr().err.splitlines()
    assert (code == 1) == bool(lines)
    assert any(line.startswith(told) for line in lines) or not told


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("machines = 8", "machines = 13", "grads.machines = 13: want 1 to 12"),
        ("sites = 3", "sites = 9", "grads.sites = 9: want 1 to 8"),
        ("seeds = 10", "seeds = 10\nspeed = [2.0, 1.0]", "grads.speed = [2.0, 1.0]: want the least first"),
        ('program = "FASTA"', 'program = "LU"', "program 'LU': want one of ['Jacobi', 'Life', 'FASTA']"),
        ('name = "Life"', 'name = "Jacobi"', "'Jacobi' is the name of two"),
        ("component.items", "component.item", "'component.item' is no name here"),
        ("holders = 2", "holders = 9", "FASTA: 9 holders of 8"),
        ("[grads]", "[[sites]]\nname = 'a'\n[grads]", "runs no grid; leave out sites"),
        ("within = 1.1", "withn = 1.1", "withn"),
    ],
)
def test_a_mistake_is_told_in_one_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    (wrong := tmp_path / "wrong.toml").write_text(SEARCH.read_text().replace(old, new))
    with pytest.raises(UsageError) as caught:
        sc.load(wrong)
    assert told in str(caught.value) and "\n" not in str(caught.value)
