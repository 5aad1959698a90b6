"""The `[sweep]` of a job file as axes and a table. Ranges stay arithmetic; rows become the content of a blob."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from diana.bounds import MOST_ROW_BYTES
from diana.jobfile.units import MOST_LISTED, MOST_LISTED_FIRST, listed, spans
from diana.model.job.gang import COMPONENT
from diana.model.job.spec import Axis, ComponentSpec, FlexibleSpec, Sweep, Table
from diana.model.job.sweep import Rows, encode_rows, sweep_names, sweep_size
from diana.model.job.template import GIVEN, is_name

MOST_JOBS = 1_000_000_000
MOST_ROWS = 10_000_000
INLINE_BYTES = 64 << 10
"""Longest list of values kept in the spec. The spec travels with every offer; longer lists go into a blob, which
travels once."""


class BuiltSweep(msgspec.Struct, frozen=True, kw_only=True):
    sweep: Sweep
    rows: Rows | None = None
    content: bytes = b""
    """Content of the table's blob; the caller keeps it once everything else is in order."""
    max_parallel: int = 0
    """Limit of jobs at once from `array = "1-100%10"`; 0: none given."""
    array: tuple[int, int, int] | None = None
    """(first, last, count) of the values named `array`; None without such, or where they are no numbers."""
    notes: tuple[str, ...] = ()
    """Notes to the author, a line each."""


def build_sweep(raw: Mapping[str, object], csv_text: str | None, csv_name: str) -> BuiltSweep:
    """Build axes and table. `csv_text`: content of the file that `from` names, when it is at hand. ValueError names the
    key."""
    axes: list[Axis] = []
    parallel = 0
    columns: tuple[str, ...] = ()
    rows: Rows | None = None
    notes: list[str] = []
    if "from" in raw and "rows" in raw:
        raise ValueError("sweep.rows: written beside sweep.from; keep one of them")
    for name, value in raw.items():
        if name == "from":
            if not isinstance(value, str):
                raise ValueError("sweep.from: want the path of a CSV file, got a list")
            if csv_text is not None:
                columns, rows = _from_csv(csv_text, csv_name, notes.append)
        elif name == "rows":
            columns, rows = _from_rows(value)
        else:
            _check_name(name)
            if name == "array" and isinstance(value, str):
                value, parallel = _array(value)
            is_first = not axes and not raw.keys() & {"from", "rows"}
            axes.append(_axis(name, value, MOST_LISTED_FIRST if is_first else MOST_LISTED))
    array = _array_bounds(axes)
    if rows is None and "from" not in raw and axes and _is_long(axes[0]):
        columns, rows = (axes[0].name,), [[text] for text in axes.pop(0).values]
    _check_apart(columns, axes)
    content = encode_rows(rows) if rows is not None else b""
    _check_lengths(content, csv_name or "sweep")
    table = None
    if rows is not None:
        table = Table(
            columns=columns, rows=len(rows), blob=hashlib.sha256(content).hexdigest(), size_bytes=len(content)
        )
    sweep = Sweep(axes=tuple(axes), table=table)
    if sweep_size(sweep) > MOST_JOBS:
        raise ValueError(f"sweep: {sweep_size(sweep)} jobs; at most {MOST_JOBS} make one group, submit it in pieces")
    return BuiltSweep(sweep=sweep, rows=rows, content=content, max_parallel=parallel, array=array, notes=tuple(notes))


def with_ranks(
    built: BuiltSweep, components: Sequence[ComponentSpec], flexible: FlexibleSpec | None = None
) -> BuiltSweep:
    """Return the sweep with the components' ranks as its fastest value, so that each component is an index of its own.
    ValueError names the key."""
    count = flexible.most if flexible is not None else sum(each.count for each in components)
    if not count:
        return built
    sweep = built.sweep
    if COMPONENT in sweep_names(sweep):
        raise ValueError(f"sweep.{COMPONENT}: it is the rank of a component within its gang; name the value otherwise")
    sweep = msgspec.structs.replace(sweep, axes=(*sweep.axes, Axis(name=COMPONENT, start=0, stop=count)))
    if sweep_size(sweep) > MOST_JOBS:
        raise ValueError(
            f"components: {sweep_size(sweep)} with those of all jobs; at most {MOST_JOBS} make one group, submit it in "
            "pieces"
        )
    return msgspec.structs.replace(built, sweep=sweep)


def text_of(value: object) -> str:
    """Return a scalar as jobs see it: text as it is, which `read.py` makes of each number that Python writes in another
    way; booleans as `true` and `false`."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _axis(name: str, value: object, most: int) -> Axis:
    if isinstance(value, str):
        try:
            parts = spans(value)
            if len(parts) == 1 and not parts[0].digits:
                return Axis(name=name, start=parts[0].start, stop=parts[0].stop, step=parts[0].step)
            return Axis(name=name, values=tuple(listed(parts, most)))
        except ValueError as error:
            raise ValueError(f"sweep.{name}: {error}") from None
    if not isinstance(value, list) or not value:
        raise ValueError(f"sweep.{name}: empty; write at least one value")
    if any(isinstance(item, dict) for item in value):
        raise ValueError(f"sweep.{name}: a list of tables; want plain values (tables of values are named `rows`)")
    texts = tuple(item if type(item) is str else text_of(item) for item in value)
    if "\0" in "".join(texts):
        raise ValueError(f"sweep.{name}: a value holds a NUL character; remove it")
    return Axis(name=name, values=texts)


def _array(text: str) -> tuple[str, int]:
    """Split Slurm's `1-100%10` into the range and the limit of jobs at once."""
    text, percent, limit = text.partition("%")
    if percent and (not limit.strip().isdecimal() or int(limit) < 1):
        raise ValueError(f"sweep.array: {limit!r} after % is no number of jobs at once; write one of at least 1")
    return text, int(limit or 0)


def _array_bounds(axes: Sequence[Axis]) -> tuple[int, int, int] | None:
    for axis in axes:
        if axis.name == "array":
            if not axis.values:
                numbers = range(axis.start, axis.stop, axis.step)
                return numbers[0], numbers[-1], len(numbers)
            if all(value.isdecimal() for value in axis.values):
                members = [int(value) for value in axis.values]
                return min(members), max(members), len(members)
    return None


def _is_long(axis: Axis) -> bool:
    return sum(map(len, axis.values)) + 3 * len(axis.values) > INLINE_BYTES


def _check_name(name: str) -> None:
    if name in GIVEN:
        raise ValueError(f"sweep.{name}: every job has {{{name}}} already; choose another name")
    if not is_name(name):
        raise ValueError(f"sweep.{name}: no name; want letters, digits and underscores, a letter first")


def _check_apart(columns: tuple[str, ...], axes: Sequence[Axis]) -> None:
    for axis in axes:
        if axis.name in columns:
            raise ValueError(f"sweep.{axis.name}: also a column of the rows; rename one of them")


_CELLS = {
    one: re.compile(
        rf"""
        [ ]*+ (?P<cell> "(?:[^"]++|"")*+" | [^ {one}\r\n]++(?:[ ]++[^ {one}\r\n]++)*+ | )
        [ ]*+ (?P<end>[{one}\r\n]|\Z)
        """,
        re.VERBOSE,
    )
    for one in (",", "\t")
}
"""A cell with the blanks around it and what ends it, by the delimiter."""


def _from_csv(text: str, name: str, tell: Callable[[str], object]) -> tuple[tuple[str, ...], Rows]:
    """Return the columns and rows of a table as spreadsheets write it. ValueError names the line."""
    head = text.partition("\n")[0]
    delimiter = "\t" if "\t" in head else ","
    if other := _other_delimiter(head):
        raise ValueError(f"{name}: line 1: its columns are separated by {other!r}; save it with commas or tabs")
    # Blanks around a cell are not its text, unless they stand within quotes.
    text = _CELLS[delimiter].sub(lambda found: found["cell"] + found["end"], text)
    lines: list[str] = []
    reader = csv.reader(_kept(io.StringIO(text, newline=""), lines), delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    columns: tuple[str, ...] = ()
    empty: list[int] = []
    try:
        for row in reader:
            if not any(row) and not any('"' in line for line in lines):
                if row:
                    empty.append(reader.line_num)
            elif not columns:
                columns = _columns([cell.strip() for cell in row], f"{name}: line {reader.line_num}")
            elif len(row) != len(columns):
                raise ValueError(
                    f"{name}: line {reader.line_num}: {len(row)} values; the first line names {len(columns)}"
                )
            else:
                rows.append(row)
            lines.clear()
    except csv.Error as error:
        raise ValueError(f"{name}: line {reader.line_num}: {error}; mend the CSV there") from None
    if not rows:
        raise ValueError(f"{name}: no rows; want a first line of names, then one line per job")
    _check_rows(rows, name)
    if empty:
        shown = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
        tell(f"{name}: passed over {len(empty)} {'row' if len(empty) == 1 else 'rows'} without a value (line {shown})")
    return columns, rows


def _kept(lines: Iterable[str], kept: list[str]) -> Iterator[str]:
    for line in lines:
        kept.append(line)
        yield line


def _other_delimiter(head: str) -> str:
    """The character between the names of a table's head, where it is another one; empty: it is not."""
    return "" if "," in head or "\t" in head else next((other for other in ";|" if other in head), "")


def _from_rows(value: object) -> tuple[tuple[str, ...], Rows]:
    if not isinstance(value, list) or not value:
        raise ValueError("sweep.rows: empty; write at least one row")
    first = value[0]
    if not isinstance(first, dict):
        raise ValueError("sweep.rows: want tables of names and values, such as [{x = 1, y = 2}]")
    columns = _columns(list(first), "sweep.rows[0]")
    rows = []
    for at, row in enumerate(value):
        if not isinstance(row, dict) or row.keys() != first.keys():
            raise ValueError(f"sweep.rows[{at}]: want the same names as the first row: {', '.join(columns)}")
        rows.append([text_of(row[column]) for column in columns])
    _check_rows(rows, "sweep.rows")
    return columns, rows


def _columns(names: Iterable[str], where: str) -> tuple[str, ...]:
    columns = tuple(names)
    if not columns:
        raise ValueError(f"{where}: empty; want at least one name")
    for column in columns:
        if not is_name(column) or column in GIVEN:
            raise ValueError(
                f"{where}: {column!r} cannot name a value; want letters, digits and underscores, a letter first,"
                " and neither index nor group"
            )
        if columns.count(column) > 1:
            raise ValueError(f"{where}: {column!r} stands twice; rename one of them")
    return columns


def _check_lengths(content: bytes, where: str) -> None:
    if len(content) <= MOST_ROW_BYTES:
        return
    for at, line in enumerate(io.BytesIO(content)):
        if len(line) > MOST_ROW_BYTES:
            raise ValueError(
                f"{where}: row {at + 1}: its values have more than {MOST_ROW_BYTES >> 20} MiB; put them into a file"
                " that inputs names"
            )


def _check_rows(rows: Rows, where: str) -> None:
    if len(rows) > MOST_ROWS:
        raise ValueError(f"{where}: {len(rows)} rows; at most {MOST_ROWS} make one group")
    if any("\0" in cell for row in rows for cell in row):
        raise ValueError(f"{where}: a value holds a NUL character; remove it")
