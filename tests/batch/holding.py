"""Promises about jobs at the barrier that a cluster keeps as every LocalResourceManager does. All kinds have one
script, so that the suites of a plug-in and of real batch systems import them, and those of stand-ins the first alone
(`conforming.py`)."""

from __future__ import annotations

from tests.contract.lrm.test_lrm_barrier import (
    test_a_job_that_nobody_lets_go_leaves_the_barrier_by_itself_and_is_never_begun,
    test_held_jobs_are_killed_and_given_back_unbegun,
    test_it_leaves_while_the_node_is_away,
    test_what_stands_at_the_barrier_is_told_again_to_a_node_that_is_back,
)
from tests.contract.lrm.test_lrm_processes import (
    test_a_command_that_is_not_there_is_found_out_before_others_rely_on_it,
)

__all__ = [
    "test_a_command_that_is_not_there_is_found_out_before_others_rely_on_it",
    "test_a_job_that_nobody_lets_go_leaves_the_barrier_by_itself_and_is_never_begun",
    "test_held_jobs_are_killed_and_given_back_unbegun",
    "test_it_leaves_while_the_node_is_away",
    "test_what_stands_at_the_barrier_is_told_again_to_a_node_that_is_back",
]
