"""Plots as SVG to stand in a page: no network, and colours that the page gives, so that they follow light and dark."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from diana.sim.report.intervals import Interval

INK, MUTED, GRID, PAPER = "#010101", "#020202", "#030303", "#040404"
SERIES = tuple(f"#0500{place:02x}" for place in range(8))
"""Colours that stand for those the page calls --ink, --muted, --grid, --paper and --s0 to --s7."""
DASHES: tuple[Any, ...] = ("solid", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))
"""Dashes by series, so that courses that lie upon each other show through."""
_NAMES = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper"} | {one: f"s{k}" for k, one in enumerate(SERIES)}
_HEAT = (0.16, 0.47, 0.84)
"""Blue that is seen on white and on black; how much of it is how busy."""
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.6,
}


class Curve(NamedTuple):
    """A course; `series` picks colour and dashes, the same in all plots of a page."""

    series: int
    xs: Sequence[float]
    ys: Sequence[float]


def dashes(series: int) -> Any:
    return DASHES[(series + series // len(SERIES)) % len(DASHES)]


def colour(series: int) -> str:
    return SERIES[series % len(SERIES)]


class _Sheet:
    """A figure under construction, and the SVG it became."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.svg = ""


@contextmanager
def _sheet(width: float, height: float, salt: str) -> Iterator[_Sheet]:
    """A figure of a size in inches. `salt` keeps the ids of two plots of one page apart; the same plot is the same text
    each time."""
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn by the browser all the same.
        warnings.simplefilter("ignore")
        sheet = _Sheet(Figure(figsize=(width, height), layout="constrained"))
        yield sheet
        out = io.StringIO()
        sheet.figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        sheet.svg = _inline(out.getvalue())


def _inline(text: str) -> str:
    """The SVG without what only a file of its own needs, in the page's colours and font."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)
    text = re.sub("|".join(_NAMES), lambda found: f"var(--{_NAMES[found.group()]})", text)
    return text.replace("'DejaVu Sans'", "system-ui, sans-serif").replace("<svg ", '<svg role="img" ', 1)


# --- comparisons -----------------------------------------------------------------------------------------


def sweep(title: str, loads: Sequence[float], rows: Sequence[Sequence[Interval | None]], names: Sequence[str]) -> str:
    """A figure of every policy (a row) under every load; with a single load, one below the other."""
    if len(loads) == 1:
        return forest(title, names, [row[0] for row in rows], zero=False)
    with _sheet(4.6, 2.9, f"sweep {title}") as sheet:
        axes = sheet.figure.add_subplot()
        gap = (max(loads) - min(loads)) / max(1, len(loads) - 1)
        for series, row in enumerate(rows):
            shift = gap * 0.02 * (series - (len(rows) - 1) / 2)
            known = [(load + shift, one) for load, one in zip(loads, row, strict=True) if one is not None]
            means = [one.mean for _, one in known]
            margins = [0.0 if one.high is None else one.high - one.mean for _, one in known]
            axes.errorbar(
                [at for at, _ in known],
                means,
                yerr=margins,
                color=colour(series),
                linestyle=dashes(series),
                marker="o",
                markersize=3.5,
                capsize=2.0,
                elinewidth=0.9,
            )
        axes.set_title(title)
        axes.set_xlabel("load")
        axes.set_xticks(list(loads), [f"{load:g}" for load in loads])
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    return sheet.svg


def forest(
    title: str,
    names: Sequence[str],
    rows: Sequence[Interval | None],
    zero: bool = True,
    series: Sequence[int] | None = None,
) -> str:
    """Means and intervals one below the other; `zero`: a line where nothing differs. `series`: if not 0, 1, ..."""
    with _sheet(4.6, 0.75 + 0.24 * max(2, len(names)), f"forest {title}") as sheet:
        axes = sheet.figure.add_subplot()
        for place, one in enumerate(rows):
            if one is None:
                continue
            low, high = (one.mean if end is None else end for end in (one.low, one.high))
            which = colour(series[place] if series else place)
            margins = [[one.mean - low], [high - one.mean]]
            axes.errorbar([one.mean], [place], xerr=margins, color=which, marker="o", markersize=4.5, capsize=2.5)
        axes.set_yticks(range(len(names)), [_short(name) for name in names])
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        if zero:
            axes.axvline(0.0, color=MUTED, linewidth=1.0)
        else:
            axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        axes.set_title(title)
    return sheet.svg


# --- one run ---------------------------------------------------------------------------------------------


def distribution(title: str, unit: str, lines: Sequence[Curve], from_zero: bool, of: str = "jobs") -> str:
    """Share of the jobs, or of what `of` names, that a value is not above; logarithmic, or with `from_zero` linear up
    to 1."""
    with _sheet(4.6, 2.9, f"distribution {title}") as sheet:
        axes = sheet.figure.add_subplot()
        _draw(axes, lines, drawstyle="steps-post")
        if from_zero:
            axes.set_xscale("symlog", linthresh=1.0)
            axes.set_xlim(left=0.0)
        else:
            axes.set_xscale("log")
            largest = max((line.xs[-1] for line in lines), default=1.0)
            smallest = min((line.xs[0] for line in lines), default=1.0)
            # Over few decades their ends alone would leave the axis without numbers.
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if largest < 300 * smallest else (1.0,)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(0.0, 1.01)
        axes.set_title(title)
        axes.set_xlabel(unit)
        axes.set_ylabel(f"share of the {of}")
    return sheet.svg


def course(title: str, label: str, lines: Sequence[Curve], most: float | None = None) -> str:
    with _sheet(9.4, 2.5, f"course {title}") as sheet:
        axes = sheet.figure.add_subplot()
        last_s = max((line.xs[-1] for line in lines), default=1.0)
        unit_s, _ = _time_unit(last_s)
        _draw(axes, [line._replace(xs=[x / unit_s for x in line.xs]) for line in lines], linewidth=1.2)
        axes.set_ylim(0.0, most)
        _time(axes, last_s)
        axes.set_title(title)
        axes.set_ylabel(label)
    return sheet.svg


def heat(title: str, names: Sequence[str], times_s: Sequence[float], rows: Sequence[Sequence[float]]) -> str:
    """A row per site, darker (in the dark: brighter) where it was busier, from 0 to 1."""
    image = np.empty((len(rows), len(times_s), 4))
    image[..., :3] = _HEAT
    image[..., 3] = np.clip(np.array(rows), 0.0, 1.0)
    with _sheet(9.4, 0.8 + 0.2 * max(3, len(names)), f"heat {title}") as sheet:
        axes = sheet.figure.add_subplot()
        unit_s, _ = _time_unit(times_s[-1])
        axes.imshow(
            image, aspect="auto", interpolation="nearest", extent=(0.0, times_s[-1] / unit_s, len(names) - 0.5, -0.5)
        )
        axes.set_yticks(range(len(names)), [_short(name) for name in names])
        axes.grid(visible=False)
        _time(axes, times_s[-1])
        axes.set_title(title)
    return sheet.svg


def flows(title: str, names: Sequence[str], times_s: Sequence[float], out: _Rows, into: _Rows) -> str:
    """A plot per site: what left it upwards, what came to it downwards, per stretch of time."""
    merged = max(1, len(times_s) // 50)
    ends_s = np.array(times_s)[merged - 1 :: merged]
    edges_s = np.concatenate([[0.0], ends_s])
    ups, downs = (np.array([_merged(row, merged, len(ends_s)) for row in rows]) for rows in (out, into))
    most = max(1, int(ups.max(initial=0)), int(downs.max(initial=0)))
    with _sheet(9.4, 0.6 + 0.75 * len(names), f"flows {title}") as sheet:
        every = sheet.figure.subplots(len(names), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        unit_s, _ = _time_unit(times_s[-1])
        for axes, name, up, down in zip(every, names, ups, downs, strict=True):
            axes.stairs(up, edges_s / unit_s, fill=True, color=SERIES[1])
            axes.stairs(-down, edges_s / unit_s, fill=True, color=SERIES[0])
            axes.axhline(0.0, color=MUTED, linewidth=0.8)
            axes.set_ylim(-1.08 * most, 1.08 * most)
            axes.set_yticks([-most, 0, most], [str(most), "0", str(most)])
            axes.set_ylabel(_short(name), rotation=0, ha="right", va="center")
        _time(every[-1], times_s[-1])
        every[0].set_title(title)
    return sheet.svg


class Band(NamedTuple):
    """A site in `gantt`: its name, how many lanes it has, and per series (start, end, first lane, lanes) of jobs."""

    name: str
    lanes: int
    bars: Sequence[tuple[int, float, float, int, int]]


def gantt(title: str, bands: Sequence[Band], until_s: float) -> str:
    """A band per site, a job's height its share of the site; a series of -1 is muted."""
    with _sheet(9.4, 0.7 + 0.55 * len(bands), f"gantt {title}") as sheet:
        axes = sheet.figure.add_subplot()
        unit_s, _ = _time_unit(until_s)
        boxes: dict[int, list[Path]] = {}
        for place, band in enumerate(bands):
            scale = 0.9 / max(1, band.lanes)
            for series, start_s, end_s, lane, lanes in band.bars:
                low = place - 0.45 + scale * lane
                boxes.setdefault(series, []).append(_box(start_s / unit_s, end_s / unit_s, low, low + scale * lanes))
        for series, paths in sorted(boxes.items()):
            face = MUTED if series < 0 else colour(series)
            whole = Path.make_compound_path(*paths)
            axes.add_patch(PathPatch(whole, facecolor=face, edgecolor=PAPER, linewidth=0.25))
        axes.set_yticks(range(len(bands)), [_short(band.name) for band in bands])
        axes.set_ylim(len(bands) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        _time(axes, until_s)
        axes.set_title(title)
    return sheet.svg


# --- parts -----------------------------------------------------------------------------------------------

_Rows = Sequence[Sequence[int]]


def _draw(axes: Axes, lines: Sequence[Curve], **style: Any) -> None:
    for line in lines:
        axes.plot(line.xs, line.ys, color=colour(line.series), linestyle=dashes(line.series), **style)


def _box(left: float, right: float, low: float, high: float) -> Path:
    return Path([(left, low), (right, low), (right, high), (left, high), (left, low)], closed=True)


def _merged(row: Sequence[int], step: int, count: int) -> list[int]:
    return [sum(row[place * step : (place + 1) * step]) for place in range(count)]


def _time_unit(last_s: float) -> tuple[float, str]:
    for unit_s, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if last_s >= 3 * unit_s:
            return unit_s, name
    return 1.0, "seconds"


def _time(axes: Axes, last_s: float) -> None:
    unit_s, name = _time_unit(last_s)
    axes.set_xlim(0.0, max(1e-9, last_s / unit_s))
    axes.set_xlabel(name)


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"
