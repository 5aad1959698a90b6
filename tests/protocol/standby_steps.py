"""Steps of the standby's model: one small function per step, each under the sentence of PROMISES section 2 it models.

A step function yields (name, state after) for every way it can happen now, and nothing if it cannot. Names begin with
who acts. Sending is eager: what may be sent is on the wire at once, and not sending it is the same as losing it. Being
down, paused or cut off is taking no step, so that only the loss of volatile state is a step. A decision is atomic with
its check: acting late on a check made earlier looks from outside like a late message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.protocol.standby_setting import Setting
from tests.protocol.standby_state import (
    NEW,
    RESULT,
    STARTS,
    Acknowledged,
    Answer,
    Append,
    Entry,
    Fsynced,
    InSync,
    Log,
    Propose,
    Register,
    Replica,
    Role,
    Start,
    State,
    Worker,
    records,
)

Moves = Iterator[tuple[str, State]]
OfReplica = Callable[[Setting, State, int], Moves]


def durable(on: Setting, leader: Replica, index: int) -> bool:
    """An entry is acted upon (answer, message, start, LRM call) only after its own fsync, the standby's fsync, and
    under a lease granted by the standby. Alone, as the register says, its own fsync is enough."""
    if on.rules.own_fsync and leader.disk[: index + 1] != leader.log[: index + 1]:
        return False
    if leader.durability == 1:
        return True
    return leader.peer_fsynced > index and (leader.lease or not on.rules.lease)


def member(s: State, i: int) -> InSync:
    """Replica `i` with the database it has now, as the register would name it."""
    return InSync(i, s.replicas[i].db_uuid)


# The leader's journal


def submits(on: Setting, s: State, i: int) -> Moves:
    """A client's group becomes an entry of the leader's journal."""
    leader = s.replicas[i]
    for what in on.bound.groups if on.world.faults else (NEW,):
        if what not in records(leader.log):
            yield f"{i} appends {what}", written(s, i, what)


def acknowledges(on: Setting, s: State, i: int) -> Moves:
    """Persist before you speak: a client hears of what is durable only, and status says on how many disks."""
    leader = s.replicas[i]
    for index, (what, _) in enumerate(leader.log):
        said = Acknowledged(what, leader.durability)
        if what in STARTS or not durable(on, leader, index) or s.acknowledged & {said, Acknowledged(what, 2)}:
            continue
        if on.world.faults or what in (NEW, RESULT):
            after = s._replace(acknowledged=s.acknowledged - {Acknowledged(what, 1)} | {said})
            if s.register.leader != i:
                after = after._replace(answered_late=True)
            yield f"{i} acknowledges {what} in term {leader.term}", after


def fsyncs(on: Setting, s: State, i: int) -> Moves:
    """The journal reaches the disk at a moment of its own."""
    replica = s.replicas[i]
    if replica.log != replica.disk:
        yield f"{i} fsyncs", s.with_replica(i, replica._replace(disk=replica.log))


# The lease


def grants_lease(on: Setting, s: State, i: int) -> Moves:
    """The standby grants the leader of its term a lease; the leader counts it from sending its request, so late
    news of it is a shorter lease."""
    leader, standby = s.replicas[i], s.replicas[1 - i]
    if leader.durability != 2 or leader.lease or on.world.dead is not None:
        return
    same_disk = standby.db_uuid == leader.peer_db or not on.rules.db_uuid
    if standby.role == "follower" and standby.term == leader.term and same_disk:
        after = s.with_replica(i, leader._replace(lease=True))
        yield f"{1 - i} grants {i} a lease", after.with_replica(1 - i, standby._replace(granted=True))


def lease_ends(on: Setting, s: State, i: int) -> Moves:
    """A lease ends when it ends, whatever the leader was about to do."""
    leader = s.replicas[i]
    if leader.lease:
        yield f"{i}'s lease ends", s.with_replica(i, leader._replace(lease=False))


def waited_for_lease(on: Setting, s: State, i: int) -> Moves:
    """A standby that granted asks for no term before that lease has surely ended (clocks drift less than the
    margin)."""
    replica, other = s.replicas[i], s.replicas[1 - i]
    if replica.granted and (not other.lease or on.world.dead == 1 - i):
        yield f"{i} has waited for the lease", s.with_replica(i, replica._replace(granted=False))


# The register


def reads_register(on: Setting, s: State, i: int) -> Moves:
    """A replica that sees itself as leader of the term it asked for leads; one that sees another steps down."""
    replica, register = s.replicas[i], s.register
    news = (replica.role == "leader" and register.term > replica.term) or (
        replica.role == "candidate" and register.term >= replica.term
    )
    if not on.world.witness or not news:
        return
    mine = register.leader == i and member(s, i) in register.in_sync
    if mine and (replica.role == "leader" or register.term == replica.term):
        yield f"{i} leads term {register.term}", s.with_replica(i, leading(on, s, i))
    else:
        yield f"{i} steps down", s.with_replica(i, following(replica, replica.term, replica.log, granted=True))


def leading(on: Setting, s: State, i: int) -> Replica:
    """Replica `i` as leader of the register's term: with the standby in sync both disks are needed, else its own."""
    replica, register = s.replicas[i], s.register
    peers = [at.db_uuid for at in register.in_sync if at.replica != i]
    return replica._replace(
        role="leader",
        term=register.term,
        durability=2 if peers else 1,
        verified=0,
        peer_fsynced=0,
        peer_db=peers[0] if peers else replica.peer_db,
        lease=replica.lease and bool(peers),
        granted=False,
        inventory=unasked(on),
    )


def leads_unasked(on: Setting, s: State, i: int) -> Moves:
    """Only without the promise: a replica that asked and went on following finds itself leader."""
    replica, register = s.replicas[i], s.register
    found = register.leader == i and register.term > replica.term
    if not on.rules.promise and on.world.witness and found:
        yield f"{i} leads term {register.term}", s.with_replica(i, leading(on, s, i))


def asks_for_term(on: Setting, s: State, i: int) -> Moves:
    """Takeover only by a replica recorded in sync, with its current db_uuid; the term it asks for is durable before
    it asks."""
    replica, register, me = s.replicas[i], s.register, member(s, i)
    if not may_ask(on, s, i):
        return
    recorded = me in register.in_sync or not on.rules.takeover_in_sync
    if not on.rules.db_uuid:
        recorded = i in {at.replica for at in register.in_sync}
    if recorded and (register.leader == i or not replica.granted or not on.rules.lease):
        asking = candidate(replica, register.term + 1) if on.rules.promise else replica
        wish = Propose(register.term, elected(s, i, forced=register.forced))
        yield f"{i} asks for term {register.term + 1}", sending(s.with_replica(i, asking), wish)


def is_forced(on: Setting, s: State, i: int) -> Moves:
    """After a forced takeover (operator, marked in the register, never while the other lives) the rest of the other
    copy is given up."""
    replica, other, register = s.replicas[i], s.replicas[1 - i], s.register
    stopped = other.role == "follower" or on.world.dead == 1 - i or not on.rules.forced_when_other_stopped
    if not may_ask(on, s, i) or not on.world.operator or not stopped:
        return
    if member(s, i) not in register.in_sync and replica.term:
        wish = Propose(register.term, elected(s, i, forced=on.rules.forced_asks_all), gives_up_other=True)
        asking = candidate(replica, register.term + 1)
        yield f"{i} is forced to ask for term {register.term + 1}", sending(s.with_replica(i, asking), wish)


def may_ask(on: Setting, s: State, i: int) -> bool:
    """A replica asks for the next term of the register, once, and for none below what it promised."""
    replica, term = s.replicas[i], s.register.term
    free = (replica.role == "follower" and replica.term <= term + 1) or (
        replica.role == "candidate" and replica.term == term + 1
    )
    return on.world.witness and term < on.bound.terms and free


def elected(s: State, i: int, forced: bool) -> Register:
    """The register as replica `i` asks for it: a leader that returns keeps its standby, one that takes over stands
    alone."""
    register, me = s.register, member(s, i)
    stays = register.leader == i and me in register.in_sync
    return Register(register.term + 1, i, register.in_sync if stays else frozenset({me}), forced)


def rejoins(on: Setting, s: State, i: int) -> Moves:
    """Taking the other back: from *sending* that change on, both are needed again."""
    leader = s.replicas[i]
    caught_up = leader.peer_fsynced == len(leader.log) > 0
    if leader.durability != 1 or not caught_up or leader.term >= on.bound.terms:
        return
    both = frozenset({member(s, i), InSync(1 - i, leader.peer_db)})
    wish = Propose(leader.term, Register(leader.term + 1, i, both, s.register.forced))
    needing = leader._replace(durability=2 if on.rules.rejoin_from_sending else 1)
    yield f"{i} takes {1 - i} back", sending(s.with_replica(i, needing), wish)


def goes_on_alone(on: Setting, s: State, i: int) -> Moves:
    """Only without "first the register says so": a leader that hears nothing from its standby goes on alone."""
    leader = s.replicas[i]
    if not on.rules.alone_by_register and on.world.faults and leader.durability == 2:
        yield f"{i} goes on alone", s.with_replica(i, leader._replace(durability=1))


def changes_register(on: Setting, s: State, wish: Propose) -> Moves:
    """The witness durably keeps one register, changed only by compare-and-set; every change raises the term by one."""
    now, new = s.register, wish.register
    if not on.rules.compare_and_set and wish.expected < now.term and new.leader == now.leader:
        new = new._replace(term=now.term + 1)
    elif wish.expected != now.term:
        return
    if not on.world.witness or new.term > on.bound.terms:
        return
    told = s.acknowledged
    if wish.gives_up_other and member(s, new.leader) in new.in_sync:
        told = given_up(on, s, new.leader, in_sync=False)
    alone = ", alone" if len(new.in_sync) == 1 else ""
    old = s.stale_register if on.rules.witness_durable else now
    name = f"the witness records: term {new.term}, leader {new.leader}{alone}"
    yield name, s._replace(register=new, acknowledged=told, stale_register=old)


def forgets_register(on: Setting, s: State) -> Moves:
    """Only without a durable register: the witness crashes and has the one before."""
    if not on.rules.witness_durable and on.world.faults:
        yield "the witness crashes", s._replace(register=s.stale_register)


# The follower


def follows(on: Setting, s: State, sent: Append) -> Moves:
    """A replica never follows a term lower than the one it persisted; it truncates at a real conflict of terms only."""
    i, replica = sent.to, s.replicas[sent.to]
    too_old = sent.term < replica.term and on.rules.follower_refuses_old
    if i == on.world.dead or sent.db_uuid != replica.db_uuid or too_old:
        return
    if replica.role == "leader" and sent.term <= replica.term:
        return
    same = sent.term == replica.term and replica.role == "follower"
    for length in range(len(sent.log) + 1):
        log = merged(on, replica.log, sent.log[:length])
        verified = max(replica.verified if same else 0, length)
        after = following(replica, sent.term, log, granted=replica.granted or replica.role != "follower")
        what = ", ".join(entry.what for entry in sent.log[:length]) or "nothing"
        yield f"{i} gets {what} of term {sent.term}", s.with_replica(i, after._replace(verified=verified))


def merged(on: Setting, mine: Log, leaders: Log) -> Log:
    """The follower's log after a message: a shorter one is a late one and cuts nothing."""
    if on.rules.truncate_conflicts_only and mine[: len(leaders)] == leaders:
        return mine
    return leaders if on.rules.truncate_conflicts else mine + leaders[len(mine) :]


def hears_fsynced(on: Setting, s: State, sent: Fsynced) -> Moves:
    """The leader learns what is on the standby's disk, in this term and of the database it counts on."""
    i, leader = sent.to, s.replicas[sent.to]
    if i == on.world.dead or leader.role != "leader" or leader.term != sent.term:
        return
    if leader.durability == 1 or sent.db_uuid == leader.peer_db or not on.rules.db_uuid:
        heard = leader._replace(peer_fsynced=sent.length, peer_db=sent.db_uuid)
        yield f"{i} hears that {1 - i} fsynced {sent.length}", s.with_replica(i, heard)


# Workers


def says_hello(on: Setting, s: State, i: int) -> Moves:
    """HELLO(term) fences every worker that may hold a START and asks what it started."""
    leader = s.replicas[i]
    for w, worker in enumerate(s.workers):
        answer: Answer = "started" if worker.started else "not started"
        if leader.term >= worker.term and leader.inventory[w] != answer:
            heard = leader._replace(inventory=(*leader.inventory[:w], answer, *leader.inventory[w + 1 :]))
            fenced = worker._replace(term=leader.term, spoken_to=max(worker.spoken_to, leader.term))
            yield (
                f"{i} says HELLO({leader.term}) to worker {w}: {answer}",
                s.with_replica(i, heard).with_worker(w, fenced),
            )


def plans_start(on: Setting, s: State, i: int) -> Moves:
    """Before a new leader plans any start, all who may hold a START have answered; after a forced takeover that is
    everybody, for a START may come from a history nobody has any more."""
    leader = s.replicas[i]
    if RESULT in records(leader.log) or "started" in leader.inventory:
        return
    planned = [entry for entry in leader.log if entry.what in STARTS]
    holders = {STARTS.index(entry.what) for entry in planned}
    if s.register.forced:
        holders = set(range(on.bound.workers))
    known = not on.rules.inventory or all(leader.inventory[w] == "not started" for w in holders)
    if known and all(entry.term < leader.term for entry in planned):
        for w in range(on.bound.workers):
            yield f"{i} plans: {STARTS[w]}", written(s, i, STARTS[w])


def starts_job(on: Setting, s: State, sent: Start) -> Moves:
    """A worker keeps the highest term it saw, refuses lower ones, and starts what it claimed once."""
    worker = s.workers[sent.worker]
    once = not worker.started or not on.rules.worker_starts_once
    if once and (sent.term >= worker.term or not on.rules.worker_refuses_old):
        started = Worker(
            term=max(worker.term, sent.term),
            started=True,
            spoken_to=max(worker.spoken_to, sent.term),
            obeyed_fenced=worker.obeyed_fenced or sent.term < worker.spoken_to,
        )
        after = s.with_worker(sent.worker, started)
        yield (
            f"worker {sent.worker} starts the job, told in term {sent.term}",
            after._replace(starts=min(2, s.starts + 1)),
        )


def records_result(on: Setting, s: State, i: int) -> Moves:
    """A leader hears of the job's end from whoever started it."""
    leader = s.replicas[i]
    if any(worker.started for worker in s.workers) and RESULT not in records(leader.log):
        yield f"{i} appends the result", written(s, i, RESULT)


# Faults


def crashes(on: Setting, s: State, i: int) -> Moves:
    """A crash leaves the disk: journal and promised term. A lease granted before may still run; nobody remembers."""
    replica = s.replicas[i]
    if not on.world.faults:
        return
    term = replica.term if on.rules.follower_term_durable else max([1, *(entry.term for entry in replica.disk)])
    role: Role = "leader" if replica.role == "leader" and not on.rules.leader_crash_ends_term else "follower"
    after = Replica(role, term, replica.disk, replica.disk, replica.db_uuid, granted=on.rules.granted_outlives_crash)
    if role == "leader":
        after = after._replace(durability=replica.durability, peer_db=replica.peer_db, inventory=unasked(on))
    yield f"{i} crashes", s.with_replica(i, after)


def loses_disk(on: Setting, s: State, i: int) -> Moves:
    """A lost disk comes back empty, with a new db_uuid and no memory of a promise."""
    if on.world.faults and s.losses_left:
        empty = Replica(term=0, db_uuid=s.replicas[i].db_uuid + 1, granted=True)
        told = given_up(on, s, 1 - i, in_sync=member(s, 1 - i) in s.register.in_sync)
        yield f"{i} loses its disk", s.with_replica(i, empty)._replace(losses_left=s.losses_left - 1, acknowledged=told)


def worker_crashes(on: Setting, s: State) -> Moves:
    """Only without durable worker terms: a worker that restarts has forgotten the term, not what it started."""
    if not on.rules.worker_term_durable and on.world.faults:
        for w, worker in enumerate(s.workers):
            yield f"worker {w} crashes", s.with_worker(w, worker._replace(term=0))


def given_up(on: Setting, s: State, kept: int, in_sync: bool) -> frozenset[Acknowledged]:
    """Records that clients may still rely on when only the copy of `kept` remains: with it in sync all, else those said
    to be on two disks; of these, when a disk had been lost before, those the copy has (both lost: no promise)."""
    promised = frozenset(told for told in s.acknowledged if in_sync or told.durability == 2)
    if s.losses_left == on.bound.disk_losses:
        return promised
    return frozenset(told for told in promised if told.what in records(s.replicas[kept].disk))


# Shared by the steps


def written(s: State, i: int, what: str) -> State:
    """The state with one more entry at the end of leader `i`'s log."""
    leader = s.replicas[i]
    return s.with_replica(i, leader._replace(log=(*leader.log, Entry(what, leader.term))))


def candidate(replica: Replica, term: int) -> Replica:
    """A replica that promised `term`: it follows nobody below, and whatever it led or granted has ended."""
    return replica._replace(role="candidate", term=term, verified=0, durability=0, granted=False)


def unasked(on: Setting) -> tuple[Answer, ...]:
    """A new leader's inventory."""
    answers: tuple[Answer, ...] = ("unasked",)
    return answers * on.bound.workers


def following(replica: Replica, term: int, log: Log, granted: bool) -> Replica:
    """A follower of `term` with the disk and database it has."""
    return Replica("follower", term, log, replica.disk, replica.db_uuid, granted=granted)


def sending(s: State, message: Propose) -> State:
    """The state with one more message on the wire."""
    return s._replace(network=s.network | {message})
