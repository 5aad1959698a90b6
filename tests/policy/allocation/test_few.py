"""Few sites are asked where summaries decide, and never fewer than that."""

from __future__ import annotations

from diana.model.ids import SiteId
from diana.policy.allocation.few import BEST, FEW, ToldRoom, few


def sites(count: int, free: int = 4, queued: int = 0) -> list[ToldRoom]:
    return [ToldRoom(SiteId(f"s{n:02}"), free, queued) for n in range(count)]


def test_of_many_idle_sites_the_best_and_some_drawn_ones_are_asked() -> None:
    asked = few(sites(16), 1, 7)
    assert len(asked) == len(set(asked)) == FEW and asked[:BEST] == ["s00", "s01"]
    assert {site for seed in range(100) for site in few(sites(16), 1, seed)} == {one.site for one in sites(16)}


def test_the_same_seed_asks_the_same_sites() -> None:
    assert few(sites(16), 1, 7) == few(sites(16), 1, 7)


def test_all_are_asked_where_one_of_the_first_has_work_waiting_or_too_little_room() -> None:
    for at in range(FEW):
        for busy in (ToldRoom(SiteId("busy"), 4, 1), ToldRoom(SiteId("busy"), 1, 0)):
            listed = sites(16)
            listed[at] = busy
            assert few(listed, 1, 7) == [one.site for one in listed]


def test_busy_sites_further_down_are_not_drawn() -> None:
    listed = [*sites(FEW), *(ToldRoom(SiteId(f"z{n}"), 4, 3) for n in range(12))]
    for seed in range(50):
        assert set(few(listed, 2, seed)) == {one.site for one in listed[:FEW]}


def test_a_group_that_only_fits_once_is_asked_about_everywhere() -> None:
    """Four jobs and four free slots: another group may have come since the summary."""
    assert len(few(sites(16), 4, 7)) == 16 and len(few(sites(16), 2, 7)) == FEW
