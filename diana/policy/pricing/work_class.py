"""Class of a group (compute- or data-intensive), and the paper's ranking of sites by it (SPEC D2;
papers/diana-bulk-scheduling section V)."""

from __future__ import annotations

from collections.abc import Sequence

from diana.model.arrays import Floats, Ints, np
from diana.model.views.decision import JobClass
from diana.policy.pricing.paper_cost import PaperTerms
from diana.policy.pricing.sites import SiteTable, in_order
from diana.policy.pricing.turnaround import Terms

HEAVY = 4.0
"""Ratio of transfer and run time, either way, beyond which the group is of that class alone."""


def derived(terms: Terms) -> JobClass:
    """Derive the class from estimated transfer against run time: the mean run time over the sites that can run it, and
    the mean transfer over those of them its data would have to travel to. Data that lie at every site make no group
    data-intensive."""
    can = np.isfinite(terms.total_s)
    moves_s = terms.stage_in_s + terms.stage_out_s
    away = can & (moves_s > 0)
    transfer_s = float(moves_s[away].mean()) if away.any() else 0.0
    run_s = float(terms.run_s[can].mean()) if can.any() else 0.0
    if transfer_s > HEAVY * run_s:
        return "data"
    return "both" if HEAVY * transfer_s >= run_s > 0 else "compute"


def keys(terms: PaperTerms, job_class: JobClass) -> Sequence[Floats]:
    """Return the keys that rank sites. Compute-intensive: computation, ties by transfer; data-intensive: transfer, ties
    by computation; both: the sum."""
    if job_class == "compute":
        return terms.computation, terms.transfer
    return (terms.transfer, terms.computation) if job_class == "data" else (terms.cost,)


def ranked(terms: PaperTerms, job_class: JobClass, table: SiteTable) -> Ints:
    """Sort rows in rising cost, last ties by the table's rank."""
    return in_order(keys(terms, job_class), table)


def key_term(terms: PaperTerms, job_class: JobClass) -> Floats:
    """(S,) the first key that ranks the sites."""
    return keys(terms, job_class)[0]
