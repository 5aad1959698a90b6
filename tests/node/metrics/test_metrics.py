"""SPEC U6: what a node tells Prometheus is well-formed in both formats, complete in its documentation, and asked for
nothing else by the dashboard and the alerts beside it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from diana.engine.journal import effects as fx
from diana.engine.journal.events import Event
from diana.errors import Overloaded
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.node.config.site_file import parse_config
from diana.node.metrics import exposing, of_node
from diana.node.metrics.exposing import CONTENT_TYPE, Metrics
from diana.node.metrics.names import METRICS, TABLES
from diana.node.metrics.of_engine import engine
from diana.node.metrics.of_machine import machine
from diana.node.metrics.samples import Samples, Timings
from tests.engine.bench import Grid, Site
from tests.engine.builders import spec

REPO = Path(__file__).parents[3]
PROMETHEUS = REPO / "examples" / "prometheus"
RULES = yaml.safe_load((PROMETHEUS / "diana-rules.yml").read_text())["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads((REPO / "examples" / "grafana" / "diana.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]] + [rule["expr"] for rule in RULES]


class Door:
    """A real engine without a node around it."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def request(self, make: Callable[[int], Event]) -> Any:
        self._site.handle(make(91))
        return next(e.body for e in reversed(self._site.trace) if isinstance(e, fx.Reply) and e.request == 91)


def told(open_metrics: bool) -> str:
    grid = Grid(alpha=2, beta=1)
    grid["alpha"].submit(spec(9, work_s=5.0), 9)
    timings = Timings()
    for took_s in (0.0001, 0.002, 0.002, 99.0):
        timings.note(took_s)

    async def more(samples: Samples) -> None:
        samples.timings["diana_journal_commit_seconds"] = timings
        samples.put("diana_node_info", 1, "alpha", "lab", "main", "site", 'a "quoted"\nrelease\\')

    metrics = Metrics((engine(SiteId("alpha"), Door(grid["alpha"])), more))  # type: ignore[arg-type]
    metrics.calls["Info", "allowed"] = 3
    text, kind = asyncio.run(metrics.exposition("application/openmetrics-text;version=1.0.0" if open_metrics else ""))
    assert kind.startswith("application/openmetrics-text" if open_metrics else CONTENT_TYPE)
    return text.decode()


@pytest.mark.parametrize("open_metrics", [False, True])
def test_both_formats_say_the_same_and_are_read_back(open_metrics: bool) -> None:
    read = openmetrics.text_string_to_metric_families if open_metrics else text_string_to_metric_families
    families = {family.name: family for family in read(told(open_metrics))}
    found = {(s.name, *sorted(s.labels.items())): s.value for f in families.values() for s in f.samples}
    assert found["diana_jobs", ("state", "running")] == 2
    assert found["diana_client_calls_total", ("call", "Info"), ("decision", "allowed")] == 3
    assert found["diana_journal_commit_seconds_bucket", ("le", "0.0025")] == 3
    assert found["diana_journal_commit_seconds_count",] == found["diana_journal_commit_seconds_bucket", ("le", "+Inf")]
    assert found["diana_peer_slots", ("site", "beta")] == 1
    assert families["diana_node_info"].samples[0].labels["release"] == 'a "quoted"\nrelease\\'
    if open_metrics:
        assert families["diana_work_ahead_seconds"].unit == "seconds"


def test_every_name_keeps_the_conventions() -> None:
    for metric in METRICS.values():
        assert re.fullmatch(r"diana(_[a-z]+)+", metric.name), metric.name
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name
        assert metric.text[0].isupper() or metric.text[0] in "01(", metric.text
        assert metric.text.endswith("."), metric.text
        assert not {"user", "group", "job", "owner"} & set(metric.labels), metric.name
    assert len(METRICS) == sum(map(len, TABLES.values())) == len({m.removesuffix("_total") for m in METRICS})


def test_the_reference_lists_every_metric_with_its_meaning_and_no_other() -> None:
    text = (REPO / "docs" / "metrics.md").read_text()
    for head, metrics in TABLES.items():
        section = text.partition(f"## {head}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*) \|$", section, flags=re.MULTILINE)
        labels = {metric.name: ", ".join(f"`{label}`" for label in metric.labels) for metric in metrics}
        assert rows == [(m.name, m.kind, labels[m.name], m.text) for m in metrics], head


def test_dashboard_and_alerts_ask_for_metrics_and_labels_that_there_are() -> None:
    asked: set[str] = set()
    for query in QUERIES:
        for name, matchers in re.findall(r"(diana_\w+)(?:\{(.*?)\})?", query):
            metric = METRICS.get(name) or METRICS[re.sub(r"_(bucket|count|sum)$", "", name)]
            asked.add(metric.name)
            used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)) - {"instance"}
            assert used <= set(metric.labels), query
        grouped = {label.strip() for by in re.findall(r"\bby \((.*?)\)", query) for label in by.split(",")}
        known = {label for name in re.findall(r"diana_\w+", query) for label in _labels(name)}
        assert grouped <= known | {"instance", "le"}, query
    assert len(asked) > 50, "the dashboard shows most of what there is"


def _labels(name: str) -> tuple[str, ...]:
    return (METRICS.get(name) or METRICS[re.sub(r"_(bucket|count|sum)$", "", name)]).labels


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    assert DASHBOARD["uid"] and DASHBOARD["title"] and DASHBOARD["schemaVersion"] >= 39
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    for panel in PANELS:
        assert panel["type"] in ("stat", "table", "timeseries") and panel["title"] and panel["targets"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables | {"__rate_interval"}
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            labels = {label for name in re.findall(r"diana_\w+", target["expr"]) for label in _labels(name)}
            assert shown <= labels | {"instance"}, target


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    for rule in RULES:
        assert rule["alert"].startswith("Diana") and rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"] and rule["annotations"]["description"].endswith(".")
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    assert config["rule_files"] == ["diana-rules.yml"]


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not here; the tests above read all of it too")
def test_prometheus_itself_finds_nothing_to_mend() -> None:
    for words, text in (
        (("check", "metrics"), told(False)),
        (("check", "rules", str(PROMETHEUS / "diana-rules.yml")), ""),
        (("check", "config", str(PROMETHEUS / "prometheus.yml")), ""),
    ):
        ended = subprocess.run(
            ["promtool", *words], input=text, text=True, capture_output=True, timeout=60, check=False
        )
        assert ended.returncode == 0, ended


async def test_a_node_that_is_behind_tells_what_it_knows_without_its_engine() -> None:
    class Busy:
        async def request(self, make: Callable[[int], Event]) -> Any:
            raise Overloaded("the node is behind; try again in 0.5 s", 0.5)

    text, _ = await Metrics((engine(SiteId("alpha"), Busy()),)).exposition()  # type: ignore[arg-type]
    samples = [line for line in text.decode().splitlines() if not line.startswith("#")]
    assert samples == ["diana_engine_up 0.0"]


async def test_who_asks_again_at_once_gets_the_same_text_and_the_node_looks_once() -> None:
    looks = 0

    async def count(samples: Samples) -> None:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0.01)
        samples.put("diana_slots", looks)

    metrics = Metrics((count,))
    found = await asyncio.gather(*(metrics.exposition() for _ in range(5)))
    assert looks == 1 and len(set(found)) == 1


HANGING = """
import asyncio, os, sys, threading, time
from pathlib import Path
from types import SimpleNamespace
from diana.model.layout import DataDir
from diana.node.config.site_file import parse_config
from diana.node.metrics import exposing
from diana.node.metrics.of_machine import machine
from diana.node.metrics.of_node import _stager

exposing.PATIENCE_S, exposing.FRESH_S = 0.3, 0.0
paths = DataDir(Path(sys.argv[1]))
paths.spawner.mkdir()
# Who opens it to read waits for a writer, as for a disk that went away.
os.mkfifo(paths.spawner / "lock")
config = parse_config('site = "alpha"\\nvo = "lab"\\n')
moved = SimpleNamespace(received=5, sent=6, by_url=7)
stager = SimpleNamespace(moved=lambda: moved, cached_bytes=lambda: time.sleep(3600))
readers = (machine(config, paths, SimpleNamespace(connected=True)), _stager(stager))

async def scrape():
    metrics = exposing.Metrics(readers)
    for _ in range(2):
        text, _ = await metrics.exposition()
    # What made the text may be on its way out.
    for _ in range(300):
        if threading.active_count() > 3:
            await asyncio.sleep(0.1)
    assert threading.active_count() <= 3, threading.enumerate()
    print(text.decode())

asyncio.run(scrape())
"""


def test_what_hangs_is_left_out_and_holds_up_neither_a_scrape_nor_the_end_of_the_node(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HANGING, str(tmp_path)]
    ended = subprocess.run(argv, text=True, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    told = {line.split("{")[0].split()[0] for line in ended.stdout.splitlines() if not line.startswith("#") and line}
    assert {"diana_node_info", "diana_spawner_up", "diana_process_open_fds", "diana_sent_bytes_total"} <= told
    assert not {"diana_cache_bytes", "diana_disk_free_bytes"} & told


async def test_readers_look_at_once_and_each_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposing, "PATIENCE_S", 0.2)

    story: list[str] = []

    async def hang(samples: Samples) -> None:
        samples.put("diana_slots", 3)
        story.append("hangs")
        try:
            await asyncio.sleep(3600)
        finally:
            story.append("is given up")

    async def tell(samples: Samples) -> None:
        samples.put("diana_drained", 1)
        story.append("tells")

    text, _ = await Metrics((hang, hang, tell)).exposition()
    assert story == ["hangs", "hangs", "tells", "is given up", "is given up"]
    assert b"diana_drained 1.0" in text


async def test_what_took_long_to_sum_up_is_told_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_node, "CACHE_WAIT_S", 0.01)
    there = threading.Event()
    sums: list[int] = []

    def cached_bytes() -> int:
        there.wait(60)
        sums.append(1)
        return 12

    moved = SimpleNamespace(received=1, sent=1, by_url=1)
    read = of_node._stager(SimpleNamespace(moved=lambda: moved, cached_bytes=cached_bytes))  # type: ignore[arg-type]
    found = Samples()
    await read(found)
    assert "diana_cache_bytes" not in found.values
    there.set()
    for _ in range(6000):
        await asyncio.sleep(0.01)
        found = Samples()
        await read(found)
        if "diana_cache_bytes" in found.values:
            break
    assert found.values["diana_cache_bytes"] == [((), 12.0)] and sums == [1]


async def test_the_spawner_s_process_is_told_of_while_it_is_there(tmp_path: Path) -> None:
    paths, config = DataDir(tmp_path), parse_config('site = "alpha"\nvo = "lab"\n')
    paths.spawner.mkdir()
    # A number that somebody else has by now.
    (paths.spawner / "lock").write_text(f"{os.getpid()}\n")
    for connected in (False, True):
        found = Samples()
        await machine(config, paths, SimpleNamespace(connected=connected))(found)  # type: ignore[arg-type]
        assert ("diana_spawner_process_open_fds" in found.values) == connected
        assert "diana_disk_free_bytes" in found.values and "diana_process_open_fds" in found.values


def test_a_node_that_nobody_watches_does_not_load_the_library() -> None:
    code = "import diana.node.app, diana.node.metrics.of_node, sys; print('prometheus_client' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, check=True)
    assert ended.stdout == "False\n"
