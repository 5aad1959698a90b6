"""Sites from a table: one row of a CSV file is one site, its columns named by the scenario.

The rows become `sites` of the scenario, which then needs the file no more. ValueError is one line that names the file,
the line or column, and the mend."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from diana.bounds import MOST_TABLE_BYTES, opened
from diana.sim.scenario.topology_import import measured_places
from diana.sim.specs.names import as_site_name, known
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SitesFromSpec, SiteSpec

Row = tuple[int, dict[str, str]]
"""Line in the file, and its values by column."""


def with_sites(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario with the table's sites. To be called before `topology_import.imported`, which wants to know them."""
    spec = scenario.sites_from
    if spec is None:
        return scenario
    at = f"sites_from: {spec.file}"
    if not 0 <= spec.top <= 1_000_000:
        raise ValueError(f"sites_from: top = {spec.top}: want 0 to 1e+06")
    rows = _read(folder / spec.file, spec, at)
    if spec.by:
        rows.sort(key=lambda row: (-_number(row, spec.by, at, float), row[0]))
    if spec.measured:
        if not scenario.rtt_from:
            raise ValueError(f"{at}: measured = true picks what rtt_from knows; give rtt_from, or leave it out")
        places = measured_places(folder / scenario.rtt_from, scenario.rtt_from)
        rows = [row for row in rows if row[1][spec.place or spec.name].strip().casefold() in places]
    rows = rows[: spec.top or None]
    if not rows:
        raise ValueError(f"{at}: none of its lines makes a site; name a table with lines, or mend measured")
    sites = (*scenario.sites, *(_site(row, spec, at) for row in rows))
    return replace(scenario, sites=sites, sites_from=None)


def _site(row: Row, spec: SitesFromSpec, at: str) -> SiteSpec:
    line, values = row
    said = values[spec.name].strip()
    name = as_site_name(said)
    if not name or not name[0].isalpha():
        raise ValueError(f"{at}: line {line}: {spec.name}: {said!r} makes no site name; begin it with a letter")
    return SiteSpec(
        name=name,
        slots=_number(row, spec.slots, at, int),
        speed=_number(row, spec.speed, at, float) if spec.speed else 1.0,
        place=values[spec.place or spec.name].strip(),
        node=values[spec.node].strip() if spec.node else "",
    )


def _number(row: Row, column: str, at: str, kind: Callable[[str], Any]) -> Any:
    line, values = row
    try:
        value = kind(values[column])
        if not 0 <= value < 1e9:
            raise ValueError
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise ValueError(
            f"{at}: line {line}: {column}: {values[column]!r}: want {wanted}, 0 to 1e+09; mend or drop the line"
        ) from None
    return value


def _read(path: Path, spec: SitesFromSpec, at: str) -> list[Row]:
    try:
        with io.TextIOWrapper(opened(path, MOST_TABLE_BYTES), encoding="utf-8-sig", newline="") as file:
            return _rows(csv.reader(file), spec, at)
    except OSError as e:
        raise ValueError(f"{at}: {(e.strerror or str(e)).lower()}; give the path of a CSV file") from None
    except (UnicodeDecodeError, csv.Error) as e:
        raise ValueError(f"{at}: no CSV: {e}; give a CSV file with a header") from None


def _rows(reader: Any, spec: SitesFromSpec, at: str) -> list[Row]:
    """Rows with their lines as an editor counts them, also where a field has several lines."""
    header: Sequence[str] = [name.strip() for name in next(reader, [])]
    for key in ("name", "slots", "speed", "place", "node", "by"):
        column = getattr(spec, key)
        if column or key in ("name", "slots"):
            known(column, tuple(header), f"{at}: line 1: column for {key}")
    rows: list[Row] = []
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            raise ValueError(
                f"{at}: line {reader.line_num}: {len(row)} fields where the header has {len(header)}; mend the line"
            )
        rows.append((reader.line_num, dict(zip(header, row, strict=True))))
    return rows
