"""Verbs that bring machines, sites and users into the VO: invite, join."""

from __future__ import annotations

import argparse
import time
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_data, add_gpus, add_json, add_node, at_least, client, duration_s
from diana.cli.sites.given_tokens import HOW, token_from
from diana.cli.sites.site import add_root_jobs, data_of, gpus_of, say_place, say_quota, say_root_jobs

if TYPE_CHECKING:
    from diana.node.enrol.nearest import SiteDistance

ANY = ""


def _invite_options(parser: argparse.ArgumentParser) -> None:
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--site", nargs="?", const=ANY, metavar="NAME", help="another site (this is the default)")
    who.add_argument("--member", nargs="?", const=ANY, metavar="MACHINE", help="a machine that runs jobs for this site")
    who.add_argument(
        "--standby", nargs="?", const=ANY, metavar="MACHINE", help="the machine that can take this site over"
    )
    who.add_argument("--user", metavar="NAME", help="a user, who calls from elsewhere")
    parser.add_argument("--for", dest="for_s", type=duration_s, metavar="TIME", help="how long it holds (default: 1h)")
    parser.add_argument("--at", metavar="HOST:PORT", help="where the newcomer reaches this node, if that is elsewhere")
    parser.add_argument(
        "--again", action="store_true", help="for one of that name that has been in the VO and lost its certificate"
    )
    parser.add_argument("--list", action="store_true", help="show the invitations of this site that are open")
    parser.add_argument("--withdraw", metavar="ID", help="nobody is to join with that one any more")
    add_json(parser, "InviteResponse; for --list and --withdraw a list of OpenInvitation")
    add_node(parser)


def _invite(args: argparse.Namespace) -> int:
    if args.list or args.withdraw:
        return _open(args)
    kind, name = next(
        ((kind, given) for kind in ("site", "member", "standby", "user") if (given := getattr(args, kind)) is not None),
        ("site", ANY),
    )
    with client(args) as node:
        made = node.invite(kind, name, for_s=args.for_s or 0.0, address=args.at or "", again=args.again)
    if args.json:
        output.print_json(made)
        return 0
    until = time.strftime(
        "%H:%M" if made.expires_wall_s - time.time() < 43_200 else "%Y-%m-%d %H:%M", time.localtime(made.expires_wall_s)
    )
    output.say(f"good once, until {until}, for {_whom(made.kind, made.name, made.site)}; on that machine say:")
    print()
    output.say(f"  diana join -{_name_there(made.kind, made.name)}")
    print()
    output.say("and paste the token where it asks for it:")
    print()
    # In no command: all accounts of a machine see the words of one.
    output.say(f"  {made.token}")
    from diana.node.config.site_file import is_loopback

    if all(is_loopback(address) for address in made.addresses):
        print()
        output.say(
            f"only this machine reaches {made.addresses[0]}; for others, set listen in site.toml to an address "
            "of this machine and restart the node"
        )
    return 0


def _open(args: argparse.Namespace) -> int:
    with client(args) as node:
        found = node.invitations(args.withdraw or "")
        site = node.info().site
    if args.json:
        output.print_json(list(found))
    elif args.withdraw:
        output.say(f"{args.withdraw} is withdrawn; nobody joins with it any more")
    elif not found:
        output.say("no invitation is open")
    else:
        for one in found:
            until = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.expires_wall_s))
            output.say(f"{one.id}  for {_whom(one.kind, one.name, site)}, until {until}, made by {one.made_by}")
    return 0


def _whom(kind: str, name: str, site: str) -> str:
    if kind == "member":
        return f"machine {name} of {site}" if name else f"a machine of {site}"
    if kind == "standby":
        return f"the standby of {site}" + (f", {name}" if name else "")
    return f"{kind} {name}" if name else f"a {kind}"


def _name_there(kind: str, name: str) -> str:
    if name:
        return f" {name}"
    return " NAME" if kind == "site" else ""


def _join_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] TOKEN [NAME]"
    parser.add_argument("token", metavar="TOKEN", help=f"what diana invite printed, secret until it is used; {HOW}")
    parser.add_argument(
        "name",
        nargs="?",
        default="",
        metavar="NAME",
        help="of the new site or user; a machine is called as its host unless one is given here or with the invitation",
    )
    parser.add_argument(
        "--or",
        dest="others",
        action="append",
        default=[],
        metavar="TOKEN",
        help="another site's invitation for this machine; the nearest by measured round trip is joined",
    )
    add_data(parser)
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="what the node binds (default: this machine's address on the way to the inviter, from port 7400 on)",
    )
    parser.add_argument("--advertise", metavar="HOST:PORT", help="where others reach it, if that differs; none: nobody")
    parser.add_argument(
        "--slots", type=at_least(0), metavar="N", help="processors jobs may hold (default: all it may use)"
    )
    add_gpus(parser)
    add_root_jobs(parser)
    parser.add_argument(
        "--out", metavar="DIR", help="a user's credential: the folder to make (default: ./NAME-credential)"
    )
    add_json(parser, "keys kind, vo, site, name, listen and data; of a user: user, vo, site and credential")


def _measured(tokens: list[str]) -> list[SiteDistance]:
    """The sites that invited this machine, nearest first; none where one token is given."""
    if len(tokens) == 1:
        return []
    from diana.node.enrol.nearest import nearest

    return nearest(tokens)


def _distances(measured: list[SiteDistance]) -> str:
    first, *others = measured
    told = [f"{one.site} {one.why or f'{one.rtt_s * 1000:.1f} ms'}" for one in others]
    return f"nearest is {first.site}, {first.rtt_s * 1000:.1f} ms; {'; '.join(told)}"


def _join(args: argparse.Namespace) -> int:
    from diana.cli.shared.shapes import DistanceOfSite, Joined, JoinedUser
    from diana.node.enrol.joining import join

    tokens = [token_from(word) for word in (args.token, *args.others)]
    measured = _measured(tokens)
    made = join(
        measured[0].token if measured else tokens[0],
        args.name,
        data=data_of(args),
        listen=args.listen,
        advertise=args.advertise or "",
        slots=args.slots,
        gpus=args.gpus,
        root_jobs=args.root_jobs,
        out=Path(args.out).absolute() if args.out else None,
    )
    if made.config is None:
        if args.json:
            output.print_json(JoinedUser(user=made.name, vo=made.vo, site=made.site, credential=str(made.folder)))
            return 0
        output.say(f"credential of {made.name} made in {made.folder}; it holds a private key")
        output.say(f"use it with: diana status --credential {made.folder}")
        return 0
    config = made.config
    if args.json:
        output.print_json(
            Joined(
                kind=made.kind,
                vo=made.vo,
                site=made.site,
                name=made.name,
                listen="" if made.kind == "member" else config.listen,
                data=str(made.folder),
                measured=tuple(
                    DistanceOfSite(site=one.site, rtt_s=one.rtt_s if one.rtt_s < inf else -1.0, why=one.why)
                    for one in measured
                ),
            )
        )
        return 0
    if measured:
        output.say(_distances(measured))
    if made.again:
        output.say(f"new certificate for {made.folder}, signed by {made.inviter}; nothing else was changed")
    elif made.kind == "site":
        also = ", one of its signers" if made.signer else ""
        output.say(
            f"site {made.site} of {made.vo}{also}, joined through {made.inviter}: made in {made.folder}, "
            f"{output.counted(config.settings.slots, 'slot')}{gpus_of(config, args.gpus)}, at {config.listen}"
        )
    else:
        what = "standby" if made.kind == "standby" else "member"
        where = f"{made.folder}{gpus_of(config, args.gpus)}"
        output.say(f"machine {made.name}, {what} of site {made.site} of {made.vo}: made in {where}")
    if not made.again:
        if args.slots is None:
            say_quota()
        say_root_jobs(config)
        say_place(Path(made.folder))
    output.say(f"start its node with: diana node --data {made.folder}")
    return 0


COMMANDS = {
    "invite": Command(
        _invite_options,
        _invite,
        "The token is shown once and kept nowhere. It opens the VO for one newcomer; after that, or when its time is\n"
        "over, it is worth nothing. Another site and a user are invited at a site that is a signer (the first three\n"
        "are), machines at their own site. For operators of the node.",
        """
diana invite
diana invite --site beta --for 10m
diana invite --member
diana invite --user ann --for 2d
diana invite --list
diana invite --withdraw c867505a3b06f88c
""",
    ),
    "join": Command(
        _join_options,
        _join,
        "Fetches the VO's trust and a certificate from the site that invited. The token says as what:\n"
        "  a site or machine: makes its data directory (~/.diana, unless DIANA_DATA or --data names another) with its\n"
        "  keys and site.toml; then start its node with: diana node. One that is there, of a site that lost its\n"
        "  certificate and was invited with --again, gets a new certificate and keeps the rest.\n"
        "  a user: makes a folder with a private key (./NAME-credential, or --out); use it with: --credential FOLDER.\n"
        "Whatever is wrong, nothing is left behind. The token is asked for or read from standard input (-), from a\n"
        "file (@FILE) or from a variable (env:NAME), as are those of --or. It may also stand in the command itself:\n"
        "all accounts of the machine then see it (ps) until the command is over.",
        """
diana join - beta
diana join @beta.token beta
diana join - beta --data /srv/beta --listen 10.0.0.2:7400
diana join - m2 --gpus 2
diana join @alpha.token m2 --or @beta.token
diana join env:DIANA_TOKEN ann --out ann-credential
""",
    ),
}
