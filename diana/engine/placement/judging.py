"""A decision as it is kept: where run times come from, no more rows than can be read."""

from __future__ import annotations

from collections import Counter

import msgspec

from diana.engine.placement.candidates import Field
from diana.model.views.decision import Decision, SiteCost, SiteCount

MOST_ROWS = 64


def judged(decision: Decision, field: Field) -> Decision:
    """Return the decision to keep: feasible rows first, then refused ones; rows beyond `MOST_ROWS` counted by
    reason."""
    rows = [_row(row, field) for row in decision.candidates]
    # Feasible ones in their order, then near misses, then the rest.
    rows.sort(key=lambda row: (bool(row.rejected), not row.near_miss if row.rejected else False))
    shown, left = rows[:MOST_ROWS], rows[MOST_ROWS:]
    named = {row.site for row in rows}
    reasons = Counter(row.rejected or "dearer than the sites shown" for row in left)
    reasons.update(c.rejected or "dearer than the sites shown" for c in field.candidates if c.site not in named)
    reasons.update(+field.not_asked)
    return msgspec.structs.replace(
        decision,
        candidates=tuple(shown),
        reasons=tuple(
            SiteCount(reason=why, sites=n) for why, n in sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
        ),
        rejected=sum(bool(c.rejected) for c in field.candidates),
    )


def _row(row: SiteCost, field: Field) -> SiteCost:
    near = field.near.get(row.site, "") if row.rejected else ""
    unranked = field.unranked.get(row.site)
    return msgspec.structs.replace(
        row,
        run_from=field.run_from.get(row.site, ""),
        near_miss=near,
        failed=field.failed.get(row.site, ()) + ((unranked,) if unranked is not None else ()),
        model_s=field.model_s.get(row.site, 0.0),
        rank=field.ranks.get(row.site, 0.0),
    )
