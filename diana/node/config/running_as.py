"""The accounts this node's jobs run as: those site.toml names, made usable for the embedded LRM and checked before it
starts."""

from __future__ import annotations

import errno
import logging
import os
from asyncio import StreamReader
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from diana.adapters.lrm.runas.accounts import Accounts, NoAccount, PutFile, call, open_ways, uid_of
from diana.adapters.lrm.runas.reading import ProgramFault
from diana.errors import UsageError
from diana.model.ids import GroupId
from diana.model.layout import DataDir
from diana.node.config.site_file import SiteConfig

if TYPE_CHECKING:
    from diana.adapters.staging.outputs.delivery import DeliveredFile

_log = logging.getLogger("diana.node")


def accounts_of(config: SiteConfig) -> Accounts:
    return Accounts(config.run_as, config.run_as_program)


class OwnersAccounts:
    """Writes outputs as the accounts of the groups' owners."""

    def __init__(self, accounts: Accounts, owner_of: Callable[[GroupId], str]) -> None:
        self._accounts = accounts
        self._owner_of = owner_of

    def trouble(self, owner: str, to: str) -> str:
        return self._accounts.trouble(owner, to)

    def put(self, group: GroupId, to: str, files: Sequence[DeliveredFile]) -> None:
        try:
            self._accounts.put(self._owner_of(group), to, [PutFile(*file) for file in files], group)
        except NoAccount as fault:
            raise PermissionError(errno.EACCES, str(fault), to) from None


class OwnersInputs:
    """Reads files of this machine as the accounts of the owners whose jobs name them."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def account_of(self, owner: str) -> str:
        from diana.adapters.staging.urls.stores import StoreFault

        try:
            return self._accounts.mapped(owner)
        except NoAccount as fault:
            raise StoreFault(str(fault)) from None

    @asynccontextmanager
    async def open(self, account: str, path: str, offset: int) -> AsyncGenerator[tuple[int, int, StreamReader], None]:
        from diana.adapters.staging.urls.stores import StoreFault

        try:
            async with self._accounts.get(account, path, offset) as file:
                yield file
        except ProgramFault as fault:
            raise StoreFault(str(fault), passing=True) from None


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
