"""The scenario's `[[events]]` on real machines: one thread does them in order, so that nothing else waits for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from diana.errors import DianaError
from diana.sim.specs.event_spec import EventSpec
from diana.trial.ground import NodeProcess, Testbed

_Pair = tuple[str, str]


class Happenings:
    """`happen` begins an event and `is_over` ends one that lasts; both return at once. `reap` raises what failed."""

    def __init__(self, ground: Testbed, factor: float) -> None:
        self._ground = ground
        self._sites = [spec.name for spec in ground.scenario.sites]
        self.counts: Counter[str] = Counter()
        self._off: dict[str, EventSpec] = {}
        """Machines without power, and the event that took it."""
        self._stopped: dict[str, EventSpec] = {}
        self._cuts: dict[_Pair, list[EventSpec]] = {}
        """Pairs that are cut, and by which partitions."""
        self._one_by_one = ThreadPoolExecutor(1, "events")
        self._doing: list[Future[None]] = []

    def happen(self, event: EventSpec) -> None:
        self.counts[event.kind] += 1
        self._do(self._begin, event)

    def is_over(self, event: EventSpec) -> None:
        self._do(self._end, event)

    def reap(self) -> None:
        for done in [one for one in self._doing if one.done()]:
            self._doing.remove(done)
            done.result()

    def all_whole(self) -> None:
        """Everything goes on and every link is whole, so that nodes can be asked and ended."""
        self._do(self._heal_all)
        self._one_by_one.shutdown(wait=True)
        self.reap()

    def leader(self, site: str) -> NodeProcess:
        """The machine that leads the site: the one whose journal counts. Where nobody says so, the site's own."""
        machines = [machine for machine in self._ground.of(site) if machine.role != "member"]
        for machine in machines if len(machines) > 1 else ():
            if machine.called in self._off or machine.called in self._stopped:
                continue
            with suppress(DianaError):
                if machine.client.info().durability > 0:
                    return machine
        return machines[0]

    def _do(self, deed: Callable[..., None], *arguments: object) -> None:
        self._doing.append(self._one_by_one.submit(deed, *arguments))

    # --- in the thread -------------------------------------------------------------------------------------

    def _begin(self, event: EventSpec) -> None:
        sites = event.sites
        match event.kind:
            case "kill":
                for machine in self._struck(event):
                    if machine.called not in self._off:
                        self._off[machine.called] = event
                        self._ground.power_off(machine)
            case "stop":
                for machine in self._struck(event):
                    if machine.called not in self._off and machine.called not in self._stopped:
                        self._stopped[machine.called] = event
                        self._ground.stop(machine)
            case "restart":
                for site in sites or self._sites_off():
                    self._restart(site)
            case "partition":
                inside = [(a, b) for a in sites for b in self._sites if b not in sites]
                pairs = [_pair(a, b) for a, b in inside]
                for pair in pairs:
                    self._cuts.setdefault(pair, []).append(event)
                self._ground.cut([pair for pair in pairs if len(self._cuts[pair]) == 1])
            case "drain" | "undrain":
                for site in sites:
                    self.leader(site).client.operate(event.kind)
            case "load" | "slots":
                raise AssertionError("a plan has none")
            case "heal":
                self._mend([pair for pair in self._cuts if not sites or not set(sites).isdisjoint(pair)])

    def _end(self, event: EventSpec) -> None:
        if event.kind == "partition":
            cut = [pair for pair, by in self._cuts.items() if any(one is event for one in by)]
            for pair in cut:
                self._cuts[pair] = [one for one in self._cuts[pair] if one is not event]
            self._mend([pair for pair in cut if not self._cuts[pair]])
        if event.kind == "drain":
            for site in event.sites:
                self.leader(site).client.operate("undrain")
        for machine in self._ground.machines:
            if self._stopped.get(machine.called) is event:
                del self._stopped[machine.called]
                self._ground.go_on(machine)
            if self._off.get(machine.called) is event:
                self._power_on(machine)

    def _struck(self, event: EventSpec) -> list[NodeProcess]:
        """The machines that an event strikes: the one that leads, at a site with a standby; else the main one for a
        stop, and all of the site, its members too, for any other event."""
        struck = []
        for site in event.sites:
            machines = self._ground.of(site)
            if any(machine.role == "standby" for machine in machines):
                struck.append(self.leader(site))
            elif event.kind == "stop":
                struck.append(machines[0])
            else:
                struck += machines
        return struck

    def _sites_off(self) -> list[str]:
        return [site for site in self._sites if any(one.called in self._off for one in self._ground.of(site))]

    def _restart(self, site: str) -> None:
        off = [machine for machine in self._ground.of(site) if machine.called in self._off]
        for machine in off:
            self._power_on(machine)
        if not off:
            machine = self.leader(site)
            if machine.called in self._stopped:
                del self._stopped[machine.called]
                self._ground.go_on(machine)
            self._ground.end_node(machine)
            self._ground.launch(machine)

    def _power_on(self, machine: NodeProcess) -> None:
        self._off.pop(machine.called, None)
        self._ground.launch(machine)

    def _mend(self, pairs: list[_Pair]) -> None:
        self._ground.mend(pairs)
        for pair in pairs:
            self._cuts.pop(pair, None)

    def _heal_all(self) -> None:
        self._mend(list(self._cuts))
        for machine in self._ground.machines:
            if machine.called in self._stopped:
                del self._stopped[machine.called]
                self._ground.go_on(machine)
        for site in self._sites_off():
            self._restart(site)


def _pair(a: str, b: str) -> _Pair:
    return (a, b) if a <= b else (b, a)
