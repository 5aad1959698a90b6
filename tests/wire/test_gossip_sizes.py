"""Membership's estimate of its messages' weight is near their weight (PERFORMANCE P9 is counted by it in the
simulator)."""

from __future__ import annotations

import pytest

from diana.engine.membership.sizes import message_bytes
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from diana.wire import BadMessage, peer_codec


def entry(name: str, **more: object) -> ms.Summary:
    fields: dict[str, object] = {
        "site": SiteId(name), "generation": 7, "counter": 123_456, "seq": 9_999, "slots": 640, "free_slots": 12,
        "speed": 1.25, "queued_jobs": 100_000, "running_jobs": 628, "work_ahead_s": 12_345.6, "datasets": (),
        "accepting": True, "address": f"{name}.example.org:7400", "release": "0.1.0", "protocol": 1,
        "via": (SiteId("cern"), SiteId("desy-hh"), SiteId("fnal"), SiteId("ral")),
    }  # fmt: skip
    return ms.Summary(**(fields | more))  # type: ignore[arg-type]


LINK = ms.LinkEstimate(SiteId("desy-hh"), 0.012, 1e8, 0.001, 0.0, 0.1, 12.0, 0, "median5", 64)
ROWS = tuple(ms.Rumour(SiteId(f"site-{n}"), 3, 5000 + n, 1, SiteId("cern")) for n in range(40))


@pytest.mark.parametrize(
    "message",
    [
        entry("cern"),
        entry("cern", known=5000, members=1 << 62, complete=True, links=(LINK,) * 16),
        entry("cern", widest=64, resources={f"a-resource-of-a-name-{n}": 1_000_000 for n in range(16)}),
        entry("a-long-name-of-a-site", datasets=tuple(f"run-2026-{n:04}" for n in range(256))),
        ms.Gossip(entries=tuple(entry(f"site-{n}") for n in range(30)), ages_s=(1.5,) * 30),
        ms.Gossip(
            entries=tuple(entry(f"site-{n}") for n in range(30)),
            ages_s=(1.5,) * 30,
            heard_from=(ms.HeardFrom(tuple(SiteId(f"a-long-name-of-a-site-{n}") for n in range(4))),) * 30,
        ),
        ms.Gossip(rumours=ROWS, digest=ROWS),
        ms.Gossip(asks=tuple(SiteId(f"site-{n}") for n in range(64))),
    ],
)
def test_the_estimate_is_near_the_codecs_bytes(message: ms.Message) -> None:
    true = len(peer_codec.encode_message(message))
    assert 0.75 * true <= message_bytes(message) <= 1.3 * true + 60, (message_bytes(message), true)


def test_gossip_passes_the_wire_and_what_is_no_gossip_does_not() -> None:
    told = ms.Gossip(entries=(entry("cern"),), ages_s=(0.5,), rumours=ROWS[:2], digest=ROWS[2:4], asks_all=True)
    assert peer_codec.decode_message(peer_codec.encode_message(told)) == told
    bad = ms.Gossip(entries=(entry("cern"),), ages_s=())
    with pytest.raises(BadMessage, match="ages"):
        peer_codec.decode_message(peer_codec.encode_message(bad))
    bad = ms.Gossip(entries=(entry("cern"),), ages_s=(1.0,), heard_from=(ms.HeardFrom(),) * 2)
    with pytest.raises(BadMessage, match="ways"):
        peer_codec.decode_message(peer_codec.encode_message(bad))
    lie = ms.Gossip(rumours=(ms.Rumour(SiteId("../etc"), 1, 1, 1, SiteId("cern")),))
    with pytest.raises(BadMessage):
        peer_codec.decode_message(peer_codec.encode_message(lie))
