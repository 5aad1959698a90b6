"""Decisions as `plan` and `explain` print them for a stranger (SPEC U3)."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import msgspec
import pytest

from diana.cli.groups import work
from diana.cli.groups.decisions import show_decision, show_outcomes
from diana.cli.shared import output, parsing
from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.model.views.decision import ComponentPlace, GangDecision, GangSite, SiteCount
from diana.model.views.group import PartOutcome
from diana.model.views.site import Site
from diana.wire.client.decisions import CostWeight, Decision, PlannedPart, SiteCost
from diana.wire.client.messages import ExplainResponse, PlanResponse
from tests.cli.terminal import CONTROL, Terminal
from tests.e2e.grid import REPO

DECISION = Decision(
    plan="split",
    reason="split over 2 sites ends after 100 s, whole at alpha after 150 s",
    whole_s=150.0,
    split_s=100.0,
    candidates=(
        SiteCost(
            site="alpha", wait_s=5.0, wait_low_s=2.0, wait_high_s=9.0, run_s=145.0, total_s=150.0, slots=8,
            runs_seen=37, run_from="here", age_s=0.0,
        ),
        SiteCost(site="beta", run_s=190.0, total_s=190.0, slots=4, run_from="declared", age_s=0.4),
        SiteCost(site="gamma", rejected="has 2 of the 4 processors a job needs", near_miss="processors <= 2"),
        SiteCost(site="delta", rejected="takes no work from other sites"),
    ),
    parts=(
        PlannedPart(site="alpha", jobs=600, predicted_end_s=95.0, expected_end_s=100.0, run_s=90.0, wait_s=5.0),
        PlannedPart(site="beta", jobs=400, predicted_end_s=100.0, expected_end_s=100.0, run_s=100.0),
    ),
    model="turnaround",
    job_class="compute",
    weights=(CostWeight(term="run", weight=2.0),),
    expected_s=100.0,
    low_s=92.0,
    high_s=120.0,
    reasons=(SiteCount(reason="not asked", sites=9936),),
    past_error=0.08,
    past_groups=37,
)  # fmt: skip


def test_a_decision_says_when_it_ends_how_sure_that_is_and_why_not_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_decision(DECISION)
    text = capsys.readouterr().out
    assert text.splitlines()[0] == DECISION.reason
    for part in (
        "predicted end: 1m40s, range 1m32s-2m00s",
        "past error: median 8% over 37 groups",
        "cost model: turnaround, in seconds, run x 2; the group is compute-heavy (derived)",
        "5.0 s (2.0-9.0 s)",
        "37 jobs here",
        "declared",
        "not gamma: has 2 of the 4 processors a job needs (takes it if processors <= 2)",
        "not delta: takes no work from other sites\n",
        "9,936 more sites: not asked",
    ):
        assert part in text


def test_columns_that_say_nothing_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    show_decision(DECISION)
    text = capsys.readouterr().out
    assert "WAIT" in text
    for silent in ("STAGE IN", "STAGE OUT", "BYTES IN", "NETWORK", "RTT", "COMPUTATION"):
        assert silent not in text


def test_the_papers_terms_are_shown_when_they_decided(capsys: pytest.CaptureFixture[str]) -> None:
    row = SiteCost(site="alpha", cost=1.5, network=0.25, computation=0.75, transfer=0.5, total_s=9.0, slots=1)
    show_decision(Decision(plan="whole", reason="x", whole_s=9.0, candidates=(row,), model="paper", raw=True))
    text = capsys.readouterr().out
    assert "COMPUTATION" in text
    assert "0.75" in text
    assert "raw" in text


def test_a_paper_cost_that_tells_no_site_from_another_is_said_in_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = tuple(SiteCost(site=site, total_s=9.0, slots=1) for site in ("alpha", "beta"))
    show_decision(Decision(plan="whole", reason="x", whole_s=9.0, candidates=rows, model="paper"))
    assert "by the paper's terms every site costs 0" in capsys.readouterr().out


def test_explain_holds_the_plan_against_what_came(capsys: pytest.CaptureFixture[str]) -> None:
    one = PartOutcome(
        decision=0, site="alpha", jobs=600, predicted_wait_s=5.0, predicted_run_s=90.0, predicted_end_s=100.0,
        started_s=6.0, ended_s=108.0, over=True,
    )  # fmt: skip
    running = PartOutcome(decision=0, site="beta", jobs=400, predicted_end_s=100.0, started_s=1.0, ended_s=-1.0)
    show_outcomes(
        ExplainResponse(
            group="g-1", decisions=(DECISION,), outcomes=(one, running), achieved_s=108.0, predicted_s=100.0
        )
    )
    text = capsys.readouterr().out
    assert "+8%" in text
    assert "1m40s / 1m48s" in text and "1m40s / not over" in text
    assert "achieved: 1m48s from submission to the last end; predicted 1m40s, error +8%" in text


def test_control_characters_of_a_peer_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    row = SiteCost(site="evil", rejected="no\x1b[31m way", near_miss="x\x07")
    show_decision(Decision(reason="r", candidates=(row,)))
    assert "\x1b" not in capsys.readouterr().out


def test_time_spent_waiting_for_other_groups_is_no_error_of_the_prediction(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_outcomes(ExplainResponse(group="g-1", decisions=(DECISION,), achieved_s=710.0, predicted_s=700.0))
    assert capsys.readouterr().out.splitlines()[1:] == [
        "achieved: 11m50s from submission to the last end, 10m00s of it before the group was placed",
        "from then on: 1m50s; predicted 1m40s, error +10%",
    ]


def test_a_plan_says_what_each_component_asks_beside_processors(capsys: pytest.CaptureFixture[str]) -> None:
    named = ComponentPlace(
        component=0,
        site=SiteId("beta"),
        processors=2,
        resources={"fpga": 1, "licence:matlab": 2, "memory_bytes": 2**30},
    )
    plain = ComponentPlace(component=1, site=SiteId("alpha"), processors=2)
    gang = GangDecision(policy="worst-fit", components=(named, plain))
    show_decision(Decision(gang=gang))
    header, first, second = capsys.readouterr().out.partition("its components:\n")[2].splitlines()[:3]
    assert "ASKS ALSO" in header and "1.0 GiB of memory, 1 fpga, 2 of matlab" in first and second.endswith("-")
    show_decision(Decision(gang=GangDecision(policy="worst-fit", components=(plain,))))
    assert "ASKS ALSO" not in capsys.readouterr().out


PLACES = (
    ComponentPlace(component=0, site=SiteId("delft"), processors=16, reason="has its files, takes 16 of 26 idle"),
    ComponentPlace(
        component=1, site=SiteId("utrecht"), processors=10, sources=("delft",), bytes_in=20_000_000, transfer_s=2.9,
        reason="near its files, takes 10 of 28 idle",
    ),
)  # fmt: skip


def test_a_plan_of_a_gang_says_where_each_component_gets_its_files_how_long_that_takes_and_why_it_goes_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_decision(Decision(gang=GangDecision(policy="close-to-files", components=PLACES)))
    header, first, second = capsys.readouterr().out.partition("its components:\n")[2].splitlines()[:3]
    assert header.split() == ["COMPONENT", "SITE", "CPUS", "FILES", "FROM", "BYTES", "IN", "TRANSFER", "WHY"]
    assert first.endswith("has its files, takes 16 of 26 idle") and second.endswith(
        "near its files, takes 10 of 28 idle"
    )
    assert "delft" in second and "20.0 MB" in second and "2.9 s" in second


def test_on_a_narrow_terminal_a_plan_of_a_gang_does_without_all_else_before_its_reasons(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setattr(output, "columns", lambda: 80)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    asks = tuple(msgspec.structs.replace(one, resources={"memory_bytes": 2**30}) for one in PLACES)
    show_decision(Decision(gang=GangDecision(policy="close-to-files", components=asks)))
    table = capsys.readouterr().out.partition("its components:\n")[2]
    header, first, second, left_out = (line.rstrip() for line in table.splitlines()[:4])
    assert header.split() == ["COMPONENT", "SITE", "CPUS", "TRANSFER", "WHY"]
    assert first.endswith("has its files, takes 16 of 26 idle") and second.endswith(
        "near its files, takes 10 of 28 idle"
    )
    assert left_out.startswith("(no room for ASKS ALSO, FILES FROM, BYTES IN;") and len(second) <= 80


@pytest.mark.parametrize(
    ("ages_s", "told"),
    [
        ((0.0, 0.4), "idle processors, as the sites told them just before the decision:"),
        ((0.0, 75.0), "idle processors, as the sites told them up to 1m15s before the decision:"),
    ],
)
def test_a_plan_of_a_gang_says_how_old_that_is_which_it_rests_on_and_who_cannot_take_part(
    capsys: pytest.CaptureFixture[str], ages_s: tuple[float, float], told: str
) -> None:
    rows = [GangSite(site=SiteId(f"s{age_s:g}"), idle=4, slots=8, widest=8, age_s=age_s) for age_s in ages_s]
    out = GangSite(site=SiteId("leiden"), rejected="has 19 of the 24 processors a job needs", age_s=0.0)
    show_decision(Decision(gang=GangDecision(policy="worst-fit", components=PLACES, sites=(*rows, out))))
    lines = capsys.readouterr().out.splitlines()
    assert told in lines and lines[-1] == "not leiden: has 19 of the 24 processors a job needs"
    header, *table = lines[lines.index(told) + 1 : -1]
    assert header.split()[-1] == "HEARD" and [row.split()[:3] for row in table] == [[r.site, "4", "8"] for r in rows]


def test_that_no_processor_is_idle_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    full = GangSite(site=SiteId("vu"), idle=0, slots=8, widest=8)
    show_decision(Decision(gang=GangDecision(policy="worst-fit", components=PLACES, sites=(full,))))
    header, row = capsys.readouterr().out.splitlines()[-2:]
    assert header.split()[:2] == ["SITE", "IDLE"] and row.split()[:2] == ["vu", "0"]


def test_sites_that_cannot_take_part_for_one_reason_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    sites = tuple(GangSite(site=SiteId(f"s{n}"), rejected="too small") for n in range(10))
    show_decision(Decision(gang=GangDecision(policy="worst-fit", components=PLACES, sites=sites)))
    assert "not s0, s1, s2, s3, s4, s5, s6, s7 and 2 more: too small\n" in capsys.readouterr().out


def test_a_plan_of_a_gang_fits_a_terminal_of_80_columns() -> None:
    show = (
        "from diana.cli.groups.decisions import show_decision; from tests.cli.test_decision_text import PLACES;"
        "from diana.model.views.decision import GangDecision; from diana.wire.client.decisions import Decision;"
        "show_decision(Decision(gang=GangDecision(policy='close-to-files', components=PLACES)))"
    )
    with Terminal([sys.executable, "-c", show], environment={"PYTHONPATH": str(REPO)}) as shown:
        shown.until("before the decision")
        lines = CONTROL.sub("", shown.raw.decode()).splitlines()
    assert any("near its files, takes 10 of 28 idle" in line and "2.9 s" in line for line in lines), lines
    assert max(len(line.rstrip()) for line in lines) <= 80


def test_a_decision_with_every_column_fits_120_characters(capsys: pytest.CaptureFixture[str]) -> None:
    wide = SiteCost(
        site="tier2-n", wait_s=1234.5, wait_low_s=600.0, wait_high_s=2400.0, stage_in_s=345.6, stage_in_low_s=200.0,
        stage_in_high_s=700.0, run_s=45000.0, run_low_s=40000.0, run_high_s=50000.0, stage_out_s=12.3, network_s=0.123,
        total_s=46000.0, total_low_s=41000.0, total_high_s=52000.0, bytes_in=123_456_789_000, bytes_out=98_765_432,
        slots=12_345, max_jobs=100_000, jobs_ahead=54_321, rtt_s=0.1234, bytes_per_s=123e6, age_s=1234.0,
        run_from="elsewhere", runs_seen=12_345, cost=1234.5, network=0.125, computation=12.25, transfer=3.125,
    )  # fmt: skip
    part = PlannedPart(
        site="tier2-n", jobs=1_000_000, bytes_in=123_456_789_000, predicted_end_s=46000.0, expected_end_s=46100.0,
        predicted_low_s=41000.0, predicted_high_s=52000.0, wait_s=1234.5, stage_in_s=345.6, run_s=45000.0,
        stage_out_s=12.3, bytes_out=98_765_432,
    )  # fmt: skip
    show_decision(Decision(plan="whole", reason="x", candidates=(wide,), parts=(part,), model="paper"))
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 120
    assert len(shown) >= 15


def test_what_cannot_be_looked_ahead_at_is_refused_before_the_plan_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gang = Decision(gang=GangDecision(policy="worst-fit"))

    class Node:
        def planned(self, **job: object) -> PlanResponse:
            return PlanResponse(decision=gang)

        def sites(self) -> list[Site]:
            return []

    monkeypatch.setattr(work, "client", lambda args: nullcontext(Node()))
    args = parsing.parse("plan", "plan", work.COMMANDS["plan"], ["--look-ahead", "--components", "2x1", "--", "true"])
    with pytest.raises(UsageError, match="gangs are not played"):
        work.COMMANDS["plan"].run(args)
    assert not capsys.readouterr().out


def test_a_rank_of_many_bytes_stands_whole(capsys: pytest.CaptureFixture[str]) -> None:
    ranked = [SiteCost(site="alpha", rank=4123456.0), SiteCost(site="beta", rank=0.123456)]
    show_decision(Decision(plan="whole", model="turnaround", candidates=tuple(ranked)))
    out = capsys.readouterr().out
    assert "4123456" in out and "0.1235" in out
