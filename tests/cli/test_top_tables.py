"""The rows of `diana top`: order, bounds, filter, and what other people's names may do there: nothing."""

from __future__ import annotations

import pytest

from diana.cli.shared import output
from diana.cli.top import orders, tables
from diana.cli.top.logs import likely_job, plain_lines
from diana.cli.top.reading import SHOWN
from diana.cli.top.story import Cells, Failures, story
from diana.model.views.group import GroupStatus
from diana.model.views.queue import QueueClass, QueueUser, QueueView, Waiting
from diana.model.views.site import Site
from diana.wire.client import messages as wire
from diana.wire.client.decisions import Decision, PlannedPart, SiteCost
from diana.wire.client.peers import MachineRow, PeerRow, PeersResponse

HOSTILE = "[red]x[/red]\x1b[2J\x07‮"


def group(group_id: str, **values: object) -> GroupStatus:
    base: dict[str, object] = {"group": group_id, "jobs": 10, "owner": "ann@vo", "state": "running"}
    return GroupStatus(**{**base, **values})  # type: ignore[arg-type]


def keys(shown: tables.TableContent) -> list[str]:
    return [row.key for row in shown.rows]


def test_open_groups_come_first_and_the_newest_before_the_others() -> None:
    found = wire.StatusResponse(
        groups=(
            group("a-1", submitted_wall_s=1.0),
            group("a-2", submitted_wall_s=2.0, final=True),
            group("a-3", submitted_wall_s=3.0),
            group("a-4", submitted_wall_s=4.0, final=True),
        )
    )
    assert keys(tables.groups(found, "")) == ["a-3", "a-1", "a-4", "a-2"]


def test_rows_are_capped_and_the_rest_is_counted() -> None:
    many = tuple(group(f"a-{n}", submitted_wall_s=float(n)) for n in range(SHOWN + 30))
    shown = tables.groups(wire.StatusResponse(groups=many, left_out=9_770), "")
    assert (len(shown.rows), shown.left_out, shown.hidden) == (SHOWN, 9_800, 0)
    sites = tuple(Site(site=f"s{n:05}", slots=1) for n in range(10_000))
    assert (len(tables.sites(sites, "").rows), tables.sites(sites, "").left_out) == (SHOWN, 9_800)


def test_a_word_finds_rows_by_what_they_show_and_not_by_their_bars() -> None:
    found = wire.StatusResponse(groups=(group("a-1", name="Sweep"), group("a-2", name="other", done=10)))
    shown = tables.groups(found, "sweep")
    assert (keys(shown), shown.hidden) == (["a-1"], 1)
    assert keys(tables.groups(found, "#")) == []
    assert keys(tables.groups(found, "ann@")) == ["a-1", "a-2"]


def test_this_site_stands_first_and_a_drained_one_says_so() -> None:
    found = (
        Site(site="alpha", state="alive", slots=4, free_slots=1, rtt_s=0.01),
        Site(site="zeta", home=True, state="alive", note="drained: power", slots=2),
    )
    home, alpha = tables.sites(found, "").rows
    assert home.cells[:4] == ("zeta (here)", "drained", "##########", "2/2")
    assert alpha.cells[2:4] == ("#######...", "3/4")


def test_a_user_has_a_number_per_level() -> None:
    classes = (
        QueueClass(user="ann", level="Q1", jobs=3, low_s=8.0, high_s=9.0),
        QueueClass(user="ann", level="Q3", jobs=5, low_s=2.0, high_s=4.0),
        QueueClass(user="ben", level="Q1", jobs=1, low_s=-1.0),
    )
    users = (QueueUser(user="ben", queued=1), QueueUser(user="ann", queued=8, running=2, quota=2.0))
    rows = tables.queue(QueueView(site="alpha", classes=classes, users=users), "").rows
    assert [row.cells for row in rows] == [
        ("ann", "2", "3", "0", "5", "0", "2", "2.0 s to 4.0 s"),
        ("ben", "0", "1", "0", "0", "0", "0", "-"),
    ]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"expected_end_s": 100.0, "age_s": 40.0}, "in 1m00s"),
        ({"expected_end_s": 100.0, "age_s": 112.0}, "12.0 s late"),
        ({"expected_end_s": -1.0}, "-"),
        ({"final": True, "last_end_s": 30.0, "expected_end_s": 100.0}, "took 30.0 s"),
        ({"final": True, "last_end_s": -1.0}, "-"),
    ],
)
def test_when_a_group_ends_is_said_from_now_on(values: dict[str, object], says: str) -> None:
    assert tables.ending(group("a-1", **values)) == says


def test_names_of_other_people_are_plain_text_everywhere() -> None:
    peers = PeersResponse(
        site="alpha",
        peers=(PeerRow(site=HOSTILE, state=HOSTILE, link=HOSTILE),),
        machines=(MachineRow(machine=HOSTILE, role=HOSTILE, state="here"),),
    )
    queue = QueueView(site="alpha", users=(QueueUser(user=HOSTILE),))
    named = group("a-1", name=HOSTILE, owner=HOSTILE, state=HOSTILE, note=HOSTILE)
    every = [
        tables.sites((Site(site=HOSTILE, note=HOSTILE),), ""),
        tables.queue(queue, ""),
        tables.groups(wire.StatusResponse(groups=(named,)), ""),
        tables.machines(peers, ""),
        tables.peers(peers, ""),
    ]
    cells = [cell for shown in every for row in shown.rows for cell in row.cells]
    assert all(cell.isprintable() for cell in cells)
    texts = [output.styled(cell) for cell in cells]
    assert sum("[red]x[/red]" in text.plain for text in texts) >= 8, "markup stays as it was written"
    assert not any(str(span.style) == "red" for text in texts for span in text.spans)

    decision = Decision(
        plan="whole", reason=HOSTILE, candidates=(SiteCost(site=HOSTILE, rejected=HOSTILE),),
        parts=(PlannedPart(site=HOSTILE, jobs=1),),
    )  # fmt: skip
    explained = wire.ExplainResponse(
        group="a-1",
        decisions=(decision,),
        waiting=(Waiting(site=HOSTILE, jobs=1, note=HOSTILE),),
        stays=(HOSTILE,),
    )
    lines = story(named, explained, Failures("a-1"))
    assert all(line.isprintable() for line in lines)
    assert sum("[red]x[/red]" in line for line in lines) >= 6
    assert any(isinstance(line, Cells) for line in lines)


def test_what_can_be_done_to_a_group_is_asked_for_by_what_it_has() -> None:
    assert orders.question("cancel", group("a-1", done=4, failed=1)) == ("cancel", "Cancel 5 jobs of a-1?")
    assert orders.question("again", group("a-1", held=1, failed=2)) == ("release", "Release 1 held job of a-1?")
    assert orders.question("again", group("a-1", failed=2)) == ("retry", "Try 2 failed jobs of a-1 again?")
    assert orders.question("again", group("a-1")) is None


def test_the_log_that_opens_is_of_a_job_that_failed_or_that_probably_runs() -> None:
    assert likely_job(group("alpha-1", done=3, cancelled=1), 7) == 7
    assert likely_job(group("alpha-1", done=3, cancelled=1), None) == 4
    assert likely_job(group("alpha-1", done=10), None) == 9
    assert likely_job(group("alpha-1", done=10, final=True), None) == 0


def test_what_was_written_for_a_terminal_reads_as_it_does_there() -> None:
    assert plain_lines("\x1b[1;31mred\x1b[0m\tx\r\n 10 %\r 20 %\r\n") == "red     x\n 20 %\n"
    assert plain_lines(" 10 %\r 20 %") == " 20 %"
    assert plain_lines("\x1b[2J\x07‮evil") == "?[2J??evil"
