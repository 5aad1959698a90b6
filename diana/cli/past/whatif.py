"""`diana whatif`: a history replayed as it was and under changes, or beside what truly happened."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from diana.cli.shared import output
from diana.cli.shared.pages import add_page, check_page, write_page
from diana.cli.shared.parsing import Command, add_json, at_least
from diana.cli.shared.progress import progress
from diana.errors import UsageError

_CHANGES = (
    ("site", "SITE.KEY", "slots or speed of a site: beta.slots+16, beta.slots=32, beta.speed=2"),
    ("add-site", "NAME:KEY,...", "one site more: delta:slots=32,speed=1.5"),
    ("drop-site", "SITE", "the site runs nothing; its users and data stay"),
    ("link", "A-B=RATE", "the rate of a link: alpha-beta=1Gbit/s"),
    ("replica", "DATASET@SITE", "a copy of a dataset that was read, at one site more"),
    ("setting", "KEY=VALUE", "a setting of all sites: migration=off"),
    ("policy", "NAME", "another placement at all sites: least-queue"),
    ("quota", "USER=N", "the weight of a user at all sites: ann@lab=2"),
    ("load", "FACTOR", "the same work comes FACTOR times as fast: 1.2"),
    ("arrivals", "shuffle-days", "the days come in another order, drawn by each seed"),
)


class _Append(argparse.Action):
    """Collects changes in the order given, each with its option."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        namespace.changes = [*(namespace.changes or ()), ((option or "").removeprefix("--"), values)]


def _runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=at_least(1), default=3, metavar="N", help="replays of each side, with other chance (default: 3)"
    )
    parser.add_argument("--first-seed", type=at_least(0), default=0, metavar="S", help="seeds S to S+N-1 (default: 0)")
    parser.add_argument(
        "--workers", type=at_least(0), default=0, metavar="N", help="processes (default: all cores; same result)"
    )


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("history", type=Path, metavar="DIR", help="a folder that diana history wrote")
    parser.add_argument("--check", action="store_true", help="no change: the replay beside what truly happened")
    changes = parser.add_argument_group("changes, as many as wanted")
    for name, shape, text in _CHANGES:
        changes.add_argument(f"--{name}", dest="changes", action=_Append, metavar=shape, help=text)
    _runs(parser)
    add_page(parser)
    add_json(parser, "of changes: base, changed and differences; of --check: truly, replayed and errors")


def _whatif(args: argparse.Namespace) -> int:
    if args.check and args.changes:
        option, word = args.changes[0]
        raise UsageError(f"whatif: --check replays what happened; leave out --{option} {word}")
    if not args.check and not args.changes:
        raise UsageError("whatif: say a change, as --site beta.slots+16, or --check; see diana whatif --help")
    check_page("whatif", args.html)
    from diana.sim.past.merging import load
    from diana.sim.past.text import of_twin, of_whatif
    from diana.sim.past.twin import twin
    from diana.sim.past.whatif import whatif

    scenario = load(args.history)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    with progress("replays") as tell:
        if args.check:
            checked = twin(scenario, seeds, args.workers, tell)
        else:
            compared = whatif(scenario, args.changes, seeds, args.workers, tell)
    if args.html is not None:
        from diana.sim.past import page

        write_page(args.html, page.of_twin(checked) if args.check else page.of_whatif(compared))
    if args.json:
        output.print_json(checked if args.check else compared)
    else:
        print(of_twin(checked) if args.check else of_whatif(compared), end="")
    return 0 if not args.check or checked.holds else 1


def _advise_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("history", type=Path, metavar="DIR", help="a folder that diana history wrote")
    _runs(parser)
    add_page(parser)
    add_json(parser, "base, tried, and advised: changes, order, differences")


def _advise(args: argparse.Namespace) -> int:
    check_page("advise", args.html)
    from diana.sim.past.advice import advice
    from diana.sim.past.merging import load
    from diana.sim.past.text import of_advice

    scenario = load(args.history)
    with progress("replays") as tell:
        found = advice(scenario, range(args.first_seed, args.first_seed + args.seeds), args.workers, tell)
    if args.html is not None:
        from diana.sim.past import page

        write_page(args.html, page.of_advice(found))
    if args.json:
        output.print_json(found)
    else:
        print(of_advice(found), end="")
    return 0


COMMANDS = {
    "advise": Command(
        _advise_options,
        _advise,
        "Replays the history under some twenty changes that an operator could make: more slots where most work was\n"
        "done, copies of datasets and faster links where data were read, settings, a quota for the user who waited\n"
        "longest. A gain is what the same work would have gained; nobody submits more because the grid is faster.",
        """
diana advise history
diana advise all --seeds 5 --json
""",
    ),
    "whatif": Command(
        _options,
        _whatif,
        "Runs the engine of a node on the history, apart from any node. Differences are paired, group by group, and\n"
        "their intervals come from days (or groups, below seven days) that are drawn again and again. --check ends\n"
        "with 1 where the makespan is off by more than 5 % or the median group's turnaround by more than 10 %.",
        """
diana whatif history --check
diana whatif history --site beta.slots+16
diana whatif history --setting migration=off --load 1.2
diana whatif all --link alpha-beta=1Gbit/s --json
diana whatif all --drop-site beta --html whatif.html
""",
    ),
}
