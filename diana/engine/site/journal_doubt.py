"""Sites that lack the end of their journal: others, found out by what they said before; and this one (PROMISES section
2, "Database lost or restored", and section 4, restore; searched in `tests/protocol/dbloss.py`).

What nobody can hide from its peers is a db_uuid, and how long its journal was. Whoever comes back with less is told so
before anything else, and takes a new name, under which it starts nothing of what it held. What a node can know by
itself is said by the mark beside its journal (`ports.Standing`): an ordinary restart begins at once, one that cannot
show that it has the newest journal waits for each origin to speak, and an old copy is known for one before any peer is
met. What an origin does that was put back stands in `recovery/stocktaking.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from diana.engine.journal.effects import Confirmed, StartAnew
from diana.engine.journal.fold import SKIPPED_GROUPS
from diana.engine.journal.records import PeerSeen
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.messages.messages import Hello
from diana.engine.messages.recovery import Evidence, Met
from diana.engine.site.context import Context
from diana.engine.site.timers import PeerTimer, SiteTimer
from diana.model.ids import GroupId, SiteId
from diana.policy.membership import mark
from diana.policy.trust import seals

PATIENCE_S = 120.0
"""A site that cannot show that its journal is the newest waits so long with its own work for peers that are silent.
They may be gone for good; an older copy is known by its mark, unless that went with it."""

MEND_PAIR = "stop this node, then diana site promote --force on the other machine"
"""What an operator does with a pair whose database fell: the journal takes another name, under which peers tell what
they hold."""


class Length(NamedTuple):
    """Word of a peer on the length of its journal."""

    db_uuid: str = ""
    seq: int = 0
    """Records in it."""
    seal: bytes = b""
    """Its seal of that."""


class JournalDoubt:
    """Doubt about journals, this site's own and its peers'. Volatile: each boot asks anew."""

    def __init__(self) -> None:
        self.newest = True
        """True if the journal surely lacks nothing that it once held."""
        self.fallen = ""
        """Peer or machine that knows that the journal lacks something; then nothing starts. Empty: nobody."""
        self.unproven = False
        """True if nothing beside this boot's journal shows that it is the newest, or that it is not."""
        self.seq = 0
        """Records in the journal before this boot."""
        self.showing: frozenset[SiteId] = frozenset()
        """Peers that can show what they heard of this site, as the journal knew when this boot began: their releases
        make seals, and the journal had the secret of its own. Of all others nobody knows whether they lie."""
        self.denied_by: set[SiteId] = set()
        """Peers that say that they know a later state, against the evidence here: their own jobs wait."""
        self.belied: set[SiteId] = set()
        """Those of them that this site's own jobs do not wait for."""
        self.strangers: dict[SiteId, set[GroupId]] = {}
        """Peers -> the groups of this site, put back since, that they say they have jobs of and show no offer of."""
        self.heard_out: set[SiteId] = set()
        """Peers that told of groups that this site lost. It is recorded once all have told: whoever shows one of these
        groups after another start must find this known, so these are then asked again."""
        self.shown_to: dict[SiteId, int] = {}
        """Peers -> the number below which they have shown all groups of this site that it lost."""
        self.doubted = False
        """True if the store says so at the next start too, until everybody has spoken."""
        self.unsure = False
        """True while nobody knows whether the journal is the newest this site had."""
        self.spoken: set[SiteId] = set()
        """Peers that have judged this boot's journal and found it whole."""
        self.fell: dict[SiteId, str] = {}
        """Peers whose journal is shorter than it was -> the boot in which it is."""
        self.lengths: dict[SiteId, Length] = {}
        """The longest journals that peers told of, under their latest names."""
        self.inventoried: set[str] = set()
        """Machines that have told this boot what they claimed."""
        self.adopted: set[CustodyKey] = set()
        """Work that runs by the word of a machine alone: another may know a later attempt of it."""


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
            if hello.seal and not known.sealing:
                # It was met by a release that made no seals.
                _see(core, hello, max(hello.seq, known.seq), hello.seal if hello.seq >= known.seq else b"")
            return ""
        had = _ended(hello.begun, hello.generation, known.generation, hello.seq)
        if hello.generation <= known.generation or had < max(known.seq, _heard(core, site, hello.db_uuid)):
            core.book(JournalDoubt).fell[site] = hello.boot_nonce
            return "came back with an older database"
    if known is not None and hello.db_uuid in known.former:
        core.book(JournalDoubt).fell[site] = hello.boot_nonce
        return "came back with an older database"
    core.book(JournalDoubt).fell.pop(site, None)
    _see(core, hello, hello.seq, hello.seal)
    return "has another database" if known is not None and not same else ""


def _ended(begun: tuple[int, ...], generation: int, boot: int, seq: int) -> int:
    """Return the records that a journal had when that boot ended, or another from an older copy began in its place: it
    may have grown since. `begun`: before each of its latest boots, the last of which is of that generation; `seq` where
    they do not tell."""
    back = generation - boot
    return min(seq, begun[-back]) if 0 < back <= len(begun) else seq


def _see(core: Context, hello: Hello, seq: int, seal: bytes) -> None:
    seen = PeerSeen(
        site=hello.site,
        db_uuid=hello.db_uuid,
        generation=hello.generation,
        boot_nonce=hello.boot_nonce,
        seq=seq,
        seal=seal,
        names=hello.former,
        sealing=bool(hello.seal),
    )
    core.persist(seen)


def heard(core: Context, site: SiteId, db_uuid: str, seq: int, seal: bytes) -> None:
    """Note how long the peer's journal was when it said something: never shorter again. Words it said under a former
    name may come late; those of a boot that fell tell nothing. Of a site that makes seals a length without one tells
    nothing either: it could not be shown to it."""
    known, doubt = core.state.peers.get(site), core.book(JournalDoubt)
    if known is None or db_uuid != known.db_uuid or site in doubt.fell or (known.sealing and not seal):
        return
    if seq > _heard(core, site, db_uuid):
        doubt.lengths[site] = Length(db_uuid, seq, seal)


def parted(core: Context, site: SiteId) -> None:
    """The stream to it ended, perhaps since an older copy is being put in its place: what was heard of it is written
    down, for whoever comes back first."""
    known, seq = core.state.peers.get(site), length_heard(core, site)
    if known is not None and seq > known.seq:
        note_length(core, site, seq, core.book(JournalDoubt).lengths[site].seal)


def note_length(core: Context, site: SiteId, seq: int, seal: bytes) -> None:
    """Write down that the peer's journal had so many records, by its word under that seal."""
    known = core.state.peers[site]
    seen = PeerSeen(
        site=site,
        db_uuid=known.db_uuid,
        generation=known.generation,
        boot_nonce=known.boot_nonce,
        seq=seq,
        seal=seal,
        names=known.names,
        sealing=known.sealing,
    )
    core.persist(seen)


def length_heard(core: Context, site: SiteId) -> int:
    """Records its journal had at least, under its present name."""
    known = core.state.peers.get(site)
    return max(known.seq, _heard(core, site, known.db_uuid)) if known is not None else 0


def _heard(core: Context, site: SiteId, db_uuid: str) -> int:
    told = core.book(JournalDoubt).lengths.get(site, Length())
    return told.seq if told.db_uuid == db_uuid else 0


# --- what is said of it ----------------------------------------------------------------------------------------


def greet(core: Context, site: SiteId) -> None:
    """On a new stream, before anything else; and once it has more to show."""
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
    fell = core.book(JournalDoubt).fell.get(site) == peer.hello.boot_nonce
    met = Met(
        boot_nonce=peer.hello.boot_nonce,
        fell=fell,
        asks=asks(core, site),
        since=_lost_from(core, site),
        unanswered=waits_for(core, site),
        seq=core.state.seq,
        seal=core.seal(),
        evidence=_evidence(core, site) if fell else None,
    )
    core.send(site, met)
    if _wants(core, site):
        core.back_off(PeerTimer("met", site))


def _lost_from(core: Context, site: SiteId) -> int:
    """The number from which on that site is to show this one's groups; 0: none."""
    first = core.state.lost_from or (core.state.forgotten[-1][0] if core.state.forgotten else 0)
    return max(first, core.book(JournalDoubt).shown_to.get(site, 0)) if first else 0


def _evidence(core: Context, site: SiteId) -> Evidence | None:
    """The latest that this peer said itself of its journal, before it fell."""
    known = core.state.peers[site]
    named, seq, seal = core.book(JournalDoubt).lengths.get(site, Length())
    if named != known.db_uuid or seq <= known.seq:
        seq, seal = known.seq, known.seal
    if not seal:
        return None
    return Evidence(
        db_uuid=known.db_uuid,
        former=known.names,
        generation=known.generation,
        boot_nonce=known.boot_nonce,
        seq=seq,
        seal=seal,
    )


def asks(core: Context, site: SiteId) -> bool:
    """True where this site, put back since, has not been told yet what that one holds of its groups."""
    doubt = core.book(JournalDoubt)
    told = core.state.reported.get(site, False) or site in doubt.strangers or site in doubt.heard_out
    return core.state.recovering and not told


def _wants(core: Context, site: SiteId) -> bool:
    return site in core.book(JournalDoubt).fell or asks(core, site) or waits_for(core, site)


def on_met(core: Context, sender: SiteId, message: Met) -> None:
    peer = core.view.peers.get(sender)
    if peer is not None and peer.hello is not None:
        # A peer that started anew itself forgot how long that journal was.
        heard(core, sender, peer.hello.db_uuid, message.seq, message.seal)
    if message.boot_nonce != core.state.boot_nonce:
        return
    if message.fell and (core.book(JournalDoubt).unproven or core.term) and _shows(core, message.evidence):
        fell(core, f"{sender} knows a later state of this site's database")
        return
    if message.fell:
        _denied(core, sender)
    elif sender not in core.book(JournalDoubt).spoken:
        core.book(JournalDoubt).denied_by.discard(sender)
        core.book(JournalDoubt).belied.discard(sender)
        core.book(JournalDoubt).spoken.add(sender)
        core.requeue.update(core.parties.taken_from(sender))
        begin_if_heard_out(core)
        confirm(core)
    if message.unanswered:
        _say(core, sender)


def _shows(core: Context, evidence: Evidence | None) -> bool:
    """True if that is this site's own word, of a later state than this boot began with: of this journal, longer or at a
    boot it does not know; or of one that had its name before (`tests/protocol/testimony.py`). What this boot said, or
    a journal that this one comes after, shows nothing."""
    state = core.state
    if evidence is None or evidence.boot_nonce == state.boot_nonce:
        return False
    made = seals.length(
        state.seal_key,
        site=core.site,
        db_uuid=evidence.db_uuid,
        former=evidence.former,
        generation=evidence.generation,
        boot_nonce=evidence.boot_nonce,
        seq=evidence.seq,
    )
    if not seals.fits(made, evidence.seal):
        return False
    if evidence.db_uuid == state.db_uuid:
        had = _ended(state.begun, state.generation, evidence.generation, core.book(JournalDoubt).seq)
        return evidence.seq > had or evidence.generation >= state.generation
    return state.db_uuid in evidence.former


def _denied(core: Context, sender: SiteId) -> None:
    """The word that it fell takes nothing down without evidence, or against the mark beside the journal: any site of
    the VO can say it. It may be true all the same, of a disk that was set back with its mark, so the sender's own jobs
    wait. Where nothing shows that the journal is the newest this site's own jobs wait as well, unless the sender could
    have shown what it says. An operator's word, or the sender's, ends that."""
    doubt = core.book(JournalDoubt)
    if sender in doubt.denied_by or sender in doubt.spoken:
        return
    doubt.denied_by.add(sender)
    core.warn(_denial(sender))
    believed = doubt.unproven and sender not in doubt.showing
    core.requeue.update(core.state.custodies if believed else core.parties.taken_from(sender))
    if not believed:
        doubt.belied.add(sender)
        begin_if_heard_out(core)
        confirm(core)
    else:
        core.book(JournalDoubt).unsure = True
        core.after(SiteTimer("unheard"), PATIENCE_S)


def _denial(site: SiteId) -> str:
    return f"{site} says that it knows a later state of this site's database (diana site go-on {site} if it is wrong)"


def confirm(core: Context) -> None:
    """Once all peers have spoken the journal is the newest, also after the next start."""
    doubt = core.book(JournalDoubt)
    if doubt.doubted and core.state.peers.keys() <= doubt.spoken | doubt.belied:
        doubt.doubted = False
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
    doubt = core.book(JournalDoubt)
    return sorted(core.state.peers.keys() - doubt.spoken - doubt.belied) if doubt.unsure else []


def begin_if_heard_out(core: Context, patient: bool = True) -> None:
    """Not `patient`: whoever has not spoken is waited for no longer, but for those that deny it."""
    doubt = core.book(JournalDoubt)
    if doubt.unsure and not patient and doubt.denied_by - doubt.belied:
        core.after(SiteTimer("unheard"), PATIENCE_S)
    elif core.book(JournalDoubt).unsure and not (patient and unheard(core)):
        core.book(JournalDoubt).unsure = False
        core.timers.cancel(SiteTimer("unheard"))
        core.requeue.update(key for key, custody in core.state.custodies.items() if custody.origin == core.site)
        core.to_place.update(core.state.groups)


def fallen(core: Context) -> str:
    """Why nothing is taken, placed or started any more, with the mend; empty: it may be. A site of one machine begins
    anew by itself at once (`StartAnew`); which of two machines goes on, an operator says."""
    why = core.book(JournalDoubt).fallen
    if not why:
        return ""
    mend = MEND_PAIR if core.term else "it begins anew by itself"
    return f"starts nothing, for its database is an older copy ({why}); {mend}"


def waiting_for(core: Context) -> str:
    """Why this site takes and places nothing of its own yet; empty: it does."""
    if gone := fallen(core):
        return gone
    some = unheard(core)
    if not some:
        return ""
    names = ", ".join(some[:4]) + (f" and {len(some) - 4} more" if len(some) > 4 else "")
    return f"waits for a word of {names} (diana site go-on NAME), since this database may be an older copy"


def stays(core: Context, custody: Custody) -> str:
    """Why nothing of it is started now; empty: it may be."""
    if custody.on_hold:
        return "restored from a backup: nothing starts"
    if gone := fallen(core):
        return gone
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
    return core.book(JournalDoubt).newest or not silent_machines(core)


def silent_machines(core: Context) -> list[str]:
    """Return the machines of this site that have not told this boot what they claimed."""
    gone = {name for name, machine in core.state.machines.items() if machine.gone}
    return sorted({core.workers.own, *core.workers.names()} - gone - core.book(JournalDoubt).inventoried)


def forgotten(core: Context, group: GroupId) -> bool:
    """True where this site may have had that group and lost it with its database: its results are nobody else's."""
    number = int(group.rpartition("-")[2])
    return any(first <= number < end for first, end in core.state.forgotten) and number not in core.state.expired
