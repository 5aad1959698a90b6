"""The cost of a peer does not grow with the number of peers (PERFORMANCE P9); and the links that a summary tells."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.bench_growth import hello, summary_of, with_peers
from benchmarks.bench_queues import Driver
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.membership import gossip
from diana.engine.messages import messages as ms
from diana.engine.site.link_book import LinkBook
from diana.model.ids import SiteId
from diana.model.views.link import LinkHistory
from tests.engine.bench import Grid
from tests.engine.builders import spec


@pytest.mark.wide
def test_a_peer_costs_the_same_with_ten_thousand_peers_as_with_a_hundred() -> None:
    """Coming up, its summary, a measured round trip, being told ours; a cost by n would be a hundredfold."""
    few, many = (min_of(peers, rounds) for peers, rounds in ((100, 5), (10_000, 1)))
    for name, cost_us in few.items():
        assert many[name] < 6 * cost_us + 20, f"{name}: {cost_us:.0f} us with 100 peers, {many[name]:.0f} with 10,000"


def min_of(peers: int, rounds: int) -> dict[str, float]:
    found = [with_peers(peers) for _ in range(rounds)]
    return {name: min(one[name] for one in found) for name in found[0]}


@pytest.mark.wide
def test_a_peer_that_comes_back_costs_by_its_own_part_of_thousands_of_groups() -> None:
    """No group of theirs concerns it; a look at each would cost two hundred times as much."""
    few, many = (coming_back_s(groups) for groups in (20, 4_000))
    assert many < 5 * few + 0.001, f"{few * 1e6:.0f} us with 20 groups, {many * 1e6:.0f} with 4,000"


def coming_back_s(groups: int) -> float:
    driver = Driver(0, 0, "default")
    for n in range(groups):
        driver.submit(n % 100, 1, 100)
    times = []
    for _ in range(9):
        times.append(driver.handle(ev.PeerUp(hello(site(1)))))
        driver.handle(ev.PeerDown(site(1)))
    return sorted(times)[4]


def test_a_peer_is_told_what_is_open_there_and_nothing_else() -> None:
    grid = Grid(None, alpha=1, beta=4, gamma=4)
    alpha = grid["alpha"]
    for number, name in enumerate(("beta", "gamma", "beta")):
        alpha.submit(spec(2, work_s=100.0, sites=(name,)), 2, number, settle=False)
    grid.settle()
    grid.part("beta")
    alpha.cancel("alpha-1", settle=False)
    alpha.trace.clear()
    grid.heal("beta")
    told = {e.to: e.message for e in alpha.trace if isinstance(e, fx.Send) and isinstance(e.message, ms.Control)}
    assert set(told) == {"beta"} and told[SiteId("beta")].subgroup == "alpha-1/0"


def test_of_what_a_peer_names_no_more_is_kept_than_a_peer_may_name() -> None:
    driver = Driver(0, 0, "default")
    driver.handle(ev.PeerUp(hello(site(1))))
    names = tuple(f"d{n:06}" for n in range(gossip.MAX_NAMED_DATASETS + 5000))
    driver.handle(ev.Received(site(1), msgspec.structs.replace(summary_of(site(1), 1), datasets=names)))
    core = driver.engine.core
    kept = core.view.peers[site(1)].summary
    assert kept is not None and kept.datasets == names[: gossip.MAX_NAMED_DATASETS]
    assert core.roster.holders(names[:1]) == {site(1)} and not core.roster.holders(names[-1:])


def site(n: int) -> SiteId:
    return SiteId(f"s{n:02}")


def measured(book: LinkBook, n: int, at_s: float) -> None:
    book.link(site(n)).measured(at_s, 0.01, None, 1, 0)
    book.fresh(site(n))


def test_the_links_measured_last_are_told_in_order_of_the_site() -> None:
    book = LinkBook({}, lambda: 100.0)
    for at_s, n in enumerate((3, 1, 2, 0, 3)):
        measured(book, n, float(at_s))
    assert [one.site for one in book.freshest(2)] == [site(0), site(3)]
    assert [one.site for one in book.freshest(9)] == [site(0), site(1), site(2), site(3)]


def test_links_the_journal_remembers_are_told_after_those_measured_since() -> None:
    kept = {}
    for n in range(6):
        kept[site(n)] = LinkHistory()
        kept[site(n)].rtts.append((float(n), 0.01))
    book = LinkBook(kept, lambda: 100.0)
    for n in range(6):
        book.link(site(n))
    assert [one.site for one in book.freshest(2)] == [site(4), site(5)]
    measured(book, 0, 50.0)
    measured(book, 5, 51.0)
    assert [one.site for one in book.freshest(3)] == [site(0), site(4), site(5)]


def test_a_link_never_measured_is_told_while_bytes_wait_on_it() -> None:
    book = LinkBook({}, lambda: 0.0)
    book.ordered(1, [(site(1), 1000)])
    assert [(one.site, one.backlog_bytes) for one in book.freshest(4)] == [(site(1), 1000)]
    book.settled(1)
    assert book.freshest(4) == ()
