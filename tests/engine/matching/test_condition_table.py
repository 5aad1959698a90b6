"""The table of sites against conditions: each cell is judged by the values of its site, in plans, in refusals, and
while a group waits (SPEC G1)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import records
from diana.engine.journal.events import Ask
from diana.engine.matching import table as conditions
from diana.engine.matching.match import Match
from diana.model.ids import GroupId, SiteId
from diana.model.job.gang import COMPONENT
from diana.model.job.spec import Axis, ComponentSpec, Sweep
from diana.model.views.conditions import ConditionTable
from diana.model.views.views import Explanation
from diana.policy.requirements.names import Value
from tests.engine.bench import OPERATOR, Grid
from tests.engine.matching.test_gangs import answer, gang
from tests.engine.matching.test_gangs import grid as gang_grid
from tests.engine.matching.test_requirements import GIB, grid, learn, plan, rows, wanted

CONDITIONS = [
    "site.memory_bytes >= 4e9",
    "suffix(site.domain, ['beta.edu', 'gamma.edu'])",
    "site.slots == 4 && site.name != 'beta'",
    "site.name in ['alpha', 'gamma']",
    "site.free_slots > 99",
    "site.memory_bytes / 1e9 > site.slots || site.name.startsWith('al')",
]


def table(decision: object) -> ConditionTable:
    told = getattr(decision, "requirements", None)
    assert isinstance(told, ConditionTable)
    return told


def cells(told: ConditionTable) -> dict[tuple[str, str], bool]:
    return {
        (site.site, one.text): judged.holds
        for site in told.sites
        for one, judged in zip(told.conditions, site.judgements, strict=True)
    }


def refused(made: Grid, *texts: str) -> ConditionTable:
    made["alpha"].replies.pop(1, None)
    found = made["alpha"].submit(wanted(requirements=texts), 4, plan_only=True)
    assert isinstance(found, fx.Refusal) and found.code == "unplaceable", found
    return table(found.decision)


def explained(made: Grid, group: str) -> Explanation:
    made["alpha"].handle(Ask(request=997, principal=OPERATOR, what="explain", group=GroupId(group)))
    made.settle()
    found = made["alpha"].replies.pop(997)
    assert isinstance(found, Explanation)
    return found


def test_a_plan_tells_what_each_site_has_for_each_condition_also_where_it_holds() -> None:
    told = table(plan(grid(alpha=2, beta=4, gamma=8), wanted(requirements=["site.memory_bytes >= 8589934592 && true"])))
    assert [one.text for one in told.conditions] == ["site.memory_bytes >= 8589934592", "true"]
    first = {site.site: site.judgements[0] for site in told.sites}
    assert {site: (one.holds, one.found) for site, one in first.items()} == {
        "alpha": (False, "2147483648"),
        "beta": (False, "4294967296"),
        "gamma": (True, "8589934592"),
    }
    assert first["beta"].near == "site.memory_bytes >= 4294967296" and not first["gamma"].near


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_negated_condition_turns_each_cell_of_its_column(condition: str) -> None:
    """A table that is drawn without judging could not."""
    made = grid(alpha=2, beta=4, gamma=8)
    # Nobody is called so, hence no site takes the group, and all are told in one table.
    nobody = "site.name == 'nobody'"
    plainly, turned = cells(refused(made, f"({condition})", nobody)), cells(refused(made, f"!({condition})", nobody))
    assert len({site for site, _ in plainly}) == 3
    assert {site: holds for (site, text), holds in turned.items() if text != nobody} == {
        site: not holds for (site, text), holds in plainly.items() if text != nobody
    }


def test_a_site_is_rejected_where_a_cell_of_its_row_fails_and_nowhere_else() -> None:
    made = grid(alpha=2, beta=4, gamma=8)
    for condition in CONDITIONS:
        made["alpha"].replies.pop(1, None)
        found = made["alpha"].submit(wanted(requirements=[condition]), 4, plan_only=True)
        decision = found.decision if isinstance(found, fx.DecisionMade | fx.Refusal) else None
        assert decision is not None
        fails = {site for (site, _), holds in cells(table(decision)).items() if not holds}
        assert fails == {site for site, row in rows(decision).items() if row.failed}


def test_the_wanted_value_is_told_where_it_is_not_plain() -> None:
    texts = ["site.slots >= 2 * job.processors", "site.memory_bytes >= 1e9", "site.name != 'x'"]
    told = table(plan(grid(alpha=2, beta=4), wanted(requirements=texts)))
    assert [one.wants for one in told.conditions] == ["2", "", ""]
    assert all(judged.holds for site in told.sites for judged in site.judgements)


def test_there_is_no_link_home_and_the_others_are_judged_by_theirs() -> None:
    asked = wanted(requirements=(), link_requirements=("link.rtt_s < 3600",))
    told = table(plan(grid(alpha=2, beta=4), asked))
    assert told.conditions[0].key == "link_requirements"
    assert {site.site: site.judgements[0].found for site in told.sites}["alpha"] == "home"
    assert not next(site for site in told.sites if site.site == "beta").judgements[0].found.startswith("home")


def test_of_many_conditions_those_that_fail_are_told_first_and_the_others_counted() -> None:
    many = [f"site.slots > {n - 99}" for n in range(40)]
    told = refused(grid(alpha=2, beta=8), *many, "site.memory_bytes >= 1e15", "site.name == 'x'")
    assert len(told.conditions) == 16 and told.more == 26
    assert [one.text for one in told.conditions][-2:] == ["site.memory_bytes >= 1e15", "site.name == 'x'"]


def test_of_many_sites_the_first_are_told() -> None:
    asked = wanted(requirements=("site.slots > 1",))
    match = Match(grid(alpha=2)["alpha"].engine.core, asked)
    values: dict[SiteId, dict[str, Value]] = {SiteId(f"s{n:03}"): {"site.slots": float(n)} for n in range(100)}
    told = conditions.table(match, asked, values, sorted(values, reverse=True))
    assert told is not None and [site.site for site in told.sites] == [f"s{n:03}" for n in range(99, 35, -1)]


def test_conditions_of_a_set_are_judged_of_the_sites_of_the_plan() -> None:
    asked = wanted(8, requirements=(), set_requirements=("sum(set.slots) >= 8", "size(set) <= 2"))
    told = table(plan(grid(alpha=2, beta=4), asked, 8))
    assert told.together == ("alpha", "beta") and not told.conditions
    assert [(one.text, one.key) for one in told.set_conditions] == [
        ("sum(set.slots) >= 8", "set_requirements"),
        ("size(set) <= 2", "set_requirements"),
    ]
    assert [(one.holds, one.found) for one in told.set_judgements] == [(True, "8"), (True, "2")]


def test_sites_that_the_group_excludes_are_not_in_its_table() -> None:
    told = table(plan(grid(alpha=2, beta=8, gamma=8), wanted(not_sites=("alpha",))))
    assert [site.site for site in told.sites] == ["beta", "gamma"]


def test_sites_that_lack_the_same_are_refused_in_one_clause() -> None:
    made = grid(alpha=2, beta=2, gamma=4)
    found = made["alpha"].submit(wanted(), 4)
    assert isinstance(found, fx.Refusal) and "alpha, beta: does not meet:" in found.text and "; gamma: " in found.text


def test_a_group_without_conditions_has_no_table() -> None:
    made = grid(alpha=2, beta=4)
    assert plan(made, wanted(requirements=())).requirements is None
    assert plan(made, wanted(requirements=(), rank="site.slots")).requirements is None


def test_a_group_that_waits_is_explained_by_the_table_of_its_last_look_until_it_has_a_place() -> None:
    made = grid("late", alpha=2, beta=8)
    made["alpha"].submit(wanted(60, requirements=(), sites=("beta",)), 60)
    made["alpha"].submit(wanted(20), 20, 2, key="waits")
    assert explained(made, "alpha-2").refused is None
    learn(made["beta"], memory_bytes=4 * GIB)
    made.pass_time(120.0)
    told = explained(made, "alpha-2").refused
    assert told is not None and "site.memory_bytes >= 8 * 1073741824" in told.reason
    assert {site.site: site.judgements[0].found for site in table(told).sites} == {
        "alpha": "2147483648",
        "beta": "4294967296",
    }
    learn(made["beta"], memory_bytes=8 * GIB)
    made.pass_time(120.0)
    assert explained(made, "alpha-2").refused is None


def test_a_gang_tells_the_conditions_of_its_components_too() -> None:
    made = gang_grid(alpha=2, beta=8, gamma=8)
    components = (
        ComponentSpec(name="master", processors=1, requirements=("site.memory_bytes >= 8e9",)),
        ComponentSpec(name="worker", processors=1),
    )
    found = answer(made, gang(components, requirements=("site.slots > 1",), set_requirements=("size(set) <= 2",)))
    assert isinstance(found, fx.DecisionMade)
    told = table(found.decision)
    assert [(one.component, one.text) for one in told.conditions] == [
        ("", "site.slots > 1"),
        ("master", "site.memory_bytes >= 8e9"),
    ]
    assert {site.site: [one.holds for one in site.judgements] for site in told.sites} == {
        "alpha": [True, False],
        "beta": [True, True],
        "gamma": [True, True],
    }
    assert found.decision.gang is not None
    assert set(told.together) == {place.site for place in found.decision.gang.components}


def test_of_the_gangs_of_a_group_one_a_minute_has_the_table_in_its_record() -> None:
    """The record of a group does not grow by a table for each gang."""
    made = gang_grid(alpha=8, beta=8)
    asked = msgspec.structs.replace(
        gang("2x1", requirements=("site.memory_bytes >= 8e9",)),
        sweep=Sweep(axes=(Axis(name="job", start=0, stop=3), Axis(name=COMPONENT, start=0, stop=2))),
    )
    made["alpha"].submit(asked, 6)
    made.pass_time(20.0)
    placed = [one.decision for one in made["alpha"].records(records.GroupPlaced)]
    assert len(placed) == 3 and [one.requirements is not None for one in placed] == [True, False, False]


def test_a_gang_that_has_no_place_is_refused_with_its_table() -> None:
    found = answer(gang_grid(alpha=2, beta=4), gang("2x4", requirements=("site.memory_bytes >= 8e9",)))
    assert isinstance(found, fx.Refusal)
    assert {holds for holds in cells(table(found.decision)).values()} == {False}


def test_a_refusal_for_what_sites_lack_together_tells_the_set_that_comes_nearest() -> None:
    made = grid(alpha=2, beta=4, gamma=8)
    asked = wanted(requirements=(), set_requirements=("sum(set.slots) >= 99", "size(set) <= 2"))
    found = made["alpha"].submit(asked, 4, plan_only=True)
    assert isinstance(found, fx.Refusal)
    told = table(found.decision)
    assert told.together == ("alpha", "beta")
    assert [(one.holds, one.found) for one in told.set_judgements] == [(False, "8"), (True, "2")]
    assert told.set_judgements[0].near == "sum(set.slots) >= 8"
