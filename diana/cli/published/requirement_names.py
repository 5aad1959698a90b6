"""The tables of names in the page on requirements, made of the list that expressions are read by.

`python -m diana.cli.published.requirement_names docs/requirements.md` writes them anew in their place; a test keeps the
published ones current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from diana.policy.requirements import names
from diana.policy.requirements.names import PublishedName

_HEAD = "| name | meaning |\n| --- | --- |\n"
_TABLE = re.compile(re.escape(_HEAD) + r"(?:\|.*\n)*")
_LISTS = {
    "## Names\n": {
        **names.SITE,
        names.SITE_PROPERTY + "NAME": names.PROPERTY,
        names.SITE_RESOURCE + "NAME": names.RESOURCE,
        **names.LINK,
        **names.GROUP,
    },
    "### Models of gangs\n": names.COMPONENT,
}
"""Heading -> the names of the first table below it."""


def with_tables(page: str) -> str:
    """Return the page with the tables as they are now. ValueError: a heading or its table is not there."""
    for heading, known in _LISTS.items():
        before, found, rest = page.partition(heading)
        table = _TABLE.search(rest)
        if not found or table is None:
            raise ValueError(f"no table of names below {heading.strip()!r}")
        page = before + found + rest[: table.start()] + _table(known) + rest[table.end() :]
    return page


def _table(known: Mapping[str, PublishedName]) -> str:
    return _HEAD + "".join(f"| `{name}` | {one.meaning}{_kind(one)} |\n" for name, one in known.items())


def _kind(one: PublishedName) -> str:
    if one.many:
        return " (texts)" if one.text else " (numbers)"
    return " (a text)" if one.text else ""


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
