"""Pages of a what-if, of a check and of advice: one file each, for light and dark, with no script and nothing from the
network. Each plot has its numbers beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from diana.model.durations import seconds
from diana.model.words import counted
from diana.sim.past.advice import Advice
from diana.sim.past.text import figures, signed, told_difference, verdict
from diana.sim.past.twin import TwinCheck
from diana.sim.past.whatif import Side, WhatIf
from diana.sim.report import charts
from diana.sim.report.charts import Curve
from diana.sim.report.drawing import QUANTILES
from diana.sim.report.intervals import Interval
from diana.sim.report.page_parts import document, legend, plots, section, table

MOST_USERS = 20
"""Users that have a line of their own, those with the largest differences."""


def of_whatif(found: WhatIf) -> str:
    return document(f"{found.history}: {' '.join(found.changes)}", _whatif(found))


def _whatif(found: WhatIf) -> Iterator[str]:
    yield _facts(found.base, ("seeds", str(len(found.seeds))), ("intervals", f"95 %, {found.drawn} drawn again"))
    yield section("Differences", "Changed minus as it was, paired group by group.")
    names = ("turnaround of a group", "wait of a job")
    rows = (found.turnaround_difference_s, found.wait_difference_s)
    bases = (found.base.turnaround_mean_s, found.base.wait_mean_s)
    yield plots([charts.forest("Mean difference, seconds", names, rows)])
    yield table(
        ["mean of", "difference"],
        [[name, told_difference(row, base)] for name, row, base in zip(names, rows, bases, strict=True)],
        2,
    )
    yield from _sides(("as it was", "changed"), found.base, found.changed)
    if len(found.users) > 1:
        most = sorted(found.users.items(), key=lambda row: -abs(row[1]))[:MOST_USERS]
        yield section("Users", "Difference of the mean turnaround of each user's groups.")
        yield plots(
            [charts.forest("Seconds", [user for user, _ in most], [Interval(by_s, None, None) for _, by_s in most])]
        )
        yield table(["user", "difference"], [[user, signed(by_s)] for user, by_s in most])


def of_twin(found: TwinCheck) -> str:
    return document(f"{found.history}: replayed", _twin(found))


def _twin(found: TwinCheck) -> Iterator[str]:
    yield _facts(found.truly)
    yield f"<p class=about>{escape(verdict(found))}</p>"
    yield from (f"<p>{escape(line)}</p>" for line in (*found.lacks, *found.waits))
    yield from _sides(("truly", "replayed"), found.truly, found.replayed)
    if found.worst:
        yield section("Groups that differ most", "Turnarounds.")
        yield table(
            ["group", "truly", "replayed", "first start", "run times"],
            [
                [
                    *(one.group, seconds(one.truly_s), seconds(one.replayed_s)),
                    *(signed(one.wait_error_s), f"{one.run_error:+.1%}"),
                ]
                for one in found.worst
            ],
        )


def of_advice(found: Advice) -> str:
    return document(f"{found.history}: advice", _advice(found))


def _advice(found: Advice) -> Iterator[str]:
    yield _facts(found.base, ("changes tried", f"{found.tried:,}"))
    if not found.advised:
        yield "<p class=about>No change would have made the mean turnaround shorter.</p>"
        return
    yield section("Changes that help", "Mean turnaround of a group, changed minus as it was; the sure ones first.")
    names = [" ".join(one.changes) for one in found.advised]
    yield plots([charts.forest("Seconds", names, [one.turnaround_difference_s for one in found.advised])])
    yield table(
        ["change", "order", "turnaround of a group"],
        [
            [name, one.order, told_difference(one.turnaround_difference_s, found.base.turnaround_mean_s)]
            for name, one in zip(names, found.advised, strict=True)
        ],
        3,
    )


def _facts(base: Side, *more: tuple[str, str]) -> str:
    rows = [("groups", f"{base.groups:,}"), ("core hours", f"{base.core_hours:,.2f}"), *more]
    return "<dl class=facts>" + "".join(f"<div><dt>{k}</dt><dd>{escape(v)}</dd></div>" for k, v in rows) + "</dl>"


def _sides(names: tuple[str, str], one: Side, other: Side) -> Iterator[str]:
    yield section("Figures", f"{counted(one.groups, 'group')}, each from its submission to the end of its last job.")
    lines: Sequence[Curve] = [
        Curve(place, side.turnarounds_s, QUANTILES) for place, side in enumerate((one, other)) if side.turnarounds_s
    ]
    if lines:
        yield legend(names)
        yield plots([charts.distribution("Turnaround", "seconds", lines, from_zero=False, of="groups")])
    yield table(["", *names], [list(row) for row in figures(one, other)])
