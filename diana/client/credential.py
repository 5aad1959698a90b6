"""A user's credential folder: who the user is, which site to talk to, and the keys that prove it."""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING, Any

import msgspec

from diana.errors import UsageError

if TYPE_CHECKING:
    from diana.client.where import StrPath


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    vo: str
    site: str
    address: str
    key: bytes
    certificate: bytes
    root: bytes


def load_credential(folder: StrPath | None, address: str | None) -> Credential:
    """`folder` holds user.pem, user.key, vo.pem and credential.toml; `address` (host:port) overrides its own."""
    if folder is None:
        raise UsageError(f"address {address}: a remote node wants a credential; name its folder")
    base = os.fspath(folder)
    name = os.path.join(base, "credential.toml")
    try:
        table: dict[str, Any] = tomllib.loads(_read(name).decode())
        values = {key: str(table[key]) for key in ("user", "vo", "site")}
        where = address or str(table["address"])
    except (ValueError, KeyError) as error:
        raise UsageError(f"{name}: {error}; it wants user, vo, site and address; make the credential again") from None
    host, _, port = where.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError(f"address {where!r}: want HOST:PORT, such as 127.0.0.1:7400")
    return Credential(
        address=where,
        key=_read(os.path.join(base, "user.key")),
        certificate=_read(os.path.join(base, "user.pem")),
        root=_read(os.path.join(base, "vo.pem")),
        **values,
    )


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(
            f"credential {path}: {error.strerror}; name the folder `diana init` made for the user"
        ) from None
