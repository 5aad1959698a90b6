"""`diana datasets`: what data is where, and at this node's site registering, looking through and forgetting it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, client
from diana.cli.shared.progress import StatusLine
from diana.errors import UsageError

if TYPE_CHECKING:
    from diana.client import Client
    from diana.model.views.datasets import Dataset
    from diana.wire.client.datasets import DatasetProgress

_ACTIONS = ("list", "add", "show", "verify", "remove")
_HEADER = ("DATASET", ">VERSION", "SITE", ">FILES", ">SIZE", "STATE")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] [list | add NAME PATH... | show NAME | verify NAME | remove NAME]"
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="list")
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the logical name job files use: dataset:NAME; NAME@2 is its version 2"
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files, or folders with all below them, at the node")
    parser.add_argument(
        "--new-version", action="store_true", help="add: other content under a name that stands is its newest version"
    )
    parser.add_argument("--files", action="store_true", help="show: its files too")
    add_json(parser, "DatasetsResponse; add and verify Dataset; show DatasetChunk, one a line")
    add_node(parser)


def _run(args: argparse.Namespace) -> int:
    _check(args)
    with client(args) as node:
        match args.action:
            case "add":
                return _add(args, node)
            case "show":
                return _show(args, node)
            case "verify":
                return _verify(args, node)
            case "remove":
                return _remove(args, node)
        return _list(args, node)


def _check(args: argparse.Namespace) -> None:
    action = args.action
    if action == "list" and args.name:
        raise UsageError("datasets list: takes no name; to register files: diana datasets add NAME PATH...")
    if action == "add" and not args.paths:
        raise UsageError("datasets add: wants a name and at least one path: diana datasets add NAME PATH...")
    if action not in ("list", "add") and (not args.name or args.paths):
        raise UsageError(f"datasets {action}: wants one name: diana datasets {action} NAME")
    for flag, of in (("new_version", "add"), ("files", "show")):
        if getattr(args, flag) and action != of:
            raise UsageError(f"datasets {action}: --{flag.replace('_', '-')} goes with datasets {of}")


_ONLY_NAMES = "other sites tell the names of their datasets alone"


def _list(args: argparse.Namespace, node: Client) -> int:
    found = node.datasets()
    if args.json:
        from diana.wire.client.datasets import DatasetsResponse

        output.print_json(DatasetsResponse(datasets=found))
    elif found:
        output.print_table(_HEADER, [_row(d) for d in found])
        if elsewhere := sorted({d.site for d in found if d.files < 0}):
            print(f"-: {_ONLY_NAMES}; diana datasets at {elsewhere[0]} has their files and sizes")
    else:
        print("no datasets; register one with: diana datasets add NAME PATH...")
    return 0


def _row(dataset: Dataset) -> tuple[str, ...]:
    return (
        dataset.name,
        str(dataset.version or "-"),
        dataset.site,
        "-" if dataset.files < 0 else f"{dataset.files:,}",
        output.size(dataset.size_bytes),
        dataset.state or "-",
    )


def _add(args: argparse.Namespace, node: Client) -> int:
    told = _Teller("hashed")
    added = node.add_dataset(args.name, args.paths, new_version=args.new_version, progress=told.tell)
    told.end()
    if args.json:
        output.print_json(added)
    else:
        version = f", version {added.version}" if added.version > 1 else ""
        output.say(f"{added.name}: {_count(added.files)}, {output.size(added.size_bytes)}{version}")
    return 0


def _show(args: argparse.Namespace, node: Client) -> int:
    for chunk in node.show_dataset(args.name, files=args.files):
        if args.json:
            output.print_json(chunk)
            continue
        if chunk.datasets:
            output.print_table((*_HEADER, "DIGEST"), [(*_row(d), d.digest[:16] or "-") for d in chunk.datasets])
        for file in chunk.files:
            output.say(f"{file.sha256[:16]}  {file.size_bytes:>15,}  {file.name}")
    return 0


def _verify(args: argparse.Namespace, node: Client) -> int:
    told = _Teller("read")
    lines: list[str] = []

    def tell(progress: DatasetProgress) -> None:
        lines.extend(progress.changed)
        told.tell(progress)

    seen = node.verify_dataset(args.name, progress=tell)
    told.end()
    if args.json:
        output.print_json(seen)
    else:
        for line in lines:
            output.say(line)
        output.say(f"{seen.name}: {_count(seen.files)}, {output.size(seen.size_bytes)}: {seen.state}")
    return 1 if seen.state == "changed" else 0


def _remove(args: argparse.Namespace, node: Client) -> int:
    gone = node.remove_dataset(args.name)
    if args.json:
        from diana.wire.client.datasets import DatasetsResponse

        output.print_json(DatasetsResponse(datasets=gone))
    for dataset in () if args.json else gone:
        output.say(
            f"{dataset.name} version {dataset.version}: forgotten; its {_count(dataset.files)} stay where they lie"
        )
    return 0


class _Teller:
    """A line that says how far it is, rewritten, where a terminal shows it."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._line = StatusLine()

    def tell(self, progress: DatasetProgress) -> None:
        if progress.dataset is None:
            self._line.show(f"{self._doing} {_count(progress.files)}, {output.size(progress.size_bytes)}")

    def end(self) -> None:
        self._line.end()


def _count(files: int) -> str:
    return output.counted(files, "file")


COMMANDS = {
    "datasets": Command(
        _options,
        _run,
        "A name stands for its newest version, NAME@2 for its second; groups that were placed keep what they had.\n"
        "STATE: registered; changed (verify or a job found so); cached or partial (brought from elsewhere).\n"
        "verify reads every file again and ends with exit code 1 when one changed.",
        """
diana datasets
diana datasets add events-a /data/run7 /data/run8/part1.root
diana datasets add --new-version events-a /data/run7-reprocessed
diana datasets show --files events-a@1
diana datasets remove events-a@1
diana datasets verify events-a
""",
    ),
}
