"""HTML of a report's page: its style, and the few things it is made of. Whatever a scenario says is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from diana.sim.report.charts import SERIES, dashes

_LIGHT = ("#0b62c4", "#c2410c", "#15803d", "#9d2bb5", "#a16207", "#0e7490", "#be123c", "#5b5bd6")
_DARK = ("#6cb0ff", "#ff9a62", "#5fd38a", "#e08cf5", "#e5bd4d", "#4fcfe3", "#ff8ba0", "#a9a9ff")


def _colours(series: Sequence[str], ink: str, muted: str, grid: str, paper: str, shade: str) -> str:
    rows = [("ink", ink), ("muted", muted), ("grid", grid), ("paper", paper), ("shade", shade)]
    rows += [(f"s{place}", one) for place, one in enumerate(series)]
    return "".join(f"--{name}:{value};" for name, value in rows)


_LIGHT_RULES = _colours(_LIGHT, "#1c1f24", "#6a7079", "#e3e6ea", "#ffffff", "#f4f6f8")
_DARK_RULES = _colours(_DARK, "#e8eaed", "#9aa1ab", "#33383f", "#15181c", "#1e2227")

_STYLE = f"""
:root {{ color-scheme: light dark; {_LIGHT_RULES} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK_RULES} }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; padding: 1.5rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 1.7rem; margin: 0 0 .5rem; }}
h2 {{ font-size: 1.25rem; margin: 2.5rem 0 .25rem; padding-top: .75rem; border-top: 1px solid var(--grid); }}
h3 {{ font-size: 1.05rem; margin: 1.5rem 0 .5rem; }}
h4 {{ font-size: .95rem; margin: 1.25rem 0 0; }}
p {{ margin: .25rem 0 .75rem; color: var(--muted); max-width: 60rem; }}
.about {{ color: var(--ink); white-space: pre-line; }}
.facts {{ display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: 1rem 0; }}
.facts dt {{ color: var(--muted); font-size: .8rem; }}
.facts dd {{ margin: 0; font-weight: 600; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: 1rem;
  margin: .75rem 0; }}
.plots.wide {{ grid-template-columns: 1fr; }}
figure {{ margin: 0; min-width: 0; }}
figure svg {{ display: block; width: 100%; height: auto; max-width: 72rem; }}
.plots:not(.wide) svg {{ max-width: 36rem; }}
.legend {{ display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; margin: .5rem 0; list-style: none;
  font-size: .87rem; }}
.legend svg {{ width: 1.8rem; height: .6rem; margin-right: .4rem; vertical-align: middle; }}
.scroll {{ overflow-x: auto; margin: .5rem 0 1rem; }}
table {{ border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .22rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--grid); }}
th {{ font-weight: 600; }}
thead th {{ background: var(--shade); }}
.left {{ text-align: left; }}
summary {{ cursor: pointer; color: var(--muted); font-size: .87rem; }}
@media print {{ body {{ max-width: none; }} figure {{ break-inside: avoid; }} }}
"""


def document(title: str, parts: Iterable[str]) -> str:
    name = escape(title)
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f"<title>{name}: diana</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body>\n</html>\n"
    )


def section(title: str, text: str) -> str:
    return f"<h2>{escape(title)}</h2>" + (f"\n<p>{escape(text)}</p>" if text else "")


def plots(drawn: Sequence[str], wide: bool = False) -> str:
    """Figures of SVG as `charts` makes it."""
    kind = "plots wide" if wide else "plots"
    return f'<div class="{kind}">\n' + "\n".join(f"<figure>{one}</figure>" for one in drawn) + "\n</div>"


def legend(names: Sequence[str], others: bool = False, dashed: bool = True) -> str:
    """Legend of series 0, 1, ...; `others`: with a line for all that has no colour of its own; not `dashed`: for
    areas."""
    rows = [
        _swatch(f"s{place % len(SERIES)}", dashes(place) if dashed else "", name) for place, name in enumerate(names)
    ]
    if others:
        rows.append(_swatch("muted", "", "others"))
    return "<ul class=legend>" + "".join(rows) + "</ul>"


def _swatch(colour: str, broken: Any, name: str) -> str:
    pattern = "" if isinstance(broken, str) else f' stroke-dasharray="{" ".join(f"{2.5 * x:g}" for x in broken[1])}"'
    line = f'<line x1="0" y1="5" x2="30" y2="5" stroke="var(--{colour})" stroke-width="5"{pattern}/>'
    return f'<li><svg viewBox="0 0 30 10" aria-hidden="true">{line}</svg>{escape(name)}</li>'


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table; the first `left` columns are words, the others numbers."""
    head = "".join(f"<th{_left(place < left)}>{escape(one)}</th>" for place, one in enumerate(headings))
    body = "\n".join(
        "<tr>" + "".join(_cell(one, place < left) for place, one in enumerate(row)) + "</tr>" for row in rows
    )
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"


def _cell(text: str, is_left: bool) -> str:
    return f"<td{_left(is_left)}>{escape(text)}</td>"


def _left(is_left: bool) -> str:
    return " class=left" if is_left else ""


def details(summary: str, inside: str, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{escape(summary)}</summary>{inside}</details>"
