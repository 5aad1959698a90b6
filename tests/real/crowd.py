"""Many sites on hosts of their own: started in waves, asked what each knows of the others, measured from outside."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from diana.errors import DianaError
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import PATIENCE_S, Grid, crowding, timely, until
from tests.real.hosts import site_on
from tests.real.machines.test_three_machines import Lan, Machine

MOST_HOSTS = 250
"""A `Lan` has one /24."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CAME_OR_WENT = re.compile(r"diana\.peers: (\S+) is (here|gone)\b")


class Usage(NamedTuple):
    """Figures of one node at one moment, its spawner included where not said otherwise; totals since its start."""

    rss_bytes: int
    """Memory of the node's process alone, as `ps` says it."""
    pss_bytes: int
    """Pages shared with the other nodes of this machine are split among them: less than a machine of its own sees."""
    spawner_rss_bytes: int
    cpu_s: float
    spawner_cpu_s: float
    threads: int
    """Threads of the node's process alone, as are the descriptors."""
    descriptors: int
    connections: int
    streams: int
    packets: int
    """Both ways, over the host's interface."""
    traffic_bytes: int


class Crowd:
    """Sites of one VO; each is told the addresses of two others, those of the first and of one drawn from `chance`."""

    def __init__(self, grid: Grid, lan: Lan, chance: random.Random, slots: int = 1) -> None:
        self._grid = grid
        self._lan = lan
        self._chance = chance
        self._slots = slots
        self.settings: dict[str, float] = {}
        """Other than the default, for every site that is added from now on."""
        self.sites: dict[str, Machine] = {}

    def add(self, count: int = 1) -> list[Machine]:
        """They are not started yet."""
        made = []
        for _ in range(count):
            number, known = len(self.sites) + 1, list(self.sites.values())
            seeds = [known[0], self._chance.choice(known)] if known else []
            name = f"s{number:03}"
            site = site_on(self._grid, self._lan, number, name, *dict.fromkeys(seeds), slots=self._slots)
            config = load_config(site.paths.config)
            changed = msgspec.structs.replace(config.settings, **self.settings)
            write_config(site.paths.config, msgspec.structs.replace(config, settings=changed))
            self.sites[name] = site
            made.append(site)
        return made

    def start(self, sites: Collection[Machine], at_once: int, within_s: float) -> None:
        """No more than so many that do not answer yet: starting is what costs most."""
        waiting, starting, end_s = list(sites), [], time.monotonic() + max(within_s, PATIENCE_S) * crowding()
        while waiting or starting:
            while waiting and len(starting) < at_once:
                site = waiting.pop(0)
                site.launch()
                starting.append(site)
            starting = [site for site in starting if not answers(site)]
            assert time.monotonic() < end_s, "\n".join(site.story() for site in starting)
            time.sleep(0.05)

    def up(self) -> list[Machine]:
        return [site for site in self.sites.values() if site.process is not None and site.process.poll() is None]

    def all_see(self, of: Iterable[Machine], wanted: Collection[str], within_s: float, every_s: float = 0.2) -> float:
        """Seconds until each of those that run has said once that these (itself apart) are in a wanted state."""
        began_s, left, names = time.monotonic(), self.up(), [site.name for site in of]

        def sees(site: Machine) -> bool:
            seen = states(site)
            return all(seen.get(name) in wanted for name in names if name != site.name)

        def done() -> bool:
            left[:] = [site for site in left if not sees(site)]
            return not left

        def who() -> str:
            told = "\n".join(f"{site.name}: {states(site)}" for site in left[:3])
            return f"all see {names[:5]} as {wanted}; {len(left)} do not: {told}\n{left[0].story() if left else ''}"

        until(done, who, within_s, every_s)
        took_s = time.monotonic() - began_s
        timely(took_s, within_s, f"the word that {names[:5]} are {wanted}")
        return took_s


def answers(site: Machine) -> bool:
    site.assert_runs()
    with suppress(DianaError), site.client() as client:
        return site.process is not None and client.info().pid == site.process.pid
    return False


def states(site: Machine) -> dict[str, str]:
    """How the other sites stand there."""
    with site.client() as client:
        return {seen.site: seen.state for seen in client.sites() if not seen.home}


def streams(site: Machine) -> set[str]:
    """To whom the node's log says that a stream stands."""
    here: set[str] = set()
    text = site.paths.node_log.read_text(errors="replace") if site.paths.node_log.exists() else ""
    for found in _CAME_OR_WENT.finditer(text[text.rfind(" serves ") :]):
        (here.add if found[2] == "here" else here.discard)(found[1])
    return here


def usage(site: Machine) -> Usage:
    assert site.process is not None
    pid = site.process.pid
    spawner = site.spawner_pid()
    both = [pid, spawner] if spawner else [pid]
    packets, traffic_bytes = _interface(pid)
    return Usage(
        rss_bytes=_status(pid, "VmRSS") * 1024,
        pss_bytes=sum(_rollup(one, "Pss") for one in both) * 1024,
        spawner_rss_bytes=_status(spawner, "VmRSS") * 1024 if spawner else 0,
        cpu_s=_cpu_s(pid),
        spawner_cpu_s=_cpu_s(spawner) if spawner else 0.0,
        threads=_status(pid, "Threads"),
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        connections=sum(1 for _ in _established(pid)),
        streams=len(streams(site)),
        packets=packets,
        traffic_bytes=traffic_bytes,
    )


def _cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS_PER_S


def _status(pid: int, key: str) -> int:
    return _number(Path(f"/proc/{pid}/status").read_text().splitlines(), key)


def _rollup(pid: int, key: str) -> int:
    """KiB."""
    return _number(Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines(), key)


def _number(lines: Iterable[str], key: str) -> int:
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def _established(pid: int) -> Iterator[str]:
    """TCP connections of the host. gRPC listens on a socket of both families, whose callers count as IPv6."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "01":
                yield words[2]


def _interface(pid: int) -> tuple[int, int]:
    """Packets and bytes that the host's interface received and sent."""
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "eth0":
            words = [int(word) for word in rest.split()]
            return words[1] + words[9], words[0] + words[8]
    raise AssertionError("the host has no eth0")
