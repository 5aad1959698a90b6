"""SPEC D10: `diana links` as people read it."""

from __future__ import annotations

import pytest

from diana.cli.watch.links import show_links, show_near
from diana.model.views.link import LinkMap, LinkView, NearSite

OWN = LinkView(
    source="beta", target="alpha", rtt_s=0.0123, jitter_s=0.0004, loss=0.0025, bytes_per_s=12.5e6, error=0.0812,
    predictor="median-5", samples=64, age_s=83.0,
)  # fmt: skip
TOLD = LinkView(
    source="gamma", target="beta", rtt_s=0.5, jitter_s=-1.0, loss=-1.0, bytes_per_s=-1.0, error=-1.0, predictor="last",
    samples=1, age_s=90000.0, told=True,
)  # fmt: skip


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_links_are_shown_with_errors_and_ages_and_gaps_are_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    show_links(LinkMap(site="alpha", links=(OWN, TOLD), links_left_out=3))
    head, own, told, more = lines(capsys)
    assert head == [
        "FROM", "TO", "RTT", "JITTER", "LOSS", "RATE", "+-ERROR", "PREDICTOR", "SAMPLES", "AGE", "SEEN", "BY",
    ]  # fmt: skip
    assert own == [
        "beta", "alpha", "(here)", "12.3", "ms", "0.4", "ms", "0.2%", "12.5", "MB/s", "8.1%", "median-5", "64",
        "1m23s", "this", "node",
    ]  # fmt: skip
    assert told == ["gamma", "beta", "500.0", "ms", "-", "-", "-", "-", "last", "1", "1d01h", "beta"]
    assert more == ["and", "3", "more", "links"]


def test_no_links_is_one_line_that_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    show_links(LinkMap(site="alpha"))
    show_near(LinkMap(site="alpha"), "beta")
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("no link was measured yet")
    assert told[1] == "no link of beta is known yet; see diana links"


def test_near_sites_come_with_their_ways_and_estimates_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    near = (
        NearSite(site="beta", rtt_s=0.01, bytes_per_s=1e6, shortest=("alpha", "beta"), shortest_s=0.01,
                 widest=("beta", "gamma", "alpha"), widest_bytes_per_s=9e6),
        NearSite(site="gamma", rtt_s=0.03, estimated=True, bytes_per_s=-1.0, shortest_s=-1.0, widest_bytes_per_s=-1.0),
        NearSite(site="delta", rtt_s=-1.0, estimated=True, bytes_per_s=-1.0, shortest_s=-1.0, widest_bytes_per_s=-1.0),
    )  # fmt: skip
    show_near(LinkMap(site="alpha", near=near), "alpha")
    _, beta, gamma, delta, note = capsys.readouterr().out.splitlines()
    assert beta.split("  ")[0] == "beta"
    assert "10.0 ms" in beta and "alpha > beta" in beta and "beta > gamma > alpha" in beta and "9.0 MB/s" in beta
    assert gamma.split() == ["gamma", "~30.0", "ms", "-", "-", "-", "-", "-"]
    assert delta.split() == ["delta", *["-"] * 6]
    assert note.startswith("~ nobody measured this pair")
