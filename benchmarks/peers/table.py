"""The table of peers: rows as they were measured, in the page between two marks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"

Found = dict[str, Any]
"""{"machine": ..., "command": ..., "rows": [...], "absent": [...]}, as `bench_peers` writes it."""


def table(found: Found) -> str:
    """Return the table as Markdown, losses included, the absent and the failed named below it."""
    lines = [
        "| work | peer | diana | peer's | diana is better by | range |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_line(row) for row in found["rows"] if "ratio" in row]
    lines += ["", f"{found['machine']}; `{found['command']}`, {found['taken']}.", ""]
    for row in found["absent"]:
        lines.append(f"- Not here: {row['peer']} ({row['why']}).")
    for row in found["rows"]:
        if "failed" in row:
            lines.append(f'- Failed: {row["peer"]} at "{row["cell"]}" ({row["failed"]}).')
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    low, high = row["ratio_range"]
    name = f"{row['peer']} {row['version']}".strip()
    sides = " | ".join(f"{_figure(row[side])} {row['unit']}" for side in ("ours", "theirs"))
    return f"| {row['cell']}, {row['size']:,} | {name} | {sides} | {row['ratio']:.2f} x | {low:.2f} to {high:.2f} |"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def written(text: str, found: Found) -> str:
    """Return the page with the table between its marks; ValueError: it has none."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no line {BEGIN} followed by a line {END}")
    return f"{head}{BEGIN}\n{table(found)}\n{END}{tail}"


def write(page: Path, found: Found) -> None:
    page.write_text(written(page.read_text(), found))
