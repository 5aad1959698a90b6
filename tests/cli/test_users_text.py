"""`diana users`: which sites are asked, and what is said of those that are not."""

from __future__ import annotations

import pytest

from diana.cli.groups.users import MOST_ASKED, chosen_sites, show_users
from diana.cli.shared.shapes import UserRow, UsersShown
from diana.model.views.site import Site


def test_of_a_thousand_busy_sites_those_with_the_most_jobs_are_asked() -> None:
    """SPEC D11: a thousand users at a thousand sites cost 64 answers; the jobs of the other sites are counted."""
    sites = [Site(site=f"s{n:04}", home=n == 7, state="alive", queued_jobs=n) for n in range(1, 1001)]
    asked, rest, away = chosen_sites(sites)
    assert len(asked) == MOST_ASKED == 64
    assert asked[:3] == ["s0007", "s1000", "s0999"]
    assert len(rest) == 1000 - 64
    assert away == []


def test_idle_sites_are_not_asked_and_silent_ones_are_named() -> None:
    sites = [
        Site(site="alpha", home=True, state="alive"),
        Site(site="beta", state="alive"),
        Site(site="gamma", state="suspect", queued_jobs=5),
        Site(site="delta", state="alive", running_jobs=1),
    ]
    assert chosen_sites(sites) == (["alpha", "delta"], [], ["gamma"])


def test_a_row_has_its_age_and_what_was_not_counted_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    row = UserRow(user="ann@vo", sites=2, queued=19, running=1, queued_share=0.19, running_share=0.25, age_s=3.0)
    show_users(UsersShown(users=(row,), asked=("alpha",), silent=("gamma",), unasked_sites=2, unasked_jobs=1234))
    said = capsys.readouterr().out.splitlines()
    assert said[1].split() == ["ann@vo", "2", "19", "1", "19.0%", "25.0%", "3.0", "s"]
    assert said[2] == "not counted, no answer: gamma"
    assert said[3] == "not counted, beyond the 64 sites with the most jobs: 2 sites with 1,234 jobs"
