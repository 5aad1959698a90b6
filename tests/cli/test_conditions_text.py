"""The table of sites against conditions as `plan` and `explain` print it, and what a refused plan leaves (SPEC G1)."""

from __future__ import annotations

import json
from contextlib import nullcontext

import msgspec
import pytest

from diana.cli.groups import work
from diana.cli.groups.conditions import show_conditions
from diana.cli.shared import output, parsing
from diana.client import steps
from diana.errors import Unplaceable, UsageError
from diana.model.ids import SiteId
from diana.model.views.conditions import Condition, ConditionTable, JudgedSite, Judgement
from diana.wire.client.decisions import Decision
from diana.wire.client.messages import PlannedGroup, PlanResponse, SubmitRequest

MEMORY = Condition(text="site.memory_bytes >= nx * 1e9", key="requirements", wants="8000000000")
DOMAIN = Condition(text="suffix(site.domain, ['ucsd.edu'])", key="requirements", component="master")
TABLE = ConditionTable(
    conditions=(MEMORY, DOMAIN),
    sites=(
        JudgedSite(
            site=SiteId("alpha"),
            judgements=(Judgement(holds=True, found="16000000000"), Judgement(holds=True, found="'cs.ucsd.edu'")),
        ),
        JudgedSite(
            site=SiteId("beta"),
            judgements=(
                Judgement(found="4000000000", near="site.memory_bytes >= 4000000000"),
                Judgement(found="site.domain not told"),
            ),
        ),
    ),
    set_conditions=(Condition(text="size(set) <= 2", key="set_requirements"),),
    together=(SiteId("alpha"), SiteId("gamma")),
    set_judgements=(Judgement(holds=True, found="2"),),
)


def test_the_table_names_conditions_by_number_and_tells_what_each_site_has(capsys: pytest.CaptureFixture[str]) -> None:
    show_conditions(TABLE)
    assert capsys.readouterr().out == (
        "\n"
        "its conditions, and what each site has:\n"
        "  1  site.memory_bytes >= nx * 1e9   [8000000000]\n"
        "  2  component master: suffix(site.domain, ['ucsd.edu'])\n"
        "\n"
        "SITE   1                  2\n"
        "alpha  yes (16000000000)  yes ('cs.ucsd.edu')\n"
        "beta   NO (4000000000)    NO (site.domain not told)\n"
        "\n"
        "its conditions on all its sites together (alpha, gamma):\n"
        "  yes (2)  size(set) <= 2\n"
    )


def test_a_later_look_at_the_sites_is_told_from_that_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    show_conditions(TABLE, "when it was last looked for a place")
    out = capsys.readouterr().out
    assert "what each site has, when it was last looked for a place:\n" in out
    assert "(alpha, gamma), when it was last looked for a place:\n" in out


def test_on_a_narrow_terminal_the_columns_stand_in_tables_below_each_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    show_conditions(TABLE)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert "SITE   1" in lines and "SITE   2" in lines
    assert "beta   NO (site.domain not told)" in lines and all(
        len(line) <= 40 for line in lines if line.startswith(("SITE", "alpha", "beta"))
    )


def test_a_value_that_a_site_does_not_tell_says_so_however_long_its_name_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    untold = Judgement(found="site.properties.power_kw not told; did you mean site.properties.power?")
    (site, *_) = TABLE.sites
    show_conditions(
        ConditionTable(conditions=TABLE.conditions[:1], sites=(msgspec.structs.replace(site, judgements=(untold,)),))
    )
    assert "NO (not told; did you mean site.p...)" in capsys.readouterr().out


def test_a_refused_plan_tells_the_table_and_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Unplaceable("no site can take this group: beta: does not meet: x")
    refused.planned = PlanResponse(decision=Decision(plan="whole", refused=str(refused), requirements=TABLE))

    class Node:
        def planned(self, **job: object) -> PlanResponse:
            raise refused

    monkeypatch.setattr(work, "client", lambda args: nullcontext(Node()))
    plan = work.COMMANDS["plan"]
    with pytest.raises(Unplaceable):
        plan.run(parsing.parse("plan", "plan", plan, ["--", "true"]))
    assert "beta   NO (4000000000)" in capsys.readouterr().out
    with pytest.raises(Unplaceable):
        plan.run(parsing.parse("plan", "plan", plan, ["--json", "--", "true"]))
    told = json.loads(capsys.readouterr().out)["decision"]
    assert told["refused"].startswith("no site can take") and told["requirements"]["sites"][1]["judgements"][0] == {
        "holds": False,
        "found": "4000000000",
        "near": "site.memory_bytes >= 4000000000",
    }


def test_of_several_planned_groups_each_that_is_refused_is_told_by_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lacks = Decision(plan="whole", refused="no site can take this group: x", requirements=TABLE)
    told = PlanResponse(groups=(PlannedGroup(name="a", jobs=1, decision=Decision(plan="whole")),
                                PlannedGroup(name="b", jobs=2, decision=lacks)))  # fmt: skip

    class Node:
        def planned(self, **job: object) -> PlanResponse:
            steps_of = steps.planned(steps.PreparedSubmission(SubmitRequest(content=b""), ""))
            next(steps_of)
            with pytest.raises(Unplaceable, match=r"^group b: no site can take this group: x$") as refused:
                steps_of.send(told)
            raise refused.value

    monkeypatch.setattr(work, "client", lambda args: nullcontext(Node()))
    plan = work.COMMANDS["plan"]
    with pytest.raises(Unplaceable):
        plan.run(parsing.parse("plan", "plan", plan, ["--", "true"]))
    out = capsys.readouterr().out
    assert out.startswith("b: 2 jobs: no site can take this group: x\n\nits conditions") and "beta   NO" in out


@pytest.mark.parametrize("more", [[""], ["  "], ["site.slots > 1", ""]])
def test_an_empty_requirement_is_a_mistake_and_not_none(more: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "client", lambda args: nullcontext())
    plan, words = work.COMMANDS["plan"], [word for text in more for word in ("--require", text)]
    with pytest.raises(UsageError, match=r"--require: it is empty; write a comparison"):
        plan.run(parsing.parse("plan", "plan", plan, [*words, "--", "true"]))
