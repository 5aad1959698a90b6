"""Backup of a running node's data, its way back, and the refusal of what is no whole backup."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from diana.adapters.backup import back_up, read_manifest, restore
from diana.adapters.sqlite_store.store import SqliteStore
from diana.adapters.trust.keyring import FileKeyring
from diana.errors import StoreBusy, UsageError
from diana.model.layout import DataDir
from diana.node.config.setup import init_site
from diana.node.config.site_file import load_config
from tests.contract.store_builders import batch, facts, key


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """A site with three records, a chunk of facts, a catalogue and an uploaded blob."""
    init_site(tmp_path / "a", "alpha", vo="lab")
    paths = DataDir(tmp_path / "a")
    store = SqliteStore(paths.journal)
    store.commit(batch(b"a", b"b", b"c", at_s=5.0, facts=((key(), facts(1)),)))
    store.snapshot(b"state", 1)
    store.close()
    catalogue = sqlite3.connect(paths.catalogue)
    with catalogue:
        catalogue.execute("CREATE TABLE files (name)")
        catalogue.execute("INSERT INTO files VALUES ('x')")
    catalogue.close()
    blob = paths.blob("ab" * 32)
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"rows")
    blob.chmod(0o444)
    return paths


def test_a_restored_store_has_all_that_was_backed_up_a_new_uuid_and_the_mark(data: DataDir, tmp_path: Path) -> None:
    store = SqliteStore(data.journal)
    old = store.meta("db_uuid")
    manifest = back_up(data.root, tmp_path / "copy", keys=True)
    store.commit(batch(b"later"))
    store.close()
    assert (manifest.db_uuid, manifest.has_keys()) == (old, True)
    restore(tmp_path / "copy", tmp_path / "b")
    restored = SqliteStore(tmp_path / "b" / "journal.db")
    found = restored.load()
    assert (found.snapshot, found.seq, found.at_s, found.records) == (b"state", 3, 5.0, [b"b", b"c"])
    assert restored.facts_chunk(key()) == facts(1)
    assert restored.meta("restored_from") == old
    assert restored.meta("db_uuid") not in ("", old)
    restored.close()
    assert load_config(tmp_path / "b" / "site.toml").site == "alpha"
    assert FileKeyring(tmp_path / "b" / "keys").signer == "site:alpha"
    assert DataDir(tmp_path / "b").blob("ab" * 32).read_bytes() == b"rows"
    catalogue = sqlite3.connect(tmp_path / "b" / "catalogue.db")
    assert catalogue.execute("SELECT name FROM files").fetchall() == [("x",)]
    catalogue.close()


def test_a_signer_restored_with_its_keys_signs_and_distrusts_as_before(data: DataDir, tmp_path: Path) -> None:
    (data.keys / "revoked").write_text("user:mallory@lab\n")
    back_up(data.root, tmp_path / "copy", keys=True)
    restore(tmp_path / "copy", tmp_path / "b")
    kept = {path.name: path.read_bytes() for path in data.keys.iterdir()}
    assert "signer.key" in kept
    assert {path.name: path.read_bytes() for path in (tmp_path / "b" / "keys").iterdir()} == kept


def test_two_restores_of_one_backup_have_different_uuids(data: DataDir, tmp_path: Path) -> None:
    back_up(data.root, tmp_path / "copy")
    minted = set()
    for name in ("b", "c"):
        restore(tmp_path / "copy", tmp_path / name)
        store = SqliteStore(tmp_path / name / "journal.db")
        minted.add(store.meta("db_uuid"))
        store.close()
    assert len(minted) == 2


def test_secrets_stay_behind_unless_asked_for(data: DataDir, tmp_path: Path) -> None:
    manifest = back_up(data.root, tmp_path / "copy")
    assert not manifest.has_keys()
    assert not list((tmp_path / "copy").rglob("*.key"))
    back_up(data.root, tmp_path / "all", keys=True)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "all").rglob("*")}
    assert modes["site.key"] == modes["vo.key"] == modes["journal.db"] == modes["backup.json"] == 0o600
    assert (tmp_path / "all").stat().st_mode & 0o777 == 0o700


def test_a_backup_taken_while_the_node_writes_is_a_moment_of_its_journal(data: DataDir, tmp_path: Path) -> None:
    store = SqliteStore(data.journal)
    stop = threading.Event()
    begun = threading.Event()

    def write() -> None:
        while not stop.is_set():
            store.commit(batch(b"x" * 500, b"y" * 500))
            begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    for number in range(3):
        back_up(data.root, tmp_path / f"copy-{number}")
    stop.set()
    writer.join()
    store.close()
    last = 0
    for number in range(3):
        restore(tmp_path / f"copy-{number}", tmp_path / f"r-{number}")
        restored = SqliteStore(tmp_path / f"r-{number}" / "journal.db")
        found = restored.load()
        assert found.records[2:] == [b"x" * 500, b"y" * 500] * ((found.seq - 3) // 2)
        assert found.seq >= last
        last = found.seq
        restored.close()


def test_a_backup_beside_a_running_node_leaves_its_lock_alone(data: DataDir, tmp_path: Path) -> None:
    store = SqliteStore(data.journal)
    back_up(data.root, tmp_path / "copy")
    with pytest.raises(StoreBusy):
        SqliteStore(data.journal)
    store.commit(batch(b"d"))
    assert store.load().seq == 4
    store.close()


def test_an_existing_folder_is_never_written_into(data: DataDir, tmp_path: Path) -> None:
    back_up(data.root, tmp_path / "copy")
    with pytest.raises(UsageError, match="copy: exists already; name a new folder"):
        back_up(data.root, tmp_path / "copy")
    with pytest.raises(UsageError, match="a: not empty; name a new data directory to restore into"):
        restore(tmp_path / "copy", data.root)
    (tmp_path / "empty").mkdir()
    restore(tmp_path / "copy", tmp_path / "empty")
    assert (tmp_path / "empty" / "journal.db").is_file()


@pytest.mark.parametrize("name", ["journal.db", "site.toml", "catalogue.db"])
@pytest.mark.parametrize("harm", ["flip", "lose"])
def test_a_damaged_backup_is_refused_and_nothing_is_restored(
    data: DataDir, tmp_path: Path, name: str, harm: str
) -> None:
    back_up(data.root, tmp_path / "copy")
    path = tmp_path / "copy" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink() if harm == "lose" else path.write_bytes(content)
    with pytest.raises(UsageError, match=rf"copy/{name}: .*; the backup is damaged, take another"):
        restore(tmp_path / "copy", tmp_path / "b")
    assert not (tmp_path / "b").exists() and not (tmp_path / "b.part").exists()


def test_a_folder_that_is_no_backup_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"backup.json: No such file or directory; name a folder `diana backup` made"):
        restore(tmp_path, tmp_path / "b")
    (tmp_path / "backup.json").write_text("{}")
    with pytest.raises(UsageError, match=r"backup.json: .*; the backup is damaged"):
        read_manifest(tmp_path)


def test_a_manifest_that_names_files_elsewhere_is_refused(data: DataDir, tmp_path: Path) -> None:
    back_up(data.root, tmp_path / "copy")
    manifest = tmp_path / "copy" / "backup.json"
    manifest.write_text(manifest.read_text().replace('"site.toml"', '"../a/keys/site.key"'))
    with pytest.raises(UsageError, match="which is outside"):
        restore(tmp_path / "copy", tmp_path / "b")


def test_a_directory_without_a_store_and_a_damaged_store_are_told(data: DataDir, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"journal.db: no such store; name a node's data directory"):
        back_up(tmp_path / "none", tmp_path / "copy")
    content = bytearray(data.journal.read_bytes())
    content[4096:8192] = bytes(4096)
    data.journal.write_bytes(content)
    with pytest.raises(UsageError):
        back_up(data.root, tmp_path / "copy")
    assert not (tmp_path / "copy").exists() and not (tmp_path / "copy.part").exists()


def test_what_two_machines_kept_is_restored_as_the_journal_of_one(data: DataDir, tmp_path: Path) -> None:
    store = SqliteStore(data.journal)
    store.set_meta("replicated", "1")
    store.close()
    back_up(data.root, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "b")
    restored = SqliteStore(DataDir(tmp_path / "b").journal)
    assert restored.meta("replicated") == "" and restored.meta("restored_from")
    restored.close()
