"""A finished group's outputs as a dataset of this site: they are brought into the group's own folder and registered.

The group's own folder stays when the group expires and nobody else writes there, so the catalogue can rely on it.
Outputs gathered into a folder of the user's are linked into the group's own (copied where the file systems differ).
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path

from diana.adapters.file_names import PART_PREFIX, parts_of
from diana.adapters.staging.catalogue.catalogue import Catalogue
from diana.adapters.staging.paths import Root, Unlinked, folder, make_folders, make_private, open_plain, sync_folders
from diana.adapters.staging.refs import sha256_hex
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.transfer.cache import Cache
from diana.engine.journal.effects import RegisterOutputs
from diana.engine.journal.events import OutputsInCatalogue
from diana.errors import DianaError
from diana.model.data import RegisteredDataset
from diana.model.facts import Facts, FactsKey, OutputFile
from diana.model.ids import SiteId
from diana.model.layout import DataDir

Register = Callable[[str, list[Path]], Awaitable[RegisteredDataset]]
"""Hash the files below these folders and register them by that name, durably."""


def keep_outputs(data: DataDir, cache: Cache, catalogue: Catalogue, key: FactsKey, facts: Facts, dataset: str) -> None:
    """Move outputs that the origin has into the cache, in a data thread, at the site that made them. They get the
    names they will have in the dataset, so that work on them can come here. Outputs that do not fit or have changed
    are left behind."""
    kept: list[OutputFile] = []
    collected = data.collected(key.subgroup, key.epoch)
    for output in facts.outputs:
        parts = parts_of(output.name)
        if output.size_bytes > cache.room_bytes():
            continue
        try:
            with folder(collected, parts[:-1]) as at:
                if _is_whole(at, parts[-1], output):
                    _into_cache(data, at, parts[-1], sha256_hex(output.sha256))
                    kept.append(output)
        except OSError:
            # A convenience lost, nothing else: the origin has it.
            continue
    if kept:
        root = data.cached(kept[0].sha256).parent.parent
        sync_folders(root, {(output.sha256[:2],) for output in kept})
        catalogue.keep_cached(
            ((output.sha256, output.size_bytes) for output in kept),
            time.time(),
            [(f"dataset:{dataset}/{output.name}", output.sha256) for output in kept],
        )
        cache.trim()


def _is_whole(at: int, name: str, output: OutputFile) -> bool:
    """True if the file is still the one collected, and reachable by no other name through which it could change."""
    with open(open_plain(at, name), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if status.st_size != output.size_bytes or status.st_nlink != 1:
            return False
        return hashlib.file_digest(file, "sha256").hexdigest() == output.sha256


def _into_cache(data: DataDir, at: int, name: str, sha256: str) -> None:
    cached = data.cached(sha256)
    make_private(cached.parent)
    os.chmod(name, 0o444, dir_fd=at)
    os.rename(name, cached, src_dir_fd=at)


async def register_outputs(
    order: RegisterOutputs,
    outputs: Callable[[], Iterator[OutputFile]],
    *,
    data: DataDir,
    site: SiteId,
    pool: Executor,
    register: Register,
) -> OutputsInCatalogue:
    """Register a group's outputs. Never raises for what a disk, a name or a folder can do: the answer says it."""
    own = data.gathered(order.group)
    try:
        if order.to.startswith("/"):
            await in_thread(pool, _link_all, Unlinked.outside(order.to, data.root), own, outputs)
        dataset = await register(order.dataset, [own])
    except DianaError as fault:
        return OutputsInCatalogue(ticket=order.ticket, dataset=None, error=f"at site {site}: {fault}")
    except OSError as fault:
        where = fault.filename or own
        return OutputsInCatalogue(ticket=order.ticket, dataset=None, error=f"at site {site}: {where}: {fault.strerror}")
    return OutputsInCatalogue(ticket=order.ticket, dataset=dataset)


def _link_all(source: Root, own: Path, outputs: Callable[[], Iterator[OutputFile]]) -> None:
    """Link all outputs into the group's folder, in a data thread. Done before, in part or whole, is fine."""
    make_folders(own)
    below: set[tuple[str, ...]] = set()
    for output in outputs():
        parts = parts_of(output.name)
        try:
            with folder(source, parts[:-1]) as there, folder(own, parts[:-1], create=True) as here:
                _link(there, here, parts[-1])
        except OSError as fault:
            raise OSError(fault.errno, fault.strerror, f"{source}/{output.name}") from None
        below.add(tuple(parts[:-1]))
    sync_folders(own, below)


def _link(there: int, here: int, name: str) -> None:
    try:
        os.link(name, name, src_dir_fd=there, dst_dir_fd=here, follow_symlinks=False)
    except FileExistsError:
        pass
    except OSError as fault:
        if fault.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        part = f"{PART_PREFIX}{name}"
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=here)
        new = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=here)
        with open(new, "wb") as copy, open(open_plain(there, name), "rb") as source:
            shutil.copyfileobj(source, copy, 1 << 20)
            copy.flush()
            os.fsync(copy.fileno())
        os.rename(part, name, src_dir_fd=here, dst_dir_fd=here)
