"""Streams, loss and cuts of the simulated network."""

from __future__ import annotations

from functools import partial
from typing import Any

from diana.engine.journal.events import Event, PeerDown, PeerUp, Received
from diana.engine.messages.messages import Committed, Hello
from diana.model.ids import SiteId, SubgroupId
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.specs.fault_spec import FaultsSpec
from diana.sim.twins.network import KEEPALIVE_S, Network
from diana.sim.twins.transport import SimTransport

A, B = SiteId("a"), SiteId("b")


def hello(site: SiteId, generation: int) -> Hello:
    return Hello(
        site=site,
        protocol=1,
        release="test",
        capabilities=(),
        db_uuid="",
        generation=generation,
        boot_nonce=f"{site}{generation}",
        seq=generation,
        term=1,
        data_address="",
    )


class Pair:
    """Two sites one second apart."""

    def __init__(self, seed: int = 0, **faults: Any) -> None:
        self.clock = Clock()
        self.faults = Faults(FaultsSpec(until_s=1e9, **faults), seed)
        self.network = Network(self.clock, self.faults, 1.0, 1e6)
        self.up: dict[SiteId, Hello] = {A: hello(A, 1), B: hello(B, 1)}
        self.heard: dict[SiteId, list[Event]] = {A: [], B: []}
        for site in (A, B):
            emit = self.heard[site].append
            SimTransport(self.network, site, emit, partial(self.up.get, site), probing=False)
        self.network.node_up(A)

    def send(self, number: int) -> None:
        self.network.send(A, B, Committed(subgroup=SubgroupId(f"a-1/{number}"), epoch=1))

    def numbers(self) -> list[int]:
        got = [e.message.subgroup for e in self.heard[B] if isinstance(e, Received)]  # type: ignore[union-attr]
        return [int(text.rpartition("/")[2]) for text in got]


def test_a_stream_that_stands_is_told_to_both_with_the_hello_of_that_moment() -> None:
    pair = Pair()
    pair.up[B] = hello(B, 2)
    pair.clock.run_until(10)
    assert pair.heard == {A: [PeerUp(hello(B, 2))], B: [PeerUp(hello(A, 1))]}


def test_messages_of_a_stream_that_fell_never_arrive_on_the_next_one() -> None:
    pair = Pair()
    pair.clock.run_until(5)
    pair.send(1)
    pair.network.node_down(A)
    pair.up[A] = hello(A, 2)
    pair.network.node_up(A)
    pair.clock.run_until(20)
    assert pair.heard[B] == [PeerUp(hello(A, 1)), PeerDown(A), PeerUp(hello(A, 2))]


def test_loss_duplication_and_delay_strike_within_a_stream() -> None:
    pair = Pair(loss=0.3, duplicate=0.3, delay=0.3, delay_s=50.0)
    pair.clock.run_until(5)
    for number in range(1000):
        pair.send(number)
    pair.clock.run_until(200)
    got = pair.numbers()
    assert 600 < len(set(got)) < 800
    assert len(got) > len(set(got)) + 100
    assert got != sorted(got)
    assert pair.faults.counts["loss"] == 1000 - len(set(got))


def test_a_cut_link_is_given_up_by_keepalive_and_dialled_again_when_whole() -> None:
    pair = Pair()
    pair.clock.run_until(5)
    pair.network.cut(A, B)
    pair.send(1)
    pair.clock.run_until(5 + KEEPALIVE_S + 1)
    assert pair.heard[B][-1] == PeerDown(A) and pair.heard[A][-1] == PeerDown(B)
    pair.network.mend(A, B)
    pair.clock.run_until(30)
    assert pair.heard[B][-1] == PeerUp(hello(A, 1))
    assert pair.numbers() == []


def test_a_one_way_cut_stops_one_direction_only() -> None:
    pair = Pair()
    pair.clock.run_until(5)
    pair.network.cut(A, B, one_way=True)
    pair.send(1)
    pair.network.send(B, A, Committed(subgroup=SubgroupId("b-1/7"), epoch=1))
    pair.clock.run_until(7)
    assert pair.numbers() == []
    assert isinstance(pair.heard[A][-1], Received)


def test_one_seed_loses_the_same_messages_twice() -> None:
    def run(seed: int) -> list[int]:
        pair = Pair(seed, loss=0.5)
        pair.clock.run_until(5)
        for number in range(100):
            pair.send(number)
        pair.clock.run_until(20)
        return pair.numbers()

    assert run(3) == run(3) != run(4)
