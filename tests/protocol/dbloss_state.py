"""The state of the model of a lost database (`dbloss.py`) at one instant, and states made from states."""

from __future__ import annotations

from typing import Literal, NamedTuple

Side = Literal["origin", "destination"]
Phase = Literal["unknown", "prepared", "runnable", "started", "finished", "done", "aborted", "held"]
PHASES: tuple[Phase, ...] = ("unknown", "prepared", "runnable", "started", "finished", "done", "aborted", "held")
TAKEN = ("runnable", "started", "finished")


class Origin(NamedTuple):
    """The origin's database, of the job; and its boot, which is not in it."""

    state: Literal["local", "offered", "committed", "unreachable", "held", "done"] = "local"
    epoch: int = 0
    """The highest it knows of."""
    content: int = 0
    """The content offered under that epoch: other work has another number."""
    db_uuid: int = 0
    """The destination's database the job rests on."""
    heard_uuid: int = 0
    heard_seq: int = 0
    """The most it heard of the destination's journal."""
    boot: int = 0
    asked: bool = True
    """True once the destination has told this boot what it holds."""
    met_boot: int = 0
    """The newest boot of the destination it met."""


class Row(NamedTuple):
    """The destination's record of an epoch; "done" and "aborted" are tombstones, "held" waits for an operator."""

    phase: Phase = "unknown"
    content: int = 0


class Destination(NamedTuple):
    """The destination's database, one row per epoch; and its boot, which is not in it."""

    rows: tuple[Row, ...]
    db_uuid: int = 0
    seq: int = 0
    boot: int = 0
    boot_seq: int = 0
    asked: bool = True
    """True once the origin has spoken to this boot."""
    met_boot: int = 0
    """The newest boot of the origin it met."""


class Said(NamedTuple):
    """A message. `boot` is the sender's, of a welcome and a report the one that is answered."""

    what: Literal["PREPARE", "PREPARED", "COMMIT", "ABORTED", "RESULT", "ACK", "HELLO", "WELCOME", "HELLO O", "REPORT"]
    boot: int
    epoch: int = 0
    number: int = 0
    """PREPARE: the content; else the destination's db_uuid."""
    seq: int = 0
    """The destination's; of a WELCOME: 1 if its database fell back."""
    phase: Phase = "unknown"
    """REPORT: of the highest epoch the destination knows."""


class State(NamedTuple):
    """Everything at one instant."""

    o: Origin
    d: Destination
    claims: frozenset[int] = frozenset()
    """Epochs the destination's spawner has claimed."""
    backup: Origin | Destination | None = None
    faults: int = 0
    network: frozenset[Said] = frozenset()
    starts: int = 0
    reassigned: int = 0
    """Ghosts: how often the job was started, how often an operator said it may be again."""


def held(d: Destination) -> Destination:
    """`d` without a row that may still start; an offer is dropped, so that an origin that waits for it hears of it."""
    becomes: dict[Phase, Phase] = {"prepared": "aborted", "runnable": "held"}
    return d._replace(rows=tuple(row._replace(phase=becomes.get(row.phase, row.phase)) for row in d.rows))


def heard(o: Origin, db_uuid: int, seq: int) -> Origin:
    """`o`, which keeps how far the destination's journal was."""
    news = (db_uuid, seq) > (o.heard_uuid, o.heard_seq)
    return o._replace(heard_uuid=db_uuid, heard_seq=seq) if news else o


def kept(s: State, epoch: int, row: Row) -> State:
    """`s` with one more record in the destination's journal."""
    rows = tuple(row if e == epoch else old for e, old in enumerate(s.d.rows))
    return s._replace(d=s.d._replace(rows=rows, seq=s.d.seq + 1))


def told(s: State, said: Said) -> State:
    """`s` with one message more."""
    return s._replace(network=s.network | {said})
