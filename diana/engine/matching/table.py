"""The table of sites against the conditions of a group, as `plan` and `explain` show it (SPEC G1)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from diana.engine.matching.match import Match, allowed
from diana.model.ids import SiteId
from diana.model.job.spec import GroupSpec
from diana.model.views.conditions import Condition, ConditionTable, JudgedSite, Judgement
from diana.policy.requirements.group import GroupRequirements, component_requirements, over_set
from diana.policy.requirements.judge import Conjunct, Requirements
from diana.policy.requirements.names import Value

MOST_CONDITIONS = 16
"""Conditions of one site that are told, those that fail somewhere first; and those of a set."""
MOST_SITES = 64
"""Sites that are told."""
MOST_KINDS = 16
"""Kinds of components whose own conditions are told."""
_HOME = Judgement(holds=True, found="home")

Values = Mapping[SiteId, Mapping[str, Value]]


class _Column(NamedTuple):
    condition: Condition
    conjunct: Conjunct
    own: Mapping[str, Value]
    """Values of the names that speak of the group, or of the component that it is for."""


def table(match: Match, spec: GroupSpec, values: Values, sites: Iterable[SiteId]) -> ConditionTable | None:
    """Judge sites one by one by each condition of the group and of its components. None: there is none, of sets
    neither. `values`: of each site that answered, as `Match.values` gives them; `sites`: those to tell, in order."""
    columns = list(_columns(match.requirements, spec))
    if not columns and not (match.requirements and match.requirements.sets):
        return None
    some = [site for site in dict.fromkeys(sites) if site in values and allowed(spec, site)][:MOST_SITES]
    rows = [[_judgement(match, column, site, values[site]) for column in columns] for site in some]
    told = _told(len(columns), rows)
    return ConditionTable(
        conditions=tuple(columns[at].condition for at in told),
        sites=tuple(
            JudgedSite(site=site, judgements=tuple(row[at] for at in told))
            for site, row in zip(some, rows, strict=True)
        ),
        more=len(columns) - len(told),
    )


def together(told: ConditionTable, match: Match, values: Values, sites: Collection[SiteId]) -> ConditionTable:
    """Add what the group wants of all its sites together, judged of these."""
    wants = match.requirements
    if wants is None or not wants.sets or not sites:
        return told
    given = {**wants.own, **over_set({site: values.get(site, {}) for site in sites}, wants.sets.names)}
    columns = list(_of(wants.sets, "set_requirements", wants.own))[:MOST_CONDITIONS]
    return structs.replace(
        told,
        set_conditions=tuple(column.condition for column in columns),
        together=tuple(sorted(sites)),
        set_judgements=tuple(column.conjunct.judged(given) for column in columns),
    )


def _columns(wants: GroupRequirements | None, spec: GroupSpec) -> Iterator[_Column]:
    if wants is not None:
        yield from _of(wants.site, "requirements", wants.own)
        yield from _of(wants.link, "link_requirements", wants.own)
    for number, each in enumerate(spec.components[:MOST_KINDS]):
        if each.requirements or each.link_requirements:
            own, name = component_requirements(spec, each), each.name or str(number + 1)
            yield from _of(own.site, "requirements", own.own, name)
            yield from _of(own.link, "link_requirements", own.own, name)


def _of(wants: Requirements, key: str, own: Mapping[str, Value], component: str = "") -> Iterator[_Column]:
    for one in wants.conjuncts:
        yield _Column(Condition(text=one.told, key=key, component=component, wants=one.wants(own)), one, own)


def _judgement(match: Match, column: _Column, site: SiteId, values: Mapping[str, Value]) -> Judgement:
    if column.condition.key == "link_requirements" and match.is_home(site):
        return _HOME
    return column.conjunct.judged({**column.own, **values})


def _told(columns: int, rows: Sequence[Sequence[Judgement]]) -> list[int]:
    """Return which columns are told, in their order."""
    failing = [at for at in range(columns) if any(not row[at].holds for row in rows)]
    rest = [at for at in range(columns) if at not in failing]
    return sorted([*failing, *rest][:MOST_CONDITIONS])
