"""Orders for a group that the page can give: the question before, the call, the line after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.model.views.group import GroupStatus

if TYPE_CHECKING:
    from diana.client import AsyncClient


def question(what: str, group: GroupStatus) -> tuple[str, str] | None:
    """The order and what is asked before it is given; None: there is nothing to release or to retry."""
    left = group.jobs - group.done - group.failed - group.cancelled
    if what == "cancel":
        return "cancel", f"Cancel {output.counted(left, 'job')} of {group.group}?"
    if what == "hold":
        return "hold", f"Hold the jobs of {group.group} that have not started?"
    if group.held:
        return "release", f"Release {output.counted(group.held, 'held job')} of {group.group}?"
    if group.failed:
        return "retry", f"Try {output.counted(group.failed, 'failed job')} of {group.group} again?"
    return None


async def _cancel(client: AsyncClient, group: str) -> str:
    return f"{group}: cancelling {output.counted(await client.cancel(group), 'job')}"


async def _hold(client: AsyncClient, group: str) -> str:
    held = await client.hold(group)
    return f"{group}: holding {output.counted(held.jobs, 'job')}, {held.started:,} had started and run on"


async def _release(client: AsyncClient, group: str) -> str:
    return f"{group}: released {output.counted(await client.release(group), 'job')}"


async def _retry(client: AsyncClient, group: str) -> str:
    return f"{group}: trying {output.counted(await client.retry(group), 'job')} again"


ORDERS = {"cancel": _cancel, "hold": _hold, "release": _release, "retry": _retry}
