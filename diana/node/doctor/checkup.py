"""All checks of a data directory, put together by the process that asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from diana.errors import DianaError, UsageError
from diana.model.layout import DataDir
from diana.node.config.site_file import SiteConfig, load_config
from diana.node.doctor import clusters, files, gpus, machine, software, trust
from diana.node.doctor.bounded import Check, Results, blocking, fail, run_all
from diana.node.pair.follower import is_paired
from diana.threads import in_thread
from diana.wire.client.peers import CheckResult, DoctorResponse

NODE_S = 4.0
"""Seconds for the running node's own checks."""

_DISK = "the disk or file system hangs: look at dmesg, and at df there"


def checkup(data: Path, ask: Callable[[], DoctorResponse], wall_s: Callable[[], float] = time.time) -> DoctorResponse:
    """Check up the site in `data`; takes about 6 s at most and changes nothing. `ask` has the running node look at what
    only it knows, blocks, and may raise DianaError; it is called only where a node runs."""
    return DoctorResponse(checks=tuple(asyncio.run(_checkup(DataDir(data), ask, wall_s))))


async def _checkup(paths: DataDir, ask: Callable[[], DoctorResponse], wall_s: Callable[[], float]) -> Results:
    if paths.root.exists() and not paths.root.is_dir():
        return [fail("data", f"{paths.root}: not a directory", "name a site's data directory with --data")]
    if not paths.root.is_dir():
        mend = f"make a site with diana init NAME --data {paths.root} or diana join, or name another with --data"
        return [fail("data", f"{paths.root}: no such directory", mend)]
    try:
        config = load_config(paths.config, keys=False)
    except UsageError as error:
        found, _, mend = str(error).rpartition("; ")
        return [fail("site.toml", found, mend)]
    held = machine.holder(paths.lock)
    asked = asyncio.create_task(_asked(held, ask))
    here = asyncio.create_task(run_all(_local(paths, config, held, wall_s())))
    told, problem = await asked
    # A standby tells how it stands and no more.
    seen = any(row.name == "clock" for row in told or ())
    outside = [] if seen else await _network(paths, config, wall_s)
    return [*machine.node(paths, held, problem), *await here, *(told or ()), *outside]


def _local(paths: DataDir, config: SiteConfig, held: machine.Holder | None, now_wall_s: float) -> list[Check]:
    running = held is not None
    cluster = partial(clusters.answers, where=str(paths.config), paired=is_paired(paths, config))
    kernel = "the machine is overloaded, or a process of it hangs"
    return [
        blocking("site.toml", lambda: files.settings(config), _DISK),
        blocking("rights", lambda: files.rights(paths), _DISK),
        blocking("account", lambda: machine.runs_as(paths, held), kernel),
        blocking("disk", lambda: files.disk(paths.root), _DISK),
        blocking("place", lambda: files.place(paths.root), _DISK),
        blocking("store", lambda: files.store(paths, running=running, role=config.role), _DISK),
        blocking("claims", lambda: files.claims(paths, running=running), _DISK),
        blocking("audit", lambda: files.trail(paths), _DISK),
        blocking("certificate", lambda: trust.certificate(paths, config, now_wall_s), _DISK),
        blocking("spawner", lambda: machine.spawner(paths, held), kernel),
        blocking("cgroups", lambda: machine.cgroups(paths), kernel),
        blocking("limits", lambda: machine.limits(config, held), kernel),
        blocking("port", lambda: machine.listening(config, held), kernel),
        *(
            blocking(name, partial(cluster, name, settings), "its batch system hangs")
            for name, settings in sorted(config.clusters.items())
        ),
        blocking("gpus", lambda: gpus.there(config.gpus, str(paths.config)), "the driver of its GPUs hangs"),
        *software.checks(config.software, str(paths.config)),
    ]


async def _asked(
    held: machine.Holder | None, ask: Callable[[], DoctorResponse]
) -> tuple[tuple[CheckResult, ...] | None, str]:
    """The running node's rows, None for none; and what it said instead."""
    if held is None or held.stopped:
        return None, ""
    try:
        async with asyncio.timeout(NODE_S):
            return (await in_thread(ask)).checks, ""
    except TimeoutError:
        return None, f"no answer within {NODE_S:g} s"
    except DianaError as error:
        return None, str(error)


async def _network(paths: DataDir, config: SiteConfig, wall_s: Callable[[], float]) -> Results:
    """The network checks that need no running node."""
    from diana.node.doctor import network
    from diana.wire.tls import load_credentials

    async def peers() -> Results:
        kind = "member" if config.role == "member" else "site"
        try:
            own = load_credentials(paths.keys, kind)
        except DianaError as error:
            return network.credentials_problem(error)
        targets = [*network.targets_of(config.root, config.site), *network.targets_of(config.peers)]
        seen = await network.look_at_all(targets, own, wall_s)
        return [*(one.row for one in seen), *network.alone(seen), *network.clock(seen)]

    join = partial(network.multicast, config.zeroconf)
    lan = blocking("multicast", lambda: join(network.of_this_machine()), "name peers in site.toml")
    return await run_all([Check("peers", peers, "look at the network"), lan], limit_s=2.5)
