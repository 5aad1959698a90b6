"""The harm without each sentence of the standby's protocol: what the sentence is there for.

A mutant is the protocol without one sentence, in the smallest world in which the search finds the harm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.protocol import standby_rules as must
from tests.protocol.search import Explored, explore
from tests.protocol.standby import Standby
from tests.protocol.standby_setting import ALONE, CONFLICTS, JOURNAL, WORK, Rules, Setting
from tests.protocol.standby_state import State

Harm = Callable[[State], str | None]
LATE_ANSWER = must.nothing_is_answered_by_a_fenced_leader


@dataclass(frozen=True)
class Mutant:
    """The protocol without one sentence, where that is searched, and what comes of it."""

    without: str
    """The switch of `Rules` that is off."""
    where: Setting
    harm: Harm

    def search(self) -> Explored[State]:
        """A shortest way to the harm; other harms on the way are overlooked."""
        rules = replace(Rules(), **{self.without: False})
        return explore(Standby(replace(self.where, rules=rules)), [self.harm])


_J, _W, _A = JOURNAL.with_terms(2), WORK.with_terms(2), ALONE.with_terms(4)
_C = CONFLICTS.with_terms(2).writing_through()

MUTANTS = (
    Mutant("own_fsync", _J, must.all_that_was_acknowledged_is_on_a_disk),
    Mutant("standby_fsync", _J, must.all_that_was_acknowledged_is_on_a_disk),
    Mutant("lease", _J, LATE_ANSWER),
    Mutant("start_when_durable", _W, must.the_job_is_started_once),
    Mutant("granted_outlives_crash", _J, LATE_ANSWER),
    Mutant("alone_by_register", _J, must.all_that_was_acknowledged_is_on_a_disk),
    Mutant("rejoin_from_sending", _A, LATE_ANSWER),
    Mutant("takeover_in_sync", _J, must.the_leader_knows_all_that_was_acknowledged),
    Mutant("db_uuid", _J, must.the_leader_knows_all_that_was_acknowledged),
    Mutant("promise", _J, must.the_leader_knows_all_that_was_acknowledged),
    Mutant("follower_refuses_old", _C, must.all_that_was_acknowledged_is_on_a_disk),
    Mutant("follower_term_durable", _J, LATE_ANSWER),
    Mutant("leader_crash_ends_term", CONFLICTS.with_terms(2), must.one_history_under_one_index_and_term),
    Mutant("truncate_conflicts", _C, must.one_history_under_one_index_and_term),
    Mutant("truncate_conflicts_only", _C, must.the_leader_knows_all_that_was_acknowledged),
    Mutant("compare_and_set", _A, LATE_ANSWER),
    Mutant("witness_durable", _J, must.no_two_leaders_act_in_one_term),
    Mutant("worker_refuses_old", _W, must.the_job_is_started_once),
    Mutant("worker_term_durable", _W, must.the_job_is_started_once),
    Mutant("worker_starts_once", _W, must.the_job_is_started_once),
    Mutant("inventory", _W, must.the_job_is_started_once),
    Mutant("forced_asks_all", WORK.with_terms(3), must.the_job_is_started_once),
    Mutant("forced_when_other_stopped", _J, LATE_ANSWER),
)
