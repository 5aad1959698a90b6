"""Tells who a caller is: the kernel's uid or the certificate's name, as a VO principal with its role.

Operators are root, the account the node runs as, and those `site.toml` names: an account's name for callers on this
machine, a full `name@vo` for both ways in. A certificate that is only called like an operator's account gains nothing.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterable
from contextlib import suppress

from diana.model.trust.principal import Principal, Role

NOBODY = Principal(Role.NOBODY, "")


def account_of(uid: int) -> str:
    """The account's name; empty where the machine knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return ""


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
    ) -> None:
        self._vo = vo
        self._operators = frozenset(operators)
        self._operator_uids = frozenset((0, os.getuid() if node_uid is None else node_uid))
        self._owner_of = owner_of or (lambda uid, name: f"{name}@{vo}" if name else "")
        self._account = account

    def of_uid(self, uid: int) -> Principal:
        account = self._account(uid)
        name = self._owner_of(uid, account)
        if uid in self._operator_uids:
            return Principal(Role.OPERATOR, name or f"uid-{uid}@{self._vo}")
        if not name:
            return NOBODY
        listed = name in self._operators or (account != "" and account in self._operators)
        return Principal(Role.OPERATOR if listed else Role.USER, name)

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
