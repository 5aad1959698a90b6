"""Witnesses that a journal is an older copy: peers that forgot and were told again, and the site's own spawners."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import codec, records
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.site.journal_doubt import JournalDoubt
from tests.engine.handing import PART, committed, view
from tests.engine.recovery.test_recovery import put_back


@pytest.mark.parametrize("how", ["it started anew", "the stream ended first"])
def test_a_peer_that_forgot_is_told_again_how_long_a_journal_is_or_had_written_it_down(how: str) -> None:
    grid = committed(jobs=20)
    alpha, beta = grid["alpha"], grid["beta"]
    before = list(beta.stored)
    beta.end(1)
    grid.pass_time(5.0)
    if how == "the stream ended first":
        grid.part("beta")
        alpha.boot()
        alpha.lrm_ready()
    else:
        alpha.restart()
        grid.settle()
    put_back(beta, before, newest=False)
    grid.heal("beta")
    assert "older database" in view(grid).note


def test_what_a_spawner_runs_and_the_journal_does_not_know_of_shows_an_older_copy() -> None:
    """Nothing of it is written down or forgotten, so that a crash before the new name leaves the evidence."""
    grid = committed(jobs=20)
    beta = grid["beta"]
    copy = [s for s in beta.stored if not isinstance(codec.decode(s), records.RunsStarted)]
    grid.cut.add("beta")
    beta.stored = list(copy)
    beta.boot()
    session, known = beta.session, tuple(beta.running)
    beta.trace.clear()
    name = beta.db_uuid
    effects = beta.engine.handle(ev.LrmReady(session=session + 1, slots=4, known=known), grid.now)
    assert [type(e) for e in effects if isinstance(e, fx.StartAnew | fx.ForgetRuns | fx.KillRuns)] == [fx.StartAnew]
    assert not [e for e in effects if isinstance(e, fx.Persist) and isinstance(e.record, records.RunsStarted)]
    beta.run(effects)
    assert beta.db_uuid != name
    beta.lrm_ready()
    custody = beta.engine.core.state.custodies[(PART, 1)]
    assert custody.on_hold and custody.running.keys() == {run.index for run in known}


def test_a_run_is_adopted_however_many_attempts_were_made_since_the_copy() -> None:
    grid = committed(jobs=2)
    beta = grid["beta"]
    beta.stored = [s for s in beta.stored if not isinstance(codec.decode(s), records.RunsStarted)]
    beta.running = {
        msgspec.structs.replace(run, attempt=1 + 2 * run.index): start for run, start in beta.running.items()
    }
    beta.db_uuid = "db-beta-2"
    beta.boot(restored=True)
    beta.lrm_ready()
    custody = beta.engine.core.state.custodies[(PART, 1)]
    assert custody.running == {0: 1, 1: 3}


def test_a_run_is_adopted_though_the_copy_takes_an_earlier_attempt_to_run() -> None:
    grid = committed(jobs=2)
    beta = grid["beta"]
    beta.running = {msgspec.structs.replace(run, attempt=2): start for run, start in beta.running.items()}
    beta.db_uuid = "db-beta-2"
    beta.boot(restored=True)
    beta.lrm_ready()
    assert beta.engine.core.state.custodies[(PART, 1)].running == {0: 2, 1: 2}


def test_a_machine_that_leads_a_pair_adopts_what_its_spawner_runs() -> None:
    """Taken over by force, it lacks the end of its journal and keeps its name."""
    grid = committed(jobs=20)
    beta = grid["beta"]
    beta.stored = [s for s in beta.stored if not isinstance(codec.decode(s), records.RunsStarted)]
    beta.boot()
    beta.engine.core.term = 2
    beta.lrm_ready()
    assert beta.engine.core.state.custodies[(PART, 1)].running.keys() == {run.index for run in beta.running}
    assert not beta.engine.core.book(JournalDoubt).fallen
