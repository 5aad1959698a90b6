"""Verbs that stay with a group: wait, logs, fetch."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.faults import complain
from diana.cli.shared.parsing import Command, add_json, add_node, client, duration_s, node_given
from diana.cli.shared.patience import NodePatience, insisting, lasting
from diana.cli.shared.progress import StatusLine, redraws
from diana.errors import UsageError
from diana.model.signals import signal_name

if TYPE_CHECKING:
    from diana.client import Client
    from diana.model.views.group import GroupStatus
    from diana.wire.client.messages import LogsChunk

LINE_EVERY_S = 10.0
"""Seconds between two lines of progress that go to a file or pipe, but for a change of state."""


class GroupProgress:
    """Shows a group's progress on standard error: one line redrawn on a terminal, a line now and then elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._line = StatusLine() if redraws() else None
        self._shown = ""
        self._state = ""
        self._last_s = 0.0

    def show(self, status: GroupStatus) -> None:
        if self._quiet:
            return
        line = progress_line(status)
        if self._line is not None:
            self._line.show(line)
            return
        now_s = time.monotonic()
        if line != self._shown and (status.state != self._state or now_s - self._last_s >= LINE_EVERY_S):
            print(output.clean(line), file=sys.stderr, flush=True)
            self._shown, self._state, self._last_s = line, status.state, now_s

    def end(self) -> None:
        if self._line is not None:
            self._line.end()


def progress_line(status: GroupStatus) -> str:
    drawn = output.bar([(status.done, "#"), (status.failed + status.cancelled, "x")], status.jobs)
    counts = output.fields(
        status, "failed", "cancelled", "running", "queued", "staging", "unplaced", "held", "unreachable"
    )
    return ", ".join([f"{status.group} {status.state} [{drawn}] {status.done:,}/{status.jobs:,} done", *counts])


def follow(
    node: Client,
    group: str,
    timeout_s: float | None,
    *,
    as_json: bool,
    quiet: bool,
    given: str = "",
    heard: bool = False,
) -> int:
    """Waits, over restarts of the node too; prints the result; the exit code is the group's. `given`: as `result_line`
    takes it; `heard`: the node has answered already."""
    progress = GroupProgress(quiet or as_json)
    last: GroupStatus | None = None
    end_s = time.monotonic() + timeout_s if timeout_s else None
    patience = NodePatience(heard=heard, until_s=end_s)

    def watch() -> Iterator[GroupStatus]:
        # The first time as it was asked for, so that the line about its end says the same.
        again = last is not None and end_s is not None
        return node.watch(group, max(0.001, (end_s or 0.0) - time.monotonic()) if again else timeout_s)

    try:
        for last in lasting(patience, watch):
            progress.show(last)
    except KeyboardInterrupt:
        progress.end()
        if not quiet:
            complain(f"{group} goes on; diana cancel {group}{given} ends it")
        raise
    finally:
        progress.end()
    assert last is not None, "a wait ends with a status"
    if as_json:
        output.print_json(last)
    elif not quiet:
        output.say(result_line(last, given))
    return exit_code(last)


def follow_all(
    node: Client,
    groups: list[str],
    timeout_s: float | None,
    *,
    as_json: bool,
    quiet: bool,
    given: str = "",
    heard: bool = False,
) -> int:
    """Follow the groups one after the other, the time counted over all; returns the worst of their exit codes."""
    end_s = time.monotonic() + timeout_s if timeout_s else None
    worst = 0
    for number, group in enumerate(groups):
        # The first gets the time as it was asked for, so that the line about its end says the same.
        left_s = timeout_s if end_s is None or not number else max(0.001, end_s - time.monotonic())
        code = follow(node, group, left_s, as_json=as_json, quiet=quiet, given=given, heard=heard or number > 0)
        worst = max(worst, code)
    return worst


def exit_code(status: GroupStatus) -> int:
    return 0 if status.state == "done" else 1


def result_line(status: GroupStatus, given: str = "") -> str:
    """`given`: options that name the node (`parsing.node_given`)."""
    parts = [f"{status.group}: {status.state}", f"{status.done:,} of {output.counted(status.jobs, 'job')} done"]
    parts += output.fields(status, "failed", "cancelled", "held", "unreachable")
    if status.last_end_s > 0:
        parts.append(f"in {output.seconds(status.last_end_s)}")
    # A site may have several parts of the group.
    sites = len({share.site for share in status.shares if share.jobs})
    if sites:
        parts.append(f"at {output.counted(sites, 'site')}")
    if status.bytes_moved:
        parts.append(f"{output.size(status.bytes_moved)} moved")
    said = [status.note] if status.note else []
    if status.failed and (status.gangs or not status.note):
        # A note on a gang may say no more than who ended with whom.
        said.append(f"why: diana logs --failed {status.group}{given}")
    return "; ".join([", ".join(parts), *said])


def _wait_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", nargs="+", metavar="GROUP")
    parser.add_argument("--any", action="store_true", help="wait for one of them, whichever is over first")
    parser.add_argument("--timeout", type=duration_s, metavar="TIME", help="give up after this, with exit code 124")
    parser.add_argument("--quiet", action="store_true", help="no progress and no result line")
    add_json(parser, "GroupStatus, one line per group")
    add_node(parser)


def _wait(args: argparse.Namespace) -> int:
    for job in args.groups:
        group, dot, _ = job.partition(".")
        if dot:
            way = f"diana wait {group} waits for all of its group"
            way += f", diana logs -f {job} for a job that runs" if "[" not in job else ""
            raise UsageError(f"wait: {job} is no group; {way}")
    with client(args) as node:
        if args.any:
            return _wait_for_one(node, args)
        return follow_all(node, args.groups, args.timeout, as_json=args.json, quiet=args.quiet, given=node_given(args))


def _wait_for_one(node: Client, args: argparse.Namespace) -> int:
    end_s = time.monotonic() + args.timeout if args.timeout else None
    patience = NodePatience(until_s=end_s)

    def first() -> GroupStatus:
        left_s = max(0.001, end_s - time.monotonic()) if end_s is not None and patience.was_heard else args.timeout
        return next(iter(node.as_completed(args.groups, left_s)))

    # An answer before the wait: a node that was never there is not waited for, one that goes away meanwhile is.
    insisting(patience, lambda: node.status(args.groups))
    last = insisting(patience, first)
    if args.json:
        output.print_json(last)
    elif not args.quiet:
        output.say(result_line(last, node_given(args)))
    return exit_code(last)


def _logs_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="a job (alpha-12.3), or a group: all its jobs in order")
    parser.add_argument("--failed", action="store_true", help="only of jobs that failed")
    parser.add_argument("--merge", action="store_true", help="of a group: what its merge command wrote, instead")
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="as it is written, until the job has ended; of a group: each job's once that has ended",
    )
    parser.add_argument("--tail", type=_lines, metavar="N", default=0, help="only the last N lines of each log")
    add_json(parser, "LogsChunk, one per line, data in base64")
    add_node(parser)


def _lines(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:10]) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number of lines, 1 to 1000000")
    return int(text)


def _log_chunks(node: Client, args: argparse.Namespace) -> Iterator[LogsChunk]:
    """With -f over restarts of the node, from where it broke off: a job's by position, a group's by what was told."""
    at, attempt, whole, skip = 0, 0, set[str](), set[str]()

    def begin() -> Iterator[LogsChunk]:
        skip.update(whole)
        return node.logs(
            args.job,
            failed=args.failed,
            follow=args.follow,
            tail=args.tail,
            start=at,
            attempt=attempt,
            merge=args.merge,
        )

    one = "." in args.job or args.merge
    chunks = lasting(NodePatience(), begin) if args.follow else begin()
    for chunk in chunks:
        if args.merge and not chunk.job.endswith(".merge"):
            raise UsageError("logs --merge: this node's release does not know it")
        if chunk.next:
            at, attempt = chunk.next, chunk.attempt
            whole.clear()
            skip.clear()
        elif args.follow and chunk.data and one:
            at, attempt = at + len(chunk.data), chunk.attempt
        elif not chunk.data:
            whole.add(chunk.job)
        if chunk.job not in skip:
            yield chunk


def _logs(args: argparse.Namespace) -> int:
    """Bytes as they were written; how a job failed and what is missing is told on standard error, so that a pipe gets
    the logs alone. Logs out of reach are one line for all, and an exit code."""
    from diana.errors import Unreachable

    out = sys.stdout.buffer
    whole_group = "." not in args.job and not args.merge
    shown, wrote, told, runs = "", False, set[str](), False
    first, out_of_reach, none_yet = "", 0, ""
    first_without, without = "", 0
    with client(args) as node:
        for chunk in _log_chunks(node, args):
            wrote, runs = wrote or bool(chunk.data), chunk.running
            if chunk.unreachable and whole_group and chunk.job == args.job:
                none_yet = chunk.error
            elif chunk.unreachable:
                first = first or _about(chunk.job, chunk.error)
                out_of_reach += 1
            if args.json:
                output.print_json(chunk)
                continue
            if whole_group and chunk.job != shown and chunk.data:
                out.write(f"==> {chunk.job} <==\n".encode())
                shown = chunk.job
            out.write(chunk.data)
            if args.follow:
                out.flush()
            if chunk.note:
                complain(_about(chunk.job, f"{chunk.note}; its log is waited for"))
            if whole_group and chunk.error.startswith(_NO_LOG):
                # One line for all of them, of which there may be a million.
                first_without, without = first_without or _about(chunk.job, chunk.error), without + 1
            elif (chunk.truncated or chunk.error) and not chunk.unreachable:
                out.flush()
                told.add(chunk.job if chunk.error else "")
                complain(_about(chunk.job, chunk.error or "wrote more than was kept; raise log_limit in the job file"))
        out.flush()
        if without:
            complain(first_without + (f"; likewise {output.counted(without - 1, 'more job')}" if without > 1 else ""))
        if runs and not args.json and not wrote:
            complain(f"{args.job}: runs, and wrote nothing so far")
        elif args.merge:
            if not (wrote or told or out_of_reach or args.json):
                complain(f"{args.job}: its merge command wrote nothing to its log")
        elif not runs and not args.json and (args.failed or not whole_group):
            _tell_failures(node, args.job, wrote or out_of_reach > 0, told)
        elif not args.json and not (wrote or told or none_yet or out_of_reach or without):
            over = node.status([args.job])[0].final
            complain(f"{args.job}: no job wrote anything to its log{'' if over else ' so far'}")
    if none_yet:
        complain(_about(args.job, none_yet))
        return Unreachable.exit_code
    if out_of_reach:
        more = f"{args.job}: {output.counted(out_of_reach, 'log is', 'logs are')} out of reach, the first: "
        complain(f"{more if whole_group else ''}{first}")
        return Unreachable.exit_code
    return 0


_NO_LOG = "kept no log: it left "
"""Beginning of what a node says of a job that wrote to files of its own (`node/api/ended_logs.py`)."""


def _about(job: str, text: str) -> str:
    return text if text.startswith(job) else f"{job}: {text}"


def _tell_failures(node: Client, name: str, wrote: bool, told: set[str]) -> None:
    """Tell of jobs that did not end well and are not told of yet: a log does not say it, least of all an empty one."""
    from diana.client.results import by_index

    group, _, index = name.partition(".")
    # A node of an older release tells all of them, which is well enough here: each is looked at.
    if index:
        ended = node.result_chunks(group, outcome="ended", first=int(index), most=1)
    else:
        ended = chain(node.result_chunks(group, outcome="failed"), node.result_chunks(group, outcome="held"))
    for job in by_index(group, ended):
        asked_for = job.outcome != "cancelled" if not index else str(job.index) == index
        # What never ran has no result to tell of.
        if job.site and not job.done and asked_for and job.job not in told:
            how = job.outcome.replace("_", " ")
            end = f"by {signal_name(job.signal)}" if job.signal else f"exit code {job.exit_code}"
            complain(_about(job.job, job.error or f"{how} at {job.site}, {end}"))
            told.add(job.job)
        if index and not wrote and not told and str(job.index) == index:
            told.add(job.job)
            complain(f"{job.job}: wrote nothing to its log{_left(group, [out.name for out in job.outputs])}")
    if not wrote and not told:
        complain(f"{name}: {'wrote nothing so far' if index else 'no job failed so far'}")


def _left(group: str, names: list[str]) -> str:
    """A clause on where else to look."""
    if not names:
        return ""
    more = f" and {output.counted(len(names) - 1, 'more file')}" if len(names) > 1 else ""
    return f"; it left {names[0]}{more}: diana fetch {group}"


def _fetch_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="a group, or jobs of it alone: alpha-12.3, 'alpha-12.[3-9]'")
    parser.add_argument("pattern", nargs="?", default="", help="only outputs whose name fits, such as '*.csv'")
    parser.add_argument("--to", metavar="DIR", help="the folder (default: ./GROUP)")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="each output as it is gathered, until the group is over"
    )
    add_json(parser, "keys folder and files")
    add_node(parser)


def _fetch(args: argparse.Namespace) -> int:
    group, jobs, _ = args.group.partition(".")
    folder = args.to or group
    if "/" in args.group or args.group in ("", ".", ".."):
        raise UsageError(f"group {args.group!r}: is no group's name; see diana status")
    with client(args) as node:
        patience = NodePatience()
        # What is not there is told at once; of a node that is there, a restart is waited for.
        status = insisting(patience, lambda: node.status([group]))[0]
        paths = insisting(patience, lambda: node.fetch(args.group, folder, args.pattern, follow=args.follow))
        if args.follow and not paths and not args.json:
            # Without --follow the node says by itself that there are none, and where they might be.
            paths = insisting(patience, lambda: node.fetch(args.group, folder, args.pattern))
        if args.follow and not args.json:
            status = insisting(patience, lambda: node.status([group]))[0]
    if args.json:
        from diana.cli.shared.shapes import Fetched

        output.print_json(Fetched(folder=os.path.abspath(folder), files=tuple(map(str, paths))))
        return 0
    moved = sum(path.stat().st_size for path in paths)
    fitting = f" that fit {args.pattern}" if args.pattern else ""
    line = f"{args.group}: {output.counted(len(paths), 'file')}{fitting} in {folder}, {output.size(moved)}"
    if not (status.final or args.follow):
        line += f"; {group} was not over: {status.done:,} of {output.counted(status.jobs, 'job')} done, --follow waits"
    print(line if jobs else f"{line}{_not_well(status, node_given(args))}")
    return 0


def _not_well(status: GroupStatus, given: str) -> str:
    """A clause on jobs that did not end well: what they left lies beside what the others did."""
    # Jobs that wait until they are released are among the held ones, too.
    ends = ("failed", "cancelled", "held") if status.final else ("failed", "cancelled")
    parts = output.fields(status, *ends)
    if not parts:
        return ""
    outcome = next(name for name in ends if getattr(status, name))
    return (
        f"; {', '.join(parts)} of {output.counted(status.jobs, 'job')}, whose files may be among these: diana results"
        f" {status.group} --outcome {outcome}{given}"
    )


COMMANDS = {
    "wait": Command(
        _wait_options,
        _wait,
        "Exit code 0 when all jobs are done, 1 when some failed, were cancelled or are held.",
        """
diana wait alpha-12
diana wait --timeout 30m alpha-12 alpha-13
diana wait --any alpha-12 alpha-13
diana wait --json alpha-12 && diana fetch alpha-12
""",
    ),
    "logs": Command(
        _logs_options,
        _logs,
        "Standard output and error of jobs, running or finished. Exit code 4: a log is out of reach, or not there yet.",
        """
diana logs alpha-12.3
diana logs -f alpha-12.3
diana logs --tail 20 --failed alpha-12
diana logs alpha-12 | grep -c converged
diana logs --merge alpha-12
""",
    ),
    "fetch": Command(
        _fetch_options,
        _fetch,
        "Each file is verified, and appears whole or not at all.",
        """
diana fetch alpha-12
diana fetch alpha-12.3
diana fetch alpha-12 '*.csv' --to results
diana fetch --follow alpha-12
""",
    ),
}
