"""Faults that only a store on a disk can suffer: kills, newer schemas, flipped bits, full disks, a second holder."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from diana import __version__
from diana.adapters.sqlite_store import schema
from diana.adapters.sqlite_store.store import SqliteStore
from diana.errors import StoreBusy, StoreFailed, StoreFull, StoreNewer
from diana.model.ids import GroupId
from diana.ports import Batch
from tests.contract.store_builders import batch, facts, key
from tests.contract.store_writer import record

_ROOT = Path(__file__).parents[3]


def _python(*argv: str, **options: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    return subprocess.Popen(
        [sys.executable, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options
    )  # type: ignore[call-overload,no-any-return]


def _sql(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_what_was_acknowledged_survives_kill_9_at_any_moment(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    rng = random.Random(7)
    told, chunks = 0, 0
    for _ in range(6):
        with _python("-m", "tests.contract.store_writer", str(path)) as writer:
            assert writer.stdout is not None
            first = writer.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.25))
            writer.kill()
            lines = [first, *writer.stdout.read().splitlines(keepends=True)]
        whole = [line.split() for line in lines if line.endswith("\n")]
        store = SqliteStore(path)
        found = store.load()
        told = max(told, int(whole[-1][0]))
        assert found.seq >= told
        assert found.records == [record(found.seq - len(found.records) + 1 + k) for k in range(len(found.records))]
        assert (found.snapshot or b"state at 0") == b"state at %d" % (found.seq - len(found.records))
        chunks += sum(line[1] == "1" for line in whole)
        assert len(list(store.facts(GroupId("alpha-1")))) >= chunks
        for line in whole:
            if line[1] == "1":
                assert store.facts_chunk(key(batch=int(line[2]))) == facts(int(line[2]))
        store.close()
    assert told > 100


def test_a_newer_schema_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    SqliteStore(path).close()
    _sql(path, "UPDATE meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(StoreNewer) as caught:
        SqliteStore(path)
    assert str(caught.value) == (
        f"{path}: written by a newer diana (schema 99); this one, {__version__}, reads up to schema 1; "
        "start the newer release, or restore a backup made by this one"
    )


def test_a_newer_release_is_named_by_whoever_cannot_read_what_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(SqliteStore(path)) as store:
        assert store.load().release == "", "nothing was written yet"
        store.commit(batch(b"a"))
    with closing(SqliteStore(path)) as store:
        assert store.load().release == __version__
    _sql(path, "UPDATE meta SET value = '9.0.0' WHERE key = 'release'")
    with closing(SqliteStore(path)) as store:
        assert store.load().release == "9.0.0", "whoever opens it and writes nothing did not write it"
    _sql(path, "UPDATE meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(StoreNewer, match=rf"a newer diana, 9.0.0, \(schema 99\); this one, {__version__}, reads"):
        SqliteStore(path)


def test_an_older_schema_is_upcast_step_by_step(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    SqliteStore(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    steps = {1: ("ALTER TABLE facts ADD COLUMN seen INTEGER",), 2: ("UPDATE facts SET seen = 0",)}
    schema.bring_up_to_date(connection, "journal.db", 3, steps)
    assert schema.version(connection) == 3
    connection.close()


def test_a_store_of_the_first_release_still_opens(tmp_path: Path) -> None:
    """`fixtures/store_schema_1.sql` is the dump of a store; a changed table without a new schema number fails here."""
    path = tmp_path / "journal.db"
    dump = (Path(__file__).parents[1] / "fixtures" / "store_schema_1.sql").read_text()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(dump)
    store = SqliteStore(path)
    found = store.load()
    assert (found.snapshot, found.seq, found.at_s, found.records) == (b"state at 2", 5, 2.5, [b"c", b"", b"\x00e"])
    assert list(store.facts(GroupId("alpha-1"))) == [(key(), facts(0, 1)), (key(batch=1), facts(2, exit_code=3))]
    assert store.meta("db_uuid") == "0" * 32
    assert store.commit(batch(b"f")) == 6
    store.close()


def test_a_new_store_has_the_tables_of_its_schema_number(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "journal.db").close()
    tables = {}
    for name, dump in (("new", None), ("old", Path(__file__).parents[1] / "fixtures" / "store_schema_1.sql")):
        with closing(sqlite3.connect(tmp_path / "journal.db" if dump is None else ":memory:")) as connection:
            if dump is not None:
                connection.executescript(dump.read_text())
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            tables[name] = {table: connection.execute(f"PRAGMA table_info({table})").fetchall() for table in names}
    assert tables["new"] == tables["old"]


@pytest.mark.parametrize("content", [b"no database at all, but text\n" * 99, None])
def test_a_file_that_is_no_store_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "journal.db"
    if content is None:
        _sql(path, "CREATE TABLE other (x)")
    else:
        path.write_bytes(content)
    with pytest.raises(StoreFailed, match=r"journal.db: .*database"):
        SqliteStore(path)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("UPDATE journal SET records = x'91c40158' WHERE id = 2", "the checksum of journal records 2 to 2 is wrong"),
        ("UPDATE journal SET at_s = 7.0 WHERE id = 3", "the checksum of journal records 3 to 3 is wrong"),
        ("DELETE FROM journal WHERE id = 2", "journal records before 3 are missing"),
        ("DELETE FROM journal WHERE id = 1", "journal records before 2 are missing"),
        ("UPDATE snapshot SET payload = x'00'", "the snapshot's checksum is wrong"),
    ],
)
def test_a_damaged_row_is_noticed_at_load(tmp_path: Path, damage: str, says: str) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    store.snapshot(b"state", 0)
    for text in (b"a", b"b", b"c"):
        store.commit(batch(text))
    store.close()
    _sql(path, damage)
    store = SqliteStore(path)
    with pytest.raises(StoreFailed) as caught:
        store.load()
    assert str(caught.value) == f"{path}: damaged: {says}; restore a backup (`diana restore`)"
    with pytest.raises(StoreFailed):
        store.commit(batch(b"d"))
    store.close()


def test_damaged_facts_are_noticed_when_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    store.commit(batch(facts=((key(), facts(0)),)))
    store.close()
    _sql(path, "UPDATE facts SET payload = ?", msgspec.msgpack.encode(facts(1)))
    store = SqliteStore(path)
    with pytest.raises(StoreFailed, match="the checksum of facts alpha-1/0 epoch 1 batch 0 is wrong"):
        store.facts_chunk(key())
    store.close()


def test_a_flipped_bit_anywhere_in_the_file_is_never_taken_for_good_data(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    told = [bytes([k]) * 700 for k in range(60)]
    for text in told:
        store.commit(batch(text))
    store.close()
    good = path.read_bytes()
    rng = random.Random(3)
    noticed = 0
    for _ in range(60):
        broken = bytearray(good)
        broken[rng.randrange(len(good))] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        try:
            with closing(SqliteStore(path)) as store:
                records = store.load().records
        except (StoreFailed, StoreNewer):
            noticed += 1
        else:
            # Only free space and SQLite's own counters may differ without notice.
            assert records == told
    assert noticed > 20


def _killed_writer(path: Path) -> bytes:
    """The log a killed writer left behind."""
    script = (
        "import os, sys; from pathlib import Path; from diana.adapters.sqlite_store.store import SqliteStore;"
        "from diana.ports import Batch\n"
        "store = SqliteStore(Path(sys.argv[1]))\n"
        "for k in range(40): store.commit(Batch(at_s=0.0, records=(bytes([k]) * 100,)))\n"
        "os._exit(0)"
    )
    with _python("-c", script, str(path)) as writer:
        assert writer.wait() == 0
    return path.with_name("journal.db-wal").read_bytes()


def test_a_flipped_bit_in_the_log_is_noticed_before_sqlite_cuts_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    log = bytearray(_killed_writer(path))
    log[len(log) // 2] ^= 4
    path.with_name("journal.db-wal").write_bytes(log)
    for _ in range(2):
        with pytest.raises(StoreFailed, match=r"journal.db-wal: frame \d+ of \d+ is damaged and \d+ commits stand"):
            SqliteStore(path)


@pytest.mark.parametrize("at", [0, 3, 9, 17, 22, 30])
def test_a_flipped_bit_in_the_header_of_the_log_is_noticed(tmp_path: Path, at: int) -> None:
    path = tmp_path / "journal.db"
    log = bytearray(_killed_writer(path))
    log[at] ^= 1
    path.with_name("journal.db-wal").write_bytes(log)
    with pytest.raises(StoreFailed, match=r"journal.db-wal: its header is damaged and \d+ commits stand after it"):
        SqliteStore(path)


def test_a_log_that_was_only_begun_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    SqliteStore(path).close()
    for content in (b"", b"\0" * 20, b"\0" * 32, b"\0" * 9000):
        path.with_name("journal.db-wal").write_bytes(content)
        store = SqliteStore(path)
        assert store.load().seq == 0
        store.close()


def test_a_torn_tail_is_cut_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    log = bytearray(_killed_writer(path))
    log[-1000:] = b"\0" * 1000
    path.with_name("journal.db-wal").write_bytes(log)
    store = SqliteStore(path)
    assert store.load().records == [bytes([k]) * 100 for k in range(39)]
    store.close()


def test_a_log_that_began_anew_over_an_old_one_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    for k in range(30):
        store.commit(batch(b"%d" % k * 3000))
    store._writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    store.commit(batch(b"after"))
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("journal.db", "journal.db-wal"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())
    store.close()
    again = SqliteStore(copy / "journal.db")
    assert again.load().records[-1] == b"after"
    assert again.load().seq == 31
    again.close()


_FILL = """
import resource, signal, sys
from pathlib import Path
from diana import errors
from diana.adapters.sqlite_store.store import SqliteStore
from diana.ports import Batch

store = SqliteStore(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
seq = 0
try:
    while True:
        seq = store.commit(Batch(at_s=0.0, records=(b"x" * 30_000,)))
except errors.StoreFailed as error:
    print(seq, error)
try:
    store.commit(Batch(at_s=0.0, records=(b"y",)))
except errors.StoreFailed as error:
    print(seq, error)
"""


@contextmanager
def _small_disk(folder: Path) -> Iterator[bool]:
    """A tmpfs of 2 MiB on `folder`; False where this account may not mount."""
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    mounted = os.getuid() == 0 and subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_takes_nothing_and_goes_on_when_it_is_freed(tmp_path: Path) -> None:
    with _small_disk(tmp_path) as mounted:
        if not mounted:
            pytest.skip("this account may not mount")
        path, filler = tmp_path / "journal.db", tmp_path / "filler"
        filler.write_bytes(bytes(1 << 20))
        store, batch, seq = SqliteStore(path), Batch(at_s=0.0, records=(b"x" * 30_000,)), 0
        with pytest.raises(StoreFull, match=rf"^{tmp_path}: the disk is full \(0 MiB free there\)$"):
            while True:
                seq = store.commit(batch)
        assert seq > 3
        for _ in range(3):
            with pytest.raises(StoreFull):
                store.commit(batch)
            with pytest.raises(StoreFull):
                store.snapshot(bytes(2 << 20), seq)
            assert store.load().records == [b"x" * 30_000] * seq == [b"x" * 30_000] * store.log_end().seq
        filler.unlink()
        assert store.commit(batch) == seq + 1
        store.close()
        store = SqliteStore(path)
        assert store.load().records == [b"x" * 30_000] * (seq + 1)
        store.close()


def test_a_file_that_may_not_grow_says_why_keeps_what_was_acknowledged_and_is_not_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    out, err = _python("-c", _FILL, str(path)).communicate(timeout=60)
    first, second = out.splitlines()
    assert first == second, err
    seq, _, line = first.partition(" ")
    assert re.fullmatch(
        rf"{path}: .* \(\d+ MiB free there\); stop the node, check the disk, then .* restore a backup", line
    )
    assert int(seq) > 3
    store = SqliteStore(path)
    assert store.load().records[: int(seq)] == [b"x" * 30_000] * int(seq)
    store.close()


def test_what_a_killed_process_left_in_the_log_is_written_a_second_time(tmp_path: Path) -> None:
    """An fsync that failed before the kill left pages in the log that look written."""
    living, killed = tmp_path / "living", tmp_path / "killed"
    living.mkdir()
    store = SqliteStore(living / "journal.db")
    store.commit(Batch(at_s=0.0, records=(b"x",)))
    shutil.copytree(living, killed)
    store.close()
    assert (killed / "journal.db-wal").stat().st_size
    store = SqliteStore(killed / "journal.db")
    assert not (killed / "journal.db-wal").stat().st_size
    assert store.load().records == [b"x"]
    store.close()


def test_a_second_process_is_refused_and_told_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    process = _python("-m", "tests.contract.store_writer", str(path))
    _, err = process.communicate(timeout=60)
    assert f"in use by process {os.getpid()}; stop it first" in err
    with pytest.raises(StoreBusy):
        SqliteStore(path)
    store.close()
    SqliteStore(path).close()


def test_the_lock_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    process = _python("-m", "tests.contract.store_writer", str(path))
    assert process.stdout is not None and process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.communicate()
    SqliteStore(path).close()


def test_files_are_for_the_owner_only(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    store.commit(batch(b"a"))
    assert {name.name: name.stat().st_mode & 0o777 for name in tmp_path.iterdir()} == {
        "journal.db": 0o600,
        "journal.db-wal": 0o600,
        "journal.db-shm": 0o600,
        "journal.db-owner": 0o600,
        "journal.mark": 0o600,
    }
    store.close()


def test_facts_are_read_by_other_threads_while_one_writes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    failures: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                seen = [chunk.batch for chunk, _ in store.facts(GroupId("alpha-1"))]
                assert seen == list(range(len(seen)))
                assert store.meta("db_uuid")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(100):
        store.commit(batch(b"r", facts=((key(batch=number), facts(number)),)))
    stop.set()
    for thread in threads:
        thread.join()
    store.close()
    assert failures == []


def test_the_log_stays_small_while_a_slow_client_reads(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    store.commit(batch(facts=tuple((key(batch=number), facts(number)) for number in range(5))))
    reading = store.facts(GroupId("alpha-1"))
    next(reading)
    for _ in range(300):
        store.commit(batch(b"x" * 60_000))
    assert (tmp_path / "journal.db-wal").stat().st_size < 8 << 20
    assert len(list(reading)) == 4
    store.close()


def test_a_closed_store_says_so_and_closing_twice_does_no_harm(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    store.close()
    store.close()
    with pytest.raises(StoreFailed, match="the store is closed"):
        store.load()


def test_an_unwritable_folder_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match=r"none/journal.db-owner: No such file or directory; make the directory"):
        SqliteStore(tmp_path / "none" / "journal.db")


def test_the_structure_check_finds_a_sound_file_sound(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    store.commit(batch(b"a"))
    assert store.quick_check() == ""
    store.close()


def test_whoever_waits_to_load_while_a_commit_lands_finds_what_it_expects(tmp_path: Path) -> None:
    """A disk without room is read by another thread than the one that commits."""

    class Watched:
        """A lock that notes, as it is given back, the records that the store expects and those that are there."""

        def __init__(self, store: SqliteStore) -> None:
            self.store, self.lock, self.seen = store, threading.Lock(), list[tuple[int, int]]()

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            with closing(sqlite3.connect(self.store.path)) as reading:
                (there,) = reading.execute("SELECT coalesce(sum(count), 0) FROM journal").fetchone()
            self.seen.append((self.store._seq, there))
            self.lock.release()

    store = SqliteStore(tmp_path / "journal.db")
    watched = store._writing = Watched(store)  # type: ignore[assignment]
    for number in range(3):
        store.commit(batch(record(number), at_s=1.0))
    assert watched.seen == [(1, 1), (2, 2), (3, 3)]  # type: ignore[attr-defined]
    store.close()
