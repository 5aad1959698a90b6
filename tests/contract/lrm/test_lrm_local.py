"""The embedded LRM alone: processes, directories, logs, outputs."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from diana.adapters.lrm.own_program import with_diana
from diana.adapters.lrm.render import Renderer
from diana.adapters.lrm.rows import TableRows
from diana.adapters.lrm.software import Software
from diana.adapters.lrm.spawner import identity
from diana.adapters.lrm.spawner.launching import Launcher
from diana.adapters.lrm.spawner.others import OtherAccounts
from diana.engine.journal.events import JobsEnded
from diana.model import kept_log
from diana.model.facts import Outcome, OutputFile
from diana.model.ids import GroupId
from diana.model.job.spec import Axis, GroupSpec, InputFile, Outputs, Sweep, Table
from diana.model.job.sweep import encode_rows
from diana.model.layout import DataDir
from tests.contract.lrm_builders import SUBGROUP, RealSite, alive, shell


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[RealSite]:
    site = RealSite(tmp_path / "data")
    await site.up()
    yield site
    await site.down()


def outputs(site: RealSite) -> list[OutputFile]:
    return [file for event in site.events if isinstance(event, JobsEnded) for file in event.facts.outputs]


def staged(site: RealSite, name: str, content: bytes) -> Path:
    path = site.data.staged(SUBGROUP) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


async def test_a_command_that_is_not_there_is_named_with_the_path_searched(site: RealSite) -> None:
    site.start(GroupSpec(argv=("no-such-command", "x")), 7)
    (end,) = await site.ended(1)
    assert (end.outcome, end.exit_code) == (Outcome.NOT_STARTED, 127)
    assert "alpha-1.7" in end.error and "'no-such-command'" in end.error and os.environ["PATH"] in end.error
    assert end.error.index("give its path") < end.error.index(os.environ["PATH"]), "what is cut off is the path"
    assert "\n" not in end.error


async def test_a_file_that_may_not_be_executed_or_is_no_program_is_named(site: RealSite, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("echo no first line")
    site.start(GroupSpec(argv=(str(plain),)), 0)
    await site.ended(1)
    plain.chmod(0o755)
    site.start(GroupSpec(argv=(str(plain),)), 1)
    await site.ended(2)
    assert "may not be executed" in site.by_index()[0].error
    assert "no program" in site.by_index()[1].error


async def test_a_job_gets_a_clean_environment_and_its_names(
    site: RealSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_SECRET", "of the node")
    spec = GroupSpec(
        argv=("env",), environment=(("DIANA_JOB", "forged"), ("E", "{e}{{}}")), sweep=_sweep("e", "a", "b")
    )
    site.start(spec, 1, attempt=2)
    (end,) = await site.ended(1)
    env = dict(line.split("=", 1) for line in site.log(end).splitlines())
    assert env["E"] == "b{}"
    assert {name: env[f"DIANA_{name}"] for name in ("JOB", "GROUP", "INDEX", "ATTEMPT", "EPOCH", "SITE", "SLOT")} == {
        "JOB": "alpha-1.1",
        "GROUP": "alpha-1",
        "INDEX": "1",
        "ATTEMPT": "2",
        "EPOCH": "1",
        "SITE": "alpha",
        "SLOT": "0",
    }
    assert env["DIANA_PROCESSORS"] == "1" and env["TMPDIR"] == str(site.data.slot(0))
    assert env["DIANA_DATA"] == str(site.data.root)
    assert "CANARY_SECRET" not in env and "PYTHONPATH" not in env


async def test_a_job_finds_the_sites_own_diana_behind_all_else_where_its_path_leads_to_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    assert shutil.which("diana") is None
    site = RealSite(tmp_path / "data")
    await site.up()
    try:
        site.start(GroupSpec(argv=("sh", "-c", "command -v diana; echo $PATH")), 0)
        (end,) = await site.ended(1)
        own = Path(sys.executable).parent
        assert site.log(end).splitlines() == [f"{own}/diana", f"{tmp_path}/bin:/usr/bin:/bin:{own}"]
    finally:
        await site.down()
    assert with_diana("/usr/bin").startswith("/usr/bin:") and with_diana(with_diana("/bin")) == with_diana("/bin")


@pytest.mark.parametrize("environment", [(("DIANA_DATA", "/own/{e}"),), (("DIANA_DATA", "/own/b"),)])
async def test_a_group_may_name_another_node_to_its_jobs(
    site: RealSite, environment: tuple[tuple[str, str], ...]
) -> None:
    site.start(GroupSpec(argv=("env",), environment=environment, sweep=_sweep("e", "a", "b")), 1)
    (end,) = await site.ended(1)
    assert "DIANA_DATA=/own/b" in site.log(end).splitlines()


def test_a_container_in_which_the_node_is_not_is_not_told_of_it(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    data.spawner.mkdir()
    launcher = Launcher(data, OtherAccounts())
    plain = Renderer(GroupSpec(argv=("true",)), GroupId("alpha-1"), None).order(
        SUBGROUP, 1, [0], {}, directory="", grace_s=5.0
    )
    assert launcher.base(plain)[b"DIANA_DATA"] == str(tmp_path).encode()
    assert b"DIANA_DATA" not in launcher.base(msgspec.structs.replace(plain, contained=True))


def _sweep(name: str, *values: str) -> Sweep:
    return Sweep(axes=(Axis(name=name, values=values),))


async def test_a_hostile_argument_never_meets_a_shell(site: RealSite, tmp_path: Path) -> None:
    nasty = f"; touch {tmp_path}/owned $(touch {tmp_path}/owned)\n`touch {tmp_path}/owned`"
    site.start(GroupSpec(argv=("printf", "%s", "{x}"), sweep=_sweep("x", nasty)), 0)
    (end,) = await site.ended(1)
    assert site.log(end) == nasty
    assert not (tmp_path / "owned").exists()


async def test_a_nul_in_an_argument_is_an_error_of_that_job(site: RealSite) -> None:
    site.start(GroupSpec(argv=("echo", "{x}"), sweep=_sweep("x", "a\0b", "c")), 0, 1)
    await site.ended(2)
    assert site.by_index()[0].outcome is Outcome.NOT_STARTED
    assert site.by_index()[1].outcome is Outcome.DONE


async def test_cancel_reaps_the_process_group_and_what_left_it(site: RealSite, tmp_path: Path) -> None:
    # One child in the group, one that left session and parent, and one that also wiped its environment.
    pids = tmp_path / "pids"
    script = (
        f"sleep 60 & echo $! >> {pids}; "
        f"setsid sh -c 'echo $$ >> {pids}; exec sleep 60' & "
        f"env -i setsid sh -c '(trap \"\" TERM; echo $$ >> {pids}; exec /bin/sleep 60)' & sleep 60"
    )
    site.start(shell(script), 0)
    await site.until(lambda: pids.exists() and len(pids.read_text().split()) == 3)
    site.kill(0)
    await site.ended(1)
    assert [pid for pid in map(int, pids.read_text().split()) if alive(pid)] == []


async def test_what_a_finished_job_left_running_dies_before_the_slot_is_used_again(
    site: RealSite, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    site.start(shell(f"(setsid sh -c 'echo $$ >> {pids}; exec sleep 60' &) ; while [ ! -s {pids} ]; do :; done"), 0)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.DONE
    assert not alive(int(pids.read_text()))


async def test_a_job_that_ignores_term_is_killed_after_the_grace(site: RealSite, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    site.start(shell(f"trap '' TERM; touch {ready}; while :; do sleep 0.1; done"), 0)
    await site.until(ready.exists)
    site.kill(0)
    (end,) = await site.ended(1)
    assert (end.outcome, end.exit_code) == (Outcome.CANCELLED, 137)


async def test_a_log_beyond_its_limit_keeps_head_and_tail_and_says_what_is_left_out(site: RealSite) -> None:
    long = "head -c 3000 /dev/zero | tr '\\0' x; head -c 2000 /dev/zero | tr '\\0' y; echo the last words"
    site.start(shell(long, log_limit_bytes=1000), 0)
    site.start(shell("echo next"), 1)
    await site.ended(2)
    end = site.by_index()[0]
    assert end.truncated and end.outcome is Outcome.DONE
    tail = ("y" * 500 + "the last words\n")[-500:]
    said = "\n[diana: 4015 bytes left out here; log_limit is 1000 bytes]\n"
    assert site.log(end) == "x" * 500 + said + tail
    assert site.log(site.by_index()[1]) == "next\n"


async def test_of_a_running_log_beyond_its_limit_head_and_tail_are_shown(site: RealSite) -> None:
    long = "head -c 3000 /dev/zero | tr '\\0' x; head -c 2000 /dev/zero | tr '\\0' y; exec sleep 60"
    site.start(shell(long, log_limit_bytes=1000), 0)
    await site.shows(0, lambda log: log.size == 5000)
    head = await site.log_of(0)
    assert (head.start, head.data) == (0, b"x" * 500)
    tail = await site.log_of(0, start=500)
    assert (tail.start, tail.data) == (4500, b"y" * 500)
    assert (await site.log_of(0, start=4990)).data == b"y" * 10
    assert (await site.log_of(0, start=5000)).data == b""
    site.kill(0)
    await site.ended(1)


async def test_no_log_is_shown_of_what_waits_or_writes_to_files_of_its_own_or_is_removed(site: RealSite) -> None:
    own = shell("echo x; exec sleep 60", stdout="o", stderr="e")
    site.start(own, 0)
    site.start(shell("echo y; exec sleep 60"), 1, 2)
    await site.shows(0, lambda log: log.stand == kept_log.OWN_FILES)
    await site.shows(1, lambda log: log.data == b"y\n")
    assert (await site.log_of(2)).stand == kept_log.WAITS
    assert (await site.log_of(1, attempt=2)).stand == kept_log.UNKNOWN
    for log in site.data.logs("alpha-1").iterdir():  # type: ignore[arg-type]
        log.unlink()
    gone = await site.log_of(1)
    assert (gone.stand, gone.note) == (kept_log.UNKNOWN, "its log at machine main: No such file or directory")
    site.kill(0, 1, 2)
    await site.ended(3)


async def test_a_job_that_keeps_writing_gives_room_back_while_it_runs(site: RealSite) -> None:
    site.start(shell("while :; do echo 0123456789012345678901234567890123456789; done", log_limit_bytes=100_000), 0)
    log = site.data.logs("alpha-1") / "0-1.log"  # type: ignore[arg-type]
    await site.until(lambda: log.exists() and log.stat().st_size > 400_000)
    await site.until(lambda: log.stat().st_blocks * 512 < log.stat().st_size // 2)
    site.kill(0)
    (end,) = await site.ended(1)
    assert end.truncated and 100_000 < end.length < 100_200
    assert "\0" not in site.log(end)


async def test_a_job_whose_groups_logs_were_deleted_before_it_began_has_a_log_all_the_same(site: RealSite) -> None:
    site.start(shell("echo first"), 0)
    await site.ended(1)
    shutil.rmtree(site.data.logs("alpha-1"))  # type: ignore[arg-type]
    site.start(shell("echo second"), 1)
    await site.ended(2)
    assert site.log(site.by_index()[1]) == "second\n"


async def test_a_full_segment_rolls_also_for_a_successor(tmp_path: Path) -> None:
    site = RealSite(tmp_path / "data", slots=1)
    await site.up()
    site.start(shell("head -c $((64 << 20)) /dev/zero", log_limit_bytes=80 << 20), 0)
    site.start(shell("echo $DIANA_INDEX"), 1, 2)
    await site.ended(3)
    await site.lose_lrm()
    site.start(shell("echo $DIANA_INDEX"), 3)
    await site.ended(4)
    ends = site.by_index()
    assert [ends[i].segment for i in range(4)] == ["alpha-1/0-1.log", *["alpha-1/0-2.log"] * 3]
    assert (ends[0].length, ends[0].truncated) == (64 << 20, False)
    assert [site.log(ends[i]) for i in (1, 2, 3)] == ["1\n", "2\n", "3\n"]
    await site.down()


async def test_a_job_that_deletes_its_scratch_directory_harms_no_other(site: RealSite) -> None:
    site.start(shell("rmdir $TMPDIR || exit 9"), *range(4))
    await site.ended(4)
    site.start(shell("touch $TMPDIR/x && ls"), *range(4, 8))
    await site.ended(8)
    assert {end.outcome for end in site.ends()} == {Outcome.DONE}


async def test_a_second_attempt_gets_a_directory_of_its_own(site: RealSite) -> None:
    spec = shell("touch here; ls; exit $((2 - DIANA_ATTEMPT))", own_directory=True)
    for attempt in (1, 2):
        site.start(spec, 0, attempt=attempt)
        await site.ended(attempt)
    assert [(end.outcome, site.log(end)) for end in site.ends()] == [
        (Outcome.FAILED, "here\n"),
        (Outcome.DONE, "here\n"),
    ]


async def test_orders_that_need_the_disk_keep_their_order_and_a_cancel_finds_them(site: RealSite) -> None:
    site.start(shell("sleep 600", own_directory=True), *range(600))
    site.start(shell("true"), 600)
    site.kill(*range(601))
    await site.ended(601)
    assert {end.outcome for end in site.ends()} == {Outcome.CANCELLED}


async def test_the_scratch_directory_is_empty_for_every_job(site: RealSite) -> None:
    dirty = "ls -A; mkdir -p a/b; touch a/b/c x; ln -s / root; chmod 000 a; [ $PWD = $TMPDIR ]"
    site.start(shell(dirty), *range(6))
    ends = await site.ended(6)
    assert {end.outcome for end in ends} == {Outcome.DONE}
    assert [site.log(end) for end in ends] == [""] * 6


async def test_outputs_are_collected_hashed_and_the_directory_goes(site: RealSite) -> None:
    spec = shell(
        "mkdir out; echo $DIANA_INDEX > out/n; echo same > same.txt", outputs=Outputs(collect=("out/n", "same.txt"))
    )
    site.start(spec, 0, 1)
    await site.ended(2)
    assert {end.outcome for end in site.ends()} == {Outcome.DONE}
    assert sorted(file.name for file in outputs(site)) == ["0/out/n", "0/same.txt", "1/out/n", "1/same.txt"]
    for file in outputs(site):
        content = (site.data.collected(SUBGROUP, 1) / file.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size_bytes, file.sha256)
    assert not site.data.job(SUBGROUP, 1, 0).exists()


async def test_outputs_are_told_the_same_again_after_a_crash_of_the_node(site: RealSite) -> None:
    site.start(shell("echo {index} > {index}.txt", outputs=Outputs(collect=("{index}.txt",))), 0, 1)
    await site.ended(2)
    first = sorted(outputs(site), key=lambda file: file.index)
    site.events.clear()
    await site.restart_node()
    await site.ended(2)
    assert sorted(outputs(site), key=lambda file: file.index) == first and [file.name for file in first] == [
        "0.txt",
        "1.txt",
    ]


async def test_an_output_that_is_missing_or_no_file_fails_the_staging(site: RealSite) -> None:
    collect = Outputs(collect=("out{index}",))
    site.start(shell("true", outputs=collect), 0)
    site.start(shell("ln -s /etc/passwd out1", outputs=collect), 1)
    site.start(shell("mkfifo out2", outputs=collect), 2)
    await site.ended(3)
    assert {end.outcome for end in site.ends()} == {Outcome.STAGING_FAILED}
    assert "out0" in site.by_index()[0].error and "alpha-1.0" in site.by_index()[0].error
    assert "no regular file" in site.by_index()[1].error and "no regular file" in site.by_index()[2].error
    assert outputs(site) == []


@pytest.mark.parametrize("spoilt", ["true", "mkfifo missing", "ln -s /etc/passwd missing", "mkdir -p missing/deep"])
async def test_the_fault_of_one_output_loses_no_other(site: RealSite, spoilt: str) -> None:
    """Whether it is not there, no file, or behind a link."""
    collect = Outputs(collect=("missing", "missing/deep/er", "big.dat"))
    site.start(shell(f"echo hi; {spoilt}; echo big > big.dat", outputs=collect, stdout="log.txt"), 0)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.STAGING_FAILED
    assert "output missing " in end.error and "output missing/deep/er " in end.error and "\n" not in end.error
    kept = {file.name: (site.data.collected(SUBGROUP, 1) / file.name).read_text() for file in outputs(site)}
    assert kept == {"0/big.dat": "big\n", "0/log.txt": "hi\n"}


async def test_an_output_path_that_leaves_the_directory_starts_nothing(site: RealSite, tmp_path: Path) -> None:
    spec = shell(f"touch {tmp_path}/ran", outputs=Outputs(collect=("{x}",)), sweep=_sweep("x", "../up", "/abs", "ok"))
    site.start(spec, 0, 1)
    await site.ended(2)
    assert {end.outcome for end in site.ends()} == {Outcome.NOT_STARTED}
    assert not (tmp_path / "ran").exists()


async def test_inputs_are_there_and_executables_run(site: RealSite) -> None:
    sha = hashlib.sha256(b"tool").hexdigest()
    staged(site, "dataset/events/part-1", b"payload")
    staged(site, f"blob/{sha}", b"#!/bin/sh\ncat in/one all/part-1\n").chmod(0o444)
    inputs = (
        InputFile(source="dataset:events/part-{p}", path="in/one"),
        InputFile(source="dataset:events", path="all"),
        InputFile(source=f"blob:{sha}", path="tool", executable=True),
    )
    site.start(GroupSpec(argv=("./tool",), inputs=inputs, sweep=_sweep("p", "1", "2")), 0, 1)
    await site.ended(2)
    assert site.by_index()[0].outcome is Outcome.DONE
    assert site.log(site.by_index()[0]) == "payloadpayload"
    assert site.by_index()[1].outcome is Outcome.STAGING_FAILED
    assert "dataset:events/part-2" in site.by_index()[1].error


async def test_own_output_files_are_kept_also_when_the_job_fails(site: RealSite) -> None:
    site.start(shell("echo out; echo err >&2; exit 1", stdout="o/{index}.out", stderr="{index}.err"), 4)
    (end,) = await site.ended(1)
    assert (end.outcome, end.segment) == (Outcome.FAILED, "")
    kept = {file.name: (site.data.collected(SUBGROUP, 1) / file.name).read_text() for file in outputs(site)}
    assert kept == {"o/4.out": "out\n", "4.err": "err\n"}


async def test_a_script_group_runs_its_script_with_rendered_arguments(site: RealSite) -> None:
    script = "#!/bin/sh\necho script $1 ${0##*/}\n"
    site.start(GroupSpec(script=script, argv=("{x}",), sweep=_sweep("x", "a", "b")), 0, 1)
    await site.ended(2)
    assert [site.log(site.by_index()[i]) for i in (0, 1)] == ["script a script\n", "script b script\n"]


async def test_rows_of_a_table_reach_their_jobs(site: RealSite) -> None:
    rows = [[f"left {k}", "x" * (k % 700)] for k in range(3000)]
    blob = encode_rows(rows)
    sha = hashlib.sha256(blob).hexdigest()
    staged(site, f"blob/{sha}", blob)
    table = Table(columns=("a", "b"), rows=3000, blob=sha, size_bytes=len(blob))
    site.start(GroupSpec(argv=("echo", "{a}", "{b}"), sweep=Sweep(table=table)), 2999, 0, 64, 1500)
    await site.ended(4)
    for index in (2999, 0, 64, 1500):
        assert site.log(site.by_index()[index]) == " ".join(rows[index]) + "\n"


def test_long_rows_of_a_table_are_read_one_by_one_and_not_kept(tmp_path: Path) -> None:
    rows = [[f"{k}", "é\n" * (k * 2000)] for k in range(200)]
    path = tmp_path / "blob"
    path.write_bytes(encode_rows(rows))
    table = TableRows(path, 200)
    for index in (199, 0, 63, 64, 130, 199):
        assert table[index] == rows[index]
    kept = max(table._rows, default=[], key=lambda row: sum(map(len, row)))
    assert sum(map(len, kept)) < 1 << 20


async def test_a_row_that_is_too_long_fails_its_jobs_and_is_not_read(
    site: RealSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is an origin's word: here twenty gigabytes without an end of a line, most of them a hole."""
    sha = "0" * 64
    head = encode_rows([[f"{k}"] for k in range(64)])
    os.truncate(staged(site, f"blob/{sha}", head), 20 << 30)
    read = []
    pread = os.pread

    def counted(fd: int, count: int, offset: int) -> bytes:
        read.append(data := pread(fd, count, offset))
        return data

    monkeypatch.setattr(os, "pread", counted)
    table = Table(columns=("a",), rows=100, blob=sha, size_bytes=20 << 30)
    site.start(GroupSpec(argv=("echo", "{a}"), sweep=Sweep(table=table)), 64, 65)
    ends = await site.ended(2)
    assert {end.outcome for end in ends} == {Outcome.NOT_STARTED}
    assert all("row 64 of the table has more than 2 MiB" in end.error for end in ends), ends
    assert 0 < sum(map(len, read)) < 8 << 20


async def test_a_merge_command_runs_in_the_folder_it_is_given(site: RealSite, tmp_path: Path) -> None:
    site.start(shell("pwd", outputs=Outputs(collect=("never",))), 0, directory=str(tmp_path))
    (end,) = await site.ended(1)
    assert (end.outcome, site.log(end)) == (Outcome.DONE, f"{tmp_path}\n")


async def test_an_idle_spawner_goes_when_asked_and_a_busy_one_stays(site: RealSite, tmp_path: Path) -> None:
    site.start(shell(f"touch {tmp_path}/runs; until [ -e {tmp_path}/go ]; do sleep 0.02; done"), 0)
    await site.until((tmp_path / "runs").exists)
    pid = site.spawner_pid()
    await site.lrm.close(stop_spawner=True)
    assert alive(pid)
    await site.restart_node()
    (tmp_path / "go").touch()
    assert {end.outcome for end in await site.ended(1)} == {Outcome.DONE}
    await site.lrm.close(stop_spawner=True)
    await site.until(lambda: not alive(pid))
    await site.restart_node()
    assert site.spawner_pid() != pid
    assert {run.index for run in site.ready().known} == {0}


async def test_jobs_find_their_modules_ready_or_are_told_not_to_have_begun(tmp_path: Path) -> None:
    site = RealSite(tmp_path / "data")
    site.lrm.use(Software(modules={"good": "export GREETING=hello", "bad": "echo gone >&2; false"}))
    await site.up()
    try:
        ready = GroupSpec(argv=("/bin/sh", "-c", 'test "$GREETING" = hello'), modules=("good",))
        site.start(ready, 0)
        site.start(GroupSpec(argv=("true",), modules=("good", "bad")), 1)
        site.start(GroupSpec(argv=("true",), modules=("missing",)), 2)
        # An exit code of the command's own.
        site.start(shell("exit 125", modules=("good",)), 3)
        await site.ended(4)
        ends = site.by_index()
        assert [ends[k].outcome for k in range(4)] == [
            *(Outcome.DONE, Outcome.NOT_STARTED, Outcome.NOT_STARTED, Outcome.FAILED)
        ]
        assert "its log says why" in ends[1].error and ends[1].length > 0
        assert "want module missing" in ends[2].error
        # What is said from now on holds for the next order.
        site.lrm.use(Software(modules={"missing": "true"}))
        site.start(GroupSpec(argv=("true",), modules=("missing",)), 4)
        await site.ended(5)
        assert site.by_index()[4].outcome == Outcome.DONE
    finally:
        await site.down()


PODMAN = """\
#!/bin/sh
[ "$1" != image ] || exit 0
for word; do case $word in DIANA_RUN=*) run=$word; esac; done
setsid "${0%/*}/conmon" "$run" < /dev/null > /dev/null 2>&1 &
trap "" TERM
sleep 60
"""
CONMON = """\
#!/bin/sh
env "$1" sh -c 'touch "$1"; sleep 61; true' sh "${0%/*}/began" &
wait
touch "${0%/*}/cleared"
"""


@pytest.mark.wide
async def test_a_container_ends_with_its_job_whatever_else_runs_and_its_caretaker_clears_it_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs by the names of real ones, which stand to each other as these do; `tests/clusters` has real ones."""
    for name, text in (("podman", PODMAN), ("conmon", CONMON)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    site = RealSite(tmp_path / "data")
    site.lrm.use(Software(container="podman"))
    await site.up()
    try:
        site.start(shell("sleep 60"), 1)
        site.start(GroupSpec(argv=("true",), container="image"), 0)
        await site.until((tmp_path / "began").exists)
        folder = os.stat(site.data.spawner)
        marker = f"DIANA_RUN={folder.st_dev}-{folder.st_ino}:{SUBGROUP}:1:0:1".encode()
        assert marker in identity.by_marker(marker)
        site.kill(0)
        (end,) = await site.ended(1)
        assert (end.run.index, end.outcome) == (0, Outcome.CANCELLED)
        await site.until(lambda: marker not in identity.by_marker(marker))
        await site.until((tmp_path / "cleared").exists)
        assert len(site.ends()) == 1
    finally:
        await site.down()


async def test_a_spawner_of_an_older_release_is_given_no_job_it_would_run_without_its_container(site: RealSite) -> None:
    site.lrm.use(Software(container="podman", modules={"greeter": "true"}))
    site.lrm._makes_ready = False
    site.start(GroupSpec(argv=("true",), modules=("greeter",)), 0)
    site.start(shell("true"), 1)
    ends = {end.run.index: end for end in await site.ended(2)}
    assert (ends[0].outcome, ends[1].outcome) == (Outcome.NOT_STARTED, Outcome.DONE)
    assert "the spawner of an older release still runs jobs here" in ends[0].error
