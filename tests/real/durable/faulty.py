"""Versions of diana that each break one rule of what must be on the disk first, as changes of text in its source."""

from __future__ import annotations

from pathlib import Path

_STORE = "adapters/sqlite_store/store.py"
_LOG = "adapters/lrm/spawner/claims/claimlog.py"
_TABLE = "adapters/lrm/spawner/table.py"
_RUNNER = "node/loop/runner.py"

_COMMITTED = """            await self._commit(turns)
            if self._gate is None:
                await self._leave(turns, self._seq)
"""
_LEFT_FIRST = """            if self._gate is None:
                await self._leave(turns, self._seq)
            await self._commit(turns)
            if self._gate is None:
                pass
"""

Changes = dict[str, tuple[str, ...]]
"""File below diana/ -> (text, what stands in its place, another text, ...)."""

FAULTY: dict[str, Changes] = {
    "the journal is not synced": {_STORE: ("PRAGMA synchronous=FULL", "PRAGMA synchronous=OFF")},
    "the claim log is not synced": {_LOG: ("            os.fdatasync(self._fd)\n", "            pass\n")},
    "a claim is said to be durable before it is": {
        _TABLE: ("            self.log.sync()\n            self._durable = last", "            self._durable = last")
    },
    "answers leave before the commit": {_RUNNER: (_COMMITTED, _LEFT_FIRST)},
    "the claim log's name is not synced": {_LOG: ("                os.fsync(folder)\n", "                pass\n")},
    "the claim log is renamed before its content is synced": {_LOG: ("            os.fsync(fd)\n", "")},
    "the mark is written before the journal": {
        _STORE: (
            "        first_seq = self._seq + 1\n",
            "        first_seq = self._seq + 1\n        self._mark.write(self._db_uuid, self._seq + count)\n",
        )
    },
}
"""Found by the rules alone."""

_MARK_OF_LOG = "            self._mark.write(self._log, self.count, self._synced)\n"
_SYNCED_FILE = "            os.fsync(file.fileno())\n"
_DURABLE = "adapters/durable.py"

FAULTY_FILES: dict[str, Changes] = {
    "the claim log's mark is not synced": {
        _LOG: ("        self._mark.sync()\n        self._keep_room()\n", "        self._keep_room()\n")
    },
    "the claim log's mark says synced of what is written": {
        _LOG: (_MARK_OF_LOG, "            self._mark.write(self._log, self.count, self.count)\n")
    },
    "a file is replaced by one that is not synced": {_DURABLE: (_SYNCED_FILE, "")},
    "a file is replaced and its folder not synced": {
        _DURABLE: ("    sync(path.parent)\n\n\ndef fold_log", "\n\ndef fold_log")
    },
    "the catalogue is not synced": {
        "adapters/staging/catalogue/database.py": ("PRAGMA synchronous = FULL", "PRAGMA synchronous = OFF")
    },
    "an upload is not synced": {"adapters/staging/transfer/parts.py": ("        os.fsync(self._fd)\n", "")},
    "the new folder of an upload is not synced": {
        "adapters/staging/paths.py": (
            "        with folder(each.parent, ()) as at:\n            sync_folder(at)\n",
            "",
        )
    },
}
"""Found by the rules or by power cuts."""

STARTED_UNSYNCED: Changes = {
    "adapters/lrm/spawner/runner.py": ("if not self._table.is_durable(job):", "if False:"),
}
"""A job is started once its claim is written: found where its turn comes while that is being synced."""


def slow_syncer(seen: Path) -> Changes:
    """A disk that takes its time beside the spawner's loop; it makes the file `seen` when it begins to."""
    slow = f"                open({str(seen)!r}, 'w').close(), __import__('time').sleep(5)\n"
    sync = "                os.fdatasync(fd)\n"
    return {"adapters/lrm/spawner/claims/syncer.py": (sync, slow + sync)}


_LEDGER = "adapters/batch/ledger.py"
_BEGUN = (
    '            self._db.execute("BEGIN IMMEDIATE")\n',
    '            self._db.in_transaction or self._db.execute("BEGIN")\n',
)
_GIVE = """        return self._write([("INSERT INTO arrays (token, ended, work) VALUES (?, ?, ?)", row)])
"""
_GIVE_LATE = """        self._db.in_transaction or self._db.execute("BEGIN")
        return self._db.execute("INSERT INTO arrays (token, ended, work) VALUES (?, ?, ?)", row).lastrowid
"""
_ENDED = """        return self._write(
            [
                ("UPDATE arrays SET ended"""
_ENDED_LATE = """        return self._later(
            [
                ("UPDATE arrays SET ended"""
_LATER = """    def _later(self, statements):
        self._db.in_transaction or self._db.execute("BEGIN")
        return [self._db.execute(sql, values).lastrowid for sql, values in statements][-1]

    def _all("""

FAULTY_LEDGER: dict[str, Changes] = {
    "the ledger is not synced": {_LEDGER: ("PRAGMA synchronous=FULL", "PRAGMA synchronous=OFF")},
    "the ledger hears of an array after the batch system": {_LEDGER: (*_BEGUN, _GIVE, _GIVE_LATE)},
    "the ledger hears of an end after the engine": {_LEDGER: (*_BEGUN, _ENDED, _ENDED_LATE, "    def _all(", _LATER)},
    "the folder of the ledger is not synced": {
        "adapters/batch/book.py": ("            sync(folder)\n", "            pass\n")
    },
}

_STORED = """                seq = await thread.call(thread.store.commit, batch)
"""

FAULTY_PAIR: dict[str, Changes] = {
    "the standby says synced before it is": {
        "node/pair/follower_journal.py": (
            _STORED,
            "                self._of.tell(ms.Fsynced(entry.seq))\n                await asyncio.sleep(0.02)\n"
            + _STORED,
        )
    },
    "the leader does not wait for its standby": {
        "replica/leading.py": ("return min(self.fsynced, self.peer_fsynced) if", "return self.fsynced if")
    },
    "the standby's new folder of an upload is not synced": {
        "adapters/replica_link/seeds.py": ("            await asyncio.to_thread(sync, path.parent.parent)\n", "")
    },
    "peers are answered before the commit": {_RUNNER: (_COMMITTED, _LEFT_FIRST)},
}
