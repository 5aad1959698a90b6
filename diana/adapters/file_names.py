"""Names of files that come from users and peers, before they become paths.

A name is trusted after `parts_of` alone: every component is checked, so no join with it can leave its root.
"""

from __future__ import annotations

from diana.errors import UsageError, quoted

PART_PREFIX = ".diana-part-"
"""Begins the names of files that are not complete yet; no other file may bear such a name."""

_MAX_COMPONENT_BYTES = 255
_MAX_NAME_BYTES = 2048


class BadName(UsageError):
    """A name nobody may use: the text says which and why."""


def parts_of(name: str) -> tuple[str, ...]:
    """The checked components of a relative name; BadName for one that could leave its folder or hide in it."""
    shown = quoted(name if len(name) <= 120 else name[:120] + "...")
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise BadName(f"file name {shown}: not UTF-8; rename the file") from None
    if not name or size_bytes > _MAX_NAME_BYTES:
        raise BadName(f"file name {shown}: want 1 to {_MAX_NAME_BYTES} bytes")
    if name.startswith("/"):
        raise BadName(f"file name {shown}: absolute; want a name relative to its folder")
    if not name.isprintable():
        raise BadName(f"file name {shown}: holds a control character; rename the file")
    parts = tuple(name.split("/"))
    for part in parts:
        if part in ("", ".", ".."):
            raise BadName(f"file name {shown}: component {part!r} is not allowed; want plain names between slashes")
        if part.startswith(PART_PREFIX):
            raise BadName(f"file name {shown}: names beginning with {PART_PREFIX} are kept for unfinished files")
        if len(part.encode()) > _MAX_COMPONENT_BYTES:
            raise BadName(f"file name {shown}: a component is longer than {_MAX_COMPONENT_BYTES} bytes")
    return parts
