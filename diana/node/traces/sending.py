"""Spans on their way to a collector, by the OpenTelemetry SDK: queued, bounded, made and sent in batches by threads of
their own, for which nobody waits. Nothing of it is imported where no collector is named."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from diana import __version__
from diana.engine.journal.effects import Effect
from diana.errors import UsageError
from diana.node.config.site_file import SiteConfig
from diana.node.loop.clock import SiteClock
from diana.threads import in_thread

if TYPE_CHECKING:
    from diana.node.loop.runner import Runner
    from diana.node.traces.spans import Event, Span

EVERY_S = 2.0
"""Spans wait at most so long for others to go with them."""
END_S = 1.0
"""Seconds for what still waits when the node stops."""
BREAK_S = 0.5
"""Seconds for breaking off what did not end by then; twice at most."""
CALL_S = 5.0
MOST_WAITING = 2048
"""Spans that are not sent yet."""

_log = logging.getLogger("diana.traces")


def follow(
    stack: AsyncExitStack, config: SiteConfig, runner: Runner, clock: SiteClock
) -> Callable[[list[Effect]], None] | None:
    """Send traces from now on, where site.toml names a collector; then return what is to be told of effects that have
    left. UsageError where the library is not installed."""
    if not config.traces.endpoint:
        return None
    from diana.node.traces.watching import Watching

    try:
        collector = TraceExporter(config, clock)
    except ImportError as error:
        raise UsageError(
            f"site.toml:traces.endpoint: the library for traces is not installed ({error.name} is missing); "
            "pip install 'diana-grid[traces]', or leave the key out"
        ) from None
    stack.push_async_callback(collector.stop)
    watching = Watching(config.vo, config.site, clock.now_s, runner.group, collector.tell)

    def saw(effects: list[Effect]) -> None:
        try:
            watching.saw(effects)
        except Exception:
            # Who only looks on must not end the node.
            _log.exception("a trace could not be told")

    return saw


class TraceExporter:
    def __init__(self, config: SiteConfig, clock: SiteClock) -> None:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import IdGenerator
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        class Given(IdGenerator):
            """The ids of the span that is made next."""

            trace_id = span_id = 0

            def generate_trace_id(self) -> int:
                return self.trace_id

            def generate_span_id(self) -> int:
                return self.span_id

        self._clock = clock
        self._ids = Given()
        self._endpoint = endpoint = config.traces.endpoint
        self._lock = threading.Lock()
        self._waiting = self._lost = 0
        self._told: SimpleQueue[list[Span] | None] = SimpleQueue()
        # What it has to say of a collector that is away, `_told` says once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter = OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"), timeout=CALL_S)
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource(
                {
                    "service.name": "diana",
                    "service.version": __version__,
                    "service.namespace": config.vo,
                    "service.instance.id": f"{config.site}/{config.machine}",
                    "diana.site": config.site,
                }
            ),
            shutdown_on_exit=False,
            id_generator=self._ids,
        )
        telling: Any = _telling(self._exporter, endpoint, self._gone)
        self._provider.add_span_processor(
            BatchSpanProcessor(telling, max_queue_size=MOST_WAITING, schedule_delay_millis=EVERY_S * 1000)
        )
        self._tracer = self._provider.get_tracer("diana", __version__)
        self._making = threading.Lock()
        self._over = False
        self._maker = threading.Thread(target=self._make_all, name="traces", daemon=True)
        self._maker.start()

    def tell(self, spans: list[Span]) -> None:
        """Tell these; never waits, as spans are made and sent beside the event loop. What finds no room is lost, and
        counted."""
        with self._lock:
            room = MOST_WAITING - self._waiting
            taken, lost = spans[:room], spans[room:]
            self._waiting += len(taken)
            first = bool(lost) and not self._lost
            self._lost += len(lost)
        if first:
            _log.warning(
                "%d spans wait for %s: what finds no room beside them is dropped", MOST_WAITING, self._endpoint
            )
        if taken:
            self._told.put(taken)

    def _gone(self, spans: int) -> None:
        """Count them as waiting no more."""
        with self._lock:
            self._waiting -= spans
            lost = self._lost if self._waiting <= MOST_WAITING // 2 else 0
            self._lost -= lost
        if lost:
            _log.info("%d spans were dropped for lack of room; there is room again", lost)

    def _make_all(self) -> None:
        while (spans := self._told.get()) is not None:
            for span in spans:
                with self._making:
                    self._make_or_drop(span)

    def _make_or_drop(self, span: Span) -> None:
        if self._over:
            # The SDK would drop it without a word, and it would wait for ever.
            self._gone(1)
            return
        try:
            self._make(span)
        except Exception:
            # One that cannot be told is no reason to tell no other.
            _log.exception("a span could not be made")
            self._gone(1)

    def _make(self, span: Span) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context

        self._ids.trace_id, self._ids.span_id = span.trace_id, span.span_id
        around = Context()
        if span.parent_id:
            parent = trace.SpanContext(span.trace_id, span.parent_id, True, trace.TraceFlags(trace.TraceFlags.SAMPLED))
            around = trace.set_span_in_context(trace.NonRecordingSpan(parent), around)
        # Site time counts on from the wall clock at the node's start.
        ahead_s = time.time() - self._clock.now_s()
        made = self._tracer.start_span(
            span.name, around, attributes=span.attributes, start_time=_ns(span.begin_s + ahead_s)
        )
        for event in span.events:
            self._note(made, event, ahead_s)
        if span.fault:
            made.set_status(trace.Status(trace.StatusCode.ERROR, span.fault))
        made.end(_ns(span.end_s + ahead_s))

    def _note(self, made: Any, event: Event, ahead_s: float) -> None:
        made.add_event(event.name, event.attributes, _ns(event.at_s + ahead_s))

    async def stop(self) -> None:
        """Within END_S and three times BREAK_S, whether the collector answers or not."""
        self._told.put(None)
        # The SDK's own shutdown waits for the call that is under way, unless that is broken off first.
        for step, most_s in (
            (self._flush, END_S),
            (self._make_no_more, BREAK_S),
            (self._exporter.shutdown, BREAK_S),
            (self._provider.shutdown, BREAK_S),
        ):
            with suppress(TimeoutError):
                async with asyncio.timeout(most_s):
                    await in_thread(step)

    def _make_no_more(self) -> None:
        with self._making:
            self._over = True

    def _flush(self) -> None:
        self._maker.join()
        self._provider.force_flush()


def _ns(wall_s: float) -> int:
    return round(wall_s * 1e9)


def _telling(exporter: Any, endpoint: str, gone: Callable[[int], None]) -> Any:
    """The exporter, with a line in the log when the collector cannot be reached and when it can again. `gone`: told how
    many spans need no room any more."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Telling(SpanExporter):
        away = False

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            try:
                result: SpanExportResult = exporter.export(spans)
            finally:
                gone(len(spans))
            failed = result is not SpanExportResult.SUCCESS
            if failed and not self.away:
                _log.warning("traces cannot be sent to %s: they are dropped until it answers", endpoint)
            elif self.away and not failed:
                _log.info("traces are sent to %s again", endpoint)
            self.away = failed
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    return Telling()
