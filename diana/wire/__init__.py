"""The wire: client messages as values, generated protobuf code, and the codec between them."""

from __future__ import annotations

PROTOCOL = 1
"""Version of the peer protocol this release speaks, told in Hello and in every envelope."""

OLDEST_PROTOCOL = 1
"""Oldest version it still speaks. Between two releases, the newer one refuses the older or speaks its version."""


class BadMessage(ValueError):
    """Bytes or values that are no message of this protocol. `str()` is one line."""
