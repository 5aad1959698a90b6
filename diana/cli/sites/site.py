"""Verbs of a site's operator: init, node, stop."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_data, add_gpus, add_json, add_node, at_least, client
from diana.errors import NodeLeft, UsageError

if TYPE_CHECKING:
    from diana.node.config.site_file import SiteConfig


def data_of(args: argparse.Namespace) -> Path:
    from diana.client.where import data_folder

    return Path(data_folder(args.data))


def _init_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] SITE | --user NAME"
    parser.add_argument("site", nargs="?", metavar="SITE", help="the site's name: lower-case letters, digits, hyphens")
    add_data(parser)
    parser.add_argument("--vo", metavar="NAME", help="the VO to make (default: SITE-vo)")
    parser.add_argument(
        "--vo-from", metavar="DIR", type=Path, help="join the VO made in this data directory instead of making one"
    )
    parser.add_argument(
        "--slots", type=at_least(0), metavar="N", help="processors jobs may hold (default: all it may use)"
    )
    add_gpus(parser)
    parser.add_argument(
        "--cluster",
        metavar="KIND",
        help="slurm, gridengine, pbs or htcondor starts its jobs; --slots N is then what runs here beside",
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="what the node binds (default: 127.0.0.1:7400)")
    add_root_jobs(parser)
    parser.add_argument(
        "--peer", action="append", default=[], metavar="HOST:PORT", help="another site; may be repeated"
    )
    user = parser.add_argument_group("a user's credential instead of a site")
    user.add_argument(
        "--user", metavar="NAME", help="for a remote client; --data names the directory with the VO's key"
    )
    user.add_argument("--out", metavar="DIR", help="the folder to make (default: ./NAME-credential)")
    add_json(parser, "keys site, vo, listen and data; for --user: user and credential")


def _init(args: argparse.Namespace) -> int:
    if (args.site is None) == (args.user is None):
        raise UsageError("init: wants a site's name, or --user NAME; see diana init --help")
    if args.site and args.out:
        raise UsageError("init: --out is for a user's credential; name a site's directory with --data")
    site_options = ("vo", "vo_from", "slots", "gpus", "cluster", "listen", "root_jobs", "peer")
    for option in site_options if args.user else ():
        given = getattr(args, option)
        if given is not None and given is not False and given != []:
            raise UsageError(f"init: --{option.replace('_', '-')} is for a site; leave it out with --user")
    return _init_user(args) if args.site is None else _init_site(args)


def _init_site(args: argparse.Namespace) -> int:
    from diana.node.config.setup import init_site
    from diana.node.config.site_file import is_loopback

    data = data_of(args)
    listen = _port_to_listen_on(args.listen, data)
    config = init_site(
        data,
        args.site,
        args.vo,
        args.vo_from,
        args.slots,
        listen,
        args.peer,
        args.cluster,
        args.gpus,
        root_jobs=args.root_jobs,
    )
    if args.json:
        from diana.cli.shared.shapes import MadeSite

        output.print_json(MadeSite(site=config.site, vo=config.vo, listen=config.listen, data=str(data)))
        return 0
    slots = output.counted(config.settings.slots, "slot") + gpus_of(config, args.gpus)
    output.say(f"site {config.site} of {config.vo} made in {data}, {slots}, at {config.listen}")
    if is_loopback(config.listen):
        output.say("only this machine reaches it there; for others, set listen in its site.toml, or init with --listen")
    if args.cluster:
        output.say(f"{args.cluster} starts its jobs: see that it answers with diana doctor --data {data}")
    if args.slots is None and not args.cluster:
        say_quota()
    say_root_jobs(config)
    say_place(data)
    output.say(f"start its node with: diana node --data {data}")
    return 0


def _port_to_listen_on(given: str | None, data: Path) -> str | None:
    """The address that a new site is to have: as given, or the first of this machine's that is free."""
    from diana.adapters.grpc.server import TAKEN, cannot_bind
    from diana.adapters.listeners import who_listens
    from diana.node.config.site_file import DEFAULT_LISTEN, host_port
    from diana.node.enrol.ports import free_port

    try:
        host, port = host_port(given or DEFAULT_LISTEN)
    except ValueError as error:
        raise UsageError(f"--listen {error}, such as 127.0.0.1:7400") from None
    if not port or cannot_bind(host, port) != TAKEN:
        # An address of another machine may be meant: of the one that an image is made for.
        return given
    if given:
        raise UsageError(f"--listen {given}: {who_listens(port)} listens there; choose another port")
    return f"{host}:{free_port(host, data)}"


def add_root_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root-jobs",
        action="store_true",
        help="jobs may run as root, where the node does and site.toml maps no accounts (so says DIANA_ROOT_JOBS=true)",
    )


def say_quota() -> None:
    """Tell of slots that nobody named, where they are fewer than the processors."""
    from diana.adapters.lrm.cgroups.bounds import processors

    found = processors()
    if found.quota:
        output.say(
            f"{output.counted(found.usable, 'slot')}, since a control group's CPU quota leaves "
            f"{found.quota:g} processors here; --slots N says otherwise, slots in its site.toml later"
        )


def say_root_jobs(config: SiteConfig) -> None:
    """Tell root that its node waits for a word about its jobs, where nobody has given one."""
    if os.getuid() == 0 and not config.root_jobs:
        output.say("its node will not start as root: in site.toml map users under [run_as], or set root_jobs = true")


def say_place(data: Path) -> None:
    """Tell what jobs will miss in a data directory there, a line each."""
    from diana.adapters.places import poor_place

    for found, mend in poor_place(data):
        output.say(f"warning: {found}; {mend}")


def gpus_of(config: SiteConfig, asked: object) -> str:
    """Empty where nothing was said of any."""
    return "" if asked is None else f", {output.counted(len(config.gpus), 'GPU')}"


def _init_user(args: argparse.Namespace) -> int:
    from diana.node.config.setup import init_user

    out = Path(os.path.abspath(args.out or f"{args.user}-credential"))
    init_user(data_of(args), args.user, out)
    if args.json:
        from diana.cli.shared.shapes import MadeCredential

        output.print_json(MadeCredential(user=args.user, credential=str(out)))
        return 0
    output.say(f"credential of {args.user} made in {out}; it holds a private key, so carry it safely")
    output.say(f"use it with: diana status --credential {out}")
    return 0


def _node_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument(
        "--detach", action="store_true", help="start it as a process of its own; return when it answers, or why not"
    )
    over = parser.add_argument_group("instead of what site.toml says, for this run")
    over.add_argument("--listen", metavar="HOST:PORT", help="what to bind; port 0: any free one")
    over.add_argument("--peer", action="append", metavar="HOST:PORT", help="another site; may be repeated")
    over.add_argument("--slots", type=at_least(0), metavar="N", help="processors jobs may hold")
    over.add_argument("--log-format", choices=("text", "json"), help="how node.log is written")
    over.add_argument("--no-zeroconf", action="store_true", help="do not look for peers on the local network")


def _node(args: argparse.Namespace) -> int:
    data = data_of(args)
    try:
        there = (data / "site.toml").exists()
    except PermissionError as error:
        raise UsageError(f"{data}: {error.strerror}; run its node as the account whose directory it is") from None
    if data.exists() and not data.is_dir():
        raise UsageError(f"{data}: not a directory; name a site's data directory with --data")
    if not there:
        raise UsageError(f"{data}: no site there; make one with: diana init NAME --data {data}")
    if args.detach:
        from diana.cli.sites.detached import start

        code = start(data, _same_words(args))
        if code == 0:
            say_place(data)
        return code
    overrides: dict[str, object] = {}
    if args.listen is not None:
        overrides["listen"] = args.listen
    if args.peer is not None:
        overrides["peers"] = tuple(args.peer)
    if args.slots is not None:
        overrides["slots"] = args.slots
    if args.log_format is not None:
        overrides["log_format"] = args.log_format
    if args.no_zeroconf:
        overrides["zeroconf"] = False
    from diana.node.app import run_node

    return run_node(data, overrides)


def _same_words(args: argparse.Namespace) -> list[str]:
    """The options of this run, for the process that serves."""
    words = [word for peer in args.peer or () for word in ("--peer", peer)]
    for option in ("listen", "slots", "log_format"):
        if (value := getattr(args, option)) is not None:
            words += [f"--{option.replace('_', '-')}", str(value)]
    return [*words, "--no-zeroconf"] if args.no_zeroconf else words


def _stop_options(parser: argparse.ArgumentParser) -> None:
    add_json(parser, "Empty")
    add_node(parser)


def _stop(args: argparse.Namespace) -> int:
    try:
        with client(args) as node:
            info = node.info()
            node.stop()
    except NodeLeft:
        # It was stopping when it was asked; that it is gone is what was wanted.
        if args.json:
            output.print_json({})
        else:
            output.say("the node has ended; it was stopping already")
        return 0
    if args.json:
        output.print_json({})
    else:
        running = output.counted(info.running_jobs, "running job runs", "running jobs run")
        machine = f"{info.machine} of " if info.machine not in ("", "main") else ""
        output.say(f"{machine}{info.site}: stopping; {running} on")
    return 0


COMMANDS = {
    "init": Command(
        _init_options,
        _init,
        "Makes the first site of a VO, and the VO with its certificate authority, in ~/.diana (or DIANA_DATA, or\n"
        "--data). Further sites come in from their own machines: diana invite here, diana join there; on this machine\n"
        "--vo-from makes one too.",
        """
diana init alpha --listen 10.0.0.1:7400
diana init alpha
diana init alpha --gpus auto
diana init beta --data /srv/beta --vo-from /srv/alpha --listen 127.0.0.1:7401
diana init --user ann --out ann-credential
""",
    ),
    "node": Command(
        _node_options,
        _node,
        "Ctrl-C or SIGTERM stops it gracefully; after a crash it goes on where it was. The directory says what it is:\n"
        "a site's node, a standby's or a member machine's.",
        """
diana node
diana node --detach
diana node --data /srv/beta --peer 127.0.0.1:7400
""",
    ),
    "stop": Command(
        _stop_options,
        _stop,
        "What was accepted is kept, and goes on when the node is started again: diana node.",
        """
diana stop
diana stop --data /srv/beta
""",
    ),
}
