"""Verbs that only look: status, explain, sites."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from diana.cli.groups.gangs import progress, up_to
from diana.cli.groups.jobs import show_job, status_of_jobs
from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, at_least, client, duration_s
from diana.cli.shared.patience import NodePatience, insisting

if TYPE_CHECKING:
    from diana.client import Client
    from diana.model.views.group import GroupStatus, SiteShare
    from diana.model.views.site import Guarded, Site
    from diana.wire.client.messages import StatusResponse

_SUMMED = ("jobs", "staging", "queued", "held", "running", "done", "failed")
LIMIT = 20
"""Groups that are shown where nobody says how many."""
SEEN_AGE_S = 5.0
"""A site heard of within this counts as heard of now; older ages are shown."""


def _status_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "groups",
        nargs="*",
        metavar="GROUP",
        help="these groups, with each site's share, or jobs of a group (alpha-12.3, 'alpha-12.[3-9]') (default: all)",
    )
    parser.add_argument("--mine", "--me", action="store_true", help="only my groups")
    parser.add_argument("--active", action="store_true", help="only groups that are not over")
    parser.add_argument(
        "--limit",
        type=at_least(0),
        metavar="N",
        help="at most so many groups, open ones before others; 0: all (default: as many as fit the terminal, 20"
        " without --watch; with --json all)",
    )
    parser.add_argument(
        "--watch", nargs="?", const=2.0, type=_time_or_group, metavar="TIME", help="show again every TIME (default 2s)"
    )
    add_json(parser, "StatusResponse; of jobs JobStory, one job per line")
    add_node(parser)


def _time_or_group(text: str) -> float | str:
    """`--watch alpha-12` means the group: no duration begins with a letter, and each group with one."""
    return text if text[:1].isalpha() else duration_s(text)


def _status(args: argparse.Namespace) -> int:
    if isinstance(args.watch, str):
        args.groups, args.watch = [args.watch, *args.groups], 2.0
    if any("." in target for target in args.groups):
        return status_of_jobs(args)
    patience = NodePatience()
    with client(args) as node:
        while True:
            found = insisting(patience, lambda: _asked(args, node)) if args.watch else _asked(args, node)
            if args.watch and output.on_terminal():
                sys.stdout.write("\033[H\033[2J")
            _show_status(args, node, found)
            if not args.watch:
                return 0
            sys.stdout.flush()
            time.sleep(args.watch)


_STATUS = (
    "GROUP", "NAME", "STATE", ">JOBS", "GANGS", "LEVEL", "PROGRESS", ">DONE", ">FAILED", ">RUNNING", ">WAITING", ">AGE",
)  # fmt: skip
_STATUS_LEAST = ("LEVEL", "AGE", "GANGS", "WAITING", "RUNNING", "PROGRESS", "FAILED", "NAME")
_SHORT_BAR, _NARROW = 10, 100
"""Marks of a bar where the terminal has fewer columns: the numbers beside it say more."""
_WIDEST_NAME = 24
"""Characters of a name that a terminal shows: a longer one would push the numbers out."""


def _show_status(args: argparse.Namespace, node: Client, found: StatusResponse) -> None:
    if args.json:
        output.print_json(found)
        return
    # As asked for by name; else the newest is what somebody wants to see.
    groups = found.groups if args.groups else tuple(reversed(found.groups))
    if not groups:
        info = node.info()
        # A member machine keeps none: how it is says more. So does one of two that lead a site.
        none = "no groups" + (" that are not over" if args.active else "")
        standing = [info.standing] if info.standing else []
        output.say("; ".join([none, *standing] if info.durability or not standing else standing))
        return
    # Gangs have a column of their own where there are any: beside the jobs they would push others out.
    gangs = any(group.gangs for group in groups)
    output.print_table(
        [name for name in _STATUS if gangs or name != "GANGS"],
        [_status_row(group, gangs=gangs) for group in groups],
        least=_STATUS_LEAST,
    )
    if found.left_out:
        way = "diana status --limit 0 shows all" if _limit(args) else "diana status GROUP shows any of them"
        print(f"and {output.counted(found.left_out, 'older group')}; {way}")
    if output.on_terminal() and not args.groups and args.limit is None:
        _show_notes(groups, left_out=bool(found.left_out))
        return
    for group in groups:
        if args.groups:
            _show_shares(group)
        for line in _said_of(group)[bool(args.groups and group.note) :]:
            output.say(line)


def _said_of(group: GroupStatus) -> list[str]:
    """Its note, and how to free what is held."""
    said = [f"{group.group}: {group.note}"] if group.note else []
    if (freed := freeing(group)) and freed not in group.note:
        held = output.counted(group.held, "job is", "jobs are") if group.held else "it is"
        said.append(f"{group.group}: {held} held; {freed} has it go on")
    return said


def _show_notes(groups: Sequence[GroupStatus], *, left_out: bool) -> None:
    """A line each, as many as the terminal has room for below the table: of open groups before others."""
    width, height = shutil.get_terminal_size()
    said = [line for final in (False, True) for group in groups if group.final == final for line in _said_of(group)]
    # The heading, what had no room, older groups, and the line that the cursor is on.
    room = max(1, height - len(groups) - 3 - left_out)
    for line in said[: room if len(said) <= room else room - 1]:
        output.say(line if len(line) <= width else f"{line[: width - 3]}...")
    if len(said) > room:
        print(f"and {output.counted(len(said) - room + 1, 'more note')}; diana status --limit 0 shows all")


def freeing(group: GroupStatus) -> str:
    """The command that has a group's held jobs go on; empty: none are held."""
    if group.state == "held" and group.final:
        if group.after and group.note.startswith("waits for"):
            # What it waits for is to be tried again, and its note says so.
            return ""
        return f"diana retry --held {group.group}"
    return f"diana release {group.group}" if group.held and not group.final else ""


def _asked(args: argparse.Namespace, node: Client) -> StatusResponse:
    if not args.groups:
        return node.groups(mine=args.mine, active=args.active, limit=_limit(args))
    from diana.wire.client.messages import StatusResponse

    return StatusResponse(groups=node.status(args.groups, mine=args.mine, active=args.active))


def _limit(args: argparse.Namespace) -> int:
    if args.limit is not None or args.json:
        return args.limit or 0
    if not output.on_terminal():
        return LIMIT
    # Below the heading, and above some lines of what is said of the groups.
    fitting = max(3, shutil.get_terminal_size().lines - 8)
    return fitting if args.watch else min(fitting, LIMIT)


def _status_row(group: GroupStatus, *, gangs: bool) -> tuple[object, ...]:
    parts = [(group.done, "#"), (group.failed + group.cancelled, "x"), (group.running, "-")]
    drawn = output.bar(parts, group.jobs, _SHORT_BAR if output.on_terminal() and output.columns() < _NARROW else 20)
    waiting = group.unplaced + group.staging + group.queued
    name = group.name or "-"
    if output.on_terminal() and len(name) > _WIDEST_NAME:
        name = f"{name[: _WIDEST_NAME - 3]}..."
    return (
        group.group,
        name,
        group.state,
        f"{up_to(group)}{group.jobs:,}",
        *([progress(group) or "-"] if gangs else []),
        _level(group),
        drawn,
        f"{group.done:,}",
        f"{group.failed:,}",
        f"{group.running:,}",
        f"{up_to(group)}{waiting:,}",
        output.seconds(group.age_s),
    )


def _level(row: GroupStatus | SiteShare) -> str:
    return f"{row.level} {row.priority:.3f}" if row.level else "-"


def _show_shares(group: GroupStatus) -> None:
    print()
    others = output.fields(group, "unplaced", "cancelled", "held", "unreachable", "gathering")
    facts = [
        *([progress(group)] if group.gangs else []),
        f"owner {group.owner}",
        *others,
        f"{output.size(group.bytes_moved)} moved",
        f"durability {group.durability}",
    ]
    if group.after:
        facts.append(f"after {', '.join(group.after)}")
    if group.dataset:
        facts.append(f"{'registered as' if group.state == 'done' else 'to be'} dataset:{group.dataset}")
    output.heading(f"{group.group}: {', '.join(facts)}")
    if not group.final:
        output.say(expected_line(group))
    if group.note:
        output.say(group.note)
    if group.failed and not group.gangs:
        output.say(f"why jobs failed: diana logs --failed {group.group}, diana results {group.group} --outcome failed")
    for line in group.notices:
        output.say(f"notify {line}")
    if group.shares:
        output.print_table(
            (
                "SITE",
                ">JOBS",
                ">STAGING",
                ">QUEUED",
                ">HELD",
                ">RUNNING",
                ">DONE",
                ">FAILED",
                "STATE",
                "LEVEL",
                ">HEARD",
            ),
            [
                (
                    share.site,
                    f"{share.jobs:,}",
                    f"{share.staging:,}",
                    f"{share.queued:,}",
                    f"{share.held:,}",
                    f"{share.running:,}",
                    f"{share.done:,}",
                    f"{share.failed:,}",
                    share.state,
                    _level(share),
                    heard(share.age_s),
                )
                for share in by_site(group.shares)
            ],
            least=("HEARD", "LEVEL", "STAGING", "HELD", "STATE"),
        )


def by_site(shares: Sequence[SiteShare]) -> list[SiteShare]:
    """Shares of one site in one state, on one level, as one: each call of a site makes a share of its own."""
    from msgspec.structs import replace

    merged: dict[tuple[str, str, str], SiteShare] = {}
    for share in shares:
        key = (share.site, share.state, _level(share))
        old = merged.get(key)
        if old is not None:
            sums = {name: getattr(old, name) + getattr(share, name) for name in _SUMMED}
            share = replace(share, **sums, age_s=max(old.age_s, share.age_s))
        merged[key] = share
    return list(merged.values())


def expected_line(group: GroupStatus) -> str:
    """When it is to end, from now on, with the range that holds eight of ten."""
    if group.expected_end_s <= 0:
        return "expected end: not known yet"
    left_s = group.expected_end_s - group.age_s
    when = f"in {output.seconds(left_s)}" if left_s >= 0 else f"{output.seconds(-left_s)} ago; it is late"
    spread = output.between(max(0.0, group.expected_low_s - group.age_s), group.expected_high_s - group.age_s)
    known = group.expected_high_s > 0
    if known and group.expected_high_s <= group.age_s:
        return f"expected end: {when}"
    return f"expected end: {when}, range " + (f"in {spread}" if known and spread else "not known yet")


def heard(age_s: float) -> str:
    """An age as a table shows it."""
    return "now" if 0 <= age_s < SEEN_AGE_S else f"{output.seconds(age_s)} ago" if age_s >= 0 else "never"


def _explain_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="a group, or one job of it (alpha-12.3)")
    add_json(parser, "ExplainResponse")
    add_node(parser)


def _explain(args: argparse.Namespace) -> int:
    from diana.cli.groups.conditions import show_conditions
    from diana.cli.groups.contracts import contract_lines
    from diana.cli.groups.decisions import show_called, show_decision, show_moves, show_outcomes
    from diana.cli.groups.gangs import gang_lines, run_lines
    from diana.cli.groups.queue import show_waiting

    with client(args) as node:
        explained = node.explain(args.group)
        if args.json:
            output.print_json(explained)
            return 0
        whole = explained.job is None
        # Of gangs the latest is shown whole, as all of a group ask for the same.
        of_gangs = [one for one in explained.decisions if one.gang is not None and not one.moved]
        latest = of_gangs[-1] if of_gangs else None
        asks = whole and (latest or explained.gangs or explained.begun or not explained.decisions)
        status = node.status([args.group])[0] if asks else None
    if explained.job is not None:
        show_job(explained.job, at_barrier=bool(explained.gangs))
        if explained.decisions:
            print()
    elif status is not None and not explained.decisions:
        why = status.note or f"diana status {args.group} says how far it is"
        output.say(f"{args.group}: not placed yet; {why}")
    moves = [decision for decision in explained.decisions if decision.moved]
    others = [decision for decision in explained.decisions if not decision.moved]
    planned = [decision for decision in others if decision.candidates or decision is latest]
    for number, decision in enumerate(planned):
        if number:
            print()
        show_decision(decision)
    several = status is not None and status.gangs != 1
    earlier = "earlier plans, of its other gangs too:" if several else "earlier tries:"
    if latest is not None and latest.requirements is None:
        tables = [one.requirements for one in explained.decisions if one.requirements is not None]
        if tables:
            show_conditions(tables[-1], "as of an earlier plan")
    if explained.refused is not None and explained.refused.requirements is not None:
        show_conditions(explained.refused.requirements, "when it was last looked for a place", refused=True)
    show_called([decision for decision in others if decision not in planned], earlier if latest else "")
    show_moves(moves)
    if len(of_gangs) > 1 and several:
        output.say(f"the latest plan is shown whole; diana explain {args.group}.N: that of the gang of job N")
    if explained.gangs:
        print(f"\nits gang{'s that have' if whole else ' has'} not begun:")
        for line in gang_lines(explained.gangs):
            output.say(line)
        if status is not None and (more := status.gangs_waiting - len(explained.gangs)) > 0:
            output.say(f"and {output.counted(more, 'more gang')}")
    if explained.begun:
        print(f"\nits gang{'s that were' if whole else ' was'} let go:")
        for line in run_lines(explained.begun):
            output.say(line)
        if status is not None and (more := status.gangs - status.gangs_waiting - len(explained.begun)) > 0:
            output.say(f"and {output.counted(more, 'more gang')}; diana explain {args.group}.N: that of job N")
    if latest and status is not None and status.final and status.note:
        print()
        output.say(status.note)
    if explained.contracts:
        print("\nits running jobs that report their steps:")
        for line in contract_lines(args.group, explained.contracts):
            output.say(line)
    for line in (*explained.exchanges, *explained.ways):
        output.say(line)
    show_waiting(explained.waiting)
    for reason in explained.stays:
        output.say(f"stays {reason}")
    show_outcomes(explained)
    return 0


def _sites_options(parser: argparse.ArgumentParser) -> None:
    add_json(parser, "SitesResponse")
    add_node(parser)


def _sites(args: argparse.Namespace) -> int:
    with client(args) as node:
        sites = node.sites()
    if args.json:
        from diana.wire.client.sites import SitesResponse

        output.print_json(SitesResponse(sites=sites))
        return 0
    show_sites(sites)
    return 0


_SITES: tuple[str, ...] = (
    "SITE", "STATE", ">HEARD", ">SLOTS", ">FREE", ">RUNNING", ">QUEUED", ">AHEAD", ">MACHINES", ">SPEED", ">RTT",
    ">RATE", "DATASETS",
)  # fmt: skip
_SITES_LEAST: tuple[str, ...] = ("DATASETS", "RATE", "SPEED", "MACHINES", "RTT", "AHEAD", "HEARD", "RUNNING")


def _told(site: Site) -> Iterator[str]:
    """Yield what the site's operator declares, by the names that requirements have for it."""
    if site.domain:
        yield f"site.domain = {site.domain!r}"
    if site.memory_bytes:
        yield f"site.memory_bytes = {site.memory_bytes}"
    if site.gpus:
        yield f"site.gpus = {site.gpus}"
    for name, text in site.properties.items():
        yield f"site.properties.{name} = {text!r}"
    for name, most in site.resources.items():
        yield f"site.resources.{name} = {most}"


def show_sites(sites: Sequence[Site]) -> None:
    """This site first, the others by name."""
    ordered = sorted(sites, key=lambda site: (not site.home, site.site))
    output.print_table(_SITES, [_site_row(site) for site in ordered], least=_SITES_LEAST)
    if declared := [site for site in ordered if site.domain or site.properties or site.resources]:
        print("\nwhat requirements may name of them (--json has it of all):")
        for site in declared:
            output.say(f"{site.site}: {', '.join(_told(site))}")
    for site in sites:
        if site.note:
            output.say(f"{site.site}: {site.note}")
    now_s = time.time()
    for site in sites:
        for row in site.guarded:
            output.say(guarded_line(site.site, row, now_s))
        if site.guarded_more:
            output.say(f"{site.site}: and {site.guarded_more:,} more that the guard holds back")


def guarded_line(site: str, row: Guarded, now_s: float) -> str:
    """One line on work that the black-hole guard holds back: which, for how long, why, when it is tried again, what
    lifts it."""
    where = f"machine {row.machine} of {site}" if row.machine else site
    what = f"{row.group} is" if row.group else "groups that are new are"
    stand = "on probation" if row.stand == "probation" else row.stand
    so_long = output.seconds(max(0.0, now_s - row.since_wall_s))
    left_s = row.until_wall_s - now_s
    again = (
        "not tried again by itself"
        if not row.until_wall_s
        else "tried again " + (f"in {output.seconds(left_s)}" if left_s > 0 else "now")
    )
    return f"guard: {what} {stand} at {where} for {so_long} ({row.why}), {again}; lifted by {row.lifts}"


def _site_row(site: Site) -> tuple[object, ...]:
    return (
        f"{site.site} (here)" if site.home else site.site,
        site.note.partition(":")[0] or site.state,
        heard(site.age_s),
        site.slots,
        site.free_slots,
        f"{site.running_jobs:,}",
        f"{site.queued_jobs:,}",
        output.seconds(site.work_ahead_s),
        site.machines or "-",
        f"{site.speed:g}",
        "-" if site.home else output.milliseconds(site.rtt_s),
        "-" if site.home else output.rate(site.bytes_per_s),
        _names(site.datasets),
    )


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown or "-"


COMMANDS = {
    "status": Command(
        _status_options,
        _status,
        "A site that cannot be reached is shown with the age of what is known, never as an error.\n"
        "Of one job: where it stands and since when, or how it ended and what it used, and the commands that go on.",
        """
diana status
diana status alpha-12
diana status alpha-12.3
diana status --watch alpha-12
diana status --mine --active --watch
""",
    ),
    "explain": Command(
        _explain_options,
        _explain,
        "The decision as it was recorded, with the price of every site looked at; and for what still waits, which\n"
        "numbers put it in its level, what would raise it and when it is predicted to start. Of one job: where it\n"
        "stands, or how it ended and what it used, and the decision that put it there.",
        """
diana explain alpha-12
diana explain alpha-12.3
diana explain --json alpha-12
""",
    ),
    "sites": Command(
        _sites_options,
        _sites,
        "A site that cannot be reached is shown with the age of what is known, never as an error;\n"
        "a drained or banned one with the reason below the table; and what the black-hole guard holds back there, by\n"
        "site, group and machine: since when, why, when one job is tried again, and what lifts it.\n"
        "HEARD: age of the newest word of it. AHEAD: how long its slots are busy with what is there already.\n"
        "RTT, RATE: of the link from there to here, forecast. A narrow terminal gets fewer columns; --json has all.",
        """
diana sites
diana sites --json
""",
    ),
}
