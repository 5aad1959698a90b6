"""The interface of a runner: it is asked once for the components that a site has of a group, and answers with the words
that stand before their command.

The words become each component's process when the whole gang is let go, with the variables of its gang
(`DIANA_GANG_RANK`, `MASTER_ADDR` and the others, `model/job/gang.py`). They start the command, look after it, and say
by their exit code how it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class GangToRun(NamedTuple):
    """A gang whose components are about to be claimed at a site."""

    command: tuple[str, ...]
    """Words of the command as the group's spec has them; swept values are not put in yet."""
    processors: int
    """Processors of each component that is asked about."""
    every: tuple[int, ...]
    """Processors of all components, by rank; empty: the gang is flexible, and DIANA_GANG_SIZE says how many there are
    once it is let go."""


class Launch(NamedTuple):
    words: tuple[str, ...] = ()
    """Words before the command; none: the component runs it as it is."""
    programs: tuple[str, ...] = ()
    """Programs that have to be on the component's machine: where one is not, its command is not executed."""


Runner = Callable[[GangToRun], Launch]
"""A runner. It computes and does nothing else: it runs within the node's own process."""
