"""How far a long verb has come: a bar on a terminal, on standard error; elsewhere nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[int, int], None]


@contextmanager
def progress(what: str) -> Iterator[Tell | None]:
    """Gives what is told `(done, of)`; None where nobody looks. The bar goes when all is done."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    # No thread that refreshes it: the runs are forked off this process. What goes to stdout may be a file's.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False, redirect_stdout=False)
    task = bar.add_task(what, total=None)

    def tell(done: int, of: int) -> None:
        bar.update(task, completed=done, total=of, refresh=True)
        if done >= of:
            bar.stop()

    bar.start()
    try:
        yield tell
    finally:
        bar.stop()
