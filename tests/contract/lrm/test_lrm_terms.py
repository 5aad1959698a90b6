"""SPEC D8: the embedded LRM under its machine's name and its leader's term; orders of an older term do nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest_asyncio

from diana.adapters.lrm import launch
from diana.adapters.lrm.local import LocalLrm
from diana.adapters.lrm.spawner.protocol import Frames, Hello, Refused, frame
from diana.engine.journal.effects import Start
from diana.engine.journal.events import LrmLost
from diana.model.facts import Outcome
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec, Resources
from tests.contract.lrm_builders import SUBGROUP, RealSite, shell

TRUE = GroupSpec(argv=("/bin/true",))


class NamedSite(RealSite):
    term = 0

    def _new(self) -> LocalLrm:
        return LocalLrm(
            self.data, SiteId("alpha"), self.slots, self.events.append, time.monotonic, worker="m2", term=self.term
        )


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[NamedSite]:
    made = NamedSite(tmp_path / "data")
    await made.up()
    yield made
    await made.down()


async def test_what_it_tells_names_its_machine(site: NamedSite) -> None:
    assert site.ready().worker == "m2"
    await site.lose_lrm()
    lost = [event for event in site.events if isinstance(event, LrmLost)]
    assert lost and all(event.worker == "m2" for event in lost)
    assert site.ready().worker == "m2"


async def test_a_higher_term_makes_a_new_session_and_drops_what_was_ordered_under_the_old_one(site: NamedSite) -> None:
    site.start(shell("sleep 0.3"), 0)
    await site.until(lambda: bool(list(site.data.logs_root.glob("**/*"))))
    old = site.ready().session
    site.lrm.set_term(5)
    site.start(TRUE, 1, session=old)
    await site.until(lambda: site.readies() == 2)
    assert site.ready().session > old and {run.index for run in site.ready().known} == {0}
    # An order that carries the new session and the old term is as dead.
    site.start(TRUE, 2)
    (end,) = await site.ended(1)
    assert (end.run.index, end.outcome) == (0, Outcome.DONE)
    order = Start(
        session=site.ready().session,
        term=5,
        subgroup=SUBGROUP,
        epoch=1,
        owner="u@vo",
        spec=TRUE,
        indices=IndexSet.of([3]),
    )
    site.lrm.start(order)
    assert {one.run.index for one in await site.ended(2)} == {0, 3}


async def test_the_highest_term_outlives_the_spawner_and_a_late_leader_is_refused(site: NamedSite) -> None:
    site.lrm.set_term(5)
    await site.until(lambda: site.readies() == 2)
    await site.lose_lrm()

    def greet() -> object:
        sock = launch.connect(site.data)
        assert sock is not None
        with sock:
            sock.sendall(frame(Hello(1, 4, "alpha", 2)))
            sock.settimeout(60)
            return next(Frames().feed(sock.recv(1 << 16)))

    refused = await asyncio.to_thread(greet)
    assert isinstance(refused, Refused) and "term 5" in refused.reason


async def test_a_merge_command_runs_where_there_are_no_slots_and_nothing_else_does(tmp_path: Path) -> None:
    site = RealSite(tmp_path / "none", slots=0)
    await site.up()
    folder = tmp_path / "group"
    folder.mkdir()
    site.start(shell("echo yes > merged"), 0, directory=str(folder))
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.DONE and (folder / "merged").read_text() == "yes\n"
    site.start(TRUE, 1)
    site.start(msgspec.structs.replace(TRUE, resources=Resources(processors=2)), 2)
    await site.until(lambda: {run.index for run in site.ready().known} <= {0})
    assert {one.run.index for one in site.ends()} == {0}
    await site.down()
