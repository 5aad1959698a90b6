"""The example's batch system, installed as a plug-in is: a package beside diana with an entry point."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "batch-system" / "background.py"


@contextmanager
def installed(root: Path) -> Iterator[None]:
    shutil.copy(EXAMPLE, root / "background.py")
    info = root / "background-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: background\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[diana.batch_systems]\nbackground = background:Background\n")
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
