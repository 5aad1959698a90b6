"""Tables `[checkpoint]` and `[contract]` of a job file, and what is said of wrong ones (SPEC G5, G6)."""

from __future__ import annotations

import pytest

from diana.errors import UsageError
from diana.model.job.checkpoint import MOST_PATHS
from diana.model.job.spec import CheckpointSpec, ContractSpec
from tests.jobfile.builders import parse

COMMAND = '[group]\ncommand = "solve"\n'


def test_they_are_read_as_written_and_jobs_without_them_have_none() -> None:
    spec = parse(
        COMMAND
        + '[checkpoint]\npaths = "state-{index}"\nrestart = "solve --from state-{index}"\nwait = "2m"\n'
        + "[contract]\ntolerance = [0.5, 2]\nwindow = 7\nmove = false\n"
    ).spec
    assert spec.checkpoint == CheckpointSpec(
        paths=("state-{index}",), restart=("solve", "--from", "state-{index}"), wait_s=120.0
    )
    assert spec.contract == ContractSpec(tolerance=(0.5, 2.0), window=7, move=False)
    options = {"contract.tolerance": "0.5, 2", "contract.window": "7", "contract.move": "false"}
    assert parse(COMMAND, options=options).spec.contract == spec.contract
    plain = parse(COMMAND).spec
    assert plain.checkpoint is None and plain.contract is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[checkpoint]\npaths = []\n", "checkpoint.paths: want 1 to"),
        ('[checkpoint]\npaths = ["a", "a"]\n', "different files"),
        (f"[checkpoint]\npaths = {[str(n) for n in range(MOST_PATHS + 1)]}\n", "checkpoint.paths: want 1 to"),
        ('[checkpoint]\npaths = "../a"\n', "checkpoint.paths"),
        ('[checkpoint]\npaths = "/a"\n', "checkpoint.paths"),
        ('[checkpoint]\npaths = "{nobody}"\n', "nobody"),
        ('[checkpoint]\npaths = "a"\nwait = "0s"\n', "checkpoint.wait: '0s': want more than 0 s"),
        ('[checkpoint]\npaths = "a"\nwait = "9000d"\n', "checkpoint.wait"),
        ('[checkpoint]\npaths = "a"\nsignal = "KILL"\n', "checkpoint.signal"),
        ('[checkpoint]\npaths = "a"\nevery = "1s"\n', "checkpoint.every: '1s': want 2 s to 86400 s"),
        ('[checkpoint]\npaths = "a"\nevery = "2d"\n', "checkpoint.every"),
        ('[checkpoint]\npaths = "a"\nrestart = "\'a"\n', "checkpoint.restart"),
        ('[checkpoint]\npaths = "a"\n[[components]]\ncount = 2\n', "'a': each component saves"),
        ('[checkpoint]\npaths = "{component}"\n[[components]]\ncount = 65\n', "want at most 64"),
        ('[checkpoint]\npaths = "{component}"\n[gang]\nrunner = "mpi"\n[[components]]\ncount = 2\n', "gang.runner"),
        ("[contract]\ntolerance = [1.2, 1.3]\n", "contract.tolerance: [1.2, 1.3]: want one below 1 and one above"),
        ("[contract]\ntolerance = [0.5, nan]\n", "contract.tolerance"),
        ("[contract]\ntolerance = [0.5]\n", "contract.tolerance: want a list of a number, a number, got a list"),
        ('[contract]\ntolerance = [0.5, "x"]\n', "contract.tolerance[1]: want a number, got the text 'x'"),
        ("[contract]\ntolerance = [0.5, 2]\nwindow = 'x'\n", "contract.window: want a whole number, got the text 'x'"),
        ("[contract]\nwindow = 0\n", "contract.window"),
        ("[contract]\n[flexible]\ncpus = 9\n", "gangs report no progress yet"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key_and_the_mend(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(COMMAND + text)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_files_in_a_folder_of_the_sites_are_no_checkpoint() -> None:
    with pytest.raises(UsageError, match=r"checkpoint: group\.cwd: files there are not a job's own"):
        parse('[group]\ncommand = "solve"\ncwd = "/home/me"\n[checkpoint]\npaths = "a"\n')
