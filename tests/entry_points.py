"""Packages with entry points, laid out as an installer leaves them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def install(root: Path, module: str, text: str, group: str, names: Iterable[str]) -> Path:
    """Write a module and, under its own names, entry points of the group. Returns the folder for `sys.path`."""
    (root / f"{module}.py").write_text(text)
    about = root / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {module}:{name}\n" for name in names)
    (about / "entry_points.txt").write_text(f"[{group}]\n{lines}")
    return root
