"""`diana links`: what is known of the links between sites, and how the sites lie to each other."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, client

if TYPE_CHECKING:
    from diana.model.views.link import LinkMap, LinkView, NearSite

_COLUMNS = ("FROM", "TO", ">RTT", ">JITTER", ">LOSS", ">RATE", ">+-ERROR", "PREDICTOR", ">SAMPLES", ">AGE", "SEEN BY")
_LEAST = ("SAMPLES", "SEEN BY", "JITTER", "PREDICTOR", "LOSS", "AGE")
_NEAR = ("SITE", ">RTT", ">RATE", "SHORTEST WAY", ">RTT", "WIDEST WAY", ">RATE")


def _options(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--from", dest="source", metavar="SITE", default="", help="only links data of SITE come over")
    which.add_argument("--paths", metavar="SITE", default="", help="the sites nearest to SITE and the best ways")
    add_json(parser, "LinkMap")
    add_node(parser)


def _links(args: argparse.Namespace) -> int:
    with client(args) as node:
        found = node.links(args.source, paths=args.paths)
    if args.json:
        output.print_json(found)
    elif args.paths:
        show_near(found, args.paths)
    else:
        show_links(found)
    return 0


def show_links(found: LinkMap) -> None:
    if not found.links:
        print("no link was measured yet; round trips are asked for as soon as a peer is there: diana sites")
        return
    output.print_table(_COLUMNS, [_row(found, row) for row in found.links], least=_LEAST)
    if found.links_left_out:
        print(f"and {output.counted(found.links_left_out, 'more link')}")


def _row(found: LinkMap, row: LinkView) -> tuple[object, ...]:
    return (
        _place(found, row.source),
        _place(found, row.target),
        output.milliseconds(row.rtt_s),
        output.milliseconds(row.jitter_s),
        percent(row.loss),
        output.rate(row.bytes_per_s),
        percent(row.error),
        row.predictor or "-",
        f"{row.samples:,}",
        output.seconds(row.age_s),
        row.target if row.told else "this node",
    )


def _place(found: LinkMap, site: str) -> str:
    return f"{site} (here)" if site == found.site else site


def show_near(found: LinkMap, site: str) -> None:
    if not found.near:
        output.say(f"no link of {site} is known yet; see diana links")
        return
    output.print_table(_NEAR, [_near_row(row) for row in found.near])
    if any(row.estimated and row.rtt_s >= 0 for row in found.near):
        print("~ nobody measured this pair: estimated by triangle through the sites both know")


def _near_row(row: NearSite) -> tuple[object, ...]:
    shown = output.milliseconds(row.rtt_s)
    return (
        row.site,
        f"~{shown}" if row.estimated and row.rtt_s >= 0 else shown,
        output.rate(row.bytes_per_s),
        _way(row.shortest),
        output.milliseconds(row.shortest_s),
        _way(row.widest),
        output.rate(row.widest_bytes_per_s),
    )


def _way(sites: tuple[str, ...]) -> str:
    return " > ".join(sites) or "-"


def percent(share: float) -> str:
    return "-" if share < 0 else f"{share * 100:.1f}%"


COMMANDS = {
    "links": Command(
        _options,
        _links,
        "Each row: TO fetches from FROM. RTT and RATE are forecasts by the predictor that was wrong least so far.\n"
        "+-ERROR is its past error on RATE; AGE that of the newest sample of RATE, or of RTT where RATE was never\n"
        "measured. Rows other sites told of stand below this node's own. A site out of reach stays with its age.",
        """
diana links
diana links --from beta
diana links --paths alpha
""",
    ),
}
