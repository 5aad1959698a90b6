"""Each parallel program of `examples/grads` against a serial result (SPEC G8): one process, several, and several that
go on as fewer from what they saved."""

from __future__ import annotations

import shutil
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tests.real.grads_programs import PROGRAMS, run

sys.path.insert(0, str(PROGRAMS))
cactus, fasta, fish, lu = map(import_module, ("cactus", "fasta", "fish", "lu"))

PARALLEL = {
    "fasta.py": ["fasta.py", "3", "40"],
    "lu.py": ["lu.py", "96", "--block", "8"],
    "cactus.py": ["cactus.py", "16", "14"],
    "fish.py": ["fish.py", "60", "14"],
}


@pytest.mark.parametrize("program", PARALLEL)
def test_a_program_gives_the_serial_answer_on_three_processes_of_unlike_shares(program: str, tmp_path: Path) -> None:
    alone = run(tmp_path / "alone", PARALLEL[program])
    assert alone.codes == [0] and alone.answer
    several = run(tmp_path / "several", PARALLEL[program], 3)
    assert several == ([0, 0, 0], alone.lines, alone.answer)


def test_a_division_by_the_mapper_is_kept_and_changes_no_answer(tmp_path: Path) -> None:
    alone, divided = (
        run(tmp_path / "a", PARALLEL["fish.py"]),
        run(tmp_path / "b", PARALLEL["fish.py"], 3, items="7,0,53"),
    )
    assert divided.answer == alone.answer and divided.codes == [0, 0, 0]


def test_particles_are_divided_anew_in_place_where_others_use_a_machine(tmp_path: Path) -> None:
    """The second process is stopped for nine of ten moments while it runs: it gets fewer particles, and the answer is
    that of a serial run."""
    alone = run(tmp_path / "alone", ["fish.py", "60", "60"])
    shared = run(tmp_path / "shared", ["fish.py", "60", "60", "--balance", "3"], 2, slowed=1)
    assert shared == ([0, 0], alone.lines, alone.answer)
    first, second = (shares_of(tmp_path / "shared" / str(rank) / "out") for rank in range(2))
    assert all(one + other == 60 for one, other in zip(first, second, strict=True)) and len(first) == 19
    assert min(second) < 20, second


def test_processes_are_exchanged_for_spares_with_the_serial_answer_whomever_the_word_reaches(tmp_path: Path) -> None:
    """Words reach one process each, the second of them an older one again, and one is nonsense."""
    alone = run(tmp_path / "alone", ["fish.py", "60", "60"])
    words = [
        (3, 2, "1 0,3,2\n"),
        (12, 0, "1 0,3,2\n"),
        (20, 1, "2 1,3,2\n"),
        (28, 3, "9 1,1,7\n"),
        (36, 0, "3 1,3,0\n"),
    ]
    several = run(tmp_path / "four", ["fish.py", "60", "60", "--pause", "0.03"], 4, spares=1, rosters=words)
    assert several == ([0, 0, 0, 0], alone.lines, alone.answer)
    took = [
        [line for line in (tmp_path / "four" / str(rank) / "out").read_text().splitlines() if line.startswith("roster")]
        for rank in range(4)
    ]
    assert took == [
        ["roster 1 place 0", "roster 2 place -1", "roster 3 place 2"],
        ["roster 1 place -1", "roster 2 place 0", "roster 3 place 0"],
        ["roster 1 place 2", "roster 2 place 2", "roster 3 place -1"],
        ["roster 1 place 1", "roster 2 place 1", "roster 3 place 1"],
    ], "each place is one process's at each step"
    told = (tmp_path / "four" / "3" / "told").read_text().split()
    assert told[0] == "60/60" and float(told[1]) > 0 and told[2] == "3"


def shares_of(out: Path) -> list[int]:
    return [int(line.split()[1]) for line in out.read_text().splitlines() if line.startswith("share")]


@pytest.mark.parametrize("program", PARALLEL)
def test_stopped_as_four_processes_it_goes_on_as_three_with_the_same_chain(program: str, tmp_path: Path) -> None:
    words = [*PARALLEL[program], "--pause", "0.05"]
    alone = run(tmp_path / "alone", PARALLEL[program])
    stopped = run(tmp_path / "four", words, 4, stop_after=3)
    assert stopped.codes == [85] * 4 and not stopped.answer, "all of them stop at one step"
    for rank in range(3):
        (tmp_path / "three" / str(rank)).mkdir(parents=True)
    shutil.copy(tmp_path / "four" / "0" / "state.npz", tmp_path / "three" / "0")
    went_on = run(tmp_path / "three", words, 3, goes_on=True)
    assert went_on.codes == [0, 0, 0] and went_on.answer == alone.answer
    assert stopped.lines + went_on.lines == alone.lines, "no step is done twice, and none is left out"
    assert len(went_on.lines) < len(alone.lines)


def test_an_alignment_scores_as_cell_by_cell() -> None:
    chance = np.random.default_rng(7)
    for _ in range(20):
        one, other = (chance.integers(0, 4, int(chance.integers(1, 25))) for _ in range(2))
        cells = np.zeros((len(one) + 1, len(other) + 1), dtype=int)
        for i in range(1, len(one) + 1):
            for j in range(1, len(other) + 1):
                same = fasta.MATCH if one[i - 1] == other[j - 1] else fasta.MISMATCH
                beside = max(cells[i - 1, j], cells[i, j - 1]) + fasta.GAP
                cells[i, j] = max(0, cells[i - 1, j - 1] + same, beside)
        assert fasta.aligned(one, other) == cells.max()


def test_the_sequences_with_a_piece_of_the_query_are_found_first() -> None:
    rows = fasta.best_of(fasta.searched(range(60), 20, 120, 1), 8)
    assert len(rows) == 8 and all(number % 7 == 0 for _, _, number in rows.tolist())
    assert list(rows[:, 0]) == sorted(rows[:, 0], reverse=True)


def test_factors_by_blocks_are_those_of_one_block() -> None:
    matrix = lu.first_matrix(12, 3)
    whole, pivots = lu.factored(matrix, 0)
    lower, upper = np.tril(whole, -1) + np.eye(12), np.triu(whole)
    assert np.allclose(lower @ upper, lu.swapped(matrix, 0, pivots))
    assert np.abs(lower).max() <= 1 + 1e-12, "pivots are the largest of their column"
    first, some = lu.factored(matrix[:, :5], 0)
    rest = lu.updated(lu.swapped(matrix[:, 5:], 0, some), first, 0)
    second, others = lu.factored(rest, 5)
    assert np.allclose(np.triu(second[5:, :]), np.triu(whole[5:, 5:])) and others == pivots[5:]


def test_a_wave_moves_point_by_point_as_its_equation_says() -> None:
    n, chance = 7, np.random.default_rng(2)
    now, before = chance.random((n, n, n)), chance.random((n, n, n))
    pad = ((1, 1), (0, 0), (0, 0))
    got = cactus.stepped(np.pad(now, pad), np.pad(before, pad), 0, 0, n)
    wanted = np.zeros((n, n, n))
    for z in range(1, n - 1):
        for y in range(1, n - 1):
            for x in range(1, n - 1):
                near = now[z - 1, y, x] + now[z + 1, y, x] + now[z, y - 1, x] + now[z, y + 1, x]
                near += now[z, y, x - 1] + now[z, y, x + 1] - 6 * now[z, y, x]
                wanted[z, y, x] = 2 * now[z, y, x] - before[z, y, x] + cactus.COURANT**2 * near
    for plane, row, column, strength in cactus.sources(0, n):
        wanted[plane, row, column] += cactus.COURANT**2 * strength
    assert np.allclose(got, wanted)


def test_particles_push_each_other_apart_when_near_and_keep_their_momentum() -> None:
    places = np.array([[0.5, 0.5], [0.51, 0.5], [0.9, 0.9], [0.02, 0.999]])
    forces = np.array([fish.force(place, places) for place in places])
    assert forces[0, 0] < 0 < forces[1, 0] and np.allclose(forces.sum(axis=0), 0.0)
    apart = np.array([[0.5, 0.5], [0.53, 0.5]])
    assert fish.force(apart[0], apart)[0] > 0, "farther apart they attract each other"
    over = np.array([[0.001, 0.5], [0.991, 0.5]])
    assert fish.force(over[0], over)[0] > 0, "they meet over the edge"
