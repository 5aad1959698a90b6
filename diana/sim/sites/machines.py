"""The machines of one simulated site, as its node sees them: one port, an LRM on each machine, links that can fail.

A member's link to its node is not the machine: while it is away its jobs run on, its orders are lost and its ends are
not heard. When it is back its inventory comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from diana.engine.journal.effects import Go, KillRuns, RecallRuns, RenewLease, SaveRuns, Start, TellRoster
from diana.engine.journal.events import LrmLost, Run
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId
from diana.ports import Emit
from diana.sim.twins.lrm import Others, SimLrm

JOIN_S = 0.05
"""Members dial a node that started; each takes this much longer than the one before."""


class SimMachines:
    """LocalResourceManager of a site: the node's own machine, called `main`, and its members."""

    def __init__(self, lrms: Mapping[str, SimLrm]) -> None:
        self.lrms = dict(lrms)
        self._members = sorted(name for name in self.lrms if name != MAIN_MACHINE)
        self._away: set[str] = set()
        self._emit: Emit | None = None
        self._leases: dict[SiteId, RenewLease] = {}

    # --- the node's side -------------------------------------------------------------------------------

    def attach(self, emit: Emit) -> None:
        self._emit = emit
        self.lrms[MAIN_MACHINE].attach(emit)
        for number, name in enumerate(self._members, 1):
            if name not in self._away:
                self.lrms[name].attach(emit, number * JOIN_S)

    def detach(self) -> None:
        self._emit = None
        for lrm in self.lrms.values():
            lrm.detach()

    def start(self, order: Start) -> None:
        if order.worker not in self._away:
            self.lrms[order.worker].start(order)

    def go(self, order: Go) -> None:
        if order.worker not in self._away:
            self.lrms[order.worker].go(order)

    def lease(self, order: RenewLease) -> None:
        self._leases[order.origin] = order
        for name, lrm in self.lrms.items():
            if name not in self._away:
                lrm.lease(order)

    def kill(self, order: KillRuns) -> None:
        if order.worker not in self._away:
            self.lrms[order.worker].kill(order)

    def recall(self, order: RecallRuns) -> None:
        if order.worker not in self._away:
            self.lrms[order.worker].recall(order)

    def save(self, order: SaveRuns) -> None:
        if order.worker not in self._away:
            self.lrms[order.worker].save(order)

    def tell_roster(self, order: TellRoster) -> None:
        if order.worker not in self._away:
            self.lrms[order.worker].tell_roster(order)

    def forget(self, runs: tuple[Run, ...], worker: str = "") -> None:
        for name, lrm in self.lrms.items():
            if name not in self._away:
                lrm.forget(runs)

    def load(self, times: float) -> None:
        """Have all that runs here take so many times as long as it would alone."""
        for lrm in self.lrms.values():
            lrm.load(times)

    def resize(self, slots: int) -> None:
        """Have the node's own machine offer so many slots from now on."""
        self.lrms[MAIN_MACHINE].resize(slots)

    # --- faults ----------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return [MAIN_MACHINE, *self._members]

    def is_away(self, name: str) -> bool:
        return name in self._away

    def lose(self, name: str) -> None:
        """The member's link is cut."""
        if name in self._away:
            return
        self._away.add(name)
        self.lrms[name].detach()
        if self._emit is not None:
            self._emit(LrmLost(name))

    def crash(self, name: str) -> None:
        """The member's machine loses power."""
        self.lose(name)
        self.lrms[name].crash_machine()

    def find_again(self, name: str) -> None:
        """The member is back."""
        self._away.discard(name)
        for order in self._leases.values():
            self.lrms[name].lease(order)
        if self._emit is not None:
            self.lrms[name].attach(self._emit)

    @property
    def software(self) -> tuple[str, ...]:
        """Software that jobs may ask for at the node's own machine."""
        return self.lrms[MAIN_MACHINE].software

    # --- sums ------------------------------------------------------------------------------------------

    @property
    def slots(self) -> int:
        return self._sum(lambda lrm: lrm.slots)

    @property
    def executed(self) -> int:
        return self._sum(lambda lrm: lrm.executed)

    @property
    def busy_s(self) -> float:
        return sum(lrm.busy_s for lrm in self.lrms.values())

    @property
    def queued(self) -> int:
        """Runs claimed and not started."""
        return sum(lrm.queued() for lrm in self.lrms.values())

    @property
    def running(self) -> int:
        """Processors in use."""
        return self._sum(lambda lrm: lrm.slots - lrm.free)

    @property
    def others(self) -> Others | None:
        """Jobs that came past diana; a batch system is one machine."""
        return self.lrms[MAIN_MACHINE].others

    def groups(self) -> set[GroupId]:
        """Groups with runs that are not forgotten."""
        return {name for lrm in self.lrms.values() for name in lrm.groups()}

    def _sum(self, of: Callable[[SimLrm], int]) -> int:
        return sum(map(of, self.lrms.values()))
