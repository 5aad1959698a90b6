"""Scripts as job files: `#DIANA` lines and the `#SBATCH` subset."""

from __future__ import annotations

import pytest

from diana.errors import UsageError
from diana.jobfile import parse_file
from diana.model.job.spec import Axis, Resources
from tests.jobfile.builders import Blobs, parse


def test_diana_lines_set_keys_and_the_array_reaches_the_environment() -> None:
    script = (
        "#!/bin/sh\n#DIANA name=scan\n#DIANA --array=1-10%3 --cpus 2\n# a comment\n\n"
        "#DIANA group.environment.MODE=fast\n"
        "echo $DIANA_ARRAY_TASK_ID {}\n#DIANA name=late\n"
    )
    parsed = parse(script, "script", source="run.sh")
    spec = parsed.spec
    assert parsed.jobs == 10
    assert (spec.name, spec.script, spec.argv, spec.max_parallel) == ("scan", script, (), 3)
    assert spec.sweep.axes == (Axis(name="array", start=1, stop=11),)
    assert spec.resources.processors == 2
    environment = dict(spec.environment)
    assert environment["DIANA_ARRAY_TASK_ID"] == environment["SLURM_ARRAY_TASK_ID"] == "{array}"
    assert (environment["SLURM_ARRAY_TASK_MIN"], environment["SLURM_ARRAY_TASK_MAX"]) == ("1", "10")
    assert (environment["SLURM_ARRAY_TASK_COUNT"], environment["MODE"]) == ("10", "fast")


def test_the_sbatch_subset_means_what_slurm_means_by_it() -> None:
    script = (
        "#!/bin/bash\n#SBATCH --job-name=fit -n 2 -c4\n#SBATCH --mem=4000   # per node\n#SBATCH -t 1-02:30:00\n"
        "#SBATCH --gpus=1 --array 0-6:2\n#SBATCH --export=ALL,MODE={x}\n#SBATCH -o logs/%A_%a.out -e %x-%a.err\nrun\n"
    )
    spec = parse(script, "script").spec
    assert spec.name == "fit"
    assert spec.resources == Resources(processors=8, memory_bytes=4000 << 20, time_limit_s=95_400.0, gpus=1)
    assert spec.sweep.axes == (Axis(name="array", start=0, stop=7, step=2),)
    assert (spec.stdout, spec.stderr) == ("logs/{group}_{array}.out", "fit-{array}.err")
    assert spec.outputs.collect == (), "a collected file would stay behind where the job failed"
    assert dict(spec.environment)["MODE"] == "{{x}}"


def test_sbatch_lines_that_mean_nothing_here_are_passed_over_and_said() -> None:
    script = (
        "#!/bin/sh\n#SBATCH -p long --account=phys\n#SBATCH --mail-type=END --requeue\n#SBATCH --qos high -c 3\nrun\n"
    )
    blobs = Blobs()
    parsed = parse_file(script.encode(), "script", "run.sh", {}, {}, blobs.put, blobs.kept.__getitem__)
    assert parsed.notes == (
        "run.sh: passed over, as it means nothing here: #SBATCH --partition (line 2), --account (line 2),"
        " --mail-type (line 3), --requeue (line 3), --qos (line 4)",
    )
    (group,) = parsed.groups
    assert group.spec.resources.processors == 3
    assert dict(group.spec.environment) == {
        "SLURM_JOB_ID": "{group}.{index}",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NNODES": "1",
        "SLURM_NTASKS": "1",
        "SLURM_CPUS_PER_TASK": "3",
    }


def test_a_script_without_sbatch_lines_has_no_variables_of_slurms() -> None:
    assert parse("#!/bin/sh\n#DIANA name=x\ntrue\n", "script").spec.environment == ()


@pytest.mark.parametrize("text", ["60", "60s", "1m", "00:01:00", "60.0", " 60 "])
def test_a_duration_is_the_same_however_it_is_written(text: str) -> None:
    parsed = parse("[group]\ncommand = 'true'\n", options={"resources.work": text, "time": text})
    assert (parsed.spec.resources.time_limit_s, parsed.spec.resources.work_s) == (60.0, 60.0)


def test_inputs_of_the_command_line_stand_beside_those_of_the_file() -> None:
    text = "[group]\ncommand = 'true'\n[[inputs]]\nurl = 'dataset:a/x'\n"
    parsed = parse(text, options={"input": "dataset:b/y\n/tmp/z"})
    assert parsed.needs_files == ("/tmp/z",)
    done = parse(text, options={"input": "dataset:b/y\n/tmp/z"}, files={"/tmp/z": b"z"})
    assert [item.path for item in done.spec.inputs] == ["x", "y", "z"]


def test_lines_override_sbatch_and_the_command_line_overrides_both() -> None:
    script = "#!/bin/sh\n#SBATCH --array=1-5 -c 2\n#DIANA array=1-6 cpus=3\ntrue\n"
    assert parse(script, "script").jobs == 6
    spec = parse(script, "script", options={"cpus": "4"}).spec
    assert spec.resources.processors == 4


def test_an_array_of_several_ranges_and_memory_per_processor() -> None:
    spec = parse("#!/bin/sh\n#SBATCH -a 1,5-6 --mem-per-cpu=1G -c 2\n", "script").spec
    assert spec.sweep.axes == (Axis(name="array", values=("1", "5", "6")),)
    assert spec.resources.memory_bytes == 2 << 30


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("echo", 'job: line 1: a script begins with "#!" and its interpreter, such as "#!/bin/sh"; add that line'),
        (
            "#!/bin/sh\n#SBATCH --exclusive\n",
            "job: line 2: #SBATCH --exclusive: not understood; remove it or give a #DIANA line (understood: --array,"
            " --chdir, --cpus-per-task, --error, --export, --gpus, --job-name, --mem, --mem-per-cpu, --nodes, --ntasks,"
            " --output, --time)",
        ),
        (
            "#!/bin/sh\n\n#SBATCH -c\n",
            "job: line 3: #SBATCH --cpus-per-task: has no value; write --cpus-per-task=VALUE",
        ),
        ("#!/bin/sh\n#SBATCH -c x\n", "job: line 2: #SBATCH --cpus-per-task: 'x': want a whole number of at least 1"),
        (
            "#!/bin/sh\n#SBATCH -N 2\n",
            "job: line 2: #SBATCH --nodes: '2': a job runs on one machine; write 1 or remove it",
        ),
        (
            "#!/bin/sh\n#SBATCH -t soon\n",
            "job: line 2: #SBATCH --time: 'soon' is no time; write MINUTES, MM:SS, HH:MM:SS or DAYS-HH:MM:SS",
        ),
        (
            "#!/bin/sh\n#SBATCH -o %N.out\n",
            "job: line 2: #SBATCH --output: '%N.out': %N is not understood; want %A, %a, %j or %x",
        ),
        (
            "#!/bin/sh\n#SBATCH --export=HOME\n",
            "job: line 2: #SBATCH --export: 'HOME': the submitter's variables do not travel; write HOME=VALUE",
        ),
        ("#!/bin/sh\n#DIANA name\n", "job: line 2: 'name' has no value; write #DIANA key=value"),
        ("#!/bin/sh\n#DIANA 'name\n", "job: line 2: No closing quotation"),
        ("#!/bin/sh\n#DIANA nme=x\n", "option nme: unknown; did you mean 'name'?"),
        (
            "#!/bin/sh\n#SBATCH --job-name=my fit\n",
            "job: line 2: #SBATCH: 'fit' belongs to no option; put quotes around a value of several words",
        ),
    ],
)
def test_a_mistake_in_a_script_names_its_line(script: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(script, "script")
    assert str(caught.value) == line


def test_a_job_file_may_name_a_local_script() -> None:
    text = '[group]\nscript = "run.sh"\narguments = ["{array}"]\n[sweep]\narray = "1-3"'
    assert parse(text).needs_files == ("run.sh",)
    spec = parse(text, files={"run.sh": b"#!/bin/sh\necho {} $1\n"}).spec
    assert spec.script == "#!/bin/sh\necho {} $1\n"
    assert dict(spec.environment)["SLURM_ARRAY_TASK_ID"] == "{array}"
    with pytest.raises(UsageError, match=r"job: run.sh: line 1: a script begins with"):
        parse(text, files={"run.sh": b"echo"})


HETJOB = (
    "#!/bin/sh\n#SBATCH --job-name=pair --time=10 --ntasks=4 --mem=2G\n#SBATCH hetjob\n"
    "#SBATCH --cpus-per-task=2 --gpus=1 --mem=2048\n#SBATCH packjob\n#SBATCH --mem-per-cpu=2G\nrun\n"
)


def test_lines_between_two_hetjobs_make_components_of_different_widths() -> None:
    spec = parse(HETJOB, "script").spec
    assert [(one.processors, one.gpus) for one in spec.components] == [(4, 0), (2, 1), (1, 0)]
    assert spec.name == "pair" and spec.resources == Resources(memory_bytes=2 << 30, time_limit_s=600.0)
    environment = dict(spec.environment)
    assert environment["SLURM_HET_SIZE"] == "3" and not {"SLURM_NTASKS", "SLURM_CPUS_PER_TASK"} & environment.keys()
    assert parse(HETJOB, "script", options={"components": "2x8"}).spec.components[0].count == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("#SBATCH --time=5", "line 4: #SBATCH --time: is of the whole job; move it above the first #SBATCH hetjob"),
        ("#SBATCH hetjob -n 2", "line 4: #SBATCH hetjob: stands on a line of its own; write -n on the next one"),
        (
            "#SBATCH --mem=3G",
            "#SBATCH --mem: 0 MiB, 3072 MiB: components have one limit here; give all the same",
        ),
        ("#SBATCH --nodes=2", "line 4: #SBATCH --nodes: '2': a job runs on one machine; write 1 or remove it"),
    ],
)
def test_a_hetjob_that_cannot_be_is_told_by_its_line(line: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(f"#!/bin/sh\n#SBATCH -n 2\n#SBATCH hetjob\n{line}\nrun\n", "script")
    assert told in str(caught.value)
