"""The dashboard (PERFORMANCE P11): how soon a browser shows 100 sites and 1,000 groups, and what ten pages cost.

    python -m benchmarks.bench_dashboard [--rounds 5] [--sites 100] [--groups 1000] [--json FILE]

The sites are the simulator's, the node's own service and web server answer for one of them; the browser is a real
Chromium (apt-get install chromium). The cost is that of a real node with as many groups that are done.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, cast

from playwright.sync_api import sync_playwright

from benchmarks.site import BenchSite, cpu_s, resident_bytes
from diana.adapters.sqlite_store.store import SqliteStore
from diana.engine.journal.effects import Reply
from diana.engine.journal.events import Event
from diana.model.ids import GroupId, SiteId
from diana.model.layout import DataDir
from diana.model.trust.principal import Principal, Role
from diana.model.views.peers import Peers
from diana.node.activity import Activity
from diana.node.api.service import Api
from diana.node.ways_in.door import About, ClientStager, EngineDoor, ReplyBody, Views
from diana.node.web.config import Web
from diana.node.web.server import WebServer
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world.world import World
from diana.wire.client.dashboard import DashboardRequest
from diana.wire.client.peers import PeerRow, PeersResponse

ROOT = Principal(Role.OPERATOR, "root@vo")
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking")
LOOK_S = 20.0
VIEWERS = 10

_SCENARIO = """
version = 1
name = "watched"
limit_s = 100000
settings = {{ guard_jobs = 0 }}
default_link = {{ latency_s = 0.02, bytes_per_s = 1e8 }}
sites = [{{ name = "s", slots = 20, count = {sites} }}]
users = [{{ name = "u@vo" }}]

[[workload]]
name = "work"
site = "s"
jobs = 50
work_s = 20.0
repeat = {groups}
every_s = 0.2
submit_s = 10.0
"""


class SimDoor:
    """The client service's half of an engine that stands still in the simulator."""

    def __init__(self, world: World, site: SiteId, store: SqliteStore) -> None:
        self._engine = world.sites[site].engine
        self._now_s = world.clock.now_s
        self._number = 1 << 40
        self.store = store

    async def request(self, make: Callable[[int], Event]) -> ReplyBody:
        self._number += 1
        assert self._engine is not None
        for effect in self._engine.handle(make(self._number), self._now_s):
            if isinstance(effect, Reply) and effect.request == self._number:
                return cast("ReplyBody", effect.body)
        raise AssertionError("no answer at once")

    @contextlib.asynccontextmanager
    async def watch(self, group: GroupId) -> AsyncIterator[Any]:
        yield None

    def now_s(self) -> float:
        return self._now_s


class Insight:
    def describe(self, found: Peers) -> PeersResponse:
        return PeersResponse(site="s", peers=tuple(PeerRow(site=row.site, state=row.state) for row in found.peers))

    def notes(self) -> dict[str, str]:
        return {}


def watched(sites: int, groups: int) -> World:
    """Once the last group was submitted."""
    world = World(sc.parse(_SCENARIO.format(sites=sites, groups=groups)), 1, Boot())
    world.begin()
    world.clock.run_until(20.0 + 0.2 * groups)
    return world


@contextlib.contextmanager
def served(world: World, site: SiteId, folder: Path) -> Iterator[WebServer]:
    loop, ready = asyncio.new_event_loop(), threading.Event()
    made: list[WebServer] = []

    async def serve() -> None:
        paths = DataDir(folder)
        paths.keys.mkdir(parents=True)
        store = SqliteStore(paths.journal)
        door = SimDoor(world, site, store)
        about = About(site=site, vo="vo", release="0", address="127.0.0.1:1")
        api = Api(
            door=cast("EngineDoor", door),
            stager=cast("ClientStager", None),
            data=paths,
            about=about,
            stop=lambda: None,
            insight=cast("Any", Insight()),
        )
        server = WebServer(Web(), paths, api, loopback=True, advertise="127.0.0.1")
        api.show(Views(server, Activity(api.look)))
        server.start(0)
        made.append(server)
        ready.set()
        await ended.wait()
        await server.stop()
        store.close()

    ended = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(30)
    try:
        yield made[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


_SHOWN = """([rows, circles]) => document.querySelectorAll('tbody tr').length >= rows
    && document.querySelectorAll('svg.map circle.body').length >= circles && performance.now()"""


def first_paint(sites: int, groups: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds from the navigation's start: until anything shows, until all sites do, until the groups do."""
    world = watched(sites, groups)
    program = shutil.which("chromium")
    assert program, "no chromium on this machine: apt-get install chromium"
    found: dict[str, list[float]] = {"paint_ms": [], "sites_ms": [], "groups_ms": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        served(world, SiteId("s"), Path(folder)) as server,
        sync_playwright() as pw,
    ):
        browser = pw.chromium.launch(executable_path=program, args=list(FLAGS))
        for number in range(rounds + 1):
            page = browser.new_context().new_page()
            page.goto(server.let_in(ROOT, DashboardRequest()).url)
            shown = page.wait_for_function(_SHOWN, arg=[min(sites, 100), sites]).json_value()
            paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            page.close()
            other = browser.new_context().new_page()
            other.add_init_script("location.hash = location.hash || '#/groups'")
            token = server.sessions.enter(server.sessions.ticket(ROOT, 3600))
            assert token is not None
            other.add_init_script(f"localStorage.setItem('diana-token', '{token[0]}')")
            other.goto(f"http://127.0.0.1:{server.port}/#/groups")
            listed = other.wait_for_function(_SHOWN, arg=[min(groups, 100), 0]).json_value()
            other.close()
            if number:
                for name, value in (("paint_ms", paint), ("sites_ms", shown), ("groups_ms", listed)):
                    found[name].append(value)
        browser.close()
    return found


def cost(groups: int) -> dict[str, float]:
    """Cost of the pages at a real node: shares of a core and MiB, with nobody looking, with one page open and with
    ten."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, BenchSite(Path(folder) / "site", slots=4) as site:
        for _ in range(groups):
            last = site.client.submit({"group": {"command": ["true"]}, "sweep": {"array": "0-0"}}).group
        site.client.wait(last, 300)
        time.sleep(15)
        pid = site.client.info().pid
        for viewers, name in ((0, "nobody"), (1, "one"), (VIEWERS, "ten")):
            with looking(site.client.dashboard().url, viewers) as heard:
                time.sleep(3)
                began, before = time.perf_counter(), cpu_s(pid)
                time.sleep(LOOK_S)
                found[f"{name}_cpu_percent"] = 100 * (cpu_s(pid) - before) / (time.perf_counter() - began)
                found[f"{name}_mib"] = resident_bytes(pid) / (1 << 20)
                if viewers:
                    found[f"{name}_kb_heard_each"] = sum(heard) / viewers / 1000
    return found


@contextlib.contextmanager
def looking(url: str, viewers: int) -> Iterator[list[int]]:
    """So many open feeds of one user, read as they come, in a thread of their own; what each heard, in bytes."""
    import aiohttp

    base, _, ticket = url.partition("/#enter=")
    heard = [0] * viewers
    loop, ended = asyncio.new_event_loop(), asyncio.Event()

    async def view(http: aiohttp.ClientSession, token: str, at: int) -> None:
        async with http.get(f"{base}/api/live", headers={"Authorization": f"Bearer {token}"}) as answer:
            async for chunk in answer.content.iter_any():
                heard[at] += len(chunk)

    async def look() -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout, read_bufsize=1 << 22) as http:
            async with http.post(f"{base}/api/session", json={"ticket": ticket}) as answer:
                token = (await answer.json())["token"]
            tasks = [asyncio.create_task(view(http, token, at)) for at in range(viewers)]
            await ended.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(look()))
    if viewers:
        thread.start()
    try:
        yield heard
    finally:
        if viewers:
            loop.call_soon_threadsafe(ended.set)
            thread.join()
        loop.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sites", type=int, default=100)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    paints = first_paint(args.sites, args.groups, args.rounds)
    for name, values in paints.items():
        print(f"{name:<18} median {median(values):8.0f}   {min(values):.0f} to {max(values):.0f}", flush=True)
    costs = cost(args.groups)
    for name, value in costs.items():
        print(f"{name:<18} {value:8.2f}")
    if args.json:
        args.json.write_text(json.dumps({"paint": paints, "cost": costs}, indent=2) + "\n")


if __name__ == "__main__":
    main()
