"""`diana status GROUP` has a row per site and state, however many calls brought the jobs there."""

from __future__ import annotations

from diana.cli.groups.look import by_site
from diana.model.views.group import SiteShare


def share(site: str, jobs: int, state: str = "closed", age_s: float = 0.0) -> SiteShare:
    return SiteShare(site=site, jobs=jobs, done=jobs, state=state, age_s=age_s)


def test_shares_of_one_site_in_one_state_are_one_row() -> None:
    rows = by_site([share("a", 12), share("b", 5), share("a", 6, age_s=3.0), share("a", 2, "committed")])
    assert [(row.site, row.jobs, row.done, row.state, row.age_s) for row in rows] == [
        ("a", 18, 18, "closed", 3.0),
        ("b", 5, 5, "closed", 0.0),
        ("a", 2, 2, "committed", 0.0),
    ]
