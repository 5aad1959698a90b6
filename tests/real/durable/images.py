"""Disks that a power cut may leave of a recorded one: all that was synced, and of the rest whatever the disk took.

Names of one folder come to the disk in their order, as file systems with a log keep them. Of unsynced content each page
comes as it was at some moment, or not at all, and the length apart from it; a sector comes whole. So there is content
behind its name, a name behind its content, a late write without an early one, and a file that grew by zeros.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from diana.adapters.lrm.spawner.claims import claimlog, records
from tests.real.durable.disk import Disk, Inode, Write

Image = dict[str, bytes | None]
"""Path below the folder -> content; None: a folder."""
KINDS = ("what was synced", "names without content", "content without names", "some of it", "torn")
CLAIMS = "spawner/claims.log"
SECTOR, PAGE = 512, 4096
MOMENTS = 6
"""Moments of which the pages of one file are."""


def image(disk: Disk, kind: str, chance: random.Random, only: tuple[str, ...] = ("",)) -> Image:
    """`only`: beginnings of the paths that are wanted."""
    names = dict(disk.named)
    for changes in disk.pending.values():
        count = {"what was synced": 0, "content without names": 0, "some of it": chance.randint(0, len(changes))}
        for path, new in changes[: count.get(kind, len(changes))]:
            if new is None:
                names.pop(path, None)
            else:
                names[path] = new
    found: Image = {}
    # Parents come before what they hold; what has none cannot be reached.
    for path in sorted(names):
        inode, parent = names[path], path.rpartition("/")[0]
        if path != disk.root and (parent == disk.root or found.get(parent[len(disk.root) + 1 :], b"") is None):
            name = path[len(disk.root) + 1 :]
            if not name.startswith(only):
                continue
            found[name] = None if inode.is_folder else _content(inode, kind, chance)
    return found


def _content(inode: Inode, kind: str, chance: random.Random) -> bytes:
    unsure = inode.unsure
    if not unsure or kind in ("what was synced", "names without content"):
        return inode.left([])
    if kind == "content without names":
        return inode.left(unsure)
    if kind == "some of it":
        return _paged(inode, chance)
    return inode.left([*unsure[:-1], *_torn(unsure[-1], len(inode.left(unsure[:-1])), chance)])


def _paged(inode: Inode, chance: random.Random) -> bytes:
    """Each page as it was at some moment since the last sync, and the length of another such moment."""
    unsure = inode.unsure
    moments = chance.sample(range(len(unsure) + 1), min(MOMENTS, len(unsure) + 1))
    versions = [inode.left(unsure[:moment]) for moment in moments]
    length = len(chance.choice(versions))
    pages = []
    for start in range(0, length, PAGE):
        page = chance.choice(versions)[start : min(start + PAGE, length)]
        pages.append(page.ljust(min(PAGE, length - start), b"\0"))
    return b"".join(pages)


def _torn(write: Write, size: int, chance: random.Random) -> list[Write]:
    """Its first sectors alone, for one sector is written whole or not at all; where the file grew (it had `size`
    bytes), it may have grown without the rest of the content."""
    at, data = write
    if data is None:
        return []
    ends = [0, *range(SECTOR - at % SECTOR, len(data), SECTOR)]
    came: list[Write] = [(at, data[: chance.choice(ends)])]
    return [(at + len(data), None), *came] if at + len(data) > size and chance.random() < 0.5 else came


def images(disk: Disk, chance: random.Random, only: tuple[str, ...] = ("",)) -> Iterator[tuple[str, Image]]:
    """Each kind, but none twice: where nothing is unsynced there is one image alone."""
    seen: list[Image] = []
    for kind in KINDS:
        made = image(disk, kind, chance, only)
        if made not in seen:
            seen.append(made)
            yield kind, made


def write(made: Image, folder: Path) -> None:
    """Put an image into an empty folder."""
    for name, content in made.items():
        path = folder / name
        if content is None:
            path.mkdir(0o700)
        else:
            path.parent.mkdir(0o700, parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o600)


def booted(made: Image, boot: str) -> Image:
    """The image as the next boot of the machine sees it: its marks and its claim log are of an earlier one."""
    here, there = boot.encode(), boot[::-1].encode()
    found = dict(made)
    for name, content in made.items():
        if content is not None and name.endswith(".mark"):
            found[name] = content.replace(here, there)
    if claims := found.get(CLAIMS):
        found[CLAIMS] = _claimed_before(claims, boot[::-1])
    return found


def _claimed_before(data: bytes, boot: str) -> bytes:
    """The claim log, its records written in that boot; whatever stands behind the last whole one is left as it is."""
    stored, end = list[records.Record](), 0
    for record, after in claimlog.frames(data):
        end = after
        if isinstance(record, records.LogOpened):
            record.machine = msgspec.structs.replace(record.machine, boot_id=boot)
        stored.append(record)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / claimlog.NAME
        claimlog.ClaimLog(path, stored).close()
        return path.read_bytes() + data[end:]
