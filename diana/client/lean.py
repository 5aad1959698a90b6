"""Imports msgspec without what it would only drag along; import this before anything that imports msgspec.

Where `typing_extensions` is installed (grpcio brings it), msgspec takes two names from it which this Python's
`typing` has as well; loading it is a fifth of the time `diana submit` takes. It is hidden for this one import, and
only while no other thread could miss it.
"""

from __future__ import annotations

import sys

_NAME = "typing_extensions"

if not {"msgspec", "threading", _NAME} & sys.modules.keys():
    sys.modules[_NAME] = None  # type: ignore[assignment]
    try:
        import msgspec as msgspec
    finally:
        del sys.modules[_NAME]
