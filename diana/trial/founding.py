"""Makes the VO of a scenario on a ground with init, invite and join alone, and brings all its nodes up."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec

from diana.adapters.lrm.software import Software
from diana.client import Client
from diana.errors import Unreachable
from diana.model.ids import MAIN_MACHINE
from diana.model.job.devices import declared
from diana.model.job.software import CONTAINERS
from diana.node.config.setup import own_account
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.resources_spec import ResourcesSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.trial.ground import NodeProcess, Testbed
from diana.trial.plan import settings_of

START_S = 60.0
MEET_S = 120.0
AT_ONCE = 4
"""Joins and starts side by side; each takes a processor for about a second."""
_LOOK_S = 0.1


class Founding:
    def __init__(self, ground: Testbed, tell: Callable[[str], None]) -> None:
        self._ground = ground
        self._scenario: Scenario = ground.scenario
        self._tell = tell
        self._specs = {site.name: site for site in self._scenario.sites}
        first = next(site.name for site in self._scenario.sites if not site.dial_only)
        self._first = ground.main(first)
        self._vo = self._scenario.users[0].name.partition("@")[2]

    def found(self) -> None:
        """Every node is up, every site sees all others and every site's standby is in sync when this returns.
        Unreachable, with what the node wrote last, when one does not come up."""
        ground, first = self._ground, self._first
        slots = str(self._specs[first.site].slots)
        data = ("--data", str(first.data))
        words = ("init", first.site, "--vo", self._vo, "--listen", first.address, "--slots", slots)
        ground.say(first, *words, *_root_jobs(), *data)
        self._configure(first)
        self._start([first])
        others = [machine for machine in ground.machines if machine.role == "site" and machine is not first]
        self._come_in(others, first)
        later = [machine for machine in ground.machines if machine.role != "site"]
        for machine in later:
            self._join(machine, ground.main(machine.site))
        self._start(later)
        self._meet()
        machines, sites = len(ground.machines), len(self._specs)
        self._tell(f"{machines} nodes of {sites} sites are up and in touch, joined by invitation")

    def _come_in(self, sites: list[NodeProcess], inviter: NodeProcess) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            # The first three are the VO's signers; one after the other they know of each other.
            for machine in sites[:2]:
                self._join(machine, inviter)
            list(pool.map(lambda machine: self._join(machine, inviter), sites[2:]))
        self._start(sites)

    def _join(self, machine: NodeProcess, inviter: NodeProcess) -> None:
        token = inviter.client.invite(machine.role, machine.name, address=inviter.address).token
        words = ["join", "-", machine.name, "--data", str(machine.data), "--slots", str(self._slots(machine))]
        words += _root_jobs()
        if machine.role != "member":
            words += ["--listen", machine.address]
        if advertised := self._advertised(machine):
            words += ["--advertise", advertised]
        self._ground.say(machine, *words, told=token)
        self._configure(machine)

    def _slots(self, machine: NodeProcess) -> int:
        site = self._specs[machine.site]
        if machine.role == "member":
            return next(one.slots for one in site.machines if one.name == machine.name)
        return site.slots

    def _advertised(self, machine: NodeProcess) -> str:
        if machine.role == "member":
            return ""
        return "none" if self._specs[machine.site].dial_only else self._ground.advertised(machine)

    def _configure(self, machine: NodeProcess) -> None:
        """Write what an operator would write into `site.toml`: the scenario's settings, and whom this account submits
        as."""
        config = load_config(machine.paths.config)
        site = self._specs[machine.site]
        settings = settings_of(self._scenario, site, self._ground.factor)
        changes: dict[str, object] = {
            "zeroconf": False,
            "software": _software(site.software),
            **_resources(site),
        }
        if machine.role == "member":
            spec = next(one for one in site.machines if one.name == machine.name)
            changes |= {"software": _software(site.offered_by(spec)), **_resources(spec)}
            speed = spec.speed or settings.speed
            settings = msgspec.structs.replace(settings, slots=self._slots(machine), speed=speed)
        else:
            user = self._scenario.users[0].name
            changes["users"] = {own_account(): user, str(os.getuid()): user}
            changes["advertise"] = self._advertised(machine)
            changes["witness"] = site.witness if site.standby else ""
        if machine.role == "site" and machine is not self._first:
            changes["peers"] = (self._ground.advertised(self._first) or self._first.address,)
        write_config(machine.paths.config, msgspec.structs.replace(config, settings=settings, **changes))

    def _start(self, machines: Iterable[NodeProcess]) -> None:
        """Start all of them, so many at once."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._up, machines))

    def _up(self, machine: NodeProcess) -> None:
        self._ground.launch(machine)
        self.wait_until_up(machine)

    def wait_until_up(self, machine: NodeProcess) -> None:
        end = time.monotonic() + START_S
        while not machine.answers():
            if not self._ground.runs(machine):
                raise Unreachable(f"{machine.called}: its node ended at once{machine.last_words()}")
            if time.monotonic() > end:
                raise Unreachable(f"{machine.called}: does not answer after {START_S:g} s{machine.last_words()}")
            time.sleep(_LOOK_S)

    def _meet(self) -> None:
        end, waiting = time.monotonic() + MEET_S, list(self._specs)
        while waiting := [site for site in waiting if not self._sees_all(site)]:
            if time.monotonic() > end:
                words = self._ground.main(waiting[0]).last_words()
                raise Unreachable(f"{waiting[0]}: not in touch with all others after {MEET_S:g} s{words}")
            time.sleep(_LOOK_S)

    def _sees_all(self, site: str) -> bool:
        main, spec = self._ground.main(site), self._specs[site]
        try:
            views = main.client.sites()
            here = {row.machine for row in main.client.peers().machines if row.state == "here"}
            if spec.standby and main.client.info().durability != 2:
                return False
        except Unreachable:
            return False
        alive = {view.site for view in views if view.home or (view.state == "alive" and view.rtt_s >= 0)}
        # With `seeds` each holds streams to a few; to have heard of all is enough.
        seen = {view.site for view in views if view.home or view.state == "alive"} if len(self._specs) > 16 else alive
        return seen >= set(self._specs) and here >= {MAIN_MACHINE, *(one.name for one in spec.machines)}

    # --- users and data --------------------------------------------------------------------------------

    def credentials(self, users: Iterable[str]) -> dict[str, Path]:
        """A credential for each of these VO users, by invitation; the first user of the scenario needs none."""
        made = {}
        for user in sorted(set(users) - {self._scenario.users[0].name}):
            name = user.partition("@")[0]
            token = self._first.client.invite("user", name, address=self._first.address).token
            made[user] = self._first.folder / f"{name}-credential"
            self._ground.say(self._first, "join", "-", name, "--out", str(made[user]), told=token)
        return made

    def register(self, datasets: Iterable[DatasetSpec]) -> None:
        """Files of the right sizes at every site that holds a replica, and every site has heard of them."""
        names: set[str] = set()
        for spec in datasets:
            for site in (spec.site, *spec.replicas):
                folder = self._ground.main(site).folder / "datasets" / spec.name
                _write(spec, folder)
                self._ground.main(site).client.add_dataset(spec.name, [folder])
            names.add(spec.name)
        end = time.monotonic() + START_S
        for site in self._specs if names else ():
            while not names <= self._known(self._ground.main(site).client):
                if time.monotonic() > end:
                    raise Unreachable(f"{site}: has not heard of all datasets after {START_S:g} s")
                time.sleep(_LOOK_S)

    def _known(self, client: Client) -> set[str]:
        with suppress(Unreachable):
            return {name for view in client.sites() for name in view.datasets}
        return set()


def _write(spec: DatasetSpec, folder: Path) -> None:
    """Write a dataset: the same content at every site, and no two files alike, so that each moves as bytes of its
    own."""
    folder.mkdir(parents=True)
    for k in range(spec.files):
        with (folder / f"f{k}").open("wb") as file:
            file.write(hashlib.sha256(f"{spec.name}/f{k}".encode()).digest()[: spec.file_bytes])
            file.truncate(spec.file_bytes)


def _root_jobs() -> tuple[str, ...]:
    """The option by which whoever runs a scenario as root lets its jobs run as root."""
    return ("--root-jobs",) if os.getuid() == 0 else ()


def _resources(spec: ResourcesSpec) -> dict[str, object]:
    """Return the keys of `site.toml` by which a machine has what the scenario gives it. Its GPUs are names alone."""
    return {"gpus": declared(spec.gpus), "resources": spec.resources}


def _software(offered: tuple[str, ...]) -> Software:
    """Modules that do nothing; jobs of a trial run in no image."""
    return Software(modules={name.removeprefix("module "): "true" for name in offered if name != CONTAINERS})
