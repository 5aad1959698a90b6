"""The uploads that a group reads, as its journal says: a standby needs them too."""

from __future__ import annotations

from collections.abc import Iterable

from diana.engine.journal import codec, records
from diana.model.ids import GroupId
from diana.model.job.spec import GroupSpec, decode_spec
from diana.ports import Batch

_SUBMITTED = records.GroupSubmitted.__name__.encode()


def blobs_of(batch: Batch) -> list[str]:
    """Hashes of uploaded content that the groups submitted in a transaction read."""
    return sorted({name for names in submitted_in(batch.records).values() for name in names})


def submitted_in(stored: Iterable[bytes]) -> dict[GroupId, list[str]]:
    """The groups submitted in these encoded records that read uploads, each with their hashes. A record that does not
    contain the kind's name is not decoded."""
    found: dict[GroupId, list[str]] = {}
    for one in stored:
        if _SUBMITTED in one and isinstance(record := codec.decode(one), records.GroupSubmitted):
            wanted = blobs_in(decode_spec(record.spec), [ref for ref, _ in record.refs])
            if wanted:
                found[record.group] = wanted
    return found


def blobs_in(spec: GroupSpec, refs: list[str]) -> list[str]:
    """Hashes of uploaded content among a group's inputs."""
    sources = [*refs, *(file.source for file in spec.every_input())]
    hashes = {source.removeprefix("blob:") for source in sources if source.startswith("blob:")}
    if spec.sweep.table is not None:
        hashes.add(spec.sweep.table.blob)
    return sorted(name for name in hashes if len(name) == 64)
