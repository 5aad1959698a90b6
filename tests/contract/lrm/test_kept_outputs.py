"""What a job made is kept: by name, by pattern or as a folder, and however the job ended."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from diana.adapters.lrm import collect, finding
from diana.adapters.lrm import kept_folders as kept_folders_module
from diana.adapters.lrm.kept_folders import KeptFolders
from diana.engine.journal.events import JobsEnded
from diana.model.facts import Outcome
from diana.model.ids import group_of
from diana.model.job.grace import GRACE_S
from diana.model.job.output_names import OutputNames
from diana.model.job.patterns import pattern
from diana.model.job.spec import Axis, GroupSpec, InputFile, Outputs, Resources, Sweep
from diana.model.layout import DataDir
from tests.contract.lrm_builders import SUBGROUP, RealSite, Told, alive, shell


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[RealSite]:
    site = RealSite(tmp_path / "data")
    await site.up()
    yield site
    await site.down()


def wants(script: str, *names: str, **more: object) -> GroupSpec:
    return shell(script, outputs=Outputs(collect=names, kept=True), **more)


def kept(site: RealSite, spec: GroupSpec) -> dict[str, str]:
    """Name -> content of what was kept; the origin takes those names."""
    out = {}
    for event in site.events:
        if isinstance(event, JobsEnded):
            assert OutputNames(spec).strange(group_of(SUBGROUP), event.facts) == ""
            for file in event.facts.outputs:
                assert file.name not in out
                out[file.name] = (site.data.collected(SUBGROUP, 1) / file.name).read_text()
    return out


async def ended_by_limit(site: RealSite, grace_s: float) -> tuple[Told, dict[str, str]]:
    script = f'trap "sleep {GRACE_S + 1}; echo saved > c; exit 0" TERM; while :; do sleep .1; done'
    spec = wants(script, "c", grace_s=grace_s, resources=Resources(time_limit_s=0.5))
    return await one(site, spec), kept(site, spec)


async def test_a_job_has_the_grace_that_its_user_asks_for(site: RealSite) -> None:
    end, found = await ended_by_limit(site, 60.0)
    assert (end.outcome, end.error) == (Outcome.TIMED_OUT, "")
    assert found == {"0/c": "saved\n"}


async def test_what_a_shell_started_has_the_grace_that_the_shell_does_not_wait_for(
    site: RealSite, tmp_path: Path
) -> None:
    """A shell without a trap dies of SIGTERM at once, and its child would be killed with it."""
    child = f"trap 'sleep 1; echo saved > c; exit 0' TERM; touch {tmp_path}/up; while :; do sleep .1; done"
    spec = wants(f'/bin/sh -c "{child}"; echo never', "c", grace_s=60.0)
    site.start(spec, 0)
    await site.until((tmp_path / "up").exists)
    site.kill(0)
    (end,) = await site.ended(1)
    assert (end.outcome, end.exit_code) == (Outcome.CANCELLED, 143)
    assert kept(site, spec) == {"0/c": "saved\n"}
    assert end.ended_s - end.started_s >= 1.0


async def test_what_outlives_its_shell_goes_when_the_grace_is_over(site: RealSite, tmp_path: Path) -> None:
    child = f"trap '' TERM; echo \\$\\$ > {tmp_path}/pid; mv {tmp_path}/pid {tmp_path}/up; while :; do sleep .1; done"
    site.start(wants(f'/bin/sh -c "{child}"; echo never', grace_s=1.0), 0)
    await site.until((tmp_path / "up").exists)
    site.kill(0)
    (end,) = await site.ended(1)
    assert (end.outcome, end.exit_code) == (Outcome.CANCELLED, 143)
    assert not alive(int((tmp_path / "up").read_text()))


async def test_a_site_gives_no_more_grace_than_its_operator_says(tmp_path: Path) -> None:
    site = RealSite(tmp_path / "data", most_grace_s=2.0)
    await site.up()
    end, found = await ended_by_limit(site, 60.0)
    await site.down()
    assert (end.outcome, found) == (Outcome.TIMED_OUT, {})


async def one(site: RealSite, spec: GroupSpec, index: int = 0) -> Told:
    site.start(spec, index)
    (end,) = await site.ended(1)
    return end


async def test_a_checkpoint_written_within_the_grace_at_a_time_limit_is_kept(site: RealSite) -> None:
    script = 'trap "echo saved > c; exit 0" TERM; while :; do sleep .1; done'
    spec = wants(script, "c", "never", resources=Resources(time_limit_s=0.5))
    end = await one(site, spec)
    assert (end.outcome, end.error) == (Outcome.TIMED_OUT, "")
    assert kept(site, spec) == {"0/c": "saved\n"}


async def test_outputs_of_a_job_that_failed_are_kept_as_far_as_they_are_there(site: RealSite) -> None:
    spec = wants("echo 1 > a; mkdir out; echo 2 > out/b; echo 3 > x.csv; exit 3", "a", "none", "out", "*.csv", "*.no")
    end = await one(site, spec)
    assert (end.outcome, end.exit_code, end.error) == (Outcome.FAILED, 3, "")
    assert kept(site, spec) == {"0/a": "1\n", "0/out/b": "2\n", "0/x.csv": "3\n"}


async def test_outputs_of_a_cancelled_job_are_kept(site: RealSite, tmp_path: Path) -> None:
    spec = wants(f"echo half > a; touch {tmp_path}/on; sleep 600", "a", "b")
    site.start(spec, 0)
    await site.until((tmp_path / "on").exists)
    site.kill(0)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.CANCELLED
    assert kept(site, spec) == {"0/a": "half\n"}


async def test_a_group_of_an_older_origin_gets_what_that_one_takes(site: RealSite) -> None:
    spec = shell("echo 1 > a; exit 1", outputs=Outputs(collect=("a",)), stdout="o")
    assert (await one(site, spec)).outcome is Outcome.FAILED
    assert kept(site, spec) == {"0/o": ""}


MAKE = """
mkdir -p out/deep/er .hid other; echo 1 > a.csv; echo 2 > b.csv; echo 3 > .c.csv; echo 4 > d.txt
echo 5 > out/e.csv; echo 6 > out/deep/f.csv; echo 7 > out/deep/er/.g.csv; echo 8 > .hid/h.csv; echo 9 > other/i.csv
"""
OUT = {"0/out/e.csv": "5\n", "0/out/deep/f.csv": "6\n", "0/out/deep/er/.g.csv": "7\n"}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("*.csv",), {"0/a.csv": "1\n", "0/b.csv": "2\n"}),
        (("?.csv",), {"0/a.csv": "1\n", "0/b.csv": "2\n"}),
        (("[!a].*",), {"0/b.csv": "2\n", "0/d.txt": "4\n"}),
        ((".*.csv",), {"0/.c.csv": "3\n"}),
        (("out/",), OUT),
        (("out",), OUT),
        (("o*/*.csv",), {"0/out/e.csv": "5\n", "0/other/i.csv": "9\n"}),
        (("o*/deep",), {name: text for name, text in OUT.items() if "deep" in name}),
        (("out/**/f.csv", "**/e.csv"), {"0/out/deep/f.csv": "6\n", "0/out/e.csv": "5\n"}),
        (("a.csv", "*.csv", "?.csv", "d.txt", "[d].txt"), {"0/a.csv": "1\n", "0/b.csv": "2\n", "0/d.txt": "4\n"}),
        (("out/deep", "out/", "out/e.csv"), OUT),
    ],
)
async def test_patterns_and_folders_find_what_a_shell_would(
    site: RealSite, names: tuple[str, ...], found: dict[str, str]
) -> None:
    end = await one(site, spec := wants(MAKE, *names))
    assert end.outcome is Outcome.DONE, end.error
    assert kept(site, spec) == found
    assert not site.data.job(SUBGROUP, 1, 0).exists()


async def test_files_of_several_jobs_lie_apart_and_a_value_is_no_pattern(site: RealSite) -> None:
    sweep = Sweep(axes=(Axis(name="x", values=("a", "a[1]", "*")),))
    spec = wants('for f in a "a[1]" "*" a1; do echo $DIANA_INDEX > "$f.csv"; done', "{x}.*", sweep=sweep)
    site.start(spec, 0, 1, 2)
    assert {end.outcome for end in await site.ended(3)} == {Outcome.DONE}
    assert kept(site, spec) == {"0/a.csv": "0\n", "1/a[1].csv": "1\n", "2/*.csv": "2\n"}


async def test_what_is_found_is_told_the_same_again_after_a_crash_of_the_node(site: RealSite) -> None:
    spec = wants("echo 1 > a.csv; mkdir out; echo 2 > out/b; touch out/.c", "*.csv", "out")
    first = await one(site, spec)
    before = kept(site, spec)
    site.events.clear()
    await site.restart_node()
    (again,) = await site.ended(1)
    assert (again.outcome, again.error) == (first.outcome, first.error)
    assert kept(site, spec) == before == {"0/a.csv": "1\n", "0/out/.c": "", "0/out/b": "2\n"}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("touch a.txt", "output *.csv finds nothing; "),
        ("ln -s /etc/passwd x.csv", "output *.csv finds nothing but what is no regular file: 'x.csv' is passed over"),
        ("mkdir x.csv", "output *.csv finds nothing; "),
    ],
)
async def test_a_pattern_that_finds_nothing_is_named(site: RealSite, script: str, said: str) -> None:
    end = await one(site, spec := wants(script, "*.csv"))
    assert end.outcome is Outcome.STAGING_FAILED and said in end.error and "\n" not in end.error
    assert kept(site, spec) == {}


@pytest.mark.parametrize(
    ("script", "wanted", "said"),
    [
        ("touch a.txt", "plot/", "output plot/: nothing is there by that name; see that the command writes it in its"),
        ("mkdir plot", "plot/", "output plot/: nothing is in it; see that"),
        ("mkdir plot", "plot", "output plot/: nothing is in it; see that"),
        ("mkdir plot; mkfifo plot/x", "plot/", "output plot/: nothing is in it but what is no regular file: 'plot/x'"),
        ("mkdir plot", "p*/", "output p* finds nothing; see that"),
    ],
)
async def test_a_folder_that_is_not_there_is_named_as_it_was_written(
    site: RealSite, script: str, wanted: str, said: str
) -> None:
    end = await one(site, spec := wants(script, wanted))
    assert end.outcome is Outcome.STAGING_FAILED and said in end.error and "\n" not in end.error
    assert kept(site, spec) == {}


def kept_folders(site: RealSite) -> list[str]:
    return sorted(path.name for path in site.data.kept.iterdir()) if site.data.kept.exists() else []


async def test_the_directory_of_a_job_that_left_another_file_stays_and_is_named(site: RealSite) -> None:
    script = "echo 42 > results.txt; mkdir more; touch more/x; echo 1 > whole"
    (site.data.staged(SUBGROUP) / "dataset").mkdir(parents=True)
    (site.data.staged(SUBGROUP) / "dataset" / "in").touch()
    spec = wants(script, "result.txt", "whole", inputs=(InputFile(source="dataset:in", path="in"),))
    end = await one(site, spec)
    path = site.data.kept / "alpha-1.0.1"
    assert "output result.txt is missing; see that the command writes it in its directory; there lay " in end.error
    assert end.error.endswith(f"; its directory stays for 1d00h: {path}")
    assert "more/, results.txt;" in end.error
    assert (path / "results.txt").read_text() == "42\n"
    assert kept(site, spec) == {"0/whole": "1\n"}
    assert not site.data.job(SUBGROUP, 1, 0).exists()
    site.events.clear()
    await site.restart_node()
    (again,) = await site.ended(1)
    assert (again.outcome, again.error) == (end.outcome, end.error)


async def test_what_lay_there_is_told_to_a_bound_and_in_one_line(site: RealSite) -> None:
    script = r"""for i in $(seq 1100); do : > f$i; done; touch "$(printf 'a\nb')" """
    end = await one(site, wants(script, "x"))
    assert " and more than 990 more; its directory" in end.error
    assert "\n" not in end.error and len(end.error) < 1000
    site.start(wants(r"""touch "$(printf 'a\nb')" c""", "x"), 1)
    end = (await site.ended(2))[1]
    assert r"there lay 'a\nb', c; " in end.error
    site.start(wants("true", "x"), 2)
    assert "there lay nothing else; " in (await site.ended(3))[2].error


async def test_no_directory_stays_where_all_was_kept_or_nothing_was_asked_for(site: RealSite) -> None:
    site.start(wants("echo 1 > x; ln -s x y", "*"), 0)
    site.start(wants("exit 1", "x"), 1)
    site.start(shell("touch y", own_directory=True), 2)
    ends = {end.run.index: end for end in await site.ended(3)}
    assert kept_folders(site) == [] and "stays" not in "".join(end.error for end in ends.values())


async def test_directories_go_when_their_time_is_over_their_disk_is_full_or_others_are_enough(
    site: RealSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_folders_module, "MOST_KEPT", 2)
    site.start(wants("mkdir -m 0 shut; touch y", "x"), 0, 1, 2)
    ends = await site.ended(3)
    assert sum("its directory stays" in end.error for end in ends) == 2 == len(kept_folders(site))
    assert not list(site.data.jobs(SUBGROUP).glob("e1/*"))
    old, new = kept_folders(site)
    await site.lrm.look_at_disk()
    assert kept_folders(site) == [old, new]
    os.utime(site.data.kept / old, (0, 0))
    await site.lrm.look_at_disk()
    assert kept_folders(site) == [new]
    monkeypatch.setattr(kept_folders_module, "MOST_FULL", -1.0)
    site.start(wants("touch y", "x"), 3)
    assert "stays" not in (await site.ended(4))[3].error
    await site.lrm.look_at_disk()
    assert kept_folders(site) == []


def test_no_more_directories_stay_where_jobs_end_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_folders_module, "MOST_KEPT", 2)
    monkeypatch.setattr(kept_folders_module, "MOST_FULL", 1.0)
    data = DataDir(tmp_path)
    folders = KeptFolders(data)
    look = KeptFolders._has_to_go

    def slow(self: KeptFolders) -> str:
        why = look(self)
        time.sleep(0.02)
        return why

    monkeypatch.setattr(KeptFolders, "_has_to_go", slow)
    for n in range(8):
        (tmp_path / f"job{n}").mkdir()
    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(lambda n: folders.keep(tmp_path / f"job{n}", f"g.{n}"), range(8)))
    assert sum("stays for" in line for line in told) == 2 == len(list(data.kept.iterdir()))
    assert sum("2 others stay" in line for line in told) == 6


async def test_no_link_is_followed_and_no_socket_or_device_is_read(site: RealSite, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.csv").write_text("secret")
    bind = "import socket; socket.socket(socket.AF_UNIX).bind('out/sock')"
    script = (
        f"mkdir out; echo 1 > out/a.csv; mkfifo out/pipe; ln -s {tmp_path}/secret out/way; ln -s {tmp_path}/secret w"
    )
    spec = wants(f'{script}; python3 -c "{bind}"', "out", "w/*.csv", "**/key.csv")
    end = await one(site, spec)
    assert end.outcome is Outcome.STAGING_FAILED
    assert kept(site, spec) == {"0/out/a.csv": "1\n"}
    assert "output w/*.csv finds nothing" in end.error


async def test_what_is_passed_over_is_said_and_fails_nothing(site: RealSite) -> None:
    end = await one(site, spec := wants("mkdir out; echo 1 > out/a; ln -s a out/latest; mkfifo out/pipe", "out/"))
    assert end.outcome is Outcome.DONE
    assert "'out/latest' and 1 others are passed over, as no regular file" in end.error
    assert kept(site, spec) == {"0/out/a": "1\n"}


async def test_more_files_than_are_kept_are_named_before_they_are_all_read(
    site: RealSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "MOST_FOUND", 20)
    spec = wants("for i in $(seq 30); do : > f$i; done; echo 1 > whole", "whole", "f*")
    end = await one(site, spec)
    assert end.outcome is Outcome.STAGING_FAILED
    assert "output f*: more than 20 files lie there; pack them into one" in end.error
    assert kept(site, spec) == {"0/whole": "1\n"}
    monkeypatch.setattr(finding, "MOST_SEEN", 25)
    site.start(wants("for i in $(seq 30); do : > f$i; done", "g*"), 1)
    end = (await site.ended(2))[1]
    assert "output g*: more than 25 files and folders lie there" in end.error


async def test_a_name_that_nobody_could_write_elsewhere_is_named_and_the_others_are_kept(site: RealSite) -> None:
    script = r"""touch "$(printf 'a\nb.csv')" "$(printf 'bad\377.csv')"; echo 1 > good.csv"""
    end = await one(site, spec := wants(script, "*.csv"))
    assert end.outcome is Outcome.STAGING_FAILED
    assert "control character" in end.error and "not UTF-8" in end.error and "\n" not in end.error
    assert kept(site, spec) == {"0/good.csv": "1\n"}


@pytest.mark.parametrize("names", [("a.part", "a", "b"), ("b", "a", "a.part"), ("*",), ("[ab]", "*.part")])
async def test_an_output_is_never_written_over_another_on_its_way(site: RealSite, names: tuple[str, ...]) -> None:
    # A file of two names is copied.
    script = "echo A > a; echo PART > a.part; echo B > b; for f in a a.part b; do ln $f .$f.too; done"
    end = await one(site, spec := wants(script, *names))
    assert (end.outcome, end.error) == (Outcome.DONE, "")
    assert kept(site, spec) == {"0/a": "A\n", "0/a.part": "PART\n", "0/b": "B\n"}


async def test_the_longest_name_of_a_file_system_is_kept(site: RealSite) -> None:
    name = "x" * 251 + ".csv"
    end = await one(site, spec := wants(f"echo 1 > {name}; ln {name} y", "*.csv"))
    assert (end.outcome, end.error) == (Outcome.DONE, "")
    assert kept(site, spec) == {f"0/{name}": "1\n"}


async def test_a_plain_name_that_nobody_could_write_elsewhere_is_named(site: RealSite) -> None:
    sweep = Sweep(axes=(Axis(name="x", values=("a\nb", ".diana-part-1")),))
    spec = wants(
        'echo 1 > "$(printf "a\\nb.txt")"; echo 1 > .diana-part-1.txt; echo 2 > good', "{x}.txt", "good", sweep=sweep
    )
    site.start(spec, 0, 1)
    ends = {end.run.index: end for end in await site.ended(2)}
    assert {end.outcome for end in ends.values()} == {Outcome.STAGING_FAILED}
    assert "control character" in ends[0].error and "unfinished files" in ends[1].error
    assert kept(site, spec) == {"0/good": "2\n", "1/good": "2\n"}


async def test_a_name_that_stays_is_named_again_after_a_crash_of_the_node(site: RealSite) -> None:
    spec = wants(r"""touch "$(printf 'bad\377.csv')"; ln -s x l.csv; echo 1 > good.csv""", "*.csv", stdout="o")
    first = await one(site, spec)
    assert first.outcome is Outcome.STAGING_FAILED
    site.events.clear()
    await site.restart_node()
    (again,) = await site.ended(1)
    assert (again.outcome, again.error) == (first.outcome, first.error)
    assert kept(site, spec) == {"0/good.csv": "1\n", "0/o": ""}


async def test_an_end_waits_with_its_outputs_until_the_disk_takes_them(
    site: RealSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def full(*args: object, **more: object) -> int:
        tried.append(args)
        raise OSError(errno.ENOSPC, "No space left on device")

    spec = wants("echo 1 > a; ln a b; echo 2 > c", "a", "*")
    with monkeypatch.context() as disk:
        disk.setattr(os, "sendfile", full)
        site.start(spec, 0)
        await site.until(lambda: bool(tried))
        await asyncio.sleep(site.quiet_s)
    assert site.ends() == [] and site.data.job(SUBGROUP, 1, 0).is_dir()
    assert not list(site.data.collected(SUBGROUP, 1).rglob(".diana-part-*")), "what is not whole takes no room"
    await site.restart_node()
    (end,) = await site.ended(1)
    assert (end.outcome, end.error) == (Outcome.DONE, "")
    assert kept(site, spec) == {"0/a": "1\n", "0/b": "1\n", "0/c": "2\n"}


async def test_a_pipe_that_takes_the_place_of_an_output_is_not_waited_for(
    site: RealSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def swapped(source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        if source == "a":
            os.unlink(source, dir_fd=src_dir_fd)
            os.mkfifo(source, dir_fd=src_dir_fd)
        rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", swapped)
    end = await one(site, spec := wants("echo 1 > a; echo 2 > b", "*"))
    assert end.outcome is Outcome.STAGING_FAILED and "output a: no regular file" in end.error
    assert kept(site, spec) == {"0/b": "2\n"}


def test_what_goes_or_changes_while_it_is_looked_at_costs_no_other_output(tmp_path: Path) -> None:
    for name in ("a", "b", "gone", "folder/x", "shut/y", "swapped/z"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def meanwhile(path: str, entry: os.DirEntry[str]) -> bool:
        if path == "gone":
            os.unlink(entry.path if os.path.isabs(entry.path) else tmp_path / path)
        elif path == "folder":
            shutil.rmtree(tmp_path / path)
        elif path == "swapped":
            shutil.rmtree(tmp_path / path)
            (tmp_path / path).symlink_to("/etc")
        return False

    assert finding.find(tmp_path, pattern("**"), 100, meanwhile).paths == ["a", "b", "shut/y"]


def test_a_folder_that_may_not_be_read_is_named_and_the_others_are_found(tmp_path: Path) -> None:
    # Under pytest's own folder another account finds nothing.
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        for below in ("a", "shut/x"):
            (top / below).parent.mkdir(exist_ok=True)
            (top / below).touch()
        (top / "shut").chmod(0)
        user = os.geteuid()
        try:
            if not user:
                os.seteuid(65534)
            found = finding.find(top, pattern("**"), 100)
        finally:
            os.seteuid(user)
            (top / "shut").chmod(0o700)
    assert (found.paths, found.shut) == (["a"], ["shut"])


async def test_why_a_directory_did_not_stay_is_told(site: RealSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_folders_module, "MOST_KEPT", 1)
    await one(site, wants("touch y", "x"))
    site.start(wants("touch y", "x"), 1)
    last = (await site.ended(2))[1]
    assert last.error.endswith("; there lay y; its directory had to go: 1 others stay")


MADE = {"0/case/r.out": "r\n", "0/case/log": "oldmore\n", "0/case/t/u": "t\n"}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("case/*.out", "case/t/"), {"0/case/r.out": "r\n", "0/case/t/u": "t\n"}),
        (("case/",), MADE),
        (("*",), {**MADE, "0/sums.csv": "oldmore\n"}),
        (("case",), {**MADE, "0/case/mesh": "given"}),
    ],
)
async def test_what_a_job_made_of_its_inputs_or_among_them_is_found(
    site: RealSite, names: tuple[str, ...], found: dict[str, str]
) -> None:
    path = site.data.staged(SUBGROUP) / "dataset" / "case"
    path.mkdir(parents=True)
    (path / "mesh").write_text("given")
    (path / "log").write_text("old")
    inputs = (InputFile(source="dataset:case", path="case"), InputFile(source="dataset:case/log", path="sums.csv"))
    script = "echo r > case/r.out; echo more >> case/log; echo more >> sums.csv; mkdir case/t; echo t > case/t/u"
    end = await one(site, spec := wants(script, *names, inputs=inputs))
    assert (end.outcome, end.error) == (Outcome.DONE, "")
    assert kept(site, spec) == found


async def test_nothing_of_dianas_own_is_found(site: RealSite) -> None:
    end = await one(site, spec := wants("echo 1 > .a; : > .diana-unready; : > .diana-roster; : > .diana-report", ".*"))
    assert (end.outcome, end.error) == (Outcome.DONE, "")
    assert kept(site, spec) == {"0/.a": "1\n"}


async def test_inputs_are_not_found(site: RealSite) -> None:
    path = site.data.staged(SUBGROUP) / "dataset" / "events"
    path.mkdir(parents=True)
    (path / "in.csv").write_text("given")
    inputs = (InputFile(source="dataset:events/in.csv", path="in.csv"), InputFile(source="dataset:events", path="all"))
    end = await one(
        site, spec := wants("cat in.csv all/in.csv > made.csv", "*", "all/*", "in.*", inputs=inputs, stdout="o")
    )
    assert "output all/* finds nothing" in end.error and "output in.* finds nothing" in end.error
    assert kept(site, spec) == {"0/made.csv": "givengiven", "0/o": ""}


async def test_a_job_that_never_began_leaves_nothing(site: RealSite) -> None:
    spec = msgspec.structs.replace(wants("", "*", "x"), argv=("no-such-command",))
    assert (await one(site, spec)).outcome is Outcome.NOT_STARTED
    assert kept(site, spec) == {}
