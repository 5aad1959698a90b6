"""Runs in columns, the form in which spawners and member machines are told of many at once."""

from __future__ import annotations

import msgspec


class Runs(msgspec.Struct, array_like=True):
    """Some runs of one subgroup and epoch; entry k of both columns is one run."""

    subgroup: str
    epoch: int
    indices: list[int]
    attempts: list[int]
