"""Which uploaded content a group reads, as its journal says: a standby needs it too."""

from __future__ import annotations

from diana.engine import records
from diana.model.spec import GroupSpec, decode_spec
from diana.ports import Batch


def blobs_of(batch: Batch) -> list[str]:
    """Hashes of uploaded content that the groups submitted in a transaction read."""
    found: set[str] = set()
    for stored in batch.records:
        record = records.decode(stored)
        if isinstance(record, records.GroupSubmitted):
            found.update(blobs_in(decode_spec(record.spec), [ref for ref, _ in record.refs]))
    return sorted(found)


def blobs_in(spec: GroupSpec, refs: list[str]) -> list[str]:
    """Hashes of uploaded content among a group's inputs."""
    sources = [*refs, *(file.source for file in spec.inputs)]
    hashes = {source.removeprefix("blob:") for source in sources if source.startswith("blob:")}
    if spec.sweep.table is not None:
        hashes.add(spec.sweep.table.blob)
    return sorted(name for name in hashes if len(name) == 64)
