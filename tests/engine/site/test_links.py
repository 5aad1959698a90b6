"""SPEC D10, links: samples, forecasts with errors and ages, history in the journal, bytes on their way, peers' maps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.engine.site.links import MOST_TOLD, TOLD_EVERY_S
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.model.views.link import MOST_LINKS, RING, LinkHistory, LinkMap, LinkSamples
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, OPERATOR, dataset, spec, whole

BETA, GAMMA = SiteId("beta"), SiteId("gamma")


def measure(site: Site, other: str = "beta", **values: object) -> None:
    site.handle(ev.LinkMeasured(site=SiteId(other), **values))  # type: ignore[arg-type]


def estimates(site: Site) -> dict[str, ms.LinkEstimate]:
    return {one.site: one for one in site.engine.core.view.links()}


def shown(site: Site, what: str = "links", of: str | None = None) -> LinkMap:
    found = told(site, what, of)
    assert isinstance(found, LinkMap)
    return found


def told(site: Site, what: str, of: str | None) -> object:
    site.handle(ev.Ask(request=77, principal=ALICE, what=what, site=SiteId(of) if of else None))
    return site.replies[77]


# --- forecasts ----------------------------------------------------------------------------------------------


def test_an_estimate_carries_forecast_error_predictor_samples_and_age() -> None:
    grid = Grid(alpha=1, beta=1)
    alpha = grid["alpha"]
    for rate in (100.0, 120.0, 100.0, 120.0, 100.0):
        measure(alpha, bytes_per_s=rate, rtt_s=0.010, sent=1)
        grid.now += 1.0
    alpha.handle(ev.Tick())
    one = estimates(alpha)["beta"]
    forecast = alpha.engine.core.view.book.link(BETA).rate.forecast()
    assert forecast is not None
    assert one.bytes_per_s == forecast.value
    assert one.error == pytest.approx(forecast.error / forecast.value)
    assert (one.rtt_s, one.jitter_s, one.loss) == (0.010, 0.0, 0.0)
    assert (one.predictor, one.samples, one.age_s) == (forecast.predictor, 5, 1.0)


def test_what_nobody_measured_is_no_estimate() -> None:
    assert estimates(Grid(alpha=1, beta=1)["alpha"]) == {}


def test_jitter_follows_the_differences_of_round_trips() -> None:
    """RFC 3550, 6.4.1: J += (|D| - J) / 16."""
    grid = Grid(alpha=1, beta=1)
    for rtt in (0.010, 0.026, 0.026):
        measure(grid["alpha"], rtt_s=rtt)
    assert estimates(grid["alpha"])["beta"].jitter_s == pytest.approx(0.001 * 15 / 16)


def test_loss_is_the_share_of_pings_that_went_unanswered() -> None:
    grid = Grid(alpha=1, beta=1)
    alpha = grid["alpha"]
    for n in range(20):
        measure(alpha, rtt_s=None if n % 5 == 0 else 0.01, sent=1, lost=int(n % 5 == 0))
        grid.pass_time(20.0)
    assert estimates(alpha)["beta"].loss == pytest.approx(0.2)


@pytest.mark.parametrize(
    "nonsense", [{"rtt_s": -1.0}, {"bytes_per_s": 0.0}, {"rtt_s": float("inf")}, {"sent": 1, "lost": 2}]
)
def test_a_measurement_that_makes_no_sense_changes_nothing(nonsense: dict[str, object]) -> None:
    grid = Grid(alpha=1, beta=1)
    measure(grid["alpha"], **nonsense)
    grid.pass_time(100.0)
    assert estimates(grid["alpha"]) == {}
    assert not grid["alpha"].records(r.LinksRecorded)


def test_a_quote_carries_the_forecasts() -> None:
    grid = Grid(alpha=1, beta=1)
    beta = grid["beta"]
    measure(beta, "alpha", rtt_s=0.02, bytes_per_s=5e6)
    asked = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=1, refs=())
    beta.trace.clear()
    beta.handle(ev.Received(SiteId("alpha"), asked))
    (quote,) = [e.message for e in beta.trace if isinstance(e, fx.Send) and isinstance(e.message, ms.Quote)]
    (link,) = quote.links
    assert (link.site, link.rtt_s, link.bytes_per_s, link.samples) == ("alpha", 0.02, 5e6, 1)


# --- history ------------------------------------------------------------------------------------------------


def test_history_survives_a_restart_and_forecasts_stand_at_once_with_their_age() -> None:
    grid = Grid(alpha=1, beta=1)
    alpha = grid["alpha"]
    for n in range(10):
        measure(alpha, rtt_s=0.01 + n * 1e-4, bytes_per_s=1e6 + n, sent=2, lost=n % 2)
        grid.pass_time(61.0)
    before = estimates(alpha)["beta"]
    alpha.boot()
    after = estimates(alpha)["beta"]
    assert after == before
    assert after.age_s >= 61.0
    assert after.error > 0


def test_a_site_that_is_not_there_is_shown_with_the_age_of_what_is_known() -> None:
    grid = Grid(alpha=1, beta=1)
    alpha = grid["alpha"]
    measure(alpha, rtt_s=0.01)
    grid.pass_time(100.0)
    alpha.boot()
    grid.now += 5000.0
    (row,) = shown(alpha).links
    assert (row.source, row.target, row.rtt_s, row.bytes_per_s) == ("beta", "alpha", 0.01, -1.0)
    assert row.age_s >= 5000.0


def test_links_are_recorded_at_most_once_a_minute_all_together() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    alpha = grid["alpha"]
    start = grid.now
    for _ in range(600):
        measure(alpha, "beta", rtt_s=0.01, sent=1)
        measure(alpha, "gamma", rtt_s=0.02, sent=1)
        grid.pass_time(1.0)
    kept = alpha.records(r.LinksRecorded)
    assert 8 <= len(kept) <= (grid.now - start) / 60.0
    assert all([one.site for one in record.links] == ["beta", "gamma"] for record in kept)
    assert all(len(one.rtts) == 1 for record in kept for one in record.links)


def test_nothing_measured_writes_nothing() -> None:
    grid = Grid(alpha=1, beta=1)
    before = len(grid["alpha"].stored)
    grid.pass_time(3600.0)
    assert len(grid["alpha"].stored) == before


def test_the_interval_of_records_is_a_setting() -> None:
    grid = Grid({"link_history_every_s": 5.0}, alpha=1, beta=1)
    measure(grid["alpha"], rtt_s=0.01)
    grid.pass_time(6.0)
    assert len(grid["alpha"].records(r.LinksRecorded)) == 1
    with pytest.raises(ValueError, match=r"link_history_every_s = 0"):
        Settings(link_history_every_s=0)


@given(st.lists(st.integers(0, 40), max_size=30))
def test_rings_are_bounded_and_keep_the_newest(counts: list[int]) -> None:
    history, told_so_far = LinkHistory(), []
    for at, count in enumerate(counts):
        fresh = tuple((float(at), float(n)) for n in range(count))
        told_so_far += fresh
        history.add(LinkSamples(BETA, fresh, fresh, 0.1, 1, 0))
    assert history.rtts == history.rates == told_so_far[-RING:]
    assert len(history.pings) <= RING


def test_of_very_many_links_those_measured_last_are_kept() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    for n in range(MOST_LINKS + 10):
        measure(alpha, f"s{n}", rtt_s=0.01)
        grid.now += 0.001
    grid.pass_time(61.0)
    kept = alpha.engine.core.state.links
    assert len(kept) == MOST_LINKS
    assert "s9" not in kept and "s10" in kept
    assert len(estimates(alpha)) == MOST_LINKS + 10


# --- bytes on their way -------------------------------------------------------------------------------------


def test_bytes_ordered_from_a_site_are_its_backlog_until_they_are_here() -> None:
    grid = Grid(alpha=0, beta=2)
    alpha, beta = grid["alpha"], grid["beta"]
    beta.stage_at_once = False
    alpha.handle(ev.AddDataset(request=1, principal=OPERATOR, dataset=dataset("d", "f", "g", size_bytes=700)))
    grid.pass_time(5.0)
    alpha.submit(spec(2), 2, refs=(("dataset:d", whole(2)),))
    assert estimates(beta)["alpha"].backlog_bytes == 1400
    (order,) = beta.staging
    beta.handle(ev.StageDone(ticket=order.ticket, bytes_moved=1400))
    assert "alpha" not in estimates(beta)


def test_outputs_on_their_way_home_are_a_backlog_too() -> None:
    grid = Grid(alpha=0, beta=3)
    alpha = grid["alpha"]
    alpha.gather_at_once = False
    grid["beta"].outputs = ("out",)
    alpha.submit(spec(3, collect=("out",)), 3)
    grid["beta"].end()
    grid.pass_time(1.0)
    assert estimates(alpha)["beta"].backlog_bytes == 3
    alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=3))
    assert "beta" not in estimates(alpha)


def test_a_cancelled_transfer_is_no_backlog() -> None:
    grid = Grid(alpha=0, beta=2)
    alpha, beta = grid["alpha"], grid["beta"]
    beta.stage_at_once = False
    alpha.handle(ev.AddDataset(request=1, principal=OPERATOR, dataset=dataset("d", "f")))
    grid.pass_time(5.0)
    alpha.submit(spec(2), 2, refs=(("dataset:d", whole(2)),))
    assert estimates(beta)["alpha"].backlog_bytes == 1000
    alpha.cancel("alpha-1")
    grid.pass_time(60.0)
    assert "alpha" not in estimates(beta)


# --- maps ---------------------------------------------------------------------------------------------------


def summaries(site: Site) -> list[ms.Summary]:
    return [e.message for e in site.trace if isinstance(e, fx.Send) and isinstance(e.message, ms.Summary)]


def test_every_site_has_the_map_of_its_peers() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    measure(grid["alpha"], "beta", rtt_s=0.010, bytes_per_s=2e6)
    measure(grid["beta"], "gamma", rtt_s=0.020, bytes_per_s=4e6)
    grid.pass_time(3 * TOLD_EVERY_S)
    rows = {(row.source, row.target): row for row in shown(grid["alpha"]).links}
    assert set(rows) == {("beta", "alpha"), ("gamma", "beta")}
    assert not rows["beta", "alpha"].told
    assert rows["gamma", "beta"].told
    assert rows["gamma", "beta"].rtt_s == 0.020
    assert rows["gamma", "beta"].age_s >= 2 * TOLD_EVERY_S
    assert [row.source for row in shown(grid["alpha"], of="gamma").links] == ["gamma"]


def test_a_summary_tells_the_links_measured_last_and_not_too_often() -> None:
    grid = Grid(alpha=1, beta=1)
    alpha = grid["alpha"]
    for n in range(30):
        measure(alpha, f"s{n:02}", rtt_s=0.01)
        grid.now += 0.01
    alpha.trace.clear()
    grid.pass_time(60.0)
    told_links = [s.links for s in summaries(alpha)]
    with_links = [links for links in told_links if links]
    assert len(told_links) >= 20
    assert 2 <= len(with_links) <= 7
    assert all(len(links) <= MOST_TOLD for links in with_links)
    assert [one.site for one in with_links[-1]] == [f"s{n:02}" for n in range(30 - MOST_TOLD, 30)]


def test_a_peer_cannot_tell_of_more_links_than_a_summary_holds() -> None:
    grid = Grid(alpha=1, beta=1)
    alpha = grid["alpha"]
    links = tuple(ms.LinkEstimate(SiteId(f"s{n}"), 0.01, -1.0) for n in range(1000))
    forged = ms.Summary(
        site=BETA, generation=99, counter=1, seq=1, slots=1, free_slots=1, speed=1.0, queued_jobs=0, running_jobs=0,
        work_ahead_s=0.0, datasets=(), accepting=True, links=links,
    )  # fmt: skip
    alpha.handle(ev.Received(BETA, forged))
    assert len(shown(alpha).links) == MOST_TOLD


def test_paths_name_the_nearest_sites_and_mark_estimates() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    measure(grid["alpha"], "beta", rtt_s=0.010, bytes_per_s=2e6)
    measure(grid["beta"], "gamma", rtt_s=0.020, bytes_per_s=4e6)
    grid.pass_time(TOLD_EVERY_S + 1)
    beta, gamma = shown(grid["alpha"], "paths", "alpha").near
    assert (beta.site, beta.rtt_s, beta.estimated, beta.widest) == ("beta", 0.010, False, ("beta", "alpha"))
    assert (gamma.site, gamma.estimated) == ("gamma", True)
    assert gamma.rtt_s == pytest.approx(0.020)
    assert (gamma.shortest, gamma.widest) == (("alpha", "beta", "gamma"), ("gamma", "beta", "alpha"))
    assert gamma.widest_bytes_per_s == 2e6


def test_a_site_nobody_knows_is_a_mistake_and_one_without_links_is_not() -> None:
    grid = Grid(alpha=1, beta=1)
    refused = told(grid["alpha"], "links", "nowhere")
    assert isinstance(refused, fx.Refusal)
    assert refused.code == "usage"
    assert shown(grid["alpha"], "links", "beta").links == ()
    assert shown(grid["alpha"], "paths", "beta").near == ()
