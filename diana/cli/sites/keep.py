"""Verbs that keep a node's state safe: backup, restore."""

from __future__ import annotations

import argparse
from pathlib import Path

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_data, add_json
from diana.cli.sites.site import data_of


def _backup_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("to", metavar="FOLDER", help="the folder to make")
    parser.add_argument("--keys", action="store_true", help="the private keys too")
    add_data(parser)
    add_json(parser, "keys folder, files and bytes")


def _backup(args: argparse.Namespace) -> int:
    from diana.adapters.backup import back_up

    manifest = back_up(data_of(args), Path(args.to), keys=args.keys)
    _tell(args, Path(args.to), len(manifest.files), sum(file.size_bytes for file in manifest.files), "backed up to")
    return 0


def _restore_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FOLDER", help="a folder diana backup made")
    add_data(parser)
    add_json(parser, "keys folder, files and bytes")


def _restore(args: argparse.Namespace) -> int:
    from diana.adapters.backup import restore

    data = data_of(args)
    manifest = restore(Path(args.source), data)
    _tell(args, data, len(manifest.files), sum(file.size_bytes for file in manifest.files), "restored to")
    if not args.json and not manifest.has_keys():
        output.say(f"the backup holds no keys; put the site's own into {data / 'keys'} before diana node --data {data}")
    return 0


def _tell(args: argparse.Namespace, folder: Path, files: int, size_bytes: int, what: str) -> None:
    if args.json:
        from diana.cli.shared.shapes import Copied

        output.print_json(Copied(folder=str(folder), files=files, bytes=size_bytes))
    else:
        output.say(f"{output.counted(files, 'file')}, {output.size(size_bytes)} {what} {folder}")


COMMANDS = {
    "backup": Command(
        _backup_options,
        _backup,
        "Also while the node runs. Without --keys the folder holds no secrets of the site's.",
        """
diana backup /backups/alpha-2026-11-21
diana backup --keys --data /srv/beta /safe/beta
""",
    ),
    "restore": Command(
        _restore_options,
        _restore,
        "The restored node asks its peers what they hold of its groups and takes that over; all else that was not\n"
        "over is held until diana release or diana retry --held. See docs/operators.md.",
        """
diana restore /backups/alpha-2026-11-21 --data /srv/alpha
""",
    ),
}
