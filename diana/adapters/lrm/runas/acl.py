"""The rights of accounts to enter and change the node's files, as POSIX access control lists (acl(5)).

The node stays the owner of every folder a job gets and only adds the job's account to it, so that no root is needed
to hand a folder over nor to delete it, and no other account sees into it. Rejected: handing folders to the account
by chown, which wants a root program that follows paths; groups shared by node and account, which every site would
have to make.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

_ACCESS, _DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
_OWNER, _USER, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NOBODY = 0xFFFFFFFF
READ, WRITE, ENTER = 4, 2, 1
ALL = READ | WRITE | ENTER


def _list(users: dict[int, int], most: int) -> bytes:
    """`most`: what its owner may do, and all that anybody may. It is what the file's mode shows."""
    entries = [
        (_OWNER, most, _NOBODY),
        *((_USER, users[uid], uid) for uid in sorted(users)),
        (_GROUP, 0, _NOBODY),
        (_MASK, most, _NOBODY),
        (_OTHER, 0, _NOBODY),
    ]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def grant(what: Path | str | int, uid: int, rights: int, owner: int = ALL) -> None:
    """Give `uid` alone, besides the owner, `rights` to a file or folder (or an open descriptor of it). `owner`: the
    owner's, which are no fewer. OSError."""
    try:
        os.setxattr(what, _ACCESS, _list({uid: rights}, owner))
    except OSError as fault:
        if fault.errno == errno.EOPNOTSUPP:
            fault.strerror = "the file system keeps no access control lists, which run_as needs; mount it with them"
        raise


def give(folder: Path | str, uid: int) -> None:
    """Let `uid` do as it likes in `folder` and the folders below it that are this process's; files it makes there
    are open to this process as far as the mode it chooses says."""
    for each in _folders(str(folder)):
        grant(each, uid, ALL)
        os.setxattr(each, _DEFAULT, _list({uid: ALL, os.geteuid(): ALL}, ALL))


def _folders(top: str) -> Iterator[str]:
    yield top
    for folder, names, _ in os.walk(top):
        yield from (f"{folder}/{name}" for name in names if not os.path.islink(f"{folder}/{name}"))


def let_pass(folder: Path) -> None:
    """Let whoever knows a name in `folder` go on to it; the names cannot be listed."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if not mode & 0o001:
        folder.chmod(mode | 0o011)


def let_read(folder: Path) -> None:
    """Let all read a folder of data; the folders above it say who comes so far. The mode of the folder itself marks
    it as done, so that many files are looked at once only."""
    if stat.S_IMODE(folder.stat().st_mode) & 0o005 == 0o005:
        return
    for at, _, _ in os.walk(folder, topdown=False):
        os.chmod(at, stat.S_IMODE(os.stat(at).st_mode) | 0o055)
