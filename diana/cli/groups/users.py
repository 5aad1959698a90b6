"""`diana users`: each user's share over all sites, from what the sites say of their queues now."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node
from diana.errors import UsageError

if TYPE_CHECKING:
    from diana.cli.shared.shapes import UsersShown
    from diana.client import AsyncClient
    from diana.model.views.queue import QueueView
    from diana.model.views.site import Site

MOST_ASKED = 64
"""Sites asked, those with the most jobs first: a thousand sites with a thousand users each would be a million rows. The
jobs of the others are counted, not shared out."""
AT_ONCE = 8


def _options(parser: argparse.ArgumentParser) -> None:
    add_json(parser, "keys users, asked, silent, unasked_sites and unasked_jobs")
    add_node(parser)


def _users(args: argparse.Namespace) -> int:
    if args.data and (args.address or args.credential):
        raise UsageError("--data names a node on this machine, --address and --credential one elsewhere; give either")
    shown = asyncio.run(_asked(args))
    if args.json:
        output.print_json(shown)
    else:
        show_users(shown)
    return 0


async def _asked(args: argparse.Namespace) -> UsersShown:
    from diana.cli.shared.shapes import UserRow, UsersShown
    from diana.client import AsyncClient
    from diana.policy.queueing.whole_share import SiteAnswer, shares

    async with AsyncClient(data=args.data, address=args.address, credential=args.credential) as node:
        chosen, rest, away = chosen_sites(await node.sites())
        turns = asyncio.Semaphore(AT_ONCE)
        answers = await asyncio.gather(*(_ask(node, site, turns) for site in chosen))
    now = time.monotonic()
    heard = [SiteAnswer(queue, now - at) for _, queue, at in answers if queue is not None]
    return UsersShown(
        users=tuple(UserRow(**row._asdict()) for row in shares(heard)),
        asked=tuple(sorted(answer.queue.site for answer in heard)),
        silent=tuple(sorted([site for site, queue, _ in answers if queue is None] + away)),
        unasked_sites=len(rest),
        unasked_jobs=sum(site.queued_jobs + site.running_jobs for site in rest),
    )


async def _ask(node: AsyncClient, site: str, turns: asyncio.Semaphore) -> tuple[str, QueueView | None, float]:
    """(site, its view, when it came); no view: it did not answer."""
    from diana.errors import Unreachable

    async with turns:
        try:
            return site, await node.queue(site), time.monotonic()
        except Unreachable:
            return site, None, 0.0


def chosen_sites(sites: Sequence[Site]) -> tuple[list[str], list[Site], list[str]]:
    """(sites to ask, sites with jobs that are not asked since others have more, sites that are out of touch)."""
    busy = [site for site in sites if site.home or site.queued_jobs or site.running_jobs]
    here = [site for site in busy if site.home or site.state == "alive"]
    here.sort(key=lambda site: (not site.home, -(site.queued_jobs + site.running_jobs), site.site))
    away = [site.site for site in sites if not site.home and site.state != "alive"]
    return [site.site for site in here[:MOST_ASKED]], here[MOST_ASKED:], away


def show_users(shown: UsersShown) -> None:
    if shown.users:
        output.print_table(
            ("USER", ">SITES", ">QUEUED", ">RUNNING", ">SHARE QUEUED", ">SHARE RUNNING", ">AGE"),
            [
                (
                    row.user,
                    row.sites,
                    f"{row.queued:,}",
                    f"{row.running:,}",
                    f"{row.queued_share:.1%}",
                    f"{row.running_share:.1%}",
                    output.seconds(row.age_s),
                )
                for row in shown.users
            ],
            least=("AGE", "SITES", "SHARE RUNNING"),
        )
    else:
        print("nobody has jobs at the sites that answered")
    if shown.silent:
        output.say(f"not counted, no answer: {', '.join(shown.silent)}")
    if shown.unasked_sites:
        sites, jobs = output.counted(shown.unasked_sites, "site"), output.counted(shown.unasked_jobs, "job")
        output.say(f"not counted, beyond the {MOST_ASKED} sites with the most jobs: {sites} with {jobs}")


COMMANDS = {
    "users": Command(
        _options,
        _users,
        "SHARE QUEUED: of the processors that all queued jobs want, over all sites that answered; SHARE RUNNING: of\n"
        "the jobs that run; AGE: of the oldest figure in the row. Priorities go by each site's own queue (see: queue).",
        """
diana users
diana users --json
""",
    ),
}
