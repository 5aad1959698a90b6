"""`diana peers`: how every known site is linked, and the machines of this one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from diana.cli.groups.look import heard
from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, client

if TYPE_CHECKING:
    from diana.wire.client.peers import MachineRow, PeerRow, PeersResponse

_PEERS = ("SITE", "STATE", "LINK", ">STREAMS", "HELD", "REACHED", ">RTT", ">HEARD", ">SUMMARY", "RELEASE")
_PEERS_LEAST = ("RELEASE", "SUMMARY", "STREAMS", "HELD", "RTT", "REACHED")
_MACHINES = (
    "MACHINE",
    "ROLE",
    "STATE",
    ">SLOTS",
    ">FREE",
    ">JOBS",
    ">SCRATCH",
    "HAS",
    ">WAS HERE",
    ">GOINGS",
    ">AVAILABLE",
    "STANDBY",
)


def _options(parser: argparse.ArgumentParser) -> None:
    add_json(parser, "PeersResponse")
    add_node(parser)


def _peers(args: argparse.Namespace) -> int:
    with client(args) as node:
        found = node.peers()
    output.print_json(found) if args.json else show(found)
    return 0


def show(found: PeersResponse) -> None:
    if found.peers:
        output.print_table(_PEERS, [_peer(row) for row in found.peers], least=_PEERS_LEAST)
        for row in found.peers:
            if row.note:
                output.say(f"{row.site}: {row.note}")
    else:
        print("no other site is known; let one in with: diana invite")
    print()
    output.print_table(_MACHINES, [_machine(row) for row in found.machines])
    for line in _footer(found):
        output.say(line)


def _peer(row: PeerRow) -> tuple[object, ...]:
    return (
        row.site,
        row.state,
        row.link or "-",
        row.streams,
        row.held or "-",
        _reached(row),
        output.milliseconds(row.rtt_s),
        heard(row.age_s),
        heard(row.summary_age_s),
        row.release or "-",
    )


def _reached(row: PeerRow) -> str:
    if row.address and not row.dials_out_only:
        return row.address
    return f"not at {row.address}" if row.address else "dials out only"


def _machine(row: MachineRow) -> tuple[object, ...]:
    away = f"away for {output.seconds(row.away_s)}" if row.away_s > 0 else "away"
    return (
        row.machine,
        row.role,
        row.state if row.state == "here" else away,
        row.slots,
        max(0, row.slots - row.used_slots) if row.state == "here" else "-",
        f"{row.jobs:,}",
        _scratch(row),
        ", ".join(f"{one.count:,} {one.what}" for one in row.has) or "-",
        _share(row.here_s / row.known_s) if row.known_s else "-",
        f"{row.goings:.0f}" if row.availability else "-",
        _share(row.availability) if row.availability else "-",
        row.note or "-",
    )


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _scratch(row: MachineRow) -> str:
    if not row.scratch_bytes:
        return "-"
    free = output.size(row.scratch_free_bytes) if row.scratch_free_bytes >= 0 else "?"
    return f"{free} of {output.size(row.scratch_bytes)}"


def _footer(found: PeersResponse) -> list[str]:
    lines = []
    if any(row.role == "standby" for row in found.machines):
        lines.append(f"witness of the standby: {found.witness or 'none; a takeover takes an operator'}")
    if found.to_lead:
        how = "it is to lead soon" if found.elects else "hand over with: diana site promote"
        lines.append(f"{found.why_to_lead}; {how}")
    if found.relayed_by:
        lines.append(f"{', '.join(found.relayed_by)}: cannot dial this site, relay to it")
    if found.relays_to:
        lines.append(f"{', '.join(found.relays_to)}: reached through this site")
    counted = [f"{one.what} {one.count:,}" for one in found.counts if one.count]
    lines.append(f"since the node started: {', '.join(counted) or 'nothing dropped, refused or retried'}")
    return lines


COMMANDS = {
    "peers": Command(
        _options,
        _peers,
        "LINK: out, the stream was dialled from here; in, from there; via SITE, by a tunnel through SITE; - none,\n"
        "which is well in a large VO. HELD: who wants it to stand. SUMMARY: age of the newest word of its slots and\n"
        "load. A site that cannot be reached is shown with its age, never as an error.\n"
        "WAS HERE: share of the time that is known for which a machine of this site was there. GOINGS: times it went\n"
        "unplanned. AVAILABLE: how far it may be counted on, by which the leader is chosen: each going counts as an\n"
        "hour away, and a new machine begins at 99 %. Older time counts less in all three.",
        """
diana peers
diana peers --json
""",
    ),
}
