"""Two machines, a witness and a perfect link under one clock, for tests that tell how it goes when nothing is odd."""

from __future__ import annotations

from collections import deque

from diana.model.trust.register import Copy, Register, changed
from diana.replica import messages as ms
from diana.replica.machine import Replica
from diana.replica.settings import ReplicaSettings

SETTINGS = ReplicaSettings()


class Node:
    def __init__(self, machine: str, other: str, saved: ms.Saved) -> None:
        self.machine, self.other, self.saved = machine, other, saved
        self.log = ms.Log()
        self.replica: Replica | None = None
        self.effects: list[ms.Effect] = []
        self.uuid = f"{machine}-disk"

    def of(self, kind: type) -> list[ms.Effect]:
        return [effect for effect in self.effects if isinstance(effect, kind)]


class Pair:
    """Everything that is said arrives, and everything written is durable, before the clock goes on."""

    def __init__(self, *, witness: bool = True) -> None:
        self.now = 100.0
        self.witness = witness
        self.reachable = True
        self.register: Register | None = None
        self.linked = False
        self.nodes = {
            "a": Node("a", "b", ms.Saved(founder=True)),
            "b": Node("b", "a", ms.Saved()),
        }
        self._waiting: deque[tuple[Node, ms.Event]] = deque()

    def start(self, name: str) -> None:
        node = self.nodes[name]
        me = Copy(name, node.uuid)
        node.replica = Replica(SETTINGS, me, node.other, node.saved, node.log, self.now, witness=self.witness)

    def kill(self, name: str) -> None:
        self.nodes[name].replica = None
        self.cut()

    def link(self) -> None:
        self.linked = True
        for node in self.nodes.values():
            self._waiting.append((node, ms.LinkUp()))
        self._settle()

    def cut(self) -> None:
        self.linked = False
        for node in self.nodes.values():
            self._waiting.append((node, ms.LinkLost()))
        self._settle()

    def tell(self, name: str, event: ms.Event) -> None:
        self._waiting.append((self.nodes[name], event))
        self._settle()

    def append(self, name: str) -> int:
        node = self.nodes[name]
        assert node.replica is not None
        seq = node.replica.log.last + 1
        self._waiting += [(node, ms.Appended(seq, seq)), (node, ms.Fsynced(seq))]
        self._settle()
        return seq

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            due = [(d, n.machine) for n in self.nodes.values() if n.replica and (d := n.replica.deadline()) is not None]
            at, name = min(due, default=(end, ""))
            if at >= end:
                self.now = end
                return
            self.now = max(self.now, at)
            self.tell(name, ms.Tick())

    def acts(self, name: str, seq: int) -> bool:
        replica = self.nodes[name].replica
        return replica is not None and replica.may_act(self.now, seq)

    def _settle(self) -> None:
        while self._waiting:
            node, event = self._waiting.popleft()
            if node.replica is not None:
                effects = node.replica.handle(event, self.now)
                node.log = node.replica.log
                for effect in effects:
                    node.effects.append(effect)
                    self._carry_out(node, effect)

    def _carry_out(self, node: Node, effect: ms.Effect) -> None:
        other = self.nodes[node.other]
        if isinstance(effect, ms.SaveState):
            node.saved = effect.saved
        elif isinstance(effect, ms.Say) and self.linked:
            self._waiting.append((other, ms.Received(effect.message)))
        elif isinstance(effect, ms.Ship) and self.linked:
            for seq in range(effect.after + 1, effect.up_to + 1):
                entry = ms.Append(
                    effect.term, effect.to, seq - 1, node.log.term_at(seq - 1), seq, node.log.term_at(seq)
                )
                self._waiting.append((other, ms.Received(entry)))
        elif isinstance(effect, ms.StoreEntry):
            self._waiting.append((node, ms.Fsynced(effect.entry.seq)))
        elif isinstance(effect, ms.Seed):
            self._seed(node, other, effect)
        elif isinstance(effect, ms.AskWitness):
            if not self.reachable:
                self._waiting.append((node, ms.WitnessAway()))
                return
            if effect.register is not None:
                self.register = changed(self.register, effect.expect_term, effect.register)
            self._waiting.append((node, ms.WitnessSaid(self.register)))

    def _seed(self, leader: Node, other: Node, order: ms.Seed) -> None:
        if other.replica is not None and other.replica.may_seed(order.term):
            other.uuid += "+"
            self._waiting.append((other, ms.Seeded(other.uuid, leader.log)))
        self._waiting.append((leader, ms.SeedEnded()))


def both(*, witness: bool = True) -> Pair:
    """a leads, b is in sync, one entry stands."""
    pair = Pair(witness=witness)
    pair.start("a")
    pair.start("b")
    pair.link()
    pair.run(3.0)
    pair.append("a")
    pair.run(3.0)
    return pair
