"""Maxima of all that peers may send, in one table: texts in characters, sequences in items, counts, kinds of
message in bytes.

Each field of text, bytes or items of a peer message has a line here; a message class without one does not compile
(`mapping.py`). What is only shown to people is cut to its maximum. So is a row of a summary: summaries are passed on by
sites that did not make them, and one liar's row must not cost the others of the message. Whatever else is longer than
an honest site can make it has its message refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from diana.wire import BadMessage

MAX_MESSAGE_BYTES = (4 << 20) - (4 << 10)
"""Largest payload encoded or decoded: with its envelope it fits a gRPC message of 4 MiB. Larger contents travel in
several messages."""


class Most(NamedTuple):
    text: int = 0
    """Characters of a text, or of each text of a sequence; bytes where the field holds bytes."""
    items: int = 0
    cut: bool = False
    """True if what is beyond is cut off; else the message is refused."""


_NAME = Most(text=300)
_SHOWN = Most(text=2000, cut=True)
_KEY = Most(text=100)
"""A name of a database or boot, a digest, a key of alike jobs."""
_SEAL = Most(text=64)
_FORMER = Most(text=100, items=16)
"""Names that a journal had, of which no more are told (`journal/fold.py`, `MOST_FORMER`)."""
_REF = 8192
"""Characters of a logical name of a file: a dataset and a path."""
_MANY = 300_000
"""Rows that may come in a message of their own: the message's bytes are the narrower bound."""
_MOST_FIELDS = 2 * _MANY
"""Fields of one message and of those within it that hold others."""
_URLS = Most(text=2048, items=64)
_SOFTWARE = Most(text=300, items=1024)
_RESOURCES = Most(text=100, items=64)
_PROPERTIES = Most(text=101, items=16, cut=True)

FIELDS: dict[str, Most] = {
    "Hello.site": _NAME,
    "Hello.release": Most(text=100, cut=True),
    "Hello.capabilities": Most(text=100, items=256, cut=True),
    "Hello.db_uuid": _KEY,
    "Hello.boot_nonce": _KEY,
    "Hello.data_address": _NAME,
    "Hello.former": _FORMER,
    "Hello.begun": Most(items=16),
    "Hello.seal": _SEAL,
    "Summary.site": _NAME,
    # One more than is kept: a row with a name or address so long is not taken in (`membership/merge.py`, `sane`).
    "Summary.datasets": Most(text=301, items=256, cut=True),
    "Summary.links": Most(items=16, cut=True),
    "Summary.address": Most(text=301, cut=True),
    "Summary.via": Most(text=300, items=4, cut=True),
    "Summary.release": Most(text=100, cut=True),
    "Summary.ledger": Most(text=100, cut=True),
    "Summary.drained": Most(text=300, cut=True),
    "Summary.notice": Most(text=300, cut=True),
    "Summary.seal": Most(text=64, cut=True),
    "Summary.domain": Most(text=253, cut=True),
    # As many as one machine may have (`model/job/declared.py`), and names one longer than theirs: those are left out.
    "Summary.resources": Most(text=41, items=16, cut=True),
    # As many as a site may have (`model/job/properties.py`), and texts one longer than theirs: those are left out.
    "Summary.properties": _PROPERTIES,
    "LinkEstimate.site": _NAME,
    "LinkEstimate.predictor": Most(text=100, cut=True),
    "Rumour.site": _NAME,
    "Rumour.by": _NAME,
    "Gossip.entries": Most(items=4096, cut=True),
    "Gossip.ages_s": Most(items=4096, cut=True),
    "Gossip.rumours": Most(items=4096, cut=True),
    "Gossip.digest": Most(items=4096, cut=True),
    "Gossip.asks": Most(text=300, items=4096, cut=True),
    "Gossip.heard_from": Most(items=4096, cut=True),
    # As many as are kept (`membership/hearsay.py`, `MOST_WAY`).
    "HeardFrom.sites": Most(text=40, items=4, cut=True),
    "Signed.payload": Most(text=1 << 20),
    "Signed.chain": Most(text=1 << 18),
    "Signed.signature": Most(text=1 << 14),
    "LedgerNews.statements": Most(items=4096),
    "LedgerNews.asks": Most(text=100, items=8192),
    "LedgerNews.has": Most(text=100, items=8192),
    "QuoteRequest.refs": Most(text=_REF, items=_MANY),
    "QuoteRequest.owner": _NAME,
    "QuoteRequest.template": _KEY,
    "QuoteRequest.urls": _URLS,
    "QuoteRequest.software": _SOFTWARE,
    "QuoteRequest.program": _KEY,
    "QuoteRequest.group": _NAME,
    "QuoteRequest.resources": _RESOURCES,
    "QuoteRequest.components": Most(items=64),
    "QuoteRequest.offers": _SOFTWARE,
    "ComponentKind.amounts": _RESOURCES,
    "DataFile.ref": Most(text=_REF),
    "DataFile.sha256": _KEY,
    "Quote.rejected": _SHOWN,
    "Quote.files": Most(items=_MANY),
    "Quote.cached": Most(items=_MANY),
    "Quote.unknown_refs": Most(text=_REF, items=_MANY),
    "Quote.links": Most(items=4096),
    "Quote.near_miss": _SHOWN,
    "Quote.reach": Most(text=300, items=4096),
    "Quote.software": _SOFTWARE,
    "Quote.domain": Most(text=253, cut=True),
    "Quote.properties": _PROPERTIES,
    "Quote.offers": _SOFTWARE,
    "Quote.lacks": _SOFTWARE,
    # Twice `forecast.MOST_STEPS`.
    "Quote.coming": Most(items=32, cut=True),
    # Twice `kinds.MOST_KINDS`.
    "Quote.kinds": Most(items=32, cut=True),
    "Quote.free": _RESOURCES,
    "Quote.whole": _RESOURCES,
    "Quote.unfit": Most(text=2000, items=64, cut=True),
    # In all steps of a quote together.
    "ComingRoom.free": Most(text=100, items=2048),
    "MachineKind.platform": Most(text=100, cut=True),
    "Authorisation.owner": _NAME,
    "Authorisation.spec_sha256": _KEY,
    "Authorisation.group": _NAME,
    "Authorisation.signer": _NAME,
    "Authorisation.certificate": Most(text=1 << 18),
    "Authorisation.signature": Most(text=1 << 14),
    "Authorisation.audience": _NAME,
    "Authorisation.submission": _NAME,
    "Prepare.subgroup": _NAME,
    "Prepare.files": Most(items=_MANY),
    "Prepare.sources": Most(text=300, items=_MANY),
    "Prepare.readers": Most(items=_MANY),
    "Prepare.saved": Most(items=_MANY),
    # As many files as a job may save (`model/job/checkpoint.py`).
    "SavedJob.files": Most(items=64),
    "SavedFile.path": Most(text=_REF),
    "SavedFile.sha256": _KEY,
    "Prepare.spec": Most(text=MAX_MESSAGE_BYTES),
    "Prepare.origin_db_uuid": _KEY,
    "Prepare.seal": _SEAL,
    "Prepare.offer": _SEAL,
    # As `receipts.MOST_BYTES`, and a seal.
    "Prepare.receipt": Most(text=(1 << 16) + 16),
    "Prepared.subgroup": _NAME,
    "Prepared.db_uuid": _KEY,
    "Prepared.seal": _SEAL,
    "GangClaim.subgroup": _NAME,
    "GangClaim.db_uuid": _KEY,
    "GangClaim.origin_db_uuid": _KEY,
    "GangClaim.seal": _SEAL,
    "GangClaim.meet_hosts": Most(text=300, items=1_000),
    "GangClaim.meet_ports": Most(items=1_000),
    "GangClaimed.subgroup": _NAME,
    "GangClaimed.host": _NAME,
    "GangClaimed.hosts": Most(text=300, items=1_000),
    "GangClaimed.out_of_reach": _NAME,
    "GangClaimed.made_way": _SHOWN,
    "GangYield.subgroup": _NAME,
    "GangRoster.subgroup": _NAME,
    # As `components.MOST_COMPONENTS`.
    "GangRoster.active": Most(items=1_000),
    "Refused.subgroup": _NAME,
    "Refused.reason": _SHOWN,
    "Commit.subgroup": _NAME,
    "Commit.origin_db_uuid": _KEY,
    "Commit.db_uuid": _KEY,
    "Commit.seal": _SEAL,
    # As many as a gang has components (`model/job/components.py`).
    "Commit.hosts": Most(text=300, items=1_000),
    "Commit.token": _KEY,
    "Commit.items": Most(items=1_000),
    "Committed.subgroup": _NAME,
    "Abort.subgroup": _NAME,
    "Abort.origin_db_uuid": _KEY,
    "Abort.seal": _SEAL,
    "Aborted.subgroup": _NAME,
    "Aborted.db_uuid": _KEY,
    "Aborted.seal": _SEAL,
    "Aborted.reason": _SHOWN,
    "Lost.subgroup": _NAME,
    "Lost.db_uuid": _KEY,
    "Progress.subgroup": _NAME,
    "Progress.level": Most(text=100, cut=True),
    # As `steps.MOST_TOLD`.
    "Progress.steps": Most(items=64, cut=True),
    "Progress.note": _SHOWN,
    "Progress.stopped": _SHOWN,
    "Progress.db_uuid": _KEY,
    "Progress.seal": _SEAL,
    "Facts.site": _NAME,
    "Facts.indices": Most(items=_MANY),
    "Facts.attempts": Most(items=_MANY),
    "Facts.outcomes": Most(items=_MANY),
    "Facts.exit_codes": Most(items=_MANY),
    "Facts.started_s": Most(items=_MANY),
    "Facts.ended_s": Most(items=_MANY),
    "Facts.cpu_s": Most(items=_MANY),
    "Facts.max_rss_bytes": Most(items=_MANY),
    "Facts.log_segments": Most(text=1000, items=_MANY),
    "Facts.log_offsets": Most(items=_MANY),
    "Facts.log_lengths": Most(items=_MANY),
    "Facts.log_truncated": Most(items=_MANY),
    "Facts.outputs": Most(items=_MANY),
    "Facts.errors": Most(items=_MANY),
    "Facts.signals": Most(items=_MANY),
    "OutputFile.name": Most(text=_REF),
    "OutputFile.sha256": _KEY,
    "JobError.text": _SHOWN,
    "Result.subgroup": _NAME,
    "Result.db_uuid": _KEY,
    "Result.seal": _SEAL,
    "ResultAck.subgroup": _NAME,
    "ResultAck.origin_db_uuid": _KEY,
    "ResultAck.seal": _SEAL,
    "Control.subgroup": _NAME,
    "Control.origin_db_uuid": _KEY,
    "Control.seal": _SEAL,
    "ControlAck.subgroup": _NAME,
    "QueueRequest.parts": Most(text=300, items=1000, cut=True),
    "QueueReport.parts": Most(items=_MANY),
    "QueueView.site": _NAME,
    "QueueView.mode": _KEY,
    "QueueView.classes": Most(items=2000, cut=True),
    "QueueView.users": Most(items=2000, cut=True),
    "QueueView.note": _SHOWN,
    "QueueClass.user": Most(text=300, cut=True),
    "QueueClass.queue": Most(text=100, cut=True),
    "QueueClass.level": Most(text=100, cut=True),
    "QueueClass.parts": Most(text=300, items=20, cut=True),
    "QueueUser.user": Most(text=300, cut=True),
    "Waiting.site": _NAME,
    "Waiting.note": _SHOWN,
    "Waiting.part": _NAME,
    "Waiting.user": Most(text=300, cut=True),
    "Waiting.queue": Most(text=100, cut=True),
    "Waiting.level": Most(text=100, cut=True),
    "Waiting.rises_to": Most(text=100, cut=True),
    "Waiting.mode": Most(text=100, cut=True),
    "Waiting.heavy": _SHOWN,
    "Met.boot_nonce": _KEY,
    "Met.seal": _SEAL,
    "Evidence.db_uuid": _KEY,
    "Evidence.former": _FORMER,
    "Evidence.boot_nonce": _KEY,
    "Evidence.seal": _SEAL,
    "Holding.subgroup": _NAME,
    "Holding.offer": _SEAL,
    "Holdings.db_uuid": _KEY,
    "Holdings.rows": Most(items=2000),
    "Holdings.groups": Most(items=10_000),
    "GroupShown.spec": Most(text=MAX_MESSAGE_BYTES),
    "GroupShown.receipt": Most(text=(1 << 16) + 16),
    "SurplusGroup.group": _NAME,
    "SurplusGroup.parts": Most(text=300, items=64),
    "SurplusGroup.epochs": Most(items=64),
    "SurplusGroup.jobs": Most(items=64),
    "Surplus.groups": Most(items=64),
    "Surplus.reason": _SHOWN,
    "Surplus.invited": Most(text=300, items=64, cut=True),
    "RoomRequest.owner": _NAME,
    "RoomRequest.template": _KEY,
    "RoomRequest.urls": _URLS,
    "RoomRequest.software": _SOFTWARE,
    "RoomRequest.resources": _RESOURCES,
    "RoomRequest.program": _KEY,
    "RoomRequest.group": _NAME,
    "RoomGrant.reason": _SHOWN,
    "Reserve.group": _NAME,
    "Reserve.owner": _NAME,
    "Reserve.template": _KEY,
    "Reserve.urls": _URLS,
    "Reserve.software": _SOFTWARE,
    "Reserve.resources": _RESOURCES,
    "Reserve.program": _KEY,
    "TurnCall.group": _NAME,
    "TurnCall.stopped": _SHOWN,
}

MOST_COUNTED = 1 << 40
COUNTS = {
    "Hello": ("generation", "seq", "begun"),
    "Prepare": ("epoch", "origin_seq"),
    "Prepared": ("epoch", "seq"),
    "Refused": ("epoch",),
    "Commit": ("epoch", "origin_seq"),
    "Committed": ("epoch",),
    "Abort": ("epoch", "origin_seq"),
    "Aborted": ("epoch", "seq"),
    "Lost": ("epoch",),
    "Progress": ("epoch", "control_seq", "seq"),
    "Result": ("epoch", "batch", "seq"),
    "ResultAck": ("epoch", "batch", "origin_seq"),
    "Control": ("epoch", "control_seq", "origin_seq"),
    "ControlAck": ("epoch", "control_seq"),
    "Met": ("seq", "since"),
    "Evidence": ("generation", "seq"),
    "Holding": ("epoch", "control_seq"),
    "Holdings": ("seq", "more_from"),
    "SurplusGroup": ("epochs",),
}
"""Numbers that count what a site did: no honest one comes near `MOST_COUNTED`, and the next one always has room on the
wire. Versions of summaries are judged row by row (`membership/merge.py`, `sane`)."""

MOST_UNITS = 1 << 30
"""Processors or devices: those of a thousand of the largest machines that can be configured. Sums over all sites of a
VO stay exact as floats."""
MOST_SIZE_BYTES = 1 << 60
"""Memory or room that a setting or a job file can name."""
MOST_JOBS = 1 << 40
_ASKED = {
    "jobs": MOST_JOBS,
    "processors": MOST_UNITS,
    "memory_bytes": MOST_SIZE_BYTES,
    "gpus": MOST_UNITS,
    "scratch_bytes": MOST_SIZE_BYTES,
    # Of any unit: names that are not known here may be sizes.
    "resources": MOST_SIZE_BYTES,
}
FIGURES: dict[str, dict[str, int]] = {
    "Summary": {
        "slots": MOST_UNITS,
        "free_slots": MOST_UNITS,
        "queued_jobs": MOST_JOBS,
        "running_jobs": MOST_JOBS,
        "machines": MOST_UNITS,
        "memory_bytes": MOST_SIZE_BYTES,
        "gpus": MOST_UNITS,
        "widest": MOST_UNITS,
        "resources": MOST_UNITS,
    },
    "Quote": {
        "slots": MOST_UNITS,
        "free_slots": MOST_UNITS,
        "runs_seen": MOST_JOBS,
        "jobs_ahead": MOST_JOBS,
        "queued_jobs": MOST_JOBS,
        "max_jobs": MOST_JOBS,
        "startable": MOST_JOBS,
        "widest": MOST_UNITS,
        "free_gpus": MOST_UNITS,
        "memory_bytes": MOST_SIZE_BYTES,
        "gpus": MOST_UNITS,
        "free": MOST_UNITS,
        "whole": MOST_UNITS,
        "gang_most": MOST_UNITS,
        "gang_held": MOST_UNITS,
    },
    "MachineKind": {
        "count": MOST_UNITS,
        "processors": MOST_UNITS,
        "memory_bytes": MOST_SIZE_BYTES,
        "gpus": MOST_UNITS,
        "idle": MOST_UNITS,
    },
    "ComingRoom": {"processors": MOST_UNITS, "gpus": MOST_UNITS, "free": MOST_UNITS},
    "QuoteRequest": _ASKED,
    "ComponentKind": {"processors": MOST_UNITS, "amounts": MOST_SIZE_BYTES},
    "RoomRequest": _ASKED,
    "Reserve": _ASKED,
    "RoomGrant": {"jobs": MOST_JOBS},
    "WorkInvited": {"free_slots": MOST_UNITS},
}
"""Bounds of what sites tell of themselves and ask for jobs. More is cut: nobody has so much, and what is asked for
stays more than anybody has."""

SMALL_BYTES = 64 << 10
BYTES: dict[str, int] = {
    "summary": 256 << 10,
    "gossip": 2 << 20,
    "ledger_news": MAX_MESSAGE_BYTES,
    "quote_request": MAX_MESSAGE_BYTES,
    "quote": MAX_MESSAGE_BYTES,
    "prepare": MAX_MESSAGE_BYTES,
    "progress": MAX_MESSAGE_BYTES,
    "result": MAX_MESSAGE_BYTES,
    "control": MAX_MESSAGE_BYTES,
    "queue_request": MAX_MESSAGE_BYTES,
    "queue_report": MAX_MESSAGE_BYTES,
    "holdings": MAX_MESSAGE_BYTES,
    "room_request": 1 << 20,
    "reserve": 1 << 20,
    "surplus": 1 << 20,
}
"""Bytes of a payload by its kind; `SMALL_BYTES` of one that is not named, unknown kinds included."""

_SCANNED_BYTES = 64 << 10
"""Payloads up to this size are not scanned: what they become in memory is small."""
_MOST_OUTER = 32
"""Fields of a PeerMessage: its one body, and what releases to come may add."""
_MOST_ROWS = 65_536
"""Rows scanned of a field that is cut."""


def scan(data: bytes, descriptor: Any) -> None:
    """Refuse a large payload before it is decoded, if its kind may not be so large or it has too many rows: an empty
    row of two bytes takes a hundred in memory. `descriptor`: that of PeerMessage."""
    if len(data) <= _SCANNED_BYTES:
        return
    at, end, fields = 0, len(data), 0
    while at < end:
        key, at = _varint(data, at, end)
        fields += 1
        if fields > _MOST_OUTER or key & 7 != 2:
            raise BadMessage("not one message")
        size, at = _varint(data, at, end)
        if size > end - at:
            raise BadMessage("not a PeerMessage of protobuf")
        field = descriptor.fields_by_number.get(key >> 3)
        most = BYTES.get(field.name, SMALL_BYTES) if field is not None else SMALL_BYTES
        if size > most:
            raise BadMessage(f"{field.name if field is not None else 'unknown'}: {size} bytes, at most {most} are read")
        if field is not None and field.message_type is not None:
            _scan(data, at, at + size, field.message_type, {})
        at += size


def _scan(data: bytes, at: int, end: int, descriptor: Any, counted: dict[str, int]) -> None:
    """Count rows of messages; `counted` is shared by all of one kind of message, so that nesting adds up."""
    rows = _rows(descriptor)
    if not rows:
        return
    while at < end:
        key, at = _varint(data, at, end)
        fields = counted[""] = counted.get("", 0) + 1
        if fields > _MOST_FIELDS:
            raise BadMessage(f"more than {_MOST_FIELDS} fields")
        kind = key & 7
        if kind == 0:
            _, at = _varint(data, at, end)
            continue
        if kind != 2:
            at += {1: 8, 5: 4}.get(kind, end)
            continue
        size, at = _varint(data, at, end)
        if size > end - at:
            raise BadMessage("not a PeerMessage of protobuf")
        if (row := rows.get(key >> 3)) is not None:
            name, most, inner = row
            count = counted[name] = counted.get(name, 0) + 1
            if count > most:
                raise BadMessage(f"{name}: more than {most} rows")
            _scan(data, at, at + size, inner, counted)
        at += size


_known: dict[str, dict[int, tuple[str, int, Any]]] = {}


def _rows(descriptor: Any) -> dict[int, tuple[str, int, Any]]:
    """Return the fields of messages, by number: (name, most of them, what they are)."""
    found = _known.get(descriptor.full_name)
    if found is None:
        found = _known[descriptor.full_name] = {}
        for field in descriptor.fields:
            if field.message_type is not None:
                name = f"{descriptor.name}.{field.name}"
                most = FIELDS.get(name, Most())
                rows = _MOST_ROWS if most.cut or not field.is_repeated else most.items
                found[field.number] = (name, rows, field.message_type)
    return found


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            break
    raise BadMessage("not a PeerMessage of protobuf")
