"""Groups that were submitted since an origin's journal was copied come back by its own receipts, which peers show."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.handover import receipts
from diana.engine.journal import codec, records
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages.recovery import GroupShown, Holdings
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.views.views import Ok
from tests.engine.bench import Grid, Site
from tests.engine.builders import spec
from tests.engine.handing import view
from tests.engine.recovery.test_stocktaking import put_origin_back


def submitted_since(jobs: int = 4, key: str = "", **more: object) -> tuple[Grid, list[bytes]]:
    """Alpha copied before its group was submitted; beta has all the jobs and goes on."""
    grid = Grid(alpha=1, beta=4, gamma=4)
    alpha = grid["alpha"]
    copy = list(alpha.stored)
    alpha.submit(spec(jobs, work_s=100.0, sites=("beta",), **more), jobs, key=key)  # type: ignore[arg-type]
    assert view(grid).jobs == jobs
    return grid, copy


def has(site: Site, name: str = "alpha-1") -> bool:
    return GroupId(name) in site.engine.core.state.groups


def test_a_group_that_the_copy_lacks_comes_back_from_the_site_that_has_its_jobs_and_ends_there_once() -> None:
    grid, copy = submitted_since()
    alpha = put_origin_back(grid, copy)
    assert not has(alpha)
    grid.heal("alpha")
    assert has(alpha)
    group = alpha.group("alpha-1")
    assert group.on_hold and not group.unplaced
    assert any("shows alpha-1" in line for line in alpha.warnings)
    grid["beta"].end()
    grid.pass_time(30.0)
    assert view(grid).done == 4
    assert set(grid.claims().values()) == {1}


def test_what_no_peer_has_of_it_waits_for_its_user() -> None:
    grid = Grid(alpha=2, beta=2, gamma=2)
    alpha = grid["alpha"]
    copy = list(alpha.stored)
    alpha.submit(spec(12, work_s=100.0), 12)
    away = IndexSet.union(s.indices for s in alpha.group("alpha-1").subgroups.values() if s.site != "alpha")
    home = IndexSet.span(0, 12) - away
    assert away and home
    put_origin_back(grid, copy)
    grid.heal("alpha")
    assert alpha.group("alpha-1").unplaced == home
    grid.pass_time(60.0)
    assert alpha.group("alpha-1").unplaced == home
    assert "diana release" in view(grid).note
    assert isinstance(alpha.release_jobs("alpha-1"), Ok)
    grid.finish()
    assert view(grid).done == 12


def test_it_is_told_again_by_its_key_and_has_its_name_and_owner() -> None:
    grid, copy = submitted_since(key="mine")
    before = grid["alpha"].group("alpha-1")
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    after = alpha.group("alpha-1")
    assert (after.owner, after.key, after.spec_bytes, after.submitted_s, after.authorisation) == (
        before.owner,
        before.key,
        before.spec_bytes,
        before.submitted_s,
        before.authorisation,
    )
    assert "alpha-1" in alpha.engine.core.state.keys.values()


def test_it_is_there_after_the_next_start_too() -> None:
    grid, copy = submitted_since()
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    grid.cut.add("alpha")
    alpha.boot()
    alpha.lrm_ready()
    grid.heal("alpha")
    assert alpha.group("alpha-1").on_hold
    grid["beta"].end()
    grid.pass_time(30.0)
    assert view(grid).done == 4


@pytest.mark.parametrize("lie", ["another spec", "another's receipt", "no seal", "nothing"])
def test_a_site_brings_no_group_into_being_that_its_origin_never_acknowledged(lie: str) -> None:
    grid, copy = submitted_since()
    custody = next(iter(grid["beta"].engine.core.state.custodies.values()))
    true = GroupShown(spec=custody.spec_bytes, receipt=custody.receipt)
    assert true.receipt
    if lie == "another spec":
        false = msgspec.structs.replace(true, spec=true.spec + b" ")
    elif lie == "another's receipt":
        false = msgspec.structs.replace(true, receipt=receipts.of(grid["alpha"].group("alpha-1"), b"k" * 32))
    elif lie == "no seal":
        false = msgspec.structs.replace(true, receipt=bytes(16) + true.receipt[16:])
    else:
        false = msgspec.structs.replace(true, receipt=b"")
    alpha = put_origin_back(grid, copy)

    beta = grid["beta"]
    send = beta.engine.core.send

    def lying(to: object, message: object, *more: object, **other: object) -> object:
        if isinstance(message, Holdings) and message.groups:
            message = msgspec.structs.replace(message, groups=(false,))
        return send(to, message, *more, **other)  # type: ignore[arg-type]

    beta.engine.core.send = lying  # type: ignore[assignment,method-assign]
    grid.heal("alpha")
    assert not has(alpha)


def test_a_receipt_brings_nothing_into_a_journal_that_lost_nothing_then() -> None:
    """Its group was over, and forgotten, when the copy was made."""
    grid, _ = submitted_since()
    alpha, beta = grid["alpha"], grid["beta"]
    (custody,) = beta.engine.core.state.custodies.values()
    shown = GroupShown(spec=custody.spec_bytes, receipt=custody.receipt)
    kinds = [type(codec.decode(stored)) for stored in alpha.stored]
    later = alpha.stored[: kinds.index(records.GroupSubmitted) + 1]
    alpha = put_origin_back(grid, later)
    assert alpha.engine.core.state.forgotten[-1][0] == 2
    del alpha.engine.core.state.groups[GroupId("alpha-1")]
    alpha.handle(
        ev.Received(SiteId("beta"), Holdings(db_uuid=beta.db_uuid, seq=1, part=0, parts=1, rows=(), groups=(shown,)))
    )
    assert not has(alpha)


def test_what_runs_at_home_of_a_group_that_comes_back_is_not_begun_again() -> None:
    grid = Grid(alpha=2, beta=2, gamma=2)
    alpha = grid["alpha"]
    copy = list(alpha.stored)
    alpha.submit(spec(12, work_s=100.0), 12)
    runs = dict(alpha.running)
    assert runs
    grid.cut.add("alpha")
    alpha.stored = list(copy)
    alpha.db_uuid = "db-alpha-restored"
    alpha.trace.clear()
    alpha.boot(restored=True)
    alpha.lrm_ready()
    assert set(alpha.running) == set(runs) and not sent_forget(alpha)
    grid.heal("alpha")
    taken = {index for one in alpha.engine.core.state.custodies.values() for index in one.running}
    assert taken == {run.index for run in runs}
    assert isinstance(alpha.release_jobs("alpha-1"), Ok)
    grid.finish()
    assert view(grid).done == 12
    assert set(grid.claims().values()) == {1}


def sent_forget(site: Site) -> list[fx.Effect]:
    return [effect for effect in site.trace if isinstance(effect, fx.ForgetRuns)]


def test_what_another_site_tells_before_the_group_comes_back_counts_once_it_does() -> None:
    """Gamma, whose part is over, has no receipt to show; beta has."""
    grid = Grid(alpha=0, beta=2, gamma=2)
    alpha = grid["alpha"]
    copy = list(alpha.stored)
    alpha.submit(spec(4, work_s=100.0), 4)
    parts = {str(s.site): s.indices for s in alpha.group("alpha-1").subgroups.values()}
    assert set(parts) == {"beta", "gamma"}
    grid["gamma"].end()
    grid.pass_time(30.0)
    assert not grid["gamma"].engine.core.state.custodies
    grid.cut.add("beta")
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    assert not has(alpha)
    grid.heal("beta")
    grid.pass_time(30.0)
    assert view(grid).held == len(parts["gamma"])
    assert not alpha.group("alpha-1").unplaced
