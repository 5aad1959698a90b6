"""Base of all messages of the client service: values whose JSON is the proto3 JSON mapping."""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A default is the zero of its type, because proto3 cannot tell zero from absent."""
