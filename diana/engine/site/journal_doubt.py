"""Sites that lack the end of their journal: others, found out by what they said before; and this one (PROMISES section
2, "Database lost or restored", and section 4, restore; searched in `tests/protocol/dbloss.py`).

What nobody can hide from its peers is a db_uuid, and how long its journal was. Whoever comes back with less is told so
before anything else, and takes a new name, under which it starts nothing of what it held. What a node can know by
itself is said by the mark beside its journal (`ports.Standing`): an ordinary restart begins at once, one that cannot
show that it has the newest journal waits for each origin to speak, and an old copy is known for one before any peer is
met. What an origin does that was put back stands in `recovery/stocktaking.py`.
"""

from __future__ import annotations

from diana.engine.journal.effects import Confirmed, StartAnew
from diana.engine.journal.fold import SKIPPED_GROUPS
from diana.engine.journal.records import PeerSeen
from diana.engine.journal.state import Custody
from diana.engine.messages.messages import Hello
from diana.engine.messages.recovery import Met
from diana.engine.site.context import Context
from diana.engine.site.timers import PeerTimer, SiteTimer
from diana.model.ids import GroupId, SiteId
from diana.policy.membership import mark

PATIENCE_S = 120.0
"""A site that cannot show that its journal is the newest waits so long with its own work for peers that are silent.
They may be gone for good; an older copy is known by its mark, unless that went with it."""


class JournalDoubt:
    """Doubt about journals, this site's own and its peers'. Volatile: each boot asks anew."""

    def __init__(self) -> None:
        self.newest = True
        """True if the journal surely lacks nothing that it once held."""
        self.fallen = ""
        """Peer or machine that knows that the journal lacks something; then nothing starts. Empty: nobody."""
        self.unproven = False
        """True if nothing beside this boot's journal shows that it is the newest, or that it is not."""
        self.knew: frozenset[SiteId] = frozenset()
        """Peers that the journal knew when this boot began."""
        self.denied_by: set[SiteId] = set()
        """Peers that say that they know a later state, against the evidence here: their own jobs wait."""
        self.strangers: dict[SiteId, set[GroupId]] = {}
        """Peers that a restored journal does not know -> the groups they say they have jobs of."""
        self.doubted = False
        """True if the store says so at the next start too, until everybody has spoken."""
        self.unsure = False
        """True while nobody knows whether the journal is the newest this site had."""
        self.spoken: set[SiteId] = set()
        """Peers that have judged this boot's journal and found it whole."""
        self.fell: dict[SiteId, str] = {}
        """Peers whose journal is shorter than it was -> the boot in which it is."""
        self.heard_seq: dict[SiteId, tuple[str, int]] = {}
        """Peer -> its db_uuid and the records of its journal when it last spoke."""
        self.inventoried: set[str] = set()
        """Machines that have told this boot what they claimed."""


def first_group(core: Context, db_uuid: str) -> int:
    """The number of the next group of a store that was put back: beyond all that its lost ones can have. A store that
    begins with nothing knows of none of these, so time tells them apart; a clock that was wrong, the new name."""
    return max(core.state.next_group, int(core.now)) + SKIPPED_GROUPS + mark(db_uuid) % SKIPPED_GROUPS


def begin(core: Context) -> None:
    """The node starts."""
    confirm(core)
    if core.book(JournalDoubt).unsure:
        core.after(SiteTimer("unheard"), PATIENCE_S)


# --- the other one's journal ---------------------------------------------------------------------------------


def judge(core: Context, hello: Hello) -> str:
    """The fault of the peer's database; empty: it has all that was heard of. A peer that fell keeps this verdict until
    it has another db_uuid, so that whoever asks again is told again."""
    known, site = core.state.peers.get(hello.site), hello.site
    same = known is not None and known.db_uuid == hello.db_uuid
    if known is not None and same:
        if (hello.generation, hello.boot_nonce) == (known.generation, known.boot_nonce):
            return ""
        if hello.generation <= known.generation or hello.seq < max(known.seq, _heard(core, site, hello.db_uuid)):
            core.book(JournalDoubt).fell[site] = hello.boot_nonce
            return "came back with an older database"
    if known is not None and hello.db_uuid in known.former:
        core.book(JournalDoubt).fell[site] = hello.boot_nonce
        return "came back with an older database"
    core.book(JournalDoubt).fell.pop(site, None)
    seen = PeerSeen(
        site=site, db_uuid=hello.db_uuid, generation=hello.generation, boot_nonce=hello.boot_nonce, seq=hello.seq
    )
    core.persist(seen)
    return "has another database" if known is not None and not same else ""


def heard(core: Context, site: SiteId, db_uuid: str, seq: int) -> None:
    """Note how long the peer's journal was when it said something: never shorter again. Words it said under a former
    name may come late."""
    known = core.state.peers.get(site)
    if known is not None and db_uuid == known.db_uuid and seq > _heard(core, site, db_uuid):
        core.book(JournalDoubt).heard_seq[site] = (db_uuid, seq)


def parted(core: Context, site: SiteId) -> None:
    """The stream to it ended, perhaps since an older copy is being put in its place: what was heard of it is written
    down, for whoever comes back first."""
    known, seq = core.state.peers.get(site), length_heard(core, site)
    if known is not None and seq > known.seq:
        seen = PeerSeen(
            site=site, db_uuid=known.db_uuid, generation=known.generation, boot_nonce=known.boot_nonce, seq=seq
        )
        core.persist(seen)


def length_heard(core: Context, site: SiteId) -> int:
    """Records its journal had at least, under its present name."""
    known = core.state.peers.get(site)
    return max(known.seq, _heard(core, site, known.db_uuid)) if known is not None else 0


def _heard(core: Context, site: SiteId, db_uuid: str) -> int:
    named, seq = core.book(JournalDoubt).heard_seq.get(site, ("", 0))
    return seq if named == db_uuid else 0


# --- what is said of it ----------------------------------------------------------------------------------------


def greet(core: Context, site: SiteId) -> None:
    """On a new stream, before anything else."""
    core.settle(PeerTimer("met", site))
    _say(core, site)


def again(core: Context, site: SiteId) -> None:
    """The peer has not done yet what it was asked: its answer, or the question, was lost."""
    if _wants(core, site):
        _say(core, site)


def _say(core: Context, site: SiteId) -> None:
    peer = core.view.peers.get(site)
    if peer is None or peer.hello is None or not peer.up:
        return
    met = Met(
        boot_nonce=peer.hello.boot_nonce,
        fell=core.book(JournalDoubt).fell.get(site) == peer.hello.boot_nonce,
        asks=asks(core, site),
        unanswered=waits_for(core, site),
        seq=core.state.seq,
    )
    core.send(site, met)
    if _wants(core, site):
        core.back_off(PeerTimer("met", site))


def asks(core: Context, site: SiteId) -> bool:
    """True where this site, put back since, has not been told yet what that one holds of its groups."""
    told = core.state.reported.get(site, False) or site in core.book(JournalDoubt).strangers
    return core.state.recovering and not told


def _wants(core: Context, site: SiteId) -> bool:
    return site in core.book(JournalDoubt).fell or asks(core, site) or waits_for(core, site)


def on_met(core: Context, sender: SiteId, message: Met) -> None:
    peer = core.view.peers.get(sender)
    if peer is not None and peer.hello is not None:
        # A peer that started anew itself forgot how long that journal was.
        heard(core, sender, peer.hello.db_uuid, message.seq)
    if message.boot_nonce != core.state.boot_nonce:
        return
    if message.fell and sender in core.book(JournalDoubt).knew and (core.book(JournalDoubt).unproven or core.term):
        fell(core, f"{sender} knows a later state of this site's database")
        return
    if message.fell:
        _denied(core, sender)
    elif sender not in core.book(JournalDoubt).spoken:
        core.book(JournalDoubt).denied_by.discard(sender)
        core.book(JournalDoubt).spoken.add(sender)
        core.requeue.update(core.parties.taken_from(sender))
        begin_if_heard_out(core)
        confirm(core)
    if message.unanswered:
        _say(core, sender)


def _denied(core: Context, sender: SiteId) -> None:
    """A word against the mark beside the journal, or of a site that the journal does not know, takes nothing down: any
    site of the VO can say it. It may be true all the same, of a disk that was set back with its mark, so the sender's
    own jobs wait; and with them this site's, where nothing shows that the journal is the newest. An operator's word,
    or the sender's, ends that."""
    if sender in core.book(JournalDoubt).denied_by or sender in core.book(JournalDoubt).spoken:
        return
    core.book(JournalDoubt).denied_by.add(sender)
    core.warn(_denial(sender))
    core.requeue.update(core.state.custodies if core.book(JournalDoubt).unproven else core.parties.taken_from(sender))
    if core.book(JournalDoubt).unproven:
        core.book(JournalDoubt).unsure = True
        core.after(SiteTimer("unheard"), PATIENCE_S)


def _denial(site: SiteId) -> str:
    return f"{site} says that it knows a later state of this site's database (diana site go-on {site} if it is wrong)"


def confirm(core: Context) -> None:
    """Once all peers have spoken the journal is the newest, also after the next start."""
    if core.book(JournalDoubt).doubted and core.state.peers.keys() <= core.book(JournalDoubt).spoken:
        core.book(JournalDoubt).doubted = False
        core.emit(Confirmed())


def fell(core: Context, why: str) -> None:
    """Others, or its own spawners, know more of this site than its journal: nothing of what it held is started any
    more, and it comes back under another name."""
    if core.book(JournalDoubt).fallen:
        return
    core.book(JournalDoubt).fallen = why
    core.warn(f"{core.book(JournalDoubt).fallen}: it is an older copy; the node starts anew and holds what is not over")
    core.requeue.update(core.state.custodies)
    core.emit(StartAnew(db_uuid=core.state.boot_nonce))


# --- what is not started ---------------------------------------------------------------------------------------


def waits_for(core: Context, origin: SiteId) -> bool:
    """True where jobs of this origin that lie here wait for its word, for nobody knows whether they ran meanwhile; or
    this site's own, which any peer may know to have run."""
    if core.book(JournalDoubt).newest or origin in core.book(JournalDoubt).spoken:
        return False
    return bool(core.parties.taken_from(origin)) or origin in unheard(core)


def unheard(core: Context) -> list[SiteId]:
    """The sites this journal knew that have not said yet whether it is the newest, where nobody else can tell. Until
    then nothing of its own is taken, placed or started."""
    return sorted(core.state.peers.keys() - core.book(JournalDoubt).spoken) if core.book(JournalDoubt).unsure else []


def begin_if_heard_out(core: Context, patient: bool = True) -> None:
    """Not `patient`: whoever has not spoken is waited for no longer, but for those that deny it."""
    if core.book(JournalDoubt).unsure and not patient and core.book(JournalDoubt).denied_by:
        core.after(SiteTimer("unheard"), PATIENCE_S)
    elif core.book(JournalDoubt).unsure and not (patient and unheard(core)):
        core.book(JournalDoubt).unsure = False
        core.timers.cancel(SiteTimer("unheard"))
        core.requeue.update(key for key, custody in core.state.custodies.items() if custody.origin == core.site)
        core.to_place.update(core.state.groups)


def waiting_for(core: Context) -> str:
    """Why this site takes and places nothing of its own yet; empty: it does."""
    some = unheard(core)
    if not some:
        return ""
    names = ", ".join(some[:4]) + (f" and {len(some) - 4} more" if len(some) > 4 else "")
    return f"waits for a word of {names} (diana site go-on NAME), since this database may be an older copy"


def stays(core: Context, custody: Custody) -> str:
    """Why nothing of it is started now; empty: it may be."""
    if custody.on_hold:
        return "restored from a backup: nothing starts"
    if core.book(JournalDoubt).fallen:
        return core.book(JournalDoubt).fallen
    if custody.origin in core.book(JournalDoubt).denied_by:
        return _denial(custody.origin)
    if (
        custody.origin != core.site
        and not core.book(JournalDoubt).newest
        and custody.origin not in core.book(JournalDoubt).spoken
    ):
        return f"waits for a word of {custody.origin}, since this database may be an older copy"
    return waiting_for(core) if custody.origin == core.site else ""


def may_bury(core: Context) -> bool:
    """True once it is known what the spawners have claimed, so that a tombstone may say that something never ran."""
    if core.book(JournalDoubt).newest:
        return True
    gone = {name for name, machine in core.state.machines.items() if machine.gone}
    return core.book(JournalDoubt).inventoried.issuperset({core.workers.own, *core.workers.names()} - gone)


def forgotten(core: Context, group: GroupId) -> bool:
    """True where this site may have had that group and lost it with its database: its results are nobody else's."""
    number = int(group.rpartition("-")[2])
    return any(first <= number < end for first, end in core.state.forgotten)
