"""One job as a story, and `diana status` of jobs: of several a table. Each costs a question to the node."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import client
from diana.cli.shared.patience import NodePatience, insisting
from diana.errors import UsageError
from diana.model.signals import signal_name

if TYPE_CHECKING:
    from diana.client import Client
    from diana.wire.client.messages import ExplainResponse, JobStory

MOST_JOBS = 100
"""Jobs of one call."""
_HEADER = (">JOB", "STATE", "SITE", ">ATTEMPT", ">EXIT", ">RAN", ">MEMORY", "NOTE")


_STANDS = {
    "waiting": "waits for a site",
    "held": "is held; diana release {job} has it go on",
    "given": "is at {site}, which does not say more just now",
    "queued": "waits in the queue of {site}",
    "running": "runs at {site}{since}, attempt {attempt}; diana logs -f {job} follows its output",
}


def show_job(story: JobStory, *, at_barrier: bool = False) -> None:
    """One job: where it is or was, how it ended, what it used, and the command that tells more. `at_barrier`: its gang
    has not begun, so that it may hold processors and be in no queue."""
    stand = _STANDS.get(story.state)
    if at_barrier and story.state == "queued":
        stand = "is placed at {site}; its gang has not begun"
    if stand is not None:
        since = f" for {output.seconds(story.runs_for_s)}" if story.runs_for_s else ""
        told = stand.format(job=story.job, site=story.site, attempt=story.attempt, since=since)
        output.heading(f"{story.job} {told}")
        if story.note not in ("", f"waits at {story.site}"):
            output.say(story.note)
        return
    how = story.state.replace("_", " ")
    where = f" at {story.site}, attempt {story.attempt}" if story.site else ""
    code = f", exit code {story.exit_code}" if story.exit_code else ""
    if story.signal:
        code = f", by {signal_name(story.signal)}"
    output.heading(f"{story.job} ended: {how}{where}{code}")
    if story.note:
        output.say(story.note)
    if story.site and story.ended_s > story.started_s:
        ran = f"ran {output.seconds(story.ended_s - story.started_s)}"
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(story.started_s))
        used = f"{output.seconds(story.cpu_s)} of processor time"
        if story.max_rss_bytes:
            # It ended before anybody looked.
            used += f", {output.size(story.max_rss_bytes)} of memory at most"
        output.say(f"{ran} from {began} on, with {used}")
    group = story.job.partition(".")[0]
    if story.state in ("unknown", "interrupted"):
        output.say(f"nobody knows how it ended: diana retry --held {story.job} tries it again")
    elif story.state != "done":
        more = f"diana logs {story.job} shows its output; " if story.site else ""
        again = "--cancelled " if story.state == "cancelled" else ""
        output.say(f"{more}diana retry {again}{story.job} tries it again, diana retry {again}{group} all such")


def status_of_jobs(args: argparse.Namespace) -> int:
    """Show the jobs that the arguments name, also every `--watch` seconds. UsageError where groups are among them."""
    if args.mine or args.active or args.limit is not None:
        raise UsageError("status of jobs: --mine, --active and --limit choose among groups; leave them out")
    jobs = [job for target in args.groups for job in named(target)]
    if len(jobs) > MOST_JOBS:
        raise UsageError(f"status of {len(jobs):,} jobs: ask for at most {MOST_JOBS}; diana results lists any number")
    patience = NodePatience()
    with client(args) as node:
        while True:
            found = insisting(patience, lambda: _asked(node, jobs)) if args.watch else _asked(node, jobs)
            if args.watch and output.on_terminal():
                sys.stdout.write("\033[H\033[2J")
            _show(args, found)
            if not args.watch:
                return 0
            sys.stdout.flush()
            time.sleep(args.watch)


def named(target: str) -> list[str]:
    """Return the jobs that `alpha-12.3` or `alpha-12.[3-9]` names, at most one more than are shown."""
    group, dot, part = target.partition(".")
    if not dot:
        raise UsageError(f"status: {target} is a group among jobs; name groups or jobs, not both")
    if not (part.startswith("[") and part.endswith("]")):
        return [target]
    from diana.model.indexset import IndexSet

    try:
        jobs = IndexSet.parse(part[1:-1])
    except ValueError as error:
        raise UsageError(f"{target!r}: {error}") from None
    if len(jobs) > MOST_JOBS:
        raise UsageError(f"status of {len(jobs):,} jobs: ask for at most {MOST_JOBS}; diana results lists any number")
    return [f"{group}.{index}" for index in jobs]


def _asked(node: Client, jobs: list[str]) -> list[ExplainResponse]:
    return [node.explain(job) for job in jobs]


def _show(args: argparse.Namespace, found: list[ExplainResponse]) -> None:
    stories = [(one.job, bool(one.gangs)) for one in found if one.job is not None]
    if args.json:
        for story, _ in stories:
            output.print_json(story)
    elif len(stories) == 1:
        story, at_barrier = stories[0]
        show_job(story, at_barrier=at_barrier)
        if story.state in ("waiting", "queued", "given"):
            output.say(f"diana explain {story.job} tells why it is there, and when it is predicted to start")
    else:
        output.print_table(_HEADER, [_row(story) for story, _ in stories], least=("MEMORY", "RAN", "ATTEMPT"))


def _row(story: JobStory) -> tuple[object, ...]:
    ran_s = story.runs_for_s or story.ended_s - story.started_s
    return (
        story.job,
        story.state.replace("_", " "),
        story.site or "-",
        story.attempt or "-",
        signal_name(story.signal) if story.signal else story.exit_code if ran_s > 0 and story.ended_s else "-",
        output.seconds(ran_s) if ran_s > 0 else "-",
        output.size(story.max_rss_bytes) if story.max_rss_bytes else "-",
        story.note or "-",
    )
