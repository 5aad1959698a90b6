"""SPEC U2, D9: what the doctor says of others: names, connections, certificates, clocks, multicast, machines."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.views.peers import Peers
from diana.node.config.site_file import SiteConfig, load_config
from diana.node.doctor import network, running
from diana.node.doctor.bounded import ok, warn
from diana.node.doctor.network import ProbeResult, Target, clock, look_at, look_at_all, multicast
from diana.wire.client.peers import MachineRow, PeerRow, PeersResponse
from diana.wire.tls import load_credentials
from tests.node.sick_sites import answering, mumbling, said, site_at


@pytest.fixture
def alpha(tmp_path: Path) -> DataDir:
    return site_at(tmp_path / "alpha")


@pytest.fixture
def beta(tmp_path: Path, alpha: DataDir) -> DataDir:
    return site_at(tmp_path / "beta", "beta", alpha.root)


async def look(me: DataDir, address: str, site: str = "", wall_s: Callable[[], float] = time.time) -> ProbeResult:
    return await look_at(Target(address, site), load_credentials(me.keys), wall_s)


# --- peers ------------------------------------------------------------------------------------------------


async def test_a_site_that_answers_is_named_with_its_round_trip(alpha: DataDir, beta: DataDir) -> None:
    async with answering(beta, "beta") as where:
        seen = await look(alpha, where)
    assert seen.row.name == "peer beta" and seen.row.state == "ok" and seen.site == "beta"
    assert seen.row.found.startswith(f"answers at {where} as beta, round trip ")


async def test_a_dead_peer_is_a_warning_with_what_to_start(alpha: DataDir) -> None:
    row = (await look(alpha, "127.0.0.1:1", "beta")).row
    assert said(row) == (
        "warn", "127.0.0.1:1: nothing listens there", "start the node there, or mend its address in site.toml",
    )  # fmt: skip
    assert row.name == "peer beta"


async def test_a_name_nobody_knows_and_a_port_that_is_none_are_told(alpha: DataDir) -> None:
    for where in ("no-such-host.invalid:7400", "127.0.0.1:http"):
        row = (await look(alpha, where)).row
        assert row.state == "warn" and row.found.startswith(f"{where}: its name cannot be resolved (")


async def test_what_is_not_diana_and_what_says_nothing_are_told_apart(
    alpha: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mumbling(b"HTTP/1.1 400 Bad Request\r\n\r\n") as where:
        row = (await look(alpha, where)).row
    assert said(row)[:2] == ("fail", f"{where}: what answers there is not diana")
    monkeypatch.setattr(network, "ANSWER_S", 0.3)
    async with mumbling(b"") as where:
        seen = await look(alpha, where)
    assert seen.row.state == "warn" and seen.row.found == f"{where}: no answer within 0.3 s" and seen.silent
    assert "firewall" in seen.row.mend


async def test_another_vo_and_another_site_behind_an_address_fail(
    tmp_path: Path, alpha: DataDir, beta: DataDir
) -> None:
    foreign = site_at(tmp_path / "foreign", "omega")
    async with answering(foreign, "omega") as where:
        assert said((await look(alpha, where)).row)[:2] == (
            "fail", f"{where}: a node of VO omega-vo answers, this is alpha-vo",
        )  # fmt: skip
    async with answering(beta, "beta") as where:
        assert said((await look(alpha, where, "gamma")).row)[:2] == (
            "fail", f"{where}: site beta answers, gamma was looked for",
        )  # fmt: skip


async def test_a_vo_of_the_same_name_but_another_root_fails_the_handshake(tmp_path: Path, alpha: DataDir) -> None:
    twin = site_at(tmp_path / "twin", "alpha")
    async with answering(twin, "alpha") as where:
        row = (await look(alpha, where)).row
    assert row.state == "fail" and row.found == f"{where}: the handshake fails"


async def test_a_site_named_by_two_addresses_is_one_row_where_one_of_them_answers(
    alpha: DataDir, beta: DataDir
) -> None:
    async with answering(beta, "beta") as where:
        targets = [Target("127.0.0.1:1", "beta"), Target(where), Target(where, "beta")]
        seen = await look_at_all(targets, load_credentials(alpha.keys), time.time)
    assert [(one.row.name, one.row.state) for one in seen] == [("peer beta", "ok")]


def test_silence_from_everywhere_is_this_machines_fault_and_one_dead_site_is_not() -> None:
    silent = ProbeResult(warn("peer x", "no answer", "open it"), silent=True)
    refused = ProbeResult(warn("peer y", "nothing listens", "start it"))
    assert [row.state for row in network.alone([silent, silent])] == ["fail"]
    assert network.alone([silent]) == network.alone([silent, refused]) == network.alone([]) == []


# --- clocks -----------------------------------------------------------------------------------------------


async def test_a_clock_that_is_off_is_measured_against_who_answers(alpha: DataDir, beta: DataDir) -> None:
    async with answering(beta, "beta", ahead_s=7200.0) as where:
        seen = await look(alpha, where)
        (row,) = clock([seen])
        assert row.state == "fail" and row.found.endswith("behind that of beta") and "h" in row.found
        assert row.mend == f"{network.SET_CLOCK}; if it is right, beta's is wrong"
        # The same machine with a clock of its own that is two hours ahead as well: they agree.
        agrees = await look(alpha, where, wall_s=lambda: time.time() + 7200.0)
    (row,) = clock([agrees])
    assert row.state == "ok" and row.found.endswith("s of beta")


@pytest.mark.parametrize(("ahead_s", "state"), [(0.4, "ok"), (-1.5, "warn"), (30.0, "warn"), (61.0, "fail")])
def test_a_second_is_a_warning_and_a_minute_a_failure(ahead_s: float, state: str) -> None:
    assert (
        clock([ProbeResult(ok("peer b", ""), "b", ahead_s), ProbeResult(ok("peer c", ""), "c", ahead_s)])[0].state
        == state
    )


def test_of_three_the_one_that_is_off_is_named_and_not_we() -> None:
    seen = [ProbeResult(ok("", ""), name, ahead_s) for name, ahead_s in (("b", 0.0), ("c", 0.1), ("d", 900.0))]
    own, d = clock(seen)
    assert own.state == "ok" and own.found == "within 0.1 s of b, c, d"
    assert (d.name, d.state, d.found) == ("clock d", "warn", "d's clock is 15m00s ahead of the others'")


def test_nobody_to_compare_with_is_said() -> None:
    assert clock([ProbeResult(warn("peer b", "dead", "start"))])[0].found == "nobody answers to compare it with"


# --- multicast --------------------------------------------------------------------------------------------


def test_each_interface_is_tried_and_an_address_that_is_none_of_ours_is_told() -> None:
    assert multicast(False, ())[0].state == "ok"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    (row,) = multicast(True, ("192.0.2.77",), port)
    assert row.state == "warn" and row.found.startswith("no multicast on 192.0.2.77: ")
    (row,) = multicast(True, ("127.0.0.1",), port)
    assert said(row)[:2] == ("warn", "this machine has no interface but loopback")


def test_a_responder_that_does_not_share_the_port_is_told() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", 0))
        (row,) = multicast(True, ("127.0.0.1",), port=other.getsockname()[1])
    assert row.state == "warn" and "is not shared by who has it (Address already in use)" in row.found


# --- what the node knows ------------------------------------------------------------------------------------


def config_of(paths: DataDir, **changes: object) -> SiteConfig:
    return msgspec.structs.replace(load_config(paths.config), **changes)


def known(*peers: PeerRow, **more: object) -> PeersResponse:
    return msgspec.structs.replace(PeersResponse(site="alpha", peers=peers), **more)


def test_reachability_is_what_the_neighbours_found(alpha: DataDir) -> None:
    out, came = PeerRow(site="beta", link="out"), PeerRow(site="gamma", link="in")
    config = config_of(alpha, advertise="10.0.0.1:7400")
    (row,) = running.reached(config, known(out, relayed_by=("beta",)))
    assert (row.state, row.found) == ("warn", "beta cannot dial this site: work goes through relays")
    assert row.mend.startswith("open the port of 10.0.0.1:7400 to them")
    assert running.reached(config, known(out, came))[0].found == "dialled from outside by gamma"
    hidden = config_of(alpha, advertise="none")
    assert running.reached(hidden, known(out, relayed_by=("beta",)))[0].state == "ok"
    assert running.reached(hidden, known(out))[0].state == "warn"


def test_a_machine_that_is_away_comes_with_the_order_that_gives_it_up() -> None:
    main = MachineRow(machine="main", role="RootGrid", state="here", away_s=-1.0, slots=4)
    away = MachineRow(machine="m2", role="member", state="away", away_s=75.0, slots=8, jobs=12)
    row, whole = running.machines((main, away))
    assert (row.name, row.state, row.found) == ("machine m2", "warn", "not heard of for 1m15s; 12 jobs are there")
    assert row.mend.endswith("diana site remove-machine m2")
    assert whole.found == "1 of 2 here, 4 slots"
    assert running.machines((main,)) == []


def test_a_standby_is_told_in_sync_or_not_and_with_or_without_a_witness() -> None:
    def say(note: str, witness: str) -> tuple[str, str]:
        (row,) = running.standby(
            known(machines=(MachineRow(machine="spare", role="standby", note=note),), witness=witness)
        )
        return row.state, row.found

    assert say("in sync", "beta") == ("ok", "spare is in sync; beta is the witness")
    assert say("in sync", "")[0] == "warn"
    assert say("not in sync", "beta") == (
        "warn", "spare is not in sync: this machine alone holds what is acknowledged",
    )  # fmt: skip
    assert running.standby(known()) == []


async def test_the_node_asks_whom_it_knows_and_passes_over_who_left(alpha: DataDir, beta: DataDir) -> None:
    async with answering(beta, "beta") as where:
        rows = await running.examine(
            config_of(alpha, peers=(where, "127.0.0.1:2")),
            alpha.keys,
            known(
                PeerRow(site="beta", state="alive", link="out", address=where),
                PeerRow(site="gone", state="left", address="127.0.0.1:2"),
                PeerRow(site="hidden", state="lost", age_s=50.0),
            ),
            channel_for=lambda site: None,
            distrusted="the VO revoked it: stolen",
            announced="",
            discovery_problem="",
            wall_s=time.time,
        )
    said_of = {row.name: row for row in rows}
    assert said_of["trust"].state == "fail" and "stolen" in said_of["trust"].found
    assert said_of["peer beta"].state == "ok" and "peer gone" not in said_of
    assert said_of["peer hidden"].found == "it can only dial out and has no stream here; heard of 50.0 s ago"
    assert said_of["clock"].state == "ok"


def test_two_of_one_name_on_the_local_network_fail(alpha: DataDir) -> None:
    (row,) = running._lan(config_of(alpha, zeroconf=True), "alpha-2", "")
    assert (row.state, row.found) == ("warn", "another machine here is announced as alpha, so this one is alpha-2")


def test_who_doubts_the_database_is_told_with_what_ends_it() -> None:
    def told(other: str = "", **more: Any) -> list[tuple[str, str, str]]:
        rows = running.journal(Peers((), (), **more), other)
        return [(row.state, row.found, row.mend) for row in rows]

    assert told() == []
    ((state, found, mend),) = told("spare", fallen="beta knows more", waits_for="starts nothing")
    assert state == "fail" and found.endswith("for the database is an older copy: beta knows more")
    assert mend == "stop this node, then on spare: diana site promote --force (docs/standby.md)"
    ((state, _, mend),) = told(fallen="beta knows more")
    assert state == "fail" and mend.startswith("it begins anew by itself")
    waits, denied = told(waits_for="waits for a word of beta", denied_by=(SiteId("beta"),))
    assert waits[0] == denied[0] == "warn" and "diana site go-on NAME" in waits[2]
    assert denied[2].startswith("diana site go-on beta if it is wrong")
