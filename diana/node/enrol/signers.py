"""The sites that can sign for the VO, as far as this one has been told: a small durable list that only grows.

It tells whom to ask for a renewal, and the first sites of a VO whether one more signer is wanted. A name in it gives no
right: what a site signs holds because its own certificate says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from diana import errors
from diana.adapters.trust.making import write_new
from diana.bounds import MOST_NOTE_BYTES, content_of, decoded
from diana.model.ids import SiteId, site_id

MOST = 64
MOST_ADDRESS = 300


_decode = msgspec.json.Decoder(dict[str, str]).decode


class SignerBook:
    """`path` holds site -> host:port, empty for one that can only dial out. UsageError for a file that is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._sites = decoded(_decode, content_of(path, MOST_NOTE_BYTES))
        except FileNotFoundError:
            self._sites = {}
        except (OSError, ValueError) as error:
            raise errors.UsageError(f"{path}: {error}; remove it, and this site learns its signers anew") from None

    def all(self) -> dict[str, str]:
        return dict(sorted(self._sites.items()))

    def learn(self, sites: Mapping[str, str] | Mapping[SiteId, str] | Iterable[tuple[str, str]]) -> None:
        """Durable on return; blocks on the disk when something is new."""
        known = dict(self._sites)
        for site, address in dict(sites).items():
            if len(address) > MOST_ADDRESS or not _is_site(site):
                continue
            if site in known or len(known) < MOST:
                known[site] = address or known.get(site, "")
        if known != self._sites:
            write_new(self._path, msgspec.json.encode(dict(sorted(known.items()))), 0o600)
            self._sites = known


def _is_site(name: str) -> bool:
    try:
        return bool(site_id(name))
    except ValueError:
        return False
