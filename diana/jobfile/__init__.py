"""Job files: text that users write, checked and turned into one `GroupSpec` per group. TOML, YAML, JSON, a script with
`#DIANA` lines or words of the command line come in; the specs go out, with the files to upload, or one line for the
author that names the key, its value and the mend. The public names load lazily: the command line takes
`diana.jobfile.commandline` alone and counts milliseconds. Read `parse.py` first, the entry, then `raw.py`, the job file
as written, and `build.py`, which makes the spec."""

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
