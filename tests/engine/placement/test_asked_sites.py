"""The sites that are asked for quotes, and how often: what a small group costs its peers."""

from __future__ import annotations

import msgspec

from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from diana.model.job.spec import GroupSpec
from diana.policy.allocation.few import FEW
from tests.engine.bench import Grid
from tests.engine.builders import spec


def asked(grid: Grid, wanted: GroupSpec, jobs: int = 1) -> list[str]:
    """The sites that alpha asked, each as often as it was."""
    seen: list[str] = []

    def listen(_: Grid, __: int, letter: tuple[str, str, ms.Message]) -> str:
        if letter[0] == "alpha" and isinstance(letter[2], ms.QuoteRequest):
            seen.append(letter[1])
        return "deliver"

    grid.fate = listen
    grid["alpha"].submit(wanted, jobs)
    grid.fate = None
    return seen


def many(sites: int = 20, slots: int = 4) -> Grid:
    grid = Grid({"binding": "late"}, alpha=1, **{f"s{n:02}": slots for n in range(sites)})
    grid.pass_time(5.0)
    return grid


def test_one_job_asks_a_few_of_many_idle_sites_once() -> None:
    seen = asked(many(), spec())
    assert len(seen) == len(set(seen)) == FEW


def test_a_group_that_no_site_surely_starts_at_once_asks_the_whole_list() -> None:
    seen = asked(many(), spec(), 3)
    assert len(seen) == len(set(seen)) == 16


def test_in_a_small_grid_all_are_asked() -> None:
    assert sorted(asked(many(6), spec())) == [f"s{n:02}" for n in range(6)]


def test_a_group_accepted_at_once_is_not_priced_a_second_time_when_a_peer_comes_up() -> None:
    grid = many(3)
    grid["alpha"].submit(spec(), 1, settle=False)
    before = len(grid.post_box)
    assert before == 3
    stranger = msgspec.structs.replace(grid["s00"].hello(), site=SiteId("new"), db_uuid="db-new")
    grid["alpha"].handle(ev.PeerUp(stranger))
    again = [letter for letter in list(grid.post_box)[before:] if isinstance(letter[2], ms.QuoteRequest)]
    assert again == []


def priced_when_up(grid: Grid, name: str, **changed: str) -> bool:
    """True if alpha asks for quotes when a stream to the site comes up."""
    grid["alpha"].handle(ev.PeerUp(msgspec.structs.replace(grid[name].hello(), **changed)))
    found = any(isinstance(letter[2], ms.QuoteRequest) for letter in grid.post_box)
    grid.post_box.clear()
    return found


def test_only_what_waits_at_a_site_is_priced_again_when_a_stream_to_it_comes_up() -> None:
    grid = many(20, slots=1)
    waits_at = set(asked(grid, spec(work_s=100.0), 200))
    assert grid["alpha"].engine.core.totals.unplaced()
    elsewhere = next(name for name in grid.sites if name not in waits_at and name != "alpha")
    assert not priced_when_up(grid, elsewhere)
    assert priced_when_up(grid, min(waits_at))


def test_a_site_that_began_anew_has_what_waits_priced_again() -> None:
    grid = many(20, slots=1)
    waits_at = set(asked(grid, spec(work_s=100.0), 200))
    elsewhere = next(name for name in grid.sites if name not in waits_at and name != "alpha")
    assert priced_when_up(grid, elsewhere, boot_nonce="another")


def test_a_site_that_was_gone_has_what_waits_priced_again_when_it_is_back() -> None:
    grid = many(20, slots=1)
    waits_at = set(asked(grid, spec(work_s=100.0), 200))
    elsewhere = next(name for name in grid.sites if name not in waits_at and name != "alpha")
    grid.part(elsewhere)
    grid.pass_time(30.0)
    grid.cut.discard(grid[elsewhere].name)
    grid.post_box.clear()
    assert priced_when_up(grid, elsewhere)


def test_a_quote_tells_links_and_reach_only_where_data_move() -> None:
    grid = many(3)
    beta = grid["s00"]
    for peer in ("s01", "s02", "alpha"):
        beta.handle(ev.LinkMeasured(site=grid[peer].name, rtt_s=0.01, sent=1, bytes_per_s=1e6))
    told = {}
    for name, refs in (("none", ()), ("some", ("dataset:d",))):
        grid.post_box.clear()
        wanted = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=1, refs=refs, owner="u@vo", template="t")
        beta.handle(ev.Received(grid["alpha"].name, wanted))
        [(_, _, told[name])] = [letter for letter in grid.post_box if isinstance(letter[2], ms.Quote)]
    assert [link.site for link in told["none"].links] == ["alpha"] and not told["none"].reach
    assert {link.site for link in told["some"].links} == {"alpha", "s01", "s02"} and told["some"].reach
