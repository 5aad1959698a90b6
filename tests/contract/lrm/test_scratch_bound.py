"""A job that takes more room of the disk than it asked for is ended, and told so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from diana.model.facts import Outcome
from diana.model.job.spec import InputFile, Outputs, Resources
from tests.contract.lrm_builders import SUBGROUP, RealSite, shell

MIB = 1 << 20


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[RealSite]:
    made = RealSite(tmp_path / "data")
    await made.up()
    yield made
    await made.down()


def wants(mib: int) -> Resources:
    return Resources(scratch_bytes=mib * MIB)


WRITES = "dd if=/dev/zero of=%s bs=1M count=%d 2>/dev/null"


@pytest.mark.parametrize("own", [False, True])
async def test_a_job_that_writes_more_than_its_scratch_is_ended_and_told_how_much(site: RealSite, own: bool) -> None:
    more = {"outputs": Outputs(collect=("big",))} if own else {}
    script = WRITES % ("big" if own else "$TMPDIR/big", 30) + "; exec sleep 600"
    site.start(shell(script, resources=wants(20), **more), 0)
    (end,) = await site.ended(1)
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 137)
    assert "out of scratch: it wrote 30 MiB, and its scratch is 20 MiB" in end.error


async def test_many_small_files_count_together(site: RealSite) -> None:
    script = "mkdir -p $TMPDIR/a/b; for n in $(seq 400); do head -c 8000 /dev/zero > $TMPDIR/a/b/$n; done; sleep 600"
    site.start(shell(script, resources=wants(2)), 0)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.FAILED and "out of scratch" in end.error


async def test_a_job_within_its_scratch_and_one_that_asked_for_none_run_on(site: RealSite) -> None:
    script = WRITES % ("$TMPDIR/big", 30) + "; sleep 1"
    site.start(shell(script, resources=wants(40)), 0)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.DONE
    site.start(shell(script), 1)
    assert site.by_index() and (await site.ended(2))[1].outcome is Outcome.DONE


async def test_holes_links_and_second_names_take_no_room(site: RealSite, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(30 * MIB))
    script = f"cd $TMPDIR; truncate -s 10G hole; ln -s {tmp_path}/large link; " + WRITES % ("one", 6)
    site.start(shell(f"{script}; for n in 1 2 3 4; do ln one two$n; done; sleep 1", resources=wants(20)), 0)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.DONE, end


@pytest.mark.parametrize("then", ["", "; rm -rf in here; " + WRITES % ("more", 30)])
async def test_an_input_that_gets_another_mode_name_or_link_was_not_written_by_the_job(
    site: RealSite, tmp_path: Path, then: str
) -> None:
    (tmp_path / "large").write_bytes(bytes(30 * MIB))
    staged = site.data.staged(SUBGROUP) / "dataset" / "large"
    staged.parent.mkdir(parents=True)
    staged.symlink_to(tmp_path / "large")
    given = (InputFile(source="dataset:large", path="in"),)
    script = f"chmod +x in; mkdir here; mv in here; ln here/in in; sleep 1{then}; sleep 1"
    site.start(shell(script, resources=wants(20), inputs=given), 0)
    (end,) = await site.ended(1)
    assert end.outcome is (Outcome.FAILED if then else Outcome.DONE), end


async def test_the_next_spawner_holds_a_job_to_its_scratch(site: RealSite, tmp_path: Path) -> None:
    go, there = tmp_path / "go", tmp_path / "there"
    script = f": > {there}; until [ -e {go} ]; do sleep 0.05; done; {WRITES % ('$TMPDIR/big', 30)}; exec sleep 600"
    site.start(shell(script, resources=wants(20)), 0)
    await site.until(there.exists)
    await site.lose_lrm()
    go.touch()
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.FAILED and "out of scratch" in end.error
