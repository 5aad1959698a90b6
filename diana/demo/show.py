"""The displays of the demo: a table that lives on a terminal, plain lines elsewhere, the final table."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from diana.model.views.group import GroupStatus

LINE_EVERY_S = 1.0
BAR = 24


def by_site(status: GroupStatus) -> dict[str, list[int]]:
    """[jobs, staging, queued, running, done] of each site, over all its subgroups; the merge is one of the home's."""
    out: dict[str, list[int]] = {}
    for share in sorted(status.shares, key=lambda share: share.site):
        numbers = [share.jobs, share.staging, share.queued, share.running, share.done]
        out[share.site] = [a + b for a, b in zip(out.get(share.site, [0] * 5), numbers, strict=True)]
    return out


class DemoProgress:
    """Goes to standard error when standard output is for JSON. A context: the live table ends with it."""

    def __init__(self, quiet_stdout: bool, slots: dict[str, int]) -> None:
        self._console = Console(file=sys.stderr if quiet_stdout else sys.stdout, highlight=False)
        self._slots = slots
        self._live: Live | None = None
        self._last_s = -LINE_EVERY_S
        self._start_s = time.monotonic()

    def tell(self, text: str) -> None:
        """Tell one line of what happens."""
        self._console.print(f"[dim]{time.monotonic() - self._start_s:5.1f} s[/dim]  {escape(text)}", soft_wrap=True)

    def show(self, status: GroupStatus) -> None:
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(self._table(status), refresh=True)
        elif status.final or time.monotonic() - self._last_s >= LINE_EVERY_S:
            self._last_s = time.monotonic()
            done = ", ".join(f"{site} {numbers[-1]}" for site, numbers in by_site(status).items())
            self.tell(f"{status.done}/{status.jobs} done, {status.running} running, {status.state} ({done})")

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _table(self, status: GroupStatus) -> Table:
        table = Table(title=f"{status.group}  {status.state}  {status.done}/{status.jobs} done", title_justify="left")
        table.add_column("site")
        for name in ("slots", "jobs", "staging", "queued", "running", "done"):
            table.add_column(name, justify="right")
        table.add_column("", min_width=BAR)
        shares = by_site(status)
        for site, slots in self._slots.items():
            numbers = shares.get(site, [0] * 5)
            full = round(BAR * numbers[4] / numbers[0]) if numbers[0] else 0
            bar = f"[blue]{'━' * full}[/blue][dim]{'━' * (BAR - full)}[/dim]"
            table.add_row(site, str(slots), *(str(number) if number else "·" for number in numbers), bar)
        return table

    def table(self, header: Sequence[str], rows: Iterable[Sequence[Any]], footer: Sequence[str]) -> None:
        """The first column is text, the others are numbers."""
        table = Table(show_footer=True)
        for k, (name, foot) in enumerate(zip(header, footer, strict=True)):
            table.add_column(name, foot, justify="right" if k else "left")
        for row in rows:
            table.add_row(*map(str, row))
        self._console.print(table)

    def line(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False)
