"""The judge of real sites finds what is wrong between journals and jobs, and nothing where all is well (PROMISES
section 4)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from diana.adapters.sqlite_store.store import SqliteStore
from diana.engine.journal import codec
from diana.engine.journal import effects as fx
from diana.engine.journal.events import Run
from diana.ports import Batch
from tests.engine.bench import Grid, Site
from tests.engine.builders import spec
from tests.real.judging import History, Judge, Told, keep_all
from tests.real.marks import Marks

JOBS = 6
_BEGIN_S = 1000.0


class Life:
    """A group of two sites, from its submission to its end, in the stores of both; `runs` are what really ran."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, lost: str = "") -> None:
        """`lost`: the kind of record that does not reach its store."""
        self._folder, self._lost, self._clock = folder, lost, count()
        self._stores = {}
        for site in ("alpha", "beta"):
            (folder / site).mkdir()
            keep_all(folder / site / "journal.db")
            self._stores[site] = SqliteStore(folder / site / "journal.db")
        monkeypatch.setattr(Site, "keep", lambda site, effects: self._keep(site, effects))
        grid = Grid(alpha=1, beta=2)
        grid["alpha"].submit(spec(JOBS), JOBS, key="k")
        while grid["alpha"].end() + grid["beta"].end():
            grid.pass_time(2.0)
        self.runs = [(site.name, run) for site in grid.sites.values() for run in site.started]
        assert {site for site, _ in self.runs} == {"alpha", "beta"} and len(self.runs) == JOBS
        for store in self._stores.values():
            store.close()

    def _keep(self, site: Site, effects: list[fx.Effect]) -> None:
        """One transaction, at a site time of its own; sometimes a snapshot, which drops what is before it."""
        told = [effect.record for effect in effects if isinstance(effect, fx.Persist)]
        facts = tuple((effect.key, effect.facts) for effect in effects if isinstance(effect, fx.KeepFacts))
        site.stored += map(codec.encode, told)
        site.facts |= dict(facts)
        kept = tuple(codec.encode(record) for record in told if type(record).__name__ != self._lost)
        if kept or facts:
            number = next(self._clock)
            store = self._stores[site.name]
            seq = store.commit(Batch(at_s=_BEGIN_S + number, records=kept, facts=facts))
            if number % 5 == 4 and not self._lost:
                store.snapshot(site.engine.snapshot(), seq)

    def marked(self, told: Callable[[str, Run], list[str]]) -> Marks:
        """`told`: the marks of a run of a site."""
        marks = Marks(self._folder / "marks")
        marks.path.write_text("".join(f"{line}\n" for site, run in self.runs for line in told(site, run)))
        marks.read()
        return marks

    def histories(self) -> list[History]:
        return [History(self._folder / site / "journal.db", site) for site in ("alpha", "beta")]

    def judged(self, told: Callable[[str, Run], list[str]]) -> Judge:
        judge = Judge(self.marked(told), [])
        judge.feed(self.histories())
        judge.conclude(self.histories(), [Told("alpha", "- k", "alpha-1")])
        return judge


def marks_of(site: str, run: Run, *, began: int = 1, code: int = 0) -> list[str]:
    name = f"1-2:{run.subgroup}:{run.epoch}:{run.index}:{run.attempt}"
    return [*[f"b {name} {site} {_BEGIN_S + 999} 77"] * began, f"e {name} {site} {_BEGIN_S + 999} {code}"]


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    return Life(tmp_path, monkeypatch)


def test_where_all_is_well_nothing_is_found_though_snapshots_dropped_the_records(life: Life) -> None:
    judge = life.judged(marks_of)
    assert (judge.found(), judge.doubled()) == ([], 0)


def test_a_job_that_began_twice_is_found(life: Life) -> None:
    judge = life.judged(lambda site, run: marks_of(site, run, began=2 if run.index == 3 else 1))
    assert judge.doubled() == 1 and [text for text in judge.found() if "index=3" in text and "began 2 times" in text]


def test_a_start_that_was_never_durable_is_found(life: Life) -> None:
    site, run = life.runs[0]
    life.runs.append((site, Run(run.subgroup, run.epoch, run.index, run.attempt + 1)))
    assert [text for text in life.judged(marks_of).found() if "never made durable" in text]


def test_a_failure_that_is_told_as_done_is_found(life: Life) -> None:
    judge = life.judged(lambda site, run: marks_of(site, run, code=int(run.index == 2)))
    assert [text for text in judge.found() if "its own codes are [1]" in text]


@pytest.mark.parametrize(
    ("kind", "rule", "said"),
    [
        ("TransferCommitted", "I4", "has not committed it here"),
        ("RunsStarted", "I2", "accepted as done, but it ended nowhere"),
        ("ResultAccepted", "I3", "its origin does not have it"),
    ],
)
def test_a_record_that_did_not_become_durable_is_found(
    kind: str, rule: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path, monkeypatch, kind)
    judge = Judge(life.marked(marks_of), [])
    judge.feed(life.histories())
    assert [one for one in judge.checkers.found if one.rule == rule and said in one.text], judge.found()
