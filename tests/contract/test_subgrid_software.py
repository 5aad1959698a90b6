"""A machine of a site is given no job that asks for what it does not offer: an older one would run it without."""

from __future__ import annotations

from pathlib import Path

from diana.adapters.lrm.software import Software
from diana.engine.events import LrmReady
from diana.model.facts import Outcome
from diana.model.spec import GroupSpec
from tests.contract.subgrid_builders import SubGridSite

READY = GroupSpec(argv=("/bin/sh", "-c", 'test "$GREETING" = hello'), modules=("greeter",))


def offered(site: SubGridSite) -> tuple[str, ...] | None:
    """What the engine was told last of the machine."""
    return [event for event in site.events if isinstance(event, LrmReady)][-1].software


async def test_a_member_runs_what_it_offers_and_is_not_given_the_rest(tmp_path: Path) -> None:
    site = SubGridSite(tmp_path)
    await site.up()
    try:
        site.start(READY, 0)
        (refused,) = await site.ended(1)
        assert refused.outcome is Outcome.NOT_STARTED
        assert refused.error == "alpha-1.0 at site alpha: machine m1 has no module greeter"
        told = site.readies()
        assert offered(site) == ()
        site.node.member.offer(Software(modules={"greeter": "export GREETING=hello"}))
        await site.until(lambda: site.readies() > told)
        assert offered(site) == ("module greeter",)
        site.start(READY, 1)
        await site.ended(2)
        assert site.by_index()[1].outcome is Outcome.DONE
    finally:
        await site.down()
