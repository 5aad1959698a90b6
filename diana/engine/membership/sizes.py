"""Sizes of messages on the wire, near enough to keep to a budget; the codec itself is not at hand here."""

from __future__ import annotations

from diana.engine.messages.messages import Gossip, Message, Rumour, Summary
from diana.engine.messages.recovery import Met
from diana.model.job.properties import size_bytes

_FRAME = 30
"""Bytes of names and versions around a message."""
_LINK = 70
_NONCE = 40
"""Bytes of a boot's nonce, with its field."""


def summary_bytes(told: Summary) -> int:
    """Return the bytes of an entry. It is weighed once, and told many times."""
    kept = told.__dict__
    if "weight_bytes" not in kept:
        kept["weight_bytes"] = _weighed(told)
    return int(kept["weight_bytes"])


def _weighed(told: Summary) -> int:
    size = 64 + len(told.site) + len(told.address) + len(told.release) + sum(map(len, told.via)) + 3 * len(told.via)
    size += len(told.ledger) + len(told.drained) + len(told.notice)
    if told.datasets:
        size += sum(map(len, told.datasets)) + 3 * len(told.datasets)
    if told.resources:
        size += sum(map(len, told.resources)) + 8 * len(told.resources)
    if told.properties:
        size += size_bytes(told.properties) + 8 * len(told.properties)
    return size + _LINK * len(told.links)


_ROW, _NAME, _TEXT, _RESOURCE = 1024, 64, 56, 400


def kept_bytes(told: Summary) -> int:
    """Return about how many bytes the entry takes in memory, with its row, without the names of its datasets."""
    texts = (told.site, told.address, told.release, told.ledger, told.drained, told.notice, told.domain, *told.via)
    size = _ROW + sum(map(len, texts)) + _TEXT * len(told.via)
    if told.properties:
        size += size_bytes(told.properties) + 2 * _TEXT * len(told.properties)
    # Each with its name's entry in the roster's index.
    return size + sum(_RESOURCE + len(name) for name in told.resources) if told.resources else size


def names_bytes(told: Summary) -> int:
    """Return about how many bytes the names of its datasets take in memory."""
    return sum(map(len, told.datasets)) + _NAME * len(told.datasets) if told.datasets else 0


def rumour_bytes(told: Rumour) -> int:
    return 14 + len(told.site) + len(told.by)


def message_bytes(message: Message) -> int:
    """Return the bytes of a message of membership: a summary, gossip or `Met`."""
    if isinstance(message, Summary):
        return _FRAME + summary_bytes(message)
    if isinstance(message, Gossip):
        told = sum(summary_bytes(entry) + 9 for entry in message.entries)
        told += sum(rumour_bytes(one) for one in (*message.rumours, *message.digest))
        told += sum(2 + sum(len(site) + 2 for site in way.sites) for way in message.heard_from)
        return _FRAME + told + sum(len(site) + 2 for site in message.asks)
    if isinstance(message, Met):
        return _FRAME + _NONCE
    raise AssertionError(f"only membership is weighed, not {type(message).__name__}")
