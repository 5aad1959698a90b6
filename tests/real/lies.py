"""Lies that a site of the VO can tell, message by message of `peer.proto`, and a site that tells them: it holds a valid
certificate and speaks its own gRPC.

The groups they are about are those of `trust/test_hostile_peer.py`: alpha's, whose part is at beta, and beta's, whose
part is at alpha. Every name that a liar invents holds FORGED, so that it can be looked for.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from diana.wire import compat
from diana.wire.tls import server_name
from tests.e2e.grid import Site
from tests.wire.releases import Release

NOW = Release(compat.present())
FORGED = "forged"
AT_BETA, OF_BETA = "alpha-1/0", "beta-1/0"
"""Alpha's part at beta; beta's part at alpha."""
FAR = 2**63 - 1
NAN = float("nan")
JOBS: dict[str, Any] = {"bounds": [0, 40]}
SUMMARY: dict[str, Any] = {"generation": 1, "slots": 9, "free_slots": 9, "speed": 1.0, "accepting": True}


class Lie(NamedTuple):
    name: str
    fields: dict[str, Any]
    audited: str = ""
    """Line of the audit trail about it; empty: it cannot be told from a late word, and nothing comes of it."""
    heard: str = ""
    """Kind of message that answers it."""


def _of_part(part: str = AT_BETA, epoch: int = 1, **more: Any) -> dict[str, Any]:
    return {"subgroup": part, "epoch": epoch, **more}


def _steps(each_s: float) -> dict[str, Any]:
    return {"index": 0, "attempt": 1, "done": 1.0, "total": 9.0, "last_s": each_s, "mean_s": each_s}


FACTS: dict[str, Any] = {
    "indices": [0],
    "attempts": [1],
    "outcomes": [1],
    "exit_codes": [0],
    "started_s": [1.0],
    "ended_s": [2.0],
    "cpu_s": [1.0],
    "max_rss_bytes": [1],
    "log_segments": [""],
    "log_offsets": [0],
    "log_lengths": [0],
    "log_truncated": [False],
}
TOO_FAR = "more than anybody counts"


def lies(me: str, boot_nonce: str) -> dict[str, list[Lie]]:
    """Kind of PeerMessage -> lies of a site of that name. `boot_nonce`: of the node that is lied to."""
    invented = {**SUMMARY, "site": f"{FORGED}-1", "counter": 1, "address": "198.51.100.7:7400"}
    noisy = {**invented, "site": f"{FORGED}-2", "notice": FORGED * 10_000}
    return {
        "hello": [Lie("a second one", {"site": "beta", "db_uuid": FORGED}, "a second Hello")],
        "retry": [Lie("for ever", {"after_s": 1e300}), Lie("for no time", {"after_s": NAN}, "not a finite")],
        "summary": [
            Lie("of another site", {**SUMMARY, "site": "beta", "counter": 10**6}, "a summary of beta"),
            Lie("of a time to come", {**SUMMARY, "site": me, "generation": FAR, "counter": FAR}, "makes no sense"),
            Lie("too long", {**SUMMARY, "site": me, "counter": 5, "notice": FORGED * 100_000}, "summary"),
        ],
        "gossip": [
            Lie("invented sites", {"entries": [invented, noisy], "ages_s": [0.0, 0.0]}),
            Lie("beta is lost", {"rumours": [{"site": "beta", "generation": 1, "counter": 1, "state": 2, "by": me}]}),
            Lie("without ages", {"entries": [invented]}, "0 ages for 1 entries"),
        ],
        "ledger_news": [
            Lie(
                "a ban that nobody signed",
                {"statements": [{"payload": FORGED.encode(), "chain": b"x", "signature": b"x"}]},
                "a statement",
            )
        ],
        "met": [
            Lie("your disk was set back", {"boot_nonce": boot_nonce, "fell": True}),
            Lie("too long a journal", {"boot_nonce": boot_nonce, "seq": FAR}, TOO_FAR),
            Lie("it knows no group", {"boot_nonce": boot_nonce, "asks": True, "since": 1}),
            Lie("it knows all groups there can be", {"boot_nonce": boot_nonce, "asks": True, "since": FAR}, TOO_FAR),
        ],
        "holdings": [
            Lie(
                "jobs it never had",
                {"db_uuid": FORGED, "parts": 1, "rows": [_of_part(epoch=10**6, open=JOBS)]},
            ),
            Lie("an epoch beyond all", {"parts": 1, "rows": [_of_part(epoch=FAR, open=JOBS)]}, TOO_FAR),
            Lie("a group of a receipt of its own", {"parts": 1, "groups": [{"spec": b"x", "receipt": b"forged" * 9}]}),
            Lie("a receipt beyond all", {"parts": 1, "groups": [{"receipt": b"x" * (1 << 17)}]}, "at most 65552"),
            Lie("a million groups", {"parts": 1, "groups": [{}] * 10**6}, "Holdings.groups"),
        ],
        "quote_request": [Lie("less than nothing", {"quote": 1, "processors": 1, "jobs": -1}, "negative")],
        "quote": [
            Lie("not asked for", {"quote": 1, "slots": 10**6, "free_slots": 10**6, "speed": 1e9}),
            Lie("of no number", {"quote": 1, "speed": NAN}, "not a finite"),
            Lie("machines of no speed", {"quote": 1, "kinds": [{"count": 1, "speed": NAN}]}, "not a finite"),
            Lie("machines beyond counting", {"quote": 1, "kinds": [{"count": FAR, "processors": FAR}]}),
            Lie("thousands of kinds", {"quote": 1, "kinds": [{"count": 1, "processors": 1, "speed": 1e9}] * 5000}),
        ],
        "prepare": [
            Lie(
                "work of beta",
                _of_part("beta-77/0", indices=JOBS, spec=FORGED.encode(), authorisation={"group": "beta-77"}),
                "beta-77/0",
            ),
            Lie(
                "work of beta from a checkpoint elsewhere on the disk",
                _of_part(
                    "beta-77/0",
                    indices=JOBS,
                    spec=FORGED.encode(),
                    authorisation={"group": "beta-77"},
                    saved=[{"index": 0, "attempt": FAR, "files": [{"path": "../../etc/forged", "sha256": "0" * 64}]}],
                ),
                "beta-77/0",
            ),
            Lie(
                "its own, without permit",
                _of_part(f"{me}-1/0", indices=JOBS, spec=b"x", authorisation={"group": f"{me}-1", "owner": "eve@vo"}),
                heard="refused",
            ),
        ],
        "prepared": [Lie("a part of beta's", _of_part(db_uuid=FORGED, seq=1), AT_BETA)],
        "gang_claim": [Lie("work of beta", _of_part(OF_BETA, db_uuid=FORGED, wait_s=1e6), OF_BETA)],
        "gang_claimed": [Lie("a part of beta's", _of_part(host=FORGED, port=1), AT_BETA)],
        "gang_yield": [Lie("a part of beta's", _of_part(), AT_BETA)],
        "gang_roster": [Lie("work of beta", _of_part(OF_BETA, number=1, active=(0,)), OF_BETA)],
        "refused": [Lie("a part of beta's", _of_part(reason=FORGED), AT_BETA)],
        "commit": [Lie("work of beta", _of_part(OF_BETA, db_uuid=FORGED), OF_BETA)],
        "committed": [Lie("a part of beta's", _of_part(), AT_BETA)],
        "abort": [Lie("work of beta", _of_part(OF_BETA), OF_BETA)],
        "aborted": [Lie("a part of beta's", _of_part(), AT_BETA)],
        "lost": [Lie("a part of beta's", _of_part(db_uuid=FORGED), AT_BETA)],
        "progress": [
            Lie("a part of beta's", _of_part(counter=FAR, running=40, stopped=FORGED, held={}), AT_BETA),
            Lie("steps of a part of beta's", _of_part(counter=FAR, held={}, steps=[_steps(1.0)] * 5000), AT_BETA),
            Lie("steps that are no numbers", _of_part(counter=FAR, held={}, steps=[_steps(NAN)]), "not a finite"),
        ],
        "result": [
            Lie(
                "a part of beta's",
                _of_part(facts={"site": me, **FACTS}, cancelled={}, db_uuid=FORGED),
                AT_BETA,
            ),
            Lie("of an epoch never given", _of_part(epoch=FAR, facts={"site": me, **FACTS}, cancelled={}), TOO_FAR),
        ],
        "result_ack": [Lie("work of beta", _of_part(OF_BETA, outputs_taken=True), OF_BETA)],
        "control": [
            Lie("cancels work of beta", _of_part(OF_BETA, control_seq=9, cancel=JOBS, hold={}), OF_BETA),
            Lie(
                "stops work of beta at a checkpoint",
                _of_part(OF_BETA, control_seq=9, cancel={}, hold={}, save=JOBS, save_seq=FAR),
                OF_BETA,
            ),
        ],
        "control_ack": [Lie("a part of beta's", _of_part(control_seq=9), AT_BETA)],
        "queue_request": [Lie("of beta's part", {"query": 1, "parts": [OF_BETA]}, heard="queue_report")],
        "queue_report": [Lie("not asked for", {"query": 1, "parts": [{"site": "beta", "part": AT_BETA, "jobs": 9}]})],
        "surplus": [
            Lie("alpha's at beta", {"groups": [_surplus("alpha-1", AT_BETA)], "reason": FORGED}),
            Lie("beta's", {"groups": [_surplus("beta-1", OF_BETA)]}, "another site's"),
        ],
        "work_invited": [Lie("no room", {"free_slots": 0}, "invites work")],
        "room_request": [Lie("for nothing", {"room": 0, "jobs": 0, "processors": 0}, "asks for room")],
        "room_grant": [Lie("not asked for", {"room": 1, "jobs": 40, "reason": FORGED})],
        "renew": [Lie("of no time", {"generation": 1, "sent_s": NAN}, "not a finite")],
        "renewed": [
            Lie("not asked for", {"generation": 1, "sent_s": 1.0, "lease_s": 1e9}),
            Lie("of no time", {"generation": 1, "sent_s": 1.0, "lease_s": NAN}, "not a finite"),
        ],
        "reserve": [Lie("for beta", {"group": "beta-1", "seq": 9, "jobs": 9, "processors": 1}, "reserves for beta-1")],
        "turn_call": [Lie("of a group it does not wait for", {"group": "alpha-1", "call": 9, "jobs": 40})],
    }


def _surplus(group: str, part: str) -> dict[str, Any]:
    return {"group": group, "parts": [part], "epochs": [1], "jobs": [40], "ends_s": 1e6, "processors_per_s": 0.1}


class Liar:
    """A stream to a real node, on which it says what it is told to."""

    def __init__(self, site: str, keys: Path, to: Site, vo: str, hello: dict[str, Any]) -> None:
        self.site = site
        self.heard: dict[str, list[Any]] = {}
        self.boot_nonce = ""
        self.problem = ""
        self._met = threading.Event()
        self._out: queue.Queue[bytes | None] = queue.Queue(8)
        texts = [(keys / name).read_bytes() for name in ("vo.pem", "site.key", "site.pem")]
        options = [("grpc.ssl_target_name_override", server_name(to.name, vo)), ("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.secure_channel(to.address, grpc.ssl_channel_credentials(*texts), options)
        said = {"site": site, "protocol": 1, "release": "9.9", "db_uuid": f"db-{site}", "generation": 1, "seq": 1}
        self.say("hello", **(said | {"boot_nonce": f"n-{site}"} | hello))
        self._call = self._channel.stream_stream("/diana.v1.Peer/Stream")(iter(self._out.get, None))
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def say(self, kind: str, **fields: Any) -> None:
        self.send(NOW.payload(kind, **fields))

    def send(self, payload: bytes, *, sender: str = "", receiver: str = "") -> None:
        outer = NOW.new(
            "Envelope", version=1, sender=sender or self.site, receiver=receiver, generation=1, payload=payload
        )
        self.write(outer.SerializeToString())

    def write(self, data: bytes) -> None:
        """Returns soon, if the node reads no further: then this is not said."""
        with suppress(queue.Full):
            self._out.put(data, timeout=0.2)

    def met(self) -> bool:
        """True once the node has said who it is; False if it turned this one away."""
        self._met.wait(20)
        return bool(self.boot_nonce)

    def close(self) -> None:
        self._call.cancel()
        with suppress(queue.Empty):
            while True:
                self._out.get_nowait()
        self._out.put(None)
        self._reading.join(10)
        self._channel.close()

    def _read(self) -> None:
        try:
            for data in self._call:
                outer = NOW.cls("Envelope").FromString(data)
                message = NOW.cls("PeerMessage").FromString(outer.payload)
                if kind := message.WhichOneof("body") or "":
                    self.heard.setdefault(kind, []).append(getattr(message, kind))
                if kind == "hello":
                    self.boot_nonce = message.hello.boot_nonce
                    self._met.set()
        except grpc.RpcError as error:
            self.problem = str(error)
        self._met.set()


@contextmanager
def liar(site: str, keys: Path, to: Site, vo: str, hello: dict[str, Any] | None = None) -> Iterator[Liar]:
    made = Liar(site, keys, to, vo, hello or {})
    try:
        yield made
    finally:
        made.close()
