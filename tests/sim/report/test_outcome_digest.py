"""The digest over what came of a run: names are not in it, what happens is. And the stored digests of the scenarios."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from benchmarks import outcome_digests as od
from diana.engine.journal import records as r
from diana.engine.journal.events import Run
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId, subgroup_id
from diana.model.indexset import IndexSet
from diana.model.job.spec import Resources
from diana.sim.kernel.clock import Clock
from diana.sim.main import run
from diana.sim.report.outcome_digest import ENDS, OutcomeDigest
from diana.sim.report.value_sizes import value_bytes
from diana.sim.twins.lrm import Watcher

ROOT = Path(__file__).parents[3]
STORED = Path(__file__).parents[1] / "fixtures" / "outcomes.json"


def test_the_outcomes_of_small_scenarios_are_the_stored_ones() -> None:
    """A change of behaviour blesses them anew, and its commit says why:

        python -m benchmarks.outcome_digests --bounded --out tests/sim/fixtures/outcomes.json

    A move or a new name of code does not: then a difference is a mistake. `--rows` prints each row of the run that is
    named, before and after. The simulator's chance is Python's and numpy's; other versions of them may draw other runs.
    """
    assert od.difference(dict(od.outcomes(od.bounded())), od.read(STORED)) == ""


# --- names and values ------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "r"


class Farbe(Enum):
    ROT = "r"


class Inner(msgspec.Struct, frozen=True):
    site: str
    size_bytes: int


class Message(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    share: float
    parts: tuple[Inner, ...]
    by_site: dict[str, Inner]
    colour: Colour
    seen: frozenset[str] = frozenset()


class Innen(msgspec.Struct, frozen=True):
    ort: str
    groesse: int


class EineVielLaengereNachricht(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    nummer: int
    anteil: float
    teile: tuple[Innen, ...]
    je_ort: dict[str, Innen]
    farbe: Farbe
    gesehen: frozenset[str] = frozenset()


def message(site: str = "alpha") -> Message:
    inner = Inner(site, 7)
    return Message(number=300, share=0.5, parts=(inner, inner), by_site={"x": inner}, colour=Colour.RED)


def nachricht() -> EineVielLaengereNachricht:
    innen = Innen("alpha", 7)
    return EineVielLaengereNachricht(
        nummer=300, anteil=0.5, teile=(innen, innen), je_ort={"x": innen}, farbe=Farbe.ROT, gesehen=frozenset()
    )


def test_two_messages_alike_but_for_names_weigh_the_same() -> None:
    assert value_bytes(message()) == value_bytes(nachricht())
    assert value_bytes(message("alphabet")) == value_bytes(message()) + 9
    assert len(msgspec.msgpack.encode(message())) < len(msgspec.msgpack.encode(nachricht()))


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        value_bytes((1, object()))


def test_every_outcome_has_a_word_by_its_number() -> None:
    assert set(ENDS) == {int(one) for one in Outcome}
    assert issubclass(Outcome, IntEnum)


# --- what changes it -------------------------------------------------------------------------------------

GROUP = GroupId("alpha-1")
PLAIN: dict[str, Any] = {
    "at_s": 1.0, "site": "alpha", "index": 3, "attempt": 1, "outcome": Outcome.DONE, "message": message(), "to": "beta",
    "moved": IndexSet.span(0, 9),
}  # fmt: skip


def digest_of(**changed: Any) -> str:
    """The digest of a run of four rows."""
    its = PLAIN | changed
    clock = Clock()
    seen = OutcomeDigest(clock, Watcher())
    run_ = Run(subgroup_id(GROUP, 0), 1, its["index"], its["attempt"])
    site = SiteId(its["site"])

    def happen() -> None:
        seen.executed(site, run_, "rerun")
        seen.ended(site, "main", run_, Resources(), its["outcome"])
        seen.committed(
            site, r.RunsEnded(subgroup=run_.subgroup, epoch=1, batch=0, ended=IndexSet(), revoked=its["moved"])
        )
        seen.sent(site, its["to"], its["message"])

    clock.at(its["at_s"], happen)
    clock.step()
    found = seen.result(0)
    assert (found.starts, found.ends, found.moves, found.messages) == (1, 1, 1, 1)
    return found.digest


def test_a_renamed_class_of_messages_leaves_the_digest_as_it_is() -> None:
    assert digest_of(message=nachricht()) == digest_of()


@pytest.mark.parametrize(
    "changed",
    [
        {"at_s": 1.000000002},
        {"site": "gamma"},
        {"index": 4},
        {"attempt": 2},
        {"outcome": Outcome.FAILED},
        {"moved": IndexSet.span(0, 8)},
        {"to": "gamma"},
        {"message": message("alphabet")},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_the_digest_changes_with(changed: dict[str, Any]) -> None:
    assert digest_of(**changed) != digest_of()


def test_less_than_a_nanosecond_does_not_change_it() -> None:
    assert digest_of(at_s=1.0 + 1e-12) == digest_of()


# --- the report ------------------------------------------------------------------------------------------


def reported(path: Path, seeds: int, workers: int, *keys: str) -> dict[str, Any]:
    out = io.StringIO()
    assert run(path, seeds=seeds, as_json=True, out=out, workers=workers, keys=keys) == 0
    return json.loads(out.getvalue())["outcome"]  # type: ignore[no-any-return]


def test_a_report_over_seeds_has_a_digest_for_each_and_one_over_all() -> None:
    two_sites = ROOT / "scenarios" / "two-sites.toml"
    found = reported(two_sites, 2, 2, "outcome")
    assert found == reported(two_sites, 2, 1, "outcome")
    assert [row["seed"] for row in found["runs"]] == [0, 1]
    alone = reported(two_sites, 1, 1, "outcome")
    assert alone["digest"] == found["runs"][0]["digest"] != found["digest"]


COMPARED = """version = 1
sites = [{name = "a", slots = 2}, {name = "b", slots = 2, speed = 2.0}]
policies = [{name = "diana"}, {name = "least queue", settings = {placement = "least-queue"}},
            {name = "bound", central = "min-min"}]
compare = {loads = [0.5, 1.0], seeds = 2}
workload = [{name = "w", site = "a", jobs = 4, work_s = 5.0, submit_s = 2.0, repeat = 3, every_s = 4.0}]
"""


@pytest.mark.wide
def test_a_comparison_has_a_digest_for_each_load_seed_and_policy(tmp_path: Path) -> None:
    path = tmp_path / "compared.toml"
    path.write_text(COMPARED)
    found = reported(path, 0, 1, "compare", "outcome")
    rows = [(row["load"], row["seed"], row["policy"]) for row in found["runs"]]
    assert rows == [
        (load, seed, p) for load in (0.5, 1.0) for seed in (0, 1) for p in ("diana", "least queue", "bound")
    ]
    assert all(row["starts"] == 12 for row in found["runs"])
    # Nothing of this work is drawn: a central policy does the same under every seed, and other things under each load.
    bound = {row["load"]: row["digest"] for row in found["runs"] if row["policy"] == "bound"}
    assert len(set(bound.values())) == 2


def test_the_table_for_people_has_a_line_per_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ROOT / "scenarios" / "two-sites.toml", seeds=2, workers=1, keys=("outcome",)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[0].startswith("outcome ") and "seed 1" in lines[2] and "messages=" in lines[2]


# --- the command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: replace(row, digest="0" * 64, starts=row.starts + 1), "seed 0: .* starts 9 -> 10"),
        (lambda row: replace(row, digest="0" * 64), "seed 0: .* all counts equal"),
        (lambda row: replace(row, seed=5), "seed 5: not in the file"),
    ],
)
def test_the_first_difference_is_named(change: Callable[[Any], Any], said: str) -> None:
    kept = od.read(STORED)
    found = {"figure-6": replace(kept["figure-6"], runs=[change(kept["figure-6"].runs[0])])}
    assert re.search(f"figure-6, {said}", od.difference(found, kept))


def test_the_command_writes_compares_and_prints_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kept.json"
    assert od.main(["figure-6", "--workers", "1", "--out", str(path), "--against", str(STORED)]) == 0
    said = capsys.readouterr().out
    assert "figure-6 " in said and "no difference" in said
    assert path.read_bytes() == od.written({"figure-6": od.read(STORED)["figure-6"]})
    path.write_text(path.read_text().replace('"starts":9', '"starts":8').replace('"digest":"', '"digest":"0'))
    assert od.main(["figure-6", "--workers", "1", "--against", str(path)]) == 1
    assert "first difference: figure-6, seed 0" in capsys.readouterr().out
    assert od.main(["--rows", "figure-6"]) == 0
    assert any(line.split()[1] == "start" for line in capsys.readouterr().out.splitlines())
