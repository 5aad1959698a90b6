"""Base of the views that travel to users as they are."""

from __future__ import annotations

import msgspec


class Shown(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A value whose JSON is the proto3 JSON mapping: camelCase keys, defaults left out. A default is the zero of its
    type, because proto3 cannot tell zero from absent. The journal keeps none of them but
    those within a `Decision`."""
