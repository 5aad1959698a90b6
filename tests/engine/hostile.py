"""A site that lies, in the middle of a living grid: what it may say, and what no word of it may do.

`alpha` and `beta` are engines with real work between them; `gamma` is a peer of the VO, knows every id, epoch and index
of the others, and says whatever one seed draws, about its own transfers and about those of the others; `stranger` was
never met. Everything passes the codec, as it does between nodes.
"""

from __future__ import annotations

import random
import typing
from collections import Counter
from collections.abc import Callable

import msgspec

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.state import SiteState
from diana.engine.messages import messages as ms
from diana.engine.messages.binding import Reserve, TurnCall
from diana.engine.messages.migration import Surplus, SurplusGroup
from diana.model.facts import MOST_ATTEMPTS, Facts, Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec, encode_spec
from diana.wire import BadMessage, peer_codec
from tests.engine.builders import authorisation, facts_of, spec

LIAR, STRANGER = SiteId("gamma"), SiteId("stranger")
KINDS: tuple[type[msgspec.Struct], ...] = typing.get_args(ms.Message)
ORDERS = (ms.Prepare, ms.Commit, ms.Abort, ms.Control, ms.ResultAck)
ODD_INTS = (-1, 0, 1, 2, 3, 7, 1000, MOST_ATTEMPTS + 1, 2**31, 2**53, 2**62, 2**63 - 1, 10**30)
ODD_FLOATS = (0.0, -1.0, 1e-300, 1.5, 1000.0, 1e9, 1e308, -1e308, float("nan"), float("inf"), float("-inf"))
ODD_TEXTS = (
    "",
    "x",
    "alpha",
    "gamma",
    "eve@vo",
    "Q1",
    "dataset:d",
    "dataset:d/f",
    "url:file:///etc/passwd",
    "blob:" + "0" * 64,
    "../../etc/passwd",
    "line\nbreak\0\x1b[2J",
    "\u202e\U0001f600",
    "y" * 20_000,
)
NAMES = ("licence matlab 1", "licence matlab 2", "mpi")
"""Names of things jobs need, at a site that has them."""
ODD_NAMES = (
    "licence matlab 0",
    "licence matlab -1",
    "licence matlab",
    "licence  matlab",
    "licence matlab 1000001",
    "licence matlab " + "9" * 400,
    "licence x 0",
    "licence " + "y" * 5000 + " 1",
    "mpi x",
    "mpi in containers",
    "licences",
    "module *",
    *ODD_TEXTS,
)
RESOURCES = ("fpga", "tape", *(f"r{number}" for number in range(40)), "gpus", "licence:matlab", "memory_bytes", "Bad")
ODD_LICENCES = (("matlab", 0), ("matlab", -1), ("matlab", 2**62), ("", 1), ("a b", 1))
ODD_PARTS = (
    "",
    "alpha-1",
    "../../etc/0",
    "alpha-1/-1",
    "alpha-99/0",
    "alpha-1/999",
    "ALPHA-1/0",
    "z" * 3000,
    "gamma-9/9",
)


class Transfer(typing.NamedTuple):
    """One the liar knows of: real, with its parties."""

    part: SubgroupId
    epoch: int
    indices: IndexSet
    origin: SiteId
    site: SiteId
    db_uuid: str
    seq: int


def transfers(state: SiteState, at: SiteId) -> list[Transfer]:
    """All a site remembers, those that are over included."""
    found = []
    for group in state.groups.values():
        for s in group.subgroups.values():
            found.append(Transfer(s.subgroup, s.epoch, s.indices, at, s.site, s.db_uuid, s.control_seq))
        found += [Transfer(part, 1, IndexSet.span(0, 3), at, past.site, "", 0) for part, past in group.past.items()]
    for c in state.custodies.values():
        found.append(Transfer(c.subgroup, c.epoch, c.indices, c.origin, at, state.db_uuid, c.control_seq))
    for (part, epoch), stone in state.tombstones.items():
        found.append(Transfer(part, epoch, IndexSet.span(0, 3), stone.origin, at, state.db_uuid, 0))
    return found


class Tongue:
    """Draws messages: each field from what would fit, what nearly fits and what is absurd."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.known: list[Transfer] = []
        self.quotes: list[int] = [0]
        self._hints: dict[type, dict[str, typing.Any]] = {}
        self._offers = 0
        self._seq = 0
        """Of reservations and calls: each is newer than the last."""
        self._sane = 0.9

    def message(self) -> ms.Message:
        rng = self.rng
        # Some speak nearly truly, so that they come far; others are nonsense throughout.
        self._sane = rng.choice((0.6, 0.95, 1.0, 1.0))
        kind = rng.choice(KINDS)
        if kind is ms.Prepare and rng.random() < 0.5:
            return self._offer()
        if kind in (Reserve, TurnCall) and rng.random() < 0.7:
            return self._reserve() if kind is Reserve else self._call()
        if kind is Surplus and self.known and rng.random() < 0.5:
            return self._surplus(rng.choice(self.known))
        known = self.known
        if rng.random() < 0.6:
            # What it may speak of, it does.
            known = [t for t in known if (t.origin if kind in ORDERS else t.site) == LIAR] or known
        transfer = rng.choice(known) if known else None
        return typing.cast(ms.Message, self._struct(kind, transfer))

    def _offer(self) -> ms.Prepare:
        """An offer of gamma's own work, good or all but good."""
        rng = self.rng
        self._offers += 1
        group = GroupId(f"gamma-{rng.randrange(1, 40)}")
        jobs = rng.randrange(1, 9)
        wanted = spec(jobs, work_s=rng.choice((0.0, 1.0, 1e9)), on_crash=rng.choice(("hold", "rerun")))
        body = encode_spec(self._with_needs(wanted) if rng.random() < 0.3 else wanted)
        good = ms.Prepare(
            subgroup=SubgroupId(f"{group}/{rng.randrange(3)}"),
            epoch=rng.randrange(1, 4),
            indices=IndexSet.span(0, jobs),
            spec=body,
            authorisation=authorisation("eve@vo", group, body),
            submitted_s=rng.choice((0.0, 1000.0, 1e308)),
            files=(),
            sources=(),
            readers=(),
            max_parallel=rng.randrange(3),
        )
        if rng.random() < self._sane:
            return good
        name = rng.choice(
            ("subgroup", "epoch", "indices", "spec", "submitted_s", "max_parallel", "attempt_base", "memory_bytes")
        )
        return msgspec.structs.replace(good, **{name: self._value(ms.Prepare, name, None)})

    def _reserve(self) -> Reserve:
        """Of a group of gamma's, well formed and true in nothing."""
        rng = self.rng
        self._seq += 1
        jobs = rng.choice((0, 1, 1, 8, 10**12))
        return Reserve(
            group=GroupId(f"gamma-{rng.randrange(1, 40)}"),
            seq=self._seq,
            jobs=jobs,
            share=jobs * rng.choice((0, 1, 1000)),
            called=rng.choice((0, 1 << 31, (1 << 32) + rng.randrange(40), 1 << 60)),
            processors=rng.choice((1, 1, 2, 4, 9)),
            submitted_s=rng.choice((-1e9, 0.0, 1000.0, 1e9)),
            stage_s=rng.choice((0.0, 0.0, 1e9)),
            memory_bytes=rng.choice((0, 0, 2**62)),
            owner=rng.choice(("alice@vo", "eve@vo", f"eve{rng.randrange(9)}@vo")),
            work_s=rng.choice((0.0, 1.0, 50.0, 1e9)),
            software=tuple(rng.choice(NAMES) for _ in range(rng.randrange(2))),
        )

    def _call(self) -> TurnCall:
        """For what waits at gamma, mostly."""
        rng = self.rng
        group = group_of(rng.choice(self.known).part) if self.known else GroupId("alpha-1")
        self._seq += 1
        return TurnCall(group=group, call=self._seq, jobs=rng.choice((1, 2, 10**12)), stopped=rng.choice(("", "", "x")))

    def _with_needs(self, wanted: GroupSpec) -> GroupSpec:
        rng, sane = self.rng, self.rng.random() < self._sane
        needs = msgspec.structs.replace(
            wanted.resources,
            gpus=0 if sane else rng.choice((-1, 1, 2**40)),
            memory_bytes=0 if sane else rng.choice((-1, 1, 2**50)),
            licences=(("matlab", rng.choice((1, 2))),) if sane else (rng.choice(ODD_LICENCES),) * rng.choice((1, 2)),
        )
        return msgspec.structs.replace(wanted, mpi=rng.random() < 0.3, resources=needs)

    def _surplus(self, transfer: Transfer) -> Surplus:
        """All but good: with parts, epochs and jobs of one length."""
        rng = self.rng
        group = SurplusGroup(
            group=group_of(transfer.part),
            parts=(transfer.part,),
            epochs=(transfer.epoch,),
            jobs=(rng.choice((1, 2, 10**6)),),
            priority=rng.choice((-1.0, 0.0, 1e308)),
            jobs_ahead=rng.choice((0, 10**6)),
            ends_s=rng.choice((0.0, 1e6, 1e308)),
            processors_per_s=rng.choice((0.0, 1.0, 1e-300)),
        )
        return Surplus(groups=(group,) * rng.choice((1, 1, 3)), reason=rng.choice(ODD_TEXTS))

    def _struct(self, cls: type, transfer: Transfer | None) -> typing.Any:
        if cls is Facts:
            return self._facts(transfer)
        if cls is IndexSet:
            return self._indices(transfer)
        fields = msgspec.structs.fields(cls)
        return cls(**{field.name: self._value(cls, field.name, transfer) for field in fields})

    def _value(self, cls: type, name: str, transfer: Transfer | None) -> typing.Any:
        hints = self._hints.get(cls)
        if hints is None:
            hints = self._hints[cls] = typing.get_type_hints(cls)
        return self._of(name, hints[name], transfer)

    def _of(self, name: str, hint: typing.Any, transfer: Transfer | None) -> typing.Any:
        rng = self.rng
        arguments = typing.get_args(hint)
        if typing.get_origin(hint) in (tuple, list):
            kind = typing.get_origin(hint)
            return kind(self._of(name, arguments[0], transfer) for _ in range(rng.choice((0, 0, 1, 2, 3))))
        if typing.get_origin(hint) is dict:
            names = RESOURCES if rng.random() < self._sane else ODD_TEXTS
            return {rng.choice(names): self._int(name, transfer) for _ in range(rng.choice((0, 0, 1, 2, 20)))}
        if type(None) in arguments:
            return None if rng.random() < 0.5 else self._of(name, arguments[0], transfer)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self._struct(hint, transfer)
        draw = self._draws.get(hint)
        return draw(self, name, transfer) if draw else rng.randbytes(rng.randrange(20))

    def _part(self, _: str, transfer: Transfer | None) -> str:
        if transfer is None or self.rng.random() > self._sane:
            return self.rng.choice(ODD_PARTS)
        return transfer.part

    def _group(self, name: str, transfer: Transfer | None) -> str:
        return group_of(SubgroupId(self._part(name, transfer)))

    def _site(self, _: str, transfer: Transfer | None) -> str:
        if self.rng.random() < self._sane:
            return self.rng.choice(("alpha", "beta", "gamma", "gamma", transfer.site if transfer else "delta"))
        return self.rng.choice(("", "stranger", "a/b", "Q" * 99, f"s{self.rng.randrange(20)}"))

    def _text(self, name: str, transfer: Transfer | None) -> str:
        if name == "db_uuid" and transfer is not None and self.rng.random() < self._sane:
            return transfer.db_uuid or "db-gamma"
        if name == "boot_nonce" and self.rng.random() < self._sane:
            return self.rng.choice(("alpha1", "beta1", "alpha2", "g"))
        if name == "software":
            return self.rng.choice(NAMES if self.rng.random() < self._sane else ODD_NAMES)
        if name.endswith("sha256"):
            return "0" * 64 if self.rng.random() < self._sane else "no hash"
        return self.rng.choice(ODD_TEXTS)

    def _int(self, name: str, transfer: Transfer | None) -> int:
        rng = self.rng
        if rng.random() > self._sane:
            return rng.choice(ODD_INTS)
        if name == "epoch" and transfer is not None:
            return transfer.epoch + rng.choice((0, 0, 0, 0, 0, 0, -1, 1, 100))
        if name == "control_seq" and transfer is not None:
            return transfer.seq + rng.choice((0, 0, 1, 2, -1))
        if name in ("quote", "query", "room"):
            return rng.choice(self.quotes) + rng.choice((0, 0, 0, 1))
        return rng.choice((0, 0, 1, 1, 2, 3, 5, 100, 10**6))

    def _float(self, name: str, _: Transfer | None) -> float:
        return self.rng.choice(ODD_FLOATS[:8] if self.rng.random() < self._sane else ODD_FLOATS)

    def _bytes(self, _: str, __: Transfer | None) -> bytes:
        return self.rng.choice((b"", b"{", b"plain", self.rng.randbytes(30), encode_spec(spec(3))))

    def _bool(self, _: str, __: Transfer | None) -> bool:
        return self.rng.random() < 0.5

    def _indices(self, transfer: Transfer | None) -> IndexSet:
        rng = self.rng
        if rng.random() > self._sane:
            wide, falling, odd = (0, 2**53), (5, 3), (5,)
            holes = tuple(range(0, rng.choice((40, 4000)), 1))
            return IndexSet(rng.choice((wide, falling, odd, holes, (-3, 2), (0, 2**60), (900, 901))))
        if transfer is None or not transfer.indices:
            return IndexSet.span(0, rng.randrange(4))
        low, high = transfer.indices.bounds[0], transfer.indices.bounds[-1]
        start = rng.randrange(low, high)
        some = IndexSet.span(start, min(high, start + rng.randrange(1, 4)))
        return rng.choice((IndexSet(), some, transfer.indices, transfer.indices - some))

    def _facts(self, transfer: Transfer | None) -> Facts:
        rng = self.rng
        part, epoch = (transfer.part, transfer.epoch) if transfer else (SubgroupId("gamma-9/9"), 1)
        low, high = (*self._indices(transfer).bounds, 0, 2)[:2]
        indices = list(range(low, min(high, low + 5)))
        runs = [ev.Run(part, epoch, index, rng.choice((1, 1, 1, 2, 0))) for index in indices]
        outcome = rng.choice(list(Outcome))
        made = facts_of(LIAR, runs, outcome, rng.choice((0.0, 1000.0, 1e308, -1e308)), rng.choice(((), ("out",))))
        if rng.random() < self._sane:
            return made
        name = rng.choice([field.name for field in msgspec.structs.fields(Facts)])
        if name in ("site", "outputs", "errors") or rng.random() < 0.3:
            return msgspec.structs.replace(made, **{name: self._value(Facts, name, transfer)})
        return msgspec.structs.replace(made, **{name: [self._value_in(name) for _ in indices]})

    def _value_in(self, name: str) -> typing.Any:
        hint = typing.get_args(typing.get_type_hints(Facts)[name])[0]
        return self._of(name, hint, None)

    _draws: typing.ClassVar[dict[typing.Any, Callable[[Tongue, str, Transfer | None], typing.Any]]] = {
        SubgroupId: _part,
        GroupId: _group,
        SiteId: _site,
        str: _text,
        int: _int,
        float: _float,
        bytes: _bytes,
        bool: _bool,
    }


def garbled(rng: random.Random, payload: bytes) -> bytes:
    """Bytes of a message, one to three of them changed, cut off or grown; or none of it."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(60))
    data = bytearray(payload)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 5))
        elif at < len(data):
            data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


def through_the_wire(message: ms.Message, tally: Counter[str]) -> tuple[bytes, ms.Message | None]:
    """The message as the other end reads it; None where its codec refuses."""
    try:
        payload = peer_codec.encode_message(message)
    except BadMessage:
        tally["cannot be written"] += 1
        return b"", None
    return payload, read(payload, tally)


def read(payload: bytes, tally: Counter[str]) -> ms.Message | None:
    try:
        message = peer_codec.decode_message(payload)
    except BadMessage:
        tally["refused by the codec"] += 1
        return None
    if isinstance(message, ms.Hello | ms.Retry):
        tally["of the stream alone"] += 1
        return None
    return message


def records_of(effects: list[fx.Effect]) -> list[typing.Any]:
    return [effect.record for effect in effects if isinstance(effect, fx.Persist)]
