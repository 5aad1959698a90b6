"""The claim log: append-only, framed, checksummed, chained; rewritten when most of it is forgotten.

Frame: two magic bytes, length and CRC-32 of the payload (4 bytes each, big-endian), payload. A frame that
a crash left half-written at the end was never acted upon and is cut; damage followed by good frames is refused,
because a claim that cannot be read could be started a second time.

Each payload ends with a link: the number of its record in the life of this log, and a hash over all before it. With
the mark beside the log (`logmark.py`) they tell a log that lost its end, or that was deleted, from one that is whole.
What such a log said is not known any more, so it goes on under another identity, by which the site's journal notices
(`engine/handover/machine_events.py`). Logs of earlier releases have no links and no identity.
"""

from __future__ import annotations

import ctypes
import errno
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from diana.adapters.lrm.spawner.claims.links import LinkBroken, RecordChain
from diana.adapters.lrm.spawner.claims.logmark import LogMark, MarkFile, boot_id, read_mark
from diana.adapters.lrm.spawner.claims.records import LogOpened, Record, decode, encode, version_of

NAME = "claims.log"
_MAGIC = b"\xd1\xa7"
_HEAD = 10
RESERVE_BYTES = 1 << 20
"""Room kept behind the log's end: for the ends of ten thousand jobs."""
_KEEP_SIZE = 1
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)


class LogDamaged(Exception):
    """One line: file, place, mend."""


class FoundLog(msgspec.Struct, frozen=True):
    """A claim log as it was found."""

    records: list[Record]
    log: str = ""
    """Its identity; empty: there is none, or a release without identities wrote it."""
    count: int = 0
    """Records it held since it has that identity, those that were rewritten since included."""
    lost: str = ""
    """Why it surely or possibly lacks what it once said; empty: it does not."""

    @property
    def goes_on_as(self) -> str:
        """The identity under which it goes on: another one if it lost something."""
        return self.log if self.log and not self.lost else uuid.uuid4().hex


def _framed(payload: bytes) -> bytes:
    return _MAGIC + len(payload).to_bytes(4, "big") + zlib.crc32(payload).to_bytes(4, "big") + payload


def _payload_at(data: bytes, at: int) -> bytes | None:
    """The payload of the good frame that begins at `at`, if there is one."""
    if data[at : at + 2] != _MAGIC or len(data) - at < _HEAD:
        return None
    size = int.from_bytes(data[at + 2 : at + 6], "big")
    payload = data[at + _HEAD : at + _HEAD + size]
    # Zeros behind the two magic bytes, as a power cut may leave them, would be an empty payload with its checksum.
    if not payload or len(payload) != size or zlib.crc32(payload) != int.from_bytes(data[at + 6 : at + _HEAD], "big"):
        return None
    return payload


def frames(data: bytes) -> Iterator[tuple[Record, int]]:
    """Yield each whole record from the start of a log, and where the next begins. LinkBroken: one is not the next."""
    version = at = 0
    chain: RecordChain | None = None
    while (payload := _payload_at(data, at)) is not None:
        version = version or version_of(payload)
        if at == 0 and isinstance(opened := decode(payload, version), LogOpened) and opened.log:
            chain = RecordChain(opened.log, opened.before)
        if chain is not None:
            payload, size = chain.unlinked(payload), len(payload)
        else:
            size = len(payload)
        at += _HEAD + size
        yield decode(payload, version), at


def read(path: Path) -> list[Record]:
    """All whole records; [] where there is no log yet. LogDamaged, records.LogNewer."""
    return find(path).records


def find(path: Path) -> FoundLog:
    """Read a log, and say whether it is all there. LogDamaged, records.LogNewer."""
    # Before the log, which a living spawner goes on writing: it then says no more than stands there.
    mark = read_mark(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return FoundLog([], lost=f"{path}: is gone; it held {mark.written} records" if mark is not None else "")
    out: list[Record] = []
    at = 0
    try:
        for record, after in frames(data):
            out.append(record)
            at = after
    except LinkBroken as fault:
        raise LogDamaged(f"{path}: damaged at byte {at}: {fault}; see what ran here, then move the file away") from None
    opened = out[0] if out else None
    log, count = (opened.log, opened.before + len(out)) if isinstance(opened, LogOpened) else ("", 0)
    lost = _lost(path, mark, log, count)
    if _goes_on(data, at):
        damage = f"{path}: damaged at byte {at}, whole records follow"
        if lost or not _was_cut(mark):
            raise LogDamaged(f"{damage}; see what ran here, then move the file away")
        lost = f"{damage}, as where power was cut"
    if not isinstance(opened, LogOpened):
        return FoundLog([], lost=f"{path}: is empty; a log never is")
    return FoundLog(out, log, count, lost) if log else FoundLog(out)


def _goes_on(data: bytes, at: int) -> bool:
    """True if a whole record stands anywhere behind `at`, where none begins."""
    while (at := data.find(_MAGIC, at + 1)) >= 0:
        if _payload_at(data, at) is not None:
            return True
    return False


def _was_cut(mark: LogMark | None) -> bool:
    """True if the machine went down since the mark: pages of records that were not synced may then lack in the middle.
    None of them was acted upon; but who can tell such a page from another harm, so the log counts as one that lost
    something."""
    return mark is not None and mark.boot != boot_id()


def _lost(path: Path, mark: LogMark | None, log: str, count: int) -> str:
    if mark is None:
        return f"{path}: the mark beside it is gone; nobody can tell whether it is all there"
    if mark.log != log:
        return f"{path}: the mark beside it is another log's; nobody can tell whether it is all there"
    least = mark.least(boot_id())
    return f"{path}: ends after {count} of {least} records" if count < least else ""


class NoRoom(OSError):
    """The disk is too full to write a log anew."""


def _filled(path: Path, data: bytes) -> int:
    """Return the descriptor of a new file with that content, not yet durable."""
    fd = -1
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if os.write(fd, data) != len(data):
            raise OSError(errno.ENOSPC, "the disk is full", str(path))
    except OSError as fault:
        if fd >= 0:
            os.close(fd)
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        path.unlink(missing_ok=True)
        raise NoRoom(errno.ENOSPC, "the disk is full", str(path)) from fault
    return fd


class ClaimLog:
    """Open for writing. An OSError means stop: an fsync is never retried (PROMISES section 3)."""

    def __init__(self, path: Path, records: Iterable[Record]) -> None:
        self._path = path
        self._fd = -1
        self._pending = bytearray()
        self._chain: RecordChain | None = None
        self._log = ""
        self._synced = 0
        self.size_bytes = 0
        self._kept_to = 0
        """Where the room ends that the disk keeps for this log."""
        self._mark = MarkFile(path)
        try:
            self._mark.sync()
            self.rewrite(records)
        except BaseException:
            self._mark.close()
            raise

    @property
    def count(self) -> int:
        """Records this log held since it has its identity; 0: it has none."""
        return self._chain.count if self._chain is not None else 0

    def add(self, record: Record) -> None:
        """Into the next `write`."""
        self._pending += self._next(record)

    def write(self) -> None:
        """Out of this process's hands; survives its death, not the machine's."""
        if self._pending:
            done = os.write(self._fd, self._pending)
            if done != len(self._pending):
                raise OSError(errno.ENOSPC, "the disk is full", str(self._path))
            self.size_bytes += done
            self._pending.clear()
            self._mark.write(self._log, self.count, self._synced)
            if self.size_bytes > self._kept_to - RESERVE_BYTES // 2:
                self._keep_room()

    @property
    def fd(self) -> int:
        """Valid until the next `rewrite`."""
        return self._fd

    def sync(self) -> None:
        """Durable, with all that was written before."""
        self.write()
        try:
            os.fdatasync(self._fd)
        except OSError as fault:
            raise self.refused(fault) from None
        self.synced(self.count)

    def refused(self, fault: OSError) -> OSError:
        """The fault of a sync, with the file in its words."""
        return OSError(fault.errno, fault.strerror, str(self._path))

    def synced(self, count: int) -> None:
        """Note that so many of its records are durable."""
        if count > self._synced:
            self._synced = count
            self._mark.write(self._log, self.count, count)

    def in_place(self) -> bool:
        """False: the path does not lead to this log any more, so that the next spawner would not find it."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False
        except OSError:
            # It does not say where the log lies.
            return True
        known = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) == (known.st_dev, known.st_ino)

    def put_back(self, records: Iterable[Record]) -> None:
        """`rewrite`, with a mark of its own: who took the log away took that as well. NoRoom."""
        self._mark.close()
        self._mark = MarkFile(self._path)
        self.rewrite(records)

    def rewrite(self, records: Iterable[Record]) -> None:
        """Put `records` in place of all that stands there, atomically and durably. NoRoom leaves the log as it was."""
        spare = self._path.with_suffix(".new")
        before = self._log, self._chain
        data = b"".join(map(self._next, records))
        try:
            fd = _filled(spare, data)
        except NoRoom:
            self._log, self._chain = before
            raise
        try:
            os.fsync(fd)
            os.replace(spare, self._path)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except BaseException:
            os.close(fd)
            raise
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        self._pending.clear()
        self.size_bytes = len(data)
        self._synced = 0
        self.synced(self.count)
        # A log whose mark the next boot does not find, or finds to be another's, counts as one that lost something.
        self._mark.sync()
        self._keep_room()

    def _keep_room(self) -> None:
        """Keep blocks behind the end, so that jobs that run can end on a disk that others filled."""
        if _fallocate(self._fd, _KEEP_SIZE, self.size_bytes, RESERVE_BYTES) == 0:
            self._kept_to = self.size_bytes + RESERVE_BYTES

    def _next(self, record: Record) -> bytes:
        if isinstance(record, LogOpened):
            self._log = record.log
            self._chain = RecordChain(record.log, record.before) if record.log else None
        payload = encode(record)
        return _framed(self._chain.linked(payload) if self._chain is not None else payload)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._mark.close()
