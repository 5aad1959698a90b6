"""One table of the page: it keeps its cursor on a row by name while what is known changes."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import DataTable

from diana.cli.shared import output
from diana.cli.top import tables

_TITLES = {"sites": "sites", "queue": "queued here", "groups": "groups", "machines": "machines", "peers": "peers"}
COLUMNS = {
    "sites": tables.SITES,
    "queue": tables.QUEUE,
    "groups": tables.GROUPS,
    "machines": tables.MACHINES,
    "peers": tables.PEERS,
}


class RowTable(DataTable[Text]):
    """Rows by key; the cursor stays with its row."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name, cursor_type="row", cell_padding=1)
        self._header = COLUMNS[name]
        self._title = _TITLES[name]
        self._cells: dict[str, tuple[str, ...]] = {}
        self.border_title = self._title

    def on_mount(self) -> None:
        for name in self._header:
            right = name.startswith(">")
            self.add_column(Text(name.lstrip(">"), justify="right" if right else "left"), key=name)

    def fill(self, shown: tables.TableContent) -> None:
        parts = [f"{len(shown.rows)} of {len(shown.rows) + shown.left_out:,}" if shown.left_out else ""]
        parts.append(f"{shown.hidden:,} filtered out" if shown.hidden else "")
        # Numbers and words of ours alone: titles are read as markup.
        self.border_title = ", ".join([self._title, *filter(None, parts)])
        cells = dict(shown.rows)
        if list(cells) == list(self._cells):
            for key, row in cells.items():
                for name, cell, before in zip(self._header, row, self._cells[key], strict=True):
                    if cell != before:
                        self.update_cell(key, name, self._text(name, cell), update_width=True)
        else:
            self._fill_anew(cells)
        self._cells = cells

    def _fill_anew(self, cells: dict[str, tuple[str, ...]]) -> None:
        under = self.cursor_key()
        self.clear()
        for key, row in cells.items():
            self.add_row(*map(self._text, self._header, row), key=key)
        if under in cells:
            self.move_cursor(row=list(cells).index(under))

    def cursor_key(self) -> str:
        """Empty: there is no row."""
        keys = list(self._cells)
        return keys[self.cursor_row] if 0 <= self.cursor_row < len(keys) else ""

    @staticmethod
    def _text(name: str, cell: str) -> Text:
        made = output.styled(cell)
        if name.startswith(">"):
            made.justify = "right"
        return made
