"""Finding a node: its data directory, the socket in it, or a remote address with a credential."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from diana.errors import Denied, DianaError, NodeAway, NodeLeft, Unreachable, UsageError, quoted

if TYPE_CHECKING:
    StrPath = str | os.PathLike[str]

SOCKET = os.path.join("control", "diana.sock")
"""Below the data directory, as `model/layout.py` has it (not imported: `diana submit` counts milliseconds)."""

LONGEST_PATH_BYTES = 107
"""Longest name of a unix socket; longer ones are reached through /proc/self/fd."""


def data_folder(data: StrPath | None) -> str:
    """`data`, else the environment's DIANA_DATA, else ~/.diana; absolute. UsageError for a name that is not UTF-8, and
    for a relative one in a working directory that is gone."""
    name = os.fspath(data or os.environ.get("DIANA_DATA") or os.path.expanduser("~/.diana"))
    if not os.path.isabs(name):
        name = os.path.join(working_folder(), name)
    return _utf8("data directory", os.path.normpath(name))


def working_folder() -> str:
    """Return the working directory of this process. UsageError for one that is gone, or whose name is not UTF-8."""
    try:
        return _utf8("working directory", os.getcwd())
    except FileNotFoundError:
        raise UsageError("the working directory is gone; change to one that is there") from None


def _utf8(of_what: str, path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{of_what} {quoted(path)}: its name is not UTF-8; rename it, or take another") from None
    return path


def cannot_connect(data: str, error: OSError) -> DianaError:
    if isinstance(error, PermissionError):
        return Denied(
            f"{os.path.join(data, SOCKET)}: this account may not use the node there;"
            " its operator can open the socket's folder to your group"
        )
    if os.path.exists(data) and not os.path.isdir(data):
        return UsageError(f"{data}: not a directory; name a site's data directory with --data")
    if not os.path.exists(os.path.join(data, "site.toml")):
        if (job := os.environ.get("DIANA_JOB")) and not os.environ.get("DIANA_DATA") and data == data_folder(None):
            where = f"{os.environ.get('DIANA_MACHINE', '')} of {os.environ.get('DIANA_SITE', '')}"
            return Unreachable(
                f"job {job} has no way to a node: {where} gives its jobs none, as clusters and containers do;"
                " submit from a job on a plain machine, or name a credential and an address (docs/python.md)"
            )
        return Unreachable(
            f"no site in {data}; make one with: diana init NAME --data {data}, or diana join;"
            " or name another with --data"
        )
    return NodeAway(f"no node answers at {data}; start one with: diana node --data {data}")


def went_away(data: str) -> NodeLeft:
    return NodeLeft(f"the node at {data} went away during the call; see `diana node --data {data}` and its node.log")


def too_slow(data: str, seconds: float) -> Unreachable:
    return Unreachable(f"the node at {data} did not answer within {seconds:g} s; it may be overloaded or stopped")


def answer_limit_s(method: str) -> float | None:
    """Seconds one answer may take; None: no limit, as hashing a dataset takes as long as its bytes need."""
    return {"AddDataset": None, "Doctor": 8.0}.get(method, 120.0)
