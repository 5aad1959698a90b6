"""Renewal for a machine that has no site of its own to ask through, a standby while it follows say: it asks whoever
leads its site, at the addresses in `site.toml`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.node.config import SiteConfig
from diana.node.enrol.renewing import Note, Renewal
from diana.node.enrol.signers import SignerBook
from diana.node.enrol.signing import Signing

if TYPE_CHECKING:
    import grpc


def machine_renewal(paths: DataDir, config: SiteConfig, *, note: Note | None = None) -> Renewal:
    """Run it (`Renewal.run`) as long as the machine follows. Who leads need not be a signer: it passes requests on."""
    kind = "member" if config.role == "member" else "site"
    signing = Signing(
        keys=paths.keys,
        # The machine is not its site here: the site is whom it asks.
        site="",
        trust=config.trust,
        book=SignerBook(paths.signers),
        channel_for=_Leader(paths, config, kind, config.root),
        peers=lambda: iter((config.site,)),
    )
    return Renewal(keys=paths.keys, kind=kind, signing=signing, renewed=lambda: None, note=note or (lambda *_: None))


class _Leader:
    """A new channel each time, to the next address: with the newest keys, and round all that may lead."""

    def __init__(self, paths: DataDir, config: SiteConfig, kind: str, root: Sequence[str]) -> None:
        self._paths = paths
        self._config = config
        self._kind = kind
        self._addresses = cycle(root)
        self._open: grpc.aio.Channel | None = None
        self._closing: asyncio.Task[None] | None = None

    def __call__(self, site: SiteId) -> grpc.aio.Channel | None:
        from diana.wire.tls import load_credentials, open_channel

        if site != self._config.site:
            return None
        if self._open is not None:
            self._closing = asyncio.ensure_future(self._open.close())
        credentials = load_credentials(self._paths.keys, self._kind)
        self._open = open_channel(next(self._addresses), site, self._config.vo, credentials)
        return self._open
