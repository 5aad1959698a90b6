"""SPEC U6, traces: what two real nodes tell a real collector of one group joins in one trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from diana.node.config.site_file import Traces, load_config
from diana.node.config.text import write_config
from diana.node.traces.spans import span_id, trace_id
from tests.e2e.grid import Grid, timely, until

pytestmark = pytest.mark.e2e


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what comes: (site, span)."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Any]] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._lock = threading.Lock()

    def Export(self, request: Any, context: Any) -> Any:
        with self._lock:
            for resource in request.resource_spans:
                named = {one.key: one.value.string_value for one in resource.resource.attributes}
                spans = [span for scope in resource.scope_spans for span in scope.spans]
                self.spans += [(named["diana.site"], span) for span in spans]
        return trace_service_pb2.ExportTraceServiceResponse()

    def __enter__(self) -> Collector:
        self._server.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.stop(0.5).wait()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        yield made


def traced(grid: Grid, endpoint: str) -> None:
    for site in grid.sites.values():
        config = load_config(site.paths.config)
        write_config(site.paths.config, msgspec.structs.replace(config, traces=Traces(endpoint=endpoint)))


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_a_group_over_two_sites_is_one_trace_with_spans_of_both(
    grid: Grid, collector: Collector, tmp_path: Path
) -> None:
    alpha = grid.add("alpha", 2)
    grid.add("beta", 2)
    grid.join()
    traced(grid, f"http://127.0.0.1:{collector.port}")
    grid.start()
    begun_s = time.time()
    job: dict[str, Any] = {
        "group": {
            "name": "both",
            "command": ["sh", "-c", "sleep 0.3; echo x > out-$DIANA_INDEX; exit $((DIANA_INDEX == 7))"],
        },
        "sweep": {"array": "0-15"},
        "resources": {"work": 0.3},
        "outputs": {"collect": "out-{index}", "to": str(tmp_path / "out")},
    }
    with alpha.client() as client:
        group = client.submit(job).group
        status = client.wait(group, timeout_s=60)
    assert (status.state, status.failed, {share.site for share in status.shares}) == ("failed", 1, {"alpha", "beta"})
    ended_s = time.time()

    def names() -> list[str]:
        return sorted(f"{site}: {span.name}" for site, span in collector.spans)

    wanted = {"alpha: group both", "alpha: part at alpha", "alpha: part at beta", "alpha: run at alpha"}
    wanted |= {"alpha: wait at alpha", "beta: run at beta", "beta: wait at beta"}
    until(lambda: wanted <= set(names()), lambda: str(names()), 15, 0.1)

    spans = {span.span_id: span for _, span in collector.spans}
    assert len(spans) == len(collector.spans), "no span is told twice"
    assert {span.trace_id for span in spans.values()} == {trace_id("alpha-vo", group).to_bytes(16, "big")}
    (root,) = (span for span in spans.values() if not span.parent_span_id)
    assert root.name == "group both" and root.span_id == span_id("alpha-vo", group).to_bytes(8, "big")
    assert root.status.code == 2 and attributes(root)["diana.done"] == 15 and attributes(root)["diana.failed"] == 1
    assert [event.name for event in root.events] == ["placed"] * len(root.events) and root.events
    for site, span in collector.spans:
        parent = spans[span.parent_span_id] if span.parent_span_id else None
        above = "group both" if span.name.startswith("part") else f"part at {site}"
        assert (
            parent is None or parent.name == above or (span.name == "outputs home" and parent.name.startswith("part"))
        )
        begin_s, end_s = span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9
        assert begun_s - 1 < begin_s <= end_s < ended_s + 1, (span.name, begin_s, end_s)
    runs = [span for span in spans.values() if span.name.startswith("run")]
    assert sum(attributes(span)["diana.jobs"] for span in runs) == 16
    assert sum(attributes(span)["diana.failed"] for span in runs) == 1


def test_a_collector_that_is_away_costs_a_line_in_the_log_and_no_wait_at_the_end(grid: Grid) -> None:
    alpha = grid.add("alpha", 1)
    grid.join()
    traced(grid, "http://127.0.0.1:9")
    alpha.start()
    with alpha.client() as client:
        for _ in range(3):
            client.wait(client.submit({"group": {"command": ["true"]}}).group, timeout_s=30)
    begun_s = time.monotonic()
    assert alpha.terminate() == 0
    timely(time.monotonic() - begun_s, 8.0, "its end")
    lines = [line for line in alpha.paths.node_log.read_text().splitlines() if "traces" in line]
    assert len(lines) == 1 and "traces cannot be sent to http://127.0.0.1:9" in lines[0]
