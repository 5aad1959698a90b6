"""The output of verbs: JSON for programs, aligned text for people, colours only where a terminal shows them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from diana.model.durations import between as between
from diana.model.durations import seconds as seconds
from diana.model.words import counted as counted

if TYPE_CHECKING:
    from rich.text import Text

COLOURS = {
    "done": "green",
    "alive": "green",
    "running": "cyan",
    "failed": "red",
    "unreachable": "yellow",
    "suspect": "yellow",
    "held": "yellow",
    "cancelled": "magenta",
}
MARKS = {"#": "green", "x": "red", "-": "cyan", ".": "dim"}
"""Colours of a bar's marks: done; failed or cancelled; running; still to come."""
GAP = 2
"""Spaces between a table's columns."""


class ProgressBar(str):
    """Text drawn by `bar`: a table shows its marks in their colours."""

    __slots__ = ()


def print_json(value: object) -> None:
    """Print any message of the client service (its JSON is proto3's mapping, zeros and empty texts present), or plain
    values; one line."""
    import msgspec

    text = msgspec.json.encode(_whole(value)).decode()
    if not text.isascii() and (sys.stdout.encoding or "").lower() != "utf-8":
        import json

        # A locale that cannot show a letter leaves it escaped as JSON has it.
        text = json.dumps(json.loads(text), separators=(",", ":"))
    sys.stdout.write(text + "\n")


def _whole(value: object) -> object:
    """The value with the defaults that the wire leaves out; messages that are absent stay so."""
    import msgspec

    from diana.model.views.shown import Shown
    from diana.wire.client.base import Message

    if isinstance(value, Shown | Message):
        fields = ((f.encode_name, getattr(value, f.name)) for f in msgspec.structs.fields(type(value)))
        return {name: _whole(some) for name, some in fields if some is not None}
    if isinstance(value, tuple | list):
        return [_whole(one) for one in value]
    return value


def tell(text: str, as_json: bool) -> None:
    """Say what was done, in a line or several."""
    if as_json:
        from diana.cli.shared.shapes import Said

        print_json(Said(text=text))
        return
    for line in text.splitlines():
        say(line)


def on_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def columns() -> int:
    """Width of the terminal."""
    import shutil

    return shutil.get_terminal_size().columns


def in_colour() -> bool:
    """`--no-color` and a NO_COLOR that is not empty (no-color.org) say no."""
    return on_terminal() and not os.environ.get("NO_COLOR")


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], least: Sequence[str] = ()) -> None:
    """A header that begins with `>` aligns its column to the right. `least`: headers of columns that a terminal too
    narrow for all does without, the first of them first; a line below says which."""
    cells = [[cell if isinstance(cell, ProgressBar) else clean(str(cell)) for cell in row] for row in rows]
    if on_terminal():
        _on_terminal(header, cells, least, columns())
        return
    for line in aligned(header, cells):
        print(line)


def aligned(header: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, where there are no colours."""
    names = [name.lstrip(">") for name in header]
    widths = _widths(names, cells)
    for row in [names, *cells]:
        parts = [
            cell.rjust(width) if name.startswith(">") else cell.ljust(width)
            for cell, width, name in zip(row, widths, header, strict=True)
        ]
        yield (" " * GAP).join(parts).rstrip()


def _widths(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[k]) for row in [names, *cells]) for k in range(len(names))]


def fitting(names: Sequence[str], widths: Sequence[int], least: Sequence[str], room: int) -> list[int]:
    """Places of the columns that are shown where there are so many on the terminal."""
    kept = list(range(len(names)))
    for name in least:
        if sum(widths[k] for k in kept) + GAP * (len(kept) - 1) <= room:
            break
        kept = [k for k in kept if names[k] != name]
    return kept


def _on_terminal(header: Sequence[str], cells: Sequence[Sequence[str]], least: Sequence[str], room: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    names = [name.lstrip(">") for name in header]
    kept = fitting(names, _widths(names, cells), least, room)
    made = Table(box=None, pad_edge=False, header_style="bold")
    for k in kept:
        made.add_column(Text(names[k]), justify="right" if header[k].startswith(">") else "left", no_wrap=True)
    for row in cells:
        made.add_row(*(styled(row[k]) for k in kept))
    Console(highlight=False, color_system="auto" if in_colour() else None).print(made)
    if len(kept) < len(names):
        print(f"(no room for {', '.join(name for k, name in enumerate(names) if k not in kept)}; --json has all)")


def styled(cell: str) -> Text:
    """Text in a style, never read as markup: names come from other people."""
    from itertools import groupby

    from rich.text import Text

    if isinstance(cell, ProgressBar):
        return Text.assemble(*(("".join(run), MARKS.get(mark, "")) for mark, run in groupby(cell)))
    return Text(cell, style=COLOURS.get(cell, ""))


def clean(text: str) -> str:
    """Names come from other people's files: no control characters to the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def say(text: str, flush: bool = False) -> None:
    """Print one line for people."""
    print(clean(text), flush=flush)


def heading(text: str) -> None:
    print(f"\033[1m{clean(text)}\033[0m" if in_colour() else clean(text))


def bar(parts: Sequence[tuple[int, str]], total: int, width: int = 20) -> ProgressBar:
    """`bar([(5, "#"), (1, "x")], 10)` -> `##########xx........`. What is there at all shows as at least one mark, and
    a bar is full only when everything is."""
    drawn = ""
    for count, mark in parts:
        drawn += mark * (max(1, count * width // total) if count and total else 0)
    drawn = drawn[:width]
    counted_all = sum(count for count, _ in parts) >= total > 0
    if counted_all and drawn:
        # Each part is rounded down: nothing is to come all the same.
        drawn = drawn.ljust(width, drawn[-1])
    elif len(drawn) == width:
        drawn = drawn[:-1]
    return ProgressBar(drawn + "." * (width - len(drawn)))


def milliseconds(value_s: float) -> str:
    """A round trip's time as text; `-` for one that was not measured."""
    return "-" if value_s < 0 else f"{value_s * 1000:.1f} ms"


def size(value_bytes: float) -> str:
    """`0 B`, `512 B`, `1.5 kB`, `2.0 GB` (powers of 1000); `-` for what is not known."""
    if value_bytes < 0:
        return "-"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value_bytes < 1000 or unit == "TB":
            break
        value_bytes /= 1000
    return f"{value_bytes:.0f} {unit}" if unit == "B" else f"{value_bytes:.1f} {unit}"


def memory(value_bytes: float) -> str:
    """`0 KiB`, `512 KiB`, `1.5 MiB`, `2.0 GiB` (powers of 1024, as limits of memory are written)."""
    value = value_bytes / 1024
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "KiB" else f"{value:.1f} {unit}"


def rate(bytes_per_s: float) -> str:
    return f"{size(bytes_per_s)}/s" if bytes_per_s > 0 else "-"


def fields(value: Any, *names: str) -> list[str]:
    """`3 running` for each named count that is not zero."""
    return [f"{getattr(value, name):,} {name}" for name in names if getattr(value, name)]
