"""Invariants of the standby, and the reason of each sentence of the protocol.

`HARMS` are what a user or a job would suffer: they are what each mutant is caught by. `RULES` are what the protocol
says of single steps; they hold in it, and tell a reader of a counterexample where it went wrong.
"""

from __future__ import annotations

from tests.protocol.standby_state import State, records

# Invariants of every state


def no_two_leaders_act_in_one_term(s: State) -> str | None:
    """I6: at most one leader commits per term."""
    one, two = s.replicas
    if one.role == two.role == "leader" and one.term == two.term:
        return f"both lead term {one.term}"
    return None


def the_leader_knows_all_that_was_acknowledged(s: State) -> str | None:
    """Promise 1, I3: the leader of the register's term has every acknowledged record."""
    for i, replica in enumerate(s.replicas):
        if replica.role == "leader" and replica.term == s.register.term:
            for what, durability in sorted(s.acknowledged):
                if what not in records(replica.log):
                    return f"{i} leads term {replica.term} without {what}, acknowledged with durability {durability}"
    return None


def all_that_was_acknowledged_is_on_a_disk(s: State) -> str | None:
    """Promise 1: while one disk of those that counted is left, it has every acknowledged record."""
    for what, durability in sorted(s.acknowledged):
        if not any(what in records(replica.disk) for replica in s.replicas):
            return f"{what}, acknowledged with durability {durability}, is on no disk"
    return None


def one_history_under_one_index_and_term(s: State) -> str | None:
    """A follower's truncation is sound: equal index and term, equal logs up to there."""
    one, two = s.replicas
    for index, (a, b) in enumerate(zip(one.log, two.log, strict=False)):
        if a.term == b.term and one.log[: index + 1] != two.log[: index + 1]:
            return f"the logs differ up to index {index}, both of term {a.term} there"
    return None


def the_job_is_started_once(s: State) -> str | None:
    """Promise 3, I1."""
    return "started twice" if s.starts > 1 else None


def nothing_is_answered_by_a_fenced_leader(s: State) -> str | None:
    """A woken old primary may still write: nothing it writes is answered."""
    return "a client was answered after another had begun a higher term" if s.answered_late else None


# What the protocol says of single steps


def no_start_is_honoured_from_a_fenced_term(before: State, after: State) -> str | None:
    """A worker refuses a START of a lower term than it was ever spoken to in."""
    return "worker obeyed" if any(worker.obeyed_fenced for worker in after.workers) else None


def nothing_is_acknowledged_before_it_is_fsynced_where_it_must(before: State, after: State) -> str | None:
    """No effect before both fsynced; one disk is enough only while the register says that one counts. A disk lost
    since does not speak against it."""
    if after.acknowledged is before.acknowledged or after.answered_late:
        return None
    for what, durability in after.acknowledged - before.acknowledged:
        if durability == 1 and len(after.register.in_sync) != 1:
            return f"{what} was acknowledged with durability 1 while the register counts on two"
        for i, replica in enumerate(after.replicas):
            counts = durability == 2 or i == after.register.leader
            if counts and replica.db_uuid == 0 and what not in records(replica.disk):
                return f"{what} was acknowledged with durability {durability} and is not on the disk of {i}"
    return None


def only_a_replica_in_sync_takes_over(before: State, after: State) -> str | None:
    """Takeover only by a replica recorded in sync, with its current db_uuid; unless an operator forces it, which is
    marked."""
    old, new = before.register, after.register
    if new is old or new.leader == old.leader or (new.forced and not old.forced):
        return None
    extra = new.in_sync - old.in_sync
    return f"{sorted(extra)} took over, not recorded in sync" if extra and not new.forced else None


def terms_never_fall(before: State, after: State) -> str | None:
    """I5: the register's term rises by one; a replica's falls with its disk only; a worker's never."""
    if after.register.term not in (before.register.term, before.register.term + 1):
        return f"the register went from term {before.register.term} to {after.register.term}"
    for i, (old, new) in enumerate(zip(before.replicas, after.replicas, strict=True)):
        if new.term < old.term and new.db_uuid == old.db_uuid:
            return f"replica {i} went from term {old.term} to {new.term}"
    return None


HARMS = (
    no_two_leaders_act_in_one_term,
    the_leader_knows_all_that_was_acknowledged,
    all_that_was_acknowledged_is_on_a_disk,
    one_history_under_one_index_and_term,
    the_job_is_started_once,
    nothing_is_answered_by_a_fenced_leader,
)
RULES = (
    no_start_is_honoured_from_a_fenced_term,
    nothing_is_acknowledged_before_it_is_fsynced_where_it_must,
    only_a_replica_in_sync_takes_over,
    terms_never_fall,
)
