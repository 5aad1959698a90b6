"""SPEC U6: the spans that sites make of one group fit together, each told once, from what real engines record.
`tests/real/people/test_traces.py` shows the same of real nodes and a real collector."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from diana.errors import UsageError
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId
from diana.node.config.site_file import parse_config
from diana.node.traces import watching
from diana.node.traces.sending import TraceExporter, follow
from diana.node.traces.spans import Span, span_id, trace_id
from diana.node.traces.watching import Watching
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.runs import SOAK


def told(grid: Grid, watchers: dict[str, Watching], seen: dict[str, int]) -> None:
    """Spans that left each site since the last look."""
    for name, site in grid.sites.items():
        watchers[name].saw(site.trace[seen.get(name, 0) :])
        seen[name] = len(site.trace)


def watching_all(grid: Grid, spans: list[tuple[str, Span]]) -> dict[str, Watching]:
    def watcher(name: str) -> Watching:
        core = grid[name].engine.core

        def tell(told: list[Span]) -> None:
            spans.extend((name, span) for span in told)

        return Watching("lab", SiteId(name), lambda: core.now, core.state.groups.get, tell)

    return {name: watcher(name) for name in grid.sites}


def test_a_group_its_parts_and_their_runs_are_one_tree_and_what_is_retried_adds_to_it() -> None:
    grid, spans, seen = Grid(alpha=2, beta=4), [], {}
    watchers = watching_all(grid, spans)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(12, work_s=5.0), 12)
    group = next(iter(alpha.engine.core.state.groups))
    grid.settle()
    told(grid, watchers, seen)
    assert not spans, "nothing is told of what is not over"
    grid.pass_time(2.0)
    beta.end(1, Outcome.FAILED)
    grid.finish()
    told(grid, watchers, seen)
    first = {span.span_id: span for _, span in spans}
    assert len(first) == len(spans)
    assert {span.trace_id for span in first.values()} == {trace_id("lab", GroupId(group))}
    (root,) = (span for span in first.values() if not span.parent_id)
    assert root.span_id == span_id("lab", group) and root.fault and root.attributes["diana.failed"] == 1
    for span in first.values():
        assert span.begin_s <= span.end_s and (not span.parent_id or span.parent_id in first)
    by = {(site, span.name) for site, span in spans}
    assert {("alpha", "part at alpha"), ("alpha", "part at beta"), ("alpha", "run at alpha")} <= by
    assert {("beta", "run at beta"), ("beta", "wait at beta")} <= by
    runs = [span for span in first.values() if span.name.startswith("run")]
    assert sum(int(span.attributes["diana.jobs"]) for span in runs) == 12

    alpha.retry(group)
    grid.finish()
    told(grid, watchers, seen)
    again = {span.span_id: span for _, span in spans[len(first) :]}
    assert len(again) == len(spans) - len(first) and not again.keys() & first.keys()
    (later,) = (span for span in again.values() if span.parent_id == root.span_id)
    assert later.attributes["diana.state"] == "done" and not later.fault


def test_parts_are_followed_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_OPEN", 3)
    grid, spans = Grid(alpha=1), []
    watchers = watching_all(grid, spans)
    for number in range(10):
        grid["alpha"].submit(spec(1, work_s=5.0), 1, number)
    told(grid, watchers, {})
    assert len(watchers["alpha"]._open) == 3


def test_ids_differ_between_vos_and_groups_and_are_never_zero() -> None:
    ids = {trace_id(vo, GroupId(f"alpha-{n}")) for vo in ("a", "b") for n in range(50)}
    assert len(ids) == 100 and all(0 < one < 1 << 128 for one in ids)
    assert 0 < span_id("a", "alpha-1") < 1 << 64 and span_id("a", "x", 1) != span_id("a", "x", 2)


def test_a_node_that_is_told_of_no_collector_loads_nothing_and_keeps_nothing() -> None:
    config: Any = parse_config('site = "alpha"\nvo = "lab"\n')
    assert follow(AsyncExitStack(), config, SimpleNamespace(), SimpleNamespace()) is None  # type: ignore[arg-type]
    code = "import diana.node.app, diana.node.traces.sending, sys; print('opentelemetry' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, check=True)
    assert ended.stdout == "False\n"


@pytest.fixture
def silent() -> Iterator[str]:
    """A collector whose machine takes every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def some(count: int) -> list[Span]:
    return [Span("part", 1, number + 1, 0, 1.0, 2.0, {"diana.jobs": 1}) for number in range(count)]


def collector(endpoint: str) -> TraceExporter:
    config: Any = parse_config(f'site = "alpha"\nvo = "lab"\n[traces]\nendpoint = "{endpoint}"\n')
    return TraceExporter(config, SimpleNamespace(now_s=lambda: 5.0))  # type: ignore[arg-type]


def test_a_collector_that_never_answers_holds_up_no_end_of_the_node(silent: str) -> None:
    code = f"""
import asyncio, time
from diana.node.traces import sending
from tests.node.traces.test_traces import collector, some

# Nobody waits for it.
sending.CALL_S = 600.0

async def node():
    made = collector({silent!r})
    # Enough for a batch, which is under way when the node stops.
    made.tell(some(600))
    await asyncio.sleep(0.3)
    print(time.monotonic(), flush=True)
    await made.stop()

asyncio.run(node())
"""
    ended = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, check=True)
    assert not SOAK or time.monotonic() - float(ended.stdout) < 3.0


async def test_what_finds_no_room_is_counted_and_said_once_and_none_is_made_in_the_event_loop(
    silent: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    makers: set[int] = set()
    make = TraceExporter._make

    def noted(collector: TraceExporter, span: Span) -> None:
        makers.add(threading.get_ident())
        # As on a busy machine: the node stops before all are made.
        time.sleep(0.001)
        make(collector, span)

    monkeypatch.setattr(TraceExporter, "_make", noted)
    made = collector(silent)
    for spans in (some(2000), some(100), some(1000)):
        made.tell(spans)
    assert (made._waiting, made._lost) == (2048, 3100 - 2048)
    assert caplog.messages == [f"2048 spans wait for {silent}: what finds no room beside them is dropped"]
    caplog.set_level("INFO")
    await made.stop()
    for _ in range(3000):
        if not made._waiting:
            break
        await asyncio.sleep(0.02)
    assert (made._waiting, made._lost) == (0, 0)
    assert len(makers) == 1 and threading.get_ident() not in makers
    assert "1052 spans were dropped for lack of room; there is room again" in caplog.messages


def test_without_the_library_the_node_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = parse_config('site = "alpha"\nvo = "lab"\n[traces]\nendpoint = "http://127.0.0.1:4317"\n')
    for name in [*sys.modules, "opentelemetry"]:
        if name.partition(".")[0] == "opentelemetry":
            monkeypatch.setitem(sys.modules, name, None)
    nobody: Any = SimpleNamespace()
    with pytest.raises(UsageError) as caught:
        follow(AsyncExitStack(), config, nobody, nobody)
    assert "traces.endpoint: the library for traces is not installed" in str(caught.value)
    assert "\n" not in str(caught.value)
