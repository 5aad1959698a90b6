"""Inputs of jobs: each job finds plain files of its own, and what it writes to them nobody else notices. What is too
large for that is a link, which is watched."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import resource
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from diana.adapters.lrm.inputs import links, mounts, placing
from diana.adapters.lrm.local import LocalLrm
from diana.engine.journal.effects import Start
from diana.model.facts import Outcome
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.model.job.checkpoint import SavedFile, SavedJob
from diana.model.job.spec import CheckpointSpec, GroupSpec, InputFile, Outputs, Sweep
from diana.model.layout import DataDir
from tests.contract.lrm_builders import ALPHA, SUBGROUP, RealSite, Told, shell

BIG = bytes(3 << 20)
"""More than is copied."""


class BoundedSite(RealSite):
    """A site that copies at most 1 MiB of a job's inputs."""

    copy_bytes = 1 << 20

    def _new(self) -> LocalLrm:
        return LocalLrm(self.data, ALPHA, self.slots, self.events.append, time.monotonic, copy_bytes=self.copy_bytes)


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[BoundedSite]:
    site = BoundedSite(tmp_path / "data")
    await site.up()
    yield site
    await site.down()


def uploaded(site: RealSite, content: bytes, path: str, **more: bool) -> InputFile:
    """A local file of the submitter's, as the site keeps it."""
    sha = hashlib.sha256(content).hexdigest()
    blob = site.data.blob(sha)
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    blob.chmod(0o444)
    staged = site.data.staged(SUBGROUP) / "blob" / sha
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.symlink_to(blob)
    return InputFile(source=f"blob:{sha}", path=path, **more)


def registered(site: RealSite, at: Path, path: str, **more: bool) -> InputFile:
    """A file or folder of the user's, where it lies."""
    staged = site.data.staged(SUBGROUP) / "dataset" / at.name
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.symlink_to(at)
    return InputFile(source=f"dataset:{at.name}", path=path, **more)


def written(path: Path, content: bytes, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


async def run(
    site: RealSite,
    script: str,
    *inputs: InputFile,
    jobs: int = 1,
    attempt: int = 1,
    environment: Mapping[str, str] | None = None,
) -> list[Told]:
    """Run the script in so many jobs one after the other, and return their ends."""
    first = len({end.run for end in site.ends()})
    for index in range(jobs):
        more = tuple((environment or {}).items())
        site.start(shell(script, inputs=inputs, environment=more), index, attempt=attempt)
        await site.ended(first + index + 1)
    return [end for end in site.ends() if end.run.attempt == attempt]


# --- programs find what they look for ------------------------------------------------------------------


async def test_a_program_finds_the_file_beside_it(site: BoundedSite) -> None:
    main = uploaded(site, b"import helper\nprint(helper.WORD)\n", "main.py")
    helper = uploaded(site, b"WORD = 'found'\n", "helper.py")
    (end,) = await run(site, "exec python3 main.py", main, helper)
    assert (end.outcome, site.log(end)) == (Outcome.DONE, "found\n")


async def test_a_program_finds_the_folder_beside_it_and_may_add_to_it(site: BoundedSite) -> None:
    main = uploaded(site, b"import parts.one\nprint(parts.one.WORD)\n", "bin/main.py")
    one = uploaded(site, b"WORD = 'deep'\n", "bin/parts/one.py")
    (end,) = await run(site, "python3 bin/main.py && ls bin/parts", main, one)
    assert (end.outcome, site.log(end)) == (Outcome.DONE, "deep\n__pycache__\none.py\n")


async def test_what_refuses_links_takes_an_input(site: BoundedSite) -> None:
    packed = uploaded(site, gzip.compress(b"rows\n"), "d.gz")
    (end,) = await run(site, "gunzip d.gz && cat d", packed)
    assert (end.outcome, site.log(end)) == (Outcome.DONE, "rows\n")


async def test_inputs_are_plain_files_and_folders(site: BoundedSite, tmp_path: Path) -> None:
    written(tmp_path / "set" / "a", b"1")
    written(tmp_path / "set" / "deep" / "b", b"22")
    one = uploaded(site, b"333", "one")
    (end,) = await run(site, "find . -type f | sort; find . -type l", one, registered(site, tmp_path / "set", "all"))
    assert site.log(end) == "./all/a\n./all/deep/b\n./one\n"


async def test_an_empty_file_and_an_empty_folder_are_there(site: BoundedSite, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    nothing = uploaded(site, b"", "nothing")
    (end,) = await run(
        site, "stat -c '%F %s' nothing; ls none | wc -l", nothing, registered(site, tmp_path / "none", "none")
    )
    assert site.log(end) == "regular empty file 0\n0\n"


async def test_an_input_is_as_old_as_the_file_it_was_made_from(site: BoundedSite, tmp_path: Path) -> None:
    old = written(tmp_path / "old", b"x")
    os.utime(old, (1_000_000_000, 1_000_000_000))
    (end,) = await run(site, "stat -c %Y old", registered(site, old, "old"))
    assert site.log(end) == "1000000000\n"


async def test_a_file_that_may_be_executed_where_it_lies_may_be_in_a_job(site: BoundedSite, tmp_path: Path) -> None:
    written(tmp_path / "tools" / "say", b"#!/bin/sh\necho said\n", 0o755)
    (end,) = await run(site, "tools/say", registered(site, tmp_path / "tools", "tools"))
    assert (end.outcome, site.log(end)) == (Outcome.DONE, "said\n")


# --- what a job writes is its own ----------------------------------------------------------------------


async def test_what_a_job_appends_reaches_neither_the_registered_file_nor_the_next_job_nor_the_retry(
    site: BoundedSite, tmp_path: Path
) -> None:
    file = written(tmp_path / "a.txt", b"given\n", 0o666)
    given = registered(site, file, "a.txt")
    for attempt in (1, 2):
        ends = await run(site, "echo x >> a.txt; cat a.txt", given, jobs=2, attempt=attempt)
        assert [site.log(end) for end in ends] == ["given\nx\n"] * 2
    assert file.read_bytes() == b"given\n"


async def test_a_job_writes_to_its_own_copy_of_a_program(site: BoundedSite) -> None:
    tool = uploaded(site, b"#!/bin/sh\necho given\n", "tool", executable=True)
    ends = await run(site, "./tool; echo 'echo more' >> tool; ./tool", tool, jobs=2)
    assert [site.log(end) for end in ends] == ["given\ngiven\nmore\n"] * 2


async def test_a_job_has_a_folder_to_itself(site: BoundedSite, tmp_path: Path) -> None:
    written(tmp_path / "set" / "a", b"1\n")
    ends = await run(site, "ls all; rm all/a; touch all/new", registered(site, tmp_path / "set", "all"), jobs=2)
    assert [(end.outcome, site.log(end)) for end in ends] == [(Outcome.DONE, "a\n")] * 2
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["a"]


@pytest.mark.parametrize("script", ["sed -i s/given/mine/ a", "truncate -s 0 a", "chmod 600 a && mv a b && : > b"])
async def test_however_a_job_changes_an_input_it_is_its_own(site: BoundedSite, tmp_path: Path, script: str) -> None:
    file = written(tmp_path / "a", b"given\n", 0o666)
    (end,) = await run(site, script, registered(site, file, "a"))
    assert end.outcome is Outcome.DONE, end
    assert file.read_bytes() == b"given\n" and stat.S_IMODE(file.stat().st_mode) == 0o666


async def test_a_link_in_a_users_folder_is_made_again_and_not_followed(site: BoundedSite, tmp_path: Path) -> None:
    """Its content could be one that its owner may not read."""
    secret = written(tmp_path / "secret", b"secret\n")
    written(tmp_path / "set" / "a", b"1\n")
    (tmp_path / "set" / "near").symlink_to("a")
    (tmp_path / "set" / "far").symlink_to(secret)
    (end,) = await run(site, "cat all/near; readlink all/near all/far", registered(site, tmp_path / "set", "all"))
    assert site.log(end) == f"1\na\n{secret}\n"


async def test_a_registered_file_that_became_a_link_is_not_followed(site: BoundedSite, tmp_path: Path) -> None:
    secret = written(tmp_path / "secret", b"secret\n")
    given = registered(site, tmp_path / "a", "a")
    (tmp_path / "a").symlink_to(secret)
    (end,) = await run(site, "cat a", given)
    assert end.outcome is Outcome.STAGING_FAILED and "dataset:a is another than was staged" in end.error, end


async def test_an_input_within_another_is_refused_however_small_they_are(site: BoundedSite, tmp_path: Path) -> None:
    written(tmp_path / "set" / "a", b"1")
    folder, file = registered(site, tmp_path / "set", "all"), uploaded(site, b"2", "all/more")
    for inputs in ((folder, file), (file, folder)):
        site.start(shell("true", inputs=inputs), len(site.ends()))
        ends = await site.ended(len(site.ends()) + 1)
        assert ends[-1].outcome is Outcome.NOT_STARTED
        assert "'all/more' meets another input; give each a path of its own" in ends[-1].error


def restarted(site: RealSite, script: str, given: InputFile, state: bytes) -> None:
    """Start a second attempt that goes on from a checkpoint with `state`."""
    saved = uploaded(site, state, "-").source.partition(":")[2]
    spec = shell(script, inputs=(given,), checkpoint=CheckpointSpec(paths=("state",)))
    job = SavedJob(index=0, attempt=1, files=(SavedFile(path="state", size_bytes=len(state), sha256=saved),))
    order = Start(
        worker="",
        session=site.ready().session,
        subgroup=SUBGROUP,
        epoch=1,
        owner="u@vo",
        spec=spec,
        indices=IndexSet.of([0]),
        attempts=((0, 2),),
        saved=(job,),
    )
    site.lrm.start(order)


async def test_a_saved_file_comes_back_over_the_input_that_it_was_made_from(site: BoundedSite) -> None:
    restarted(site, "cat state", uploaded(site, b"as it was given, and longer\n", "state"), b"step 7\n")
    (end,) = await site.ended(1)
    assert (end.outcome, site.log(end)) == (Outcome.DONE, "step 7\n")


async def test_a_saved_file_is_never_written_through_a_link(site: BoundedSite, tmp_path: Path) -> None:
    file = written(tmp_path / "big", BIG, 0o666)
    restarted(site, "cat state", registered(site, file, "state"), b"step 7\n")
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.NOT_STARTED and "checkpoint.paths: 'state' is an input of it, too" in end.error
    assert file.read_bytes() == BIG


# --- what is too large is a mount, and a link where the machine has none ------------------------------

USERS = [None, 65534] if os.geteuid() == 0 else [None]
"""This one, and one without rights where we can be that."""


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """An environment in which no namespace can be made."""
    (tmp_path / "tools").mkdir()
    for name in ("find", "ls", "wc", "stat", "sort", "sh", "rm", "id", "cat"):
        (tmp_path / "tools" / name).symlink_to(str(shutil.which(name)))
    return {"PATH": str(tmp_path / "tools")}


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has no room for a copy."""
    monkeypatch.setattr(placing, "_RESERVE_SHARE", 2.0)
    monkeypatch.setattr(placing, "_clones", lambda source, at: False)


def allowed(user: int | None = None) -> bool:
    """Whether this machine allows mounts in a namespace."""
    words = ["unshare", "--user", "--map-root-user", "--mount", "unshare", "--user", "--map-user=1", "true"]
    if (os.geteuid() if user is None else user) == 0:
        words = ["unshare", "--mount", "true"]
    return subprocess.run(words, user=user, group=user, stderr=subprocess.DEVNULL, check=False).returncode == 0


async def test_what_is_larger_than_the_bound_is_a_plain_file_that_cannot_be_written(
    site: BoundedSite, tmp_path: Path
) -> None:
    big, small = registered(site, written(tmp_path / "big", BIG, 0o666), "in/big"), uploaded(site, b"1", "small")
    (end,) = await run(site, "find . -type f | sort; find . -type l; stat -Lc %s in/big; echo x >> in/big", big, small)
    if allowed():
        assert end.outcome is Outcome.FAILED and "was changed" not in end.error, end
        assert site.log(end).splitlines()[:3] == ["./in/big", "./small", str(len(BIG))]
        assert "Read-only file system" in site.log(end)
        assert (tmp_path / "big").read_bytes() == BIG
    else:
        assert site.log(end).splitlines()[:3] == ["./small", "./in/big", str(len(BIG))]


@pytest.mark.parametrize("user", USERS)
def test_the_job_has_its_own_user_and_cannot_undo_the_mounts(user: int | None) -> None:
    top = Path(tempfile.mkdtemp(prefix="diana mounts "))
    try:
        written(top / "big", b"given\n", 0o666)
        written(top / "set" / "a", b"1\n", 0o666)
        written(top / "links" / "0.paths", mounts.listed([("in/b ig", f"{top}/big"), ("all", f"{top}/set")]).encode())
        (top / "0" / "in").mkdir(parents=True)
        (top / "0" / "in" / "b ig").symlink_to(top / "big")
        (top / "0" / "all").symlink_to(top / "set")
        own = os.geteuid() if user is None else user
        for path in (top, *top.rglob("*")):
            os.chown(path, own, -1, follow_symlinks=False)
        script = (
            "id -u; cat 'in/b ig' all/a; find . -type f | sort; echo x >> 'in/b ig'; echo x > all/new;"
            " umount 'in/b ig';"
            " [ $(id -u) = 0 ] || (mount -o remount,bind,rw 'in/b ig'; echo y >> 'in/b ig'); echo \"$1\""
        )
        words = [*mounts.before(GroupSpec(argv=("x",))), "sh", "-c", script, "sh", "a  b*"]
        environment = {"PATH": os.environ["PATH"], "DIANA_INDEX": "0"}
        ended = subprocess.run(
            words, cwd=top / "0", env=environment, user=user, group=user, capture_output=True, text=True, check=True
        )
        found = ended.stdout.splitlines()
        assert (found[:3], found[-1]) == ([str(own), "given", "1"], "a  b*"), ended
        if allowed(user):
            assert found[3:-1] == ["./all/a", "./in/b ig"], ended
            assert (top / "big").read_text() == "given\n" and not (top / "set" / "new").exists(), ended
            mounts.clear(top / "0", ["in/b ig", "all"])
            assert [*(top / "0").rglob("*")] == [top / "0" / "in"]
    finally:
        shutil.rmtree(top)


@pytest.mark.parametrize("fault", ["mount", "remount"])
def test_a_link_stands_again_where_its_mount_could_not_be_made(tmp_path: Path, fault: str) -> None:
    """And nothing is deleted that the link leads to."""
    written(tmp_path / "set" / "a", b"1\n")
    written(tmp_path / "links" / "0.paths", mounts.listed([("all", f"{tmp_path}/set")]).encode())
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "all").symlink_to(tmp_path / "set")
    real = shutil.which("mount")
    lame = "exit 1" if fault == "mount" else f'case "$*" in *remount*) exit 1;; *) exec {real} "$@";; esac'
    written(tmp_path / "tools" / "mount", f"#!/bin/sh\n{lame}\n".encode(), 0o755)
    environment = {"PATH": f"{tmp_path}/tools:{os.environ['PATH']}", "DIANA_INDEX": "0"}
    words = [*mounts.before(GroupSpec(argv=("x",))), "cat", "all/a"]
    ended = subprocess.run(words, cwd=tmp_path / "0", env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == "1\n" and (tmp_path / "0" / "all").is_symlink()
    assert (tmp_path / "set" / "a").read_bytes() == b"1\n"


async def test_what_a_mount_stood_on_is_no_output(site: BoundedSite, tmp_path: Path) -> None:
    big = registered(site, written(tmp_path / "big", BIG), "big")
    site.start(shell("true", inputs=(big,), outputs=Outputs(collect=("big",)), sweep=Sweep()), 0)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.STAGING_FAILED and "output big is" in end.error, end


async def test_a_program_beyond_the_bound_runs(site: BoundedSite) -> None:
    tool = uploaded(site, b"#!/bin/sh\necho ran $1\nexit\n" + BIG, "tool", executable=True)
    site.start(GroupSpec(argv=("./tool", "fast"), inputs=(tool,)), 0)
    (end,) = await site.ended(1)
    assert (end.outcome, site.log(end)) == (Outcome.DONE, "ran fast\n")


async def test_without_namespaces_what_is_larger_than_the_bound_is_a_link_and_smaller_ones_are_not(
    site: BoundedSite, tmp_path: Path, without: dict[str, str]
) -> None:
    big, small = registered(site, written(tmp_path / "big", BIG, 0o666), "big"), uploaded(site, b"1", "small")
    (end,) = await run(site, "find . -type l; find . -type f; echo x >> big", big, small, environment=without)
    assert site.log(end) == "./big\n./small\n"
    assert end.outcome is Outcome.FAILED and "input big (dataset:big)" in end.error


async def test_a_folder_of_many_small_files_is_not_copied(
    site: BoundedSite, tmp_path: Path, without: dict[str, str]
) -> None:
    for k in range(30):
        written(tmp_path / "set" / str(k), b"x")
    given = registered(site, tmp_path / "set", "all")
    (end,) = await run(site, "find . -type l; ls all/ | wc -l", given, environment=without)
    assert (end.outcome, site.log(end)) == (Outcome.DONE, "./all\n30\n")


async def test_inputs_are_copied_in_their_order_as_long_as_there_is_room(
    site: BoundedSite, tmp_path: Path, without: dict[str, str]
) -> None:
    halves = [registered(site, written(tmp_path / name, bytes(600_000)), name) for name in "abc"]
    (end,) = await run(site, "find . -type f; find . -type l | sort", *halves, environment=without)
    assert site.log(end) == "./a\n./b\n./c\n"


# --- links are watched ---------------------------------------------------------------------------------


@pytest.mark.parametrize("script", ["echo x >> big", "printf y | dd of=big conv=notrunc 2>/dev/null", ": > big"])
async def test_a_job_that_changes_a_linked_input_fails_and_names_it(
    site: BoundedSite, tmp_path: Path, script: str
) -> None:
    file = written(tmp_path / "big", BIG, 0o666)
    (end,) = await run(site, script, registered(site, file, "big", link=True))
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 0)
    assert "input big (dataset:big) is shared by all jobs and was changed while this one ran" in end.error
    assert file.exists(), "what a user registered is the user's"


async def test_without_room_for_a_copy_what_the_site_keeps_is_thrown_away_once_a_job_changed_it(
    site: BoundedSite, full: None
) -> None:
    big = uploaded(site, BIG, "in/big", link=True)
    (end,) = await run(site, "chmod u+w in/big; echo x >> in/big", big)
    assert end.outcome is Outcome.FAILED and "input in/big (blob:" in end.error
    assert not site.data.blob(big.source.partition(":")[2]).exists()
    (again,) = await run(site, "cat in/big", big, attempt=2)
    assert again.outcome is Outcome.STAGING_FAILED
    told = f"input in/big ({big.source}) is not there: the site lost its copy of what was uploaded; submit the job file"
    assert told in again.error, again.error


async def test_a_change_in_a_linked_folder_is_noticed(site: BoundedSite, tmp_path: Path) -> None:
    for k in range(30):
        written(tmp_path / "set" / "deep" / str(k), b"x")
    given = registered(site, tmp_path / "set", "all", link=True)
    ends = await run(site, "[ $DIANA_INDEX = 0 ] || echo y > all/deep/new", given, jobs=2)
    assert [end.outcome for end in ends] == [Outcome.DONE, Outcome.FAILED]
    assert "input all (dataset:set)" in ends[1].error


async def test_a_job_that_replaces_its_link_changed_nothing(site: BoundedSite, tmp_path: Path) -> None:
    file = written(tmp_path / "big", BIG)
    (end,) = await run(site, "sed -i 1s/^/x/ big; echo y >> big", registered(site, file, "big", link=True))
    assert end.outcome is Outcome.DONE and file.read_bytes() == BIG


async def test_a_change_is_told_the_same_again_after_a_crash_of_the_node(site: BoundedSite, tmp_path: Path) -> None:
    file = written(tmp_path / "big", BIG, 0o666)
    await run(site, "echo x >> big", registered(site, file, "big", link=True))
    await site.restart_node()
    await site.until(lambda: len(site.ends()) > 1)
    assert {end.outcome for end in site.ends()} == {Outcome.FAILED}
    assert all("was changed while this one ran" in end.error for end in site.ends())


async def test_a_failed_job_that_changed_a_linked_input_says_both(site: BoundedSite, tmp_path: Path) -> None:
    file = written(tmp_path / "big", BIG, 0o666)
    (end,) = await run(site, "echo x >> big; exit 3", registered(site, file, "big", link=True))
    assert (end.outcome, end.exit_code) == (Outcome.FAILED, 3) and "was changed" in end.error


async def test_another_name_for_a_linked_file_is_no_change_of_it(site: BoundedSite, tmp_path: Path) -> None:
    file = written(tmp_path / "big", BIG)
    (end,) = await run(site, f"ln {file} {tmp_path}/backup", registered(site, file, "big", link=True))
    assert end.outcome is Outcome.DONE, end


async def test_a_change_that_keeps_size_and_time_of_writing_is_noticed(site: BoundedSite, tmp_path: Path) -> None:
    file = written(tmp_path / "big", BIG, 0o666)
    script = "touch -r big was; printf y | dd of=big conv=notrunc 2>/dev/null; touch -r was big"
    (end,) = await run(site, script, registered(site, file, "big", link=True))
    assert end.outcome is Outcome.FAILED, end


async def test_changed_content_is_thrown_away_under_all_names_that_the_site_has_for_it(
    site: BoundedSite, full: None
) -> None:
    big = uploaded(site, BIG, "big", link=True)
    blob = site.data.blob(big.source.partition(":")[2])
    other, apart = site.data.replica("ab" * 32) / "deep" / "x", written(site.data.cached("cd" * 32), b"apart")
    other.parent.mkdir(parents=True)
    os.link(blob, other)
    (end,) = await run(site, "chmod u+w big; echo x >> big", big)
    assert end.outcome is Outcome.FAILED
    assert not blob.exists() and not other.exists() and apart.exists()


async def test_a_program_that_is_a_link_is_one_for_all_and_watched(site: BoundedSite) -> None:
    tool = uploaded(site, b"#!/bin/sh\necho ran\nexit\n" + BIG, "tool", executable=True, link=True)
    ends = await run(site, "./tool; [ $DIANA_INDEX = 0 ] || (chmod u+w tool; echo x >> tool)", tool, jobs=2)
    assert [site.log(end) for end in ends] == ["ran\n"] * 2
    assert [end.outcome for end in ends] == [Outcome.DONE, Outcome.FAILED]
    (again,) = await run(site, "tail -c 2 tool | grep x; ./tool", tool, attempt=2)
    assert (again.outcome, site.log(again)) == (Outcome.DONE, "ran\n")


async def test_a_small_input_is_a_link_where_its_user_says_so_and_watched(site: BoundedSite, tmp_path: Path) -> None:
    file = written(tmp_path / "a", b"given\n", 0o666)
    ends = await run(
        site,
        "find . -type l; [ $DIANA_INDEX = 0 ] || echo x >> a",
        registered(site, file, "a", link=True),
        jobs=2,
    )
    assert [site.log(end) for end in ends] == ["./a\n"] * 2
    assert [end.outcome for end in ends] == [Outcome.DONE, Outcome.FAILED]


# --- what the site keeps is behind no link --------------------------------------------------------------


async def overtaken(site: BoundedSite, tmp_path: Path, change: str, linked: InputFile, *others: InputFile) -> None:
    """While a job that changed its link runs, start one for each of the others, which shows what it has as `in`."""
    done = tmp_path / "done"
    wait = f"touch {tmp_path}/changed; while [ ! -e {done} ]; do sleep 0.05; done"
    site.start(shell(f"{change}; {wait}", inputs=(linked,)), 0)
    await site.until(lambda: (tmp_path / "changed").exists())
    for at, other in enumerate(others, 1):
        site.start(shell("cat in", inputs=(other,)), at)
        await site.ended(at)
    assert [(end.outcome, site.log(end)) for end in site.ends()] == [(Outcome.DONE, "given\n")] * len(others)
    done.touch()
    (first,) = [end for end in await site.ended(len(others) + 1) if end.run.index == 0]
    assert first.outcome is Outcome.FAILED and "was changed while this one ran" in first.error, first


CHANGE = "chmod u+w in; echo x >> in"


@pytest.mark.parametrize("change", [CHANGE, "chmod u+w in; : > in", "touch in", "rm -f $(readlink in)"])
async def test_whatever_a_job_does_to_its_link_others_and_the_next_attempt_find_the_upload(
    site: BoundedSite, tmp_path: Path, change: str
) -> None:
    linked = uploaded(site, b"given\n", "in", link=True)
    copied = InputFile(source=linked.source, path="in")
    await overtaken(site, tmp_path, change, linked, copied, linked)
    (again,) = await run(site, "test -L in; cat in", linked, attempt=2)
    assert (again.outcome, site.log(again)) == (Outcome.DONE, "given\n")
    assert site.data.blob(linked.source.partition(":")[2]).read_bytes() == b"given\n"


async def test_a_changed_program_is_no_other_jobs(site: BoundedSite, tmp_path: Path) -> None:
    program = uploaded(site, b"given\n", "in", executable=True, link=True)
    await overtaken(site, tmp_path, CHANGE, program, program)


@pytest.mark.parametrize("whole", [True, False])
async def test_what_a_job_writes_to_a_link_to_a_brought_dataset_reaches_no_other(
    site: BoundedSite, tmp_path: Path, whole: bool
) -> None:
    # The files of a brought dataset are other names of uploads with the same content.
    copied = uploaded(site, b"given\n", "in")
    blob, kept = site.data.blob(copied.source.partition(":")[2]), site.data.replica("ab" * 32)
    (kept / "deep").mkdir(parents=True)
    os.link(blob, kept / "deep" / "a")
    if whole:
        linked = registered(site, kept, "set", link=True)
    else:
        at = site.data.staged(SUBGROUP) / "dataset" / "set" / "deep" / "a"
        at.parent.mkdir(parents=True)
        at.symlink_to(kept / "deep" / "a")
        linked = InputFile(source="dataset:set", path="set", link=True)
    await overtaken(site, tmp_path, "chmod u+w set/deep/a; echo x >> set/deep/a", linked, copied)
    (again,) = await run(site, "cat set/deep/a", linked, attempt=2)
    assert (again.outcome, site.log(again)) == (Outcome.DONE, "given\n")


async def test_gathered_outputs_that_were_registered_are_not_thrown_away(site: BoundedSite, full: None) -> None:
    gathered = written(site.data.gathered(GroupId("alpha-9")) / "a", b"given\n", 0o666)
    (end,) = await run(site, "echo x >> in", registered(site, gathered, "in", link=True))
    assert end.outcome is Outcome.FAILED and gathered.exists()


async def test_jobs_of_a_subgroup_share_one_copy(site: BoundedSite) -> None:
    linked = uploaded(site, b"given\n", "in", link=True)
    ends = await run(site, "readlink in; stat -c '%i %a' $(readlink in)", linked, jobs=3)
    (log,) = {site.log(end) for end in ends}
    assert log.startswith(f"{site.data.staged(SUBGROUP)}/") and log.endswith(" 444\n")
    assert [end.outcome for end in ends] == [Outcome.DONE] * 3


async def test_the_node_itself_runs_no_program_of_a_jobs_own_path(site: BoundedSite, tmp_path: Path) -> None:
    """Only a job's environment says which job it is."""
    tool, ran = tmp_path / "tools" / "unshare", tmp_path / "ran"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "job:$DIANA_JOB" >> {ran}\nexit 1\n')
    tool.chmod(0o755)
    environment = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    (end,) = await run(site, "unshare; cmp big big", uploaded(site, BIG, "big"), environment=environment)
    assert end.outcome is Outcome.DONE
    assert "job:" not in ran.read_text().split()


async def test_without_namespaces_a_large_upload_is_a_link_to_a_copy(
    site: BoundedSite, without: dict[str, str]
) -> None:
    big = uploaded(site, BIG, "big")
    (end,) = await run(site, "find . -type l; echo x >> big", big, environment=without)
    assert site.log(end).startswith("./big\n")
    assert site.data.blob(big.source.partition(":")[2]).read_bytes() == BIG


async def test_what_a_user_registered_is_linked_where_it_lies(site: BoundedSite, tmp_path: Path) -> None:
    file = written(tmp_path / "a", b"given\n")
    (end,) = await run(site, "readlink in", registered(site, file, "in", link=True))
    assert site.log(end) == f"{file}\n"


# --- the disk ------------------------------------------------------------------------------------------


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_copy_that_the_disk_does_not_take_is_one_line_and_leaves_no_directory(
    site: BoundedSite, tmp_path: Path
) -> None:
    one, two = uploaded(site, b"1", "one"), registered(site, written(tmp_path / "two", bytes(900_000)), "in/two")
    with largest_file(500_000):
        (end,) = await run(site, "true", one, two)
    at = site.data.job(SUBGROUP, 1, 0)
    assert end.outcome is Outcome.STAGING_FAILED
    assert end.error.endswith(f"at site alpha: {at}/in/two: File too large; see the site's disk"), end.error
    assert not at.exists()
    (again,) = await run(site, "cat one", one, two, attempt=2)
    assert again.outcome is Outcome.DONE


def test_an_input_larger_than_what_is_free_is_no_copy(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with open(huge, "wb") as file:
        disk = os.statvfs(tmp_path)
        file.truncate(disk.f_bavail * disk.f_frsize + 1)
    placer = placing.Placer(tmp_path, tmp_path / "staged", 1 << 60)
    placer.begin()
    at = os.open(tmp_path, os.O_RDONLY)
    assert placer.copies(at, huge) is None or placer._clones[(huge.stat().st_dev, tmp_path.stat().st_dev)]
    os.close(at)


def test_a_file_that_is_written_while_it_is_copied_is_no_input(tmp_path: Path) -> None:
    file = written(tmp_path / "file", b"x" * 100)
    placer = placing.Placer(tmp_path, tmp_path / "staged", 1 << 20)
    placer.begin()
    at = os.open(tmp_path, os.O_RDONLY)
    content = placer.copies(at, file)
    assert content is not None
    file.write_bytes(b"y" * 101)
    with pytest.raises(placing.InputChanged):
        placer.put(content, at, "copy", False, None)
    os.close(at)


def test_a_folder_of_more_files_than_are_looked_at_is_not_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MOST_FILES", 3)
    for k in range(3):
        written(tmp_path / "set" / str(k), b"x")
    assert links.mark_of(str(tmp_path / "set"))
    written(tmp_path / "set" / "deep" / "3", b"x")
    assert links.mark_of(str(tmp_path / "set")) == ""


def test_a_data_directory_behind_a_link_of_its_operators_gives_copies(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    data = DataDir(tmp_path / "data")
    content = written(data.cached("ab" * 32), b"kept")
    placer = placing.Placer(data.root.resolve(), data.root / "staged", 1 << 20)
    placer.begin()
    at = os.open(tmp_path, os.O_RDONLY)
    found = placer.copies(at, content)
    assert found is not None
    placer.put(found, at, "copy", False, None)
    os.close(at)
    assert (tmp_path / "copy").read_bytes() == b"kept"


def test_a_folder_deeper_than_anybody_looks_is_no_copy(tmp_path: Path) -> None:
    top = tmp_path / "staged" / "dataset" / "deep"
    for depth, copied in ((50, True), (150, False)):
        top.joinpath(*["d"] * depth).mkdir(parents=True)
        placer = placing.Placer(tmp_path, tmp_path / "staged", placing.COPY_BYTES)
        placer.begin()
        at = os.open(tmp_path, os.O_RDONLY)
        try:
            assert (placer.copies(at, top) is not None) == copied
        finally:
            os.close(at)


async def test_an_input_that_may_not_be_read_is_named_with_the_mend(
    site: BoundedSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = registered(site, written(tmp_path / "mine" / "a", b"x", 0), "a")
    open_below = placing._open_below

    def refused(root: Path, parts: Sequence[str]) -> int:
        if parts[-1] == "a":
            # Who runs the tests may read everything.
            raise PermissionError(errno.EACCES, "Permission denied", "a")
        return open_below(root, parts)

    monkeypatch.setattr(placing, "_open_below", refused)
    (end,) = await run(site, "true", made)
    assert end.outcome is Outcome.STAGING_FAILED
    assert f"input dataset:a: {tmp_path}/mine/a may not be read; let the node's account read it" in end.error
