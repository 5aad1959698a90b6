"""`[package]`: builds by platform, from a file; what is said of wrong ones."""

from __future__ import annotations

import hashlib

import pytest

from diana.errors import UsageError
from tests.jobfile.builders import parse

JOB = (
    '[group]\ncommand = "./wave {n}"\n[sweep]\nn = [1, 2]\n[package.builds]\nx86_64 = "bin/x86"\naarch64 = "bin/arm"\n'
)
FILES = {"bin/x86": b"X", "bin/arm": b"A"}


def test_builds_are_uploaded_and_lie_beside_each_other_in_each_jobs_directory() -> None:
    assert parse(JOB).needs_files == ("bin/x86", "bin/arm")
    parsed = parse(JOB, files=FILES)
    spec = parsed.spec
    assert (spec.builds, spec.program) == (("aarch64", "x86_64"), "wave")
    assert [(file.path, file.source, file.executable, file.size_bytes) for file in spec.inputs] == [
        ("builds/aarch64/wave", f"blob:{hashlib.sha256(b'A').hexdigest()}", True, 1),
        ("builds/x86_64/wave", f"blob:{hashlib.sha256(b'X').hexdigest()}", True, 1),
    ]
    assert len(parsed.refs) == 2 and spec.needs_directory()


def test_the_program_may_have_a_name_that_the_command_does_not_begin_with() -> None:
    job = JOB.replace("./wave {n}", "/usr/bin/env ./wave {n}")
    with pytest.raises(UsageError, match=r"group.command: '/usr/bin/env': want the plain name of the build"):
        parse(job, files=FILES)
    named = job.replace("[package.builds]", '[package]\nprogram = "wave"\n[package.builds]')
    assert parse(named, files=FILES).spec.program == "wave"


@pytest.mark.parametrize(
    ("package", "why"),
    [
        ('[package]\nprogram = "x"', "package.program: there are no builds; name them in package.builds"),
        (
            '[package]\nprogram = "../x"\nbuilds = { x86_64 = "bin/x86" }',
            "package.program: '../x': want the plain name",
        ),
        (
            '[package]\nprogram = "x; rm"\nbuilds = { x86_64 = "bin/x86" }',
            "package.program: 'x; rm': want the plain name",
        ),
        ('[package.builds]\n"x86 64" = "bin/x86"', "package.builds.x86 64: no platform; write it as `uname -m` does"),
        ('[package.builds]\nx86_64 = ""', "package.builds.x86_64: '' is no file; name the program built for it"),
        (
            "[package.builds]\n" + "".join(f'p{n} = "bin/x86"\n' for n in range(9)),
            "package.builds: names 9; want at most 8",
        ),
        ("[package]\nbuild = 3", "package.build: unknown key; did you mean 'builds'?"),
    ],
)
def test_a_mistake_is_told_by_its_key_in_one_line(package: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(f'[group]\ncommand = "./wave"\n{package}\n', files=FILES)
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_an_input_cannot_have_the_path_of_the_program() -> None:
    with pytest.raises(UsageError, match=r"package.program: 'wave' is an input's path, too"):
        parse('inputs = ["wave"]\n' + JOB, files={**FILES, "wave": b"W"})


def test_a_model_is_read_in_the_order_it_is_written_and_its_mistakes_are_told() -> None:
    model = '[package.model]\ncomm_s = "link.rtt_s * n"\ntime_s = "comm_s + job.work_s / site.speed"\n'
    assert parse(JOB + model, files=FILES).spec.model == (
        ("comm_s", "link.rtt_s * n"),
        ("time_s", "comm_s + job.work_s / site.speed"),
    )
    alone = parse(f'[group]\ncommand = "x"\n{model.replace(" * n", "")}').spec
    assert alone.model and not alone.builds and not alone.program
    with pytest.raises(
        UsageError, match=r"package.model.time_s: 'site.sped' is no name here; did you mean site.speed\?"
    ):
        parse('[group]\ncommand = "x"\n[package.model]\ntime_s = "1 / site.sped"\n')
