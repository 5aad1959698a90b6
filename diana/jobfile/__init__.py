"""Job files: what users write, checked and turned into one `GroupSpec` per group.

The public names load lazily: the command line takes `diana.jobfile.commandline` alone and counts milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diana.jobfile.parse import parse_file
    from diana.jobfile.parsed import ParsedFile, ParsedJob

__all__ = ["ParsedFile", "ParsedJob", "parse_file"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from diana.jobfile import parse

        return getattr(parse, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
