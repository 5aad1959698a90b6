"""All messages of the client service, by the name they have in `client.proto` and `common.proto`."""

from __future__ import annotations

import importlib
import pkgutil

import msgspec

from diana.model.views.shown import Shown
from diana.wire import client
from diana.wire.client.base import Message

for _module in pkgutil.iter_modules(client.__path__, f"{client.__name__}."):
    importlib.import_module(_module.name)


def by_name() -> dict[str, type[msgspec.Struct]]:
    """Views of the model included, which travel as they are."""
    return {cls.__name__: cls for base in (Message, Shown) for cls in base.__subclasses__()}
