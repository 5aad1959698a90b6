"""Sites against the conditions of a group, as a table for somebody who asks which site lacks what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from diana.cli.shared import output

if TYPE_CHECKING:
    from diana.model.views.conditions import Condition, ConditionTable, Judgement

MOST_NAMED = 8
"""Sites of a set that are named in one line."""
MOST_CELL = 32
"""Characters of a value in the table; JSON has all of it."""
_GAP = 2


_UNTOLD = "not told"
"""Stands behind a name in what was found at a site."""


def show_conditions(table: ConditionTable, when: str = "", *, refused: bool = False) -> None:
    """`when`: words that tell this look at the sites from another of the same output. `refused`: no site takes the
    jobs; those judged together are the nearest set then."""
    said = f", {when}" if when else ""
    if table.conditions and table.sites:
        print(f"\nits conditions, and what each site has{said}:")
        for number, one in enumerate(table.conditions, 1):
            output.say(f"{number:>3}  {_worded(one)}")
        if table.more:
            output.say(f"     and {output.counted(table.more, 'more condition')}")
        for block in _blocks(table):
            print()
            output.print_table(
                ("SITE", *(str(at + 1) for at in block)),
                [(site.site, *(_cell(site.judgements[at]) for at in block)) for site in table.sites],
            )
    if table.set_conditions:
        named = ", ".join(table.together[:MOST_NAMED])
        more = f" and {len(table.together) - MOST_NAMED} more" if len(table.together) > MOST_NAMED else ""
        output.say("")
        nearest = "the nearest set: " if refused else ""
        output.say(f"its conditions on all its sites together ({nearest}{named}{more}){said}:")
        rows = zip(table.set_conditions, table.set_judgements, strict=True)
        told = [(_cell(judged), _worded(one)) for one, judged in rows]
        width = max(len(cell) for cell, _ in told)
        for cell, text in told:
            output.say(f"  {cell.ljust(width)}  {text}")


def _worded(one: Condition) -> str:
    whom = f"component {one.component}: " if one.component else ""
    return f"{whom}{one.text}" + (f"   [{one.wants}]" if one.wants else "")


def _cell(judged: Judgement) -> str:
    found = judged.found
    if len(found) > MOST_CELL and _UNTOLD in found:
        # The condition above the table has the name.
        found = found[found.index(_UNTOLD) :]
    if len(found) > MOST_CELL:
        found = found[: MOST_CELL - 3] + "..."
    return ("yes" if judged.holds else "NO") + (f" ({found})" if found else "")


def _blocks(table: ConditionTable) -> Iterator[Sequence[int]]:
    """Yield the columns of one table after the other, each as wide as the terminal lets it be."""
    room = output.columns() if output.on_terminal() else 0
    first = max(len("SITE"), *(len(site.site) for site in table.sites))
    block, used = list[int](), first
    for at in range(len(table.conditions)):
        width = _GAP + max(len(str(at + 1)), *(len(_cell(site.judgements[at])) for site in table.sites))
        if block and room and used + width > room:
            yield block
            block, used = [], first
        block.append(at)
        used += width
    yield block
