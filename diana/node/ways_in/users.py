"""Tells who a caller is: the kernel's uid or the certificate's name, as a VO principal with its role.

Operators are root, the account the node runs as, and those `site.toml` names: an account's name for callers on this
machine, a full `name@vo` for both ways in. A certificate that is only called like an operator's account gains nothing.
A job of this site is no operator, whose account it may have: what it calls for is bounded like a user's, and by mistake
it neither stops the node nor cancels the work of others. That is no wall: it may take the marks out of its environment.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from diana.adapters.lrm.spawner.identity import environment
from diana.adapters.lrm.spawner.processes import MARKER
from diana.model.trust.principal import Principal, Role

if TYPE_CHECKING:
    from diana.node.config.site_file import SiteConfig

NOBODY = Principal(Role.NOBODY, "")


def account_of(uid: int) -> str:
    """The account's name; empty where the machine knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return ""


def is_job_of(site: str, pid: int) -> bool:
    """True if a process of this machine is one of a job that the site started, as its environment says."""
    entries = environment(pid).split(b"\0")
    return f"DIANA_SITE={site}".encode() in entries and any(entry.startswith(MARKER) for entry in entries)


class LocalUsers:
    """`owner_of(uid, account)` maps a local account to `name@vo`, empty for none; by default every account that has a
    name is itself in `vo` (`node/config/site_file.py` brings the mapping of site.toml)."""

    def __init__(
        self,
        vo: str,
        *,
        operators: Iterable[str] = (),
        owner_of: Callable[[int, str], str] | None = None,
        node_uid: int | None = None,
        account: Callable[[int], str] = account_of,
        is_job: Callable[[int], bool] = lambda pid: False,
    ) -> None:
        """`is_job`: whether a process is one of a job of this site."""
        self._vo = vo
        self._operators = frozenset(operators)
        self._operator_uids = frozenset((0, os.getuid() if node_uid is None else node_uid))
        self._owner_of = owner_of or (lambda uid, name: f"{name}@{vo}" if name else "")
        self._account = account
        self._is_job = is_job

    def of_uid(self, uid: int) -> Principal:
        account = self._account(uid)
        name = self._owner_of(uid, account)
        if uid in self._operator_uids:
            return Principal(Role.OPERATOR, name or f"uid-{uid}@{self._vo}")
        if not name:
            return NOBODY
        listed = name in self._operators or (account != "" and account in self._operators)
        return Principal(Role.OPERATOR if listed else Role.USER, name)

    def of_process(self, pid: int, uid: int) -> Principal:
        """The principal of a process of this machine that calls."""
        found = self.of_uid(uid)
        if found.role is Role.OPERATOR and self._is_job(pid):
            return Principal(Role.USER, found.name)
        return found

    def by_now(self, was: Principal) -> Principal:
        """The principal of a caller who was vouched for earlier, with the rights of now: one who is no operator any
        more is a user."""
        if was.role is not Role.OPERATOR or was.name in self._operator_names():
            return was
        return Principal(Role.USER, was.name)

    def _operator_names(self) -> frozenset[str]:
        """Operators' names as principals, of this machine's accounts too."""
        names = {self.of_uid(uid).name for uid in self._operator_uids}
        for listed in self._operators:
            names.add(listed)
            with suppress(KeyError):
                names.add(self.of_uid(pwd.getpwnam(listed).pw_uid).name)
        return frozenset(names)

    def of_certificate(self, user: str, vo: str) -> Principal:
        """A certificate proved that `user` of `vo` calls; users of another VO are nobody here."""
        if not user or vo != self._vo:
            return NOBODY
        name = f"{user}@{vo}"
        return Principal(Role.OPERATOR if name in self._operators else Role.USER, name)


def users_of_machine(config: SiteConfig) -> LocalUsers:
    """The users of a machine of a site, as its site.toml has them."""
    return LocalUsers(
        config.vo,
        operators=config.operators,
        owner_of=config.owner_of,
        is_job=partial(is_job_of, config.site),
    )
