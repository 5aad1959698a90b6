"""An operator's word for a site or VO: `diana site drain|undrain|ban|unban|give-up|remove-machine|go-on|
promote` and `diana policy`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from diana.bounds import MOST_TOML_BYTES, text_of, toml_of
from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, client
from diana.errors import UsageError


def run(args: argparse.Namespace) -> int:
    """Run one of the orders of `diana site`."""
    if args.order == "promote":
        return _promote(args)
    wants_name = args.order in ("ban", "unban", "give-up", "remove-machine", "go-on")
    if wants_name and not args.name:
        raise UsageError(f"site {args.order}: name whom: diana site {args.order} NAME; see diana site --help")
    if args.name and not wants_name:
        raise UsageError(f"site {args.order}: it is always the site of the node asked; leave {args.name!r} out")
    from_wall_s, to_wall_s = _span(args)
    with client(args) as node:
        text = node.operate(
            args.order, args.name or "", reason=args.reason or "", from_wall_s=from_wall_s, to_wall_s=to_wall_s
        )
    output.tell(text, args.json)
    return 0


def _promote(args: argparse.Namespace) -> int:
    """Have one of a site's two machines lead."""
    with client(args) as node:
        told = node.promote(force=args.force, remove=args.remove)
    output.tell(told, args.json)
    return 0


def _span(args: argparse.Namespace) -> tuple[float, float]:
    """Begin and end of a drain for maintenance; (0, 0): none was given."""
    if not args.to_time:
        if args.from_time:
            raise UsageError("site drain: --from wants --to TIME, when the site takes work again")
        return 0.0, 0.0
    from diana.node.config.maintenance import wall_time

    try:
        from_s = wall_time("--from", args.from_time) if args.from_time else 0.0
        to_s = wall_time("--to", args.to_time)
    except ValueError as error:
        raise UsageError(f"site drain: {error}") from None
    if to_s <= (from_s or time.time()):
        raise UsageError(f"site drain: --to: {args.to_time} is not after {args.from_time or 'now'}; give a later time")
    return from_s, to_s


def _policy_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] [show | set FILE]"
    parser.add_argument("order", nargs="?", choices=("show", "set"), default="show")
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="TOML: settings of site.toml's [settings]")
    add_json(parser, "LedgerResponse; for set: key text")
    add_node(parser)


def _policy(args: argparse.Namespace) -> int:
    if (args.order == "set") != (args.file is not None):
        raise UsageError("policy: say diana policy, or diana policy set FILE; see diana policy --help")
    return _set(args) if args.order == "set" else _show(args)


def _set(args: argparse.Namespace) -> int:
    values = _read(args.file)
    if isinstance(values.get("settings"), dict):
        raise UsageError(f"{args.file}: the keys stand by themselves there; leave the line [settings] out")
    with client(args) as node:
        text = node.operate("set-policy", values_json=json.dumps(values))
    output.tell(text, args.json)
    return 0


def _read(file: Path) -> dict[str, object]:
    try:
        return toml_of(text_of(file, MOST_TOML_BYTES))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}; name a file that can be read") from None
    except ValueError as error:
        raise UsageError(f"{file}: not TOML: {error}; mend that line") from None


def _show(args: argparse.Namespace) -> int:
    with client(args) as node:
        found = node.ledger()
    if args.json:
        output.print_json(found)
        return 0
    values = json.loads(found.values_json) if found.by else {}
    if values:
        output.say(f"policy, set by {found.by} on {_day(found.since_wall_s)}:")
        for key, value in sorted(values.items()):
            own = "   (this site has its own)" if key in found.here else ""
            output.say(f"  {key} = {json.dumps(value)}{own}")
    else:
        emptied = f" ({found.by} emptied it on {_day(found.since_wall_s)})" if found.by else ""
        output.say(f"no policy stands: every site has its own settings{emptied}")
    for one in found.banned:
        output.say(f"banned: {one.who}, by {one.by} on {_day(one.since_wall_s)}: {one.reason or 'no reason given'}")
    if found.drained:
        output.say(f"this site is drained: {found.drained}")
    return 0


def _day(wall_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(wall_s))


COMMANDS = {
    "policy": Command(
        _policy_options,
        _policy,
        "The VO's policy holds at every site for what its operator left at the default: quotas, sizes, thresholds.\n"
        "A new one replaces the old as a whole. Only a site that is a signer sets it. See docs/operators.md.",
        """
diana policy
diana policy set policy.toml
""",
    ),
}
