"""`diana queue`: a site's four levels, who waits in them, and when they are predicted to start."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, client

if TYPE_CHECKING:
    from diana.model.views.queue import LittlesCheck, QueueClass, QueueView, Waiting

WORDS = {"Q1": "first", "Q2": "next", "Q3": "later", "Q4": "last"}
"""Turn of each level, for people."""
LEVELS = {"Q1": "[0.5, 1)", "Q2": "[0, 0.5)", "Q3": "[-0.5, 0)", "Q4": "[-1, -0.5)"}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--site", metavar="SITE", help="another site's queues (default: the node's own)")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also the numbers that order the queue, level by level"
    )
    add_json(parser, "QueueView")
    add_node(parser)


def _queue(args: argparse.Namespace) -> int:
    with client(args) as node:
        queue = node.queue(args.site)
    if args.json:
        output.print_json(queue)
    elif args.verbose:
        show_queue(queue)
    else:
        show_plainly(queue)
    return 0


def show_plainly(queue: QueueView) -> None:
    """Who waits, in which turn, and for how long."""
    busy = _busy(queue)
    waiting = f"{_jobs(queue.queued)} {'waits' if queue.queued == 1 else 'wait'}" if queue.queued else "nothing waits"
    output.heading(f"{queue.site}: {busy}, {waiting}")
    if not queue.queued:
        return
    rows = sorted(queue.classes, key=lambda row: (row.level, -row.priority, row.user, row.processors))
    print()
    output.print_table(
        ("TURN", ">JOBS", "OF", ">PROCESSORS EACH", "STARTS IN", "NOTE", "GROUPS"),
        [
            (
                WORDS.get(row.level, row.level),
                f"{row.jobs:,}",
                row.user,
                row.processors,
                starts_in(row.low_s, row.high_s),
                _plain_note(row),
                _groups(row.parts),
            )
            for row in rows
        ],
        least=("PROCESSORS EACH", "NOTE", "GROUPS"),
    )
    if queue.classes_left_out:
        print(f"and {output.counted(queue.classes_left_out, 'more row')} behind these")
    print()
    if not queue.predictions:
        print("starts are guesses: no wait of this site could be compared with its forecast yet")
    print("diana explain GROUP says why a group waits; --verbose has the numbers")


def _plain_note(row: QueueClass) -> str:
    unready = row.jobs - row.ready
    told = [f"{unready:,} not ready to start"] if unready > 0 else []
    told += ["waited long"] if row.ageing > 0 else []
    told += ["large group"] if row.heavy or row.demoted else []
    return ", ".join(told) or "-"


def _groups(parts: tuple[str, ...]) -> str:
    """The groups of parts such as `alpha-3/0`, each once."""
    return _parts(tuple(dict.fromkeys(part.partition("/")[0] for part in parts)))


def show_queue(queue: QueueView) -> None:
    output.heading(f"{queue.site}, {queue.mode} mode: {_jobs(queue.queued)} queued, {_busy(queue)}")
    if queue.note:
        print(f"{queue.site} {queue.note}")
    wanted = output.counted(queue.total_processors, "processor")
    print(f"what is queued wants T = {wanted}; the quotas of its users make Q = {queue.total_quota:g}")
    for level, bounds in LEVELS.items():
        rows = [row for row in queue.classes if row.level == level]
        print()
        output.heading(f"{level} {bounds}: {_jobs(sum(row.jobs for row in rows))}")
        if rows:
            _show_classes(rows)
    if queue.classes_left_out:
        print(f"and {output.counted(queue.classes_left_out, 'more class', 'more classes')} behind these")
    if queue.users:
        print()
        _show_users(queue)
    print()
    print(littles_line(queue.littles))
    print(predictions_line(queue))


def _busy(queue: QueueView) -> str:
    claimed = f", {queue.claimed:,} claimed" if queue.claimed else ""
    return f"{queue.running:,} running in {output.counted(queue.slots, 'slot')}{claimed}"


def _jobs(count: int) -> str:
    return output.counted(count, "job")


def _show_classes(rows: Sequence[QueueClass]) -> None:
    output.print_table(
        (">PRIORITY", "USER", ">PROCS", "QUEUE", ">JOBS", ">READY", ">n", ">N", ">PR", ">ADDED", "STARTS IN", "PARTS"),
        [
            (
                f"{row.priority:.3f}",
                row.user,
                row.processors,
                row.queue,
                f"{row.jobs:,}",
                f"{row.ready:,}",
                f"{row.n:,}",
                f"{row.allowance:.4g}",
                f"{row.base:.3f}",
                added(row) or "-",
                starts_in(row.low_s, row.high_s),
                _parts(row.parts),
            )
            for row in rows
        ],
        least=("PR", "ADDED", "N", "n", "PARTS", "QUEUE", "READY"),
    )


def _parts(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def added(row: QueueClass | Waiting) -> str:
    """Terms that made Pr the effective priority: `ageing +0.25, heavy, demoted`; empty: none."""
    some = [f"{name} {value:+.4g}" for name, value in (("ageing", row.ageing), ("offset", row.offset)) if value]
    return ", ".join([*some, *(["heavy"] if row.heavy else []), *(["demoted"] if row.demoted else [])])


def starts_in(low_s: float, high_s: float) -> str:
    if low_s < 0:
        return "-"
    low, high = output.seconds(low_s), output.seconds(high_s)
    return "now" if high_s == 0 else low if low == high else f"{low} to {high}"


def _show_users(queue: QueueView) -> None:
    output.print_table(
        ("USER", ">QUOTA", ">QUEUED", ">RUNNING", ">SHARE QUEUED", ">SHARE OF QUOTA", ">SHARE SERVED"),
        [
            (
                user.user,
                f"{user.quota:g}",
                f"{user.queued:,}",
                f"{user.running:,}",
                f"{user.queued_share:.1%}",
                f"{user.quota_share:.1%}",
                f"{user.served_share:.1%}",
            )
            for user in queue.users
        ],
        least=("SHARE SERVED", "SHARE QUEUED", "SHARE OF QUOTA"),
    )


def littles_line(check: LittlesCheck) -> str:
    return (
        f"Little's law over {output.seconds(check.window_s)}: N = {check.mean_queued:.4g} jobs,"
        f" R W = {check.arrivals_per_s:.4g}/s x {output.seconds(check.mean_wait_s)}"
        f" = {check.arrivals_per_s * check.mean_wait_s:.4g}, deviation {check.deviation:+.4g}"
        f" ({check.arrived:,} came, {check.left:,} left)"
    )


def predictions_line(queue: QueueView) -> str:
    if not queue.predictions:
        return f"starts are guesses, {queue.error_low:g} to {queue.error_high:g} times what the work ahead takes"
    return (
        f"starts: past waits were {queue.error_low:.2g} to {queue.error_high:.2g} times"
        f" what was predicted ({queue.predictions} compared)"
    )


# --- why a group waits ---------------------------------------------------------------------------------------


def show_waiting(rows: Sequence[Waiting]) -> None:
    for row in rows:
        print()
        for line in waiting_lines(row):
            output.say(line)


def waiting_lines(row: Waiting) -> list[str]:
    """Lines on waiting jobs: their place in the queue, the numbers that put them there, what would raise them."""
    waits = "waits" if row.jobs == 1 else "wait"
    where = f" at {row.site}" if row.site else ""
    if not row.level:
        # Some notes are the end of that very sentence.
        said = row.note.removeprefix("wait ")
        return [f"{_jobs(row.jobs)} {waits}{where}{' ' if said != row.note else ': '}{said}"]
    starts = starts_in(row.low_s, row.high_s)
    when = f"; starts in {starts}" if row.high_s > 0 else "; starts now" if row.low_s == 0 else ""
    guess = " (a guess)" if row.high_s > 0 and not row.predictions else ""
    lines = [f"{_jobs(row.jobs)} {waits}{where} in {row.level} ({row.queue}), priority {row.priority:.3f}{when}{guess}"]
    if row.note:
        lines.append(f"  does not start yet: {row.note}")
    lines.append(f"  {_why(row)}")
    lines += [f"  {text}" for text in _raises(row)]
    return lines


def _why(row: Waiting) -> str:
    other = "" if abs(row.demand - row.n) < 0.005 else f", which counts as {row.demand:.4g} with the service had,"
    side = "within" if row.base >= 0 else "above"
    text = (
        f"n = {row.n:,} queued by {row.user}{other} is {side} N = {row.allowance:.4g}"
        f" (quota {row.quota:g} of {row.total_quota:g}): Pr {row.base:.3f}"
    )
    more = added(row)
    if row.demoted:
        more += f" by half: beyond job_threshold {row.job_threshold:,}" if row.job_threshold else " by half"
    if row.heavy:
        more += f" (0.25 less: {row.heavy})"
    return f"{text}; {more}" if more else text


def _raises(row: Waiting) -> list[str]:
    if not row.rises_to:
        return ["the highest level; order within it is by priority, then by submission"]
    ways = []
    if row.rises_after_s >= 0:
        anew = " in which no job of this user and size starts" if row.mode == "default" else ""
        ways.append(f"after {output.seconds(row.rises_after_s)} more of waiting{anew}")
    if 0 <= row.rises_at_n < row.n:
        ways.append(f"when {row.user}'s n falls to {row.rises_at_n:,.0f} (N = {row.allowance:.4g})")
    if not ways:
        return [
            f"rises to {row.rises_to} only as others' work leaves or comes: neither waiting nor a smaller n does it"
        ]
    return [f"rises to {row.rises_to} {' or '.join(ways)}"]


COMMANDS = {
    "queue": Command(
        _options,
        _queue,
        "Who waits, best first: the turn is that of one of four levels. With --verbose level by level. n: the user's\n"
        "queued jobs; N: what the quota is worth in such jobs now, of the T\n"
        "processors that all queued jobs want and the quotas Q of all their users; PR: what these give;\n"
        "ADDED: ageing, offsets, demotion. diana explain GROUP says what would raise a group.",
        """
diana queue
diana queue --verbose
diana queue --site beta
diana queue --json
""",
    ),
}
