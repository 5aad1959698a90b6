"""What is remembered of the machines of a site: the records, and what they come to."""

from __future__ import annotations

import msgspec


class Machine(msgspec.Struct, frozen=True):
    """D: a machine of this site that was ready once."""

    slots: int
    memory_bytes: int = 0
    widest: int = 0
    gpus: tuple[int, int] = (0, 0)
    """(what one job may want, all there are)."""
    gone: bool = False
    """Given up by an operator, and not back since."""
    identity: str = ""
    """Of its data directory. A machine that lost its disk must not be taken for the one that still knows what it runs:
    its empty inventory would have those jobs started again beside themselves."""
    software: tuple[str, ...] | None = None
    """What jobs may ask for there (`model/software.py`); None: as the site's settings say."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    machine: str


class MachineKnown(_Record, frozen=True, kw_only=True):
    """D: a machine of this site is ready, for the first time or otherwise than before."""

    slots: int
    memory_bytes: int = 0
    widest: int = 0
    gpus: tuple[int, int] = (0, 0)
    identity: str = ""
    software: tuple[str, ...] | None = None

    def what(self) -> Machine:
        return Machine(
            self.slots, self.memory_bytes, self.widest, self.gpus, identity=self.identity, software=self.software
        )


class MachineGone(_Record, frozen=True, kw_only=True):
    """D: an operator gave the machine up; what it still runs is told to end should it come back."""


MachineRecord = MachineKnown | MachineGone
