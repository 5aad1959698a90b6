"""Metrics of a node's disk, its certificate and its processes, read without asking anybody."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from diana import __version__
from diana.adapters.trust import certificates
from diana.adapters.trust.reading import bytes_in
from diana.errors import DianaError
from diana.model.layout import DataDir
from diana.node.config.site_file import SiteConfig
from diana.node.loop.aside import Alone
from diana.node.metrics.samples import Reader, Samples


class Lrm(Protocol):
    @property
    def connected(self) -> bool:
        """True while it is connected to its spawner."""
        ...


def machine(config: SiteConfig, paths: DataDir, lrm: Lrm | None = None) -> Reader:
    processes = Alone(lambda: _process("diana", "self"))
    disk = Alone(lambda: _look(config, paths, spawner=lrm is not None and lrm.connected))

    async def read(samples: Samples) -> None:
        samples.put("diana_node_info", 1, config.site, config.vo, config.machine, config.role, __version__)
        if lrm is not None:
            samples.put("diana_spawner_up", lrm.connected)
        samples.take(await processes())
        # Last: a disk that hangs takes nothing else with it.
        samples.take(await disk())

    return read


def _look(config: SiteConfig, paths: DataDir, *, spawner: bool) -> Samples:
    """`spawner`: it is there, so that the pid in its lock is its own, not that of whoever got the number since."""
    samples = Samples()
    with suppress(OSError):
        disk = os.statvfs(paths.root)
        samples.put("diana_disk_free_bytes", disk.f_bavail * disk.f_frsize)
        samples.put("diana_disk_size_bytes", disk.f_blocks * disk.f_frsize)
    journal = [_size(path) for path in (paths.journal, paths.journal.with_name(paths.journal.name + "-wal"))]
    if any(journal):
        samples.put("diana_journal_bytes", sum(journal))
    kind = "member" if config.role == "member" else "site"
    with suppress(DianaError, OSError):
        until_s = certificates.dates_of_chain(bytes_in(paths.keys / f"{kind}.pem")).until_s
        samples.put("diana_certificate_expiry_timestamp_seconds", until_s)
    if spawner:
        with suppress(OSError, ValueError):
            samples.take(_process("diana_spawner", str(int((paths.spawner / "lock").read_text()))))
    return samples


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _process(prefix: str, pid: str) -> Samples:
    """Add the process's figures; none where there is no such process."""
    from prometheus_client.process_collector import ProcessCollector

    samples = Samples()
    for family in ProcessCollector(namespace=prefix, pid=lambda: pid, registry=None).collect():
        for sample in family.samples:
            samples.put(sample.name, sample.value)
    return samples
