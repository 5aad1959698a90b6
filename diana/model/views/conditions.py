"""The table of a placement's sites against the conditions of its group, each cell judged by itself (SPEC G1)."""

from __future__ import annotations

from diana.model.ids import SiteId
from diana.model.views.shown import Shown


class Condition(Shown, frozen=True):
    """A conjunct of a group's requirements."""

    text: str
    key: str
    """Key that it stands under: requirements, link_requirements, set_requirements."""
    component: str = ""
    """Component that it is for; empty: for all jobs of the group."""
    wants: str = ""
    """Value of the side that speaks of the group alone, where that is no plain number; empty: there is none."""


class Judgement(Shown, frozen=True):
    """A condition, judged by the values of a site or of a set of sites."""

    holds: bool = False
    found: str = ""
    """Value that it was judged by, or what was not told."""
    near: str = ""
    """The same condition as it would just hold; empty: it holds, or is no comparison with a number."""


class JudgedSite(Shown, frozen=True):
    site: SiteId
    judgements: tuple[Judgement, ...] = ()
    """In the order of the table's `conditions`."""


class ConditionTable(Shown, frozen=True):
    """Sites against conditions."""

    conditions: tuple[Condition, ...] = ()
    """Conditions of one site or of the link to it, in the order of the job file. Of many those that
    fail somewhere are told first, and `more` are left out."""
    sites: tuple[JudgedSite, ...] = ()
    """The sites that answered, in the order of the decision's rows."""
    more: int = 0
    set_conditions: tuple[Condition, ...] = ()
    """Conditions of all its sites together."""
    together: tuple[SiteId, ...] = ()
    """Sites that these were judged of: those that have its jobs, or would get them."""
    set_judgements: tuple[Judgement, ...] = ()
    """In the order of `set_conditions`."""
