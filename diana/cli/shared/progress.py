"""Progress of a long verb, on standard error: a bar or a line redrawn on a terminal; elsewhere no control characters,
and nothing or a line now and then."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from diana.cli.shared.output import clean

Tell = Callable[[int, int], None]


def redraws() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class StatusLine:
    """One line that is written over again, where a terminal shows it; else nothing."""

    def __init__(self) -> None:
        self._redraws = redraws()
        self._shown = False

    def show(self, text: str) -> None:
        if not self._redraws:
            return
        import shutil

        # A line that wraps could not be written over.
        room = max(1, shutil.get_terminal_size().columns - 1)
        shown = clean(text)
        sys.stderr.write(f"\r\033[K{shown if len(shown) <= room else shown[: room - 1] + '…'}")
        sys.stderr.flush()
        self._shown = True

    def end(self) -> None:
        """Take the line away; the next text begins on a line of its own."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


@contextmanager
def progress(what: str) -> Iterator[Tell | None]:
    """Yield a function to be told `(done, of)`; None where nobody looks. The bar goes when all is done."""
    if not redraws():
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
