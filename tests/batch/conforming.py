"""Promises to the engine that a cluster keeps as every LocalResourceManager does; imported by the suites of each kind.
Left out is what concerns slots, which on a cluster are the batch system's, and the death of a spawner."""

from __future__ import annotations

from pathlib import Path

import msgspec

from diana.model.facts import Outcome
from diana.model.job.spec import GroupSpec, Outputs, Resources
from tests.contract.lrm.test_lrm_barrier import (
    test_jobs_hold_their_slots_and_begin_when_they_are_let_go,
)
from tests.contract.lrm.test_lrm_conformance import (
    test_a_component_that_stops_with_others_before_it_is_asked_is_at_a_checkpoint,
    test_a_restarted_node_finds_its_jobs_running,
    test_a_run_ordered_twice_is_started_once,
    test_a_run_reports_how_far_it_is,
    test_a_run_that_does_not_heed_the_signal_runs_on_and_its_exit_code_is_its_own,
    test_a_run_that_saves_as_it_is_asked_ends_at_a_checkpoint_and_others_run_on,
    test_a_run_under_a_time_limit_is_asked_and_its_limit_stands,
    test_a_time_limit_ends_a_job,
    test_all_jobs_run_and_each_end_is_told_once_when_it_is_forgotten_at_once,
    test_an_end_is_told_again_after_a_restart_until_it_is_forgotten,
    test_cancelled_jobs_say_so_whether_they_ran_or_waited,
    test_the_exit_code_is_told,
    test_what_ended_without_a_node_is_told_to_the_next_one,
)
from tests.contract.lrm.test_lrm_processes import (
    test_a_checkpoint_is_whole_or_none,
    test_a_run_within_a_shell_is_asked_to_save,
    test_a_script_for_slurm_goes_to_its_own_directory_and_its_two_outputs_are_one_file,
    test_a_script_for_slurm_without_a_directory_of_its_own_goes_to_where_it_began,
    test_jobs_that_are_let_go_find_what_they_are_told,
    test_the_log_of_a_run_is_shown_while_it_runs,
)
from tests.contract.lrm_builders import Site, Told, shell

__all__ = [
    "test_a_checkpoint_is_whole_or_none",
    "test_a_command_called_like_one_of_the_shells_own_is_no_command",
    "test_a_component_that_stops_with_others_before_it_is_asked_is_at_a_checkpoint",
    "test_a_job_wider_than_any_machine_is_refused",
    "test_a_restarted_node_finds_its_jobs_running",
    "test_a_run_ordered_twice_is_started_once",
    "test_a_run_reports_how_far_it_is",
    "test_a_run_that_does_not_heed_the_signal_runs_on_and_its_exit_code_is_its_own",
    "test_a_run_that_saves_as_it_is_asked_ends_at_a_checkpoint_and_others_run_on",
    "test_a_run_under_a_time_limit_is_asked_and_its_limit_stands",
    "test_a_run_within_a_shell_is_asked_to_save",
    "test_a_script_for_slurm_goes_to_its_own_directory_and_its_two_outputs_are_one_file",
    "test_a_script_for_slurm_without_a_directory_of_its_own_goes_to_where_it_began",
    "test_a_time_limit_ends_a_job",
    "test_all_jobs_run_and_each_end_is_told_once_when_it_is_forgotten_at_once",
    "test_an_end_is_told_again_after_a_restart_until_it_is_forgotten",
    "test_arguments_environment_and_output_reach_and_leave_the_job_as_they_are",
    "test_cancelled_jobs_say_so_whether_they_ran_or_waited",
    "test_jobs_hold_their_slots_and_begin_when_they_are_let_go",
    "test_jobs_that_are_let_go_find_what_they_are_told",
    "test_no_more_than_its_slots_run_at_once_however_many_it_was_given",
    "test_outputs_are_collected_and_a_missing_one_fails_the_job",
    "test_the_directory_of_a_job_that_lacks_an_output_stays_and_is_named",
    "test_the_exit_code_is_told",
    "test_the_log_of_a_run_is_shown_while_it_runs",
    "test_what_a_job_wrote_within_the_grace_at_its_time_limit_is_kept",
    "test_what_ended_without_a_node_is_told_to_the_next_one",
    "test_what_has_not_begun_is_given_back_and_never_runs_and_what_has_runs_on",
    "test_what_patterns_find_and_jobs_that_failed_left_is_kept",
    "test_what_was_given_back_is_told_so_until_it_is_forgotten_and_may_be_given_again",
]


async def test_a_job_wider_than_any_machine_is_refused(site: Site) -> None:
    at = await site(slots=2)
    at.start(shell("true", resources=Resources(processors=9)), 0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.NOT_STARTED
    assert end.error.endswith("of the 9 processors a job needs") and " cluster cluster has " in end.error


async def test_arguments_environment_and_output_reach_and_leave_the_job_as_they_are(site: Site) -> None:
    at = await site()
    hard = """it's "hard" $HOME `id` \\ {{x}} * é\n#$ -h\n#SBATCH -H"""
    argv = ("/bin/sh", "-c", 'printf "%s|%s|%s" "$1" "$2" "$WORD"', "sh", hard, "n={n}")
    environment = (("DIANA_INDEX", "forged"), ("WORD", "a'b {n}"))
    at.start(GroupSpec(argv=argv, environment=environment, sweep=shell("").sweep), 3, 7)
    ends = {end.run.index: end for end in await at.ended(2)}
    told = hard.replace("{{", "{").replace("}}", "}")
    assert {i: at.log(end) for i, end in ends.items()} == {i: f"{told}|n={i}|a'b {i}" for i in (3, 7)}


async def test_a_command_called_like_one_of_the_shells_own_is_no_command(site: Site) -> None:
    at = await site()
    at.start(GroupSpec(argv=("exit", "0")), 0)
    (end,) = await at.ended(1)
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 127)


async def test_outputs_are_collected_and_a_missing_one_fails_the_job(site: Site) -> None:
    at = await site()
    write = "[ $DIANA_INDEX = 1 ] || echo $DIANA_INDEX > out.txt; echo > whole"
    at.start(shell(write, outputs=Outputs(collect=("out.txt", "whole"))), 0, 1)
    await at.ended(2)
    ends = at.by_index()
    assert (ends[0].outcome, ends[1].outcome) == (Outcome.DONE, Outcome.STAGING_FAILED)
    assert "output out.txt is missing" in ends[1].error
    assert at.saved() == {0: ["0/out.txt", "0/whole"], 1: ["1/whole"]}


async def test_what_patterns_find_and_jobs_that_failed_left_is_kept(site: Site) -> None:
    at = await site()
    write = "mkdir -p out/deep; echo $DIANA_INDEX > out/deep/x; echo > a.csv; [ $DIANA_INDEX = 1 ] || echo > b; "
    outputs = Outputs(collect=("b", "*.csv", "out/"), kept=True)
    at.start(shell(f"{write} exit $DIANA_INDEX", outputs=outputs), 0, 1)
    await at.ended(2)
    ends = at.by_index()
    assert (ends[0].outcome, ends[1].outcome) == (Outcome.DONE, Outcome.FAILED)
    assert at.saved() == {0: ["0/b", "0/a.csv", "0/out/deep/x"], 1: ["1/a.csv", "1/out/deep/x"]}


async def test_what_a_job_wrote_within_the_grace_at_its_time_limit_is_kept(site: Site) -> None:
    at = await site()
    script = 'trap "echo saved > c; exit 0" TERM; while :; do sleep .1; done'
    outputs = Outputs(collect=("c", "d"), kept=True)
    at.start(shell(script, outputs=outputs, resources=Resources(time_limit_s=1.0)), 0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.TIMED_OUT
    assert at.saved() == {0: ["0/c"]}


async def test_the_directory_of_a_job_that_lacks_an_output_stays_and_is_named(site: Site) -> None:
    at = await site()
    at.start(shell("echo 42 > results.txt", outputs=Outputs(collect=("result.txt",), kept=True)), 0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.STAGING_FAILED
    assert "there lay results.txt; its directory stays for 1d00h: " in end.error
    assert (Path(end.error.rpartition(": ")[2]) / "results.txt").read_text() == "42\n"


_BLURRED_S = 0.02
"""File systems tell times to the tick."""


def _together(ends: list[Told]) -> int:
    """The most that ran at one moment."""
    return max(sum(o.started_s <= end.started_s < o.ended_s - _BLURRED_S for o in ends) for end in ends)


async def test_no_more_than_its_slots_run_at_once_however_many_it_was_given(site: Site) -> None:
    """Though the cluster is idle: not at first, and not later, when orders come as others end."""
    at = await site(slots=2)
    at.start(shell("sleep 0.3"), *range(5))
    await at.ended(3)
    at.start(shell("sleep 0.3"), *range(5, 9))
    ends = await at.ended(9, 60.0)
    assert {end.outcome for end in ends} == {Outcome.DONE}
    assert _together(ends) == 2


async def test_what_has_not_begun_is_given_back_and_never_runs_and_what_has_runs_on(site: Site, tmp_path: Path) -> None:
    at = await site(slots=1)
    ran = tmp_path / "ran"
    at.start(shell(f"echo $DIANA_INDEX >> {ran}; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done"), 0, 1, 2, 3)
    # The file is there before its content.
    await at.until(lambda: ran.exists() and ran.read_text().endswith("\n"), 60.0)
    (first,) = ran.read_text().split()
    at.recall(0, 1, 2, 3)
    ends = await at.ended(3, 60.0)
    assert {end.outcome for end in ends} == {Outcome.UNBEGUN}
    assert {end.run.index for end in ends} == {0, 1, 2, 3} - {int(first)}
    (tmp_path / "go").touch()
    assert {end.run.index: end.outcome for end in await at.ended(4, 60.0)}[int(first)] is Outcome.DONE
    assert ran.read_text().split() == [first]


async def test_what_was_given_back_is_told_so_until_it_is_forgotten_and_may_be_given_again(site: Site) -> None:
    at = await site(slots=1)
    at.start(shell("sleep 1"), 0, 1)
    at.recall(1)
    await at.ended(1, 60.0)
    before = len(at.ends())
    await at.restart_node()
    await at.until(lambda: any(end.outcome is Outcome.UNBEGUN for end in at.ends()[before:]))
    (back,) = {end.run for end in at.ends() if end.outcome is Outcome.UNBEGUN}
    assert back in at.ready().known
    at.forget(*at.ends())
    at.start(shell("true"), back.index, attempt=2)
    ends = {end.run: end.outcome for end in await at.ended(3, 60.0)}
    assert ends[msgspec.structs.replace(back, attempt=2)] is Outcome.DONE
