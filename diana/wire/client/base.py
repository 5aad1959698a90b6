"""Base of all messages of the client service: values whose JSON is the proto3 JSON mapping."""

from __future__ import annotations

import msgspec


class _Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


Base = _Message
