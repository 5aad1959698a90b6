"""A site of another release, as far as its peers can tell: it speaks the messages of stored definitions and knows
nothing of today's generated code. It can only dial out, takes any work as soon as it is offered, and says that it is
done."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from diana.wire.tls import server_name
from tests.e2e.grid import Site
from tests.wire.releases import NEW_FIELD, Release

SUMMARY_EVERY_S = 1.0
SLOTS = 64
DONE = 1


class OldPeer:
    """`with OldPeer(release, "old", keys, to, vo): ...`: a stream to a real node, until the end of the block.

    `extra` bytes end every message it sends: fields of a release to come, say.
    """

    def __init__(self, release: Release, site: str, keys: Path, to: Site, vo: str, extra: bytes = b"") -> None:
        self.site = site
        self.heard: list[tuple[str, Any]] = []
        """Kind and message, in the order they came; kind "" for one its release does not know."""
        self.counts: Counter[str] = Counter()
        self.problem = ""
        self.release = release
        self._extra = extra
        self._to = to
        self._out: queue.Queue[bytes | None] = queue.Queue()
        self._parts: dict[tuple[str, int], tuple[int, ...]] = {}
        self._counter = 0
        self._over = threading.Event()
        texts = [(keys / name).read_bytes() for name in ("vo.pem", "site.key", "site.pem")]
        options = [("grpc.ssl_target_name_override", server_name(to.name, vo))]
        self._channel = grpc.secure_channel(to.address, grpc.ssl_channel_credentials(*texts), options)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._talk)]

    def __enter__(self) -> OldPeer:
        hello = {"protocol": 1, "release": "0.0.9", "db_uuid": "old-database", "generation": 1, "boot_nonce": "n1"}
        self.say("hello", site=self.site, seq=1, **hello)
        self._call = self._channel.stream_stream("/diana.v1.Peer/Stream")(iter(self._out.get, None))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._out.put(None)
        self._call.cancel()
        for thread in self._threads:
            thread.join(10)
        self._channel.close()

    # --- saying -------------------------------------------------------------------------------------------

    def say(self, kind: str, **fields: Any) -> None:
        self.send(self.release.payload(kind, **fields))

    def send(self, payload: bytes) -> None:
        """As an envelope. A message ends where its bytes end: what is added to the body of the oneof, its only field,
        counts as more of PeerMessage."""
        outer = self.release.new(
            "Envelope", version=1, sender=self.site, receiver="", generation=1, payload=payload + self._extra
        )
        self._out.put(outer.SerializeToString() + self._extra)

    def _talk(self) -> None:
        while not self._over.wait(SUMMARY_EVERY_S):
            self.summarise()

    def summarise(self) -> None:
        self._counter += 1
        self.say(
            "summary",
            site=self.site,
            generation=1,
            counter=self._counter,
            seq=1,
            slots=SLOTS,
            free_slots=SLOTS,
            speed=1.0,
            accepting=True,
        )

    # --- hearing ------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            for data in self._call:
                outer = self.release.cls("Envelope").FromString(data)
                if outer.payload:
                    message = self.release.cls("PeerMessage").FromString(outer.payload)
                    kind = message.WhichOneof("body") or ""
                    self.counts[kind] += 1
                    self._take(kind, getattr(message, kind) if kind else None)
        except grpc.RpcError as error:
            if not self._over.is_set():
                self.problem = str(error)

    def _take(self, kind: str, message: Any) -> None:
        self.heard.append((kind, message))
        match kind:
            case "hello":
                self.summarise()
            case "quote_request":
                self.say("quote", quote=message.quote, slots=SLOTS, free_slots=SLOTS, speed=1.0, part=message.part)
            case "prepare":
                self._parts[message.subgroup, message.epoch] = tuple(_indices(message.indices.bounds))
                self.say("prepared", **_transfer(message), db_uuid="old-database", seq=2)
            case "commit":
                self.say("committed", **_transfer(message))
                self._finish(message)
            case "control":
                self.say("control_ack", **_transfer(message), control_seq=message.control_seq)
            case "result":
                self.say("result_ack", **_transfer(message), batch=message.batch, outputs_taken=True)

    def _finish(self, message: Any) -> None:
        indices = self._parts.pop((message.subgroup, message.epoch), ())
        rows, now = len(indices), time.monotonic()
        if not rows:
            return
        facts = self.release.new(
            "Facts",
            site=self.site,
            indices=indices,
            attempts=[1] * rows,
            outcomes=[DONE] * rows,
            exit_codes=[0] * rows,
            started_s=[now] * rows,
            ended_s=[now + 0.5] * rows,
            cpu_s=[0.1] * rows,
            max_rss_bytes=[1 << 20] * rows,
            log_segments=[""] * rows,
            log_offsets=[0] * rows,
            log_lengths=[0] * rows,
            log_truncated=[False] * rows,
        )
        none = self.release.new("IndexSet")
        self.say("result", **_transfer(message), batch=0, facts=facts, cancelled=none)

    def story(self) -> str:
        """Messages it heard, without small talk."""
        talk = ("summary", "gossip", "ledger_news")
        return "\n".join(f"{kind}: {message}" for kind, message in list(self.heard) if kind not in talk)

    def told(self, kind: str) -> list[Any]:
        return [message for what, message in list(self.heard) if what == kind]


def unknown_fields() -> bytes:
    """Fields that a release to come might add anywhere: a text and a number in fields nobody knows."""
    return _key(NEW_FIELD, 2) + b"\x05hello" + _key(NEW_FIELD + 1, 0) + b"\x2a"


def _key(number: int, kind: int) -> bytes:
    value = number << 3 | kind
    return bytes((value & 0x7F | 0x80, value >> 7))


def _transfer(message: Any) -> dict[str, Any]:
    return {"subgroup": message.subgroup, "epoch": message.epoch}


def _indices(bounds: Any) -> Iterator[int]:
    for start, stop in zip(bounds[::2], bounds[1::2], strict=True):
        yield from range(start, stop)
