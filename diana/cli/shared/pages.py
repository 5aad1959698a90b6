"""Pages for a browser that a verb writes to a file of the user's."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from diana.errors import UsageError, of_extra


def add_page(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots, for a browser, there too")


def check_page(verb: str, page: Path | None) -> None:
    """Raise UsageError for a file that could not be written, before the work that fills it."""
    if page is None:
        return
    if page.is_dir():
        raise UsageError(f"{verb}: --html {page}: a folder; name a file in it")
    if not page.absolute().parent.is_dir():
        raise UsageError(f"{verb}: --html {page}: no such folder; make it, or name another")
    with of_extra("charts", f"{verb} --html"):
        import_module("matplotlib")


def write_page(page: Path, text: str) -> None:
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {page}: {(error.strerror or str(error)).lower()}; name another file") from None
