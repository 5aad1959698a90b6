"""`diana site ORDER`: an operator's orders about a site, each in a module of its own."""

from __future__ import annotations

import argparse
from importlib import import_module

from diana.cli.shared.parsing import Command, add_json, add_node
from diana.errors import UsageError

ORDERS = {
    "run-as": "sites.run_as",
    **dict.fromkeys(
        ("drain", "undrain", "ban", "unban", "give-up", "remove-machine", "go-on", "promote"), "sites.orders"
    ),
}
"""Order -> module of diana/cli whose `run` carries it out."""

_GOES_WITH = {
    "reason": ("drain", "ban"),
    "from_time": ("drain",),
    "to_time": ("drain",),
    "force": ("promote",),
    "remove": ("promote",),
}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] ORDER [NAME]"
    parser.add_argument("order", choices=sorted(ORDERS), metavar="ORDER", help=", ".join(sorted(ORDERS)))
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="of ban and unban: a site, user:NAME@VO or member:SITE/MACHINE; of remove-machine: it; of give-up and"
        " go-on: a site; of run-as: check or install",
    )
    parser.add_argument("--reason", metavar="TEXT", help="shown to everybody who meets the drain or the ban")
    parser.add_argument(
        "--from",
        dest="from_time",
        metavar="TIME",
        help="drain for maintenance from then on, 2031-05-01T08:00+02:00; now, without it",
    )
    parser.add_argument("--to", dest="to_time", metavar="TIME", help="drain until then; work is taken again by itself")
    parser.add_argument(
        "--force", action="store_true", help="promote, asked of a standby: lead; the other machine is dead for good"
    )
    parser.add_argument(
        "--remove", action="store_true", help="promote, asked of the leader: lead alone, count on no standby any more"
    )
    add_json(parser, "key text")
    add_node(parser)


def _run(args: argparse.Namespace) -> int:
    if args.order == "promote" and args.force and args.remove:
        raise UsageError("site promote: --force is for a standby, --remove for the leader; give one of them")
    if args.order == "promote" and args.name:
        raise UsageError(
            f"site promote: a site has one standby; leave {args.name!r} out, --data says which node is asked"
        )
    for option, orders in _GOES_WITH.items():
        if getattr(args, option) and args.order not in orders:
            option = option.removesuffix("_time")
            raise UsageError(f"site {args.order}: --{option} goes with {' and '.join(orders)}; leave it out")
    code: int = import_module(f"diana.cli.{ORDERS[args.order]}").run(args)
    return code


COMMANDS = {
    "site": Command(
        _options,
        _run,
        "drain: this site takes no new work, what has started runs out, what waits goes elsewhere.\n"
        "  With --from and --to: for that time, and nothing is started before that would not end in time; undrain\n"
        "  drops what was announced so. What comes weekly stands in site.toml.\n"
        "ban: the whole VO trusts a site, a machine or a user no more, within a minute; only a signer's operator may.\n"
        "give-up: jobs of this site at a banned or lost one are placed anew; what runs there may run twice.\n"
        "remove-machine: a member machine is gone for good; what it ran counts as interrupted.\n"
        "go-on: after this site's database was put back, no longer wait for what a site that is gone could tell.\n"
        "run-as check: whether the accounts of [run_as] can run jobs; run-as install, as root: the program for it.\n"
        "promote, asked of the leader: its standby leads from then on. With --force, asked of the standby: it takes\n"
        "over from a machine that is dead for good; what only that one knew is given up, and nothing that was not\n"
        "over is started by itself. See docs/standby.md.",
        """
diana site drain --reason "power cut on Friday"
diana site undrain
diana site drain --from 2031-05-01T08:00Z --to 2031-05-01T18:00Z --reason "new switches"
diana site ban beta --reason "stolen machine"
diana site ban user:ann@alpha-vo
diana site unban beta
diana site give-up beta
diana site remove-machine m2
diana site go-on gamma
diana site run-as check
diana site run-as install
diana site promote
diana site promote --force --data /srv/alpha-spare
diana site promote --remove
""",
    ),
}
