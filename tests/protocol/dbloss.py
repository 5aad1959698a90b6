"""A database lost or put back (PROMISES section 2 "Database lost or restored", section 4 "restore") as a model.

One origin, one destination, one job that is only ever run at the destination. One of the two sites loses its database,
gets it back from a backup ("restored": a new db_uuid, the machine's claims are gone) or has an old file copied over
it ("put back": same db_uuid, the spawner's claims are there, nobody was told; the mark beside it tells, or is an old
one too). What is assumed of the other models:
hand-over and claim as in `handover.py`; recall is one step (`recall.py`). A HELLO opens a stream, so that messages of
a sender's former boot can be told apart: that is what "former boots are refused" needs, and it is a sentence here
because the words of a former boot are otherwise as late, lost, doubled and reordered as any. Both sites losing their
databases is not covered by any promise and not searched, nor is a site that lost its machine and then has an old file
copied over: that is what `diana restore` is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from tests.protocol.dbloss_state import (
    PHASES,
    TAKEN,
    Destination,
    Origin,
    Phase,
    Row,
    Said,
    Side,
    State,
    heard,
    held,
    kept,
    told,
)
from tests.protocol.search import Step


@dataclass(frozen=True)
class Rules:
    """The sentences of the protocol. All hold; a mutant is the protocol without one."""

    unreachable: bool = True
    """A new db_uuid or a falling seq makes the origin set its jobs there UNREACHABLE, of which it takes none back."""
    verdict_stands: bool = True
    """A fallen seq is forgotten only with the db_uuid: who asks again is told again."""
    restored_holds: bool = True
    """A database that is restored from a backup, and knows it, holds what it has, whatever it is told."""
    waits_for_origin: bool = True
    """After a boot whose journal may not be the newest it starts nothing of an origin that has not spoken;"""
    mark_apart: bool = True
    """what shows it is a mark that is no part of the database: an ordinary restart, which it covers, begins at once."""
    marked_holds: bool = True
    """A database that lacks what its mark says takes a new name and holds what it has, before anybody is met."""
    commit_names_db: bool = True
    """COMMIT names the database PREPARED stands in; another one does not obey."""
    aborted_names_db: bool = True
    """So does ABORTED: the tombstone of another database frees nothing that was COMMITTED."""
    answers_carry_seq: bool = True
    """Every answer carries the destination's seq, RESULT too, and the origin keeps the highest."""
    fallen_mints_anew: bool = True
    """A destination that is told its seq fell takes a new db_uuid and holds what it has."""
    claims_apart: bool = True
    """The spawner's claims are not part of the database, so that a file put back does not take them along;"""
    tombstone_asks_spawner: bool = True
    """no tombstone is written of what the spawner has claimed, whatever the database says."""
    waits_for_report: bool = True
    """After a boot the origin moves no job before the destination has told it what it holds."""
    adopts: bool = True
    """Work the destination holds under a higher epoch than the origin knows is taken for COMMITTED."""
    reports_done: bool = True
    """It tells also what is over: the tombstones."""
    former_orders_refused: bool = True
    """Once the destination has met a newer boot of the origin, it refuses orders of the former ones;"""
    former_answers_refused: bool = True
    """and the origin the answers of the destination's former boots."""
    epoch_above_reported: bool = True
    """A new offer's epoch is above every epoch the destination tells of."""


@dataclass(frozen=True)
class DbLoss:
    """One job, at most `epochs` offers, at most `faults` losses at `side`."""

    side: Side
    epochs: int = 2
    faults: int = 1
    rules: Rules = field(default_factory=Rules)
    restarts: bool = False
    """The destination also restarts once with all it had."""
    troubled: bool = True
    """False: no database is lost any more, nothing is taken back, the operator is away."""

    def initial(self) -> State:
        """Nothing is offered yet."""
        return self.normal(State(Origin(), Destination((Row(),) * (self.epochs + 1))))

    def transitions(self, s: State) -> Iterator[Step[State]]:
        """All that may happen next."""
        for name, after in self.moves(s):
            yield Step(name, self.normal(after))

    def moves(self, s: State) -> Iterator[tuple[str, State]]:
        """The same, before the states are brought into normal form."""
        if self.troubled:
            yield from self.troubles(s)
        yield from self.origin_acts(s)
        for epoch, row in enumerate(s.d.rows):
            yield from self.destination_acts(s, epoch, row)
        for said in s.network:
            yield from RECEIVES[said.what](self, s, said)

    # --- faults ---------------------------------------------------------------------------------------

    def troubles(self, s: State) -> Iterator[tuple[str, State]]:
        """A copy of the database is made; later it takes the place of the database, or the database is lost."""
        mine: Origin | Destination = s.o if self.side == "origin" else s.d
        if self.restarts and s.d.boot == 0:
            yield "the destination restarts", self.booted(s, s.d, s.d.db_uuid, s.claims, newest=True)
        if s.faults == self.faults:
            return
        if s.backup is None:
            yield f"the {self.side} is backed up", s._replace(backup=mine)
        s = s._replace(faults=s.faults + 1)
        if isinstance(s.backup, Origin):
            old = s.backup._replace(boot=s.o.boot + 1, met_boot=s.o.met_boot, asked=not self.rules.waits_for_report)
            yield "the origin has an old database", s._replace(o=old)
        if self.side == "destination":
            fresh = Destination((Row(),) * (self.epochs + 1), met_boot=s.d.met_boot)
            yield "the destination loses its database", self.booted(s, fresh, s.d.boot + 1, frozenset())
        if isinstance(s.backup, Destination):
            yield (
                "the destination is restored",
                self.booted(s, held(s.backup) if self.rules.restored_holds else s.backup, s.d.boot + 1, frozenset()),
            )
            claims = s.claims if self.rules.claims_apart else frozenset[int]()
            old, newest = s.backup, not self.rules.mark_apart
            yield "an old file and its mark are put back", self.booted(s, old, old.db_uuid, claims, newest=newest)
            if old.seq < s.d.seq or old.db_uuid != s.d.db_uuid:  # type: ignore[attr-defined]
                known = held(old) if self.rules.marked_holds else old
                name = s.d.boot + 1 if self.rules.marked_holds else old.db_uuid
                newest = not self.rules.marked_holds
                yield "an old file is put back, the mark tells", self.booted(s, known, name, claims, newest=newest)

    def booted(self, s: State, d: Destination, db_uuid: int, claims: frozenset[int], *, newest: bool = False) -> State:
        """The destination boots, with another database or with its own (`newest`: as far as it can tell)."""
        asked = newest or not self.rules.waits_for_origin
        booted = d._replace(db_uuid=db_uuid, boot=s.d.boot + 1, boot_seq=d.seq, asked=asked)
        return s._replace(d=booted, claims=claims)

    # --- the origin -----------------------------------------------------------------------------------

    def origin_acts(self, s: State) -> Iterator[tuple[str, State]]:
        """LOCAL -> OFFERED(e + 1); presumed abort; recall in one step; an operator's word about what is UNREACHABLE."""
        o = s.o
        if o.asked and o.state == "local" and o.epoch < self.epochs:
            epoch = o.epoch + 1
            offered = o._replace(state="offered", epoch=epoch, content=10 * o.boot + epoch)
            yield f"the origin offers epoch {epoch}", s._replace(o=offered)
        if not self.troubled:
            return
        if o.asked and o.state == "offered":
            yield f"the origin takes the offer of epoch {o.epoch} back", s._replace(o=o._replace(state="local"))
        row = s.d.rows[o.epoch]
        ours = (s.d.db_uuid == o.db_uuid and s.d.asked) or not self.rules.unreachable
        if o.asked and o.state == "committed" and row.phase == "runnable" and ours and self.never_claimed(s, o.epoch):
            gone = kept(s, o.epoch, row._replace(phase="aborted"))
            back = heard(o, gone.d.db_uuid, gone.d.seq)._replace(state="local")
            yield f"epoch {o.epoch} is called back", gone._replace(o=back)
        if o.state == "unreachable":
            again = s._replace(o=o._replace(state="local"), reassigned=s.reassigned + 1)
            yield "the operator says that it may run again", again

    def hears_prepared(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """The commit point."""
        if self.believes(s, said) and s.o.asked and (s.o.state, s.o.epoch) == ("offered", said.epoch):
            o = heard(s.o, said.number, said.seq)._replace(state="committed", db_uuid=said.number)
            yield f"the origin commits epoch {said.epoch}", s._replace(o=o)

    def hears_aborted(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """The tombstone stands."""
        right = said.number == s.o.db_uuid or not self.rules.aborted_names_db
        ours = s.o.epoch == said.epoch and (s.o.state == "offered" or (s.o.state == "committed" and right))
        if self.believes(s, said) and s.o.asked and ours:
            o = heard(s.o, said.number, said.seq)._replace(state="local")
            yield f"the origin hears ABORTED of epoch {said.epoch}", s._replace(o=o)

    def hears_result(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """The result of the current epoch is taken, also of what is UNREACHABLE or not asked about yet."""
        ours = s.o.epoch == said.epoch and s.o.state in ("committed", "unreachable", "offered")
        if self.believes(s, said) and ours:
            o = heard(s.o, said.number, said.seq) if self.rules.answers_carry_seq else s.o
            yield f"the origin accepts the result of epoch {said.epoch}", s._replace(o=o._replace(state="done"))

    def hears_hello(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """Another db_uuid than the job rests on, or a seq below what was heard: what rests there is UNREACHABLE."""
        o = s.o._replace(met_boot=said.boot)
        fell = said.number != o.heard_uuid or said.seq < o.heard_seq
        new = said.number != o.heard_uuid or not self.rules.verdict_stands
        lost = o._replace(heard_uuid=said.number, heard_seq=said.seq) if new else o
        if fell and o.state in ("offered", "committed"):
            taken_back = o.state == "offered" or not self.rules.unreachable
            lost = lost._replace(state="local" if taken_back else "unreachable")
        after = s._replace(o=lost if fell else o)
        yield (
            f"the origin hears HELLO, {'fallen back' if fell else 'as before'}",
            told(after, Said("WELCOME", said.boot, seq=int(fell))),
        )

    def hears_report(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """The origin hears REPORT: the work the destination holds counts; it is adopted, or held where its result was
        given and is gone."""
        o = s.o
        if o.asked or o.boot != said.boot:
            return
        o = o._replace(asked=True)
        if said.epoch >= o.epoch and o.state not in ("done", "held"):
            if said.phase in TAKEN and self.rules.adopts:
                o = o._replace(state="committed", epoch=said.epoch, content=0, db_uuid=said.number)
            elif said.phase == "done":
                o = o._replace(state="held", epoch=said.epoch)
            elif said.epoch > o.epoch or (said.phase == "aborted" and o.state == "committed"):
                o = o._replace(state="local")
            if self.rules.epoch_above_reported:
                o = o._replace(epoch=max(o.epoch, said.epoch))
        yield f"the origin hears what the destination holds: {said.phase} of epoch {said.epoch}", s._replace(o=o)

    # --- the destination ------------------------------------------------------------------------------

    def destination_acts(self, s: State, epoch: int, row: Row) -> Iterator[tuple[str, State]]:
        """Drop an old offer, start, end. What was claimed before is not started again, it is found."""
        if row.phase == "prepared" and self.troubled and self.never_claimed(s, epoch):
            yield f"the destination drops epoch {epoch}", kept(s, epoch, row._replace(phase="aborted"))
        if row.phase == "runnable" and s.d.asked:
            after = kept(s, epoch, row._replace(phase="started"))._replace(claims=s.claims | {epoch})
            new = epoch not in s.claims
            yield f"epoch {epoch} is {'started' if new else 'found started'}", after._replace(starts=s.starts + new)
        if row.phase == "started":
            yield f"epoch {epoch} ends", kept(s, epoch, row._replace(phase="finished"))

    def never_claimed(self, s: State, epoch: int) -> bool:
        """True if the spawner, asked, has no claim of it."""
        return epoch not in s.claims or not self.rules.tombstone_asks_spawner

    def obeys(self, s: State, said: Said) -> bool:
        """True if an order is of the origin's newest boot."""
        return said.boot >= s.d.met_boot or not self.rules.former_orders_refused

    def believes(self, s: State, said: Said) -> bool:
        """True if an answer is of the destination's newest boot."""
        return said.boot >= s.o.met_boot or not self.rules.former_answers_refused

    def hears_prepare(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """Unknown -> PREPARED; a repetition gets the same answer."""
        if self.obeys(s, said) and s.d.rows[said.epoch].phase == "unknown":
            prepared = kept(s, said.epoch, Row("prepared", said.number))
            yield f"the destination prepares epoch {said.epoch}, content {said.number}", prepared

    def hears_commit(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """PREPARED -> RUNNABLE, in the database it was prepared in."""
        row = s.d.rows[said.epoch]
        right = said.number == s.d.db_uuid or not self.rules.commit_names_db
        if self.obeys(s, said) and row.phase == "prepared" and right:
            yield f"epoch {said.epoch} is runnable", kept(s, said.epoch, row._replace(phase="runnable"))

    def hears_ack(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """The tombstone; the spawner forgets."""
        row = s.d.rows[said.epoch]
        if self.obeys(s, said) and row.phase == "finished":
            after = kept(s, said.epoch, row._replace(phase="done"))
            yield f"epoch {said.epoch} is over", after._replace(claims=s.claims - {said.epoch})

    def hears_welcome(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """The origin has spoken. If an old file was put back, what it holds may have run since: it is held."""
        if s.d.asked or s.d.boot != said.boot:
            return
        d = s.d._replace(asked=True)
        if said.seq and d.db_uuid != d.boot and self.rules.fallen_mints_anew:
            d = held(d)._replace(db_uuid=d.boot, seq=d.seq + 1)
        yield f"the destination hears WELCOME{', you fell back' if said.seq else ''}", s._replace(d=d)

    def hears_hello_of_origin(self, s: State, said: Said) -> Iterator[tuple[str, State]]:
        """From now on orders of a former boot are refused; then it is told what stands here."""
        if said.boot < s.d.met_boot:
            return
        d = s.d._replace(met_boot=said.boot)
        told_of: list[tuple[int, Phase]] = [(e, r.phase) for e, r in enumerate(d.rows) if r.phase != "unknown"]
        if not self.rules.reports_done:
            told_of = [(e, phase) for e, phase in told_of if phase != "done"]
        epoch, phase = told_of[-1] if told_of else (0, "unknown")
        report = Said("REPORT", said.boot, epoch, d.db_uuid, d.seq, phase)
        yield f"the destination hears the origin's boot {said.boot}", told(s._replace(d=d), report)

    # --- what is sent ---------------------------------------------------------------------------------

    def normal(self, s: State) -> State:
        """All is sent that may be, nothing kept that can have no effect."""
        if s.faults == self.faults:
            s = s._replace(backup=None)
        network = {*s.network, *self.sends(s)}
        return s._replace(network=frozenset(said for said in network if self.can_matter(s, said)))

    def sends(self, s: State) -> Iterator[Said]:
        """Messages that are said again until they are answered."""
        o, d = s.o, s.d
        if o.state == "offered" and o.asked:
            yield Said("PREPARE", o.boot, o.epoch, o.content)
        if o.state == "committed" and o.asked:
            yield Said("COMMIT", o.boot, o.epoch, o.db_uuid)
        if o.state == "done":
            yield Said("ACK", o.boot, o.epoch)
        if not o.asked:
            yield Said("HELLO O", o.boot)
        if not d.asked or d.boot:
            yield Said("HELLO", d.boot, 0, d.db_uuid, d.boot_seq)
        for epoch, row in enumerate(d.rows):
            if row.phase in ("prepared", "aborted", "finished"):
                what: dict[str, Literal["PREPARED", "ABORTED", "RESULT"]] = {
                    "prepared": "PREPARED",
                    "aborted": "ABORTED",
                    "finished": "RESULT",
                }
                yield Said(what[row.phase], d.boot, epoch, d.db_uuid, d.seq)

    def can_matter(self, s: State, said: Said) -> bool:
        """True if the message can still have an effect; a HELLO goes with its stream."""
        o, d, what = s.o, s.d, said.what
        falls = self.troubled and s.faults < self.faults
        if what in ("PREPARE", "COMMIT", "ACK"):
            open_to = {"PREPARE": 1, "COMMIT": 2, "ACK": 5}[what]
            met = PHASES.index(d.rows[said.epoch].phase) >= open_to
            return self.obeys(s, said) and not (met and (self.side == "origin" or not falls))
        if what == "HELLO":
            return said.boot == d.boot and (not d.asked or said.number != o.heard_uuid)
        if what == "WELCOME":
            return said.boot == d.boot and not d.asked
        if what in ("HELLO O", "REPORT"):
            return said.boot == o.boot and not o.asked
        if self.side == "origin" and (falls or not o.asked):
            return True
        if not self.believes(s, said):
            return False
        waiting = {"PREPARED": ("offered",), "ABORTED": ("offered", "committed")}
        return said.epoch == o.epoch and o.state in waiting.get(what, ("offered", "committed", "unreachable"))


RECEIVES: dict[str, Callable[[DbLoss, State, Said], Iterator[tuple[str, State]]]] = {
    "PREPARE": DbLoss.hears_prepare,
    "PREPARED": DbLoss.hears_prepared,
    "COMMIT": DbLoss.hears_commit,
    "ABORTED": DbLoss.hears_aborted,
    "RESULT": DbLoss.hears_result,
    "ACK": DbLoss.hears_ack,
    "HELLO": DbLoss.hears_hello,
    "WELCOME": DbLoss.hears_welcome,
    "HELLO O": DbLoss.hears_hello_of_origin,
    "REPORT": DbLoss.hears_report,
}
