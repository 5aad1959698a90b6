"""After an fsync that failed nothing is said to be durable: the process ends or refuses, no fsync is tried again and
believed, and the next start tells the truth (PROMISES section 3)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from diana.errors import DianaError
from tests.e2e.grid import PATIENCE_S, REPO, Grid, Site, Starts, outcomes, until
from tests.real.faults.sick_disk import sync_fails

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.getuid() != 0, reason="attaching to a process takes root"),
]


class OnSickDisk(Site):
    """It may complain of its disk."""

    def complaints(self) -> list[str]:
        return [
            line for line in super().complaints() if "disk I/O error" not in line and "Input/output error" not in line
        ]


def sick(grid: Grid, slots: int = 2) -> OnSickDisk:
    site = grid.add("alpha", slots)
    site.__class__ = OnSickDisk
    assert isinstance(site, OnSickDisk)
    site.start()
    return site


def test_a_journal_that_cannot_be_synced_ends_the_node_before_it_answers(grid: Grid, starts: Starts) -> None:
    alpha = sick(grid)
    with alpha.client() as client:
        before = client.submit(starts.job(2), key="before").group
        client.wait(before, timeout_s=30)
    assert alpha.process is not None
    wal = alpha.paths.journal.with_name("journal.db-wal")
    with (
        sync_fails(alpha.process.pid, wal, grid.root / "strace") as failed,
        alpha.client() as client,
        pytest.raises(DianaError),
    ):
        client.submit(starts.job(2), key="during")
    assert alpha.process.wait(PATIENCE_S) == 1
    # The marks and the database file have syncs of their own; the log had this one, and no second.
    assert failed.count == 1
    last = alpha.output.read_text().splitlines()[-1]
    assert last.startswith(f"diana: {alpha.paths.journal}: disk I/O error"), last
    assert starts.count() == 2
    alpha.start()
    with alpha.client() as client:
        assert {view.group: view.state for view in client.status([before])} == {before: "done"}
        group = client.submit(starts.job(2), key="during").group
        client.wait(group, timeout_s=30)
        assert set(outcomes(client, group).values()) == {"done"}
        assert len(client.status()) == 2 and starts.count() == 4


def test_a_claim_that_cannot_be_synced_starts_no_job(grid: Grid, starts: Starts) -> None:
    alpha = sick(grid)
    spawner = alpha.spawner_pid()
    with (
        sync_fails(spawner, alpha.paths.spawner / "claims.log", grid.root / "strace") as failed,
        alpha.client() as client,
    ):
        group = client.submit(starts.job(2, on_crash="hold")).group
        until(lambda: alpha.spawner_pid() not in (0, spawner), lambda: f"another spawner\n{alpha.story()}", 20.0)
    assert failed.count == 1
    with alpha.client() as client:
        until(lambda: client.status([group])[0].state != "running", "it is over, or held", 20.0)
        done = [index for index, outcome in outcomes(client, group).items() if outcome == "done"]
    alpha.assert_runs()
    # Nobody knows of a claim that may be on the disk whether its job ran; none ran twice, and none vanished.
    assert starts.count() == len(done) and not starts.doubled()


def test_a_catalogue_that_cannot_be_synced_names_no_dataset(grid: Grid, starts: Starts) -> None:
    alpha = sick(grid)
    assert alpha.process is not None
    for name in ("one", "two"):
        (grid.root / name).write_text(name)

    def datasets(*words: str) -> subprocess.CompletedProcess[str]:
        return grid.run(alpha, "datasets", *words, "--data", str(alpha.data))

    assert datasets("add", "one", str(grid.root / "one")).returncode == 0
    wal = alpha.data / "catalogue.db-wal"
    with sync_fails(alpha.process.pid, wal, grid.root / "strace") as failed:
        refused = datasets("add", "two", str(grid.root / "two"))
        assert refused.returncode and len(refused.stderr.splitlines()) == 1, refused.stderr
        assert "disk I/O error" in refused.stderr and failed.count
        assert "two" not in datasets("list").stdout
    alpha.kill()
    alpha.start()
    said = datasets("list").stdout
    assert "one" in said, said
    assert datasets("add", "two", str(grid.root / "two")).returncode == 0
    assert "two" in datasets("list").stdout and datasets("verify", "one").returncode == 0


_LEDGER = """
import sys
from pathlib import Path
from diana.adapters.batch.ledger import Ledger
from diana.errors import StoreFailed
from tests.batch.test_book_searched import order
ledger = Ledger(Path(sys.argv[1]))
for token in sys.stdin:
    try:
        print("gave", ledger.give(token.strip(), order([0, 1], [1, 1])), flush=True)
    except StoreFailed as fault:
        print(fault, flush=True)
"""


def test_a_ledger_that_cannot_be_synced_gives_no_array(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"

    def begin() -> subprocess.Popen[str]:
        words = [sys.executable, "-c", _LEDGER, str(path)]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPO)

    def give(process: subprocess.Popen[str], token: str) -> str:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{token}\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    process = begin()
    assert give(process, "one") == "gave 1"
    with sync_fails(process.pid, path.with_name("ledger.db-wal"), tmp_path / "strace") as failed:
        assert give(process, "two") == f"{path}: disk I/O error" and failed.count == 1
    process.kill()
    process.communicate()
    process = begin()
    assert give(process, "three").startswith("gave ")
    process.communicate()


_OPEN = {
    "journal.db": "from diana.adapters.sqlite_store.store import SqliteStore; SqliteStore(path).close()",
    "catalogue.db": "from diana.adapters.staging.catalogue.database import Database; Database(path).close()",
    "ledger.db": "from diana.adapters.batch.ledger import Ledger; Ledger(path).close()",
}
_READS = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("BEGIN")
print(db.execute("SELECT count(*) FROM sqlite_master").fetchone(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("name", _OPEN)
def test_a_log_left_by_a_killed_process_is_written_and_synced_anew_whoever_reads_it(
    tmp_path: Path, name: str, reads: bool
) -> None:
    """Before a byte of it goes into the database's file, and before anything is said."""
    path, log = tmp_path / name, tmp_path / f"{name}-wal"
    begin = f"import os, sys; from pathlib import Path; path = Path(sys.argv[1]); {_OPEN[name]}"
    leave = begin.replace(".close()", "; os._exit(0)")
    words = [sys.executable, "-c", begin, str(path)]
    subprocess.run([sys.executable, "-c", leave, str(path)], cwd=REPO, check=True)
    size = log.stat().st_size
    assert size
    said = tmp_path / "strace"
    calls = ("-f", "-y", "-s", "0", "-e", "trace=write,pwrite64,fsync,fdatasync", "-o", str(said))
    with ExitStack() as stack:
        if reads:
            command = [sys.executable, "-c", _READS, str(path)]
            reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(reader.communicate)
            assert reader.stdout is not None and reader.stdout.readline()
        subprocess.run(["strace", *calls, *words], cwd=REPO, check=True)
        assert log.exists() == reads
    written, synced = 0, False
    for call, file, rest in re.findall(r"(\w+)\(\d+<(.*?)>(.*)$", said.read_text(), re.MULTILINE):
        if file == str(log) and call == "pwrite64" and not synced:
            at, count = int(rest.split(", ")[-1].partition(")")[0]), int(rest.rpartition("= ")[2])
            written += count if at == written else 0
        elif file == str(log) and call.endswith("sync"):
            synced = synced or written >= size
        else:
            assert synced or file != str(path), f"{call} on {file} after {written} of {size} bytes"
    assert synced, f"{written} of {size} bytes"
