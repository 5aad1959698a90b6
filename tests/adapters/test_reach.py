"""A look at the hosts of a gang's other components: who answers is reached, also who refuses."""

from __future__ import annotations

import asyncio
import socket

import pytest

from diana.adapters import reach
from diana.adapters.reach import Reacher, reaches
from diana.engine.journal.effects import MeetHosts
from diana.engine.journal.events import HostsMet
from diana.model.ids import SubgroupId


def free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port: int = some.getsockname()[1]
        return port


async def looked(hosts: tuple[str, ...], ports: tuple[int, ...]) -> HostsMet:
    heard = asyncio.get_running_loop().create_future()
    reacher = Reacher(heard.set_result)
    reacher.look(MeetHosts(subgroup=SubgroupId("alpha-1/0"), epoch=3, hosts=hosts, ports=ports))
    told: HostsMet = await heard
    await reacher.close()
    return told


def test_a_host_that_listens_and_one_that_refuses_are_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        told = asyncio.run(looked(("127.0.0.1", "127.0.0.2"), (door.getsockname()[1], free_port())))
    assert told == HostsMet(subgroup=SubgroupId("alpha-1/0"), epoch=3, hosts=("127.0.0.1", "127.0.0.2"))


def test_the_first_host_that_nobody_answers_for_is_named() -> None:
    told = asyncio.run(looked(("127.0.0.1", "nosuch.invalid", "neither.invalid"), (free_port(), 7, 7)))
    assert told.out_of_reach == "nosuch.invalid"


@pytest.mark.parametrize("host", ["a" * 100, "a..b", "."])
def test_a_name_that_can_be_no_hosts_is_answered_as_out_of_reach(host: str) -> None:
    told = asyncio.run(asyncio.wait_for(looked(("127.0.0.1", host), (free_port(), 7)), 60))
    assert told.out_of_reach == host


def test_a_host_that_stays_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "WAIT_S", 0.05)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        # Its queue of connections is full, so that the kernel drops what comes.
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        assert not asyncio.run(reaches("127.0.0.1", port))
        for one in waiting:
            one.close()
