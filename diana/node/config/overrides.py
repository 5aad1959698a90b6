"""The command line's settings of a node, in place of those in its site.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from diana.errors import UsageError
from diana.node.config.site_file import SiteConfig


def overridden(config: SiteConfig, overrides: Mapping[str, Any]) -> SiteConfig:
    """`overrides`: fields of `SiteConfig` or of its settings. UsageError for what is out of range."""
    fields = {f.name for f in msgspec.structs.fields(SiteConfig)}
    own = {k: v for k, v in overrides.items() if k in fields}
    rest = {k: v for k, v in overrides.items() if k not in fields}
    try:
        settings = msgspec.structs.replace(config.settings, **rest)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return msgspec.structs.replace(config, settings=settings, **own)
