"""Acts on trust that is taken back where the server's admission cannot: towards sites that this node dials.

gRPC hides from a client whose certificate it verified, so what is known of a dialled site is its name, and a revoked
name is what ends the stream. A key that was stolen is revoked by name too, or is of use for a week at most.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Protocol

from diana.adapters.tasks import end, keep_up
from diana.engine.messages.messages import Hello
from diana.model.ids import SiteId
from diana.node.ways_in.audit import Audit

EVERY_S = 1.0
PEER_AGAIN_S = 600.0
"""Seconds in which the same reason for turning a peer away is one line in the audit trail."""
MOST_REASONS = 256

_log = logging.getLogger("diana.trust")


class Refusals:
    """Peers and callers that the admission turned away, for the audit trail; that is opened after the port is bound."""

    def __init__(self) -> None:
        self.audit: Audit | None = None
        self._told_s: dict[str, float] = {}

    def note(self, named: str, method: str, where: str, why: str) -> None:
        """`named`: by the certificate, which need not be true."""
        who = f"certificate of {named}" if named.strip(":") else "certificate of nobody"
        if self.audit is not None:
            self.audit.note(who, method, decision="denied", reason=why, where=where, unproven=True)
        _log.info("%s at %s is refused %s: %s", who, where, method, why)

    def note_peer(self, where: str, why: str) -> None:
        """Note a peer that was turned away, or one that we dialled and that is not the site it should be. Such peers
        try on for ever: each reason is told now and then. The log has them already."""
        now_s = time.monotonic()
        if now_s - self._told_s.get(why, -PEER_AGAIN_S) < PEER_AGAIN_S:
            return
        if len(self._told_s) >= MOST_REASONS:
            self._told_s.clear()
        self._told_s[why] = now_s
        if self.audit is not None:
            self.audit.note("peer", "peer-stream", decision="denied", reason=why, where=where, unproven=True)

    def note_word(self, site: SiteId, why: str) -> None:
        """Note a word of a peer that was not believed. Its certificate was verified, so it is its own word."""
        if self.audit is not None:
            self.audit.note(f"site:{site}", "peer-word", decision="ignored", reason=why, role="peer")

    def note_machine(self, machine: str, why: str) -> None:
        """The same of a machine of this site."""
        if self.audit is not None:
            self.audit.note(f"machine:{machine}", "member-word", decision="ignored", reason=why, role="member")


class Reaching(Protocol):
    refuses: Callable[[SiteId], str]


class Linked(Protocol):
    """The transport, as far as it is needed here."""

    @property
    def reach(self) -> Reaching: ...
    def peers(self) -> Mapping[SiteId, Hello]: ...
    def distrusted(self, site: SiteId) -> None: ...


def watch_links(
    stack: AsyncExitStack, transport: Linked, distrust_site: Callable[[str], str], every_s: float = EVERY_S
) -> None:
    """From now until the stack closes, no stream to a revoked site is made or kept, in whichever list it stands.
    `distrust_site` says why a site is revoked, or nothing."""
    transport.reach.refuses = distrust_site
    task = keep_up(partial(_watch, transport, distrust_site, every_s), "closing streams to revoked sites")
    stack.push_async_callback(end, task)


async def _watch(transport: Linked, distrust_site: Callable[[str], str], every_s: float) -> None:
    while True:
        for site in list(transport.peers()):
            if why := distrust_site(site):
                _log.warning("the stream with %s is closed: %s", site, why)
                transport.distrusted(site)
        await asyncio.sleep(every_s)
