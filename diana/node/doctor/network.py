"""Checks of the network: each peer's address by name, connection, certificate and one call, and the peers' clocks."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import grpc

from diana.errors import DianaError
from diana.node.doctor.bounded import Results, fail, ok, warn
from diana.node.ways_in.client_service import FAILURE_KEY
from diana.threads import in_thread
from diana.wire.client.peers import CheckResult
from diana.wire.pb import data_pb2, data_pb2_grpc
from diana.wire.tls import Credentials, identity_in, learn_leaf, open_channel, why_no_handshake

MOST_ASKED = 8
"""Sites looked at; a site of a large VO knows thousands."""
ANSWER_S = 1.8
CLOCK_WARN_S, CLOCK_FAIL_S = 1.0, 60.0
GROUP, MDNS_PORT = "224.0.0.251", 5353

SET_CLOCK = "set this machine's clock: timedatectl set-ntp true, or chronyc makestep"


class Target(NamedTuple):
    """An address at which a site should answer."""

    address: str
    """host:port."""
    site: str = ""
    """Name of the site expected there; empty: any of the VO."""


class ProbeResult(NamedTuple):
    """The outcome of one look."""

    row: CheckResult
    site: str = ""
    ahead_s: float | None = None
    """Seconds its clock is ahead of ours at least, give or take half a round trip; None: it has not said."""
    silent: bool = False
    """True if nothing came back, not even a refusal."""


async def look_at(target: Target, own: Credentials, wall_s: Callable[[], float]) -> ProbeResult:
    """Ask one address. Takes at most about 2 s and raises nothing."""
    name = f"peer {target.site or target.address}"
    try:
        async with asyncio.timeout(ANSWER_S):
            return await _look(name, target, own, wall_s)
    except TimeoutError:
        mend = "it is off, or a firewall drops what is sent there: open that port to this machine"
        return ProbeResult(warn(name, f"{target.address}: no answer within {ANSWER_S:g} s", mend), silent=True)


async def _look(name: str, target: Target, own: Credentials, wall_s: Callable[[], float]) -> ProbeResult:
    host, _, port = target.address.rpartition(":")
    try:
        found = await in_thread(lambda: socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM))
    except (OSError, ValueError) as error:
        found_text = f"{target.address}: its name cannot be resolved ({getattr(error, 'strerror', '') or str(error)})"
        return ProbeResult(
            warn(name, found_text, "mend the name in DNS or /etc/hosts, or write its IP address in peers"), silent=True
        )
    where = _joined(found[0][4])
    try:
        claimed = identity_in(await learn_leaf(where))
    except ConnectionRefusedError:
        mend = "start the node there, or mend its address in site.toml"
        return ProbeResult(warn(name, f"{target.address}: nothing listens there", mend))
    except ssl.SSLError:
        return ProbeResult(
            fail(name, f"{target.address}: what answers there is not diana", "mend its address in site.toml")
        )
    except OSError as error:
        mend = "look at the network between the two machines"
        return ProbeResult(
            warn(name, f"{target.address}: {error.strerror or str(error) or 'the connection broke'}", mend), silent=True
        )
    vo = own.identity().vo
    if claimed.vo != vo or not claimed.site:
        found_text = f"{target.address}: a node of VO {claimed.vo or 'unknown'} answers, this is {vo}"
        return ProbeResult(fail(name, found_text, "mend its address in site.toml, or join that VO"))
    if target.site not in ("", claimed.site):
        found_text = f"{target.address}: site {claimed.site} answers, {target.site} was looked for"
        return ProbeResult(fail(name, found_text, "mend the address: two sites claim it"))
    name = f"peer {claimed.site}"
    channel = open_channel(where, claimed.site, vo, own)
    try:
        return await ask(name, claimed.site, target.address, channel, wall_s)
    except grpc.aio.AioRpcError as error:
        why = error.details() or error.code().name
        if any(key == FAILURE_KEY for key, _ in error.trailing_metadata() or ()):
            # It answers, and says itself why not now: a machine that stands by for its site, say.
            found_text, _, mend = why.partition("; ")
            return ProbeResult(warn(name, f"{target.address}: {found_text}", mend or "try again in some seconds"))
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            why = await why_no_handshake(where, claimed.site, own, wall_s=wall_s()) or "the handshake fails"
            return ProbeResult(
                fail(name, f"{target.address}: {why}", "compare both certificates and clocks: diana doctor there")
            )
        return ProbeResult(
            fail(name, f"{target.address} refuses this machine: {why}", "ask its operator; diana policy shows bans")
        )
    finally:
        await channel.close()


async def ask(name: str, site: str, where: str, channel: grpc.aio.Channel, wall_s: Callable[[], float]) -> ProbeResult:
    """Make one verified call. Raises gRPC's error."""
    clock = asyncio.get_running_loop().time
    stub: Any = data_pb2_grpc.ProbeStub(channel)  # type: ignore[no-untyped-call]
    await stub.Ping(data_pb2.PingRequest())
    began_s = clock()
    answer = await stub.Ping(data_pb2.PingRequest())
    rtt_s = clock() - began_s
    ahead_s = None
    if answer.wall_s:
        apart_s = answer.wall_s - (wall_s() - rtt_s / 2)
        sure_s = max(0.0, abs(apart_s) - rtt_s / 2)
        ahead_s = sure_s if apart_s >= 0 else -sure_s
    return ProbeResult(ok(name, f"answers at {where} as {site}, round trip {rtt_s * 1000:.1f} ms"), site, ahead_s)


async def look_at_all(targets: Sequence[Target], own: Credentials, wall_s: Callable[[], float]) -> list[ProbeResult]:
    """Some of them, in order; a site that was named twice counts once where one of its addresses answers."""
    seen = await asyncio.gather(*(look_at(one, own, wall_s) for one in dict.fromkeys(targets[: 2 * MOST_ASKED])))
    answering = {one.site for one in seen if one.site}
    rows: list[ProbeResult] = []
    for target, one in zip(dict.fromkeys(targets), seen, strict=False):
        if one.site and any(one.site == other.site for other in rows):
            continue
        if not one.site and target.site in answering and one.row.state == "warn":
            continue
        rows.append(one)
    return rows[:MOST_ASKED]


def _joined(address: Sequence[Any]) -> str:
    host, port = str(address[0]), int(address[1])
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# --- clocks ------------------------------------------------------------------------------------------------------


def clock(seen: Sequence[ProbeResult]) -> Results:
    """Compare this clock with the peers'. Their median is believed: half of the VO must be wrong to blame us."""
    ahead = {one.site: one.ahead_s for one in seen if one.site and one.ahead_s is not None}
    if not ahead:
        return [ok("clock", "nobody answers to compare it with")]
    middle_s = median(ahead.values())
    rows = [_own(middle_s, sorted(ahead))]
    if len(ahead) > 2:
        for site, its_s in sorted(ahead.items()):
            if abs(its_s - middle_s) > CLOCK_WARN_S:
                found = f"{site}'s clock is {_apart(its_s - middle_s)} the others'"
                rows.append(warn(f"clock {site}", found, "tell its operator to run diana doctor"))
    return rows


def _own(ahead_s: float, sites: list[str]) -> CheckResult:
    others = ", ".join(sites[:3]) + (f" and {len(sites) - 3} more" if len(sites) > 3 else "")
    if abs(ahead_s) <= CLOCK_WARN_S:
        return ok("clock", f"within {max(abs(ahead_s), 0.1):.1f} s of {others}")
    found = f"this machine's clock is {_apart(-ahead_s)} that of {others}"
    mend = SET_CLOCK if len(sites) > 1 else f"{SET_CLOCK}; if it is right, {sites[0]}'s is wrong"
    return fail("clock", found, mend) if abs(ahead_s) > CLOCK_FAIL_S else warn("clock", found, mend)


def _apart(by_s: float) -> str:
    from diana.model.durations import seconds

    return f"{seconds(abs(by_s))} {'ahead of' if by_s > 0 else 'behind'}"


# --- the local network -------------------------------------------------------------------------------------------


def multicast(enabled: bool, interfaces: Sequence[str], port: int = MDNS_PORT) -> Results:
    """Check on each interface that a socket can have what zeroconf needs."""
    if not enabled:
        return [ok("multicast", "zeroconf is off in site.toml: peers are known by address and by gossip")]
    mend = "name peers in site.toml; or allow multicast there, or set zeroconf = false"
    good, bad = [], []
    for address in interfaces:
        why = _join(address, port)
        bad.append(f"{address}: {why}") if why else good.append(address)
    if bad:
        return [warn("multicast", f"no multicast on {'; '.join(bad)}", mend)]
    if all(ipaddress.ip_address(one).is_loopback for one in good):
        return [warn("multicast", "this machine has no interface but loopback", "bring a network interface up")]
    return [ok("multicast", f"the zeroconf group can be joined on {', '.join(good)}")]


def _join(address: str, port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except OSError as error:
            return error.strerror or str(error)
        try:
            probe.bind(("", port))
        except OSError as error:
            return f"UDP port {port} is not shared by who has it ({error.strerror})"
        group = socket.inet_aton(GROUP) + socket.inet_aton(address)
        try:
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
            # To ourselves alone: that it can be sent is all that is asked.
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            probe.sendto(b"\0" * 12, (GROUP, port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def of_this_machine() -> tuple[str, ...]:
    """IPv4 addresses, loopback only when there is no other. As discovery has them, whose library takes long to load."""
    import ifaddr

    found = sorted(str(ip.ip) for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4)
    return tuple(one for one in found if not ipaddress.ip_address(one).is_loopback) or tuple(found)


def targets_of(peers: Sequence[str], site: str = "") -> list[Target]:
    """Addresses as site.toml has them: `host:port` or `site@host:port`."""
    return [Target(text.rpartition("@")[2], text.rpartition("@")[0] or site) for text in peers]


def alone(seen: Sequence[ProbeResult]) -> Results:
    """Report a network where nothing comes back from any site: one dead site is its own business, this is ours."""
    if len(seen) < 2 or not all(one.silent for one in seen):
        return []
    found = f"nothing comes back from any of {len(seen)} sites"
    return [fail("network", found, "look at this machine's cable, routes and firewall: ip route; ping one of them")]


def credentials_problem(error: DianaError) -> Results:
    return [warn("peers", f"nobody can be asked: {str(error).partition('; ')[0]}", "mend the certificate first")]
