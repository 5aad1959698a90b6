"""SPEC U6 on real nodes: two sites at work, scraped twice; a text file collector's file; a machine that only runs jobs;
logs for programs."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from diana.client import AsyncClient
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from diana.node.metrics.names import METRICS, TABLES
from tests.e2e.grid import Grid, Site, until
from tests.real.members import add_member

NOT_YET = {
    "diana_peer_bytes_per_second",
    "diana_forecast_error_ratio",
    "diana_forecast_ranges_held_ratio",
}
"""Left out until something was measured, and until groups were scored."""

pytestmark = pytest.mark.e2e

Found = dict[tuple[str, ...], float]


def read(text: str) -> Found:
    """Sample -> value; AssertionError for what Prometheus would not take or the reference does not name."""
    found: Found = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert (family.type, family.documentation) == (METRICS[name].kind, METRICS[name].text)
        for sample in family.samples:
            key = (sample.name, *sorted(f"{k}={v}" for k, v in sample.labels.items()))
            assert key not in found, f"{key} twice"
            assert sample.labels.keys() - {"le"} == set(METRICS[name].labels), key
            found[key] = sample.value
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(found)
    return found


def scrape(site: Site) -> Found:
    async def asked() -> str:
        async with AsyncClient(site.data) as client:
            return await client.metrics()

    return read(asyncio.run(asked()))


def test_two_sites_at_work_tell_it_and_no_counter_falls(grid: Grid, tmp_path: Path) -> None:
    alpha, beta = grid.add("alpha", 1), grid.add("beta", 2)
    grid.settings(ping_every_s=0.2)
    grid.join()
    grid.start()
    rtt = ("diana_peer_round_trip_seconds", "site=beta")
    until(lambda: rtt in scrape(alpha), "a round trip was measured", every_s=0.5)
    before = scrape(alpha)
    with alpha.client() as client:
        job = {"group": {"command": ["sh", "-c", "exit $((DIANA_INDEX == 0))"]}, "sweep": {"array": "0-29"}}
        assert client.wait(client.submit(job).group, timeout_s=60).state == "failed"
        client.submit({"group": {"command": ["sleep", "600"], "sites": ["beta"]}, "sweep": {"array": "1-5"}})
        until(lambda: client.status()[-1].running == 2, "two run at beta")
    busy = until(lambda: found if (found := scrape(beta))["diana_jobs", "state=running"] == 2 else None, "they show")
    assert busy["diana_slots_free",] == 0 and busy["diana_jobs_started_total",] >= 2

    # The first scrape after a second is a fresh one.
    until(
        lambda: scrape(alpha)["diana_placed_jobs", "site=beta"] == 5,
        "what beta has of alpha's shows at alpha",
        every_s=0.3,
    )
    after = scrape(alpha)
    assert after["diana_results_total", "outcome=done"] == 29 and after["diana_results_total", "outcome=failed"] == 1
    assert after["diana_groups_finished_total", "state=failed"] == 1
    assert (after["diana_groups", "state=open"], after["diana_groups", "state=final"]) == (1, 1)
    assert after["diana_peers", "state=alive"] == 1 and after["diana_peer_slots", "site=beta"] == 2
    assert after["diana_journal_commit_seconds_count",] > before["diana_journal_commit_seconds_count",] > 0
    assert after["diana_client_calls_total", "call=Submit", "decision=allowed"] == 2
    rising = [key for key in before if key[0].endswith(("_total", "_count", "_bucket"))]
    assert len(rising) > 30 and all(after[key] >= before[key] for key in rising)

    elsewhere = {metric.name for metric in TABLES["Machines that only run jobs"]}
    told = {METRICS.get(key[0], METRICS["diana_journal_commit_seconds"]).name for key in after}
    assert set(METRICS) - elsewhere - told <= NOT_YET, "all that a site has is told"

    file = tmp_path / "diana.prom"
    ended = grid.run(alpha, "metrics", "--data", str(alpha.data), "--out", str(file))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert read(file.read_text()).keys() >= after.keys() and [p.name for p in tmp_path.iterdir()] == ["diana.prom"]
    ended = grid.run(alpha, "metrics", "--data", str(alpha.data), "--out", "/nowhere/diana.prom")
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1 and "No such file or directory" in ended.stderr
    if shutil.which("promtool"):
        words = ["promtool", "check", "metrics"]
        checked = subprocess.run(words, input=file.read_text(), text=True, capture_output=True, timeout=60, check=False)
        assert checked.returncode == 0, checked


def test_a_machine_that_only_runs_jobs_tells_of_itself_and_the_nodes_log_is_for_programs(grid: Grid) -> None:
    alpha = grid.add("alpha", 0)
    config = load_config(alpha.paths.config)
    write_config(alpha.paths.config, msgspec.structs.replace(config, zeroconf=False, log_format="json"))
    alpha.start()
    member = add_member(grid, alpha, "m2", slots=3)
    member.start()
    until(lambda: scrape(alpha)["diana_slots",] == 3, "alpha counts the member's slots", every_s=0.3)
    found = scrape(member)
    assert found["diana_member_attached",] == 1 and found["diana_member_slots",] == 3
    assert found["diana_spawner_up",] == 1 and found["diana_certificate_expiry_timestamp_seconds",] > 0
    (about,) = (dict(word.split("=") for word in key[1:]) for key in found if key[0] == "diana_node_info")
    assert (about["role"], about["machine"], about["site"]) == ("member", "m2", "alpha")
    assert not any(key[0].startswith(("diana_groups", "diana_peer")) for key in found)

    with alpha.client() as client:
        client.wait(client.submit({"group": {"command": ["true"]}}).group, timeout_s=60)
    rows = [json.loads(line) for line in alpha.paths.node_log.read_text().splitlines()]
    assert {(row["site"], row["machine"]) for row in rows} == {("alpha", "main")}
    assert any(row["message"].startswith("machine m2 attached with 3 slots") for row in rows)
