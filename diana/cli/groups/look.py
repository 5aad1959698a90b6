"""Verbs that only look: status, explain, sites."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, client, duration_s

if TYPE_CHECKING:
    from diana.client import Client
    from diana.model.views.group import GroupStatus, SiteShare
    from diana.wire.client.messages import StatusResponse
    from diana.wire.client.sites import Guarded, Site

_SUMMED = ("jobs", "staging", "queued", "held", "running", "done", "failed")
SEEN_AGE_S = 5.0
"""A site heard of within this counts as heard of now; older ages are shown."""


def _status_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help="these groups, with each site's share (default: all)"
    )
    parser.add_argument("--mine", "--me", action="store_true", help="only my groups")
    parser.add_argument("--active", action="store_true", help="only groups that are not over")
    parser.add_argument(
        "--watch", nargs="?", const=2.0, type=duration_s, metavar="TIME", help="show again every TIME (default 2s)"
    )
    add_json(parser, "StatusResponse")
    add_node(parser)


def _status(args: argparse.Namespace) -> int:
    with client(args) as node:
        while True:
            if args.watch and output.on_terminal():
                sys.stdout.write("\033[H\033[2J")
            _show_status(args, node)
            if not args.watch:
                return 0
            sys.stdout.flush()
            time.sleep(args.watch)


def _show_status(args: argparse.Namespace, node: Client) -> None:
    found = _asked(args, node)
    groups = found.groups
    if args.json:
        output.print_json(found)
        return
    if not groups:
        info = node.info()
        # A member machine keeps none: how it is says more. So does one of two that lead a site.
        none = "no groups" + (" that are not over" if args.active else "")
        standing = [info.standing] if info.standing else []
        output.say("; ".join([none, *standing] if info.durability or not standing else standing))
        return
    output.print_table(
        ("GROUP", "NAME", "STATE", ">JOBS", "LEVEL", "PROGRESS", ">DONE", ">FAILED", ">RUNNING", ">WAITING", ">AGE"),
        [_status_row(group) for group in groups],
        least=("LEVEL", "AGE", "NAME", "WAITING", "RUNNING", "FAILED", "PROGRESS"),
    )
    if found.left_out:
        print(f"and {output.counted(found.left_out, 'older group')}; diana status GROUP shows any of them")
    for group in groups:
        if args.groups:
            _show_shares(group)
        elif group.note:
            output.say(f"{group.group}: {group.note}")


def _asked(args: argparse.Namespace, node: Client) -> StatusResponse:
    if not args.groups:
        return node.groups(mine=args.mine, active=args.active)
    from diana.wire.client.messages import StatusResponse

    return StatusResponse(groups=node.status(args.groups, mine=args.mine, active=args.active))


def _status_row(group: GroupStatus) -> tuple[object, ...]:
    drawn = output.bar([(group.done, "#"), (group.failed + group.cancelled, "x"), (group.running, "-")], group.jobs)
    waiting = group.unplaced + group.staging + group.queued
    return (
        group.group,
        group.name or "-",
        group.state,
        f"{group.jobs:,}",
        _level(group),
        drawn,
        f"{group.done:,}",
        f"{group.failed:,}",
        f"{group.running:,}",
        f"{waiting:,}",
        output.seconds(group.age_s),
    )


def _level(row: GroupStatus | SiteShare) -> str:
    return f"{row.level} {row.priority:.3f}" if row.level else "-"


def _show_shares(group: GroupStatus) -> None:
    print()
    others = output.fields(group, "unplaced", "cancelled", "held", "unreachable", "gathering")
    facts = [
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
    parser.add_argument("group", metavar="GROUP")
    add_json(parser, "ExplainResponse")
    add_node(parser)


def _explain(args: argparse.Namespace) -> int:
    from diana.cli.groups.decisions import show_called, show_decision, show_moves, show_outcomes
    from diana.cli.groups.queue import show_waiting

    with client(args) as node:
        explained = node.explain(args.group)
        note = "" if explained.decisions or args.json else node.status([args.group])[0].note
    if args.json:
        output.print_json(explained)
        return 0
    if not explained.decisions:
        output.say(f"{args.group}: not placed yet; {note or f'diana status {args.group} says how far it is'}")
    moves = [decision for decision in explained.decisions if decision.moved]
    others = [decision for decision in explained.decisions if not decision.moved]
    planned = [decision for decision in others if decision.candidates]
    for number, decision in enumerate(planned):
        if number:
            print()
        show_decision(decision)
    show_called([decision for decision in others if not decision.candidates])
    show_moves(moves)
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


_SITES = (
    "SITE", "STATE", ">HEARD", ">SLOTS", ">FREE", ">RUNNING", ">QUEUED", ">AHEAD", ">MACHINES", ">SPEED", ">RTT",
    ">RATE", "DATASETS",
)  # fmt: skip
_SITES_LEAST = ("DATASETS", "RATE", "SPEED", "MACHINES", "RTT", "AHEAD", "HEARD", "RUNNING")


def show_sites(sites: Sequence[Site]) -> None:
    """This site first, the others by name."""
    rows = [_site_row(site) for site in sorted(sites, key=lambda site: (not site.home, site.site))]
    output.print_table(_SITES, rows, least=_SITES_LEAST)
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
        "A site that cannot be reached is shown with the age of what is known, never as an error.",
        """
diana status
diana status alpha-12
diana status --mine --active --watch
""",
    ),
    "explain": Command(
        _explain_options,
        _explain,
        "The decision as it was recorded, with the price of every site looked at; and for what still waits, which\n"
        "numbers put it in its level, what would raise it and when it is predicted to start.",
        """
diana explain alpha-12
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
