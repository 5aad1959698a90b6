"""Checks of a data directory: settings, rights, room, the store, the audit trail."""

from __future__ import annotations

import errno
import os
import pwd
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from diana.adapters.datadir import least_free_bytes, remote_kind
from diana.adapters.filling import largest, told, way_out
from diana.adapters.lrm.spawner.claims import claimlog, losses, records
from diana.adapters.lrm.spawner.claims.claimlog import NAME as CLAIMS
from diana.adapters.places import poor_place
from diana.adapters.sqlite_store import checking
from diana.model.layout import DataDir
from diana.model.words import counted
from diana.node.config.site_file import SiteConfig
from diana.node.doctor.bounded import Results, fail, ok, warn
from diana.node.old_copies import LOST, SAID_LOST_S, last_lost
from diana.node.ways_in import audit
from diana.node.ways_in.audit import AUDIT_HEAD

SLOW_FSYNC_S = 0.1
"""Each acknowledgement waits for one."""
STORE_S = 1.5
LOST_MEND = "diana status lists those that came back from peers; have the users of the others submit them again"
HELD_MEND = "diana status shows what is held; diana release GROUP has it go on, see docs/operators.md"
MOST_AUDIT_BYTES = 16 << 20
"""Read whole within a check's time."""

_PRIVATE_FILES = ("journal.db", "catalogue.db", "audit.log", "audit.log.1", "signers.json", "lock")


def settings(config: SiteConfig) -> Results:
    """`config` could be read, or nothing would be checked."""
    role = "" if config.role == "site" else f"{config.role} {config.machine} of "
    return [ok("site.toml", f"{role}site {config.site} of {config.vo}, {counted(config.settings.slots, 'slot')}")]


def rights(paths: DataDir) -> Results:
    """Folders and files of others' eyes, or of another account."""
    rows: Results = []
    owner = paths.root.stat().st_uid
    me = os.geteuid()
    if me not in (0, owner):
        who = account(owner)
        return [
            warn("rights", f"{paths.root} belongs to {who}, and {account(me)} cannot look into all of it",
                 f"run diana doctor as {who}")
        ]  # fmt: skip
    if paths.root.stat().st_mode & 0o077:
        rows.append(warn("rights", f"{paths.root} is open to others ({_mode(paths.root)})", f"chmod 700 {paths.root}"))
    rows += [
        fail("rights", f"{path} can be read by others ({_mode(path)})", f"chmod {wanted} {path}")
        for path, wanted in _secrets(paths)
        if path.lstat().st_mode & 0o077
    ]
    strange = [path for path in (paths.keys, *(p for p, _ in _secrets(paths))) if path.lstat().st_uid != owner]
    if strange:
        who = account(owner)
        belongs = f"{strange[0]} belongs to {account(strange[0].lstat().st_uid)}, the directory to {who}"
        rows.append(fail("rights", belongs, f"chown -R {who} {paths.root}"))
    return rows or [ok("rights", f"{paths.root}, {account(owner)}'s; keys and journal closed to others")]


def _secrets(paths: DataDir) -> Iterator[tuple[Path, str]]:
    """Paths that must be closed to others, each with its mode."""
    if paths.keys.is_dir():
        yield paths.keys, "700"
        for path in sorted(paths.keys.glob("*.key")):
            yield path, "600"
    for name in _PRIVATE_FILES:
        if (paths.root / name).exists():
            yield paths.root / name, "600"


def _mode(path: Path) -> str:
    return f"{path.lstat().st_mode & 0o777:o}"


def account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def disk(root: Path) -> Results:
    """Room for new work, and how long a sync takes. Writes and removes one small file."""
    if kind := remote_kind(root):
        mend = "move it to a local disk: diana backup, then diana restore there"
        return [fail("disk", f"{root} lies on {kind}, where locks and fsync cannot be trusted", mend)]
    room, least = os.statvfs(root), least_free_bytes(root)
    free, whole = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
    left = f"{free >> 20:,} of {whole >> 20:,} MiB free"
    try:
        took_s = _sync_s(root)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or free >= least:
            why = f"{root} cannot be written: {error.strerror}; {left}"
            read_only = error.errno == errno.EROFS
            return [fail("disk", why, "mount it writable" if read_only else "free space there, or mend the disk")]
        took_s = 0.0
    if free < least:
        given_up = (root / "journal.db").exists() and not (root / "ballast").exists()
        more = "; the ballast was given up so that running jobs can end" if given_up else ""
        took = told(largest(root), names=True)
        return [fail("disk", f"{left}, new work takes {least >> 20:,} MiB: none is taken{more}{took}", way_out(free))]
    if room.f_files and room.f_favail < 1000:
        return [warn("disk", f"{left}, but only {room.f_favail:,} files can be made", "remove small files there")]
    if took_s > SLOW_FSYNC_S:
        mend = "put the data directory on a faster disk: each submission waits for a sync"
        return [warn("disk", f"{left}; a sync takes {took_s * 1000:.0f} ms", mend)]
    return [ok("disk", f"{left}; a sync takes {took_s * 1000:.1f} ms")]


def place(root: Path) -> Results:
    """Check that jobs find there what programs take for granted; no row where they do."""
    return [warn("place", found, mend) for found, mend in poor_place(root)]


def _sync_s(root: Path) -> float:
    """The middle of three."""
    path = root / f".doctor-{os.getpid()}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        times = []
        for _ in range(3):
            began_s = time.monotonic()
            os.write(fd, b"\0" * 4096)
            os.fsync(fd)
            times.append(time.monotonic() - began_s)
    finally:
        os.close(fd)
        with suppress(OSError):
            path.unlink()
    return sorted(times)[1]


def store(paths: DataDir, *, running: bool, role: str = "site") -> Results:
    if role == "member":
        return [ok("store", "a member keeps none: its site has the journal")]
    if not paths.journal.exists():
        return [ok("store", "none yet; the node's first start makes it")]
    harm, whole = checking.harm(paths.journal, STORE_S, running=running)
    if "newer diana" in harm:
        return [fail("store", f"{paths.journal.name}: {harm}", "start the newer release, or restore a backup")]
    if harm:
        mend = f"stop the node, keep {paths.journal} aside, restore a backup: diana restore"
        return [fail("store", f"{paths.journal.name} is damaged: {harm}", mend)]
    if groups := last_lost(checking.meta(paths.journal, LOST)):
        mend = LOST_MEND if groups.count else HELD_MEND
        return [warn("store", f"{paths.journal.name}: {groups.text} (found {_day(groups.wall_s)})", mend)]
    size = paths.journal.stat().st_size
    how = "whole" if whole else f"no damage in what could be read in {STORE_S:g} s"
    return [ok("store", f"{paths.journal.name}, {size / 1e6:,.1f} MB, {how}")]


def _day(wall_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(wall_s))


def claims(paths: DataDir, *, running: bool = False) -> Results:
    """Check that the claim log of this machine's spawner is all there."""
    log = paths.spawner / CLAIMS
    try:
        found = claimlog.find(log)
    except (claimlog.LogDamaged, records.LogNewer, ValueError) as fault:
        mend = "see what ran here, then move the file away"
        return [fail("claims", str(fault).removesuffix(f"; {mend}"), mend)]
    if found.lost:
        mend = "start the node: it holds the jobs that may have run; look at them, then rerun or give them up"
        return [warn("claims", found.lost, mend)]
    if (kept := losses.last(log)) is not None and time.time() - kept.wall_s < SAID_LOST_S:
        mend = "diana status names the groups whose jobs are held for it; see what they did, then release or retry them"
        return [warn("claims", f"{kept.text} (found {_day(kept.wall_s)}, and written anew)", mend)]
    if found.records:
        return [ok("claims", f"{log.name}, {counted(len(found.records), 'record')}, all there")]
    if _ran(paths.spawner / "lock") or (running and not paths.spawner.exists()):
        mend = (
            "put it back; a spawner that runs writes it anew before it starts a job, a new one holds what may have run"
        )
        return [warn("claims", f"{log}: is gone", mend)]
    return [ok("claims", "none yet")]


def _ran(lock: Path) -> bool:
    """True if a spawner was started here."""
    try:
        return lock.stat().st_size > 0
    except OSError:
        return False


def trail(paths: DataDir) -> Results:
    """Check that nobody tampered with the audit trail, as far as its chain of hashes and the newest line kept in the
    store say."""
    if not paths.audit.exists():
        return [ok("audit", "no trail yet")]
    size = paths.audit.stat().st_size
    if size > MOST_AUDIT_BYTES:
        return [ok("audit", f"{paths.audit.name}, {size >> 20:,} MiB: too long to be read through here")]
    anchored = checking.meta(paths.journal, AUDIT_HEAD) if paths.journal.exists() else ""
    older = paths.audit.with_name(f"{paths.audit.name}.1")
    if anchored and size == 0 and older.exists():
        anchored = ""
    if harm := audit.damage(paths.audit, anchored):
        mend = "find out who could write there; keep the file as evidence and move it away, a new one begins"
        return [fail("audit", harm, mend)]
    lines = paths.audit.read_bytes().count(b"\n")
    return [ok("audit", f"{paths.audit.name}, {counted(lines, 'line')}, none changed or missing")]
