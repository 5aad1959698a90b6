"""The claim log and what a successor makes of it (PROMISES 1.3 and 1.6, section 2 "Claim")."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.adapters.datadir import OpenDataDir
from diana.adapters.lrm import launch
from diana.adapters.lrm.local import LocalLrm
from diana.adapters.lrm.spawner.__main__ import LOCK
from diana.adapters.lrm.spawner.claims import claimlog, losses, records
from diana.adapters.lrm.spawner.claims.records import Dropped, LogOpened, Record, Starting, Term
from diana.adapters.lrm.spawner.identity import MachineIdentity, machine
from diana.adapters.lrm.spawner.protocol import Frames, Hello, Refused, Welcome, frame
from diana.errors import DianaError
from diana.model.facts import Outcome
from tests.contract.lrm_builders import RealSite, alive, shell

HERE = MachineIdentity("boot", 1, 2)
OPENED = LogOpened(records.VERSION, 1, 0, HERE, 0.0, 0.0)


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[RealSite]:
    site = RealSite(tmp_path / "data")
    await site.up()
    yield site
    await site.down()


async def killed_with_changed_log(site: RealSite, change: Callable[[list[Record]], list[Record]]) -> None:
    """The spawner is killed and its successor finds the log as `change` leaves it. The node's adapter is new too."""
    await site.lrm.close()
    os.kill(site.spawner_pid(), signal.SIGKILL)
    await site.until(lambda: not alive(site.spawner_pid()))
    path = site.data.spawner / "claims.log"
    claimlog.ClaimLog(path, change(claimlog.read(path))).close()
    await site.restart_node()


async def running(site: RealSite, tmp_path: Path, then: str) -> int:
    """Pid of a job that runs now."""
    mark = tmp_path / "pid"
    site.start(shell(f"echo $$ > {mark}.new; mv {mark}.new {mark}; {then}"), 0)
    await site.until(mark.exists)
    return int(mark.read_text())


def test_a_torn_tail_is_cut_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = claimlog.ClaimLog(path, [OPENED])
    log.add(Term(1))
    log.add(Dropped([(1, [2, 3])]))
    log.sync()
    whole = path.read_bytes()
    for cut in range(1, 8):
        path.write_bytes(whole[:-cut])
        assert claimlog.read(path) == [OPENED, Term(1)]
    path.write_bytes(whole + bytes(100))
    assert claimlog.read(path) == [OPENED, Term(1), Dropped([(1, [2, 3])])]


@settings(max_examples=60, deadline=None)
@given(flip=st.integers(min_value=0), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_costs_the_last_record_only(
    tmp_path_factory: pytest.TempPathFactory, flip: int, bit: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    log = claimlog.ClaimLog(path, [OPENED])
    before = [OPENED, Term(1), Term(2)]
    for record in before[1:]:
        log.add(record)
    log.sync()
    log.close()
    data = bytearray(path.read_bytes())
    data[flip % len(data)] ^= 1 << bit
    path.write_bytes(data)
    try:
        assert claimlog.read(path) == before[:-1]
    except claimlog.LogDamaged as fault:
        assert str(path) in str(fault) and "\n" not in str(fault)


def test_a_log_of_a_later_release_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    claimlog.ClaimLog(path, [msgspec.structs.replace(OPENED, version=records.VERSION + 1)]).close()
    with pytest.raises(records.LogNewer, match="newer release"):
        claimlog.read(path)


async def test_a_spawner_that_cannot_start_says_why(tmp_path: Path) -> None:
    site = RealSite(tmp_path)
    claimlog.ClaimLog(site.data.spawner / "claims.log", [msgspec.structs.replace(OPENED, version=99)]).close()
    launch_wait_s, launch._START_WAIT_S = launch._START_WAIT_S, 1.0
    try:
        with pytest.raises(DianaError, match="newer release"):
            await asyncio.to_thread(LocalLrm.launch, site.data)
    finally:
        launch._START_WAIT_S = launch_wait_s


async def test_a_changed_machine_means_interrupted_also_for_what_waited(site: RealSite, tmp_path: Path) -> None:
    pid = await running(site, tmp_path, "exec sleep 60")
    site.start(shell(f"touch {tmp_path}/claimed; exec sleep 60"), 1, 2)
    await site.until((tmp_path / "claimed").exists)

    def other_boot(log: list[Record]) -> list[Record]:
        return [msgspec.structs.replace(r, machine=HERE) if isinstance(r, LogOpened) else r for r in log]

    await killed_with_changed_log(site, other_boot)
    await site.ended(3)
    assert {end.outcome for end in site.ends()} == {Outcome.INTERRUPTED}
    os.kill(pid, signal.SIGKILL)


async def test_a_process_that_merely_has_the_pid_is_neither_adopted_nor_killed(site: RealSite, tmp_path: Path) -> None:
    pid = await running(site, tmp_path, "sleep 5")
    with subprocess.Popen(["/bin/sleep", "600"]) as innocent:

        def reused(log: list[Record]) -> list[Record]:
            for record in log:
                if isinstance(record, records.Started):
                    record.runs[0].pid = innocent.pid
                    record.runs[0].by_s -= 1000.0
                if isinstance(record, Starting):
                    record.runs[0].at_s -= 1000.0
            return log

        await killed_with_changed_log(site, reused)
        (end,) = await site.ended(1)
        assert end.outcome is Outcome.UNKNOWN
        assert alive(innocent.pid)
        innocent.kill()
    assert not alive(pid)


async def test_a_start_nobody_wrote_down_is_found_by_its_mark_and_adopted(site: RealSite, tmp_path: Path) -> None:
    pid = await running(site, tmp_path, f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo done")
    await killed_with_changed_log(site, lambda log: [r for r in log if not isinstance(r, records.Started)])
    assert [run.index for run in site.ready().known] == [0] and site.ends() == [] and alive(pid)
    (tmp_path / "go").touch()
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.UNKNOWN and not alive(pid)
    assert site.log(end) == "done\n"


async def test_a_start_nobody_wrote_down_that_is_gone_is_unknown(site: RealSite, tmp_path: Path) -> None:
    pid = await running(site, tmp_path, "sleep 5")

    def change(log: list[Record]) -> list[Record]:
        os.kill(pid, signal.SIGKILL)
        return [r for r in log if not isinstance(r, records.Started)]

    await killed_with_changed_log(site, change)
    (end,) = await site.ended(1)
    assert end.outcome is Outcome.UNKNOWN and "not known" in end.error


async def test_an_adopted_job_keeps_its_slot_and_can_be_cancelled(site: RealSite, tmp_path: Path) -> None:
    pid = await running(site, tmp_path, "sleep 60 & sleep 60")
    await site.lose_lrm()
    site.start(shell("echo $DIANA_SLOT"), 1, 2)
    await site.ended(2)
    assert {site.log(end) for end in site.ends()} == {"1\n"}
    site.kill(0)
    await site.ended(3)
    assert site.by_index()[0].outcome is Outcome.CANCELLED and not alive(pid)


async def test_ends_survive_the_spawner(site: RealSite) -> None:
    site.start(shell("exit $DIANA_INDEX"), 0, 1)
    await site.ended(2)
    site.events.clear()
    await site.lose_lrm()
    await site.ended(2)
    assert {i: (end.outcome, end.exit_code) for i, end in site.by_index().items()} == {
        0: (Outcome.DONE, 0),
        1: (Outcome.FAILED, 1),
    }


async def test_a_node_killed_with_its_process_group_leaves_its_jobs_alone(tmp_path: Path) -> None:
    code = f"""
        import asyncio
        from pathlib import Path
        from tests.contract.lrm_builders import RealSite, shell
        async def main():
            site = RealSite(Path({str(tmp_path / "data")!r}))
            await site.up()
            then = "until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo $DIANA_INDEX >> {tmp_path}/marks"
            site.start(shell(then), 0, 1, 2)
            await site.shows(2, lambda log: log.stand == "waits")
            print("started", flush=True)
            await asyncio.sleep(60)
        asyncio.run(main())
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": "."},
    ) as node:
        assert node.stdout is not None
        assert await asyncio.to_thread(node.stdout.readline) == b"started\n"
        os.killpg(node.pid, signal.SIGKILL)
    site = RealSite(tmp_path / "data")
    await site.lrm.connect()
    assert {run.index for run in site.ready().known} == {0, 1, 2}
    (tmp_path / "go").touch()
    assert {end.outcome for end in await site.ended(3)} == {Outcome.DONE}
    assert sorted((tmp_path / "marks").read_text().split()) == ["0", "1", "2"]
    await site.down()


async def test_a_node_of_an_older_term_is_refused_and_only_the_newest_connection_commands(site: RealSite) -> None:
    def greet(term: int) -> object:
        sock = launch.connect(site.data)
        assert sock is not None
        with sock:
            sock.sendall(frame(Hello(1, term, "alpha", 2)))
            sock.settimeout(60)
            return next(Frames().feed(sock.recv(1 << 16)))

    assert isinstance(await asyncio.to_thread(greet, 7), Welcome)
    refused = await asyncio.to_thread(greet, 6)
    assert isinstance(refused, Refused) and "term 7" in refused.reason
    await site.until(lambda: site.losses() == 1)


async def test_a_forgotten_log_is_compacted(site: RealSite) -> None:
    site.start(shell("true", sweep=shell("").sweep), *range(20))
    site.forget(*await site.ended(20))
    await site.restart_node()
    before = (site.data.spawner / "claims.log").stat().st_size
    await site.lose_lrm()
    assert (site.data.spawner / "claims.log").stat().st_size < before / 4


def test_the_identity_of_a_machine_is_the_same_for_every_process_on_it() -> None:
    code = "from diana.adapters.lrm.spawner.identity import machine; print(machine())"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": "."}
    )
    assert out.stdout.strip() == str(machine())


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b'{"wall_s": 1, "text": "' + b"x" * (1 << 20) + b'"}'])
def test_a_note_of_a_loss_that_cannot_be_read_tells_nothing(tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "claims.log"
    losses.keep(log, "lacks its end")
    assert (kept := losses.last(log)) is not None and kept.text == "lacks its end"
    losses.beside(log).write_bytes(content)
    assert losses.last(log) is None


async def test_a_claim_log_that_went_with_its_mark_while_nothing_ran_is_said_to_be_gone(site: RealSite) -> None:
    log = site.data.spawner / "claims.log"
    site.start(shell("true"), 0)
    site.forget(*await site.ended(1))
    await site.lose_lrm()
    assert losses.last(log) is None
    await site.lrm.close()
    os.kill(site.spawner_pid(), signal.SIGKILL)
    await site.until(lambda: not alive(site.spawner_pid()))
    log.unlink()
    log.with_suffix(".mark").unlink()
    await site.restart_node()
    assert (kept := losses.last(log)) is not None and kept.text == f"{log}: is gone"


def test_a_first_log_that_found_no_room_is_not_said_to_be_gone(tmp_path: Path) -> None:
    opened = OpenDataDir(tmp_path / "data", ballast_bytes=4096)
    spawner = opened.paths.spawner
    few = textwrap.dedent(
        """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
        from diana.adapters.lrm.spawner.__main__ import main
        sys.exit(main(sys.argv[1]))
        """
    )
    subprocess.run([sys.executable, "-c", few, str(opened.paths.root)], check=True)
    while not (spawner / "claims.mark").exists():
        time.sleep(0.01)
    with (spawner / LOCK).open() as lock:
        # Until it ended.
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert lock.read() == "" and not (spawner / "claims.log").exists()
    opened.close()
