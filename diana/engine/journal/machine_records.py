"""Records of the machines of a site, and the state that they fold into."""

from __future__ import annotations

import msgspec


class Machine(msgspec.Struct, frozen=True):
    """D: a machine of this site that was ready once."""

    slots: int
    memory_bytes: int = 0
    widest: int = 0
    gpus: tuple[int, int] = (0, 0)
    """(GPUs that one job may want, GPUs in all)."""
    gone: bool = False
    """True while it is given up by an operator, and not back since."""
    identity: str = ""
    """Identity of its data directory. A machine that lost its disk must not be taken for the one that still knows what
    it runs: its inventory is empty, so jobs that still run would be started a second time."""
    software: tuple[str, ...] | None = None
    """Software that jobs may ask for there (names of `model/job/software.py`); None: as the site's settings say."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    machine: str


class MachineKnown(_Record, frozen=True, kw_only=True):
    """D: a machine of this site is ready, for the first time or with other figures than before."""

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
    """D: an operator gave the machine up; should it come back, the jobs it still runs are told to end."""


MachineRecord = MachineKnown | MachineGone
