"""The accounts this node's jobs run as: those site.toml names, made usable for the embedded LRM and checked before it
starts."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from diana.adapters.lrm.runas.accounts import Accounts, NoAccount, call, open_ways, uid_of
from diana.errors import UsageError
from diana.model.layout import DataDir
from diana.node.config.site_file import SiteConfig

_log = logging.getLogger("diana.node")


def accounts_of(config: SiteConfig) -> Accounts:
    return Accounts(config.run_as, config.run_as_program)


def check_jobs_accounts(config: SiteConfig, paths: DataDir, uid: int | None = None) -> None:
    """UsageError where jobs would run as root and nobody said that they may, or no account of `run_as` can be had.
    `uid`: the node's, if not this process's."""
    if config.run_as:
        if why := troubles(config, paths):
            raise UsageError(f"{paths.config}:run_as: {why[0]}")
    elif (os.getuid() if uid is None else uid) == 0:
        if not config.root_jobs:
            raise UsageError(
                f"{paths.config}:root_jobs: this node runs as root and so would its jobs; give it an account of its "
                "own, map its users under [run_as], or set root_jobs = true"
            )
        _log.warning("this node runs as root, and so do its jobs; give it an account of its own")


def troubles(config: SiteConfig, paths: DataDir) -> list[str]:
    """Reasons why accounts of `run_as` cannot run jobs here, a line each. Opens the ways to its jobs."""
    found = []
    try:
        open_ways(DataDir(Path(paths.root).resolve()))
    except (NoAccount, OSError) as fault:
        found.append(str(fault))
    for account in accounts_of(config).named():
        try:
            uid_of(account)
        except NoAccount as fault:
            found.append(str(fault))
        else:
            if why := call(config.run_as_program, "check", account):
                found.append(f"account {account}: {why}")
    return found
