"""`diana site run-as check|install`: whether accounts of `run_as` can run jobs here, and the root program for it."""

from __future__ import annotations

import argparse

from diana.cli.shared import output
from diana.cli.sites.site import data_of
from diana.errors import UsageError


def run(args: argparse.Namespace) -> int:
    from diana.model.layout import DataDir
    from diana.node.config.run_as_install import install
    from diana.node.config.running_as import troubles
    from diana.node.config.site_file import load_config

    if args.name not in ("check", "install"):
        raise UsageError("site run-as: want check or install")
    paths = DataDir(data_of(args))
    config = load_config(paths.config)
    if args.name == "install":
        return _say(args, install(config, paths.root), 0)
    if not config.run_as:
        return _say(args, [f"{paths.config}: [run_as] is empty: all jobs run as the account of the node"], 0)
    if found := troubles(config, paths):
        return _say(args, found, 1)
    good = [f"{owner} runs as {account}" for owner, account in sorted(config.run_as.items())]
    return _say(args, good, 0)


def _say(args: argparse.Namespace, lines: list[str], code: int) -> int:
    output.tell("\n".join(lines), args.json)
    return code
