"""Scripts as job files: `#DIANA` lines and the `#SBATCH` subset."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from diana.errors import UsageError
from diana.jobfile import ParsedJob, parse_file
from diana.model.job.spec import Axis, GroupSpec, Resources
from tests.jobfile.builders import Blobs, parse

TWO = (("fpga", 1), ("tape", 1))


def noted(
    script: str | bytes, options: Mapping[str, str] | None = None, source: str = "run.sh", submitted_in: str = ""
) -> tuple[GroupSpec, list[str]]:
    """A script's spec, and what its author is told."""
    blobs, raw = Blobs(), script if isinstance(script, bytes) else script.encode()
    read = blobs.kept.__getitem__
    parsed = parse_file(raw, "script", source, options or {}, {}, blobs.put, read, submitted_in=submitted_in)
    (group,) = parsed.groups
    return group.spec, [note.removeprefix(f"{source}: ") for note in parsed.notes]


def test_diana_lines_set_keys_and_the_array_reaches_the_environment() -> None:
    script = (
        "#!/bin/sh\n#DIANA name=scan\n#DIANAS name=no\n#DIANA --array=1-10%3 --cpus 2\n# a comment\n\n"
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
    assert environment["SLURM_ARRAY_JOB_ID"] == "{group}"


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
    spec, notes = noted(script)
    assert notes == [
        "passed over, as it means nothing here: #SBATCH --partition (line 2), --account (line 2),"
        " --mail-type (line 3), --requeue (line 3), --qos (line 4)"
        "; diana submit --notify mail:NAME@HOST tells of its end",
    ]
    assert spec.resources.processors == 3
    assert dict(spec.environment) == {
        "SLURM_JOB_ID": "{group}.{index}",
        "SLURM_JOB_NAME": "run.sh",
        "SLURM_SUBMIT_DIR": ".",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NNODES": "1",
        "SLURM_NTASKS": "1",
        "SLURM_CPUS_PER_TASK": "3",
    }


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("--constraint=avx512", "--constraint"), ("-C avx512", "--constraint"), ("--exclusive", "--exclusive"),
        ("--exclusive=user", "--exclusive"), ("--reservation=course", "--reservation"), ("-w n[1-4]", "--nodelist"),
        ("-x n7", "--exclude"), ("--open-mode=append", "--open-mode"), ("--no-kill", "--no-kill"), ("-k", "--no-kill"),
        ("--hint=nomultithread", "--hint"), ("--nice", "--nice"), ("--nice=100", "--nice"), ("-s", "--oversubscribe"),
        ("--signal=B:USR1@60", "--signal"), ("-M other", "--clusters"), ("--deadline=now+1hour", "--deadline"),
        ("--gres=lscratch:50", "--gres=lscratch:50"), ("--constr=avx512", "--constraint"),
        ("--threads-per-core=1", "--threads-per-core"), ("--profile none", "--profile"), ("--time-min=5", "--time-min"),
        ("--gres=disk:10G", "--gres=disk:10G"), ("-W", "--wait"), ("-S 2", "--core-spec"), ("--comment=", "--comment"),
    ],
)  # fmt: skip
def test_options_of_a_cluster_that_change_no_result_are_passed_over(line: str, name: str) -> None:
    _, notes = noted(f"#!/bin/sh\n#SBATCH {line}\nrun\n")
    assert notes == [f"passed over, as it means nothing here: #SBATCH {name} (line 2)"]


@pytest.mark.parametrize(
    ("lines", "resources"),
    [
        ("--gres=gpu:2", Resources(gpus=2)), ("--gres=gpu", Resources(gpus=1)), ("--gres=none", Resources()),
        ("--gres=gpu:a100:2,lscratch:1", Resources(gpus=2)), ("--gres=gpu:a100", Resources(gpus=1)),
        ("--gpus=a100:1,v100:2", Resources(gpus=3)), ("--gpus-per-node=2", Resources(gpus=2)),
        ("-n 3 --gpus-per-task=2", Resources(processors=3, gpus=6)),
        ("--gres=gpu:2 --cpus-per-gpu=4 --mem-per-gpu=1G", Resources(processors=8, gpus=2, memory_bytes=2 << 30)),
        ("-N 1 --ntasks-per-node=4 -c 2", Resources(processors=8)),
        ("-n 2 --ntasks-per-node=4", Resources(processors=2)),
        ("-n 2 --gpus=1 --cpus-per-gpu=3", Resources(processors=4, gpus=1)),
        ("-n 2 -G 2", Resources(processors=2, gpus=2)),
        ("--gres=gpu:a100:1,gpu:v100:2", Resources(gpus=3)), ("--gres=gres/gpu:2", Resources(gpus=2)),
        ("--gres=fpga:2", Resources(others=(("fpga", 2),))), ("--gres=fpga,tape:1", Resources(others=TWO)),
        ("--gres=fpga:xilinx:1,gpu:1", Resources(gpus=1, others=(("fpga", 1),))), ("--gres=fpga:0", Resources()),
        ("-n 2 -c 3 --mem-per-cpu=100", Resources(processors=6, memory_bytes=600 << 20)),
        ("--tmp=2000", Resources(scratch_bytes=2000 << 20)),
        ("--gpus=2 --mem-per-gpu=100", Resources(gpus=2, memory_bytes=200 << 20)), ("--gpus=0", Resources()),
        ("--comment= -n 2", Resources(processors=2)), ("--export=NONE -n 2", Resources(processors=2)),
        ("--licenses=matlab=2", Resources(licences=(("matlab", 2),))),
        ("-N 1-4", Resources()), ("--tmp=10G", Resources(scratch_bytes=10 << 30)),
        ("--licenses=matlab:2,mdcs@flex", Resources(licences=(("matlab", 2), ("mdcs@flex", 1)))),
    ],
)  # fmt: skip
def test_options_that_say_what_a_job_needs_are_taken(lines: str, resources: Resources) -> None:
    assert noted(f"#!/bin/sh\n#SBATCH {lines}\nrun\n")[0].resources == resources


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("--hold", "--hold: its jobs would begin at once; remove it, and submit when they may"),
        ("-H", "--hold: its jobs would begin at once; remove it, and submit when they may"),
        ("-i in.txt", "--input: jobs have nothing on standard input; give the file with --input, and let the command"),
        ("--begin=16:00", "--begin: '16:00': its jobs would begin at once; remove it and submit them then, with at or"),
        ("-d afterok:4711", "--dependency: 'afterok:4711': its jobs would not wait for that; name groups as submit"),
        ("-d singleton", "--dependency: 'singleton': its jobs would not wait for that"),
        ("-d afterany:alpha-1", "--dependency: 'afterany:alpha-1': its jobs would not wait for that"),
        ("-d afterok:alpha-1,afterok:alpha-2", "afterok:alpha-2': its jobs would not wait for that"),
        ("--dependency=afterok:alpha-1?afterok:alpha-2", "its jobs would not wait for that"),
        ("--test-only", "--test-only: nothing would be run; say diana plan"),
        ("--time=10 --signal=USR1@60", "--signal: no job is told before its time limit; have it save when it gets"),
        ("--licenses=a|b", "one or another licence cannot be wanted; name the one"),
        ("--mem-per=1G", "--mem-per: not understood; did you mean --mem-per-"),
        ("-n 1234567890123456789", "--ntasks: '1234567890123456789': want a whole number of at least 1"),
        ("-o ../x.out", "--output: '../x.out': jobs have directories of their own; write a path below, such as x.out"),
        ("--cpu-per-task=4", "--cpu-per-task: not understood; did you mean --cpus-per-task?"),
    ],
)
def test_what_would_change_results_is_refused_by_its_line(lines: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)) as caught:
        noted(f"#!/bin/sh\n#SBATCH {lines}\nrun\n")
    assert str(caught.value).startswith("run.sh: line 2: #SBATCH --")


def test_a_dependency_on_groups_of_dianas_is_one() -> None:
    text = "#!/bin/sh\n#SBATCH --dependency=afterok:alpha-12:beta-3 --begin=now\nrun\n"
    assert parse(text, "script").after == ("alpha-12", "beta-3")


def test_a_script_finds_slurms_variables_as_its_lines_and_options_say_them() -> None:
    text = "#!/bin/sh\n#SBATCH -J fit{1} -n 2 -c 3 --mem=4G --gres=gpu:1\n: $SLURM_GPUS ${SLURM_NPROCS}\n"
    environment = dict(noted(text)[0].environment)
    assert environment["SLURM_JOB_NAME"] == "fit{{1}}"
    assert [environment[f"SLURM_{name}"] for name in ("NTASKS", "CPUS_PER_TASK", "NPROCS")] == ["2", "3", "2"]
    assert (environment["SLURM_MEM_PER_NODE"], environment["SLURM_GPUS"]) == ("4096", "1")
    assert "SLURM_TASKS_PER_NODE" not in environment, "launchers of MPI would take this for a Slurm"
    other = dict(noted(text, {"cpus": "4", "name": "x", "memory": "1G"})[0].environment)
    assert (other["SLURM_NTASKS"], other["SLURM_CPUS_PER_TASK"], other["SLURM_JOB_NAME"]) == ("2", "2", "x")
    assert other["SLURM_MEM_PER_NODE"] == "1024"
    tasks = dict(noted("#!/bin/sh\n#SBATCH -n 4 --mem-per-cpu=1G\nrun\n", {"cpus": "6"})[0].environment)
    assert (tasks["SLURM_NTASKS"], tasks["SLURM_CPUS_PER_TASK"], tasks["SLURM_MEM_PER_NODE"]) == ("6", "1", "4096")
    per_cpu = dict(noted("#!/bin/sh\n#SBATCH -n 4 --mem-per-cpu=1G\nrun\n")[0].environment)
    assert per_cpu["SLURM_MEM_PER_CPU"] == "1024" and "SLURM_MEM_PER_NODE" not in per_cpu
    assert dict(noted("#!/bin/sh\n: $SLURM_JOB_NAME\n", source="/a/b/c.sbatch")[0].environment)["SLURM_JOB_NAME"] == (
        "c.sbatch"
    )


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        ("#SBATCH -n 2 -c 3", {"cpus": "5"}, {"NTASKS": "1", "CPUS_PER_TASK": "5"}),
        ("#SBATCH -n 2 -c 3", {"mpi": "true"}, {"NTASKS": "6", "CPUS_PER_TASK": "1"}),
        ("#SBATCH -n 2", {"group.environment.SLURM_NTASKS": "9"}, {"NTASKS": "9", "CPUS_PER_TASK": "1"}),
        ("#SBATCH -J x", {"flexible": "6"}, {}),
        ("#SBATCH -J x", {"components": "3x2", "gang.spares": "2"}, {"HET_SIZE": "3"}),
    ],
)
def test_numbers_of_slurms_are_those_of_the_job_that_runs(
    lines: str, options: Mapping[str, str], said: dict[str, str]
) -> None:
    environment = dict(noted(f"#!/bin/sh\n{lines}\nrun\n", options)[0].environment)
    names = ("NTASKS", "CPUS_PER_TASK", "HET_SIZE")
    assert {name: environment[f"SLURM_{name}"] for name in names if f"SLURM_{name}" in environment} == said


def test_a_file_whose_name_cannot_be_shown_names_no_job() -> None:
    environment = dict(noted("#!/bin/sh\n: $SLURM_JOB_NAME\n", source="/a/b\n.sh")[0].environment)
    assert environment["SLURM_JOB_NAME"] == "script"


def test_variables_that_only_a_slurm_sets_are_told_by_line() -> None:
    text = (
        "#!/bin/sh\n#SBATCH -n 2\n# $SLURM_NODELIST in a comment\nexport SLURM_HINT=x; echo $SLURM_HINT\n"
        "unset SLURM_EXPORT_ENV\n"
        'mkdir -p "$SLURM_SUBMIT_DIR/out"\nsrun -w ${SLURM_JOB_NODELIST} ./a $SLURM_ARRAY_TASK_ID $SLURM_NTASKS\n'
        "python3 -c 'import os; os.environ[\"SLURM_TOPOLOGY_ADDR\"]'\n"
    )
    assert noted(text, submitted_in="/home/me/run")[1] == [
        "SLURM_SUBMIT_DIR (line 6) is each job's own directory here, not /home/me/run: name files that it reads there"
        " with --input, and those that it leaves with --collect",
        "set nowhere but in jobs of a real Slurm: SLURM_JOB_NODELIST (line 7), SLURM_ARRAY_TASK_ID (line 7),"
        " SLURM_TOPOLOGY_ADDR (line 8); write what is meant",
    ]
    _, notes = noted(text, {"array": "1-3", "group.environment.SLURM_JOB_NODELIST": "n1", "cwd": "/scratch"})
    assert notes == ["set nowhere but in jobs of a real Slurm: SLURM_TOPOLOGY_ADDR (line 8); write what is meant"]
    many = [f": $SLURM_X{n}\n" for n in range(100)]
    (note,) = noted(f"#!/bin/sh\n{''.join(many)}")[1]
    assert note.endswith("SLURM_X7 (line 9) and 92 more; write what is meant")
    (note,) = noted(f"#!/bin/sh\n{''.join(many[:8])}")[1]
    assert note.endswith("SLURM_X7 (line 9); write what is meant")
    (note,) = noted("#!/bin/sh\ncd $SLURM_SUBMIT_DIR\n", submitted_in="/a\nb")[1]
    assert note.startswith("SLURM_SUBMIT_DIR (line 2) is each job's own directory here: name files")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("hostname > $SLURMD_NODENAME", "SLURMD_NODENAME"),
        ("if (( SLURM_NODEADDR==0 )); then", "SLURM_NODEADDR"),
        ("run --partition=$SLURM_JOB_PARTITION=x", "SLURM_JOB_PARTITION"),
        ("echo $SLURM_GPUS", "SLURM_GPUS"),
        ("  # unlike $SLURM_JOB_QOS", ""),
        ("SLURM_JOB_QOS=x run", ""),
    ],
)
def test_a_line_reads_a_variable_unless_it_sets_it_or_says_nothing(line: str, name: str) -> None:
    _, notes = noted(f"#!/bin/sh\n{line}\n")
    told = f"set nowhere but in jobs of a real Slurm: {name} (line 2); write what is meant"
    assert notes == ([told] if name else [])


def test_a_script_that_a_job_file_names_has_the_variables_too_and_its_lines_are_told_unread() -> None:
    text = '[group]\nscript = "run.sh"\n[resources]\ncpus = 4'
    script = b"#!/bin/sh\r\n#SBATCH -n 4\r\ncd $SLURM_SUBMIT_DIR\r\necho $SLURM_CPUS_PER_TASK\r\n"
    parsed = parse(text, files={"run.sh": script})
    environment = dict(parsed.spec.environment)
    assert (environment["SLURM_SUBMIT_DIR"], environment["SLURM_CPUS_PER_TASK"]) == (".", "4")
    assert parsed.spec.script == script.decode().replace("\r", "")
    assert parsed.notes[0] == "run.sh: its lines end in CR LF, as on Windows: LF is written instead"
    assert parsed.notes[1].startswith("run.sh: its #SBATCH and #DIANA lines, such as line 2, are not read beside a job")
    assert "such as line 3," in parse(text, files={"run.sh": b"\n" + script}).notes[2]


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


def test_an_option_of_the_command_line_wins_by_whatever_name_the_lines_call_it() -> None:
    lines = "#DIANA group.name=old group.stdout=old.txt resources.cpus=2 processors=3 sweep.array=1-5"
    script = f"#!/bin/sh\n#SBATCH -J older -o %x.out -e %x.err\n{lines}\n"
    given = {"name": "new", "stdout": "new.txt", "cpus": "4", "array": "1-6"}
    for options in given, {"group.name": "new", "group.stdout": "new.txt", "resources.cpus": "4", "sweep.array": "1-6"}:
        parsed = parse(script, "script", options=options)
        assert (parsed.jobs, parsed.spec.name, parsed.spec.resources.processors) == (6, "new", 4)
        assert (parsed.spec.stdout, parsed.spec.stderr) == ("new.txt", "new.err")
    spec = parse("#!/bin/sh\n#SBATCH -o a\n#DIANA group.stdout=b\n", "script", options={"stdout": "c"}).spec
    assert (spec.stdout, spec.stderr) == ("c", "c")


def test_inputs_of_lines_and_of_the_command_line_stand_beside_each_other() -> None:
    script = "#!/bin/sh\n#DIANA --input dataset:a/x\n#DIANA input=dataset:b/y\ntrue\n"
    spec = parse(script, "script", options={"input": "dataset:c/z"}).spec
    assert [item.path for item in spec.inputs] == ["x", "y", "z"]
    spec = parse("#!/bin/sh\n#DIANA require=site.slots>1\ntrue\n", "script", options={"require": "site.speed > 1"}).spec
    assert len(spec.requirements) == 2


@pytest.mark.parametrize(
    ("array", "said"),
    [
        ("5,1-3", ["1", "5", "4"]),
        ("0-6:4", ["0", "4", "2"]),
        ("1-15000,20001", ["1", "20001", "15001"]),
    ],
)
def test_each_task_of_an_array_finds_its_number_however_long_the_array(array: str, said: list[str]) -> None:
    spec, notes = noted(f"#!/bin/sh\n#SBATCH -a {array}\necho $SLURM_ARRAY_TASK_ID\n")
    environment = dict(spec.environment)
    assert environment["DIANA_ARRAY_TASK_ID"] == environment["SLURM_ARRAY_TASK_ID"] == "{array}" and not notes
    assert [environment[f"SLURM_ARRAY_TASK_{name}"] for name in ("MIN", "MAX", "COUNT")] == said


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        ("-D /data -o out-%j.txt", {}),
        ("-o out-%j.txt -e /dev/null", {"cwd": "/data"}),
        ("--chdir=/elsewhere -o out-%j.txt", {"group.cwd": "/data"}),
    ],
)
def test_a_script_that_runs_in_a_folder_of_the_sites_has_what_it_prints_in_its_log(
    lines: str, options: dict[str, str]
) -> None:
    spec, notes = noted(f"#!/bin/sh\n#SBATCH {lines}\ntrue\n", options)
    assert (spec.cwd, spec.stdout, spec.stderr, spec.log_limit_bytes) == ("/data", "", "", 1 << 20)
    assert notes == [
        "jobs that begin in a folder of the sites' write their log, not out-%j.txt (line 2); see diana logs"
    ]


def test_words_named_array_are_no_numbers_of_tasks() -> None:
    assert parse('group.script = "#!/bin/sh\\n"\nsweep.array = ["a", "b"]').spec.environment == ()


def test_an_array_of_several_ranges_and_memory_per_processor() -> None:
    spec = parse("#!/bin/sh\n#SBATCH -a 1,5-6 --mem-per-cpu=1G -c 2\n", "script").spec
    assert spec.sweep.axes == (Axis(name="array", values=("1", "5", "6")),)
    assert spec.resources.memory_bytes == 2 << 30
    assert parse("#!/bin/sh\n#SBATCH -a 0100-1010\n", "script").spec.sweep.axes == (
        Axis(name="array", start=100, stop=1011),
    )


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("echo", 'job: line 1: a script begins with "#!" and its interpreter, such as "#!/bin/sh"; add that line'),
        (
            "#!/bin/sh\n#SBATCH --frobnicate\n",
            "job: line 2: #SBATCH --frobnicate: not understood; remove it or give a #DIANA line (understood: --array,"
            " --begin, --chdir, --cpus-per-gpu, --cpus-per-task, --dependency, --error, --export, --gpus,"
            " --gpus-per-node, --gpus-per-task, --gres, --job-name, --licenses, --mem, --mem-per-cpu, --mem-per-gpu,"
            " --nodes, --ntasks, --ntasks-per-node, --output, --signal, --time, --tmp)",
        ),
        (
            "#!/bin/sh\n\n#SBATCH -c\n",
            "job: line 3: #SBATCH --cpus-per-task: has no value; write --cpus-per-task=VALUE",
        ),
        ("#!/bin/sh\n#SBATCH -c x\n", "job: line 2: #SBATCH --cpus-per-task: 'x': want a whole number of at least 1"),
        (
            "#!/bin/sh\n#SBATCH -N 12\n",
            "job: line 2: #SBATCH --nodes: '12': a job runs on one machine; write 1 or remove it",
        ),
        (
            "#!/bin/sh\n#SBATCH -t soon\n",
            "job: line 2: #SBATCH --time: 'soon' is no time; write MINUTES, MM:SS, HH:MM:SS or DAYS-HH:MM:SS",
        ),
        (
            "#!/bin/sh\n#SBATCH -o %4j.out\n",
            "job: line 2: #SBATCH --output: '%4j.out': %4j is not understood; want %A, %a, %j or %x",
        ),
        (
            "#!/bin/sh\n#SBATCH -n 1\n#SBATCH -o out-%a.txt\n",
            "job: line 3: #SBATCH --output: 'out-%a.txt': %a is the number in an array, which this is not; add --array"
            " or write %j",
        ),
        (
            "#!/bin/sh\n#SBATCH -e /home/me/logs/%j.err\n",
            "job: line 2: #SBATCH --error: '/home/me/logs/%j.err': jobs have directories of their own; write a path"
            " below, such as %j.err",
        ),
        (
            "#!/bin/sh\n#SBATCH --export=HOME\n",
            "job: line 2: #SBATCH --export: 'HOME': the submitter's variables do not travel; write HOME=VALUE",
        ),
        ("#!/bin/sh\n#DIANA name\n", "job: line 2: 'name' has no value; write #DIANA key=value"),
        ("#!/bin/sh\n#DIANA name fit\n", "job: line 2: 'name' has no value; write #DIANA key=value"),
        (
            "#!/bin/sh\n#DIANA sweep.my-x=1-3\n",
            "job: sweep.my-x: no name; want letters, digits and underscores, a letter first",
        ),
        (
            "#!/bin/sh\n#DIANA group.environment.MY-V=1\n",
            "job: group.environment.MY-V: no variable's name; want letters, digits and underscores",
        ),
        ("#!/bin/sh\n\0\n", "job: group.script: holds a NUL character; remove it"),
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


@pytest.mark.parametrize(
    ("lines", "files"),
    [
        ("#SBATCH -o %x-%a.out -a 1-3\n#SBATCH -J fit", ("fit-{array}.out",) * 2),
        ("#SBATCH -o %x-%a.out -a 1-3", ("run.sh-{array}.out",) * 2),
        ("#SBATCH -a 1-3 -o log-%a.txt -e log-%a.txt", ("log-{array}.txt",) * 2),
        ("#SBATCH -o out-%j.txt", ("out-{group}.{index}.txt",) * 2),
        ("#SBATCH -e err-%j.txt", ("", "err-{group}.{index}.txt")),
        ("#SBATCH -o slurm.%N.%j.out", ("slurm.node.{group}.{index}.out",) * 2),
        ("#SBATCH -o %%x-{y}.out", ("%x-{{y}}.out",) * 2),
        ("#SBATCH -o %J-%n%t.out", ("{group}.{index}-00.out",) * 2),
        ("#SBATCH -o %x.out -J fit{1}", ("fit{{1}}.out",) * 2),
        ("#SBATCH -o=run..out", ("=run..out",) * 2),
        ("#DIANA sweep.array=1-3\n#SBATCH -o %a.out", ("{array}.out",) * 2),
        ("#SBATCH -o a.out -e /dev/null", ("a.out", "")),
        ("#SBATCH -o /dev/null -e err.txt", ("", "err.txt")),
    ],
)
def test_own_files_are_slurms(lines: str, files: tuple[str, str]) -> None:
    spec = noted(f"#!/bin/sh\n{lines}\nrun\n")[0]
    assert (spec.stdout, spec.stderr) == files


def test_a_kind_of_gpu_is_told_to_count_for_nothing() -> None:
    note = "a100 (line 2) is no kind of GPU that is told apart here: any is taken"
    assert noted("#!/bin/sh\n#SBATCH --gres=gpu:a100\nrun\n")[1] == [note]


def test_the_folder_of_a_job_is_the_one_that_its_lines_name() -> None:
    for options, folder in ({}, "/data/{a}"), ({"cwd": "/elsewhere"}, "/elsewhere"):
        spec, notes = noted("#!/bin/sh\n#SBATCH -D /data/{a}\ncd $SLURM_SUBMIT_DIR\n", options)
        assert (spec.cwd, notes) == (folder, [])
        # The values of variables are templates.
        assert dict(spec.environment)["SLURM_SUBMIT_DIR"] == folder.replace("{", "{{").replace("}", "}}")


def test_a_job_is_told_nothing_before_a_time_limit_wherever_that_is_written() -> None:
    text = "#!/bin/sh\n#SBATCH --signal=USR1@60\n"
    for lines, options in ("#DIANA time=1h", {}), ("", {"time": "10m"}), ("#SBATCH -t 5", {"resources.time": "10m"}):
        with pytest.raises(UsageError, match=r"run\.sh: line 2: #SBATCH --signal: no job is told before its time"):
            noted(f"{text}{lines}\nrun\n", options)
    for lines, options in ("#SBATCH -t 0", {}), ("#SBATCH -t 5", {"time": "0"}), ("#DIANA time=5m", {"time": "0s"}):
        assert "--signal (line 2)" in noted(f"{text}{lines}\nrun\n", options)[1][0]
    with pytest.raises(UsageError, match=r"resources\.time: 'soon' is no duration"):
        noted(text, {"time": "soon"})


def test_what_goes_to_dev_null_is_kept_nowhere_unless_it_is_wanted() -> None:
    text = "#!/bin/sh\n#SBATCH --output=/dev/null\nrun\n"
    spec, notes = noted(text)
    assert (spec.stdout, spec.stderr, spec.log_limit_bytes, spec.outputs.collect) == ("", "", 0, ())
    assert notes == ["what goes to /dev/null (line 2) is not kept; --log-limit 1M keeps it for diana logs"]
    spec, notes = noted(text, {"log_limit": "2M"})
    assert (spec.log_limit_bytes, notes) == (2 << 20, [])
    assert noted("#!/bin/sh\n#DIANA group.log_limit=2M\n#SBATCH -o /dev/null\n")[1] == []


def test_an_option_that_names_the_output_file_has_errors_beside_it() -> None:
    spec = noted("#!/bin/sh\n#SBATCH -o a.txt\nrun\n", {"stdout": "b.txt"})[0]
    assert (spec.stdout, spec.stderr) == ("b.txt", "b.txt")


@pytest.mark.parametrize(
    ("word", "limit_s"),
    [("UNLIMITED", 0), ("infinite", 0), ("-1", 0), ("0", 0), ("90", 5400), ("90:00", 5400), ("48:00:00", 172_800),
     ("1-23:59:59", 172_799), ("2-0", 172_800), ("1-02:30", 95_400)],
)  # fmt: skip
def test_times_are_slurms(word: str, limit_s: float) -> None:
    assert noted(f"#!/bin/sh\n#SBATCH --time={word}\nrun\n")[0].resources.time_limit_s == limit_s


def test_a_time_of_no_end_of_digits_is_none() -> None:
    with pytest.raises(UsageError, match=r"line 2: #SBATCH --time: '9*' is no time; write MINUTES"):
        noted(f"#!/bin/sh\n#SBATCH --time={'9' * 41}\nrun\n")


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("1:60:00", "'1:60:00' has 60 minutes; write at most 59, and the rest in the part before"),
        ("00:99", "'00:99' has 99 seconds; write at most 59, and the rest in the part before"),
        ("1-24:00:00", "'1-24:00:00' has 24 hours; write at most 23, and the rest in the part before"),
        ("1-00:00:60", "'1-00:00:60' has 60 seconds; write at most 59, and the rest in the part before"),
    ],
)
def test_a_time_that_no_clock_shows_is_refused(word: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        noted(f"#!/bin/sh\n#SBATCH --time={word}\nrun\n")
    assert str(caught.value) == f"run.sh: line 2: #SBATCH --time: {told}"
    with pytest.raises(UsageError, match=r"job: resources\.time: "):
        parse(f"[group]\ncommand = 'true'\n[resources]\ntime = '{word}'\n")


@pytest.mark.parametrize(
    ("raw", "notes"),
    [
        (b"#!/bin/sh\r\n#SBATCH -c 3\r\necho hi\r\n", ["its lines end in CR LF, as on Windows: LF is written instead"]),
        (b"\xef\xbb\xbf#!/bin/sh\n#SBATCH -c 3\necho hi\n", []),
        (b"\n  \n#!/bin/sh\n#SBATCH -c 3\necho hi\n", ["lines 1 to 2 are blank and left out: #! comes first"]),
        (
            b"\xef\xbb\xbf\r\n#!/bin/sh\r\n#SBATCH -c 3\r\necho hi\r\n",
            [
                "line 1 is blank and left out: #! comes first",
                "its lines end in CR LF, as on Windows: LF is written instead",
            ],
        ),
        (
            b"#!/bin/sh\r#SBATCH -c 3\recho hi\r",
            ["its lines end in CR: LF is written instead, which is the end of a line here"],
        ),
    ],
)
def test_a_script_runs_as_whatever_editor_left_it(raw: bytes, notes: list[str]) -> None:
    spec, told = noted(raw)
    assert (spec.script, spec.resources.processors) == ("#!/bin/sh\n#SBATCH -c 3\necho hi\n", 3)
    assert told == notes


def test_line_ends_below_a_plain_first_line_are_the_authors() -> None:
    text = "\n#!/bin/sh\ncat <<END\nGET / HTTP/1.1\r\n\r\nEND\n"
    spec, notes = noted(text)
    assert spec.script == text[1:]
    assert notes[1:] == ["line 4 ends in CR LF, as on Windows, and stays so: a shell takes the CR for a part of it"]


def test_lines_are_numbered_as_they_were_written() -> None:
    with pytest.raises(UsageError, match=r"run\.sh: line 5: #SBATCH --cpus-per-task: 'x'"):
        noted("\n\n#!/bin/sh\n\n#SBATCH -c x\n")
    assert "SLURM_NODELIST (line 3)" in noted("\n#!/bin/sh\necho $SLURM_NODELIST\n")[1][1]


def test_a_program_of_ones_own_that_no_machine_can_run_is_told_at_submission() -> None:
    def submitted(command: str, content: bytes) -> ParsedJob:
        return parse(f'inputs = ["bin/go.sh"]\n[group]\ncommand = "{command}"\n', files={"bin/go.sh": content})

    windows, marked = b"#!/bin/sh\r\nls\r\n", b"\xef\xbb\xbf#!/bin/sh\nls\n"
    for content, told in ((windows, "its first line ends in CR LF"), (marked, "begins with a byte order mark")):
        with pytest.raises(UsageError, match=f"job: bin/go.sh: line 1: {told}"):
            submitted("./go.sh", content)
        assert submitted("bash go.sh", content).notes[0].startswith(f"bin/go.sh: line 1: {told}")
        assert not submitted("python3 go.sh", content).notes
    assert not submitted("./go.sh", b"#!/bin/sh\nls\r\n").notes
    assert not submitted("./go.sh", b"\x7fELF\r\n").notes, "a program of another kind"
    assert not submitted("bash other.sh go.sh", windows).notes
    assert not submitted("bash go.sh", windows + b"#" * (1 << 20)).notes, "large files are not read for this"
    text = 'inputs = [{url = "bin/go.sh", path = "own/run.sh"}]\n[group]\ncommand = "./own/run.sh"\n'
    with pytest.raises(UsageError, match=r"job: bin/go\.sh: line 1: its first line ends in CR LF"):
        parse(text, files={"bin/go.sh": windows})
    assert submitted("bash go.sh", b"\xef\xbb\xbfls\n").notes[0].startswith("bin/go.sh: line 1: begins with a byte")


def test_a_script_is_bounded_in_bytes_wherever_it_comes_from() -> None:
    script = f"#!/bin/sh\n# {'é' * (1 << 19)}"
    with pytest.raises(UsageError, match="job: a script of more than 1 MiB; put its data into files named by inputs"):
        parse(script, "script")
    with pytest.raises(UsageError, match=r"job: run\.sh: a script of more than 1 MiB"):
        parse("group.script = 'run.sh'", files={"run.sh": script.encode()})


def test_an_option_may_name_another_script() -> None:
    other = "#!/bin/sh\necho other\n"
    given = {"group.script": "other.sh"}
    assert parse("#!/bin/sh\n", "script", options=given).needs_files == ("other.sh",)
    assert parse("#!/bin/sh\n", "script", options=given, files={"other.sh": other.encode()}).spec.script == other


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
    assert not any(one.memory_bytes for one in spec.components), "it is the same for all"
    assert environment["SLURM_HET_SIZE"] == "3" and not {"SLURM_NTASKS", "SLURM_CPUS_PER_TASK"} & environment.keys()
    assert parse(HETJOB, "script", options={"components": "2x8"}).spec.components[0].count == 2
    spec = parse(HETJOB.replace("--mem=2G", "--mem=3G"), "script").spec
    assert [one.memory_bytes >> 30 for one in spec.components] == [3, 2, 2] and not spec.resources.memory_bytes
    more = HETJOB.replace("--gpus=1", "--gpus=1 --partition=gpu")
    spec, notes = noted(more)
    assert len(spec.components) == 3
    assert notes == ["passed over, as it means nothing here: #SBATCH --partition (line 4)"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("#SBATCH --time=5", "line 4: #SBATCH --time: is of the whole job; move it above the first #SBATCH hetjob"),
        ("#SBATCH hetjob -n 2", "line 4: #SBATCH hetjob: stands on a line of its own; write -n on the next one"),
        ("#SBATCH --nodes=2", "line 4: #SBATCH --nodes: '2': a job runs on one machine; write 1 or remove it"),
    ],
)
def test_a_hetjob_that_cannot_be_is_told_by_its_line(line: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(f"#!/bin/sh\n#SBATCH -n 2\n#SBATCH hetjob\n{line}\nrun\n", "script")
    assert told in str(caught.value)
