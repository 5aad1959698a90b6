"""SPEC U2, U10: broken set-ups on purpose; each gives the one line a stranger would want, with the mend."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import socket
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from diana.adapters.lrm.spawner.claims import records
from diana.adapters.lrm.spawner.claims.claimlog import ClaimLog
from diana.adapters.lrm.spawner.claims.records import LogOpened
from diana.adapters.lrm.spawner.identity import MachineIdentity
from diana.adapters.sqlite_store.store import SqliteStore
from diana.errors import Denied
from diana.model.layout import DataDir
from diana.node.doctor import files, machine
from diana.node.doctor.bounded import Check, blocking, fail, ok, run_all
from diana.node.doctor.checkup import checkup
from diana.node.ways_in.audit import AUDIT_HEAD, Audit
from diana.ports import Batch
from diana.wire.client.peers import CheckResult, DoctorResponse
from tests.node.sick_sites import examined, issue, said, silent, site_at

DAY_S = 86_400.0


@pytest.fixture
def alpha(tmp_path: Path) -> DataDir:
    return site_at(tmp_path / "alpha")


def test_a_new_site_has_nothing_failed_and_the_exit_is_good(alpha: DataDir, capsys: pytest.CaptureFixture[str]) -> None:
    from diana.cli.main import main

    assert main(["doctor", "--data", str(alpha.root)]) == 0
    shown = capsys.readouterr().out
    assert " 0 failed" in shown
    assert f"warn  node         it does not run; start it with: diana node --data {alpha.root}" in shown
    assert "ok    certificate" in shown and "ok    signing" in shown and "ok    multicast" in shown


def test_looking_changes_nothing(alpha: DataDir) -> None:
    SqliteStore(alpha.journal).close()
    Audit(alpha.audit).close()

    def lies() -> dict[str, tuple[int, int, int]]:
        every = [p for p in alpha.root.rglob("*") if p.is_file()]
        return {str(p): (p.stat().st_size, p.stat().st_mtime_ns, p.stat().st_mode) for p in every}

    before = lies()
    examined(alpha)
    assert lies() == before


def test_no_directory_and_no_settings_are_one_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from diana.cli.main import main

    assert main(["doctor", "--data", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().out.splitlines()[0] == (
        f"fail  data  {tmp_path}/none: no such directory; make a site with diana init NAME --data {tmp_path}/none "
        "or diana join, or name another with --data"
    )
    (row,) = checkup(tmp_path, silent).checks
    assert said(row)[:2] == ("fail", f"{tmp_path}/site.toml: no such file")
    (tmp_path / "site.toml").write_text('site = "alpha"\nvo = "v"\nslots = 3\n')
    (row,) = checkup(tmp_path, silent).checks
    assert said(row) == (
        "fail", f"{tmp_path}/site.toml:slots: unknown key", "it belongs under [settings] as settings.slots",
    )  # fmt: skip


# --- rights ---------------------------------------------------------------------------------------------


def test_a_key_that_others_can_read_is_named_with_the_command_that_closes_it(alpha: DataDir) -> None:
    key = alpha.keys / "site.key"
    key.chmod(0o644)
    row = examined(alpha)["rights"]
    assert said(row) == ("fail", f"{key} can be read by others (644)", f"chmod 600 {key}")
    key.chmod(0o600)
    alpha.keys.chmod(0o755)
    assert said(examined(alpha)["rights"])[2] == f"chmod 700 {alpha.keys}"
    alpha.keys.chmod(0o700)
    alpha.root.chmod(0o755)
    assert said(examined(alpha)["rights"]) == (
        "warn", f"{alpha.root} is open to others (755)", f"chmod 700 {alpha.root}",
    )  # fmt: skip


def test_a_file_of_another_account_is_found(alpha: DataDir) -> None:
    os.chown(alpha.keys / "site.key", 12345, -1)
    row = examined(alpha)["rights"]
    assert row.state == "fail" and "site.key belongs to uid 12345" in row.found
    assert row.mend == f"chown -R {files.account(os.geteuid())} {alpha.root}"


# --- certificates ---------------------------------------------------------------------------------------


def test_an_expired_certificate_says_since_when_and_how_to_come_in_again(tmp_path: Path, alpha: DataDir) -> None:
    beta = site_at(tmp_path / "beta", "beta", alpha.root)
    later = time.time() + 10 * DAY_S
    row = examined(beta, lambda: later)["certificate"]
    assert row.state == "fail" and ", 3.0 days ago" in row.found
    assert row.mend == (
        "at another site of the VO that is a signer: diana invite --site beta --again, "
        f"then here: diana join - --data {beta.root}"
    )
    (beta.keys / "site.key").unlink()
    row = examined(beta)["certificate"]
    assert row.state == "fail" and row.found == f"{beta.keys / 'site.key'}: No such file or directory"
    assert row.mend.startswith("put its keys back from a backup made with --keys; or at another site of the VO that is")
    # A signer needs nobody.
    assert examined(alpha, lambda: later)["certificate"].mend == (
        f"start the node, it renews its own: diana node --data {alpha.root}"
    )


def test_a_certificate_that_should_have_been_renewed_is_a_warning(tmp_path: Path, alpha: DataDir) -> None:
    beta = site_at(tmp_path / "beta", "beta", alpha.root)
    beta.signers.write_text('{"alpha": "10.0.0.1:7400"}')
    row = examined(beta, lambda: time.time() + 6 * DAY_S)["certificate"]
    assert row.state == "warn" and row.found == "it holds for 1.0 days more and was not renewed in time"
    assert row.mend.startswith("have a signer in reach (alpha); audit.log says what failed")
    assert said(examined(beta)["signing"]) == ("ok", "alpha renews its certificate", "")


def test_a_certificate_from_the_future_means_the_clock(alpha: DataDir) -> None:
    row = examined(alpha, lambda: time.time() - DAY_S)["certificate"]
    assert row.state == "fail" and row.found.endswith("only, which is yet to come here")
    assert row.mend == "set this machine's clock: timedatectl set-ntp true"


def test_another_sites_certificate_and_a_foreign_key_are_told(tmp_path: Path, alpha: DataDir) -> None:
    issue(alpha, alpha, "beta")
    row = examined(alpha)["certificate"]
    assert row.state == "fail"
    assert row.found.endswith("is that of site:beta of alpha-vo, site.toml says site:alpha of alpha-vo")
    other = site_at(tmp_path / "other", "alpha")
    (alpha.keys / "site.key").write_bytes((other.keys / "site.key").read_bytes())
    assert "not the key of site.pem" in examined(alpha)["certificate"].found
    for name in ("site.pem", "site.key"):
        (alpha.keys / name).write_bytes((other.keys / name).read_bytes())
    assert examined(alpha)["certificate"].state == "fail", "signed by another VO of the same name"


# --- disk, store, audit ---------------------------------------------------------------------------------


def kept(paths: DataDir, key: str = "", value: str = "") -> None:
    store = SqliteStore(paths.journal)
    for number in range(60):
        store.commit(Batch(at_s=float(number), records=(b"r" * 4000,), facts=()))
    if key:
        store.set_meta(key, value)
    store.close()


def test_a_claim_log_that_is_gone_is_not_told_as_one_that_never_was(alpha: DataDir) -> None:
    row = examined(alpha)["claims"]
    assert (row.state, row.found) == ("ok", "none yet")
    alpha.spawner.mkdir(mode=0o700, exist_ok=True)
    (alpha.spawner / "lock").write_text("4711\n")
    row = examined(alpha)["claims"]
    assert (row.state, row.found) == ("warn", f"{alpha.spawner / 'claims.log'}: is gone")
    # Whoever deletes all of the folder takes the lock as well.
    shutil.rmtree(alpha.spawner)
    (row,) = files.claims(alpha, running=True)
    assert (row.state, row.found) == ("warn", f"{alpha.spawner / 'claims.log'}: is gone")


def test_a_damaged_claim_log_is_told_with_its_way_out_once(alpha: DataDir) -> None:
    opened = LogOpened(records.VERSION, 1, 0, MachineIdentity("boot", 1, 2), 0.0, 0.0, "log-1")
    alpha.spawner.mkdir(mode=0o700, exist_ok=True)
    log = ClaimLog(alpha.spawner / "claims.log", [opened])
    log.close()
    whole = (alpha.spawner / "claims.log").read_bytes()
    (alpha.spawner / "claims.log").write_bytes(whole[:-1] + b"rubbish" + whole)
    row = examined(alpha)["claims"]
    assert row.state == "fail" and "whole records follow" in row.found
    assert row.mend == "see what ran here, then move the file away" and row.mend not in row.found


def test_a_damaged_store_is_told_before_a_node_trips_over_it(alpha: DataDir) -> None:
    kept(alpha)
    assert said(examined(alpha)["store"])[0] == "ok"
    data = bytearray(alpha.journal.read_bytes())
    data[4096:8192] = random.Random(1).randbytes(4096)
    alpha.journal.write_bytes(data)
    row = examined(alpha)["store"]
    assert row.state == "fail" and row.found.startswith("journal.db is damaged: ")
    assert row.mend == f"stop the node, keep {alpha.journal} aside, restore a backup: diana restore"


def test_a_store_of_a_newer_release_and_one_that_is_none_are_told(alpha: DataDir) -> None:
    kept(alpha)
    with sqlite3.connect(alpha.journal) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    row = examined(alpha)["store"]
    assert (row.state, row.mend) == ("fail", "start the newer release, or restore a backup")
    alpha.journal.write_bytes(b"no database at all, " * 300)
    assert examined(alpha)["store"].state == "fail"


def trail(paths: DataDir, lines: int = 5) -> str:
    audit = Audit(paths.audit)
    for number in range(lines):
        audit.note(f"user-{number}@vo", "submit", f"alpha-{number}")
    head = audit.head()
    audit.close()
    return head


def test_a_changed_line_of_the_audit_trail_is_named(alpha: DataDir) -> None:
    trail(alpha)
    assert said(examined(alpha)["audit"]) == ("ok", "audit.log, 5 lines, none changed or missing", "")
    lines = alpha.audit.read_text().splitlines()
    said_there = json.loads(lines[2])
    said_there["who"] = "mallory@vo"
    lines[2] = json.dumps(said_there, separators=(",", ":"))
    alpha.audit.write_text("\n".join(lines) + "\n")
    row = examined(alpha)["audit"]
    assert row.state == "fail" and "line 3 was changed" in row.found
    assert row.mend.startswith("find out who could write there")


def test_a_cut_off_end_of_the_trail_shows_by_what_the_store_remembers(alpha: DataDir) -> None:
    kept(alpha, AUDIT_HEAD, trail(alpha))
    assert examined(alpha)["audit"].state == "ok"
    alpha.audit.write_text("".join(alpha.audit.read_text().splitlines(keepends=True)[:3]))
    assert "ends at line 3, though line 5 stood there" in examined(alpha)["audit"].found


# --- this machine -----------------------------------------------------------------------------------------


def test_a_taken_port_is_told_with_who_has_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        alpha = site_at(tmp_path / "alpha", listen=where)
        row = examined(alpha)["port"]
    assert row.state == "fail" and row.found.startswith(f"{where} is taken by process {os.getpid()} (")
    assert row.mend == "stop that, or set listen in alpha's site.toml to another port"
    assert examined(alpha)["port"].state == "ok"


def test_an_address_of_another_machine_cannot_be_listened_on(tmp_path: Path) -> None:
    alpha = site_at(tmp_path / "alpha", listen="192.0.2.1:7400")
    row = examined(alpha)["port"]
    assert said(row) == (
        "fail", "listen = 192.0.2.1:7400: Cannot assign requested address", "set listen to an address of this machine",
    )  # fmt: skip


def test_a_lock_is_seen_without_being_touched(alpha: DataDir) -> None:
    from diana.adapters.datadir import OpenDataDir

    assert machine.holder(alpha.lock) is None
    held = OpenDataDir(alpha.root)
    try:
        assert machine.holder(alpha.lock) == machine.Holder(os.getpid(), stopped=False)
    finally:
        held.close()
    assert machine.holder(alpha.lock) is None


def test_a_node_that_does_not_answer_is_told_from_one_that_does_not_run(alpha: DataDir) -> None:
    from diana.adapters.datadir import OpenDataDir

    held = OpenDataDir(alpha.root)
    try:
        rows = examined(alpha)
    finally:
        held.close()
    assert rows["node"].state == "fail" and f"process {os.getpid()} runs but does not answer" in rows["node"].found
    assert rows["spawner"].state == "fail", "a running node without a spawner starts no job"
    assert f"kill -9 {os.getpid()}" in rows["node"].mend


def test_a_caller_who_may_not_ask_gets_what_can_be_seen_without_the_node(alpha: DataDir) -> None:
    from diana.adapters.datadir import OpenDataDir

    def denied() -> DoctorResponse:
        raise Denied("user ann@vo may not diagnose")

    held = OpenDataDir(alpha.root)
    try:
        rows = {row.name: row for row in checkup(alpha.root, denied).checks}
    finally:
        held.close()
    assert "ann@vo may not diagnose" in rows["node"].found and "multicast" in rows


# --- nothing hangs ----------------------------------------------------------------------------------------


async def test_a_check_that_hangs_costs_its_own_line_and_no_more() -> None:
    over = threading.Event()
    ended: list[bool] = []

    def hang() -> list[CheckResult]:
        ended.append(over.wait(60))
        return [ok("disk", "never said")]

    async def fine() -> list[CheckResult]:
        return [ok("port", "free")]

    async def breaks() -> list[CheckResult]:
        raise ZeroDivisionError("a bug")

    async def unreadable() -> list[CheckResult]:
        raise PermissionError(13, "Permission denied", "/x")

    try:
        rows = await run_all(
            [blocking("disk", hang, "the disk hangs"), Check("port", fine, ""), Check("bug", breaks, ""),
             Check("file", unreadable, "")],
            limit_s=0.2,
        )  # fmt: skip
        assert not ended
    finally:
        over.set()
    assert rows == [
        CheckResult(name="disk", state="warn", found="not done within 0.2 s", mend="the disk hangs"),
        ok("port", "free"),
        fail("bug", "the check itself failed: ZeroDivisionError: a bug", "report this"),
        fail("file", "/x: Permission denied", "make it usable for the node's account"),
    ]


def test_a_node_that_hangs_is_waited_for_so_long_and_no_longer(alpha: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    from diana.adapters.datadir import OpenDataDir
    from diana.node.doctor import checkup as doing

    monkeypatch.setattr(doing, "NODE_S", 0.3)
    held, over = OpenDataDir(alpha.root), threading.Event()
    ended: list[bool] = []

    def hang() -> DoctorResponse:
        ended.append(over.wait(60))
        return DoctorResponse()

    try:
        rows = {row.name: row for row in checkup(alpha.root, hang).checks}
        assert not ended
    finally:
        over.set()
        held.close()
    assert "no answer within 0.3 s" in rows["node"].found
    assert asyncio.run(run_all([])) == []
