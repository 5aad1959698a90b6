"""The wire: client messages as values, generated protobuf code, and the codec between them. Values of
`diana.engine.messages` and `client` go in and bytes come out, and the other way round; peer messages are checked on
decode, so that nothing behind this door meets an impossible value. Frames of the local socket, TLS identities, and the
check that released definitions stay readable are here too. Read `peer_codec.py` first, then `mapping.py`, which makes
the conversions, and `client/messages.py`, the table of client calls."""

from __future__ import annotations

PROTOCOL = 1
"""Version of the peer protocol this release speaks, told in Hello and in every envelope."""

OLDEST_PROTOCOL = 1
"""Oldest version it still speaks. Between two releases, the newer one refuses the older or speaks its version."""


class BadMessage(ValueError):
    """Bytes or values that are no message of this protocol. `str()` is one line."""
