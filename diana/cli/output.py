"""What verbs print: JSON for programs, aligned text for people, colours only where a terminal shows them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from diana.model.durations import between as between
from diana.model.durations import seconds as seconds
from diana.model.words import counted as counted

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


def print_json(value: object) -> None:
    """Any message of the client service (its JSON is proto3's mapping), or plain values; one line."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def on_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and "NO_COLOR" not in os.environ


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A header that begins with `>` aligns its column to the right."""
    cells = [[clean(str(cell)) for cell in row] for row in rows]
    if on_terminal():
        _rich_table(header, cells)
        return
    names = [name.lstrip(">") for name in header]
    widths = [max(len(row[k]) for row in [names, *cells]) for k in range(len(names))]
    for row in [names, *cells]:
        parts = [
            cell.rjust(width) if name.startswith(">") else cell.ljust(width)
            for cell, width, name in zip(row, widths, header, strict=True)
        ]
        print("  ".join(parts).rstrip())


def _rich_table(header: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        made.add_column(name.lstrip(">"), justify="right" if name.startswith(">") else "left", no_wrap=True)
    for row in cells:
        made.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    Console(highlight=False).print(made)


def clean(text: str) -> str:
    """Names come from other people's files: no control characters to the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def heading(text: str) -> None:
    print(f"\033[1m{clean(text)}\033[0m" if on_terminal() else clean(text))


def bar(parts: Sequence[tuple[int, str]], total: int, width: int = 20) -> str:
    """`bar([(5, "#"), (1, "x")], 10)` -> `##########xx........`. What is there at all shows as at least one mark, and
    a bar is full only when everything is."""
    drawn = ""
    for count, mark in parts:
        drawn += mark * (max(1, count * width // total) if count and total else 0)
    drawn = drawn[:width]
    if len(drawn) == width and sum(count for count, _ in parts) < total:
        drawn = drawn[:-1]
    return drawn + "." * (width - len(drawn))


def milliseconds(value_s: float) -> str:
    """Of a round trip; `-` for one that was not measured."""
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


def rate(bytes_per_s: float) -> str:
    return f"{size(bytes_per_s)}/s" if bytes_per_s > 0 else "-"


def fields(value: Any, *names: str) -> list[str]:
    """`running 3` for each named count that is not zero."""
    return [f"{name} {getattr(value, name):,}" for name in names if getattr(value, name)]
