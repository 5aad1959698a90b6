"""Adds to a distribution, as hatchling builds it: manual pages made of the parsers, and the front page as its long
description. It needs no package but hatchling: the parsers are of the standard library."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n?")
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)[^)]*\)")


def long_description(front_page: str) -> str:
    """The page without links and pictures that are files beside it: an index shows it alone."""
    return _LINK.sub(r"\1", _PICTURE.sub("", front_page))


class FrontPage(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": long_description(text)}


class ManualPages(BuildHookInterface[Any]):
    """`man diana` finds them below the prefix of an environment; an editable install has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._folder: Path | None = None
        if self.target_name != "wheel" or version == "editable":
            return
        sys.path.insert(0, self.root)
        from diana.cli.published.manual import pages

        self._folder = Path(tempfile.mkdtemp(prefix="diana-man-"))
        for name, text in sorted(pages().items()):
            (self._folder / name).write_text(text, encoding="utf-8")
            build_data["shared_data"][str(self._folder / name)] = f"share/man/man1/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder)
