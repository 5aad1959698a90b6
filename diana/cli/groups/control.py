"""Verbs that change what becomes of jobs: cancel, hold, move, release, retry; and drop, once they are over."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.faults import complain
from diana.cli.shared.parsing import Command, add_json, add_node, client, duration_s
from diana.errors import UsageError

if TYPE_CHECKING:
    from diana.client import Client
    from diana.wire.client.control import GroupLeft

Counts = dict[str, int]

_AT_ONCE = 1000
"""Groups of one call."""
_SHOWN = 8


def _cancel_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dependents", action="store_true", help="also the groups that wait for it, and so on")
    _options("CancelResponse")(parser)


def _options(answer: str) -> Callable[[argparse.ArgumentParser], None]:
    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("targets", nargs="+", metavar="TARGET", help="a group, a job, or jobs of a group")
        add_json(parser, f"{answer}, summed over the targets")
        add_node(parser)

    return configure


def _retry_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--held", action="store_true", help="also jobs held because nobody knows how they ended")
    parser.add_argument("--cancelled", action="store_true", help="also cancelled jobs")
    parser.add_argument(
        "--unreachable",
        action="store_true",
        help="also jobs at sites that cannot be reached; they may run on there, and DIANA_EPOCH tells the copies apart",
    )
    parser.add_argument(
        "--memory",
        metavar="MORE",
        default="",
        help="those alone that ran out of memory, each with so much: 8G, or 2x for twice as much",
    )
    _options("RetryResponse")(parser)


def _each(args: argparse.Namespace, act: Callable[[Client, str], tuple[Counts, str]]) -> int:
    """Target by target; the first refusal ends it, what was done before stays done."""
    total: Counts = {}
    with client(args) as node:
        for target in args.targets:
            counts, line = act(node, target)
            for name, count in counts.items():
                total[name] = total.get(name, 0) + count
            if not args.json:
                output.say(f"{target}: {line}")
    if args.json:
        output.print_json(total)
    return 0


def _jobs(count: int) -> str:
    return output.counted(count, "job")


def _whole(target: str, meant: int) -> str:
    """A clause on the gangs of the components that `target` names, where that is about more jobs than it names."""
    _, named, part = target.partition(".")
    if not named or meant < 2:
        return ""
    if not part.startswith("["):
        return ", its whole gang"
    from diana.model.indexset import IndexSet

    return ", their whole gangs" if meant > len(IndexSet.parse(part.strip("[]"))) else ""


def _cancel(args: argparse.Namespace) -> int:
    def act(node: Client, target: str) -> tuple[Counts, str]:
        jobs = node.cancel(target, dependents=args.dependents)
        return {"jobs": jobs}, f"cancelling {_jobs(jobs)}{_whole(target, jobs)}" if jobs else _nothing(node, target)

    return _each(args, act)


def _nothing(node: Client, target: str) -> str:
    """Say why there was nothing to cancel."""
    group, _, jobs = target.partition(".")
    (status,) = node.status([group])
    return "nothing to cancel" + (f": {group} is {status.state}" if not jobs or status.final else "")


def _hold(args: argparse.Namespace) -> int:
    def act(node: Client, target: str) -> tuple[Counts, str]:
        held = node.hold(target)
        line = f"holding {_jobs(held.jobs)}{_whole(target, held.jobs + held.started)}{_run_on(held.started)}"
        return {"jobs": held.jobs, "started": held.started}, line

    return _each(args, act)


def _move_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="SITE", help="the site they are to run at")
    _options("MoveResponse")(parser)


def _move(args: argparse.Namespace) -> int:
    def act(node: Client, target: str) -> tuple[Counts, str]:
        moved = node.move(target, args.to)
        line = f"moving {_jobs(moved.jobs)} to {args.to}{_run_on(moved.started)}"
        return {"jobs": moved.jobs, "started": moved.started}, line

    return _each(args, act)


def _checkpoint(args: argparse.Namespace) -> int:
    def act(node: Client, target: str) -> tuple[Counts, str]:
        jobs = node.checkpoint(target)
        return {"jobs": jobs, "started": 0}, f"asked {_jobs(jobs)} to save and stop"

    return _each(args, act)


def _run_on(started: int) -> str:
    return f"; {_jobs(started)} had started and {'runs' if started == 1 else 'run'} on" * bool(started)


def _release(args: argparse.Namespace) -> int:
    def act(node: Client, target: str) -> tuple[Counts, str]:
        jobs = node.release(target)
        return {"jobs": jobs}, f"released {_jobs(jobs)}{_whole(target, jobs)}"

    return _each(args, act)


def _retry(args: argparse.Namespace) -> int:
    def act(node: Client, target: str) -> tuple[Counts, str]:
        jobs = node.retry(
            target, held=args.held, cancelled=args.cancelled, unreachable=args.unreachable, memory=args.memory
        )
        more = f", with {args.memory} of memory" if args.memory else ""
        return {"jobs": jobs}, f"trying {_jobs(jobs)} again{_whole(target, jobs)}{more}"

    return _each(args, act)


def _drop_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="groups that are over")
    parser.add_argument(
        "--older-than", type=duration_s, metavar="TIME", help="all groups of mine that have been over for so long"
    )
    parser.add_argument(
        "--outputs", action="store_true", help="also the outputs that lie at the node, and nowhere else"
    )
    add_json(parser, "DropResponse")
    add_node(parser)


def _drop(args: argparse.Namespace) -> int:
    if bool(args.groups) == (args.older_than is not None):
        raise UsageError("drop: name groups, or say which: --older-than 30d")
    with client(args) as node:
        groups = args.groups if args.groups else _over_for(node, args.older_than)
        dropped: list[str] = []
        left: list[GroupLeft] = []
        # Those that are named go together or not at all, so that the node refuses more of them than it takes at once.
        at_once = len(groups) if args.groups else _AT_ONCE
        for at in range(0, len(groups), at_once):
            answer = node.drop(groups[at : at + at_once], outputs=args.outputs, each=not args.groups)
            dropped += answer.groups
            left += answer.left
    if args.json:
        output.print_json({"groups": dropped, "left": [{"group": one.group, "why": one.why} for one in left]})
        return 0
    for one in left:
        complain(one.why)
    shown = ", ".join(dropped[:_SHOWN]) + (f" and {len(dropped) - _SHOWN} more" if len(dropped) > _SHOWN else "")
    output.say(
        f"dropped {shown}" if dropped else "no group of yours has been over for so long" if not left else "dropped none"
    )
    return 0


def _over_for(node: Client, age_s: float) -> list[str]:
    """Return the caller's groups that have been over for longer, the oldest first."""
    now_s = time.time()
    found = [
        (group.submitted_wall_s, group.group)
        for group in node.groups(mine=True).groups
        if group.final and now_s - group.submitted_wall_s - max(0.0, group.last_end_s) > age_s
    ]
    return [group for _, group in sorted(found)]


COMMANDS = {
    "cancel": Command(
        _cancel_options,
        _cancel,
        "Jobs that run get SIGTERM and, when their grace is over (`grace` of the job file: 5 s, if it says nothing),\n"
        "SIGKILL; outputs that are there by then come home. Groups that wait for a cancelled one are held until it is\n"
        "retried, unless --dependents cancels them too.",
        """
diana cancel alpha-12
diana cancel --dependents alpha-12
diana cancel alpha-12.3
diana cancel 'alpha-12.[3-9,12]'
""",
    ),
    "checkpoint": Command(
        _options("MoveResponse"),
        _checkpoint,
        "Jobs that run save their state as the [checkpoint] of their job file says, and stop. Once all files of it\n"
        "are here, each goes on from there, where it is best. One that does not heed the signal runs on.",
        """
diana checkpoint alpha-12
diana checkpoint alpha-12.3
diana checkpoint 'alpha-12.[3-9,12]'
""",
    ),
    "drop": Command(
        _drop_options,
        _drop,
        "The node forgets them: results, logs, and a day later files that were uploaded for them. Their keys are\n"
        "free again, and groups to come cannot name them in --after. A site forgets groups by itself after keep_s\n"
        "(30 days).\n"
        "Outputs are never deleted unasked: a group that has some at the node stays, unless --outputs.\n"
        "Those in a folder of yours (--to), at a URL or in a dataset stay in any case.",
        """
diana drop alpha-12
diana drop alpha-12 alpha-13
diana drop --outputs alpha-12
diana drop --older-than 7d
""",
    ),
    "hold": Command(
        _options("HoldResponse"),
        _hold,
        "Jobs that have started run on; what a machine was given ahead and has not begun it gives back.",
        """
diana hold alpha-12
diana hold alpha-12.3
diana hold 'alpha-12.[3-9,12]'
""",
    ),
    "move": Command(
        _move_options,
        _move,
        "Jobs that have started run on where they are, unless their job file has a [checkpoint]: then they save their\n"
        "state, stop, and go on from it there. Jobs that a machine has not begun are given back. A site that\n"
        "cannot take them after all ends the order; they then go where it is best, and diana explain says why.",
        """
diana move alpha-12 --to beta
diana move 'alpha-12.[3-9,12]' --to beta
""",
    ),
    "release": Command(
        _options("ReleaseResponse"),
        _release,
        "All that is named must be held, else nothing changes.",
        """
diana release alpha-12
diana release alpha-12.3
diana release 'alpha-12.[3-9,12]'
""",
    ),
    "retry": Command(
        _retry_options,
        _retry,
        "Of what is named only the failed jobs, unless options say more. A merge that failed is tried again too.",
        """
diana retry alpha-12
diana retry --held 'alpha-12.[3-9]'
diana retry --cancelled --held alpha-12
diana retry --unreachable alpha-12
diana retry --memory 2x alpha-12
""",
    ),
}
