"""Words between sites when one of them may have lost part of its journal (PROMISES section 2, "Database lost or
restored")."""

from __future__ import annotations

import msgspec

from diana.model.ids import SubgroupId
from diana.model.indexset import IndexSet


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A site's own word about its journal, as a peer heard it; with the site's seal (`policy/trust/seals.py`)."""

    db_uuid: str
    former: tuple[str, ...] = ()
    """Names that journal had before, the latest last."""
    generation: int
    boot_nonce: str
    seq: int
    seal: bytes


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """First word on a stream: how the sender of the other Hello stands here. Said again until what it asks is done."""

    boot_nonce: str
    """Named in that Hello."""
    fell: bool = False
    """Its journal is shorter than what was heard of it: an older copy was put back."""
    asks: bool = False
    """The sender's own journal is an old one: it wants to be told what is held of its groups."""
    unanswered: bool = False
    """The sender waits for such a word about its own Hello."""
    seq: int = 0
    """Records in the sender's journal."""
    seal: bytes = b""
    """The sender's, of that length."""
    since: int = 0
    """Where it asks: from this number on it knows none of its groups that it may have had. 0: its release does not
    tell."""
    evidence: Evidence | None = None
    """Where it fell: what it said itself. None: the sender's release kept no such words."""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """State of one transfer at its destination."""

    subgroup: SubgroupId
    epoch: int
    open: IndexSet = IndexSet()
    """Jobs of which a result is still to come."""
    told: IndexSet = IndexSet()
    """Jobs whose results were acknowledged."""
    revoked: IndexSet = IndexSet()
    """Recalled before they started: told again until that is acknowledged."""
    dropped: bool = False
    """It never became runnable, and never will."""
    over: bool = False
    """It is over there, and what is not named came back unstarted."""
    control_seq: int = 0
    """Number of the standing order it obeys, which is:"""
    cancelled: IndexSet = IndexSet()
    held: IndexSet = IndexSet()
    recalled: IndexSet = IndexSet()
    offered: IndexSet = IndexSet()
    """Jobs that the offer was of."""
    offer: bytes = b""
    """The origin's seal of the offer. Empty: of a release that gave none."""


class GroupShown(msgspec.Struct, frozen=True, kw_only=True):
    """A group of which the sender holds jobs, as its origin acknowledged it."""

    spec: bytes
    receipt: bytes


class Holdings(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a Met that asks: all that is held, or was, for its sender; in `parts` messages."""

    db_uuid: str
    seq: int
    part: int
    """From 0."""
    parts: int
    rows: tuple[Holding, ...]
    groups: tuple[GroupShown, ...] = ()
    """Groups that the sender holds jobs of and the asker does not know, by their numbers."""
    more_from: int = 0
    """From this number on there are more, and the rows come with the last of them; 0: these are all."""
