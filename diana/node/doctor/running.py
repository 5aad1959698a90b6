"""Checks that only the running node can make: its reach, its peers, its machines and its standby."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import grpc

from diana.errors import DianaError
from diana.model.durations import seconds
from diana.model.views.peers import Peers
from diana.model.words import counted
from diana.node.config.site_file import DIAL_OUT_ONLY, SiteConfig
from diana.node.doctor import names, network
from diana.node.doctor.bounded import Check, Results, fail, ok, run_all, warn
from diana.wire.client.peers import MachineRow, PeerRow, PeersResponse
from diana.wire.tls import load_credentials

LIMIT_S = 3.0
AWAY_S = 5.0
ENOUGH_RANGES = 30
"""Fewer outcomes say nothing about ranges."""
FAIR_RANGES = (0.65, 0.95)
"""Shares of ranges that held, between which chance alone may move them."""
MOST_DENIALS = 4
"""Sites that are named of those that doubt this one's database."""
_GONE = ("left", "banned")

ChannelFor = Callable[[str], "grpc.aio.Channel | None"]


async def examine(
    config: SiteConfig,
    keys: Path,
    known: PeersResponse,
    *,
    channel_for: ChannelFor,
    distrusted: str,
    announced: str,
    discovery_problem: str,
    wall_s: Callable[[], float],
    twins: Mapping[str, names.TwoNodes] = MappingProxyType({}),
    rumoured: Sequence[tuple[str, str]] = (),
    refusals: Mapping[str, str] = MappingProxyType({}),
) -> Results:
    """`known`: as `diana peers` has it. `distrusted`: why the VO trusts this very site no more, or nothing.
    `announced`: the name this site has on the local network, empty for none. `twins`, `refusals`: what peers showed.
    `rumoured`: sites of which gossip has two nodes, and where."""

    async def peers() -> Results:
        return await _peers(config, keys, known, channel_for, wall_s)

    async def lan() -> Results:
        return _lan(config, announced, discovery_problem)

    rows: Results = []
    if distrusted:
        mend = "a signer's operator lifts it: diana site unban " + config.site
        rows.append(fail("trust", f"the VO trusts this site no more: {distrusted}", mend))
    rows += [*names.clashes(config.site, twins), *names.rumoured(twins, rumoured)]
    rows += names.refused(config.site, {} if distrusted else refusals)
    rows += reached(config, known)
    rows += await run_all(
        [Check("peers", peers, "look at the network"), Check("multicast", lan, "name peers in site.toml")], LIMIT_S
    )
    return [*rows, *machines(known.machines), *standby(known), *availability(known), *forecasts(known)]


async def _peers(
    config: SiteConfig, keys: Path, known: PeersResponse, channel_for: ChannelFor, wall_s: Callable[[], float]
) -> Results:
    try:
        own = load_credentials(keys)
    except DianaError as error:
        return network.credentials_problem(error)
    gone = {row.address for row in known.peers if row.state in _GONE}
    dialled = [row for row in known.peers if row.address and row.state not in _GONE]
    sites = {row.address: row.site for row in dialled}
    named = [one for one in network.targets_of(config.peers) if one.address not in gone]
    # Those linked first: of thousands only some are asked, and these tell most.
    others = sorted(dialled, key=lambda row: (not row.link, row.site))
    targets = [network.Target(one.address, one.site or sites.get(one.address, "")) for one in named]
    targets += [network.Target(row.address, row.site) for row in others]
    seen = await network.look_at_all(targets, own, wall_s)
    tunnelled = [row for row in known.peers if row.state not in _GONE and (not row.address or row.dials_out_only)]
    seen = [one for one in seen if not _excused(one, tunnelled)]
    for row in tunnelled[: network.MOST_ASKED]:
        seen.append(await _through(row, channel_for, wall_s))
    left_out = len(known.peers) - len({one.site for one in seen if one.site})
    rows = [*(one.row for one in seen), *network.alone(seen)]
    if left_out > network.MOST_ASKED:
        rows.append(ok("peers", f"{left_out:,} more are known and were not asked; see diana peers"))
    return [*rows, *network.clock(seen)]


def _excused(one: network.ProbeResult, tunnelled: Sequence[PeerRow]) -> bool:
    """True if the address is known not to answer: its site is reached by a tunnel."""
    return not one.site and any(one.row.name == f"peer {row.site}" and row.link for row in tunnelled)


async def _through(row: PeerRow, channel_for: ChannelFor, wall_s: Callable[[], float]) -> network.ProbeResult:
    """A site that can only dial out."""
    name = f"peer {row.site}"
    channel = channel_for(row.site) if row.link else None
    if channel is None:
        mend = "it comes by itself when its node runs and one site of the VO can be dialled by both"
        found = f"it can only dial out and has no stream here; heard of {seconds(row.age_s)} ago"
        return network.ProbeResult(warn(name, found, mend))
    try:
        return await network.ask(name, row.site, row.link, channel, wall_s)
    except (grpc.aio.AioRpcError, grpc.aio.UsageError) as error:
        why = (error.details() if isinstance(error, grpc.aio.AioRpcError) else "") or "the channel closed"
        return network.ProbeResult(warn(name, f"{row.link}: {why}", "run diana doctor there"))


def reached(config: SiteConfig, known: PeersResponse) -> Results:
    """Report how the neighbours reached this site when they dialled back."""
    told = config.advertise or config.listen
    by = ", ".join(known.relayed_by)
    came_in = [row.site for row in known.peers if row.link == "in"]
    linked = [row.site for row in known.peers if row.link]
    if config.advertise == DIAL_OUT_ONLY:
        if by:
            return [ok("reach", f"this site dials out only; {by} relays to it")]
        if linked:
            mend = "let one site of the VO have a port that this one and others can dial"
            return [warn("reach", "this site dials out only and nobody relays to it", mend)]
        return [ok("reach", "this site dials out only; nobody is linked")]
    if by:
        mend = f'open the port of {told} to them, say advertise = "HOST:PORT" where they reach it, or "none"'
        return [warn("reach", f"{by} cannot dial this site: work goes through relays", mend)]
    if came_in:
        return [ok("reach", f"dialled from outside by {', '.join(came_in[:3])}")]
    if linked:
        return [ok("reach", f"linked with {', '.join(linked[:3])}; no site needs a relay to reach this one")]
    return [ok("reach", "nobody is linked who could say whether this site can be dialled")]


def _lan(config: SiteConfig, announced: str, problem: str) -> Results:
    if config.zeroconf and problem:
        mend = "name peers in site.toml, or set zeroconf = false"
        return [warn("multicast", f"nothing is announced or found on the local network: {problem}", mend)]
    if config.zeroconf and announced and announced != config.site:
        found = f"another machine here is announced as {config.site}, so this one is {announced}"
        mend = "nothing, if that is of another VO; else two sites have one name, or a copy of this data directory runs"
        return [warn("multicast", found, f"{mend} elsewhere: stop one of them")]
    return network.multicast(config.zeroconf, network.of_this_machine() if config.zeroconf else ())


def journal(found: Peers, other: str) -> Results:
    """Report who doubts that this site's database is its newest; nothing where nobody does. `other`: the machine that
    keeps the journal too."""
    if found.fallen:
        mend = "it begins anew by itself; if it does not, look at node.log"
        if other:
            mend = f"stop this node, then on {other}: diana site promote --force (docs/standby.md)"
        text = f"nothing is taken, placed or started, for the database is an older copy: {found.fallen}"
        return [fail("journal", text, mend)]
    rows: Results = []
    if found.waits_for:
        mend = "start their nodes; if one is gone for good: diana site go-on NAME"
        rows.append(warn("journal", f"this site {found.waits_for}", mend))
    rows += [
        warn(
            "journal",
            f"{site} says that it knows a later state of this site's database: its own jobs wait here",
            f"diana site go-on {site} if it is wrong; if it is right: diana restore of the newest backup",
        )
        for site in found.denied_by[:MOST_DENIALS]
    ]
    return rows


def machines(rows: Sequence[MachineRow]) -> Results:
    """Report the machines that are away, or all in one line."""
    away = [row for row in rows if row.state == "away" and row.away_s >= AWAY_S]
    found: Results = [
        warn(
            f"machine {row.machine}",
            f"not heard of for {seconds(row.away_s)}"
            + (f"; {counted(row.jobs, 'job is', 'jobs are')} there" if row.jobs else ""),
            f"start its node; if it is gone for good: diana site remove-machine {row.machine}",
        )
        for row in away
    ]
    here = [row for row in rows if row not in away]
    slots = sum(row.slots for row in here)
    if len(rows) > 1:
        found.append(ok("machines", f"{len(here)} of {len(rows)} here, {counted(slots, 'slot')}"))
    return found


def standby(known: PeersResponse) -> Results:
    row = next((row for row in known.machines if row.role == "standby"), None)
    if row is None:
        return []
    if row.note != "in sync":
        mend = f"start the node of {row.machine}; if it is gone for good: diana site promote --remove"
        return [warn("standby", f"{row.machine} is {row.note}: this machine alone holds what is acknowledged", mend)]
    if not known.witness:
        mend = 'name a site in site.toml: witness = "SITE"; else: diana site promote --force --data DIR, there'
        return [warn("standby", f"{row.machine} is in sync, but without a witness it never takes over by itself", mend)]
    return [ok("standby", f"{row.machine} is in sync; {known.witness} is the witness")]


def availability(known: PeersResponse) -> Results:
    """Report who ought to lead and to stand by, by how often the machines were there; nothing where it is as it ought
    to be."""
    found: Results = []
    if known.to_lead:
        mend = "it leads soon by itself" if known.elects else "diana site promote"
        found.append(warn("RootGrid", known.why_to_lead, mend))
    rows = {row.machine: row for row in known.machines}
    now = next((row for row in known.machines if row.role == "standby"), None)
    best = rows.get(known.to_stand_by)
    if best is None or best is now or best.role == "RootGrid":
        return found
    share = f"{100 * best.availability:.1f} %"
    if now is None:
        return [*found, ok("standby", f"there is none; the most available other machine is {best.machine}, {share}")]
    said = f"{best.machine} is more available than {now.machine}: {share} against {100 * now.availability:.1f} %"
    mend = f"have it take that place, from a data directory of its own: diana invite --standby {now.machine} --again"
    return [*found, warn("standby", said, mend)]


def forecasts(known: PeersResponse) -> Results:
    """Report how ends foretold to this site's users came out; nothing before the first was scored."""
    if not known.ranges:
        return []
    found = f"{known.ranges_held:.0%} of the last {counted(known.ranges, 'range')} held the true end, 80 % is meant"
    if known.forecasts:
        found += f"; ends were off by {known.forecast_error:.0%} in the median"
    least, most = FAIR_RANGES
    if known.ranges < ENOUGH_RANGES or least <= known.ranges_held <= most:
        return [ok("forecasts", found)]
    mend = "declare work_s where run times differ within a program; diana explain GROUP says what an end rests on"
    return [warn("forecasts", found, mend)]
