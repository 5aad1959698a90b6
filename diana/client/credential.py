"""A user's credential folder: who the user is, which site to talk to, and the keys that prove it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from diana.bounds import MOST_KEY_BYTES, MOST_TOML_BYTES, content_of, toml_of
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
    folder: str
    """The folder all this lies in."""
    others: tuple[str, ...] = ()
    """host:port of the site's other machines that may lead it."""


def load_credential(folder: StrPath | None, address: str | None) -> Credential:
    """`folder` holds user.pem, user.key, vo.pem and credential.toml; `address` (host:port) overrides its own."""
    if folder is None:
        raise UsageError(f"address {address}: a remote node wants a credential; name its folder with --credential")
    base = os.fspath(folder)
    name = os.path.join(base, "credential.toml")
    try:
        table: dict[str, Any] = toml_of(_read(name, MOST_TOML_BYTES).decode())
        values = {key: str(table[key]) for key in ("user", "vo", "site")}
        others = () if address else tuple(str(one) for one in table.get("addresses", ()))
        where = address or str(table.get("address") or others[0])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UsageError(f"{name}: {error}; it wants user, vo, site and address; make the credential again") from None
    for one in (where, *others):
        host, _, port = one.rpartition(":")
        if not host or not port.isdecimal():
            raise UsageError(f"address {one!r}: want HOST:PORT, such as 127.0.0.1:7400")
    return Credential(
        address=where,
        key=_read(os.path.join(base, "user.key")),
        certificate=_read(os.path.join(base, "user.pem")),
        root=_read(os.path.join(base, "vo.pem")),
        folder=base,
        others=tuple(one for one in others if one != where),
        **values,
    )


def _read(path: str, most: int = MOST_KEY_BYTES) -> bytes:
    try:
        return content_of(path, most)
    except OSError as error:
        raise UsageError(
            f"credential {path}: {error.strerror}; name the folder diana join made for the user;"
            " an operator invites: diana invite --user NAME"
        ) from None
    except ValueError as error:
        raise UsageError(f"credential {path}: {error}; have the credential made again") from None
