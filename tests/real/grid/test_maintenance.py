"""With real nodes (SPEC D8): a site that announced a maintenance starts nothing that may outlast its beginning, takes
no work while it lasts, and goes on by itself."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime

import pytest

from tests.e2e.grid import Grid, Starts, until
from tests.e2e.test_hold_retry import diana

pytestmark = pytest.mark.e2e

HOUR_S = 3600.0


def iso(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).isoformat()


def announced(from_s: float, to_s: float) -> tuple[str, ...]:
    return "site", "drain", "--from", iso(from_s), "--to", iso(to_s), "--reason", "new switches"


def limited(starts: Starts, limit_s: float, **group: object) -> dict[str, object]:
    job = starts.job(2, **group)
    return {**job, "resources": {"work": 0.03, "time": f"{limit_s:g}s"}}


def test_long_jobs_wait_for_the_end_of_an_announced_maintenance_and_short_ones_do_not(
    grid: Grid, starts: Starts
) -> None:
    alpha, beta = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    alpha.start()
    beta.start()
    with alpha.client() as client:
        until(lambda: sum(s.state == "alive" for s in client.sites()) == 2, "both are linked", 20)
        # Hours away, so that what is to happen before it does, however slow the machine is.
        now_s = time.time()
        assert "beta takes no work from" in diana(beta, *announced(now_s + HOUR_S, now_s + 2 * HOUR_S))
        assert "maintenance" in diana(beta, "doctor")
        until(lambda: "maintenance from" in diana(alpha, "sites"), "alpha hears of it", 10)
        long = client.submit(limited(starts, 2 * HOUR_S, name="long", sites=["beta"])).group
        short = client.submit(limited(starts, 1.0, name="short", sites=["beta"])).group
        assert client.wait(short, timeout_s=10).done == 2
        until(lambda: "wait for the end of the maintenance" in diana(alpha, "status", long), "why it waits", 5)
        assert starts.count() == 2
        # Another one begins at once, and lasts for as long.
        diana(beta, *announced(time.time() + 1.0, now_s + HOUR_S))
        until(lambda: "drained: maintenance until" in diana(alpha, "sites"), "it began", 10)
        until(lambda: "new switches" in diana(alpha, "explain", long), "why it went back", 5)
        assert starts.count() == 2
        diana(beta, "site", "undrain")
        assert client.wait(long, timeout_s=60).done == 2
        assert "maintenance" not in diana(alpha, "sites")

        # One that is over ends by itself, and nothing began before that.
        to_s = time.time() + 8.0
        diana(beta, *announced(time.time() + 1.0, to_s))
        last = client.submit(limited(starts, 60.0, name="last", sites=["beta"])).group
        assert client.wait(last, timeout_s=60).done == 2
        assert min(row.started_s for row in client.results(last)) >= to_s
        until(lambda: "maintenance" not in diana(alpha, "sites"), "alpha hears of its end", 10)
    assert len(starts.all()) == 6


def test_what_site_toml_announces_holds_from_a_reload_on_and_undrain_says_where_it_stands(
    grid: Grid, starts: Starts
) -> None:
    alpha = grid.add("alpha", 2)
    alpha.start()
    file = alpha.data / "site.toml"
    with alpha.client() as client:
        good = file.read_text()
        now_s = time.time()
        file.write_text(f'{good}\n[[maintenance]]\nfrom = {iso(now_s - 60)}\nto = "{iso(now_s + 3600)}"\n')
        assert alpha.process is not None
        os.kill(alpha.process.pid, signal.SIGHUP)
        until(lambda: "drained: maintenance until" in diana(alpha, "sites"), "it holds", 10)
        assert "mend [[maintenance]] in site.toml" in diana(alpha, "site", "undrain")
        file.write_text(good)
        os.kill(alpha.process.pid, signal.SIGHUP)
        until(lambda: "maintenance" not in diana(alpha, "sites"), "it is over", 10)
        assert client.wait(client.submit(starts.job(2)).group, timeout_s=20).done == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "2031-05-01T08:00Z"), "--from wants --to TIME"),
        (("--to", "tomorrow"), "--to: 'tomorrow': want a time with its zone"),
        (("--to", "2031-05-01T08:00"), "has no zone; append Z"),
        (("--to", "2001-05-01T08:00Z"), "is not after now"),
    ],
)
def test_a_time_that_makes_no_sense_is_refused_in_one_line(grid: Grid, words: tuple[str, ...], says: str) -> None:
    alpha = grid.add("alpha", 1)
    told = diana(alpha, "site", "drain", *words, code=2)
    assert says in told and told.count("\n") == 1, told
