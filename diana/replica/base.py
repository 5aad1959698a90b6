"""State that both roles of a replica share, and its effects on disk, witness and the other replica.

Every field is an immutable value, so that a test can copy a machine by its fields and search all it can do.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from diana.model.trust.register import Copy, Register, changed, term_of
from diana.replica.messages import (
    Answered,
    AskWitness,
    Effect,
    Log,
    Message,
    Saved,
    SaveState,
    Say,
)
from diana.replica.settings import ReplicaSettings

Role = Literal["follower", "candidate", "leader", "over"]
NEVER = -math.inf
FORCED_TERMS = 1_000_000
"""Step of terms for an operator's force. Without a witness that has a register, the terms a cut-off leader went through
are unknown; a forced term is the next multiple of this, above all of them."""


class Base:
    """State and its writers. `effects` gathers the effects of the event under way."""

    __slots__ = (
        "answered",
        "both",
        "early",
        "effects",
        "expect",
        "fallen",
        "force",
        "forced_at",
        "fsynced",
        "grant_term",
        "grant_until_s",
        "hand_due_s",
        "handed",
        "handing",
        "heard_s",
        "holds",
        "in_step",
        "lease_until_s",
        "linked",
        "log",
        "me",
        "next_ask_s",
        "next_beat_s",
        "now",
        "other",
        "peer",
        "peer_fsynced",
        "peer_log",
        "peer_seen",
        "peer_term",
        "pending",
        "register",
        "released",
        "removing",
        "role",
        "saved",
        "seed_to",
        "seeded_s",
        "seeding",
        "settings",
        "shipped",
        "unsure",
        "verified",
        "witness",
    )

    def __init__(
        self, settings: ReplicaSettings, me: Copy, other: str, saved: Saved, log: Log, now: float, *, witness: bool
    ) -> None:
        self.settings = settings
        self.me = me
        self.other = other
        self.witness = witness
        self.saved = saved
        self.log = log
        self.now = now
        self.effects: tuple[Effect, ...] = ()
        self.role: Role = "follower"
        self.register = saved.register
        """The register as last seen; of a leader, that of its own term."""
        self.fsynced = log.last
        self.linked = False
        self.unsure = False
        """True if a change was asked for that may yet be made, or has been."""
        self.pending: Register | None = None
        """The change asked for in this term; None: none."""
        self.expect = 0
        """Term the register had when a candidate asked for that change."""
        self.next_ask_s = now
        # Follower
        self.verified = 0
        """Seq up to which the log is known to be the leader's."""
        self.grant_until_s = now + settings.wait_s
        """Time until which a lease granted by this replica may run. After a start it is not known: a whole lease is
        assumed."""
        self.grant_term = saved.term
        """Highest term for which a lease may have been granted."""
        self.early = True
        """True until the register is asked for: after the start and, without a witness, after an ack of the other."""
        self.force = 0
        """Request of the operator who forces a takeover; 0: none."""
        self.forced_at = 0
        """Term of the register known at that request: a higher one shows that the other led since."""
        self.peer_term = -1
        """Term that the other, as a follower, said on this link it promised; -1: it said none."""
        # Leader
        self.fallen = -1
        """Term of the witness's register where that is older than this leader's (0: it has none); else -1."""
        self.both = False
        """True while acting needs the entries on both disks and a lease."""
        self.peer: Copy | None = None
        """The copy counted on while `both`."""
        self.peer_seen: Copy | None = None
        self.peer_log = Log()
        self.peer_fsynced = 0
        """Seq up to which `peer_seen` has the log on disk, as told in this term."""
        self.lease_until_s = NEVER
        """End of the lease granted by `peer_seen`."""
        self.heard_s = now
        self.next_beat_s = now
        self.released = 0
        self.shipped = 0
        self.in_step = False
        """True while new entries follow on those shipped."""
        self.holds = log.last
        self.seeding = False
        self.seed_to: Copy | None = None
        """Copy whose journal was last ordered to be replaced."""
        self.seeded_s = now
        """Time at which that seeding ended; acks of that copy from before it are outdated."""
        self.handing = 0
        """Request of the operator who asked for a hand-over; 0: none."""
        self.handed = False
        """True once the hand-over was asked for: no lease is asked for, nothing is shipped."""
        self.hand_due_s = 0.0
        self.removing = 0
        self.answered = NEVER
        """Value of `released` when it was last told; -inf: the lease had lapsed."""

    # --- writers ---------------------------------------------------------------------------------------

    def do(self, *effects: Effect) -> None:
        self.effects = (*self.effects, *effects)

    def say(self, message: Message) -> None:
        if self.linked:
            self.do(Say(message))

    def save(self, saved: Saved) -> None:
        if saved != self.saved:
            self.saved = saved
            self.do(SaveState(saved))

    def answer(self, request: int, error: str = "") -> None:
        if request:
            self.do(Answered(request, error))

    def ask(self, expect_term: int, wish: Register | None) -> None:
        """Ask the witness; without one the leader's own durable copy of the register is the register."""
        self.next_ask_s = self.now + self.settings.ask_every_s
        self.unsure = self.unsure or wish is not None
        if self.witness:
            self.do(AskWitness(expect_term, wish))
            return
        kept = self.saved.register
        new = changed(kept, expect_term, wish) if wish is not None else kept
        self.save(msgspec.structs.replace(self.saved, register=new))
        self.said(new)

    def said(self, register: Register | None) -> None:
        """Handle the witness's answer in the present role."""
        raise NotImplementedError

    def know(self, register: Register | None) -> None:
        """Keep the newest register seen."""
        if term_of(register) > term_of(self.register):
            self.register = register

    def promised(self, term: int) -> Saved:
        """Return the durable state with this term, never a lower one."""
        return msgspec.structs.replace(self.saved, term=max(term, self.saved.term), register=self.register)

    @property
    def term(self) -> int:
        """The highest term followed, asked for or led. What a leader appends is of this term."""
        return self.saved.term
