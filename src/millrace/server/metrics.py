"""Metrics for Prometheus: the engine as the gateway sees it, and the gateway itself."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millrace.server.principals import OPERATOR
from millrace.server.service import Service

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Measured(Collector):
    """The metrics of one gateway."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.registry = CollectorRegistry()
        self.requests = Histogram(
            "millrace_http_seconds", "How long requests took.", ["method", "route"],
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self.answers = Counter(
            "millrace_http_answers", "Requests by status.", ["method", "route", "status"],
            registry=self.registry,
        )  # fmt: skip
        self.pushed = Counter(
            "millrace_pushed_rows", "Rows taken by push.", ["stream"], registry=self.registry
        )
        self._subscribers = Gauge(
            "millrace_subscribers", "Who follows queries now.", registry=self.registry
        )
        self.registry.register(self)

    def text(self) -> bytes:
        """Spell all metrics."""
        self._subscribers.set(len(self._service.fan_out))
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """Give what is known of the engine."""
        told = self._service.costs.stats(OPERATOR)
        single = {
            "epoch": "The last committed epoch.",
            "rows": "Rows that have come.",
            "results": "Answers that were given.",
            "dead": "Dead letters.",
            "late": "Late rows.",
            "rows_per_second": "Rows a second over the last epochs.",
            "results_per_second": "Answers a second over the last epochs.",
            "queries": "Standing queries.",
            "families": "Families of queries.",
            "state_bytes_in_all": "What runs take, in bytes.",
        }
        for name, words in single.items():
            yield GaugeMetricFamily(f"millrace_{name}", words, value=told[name])
        up = int(self._service.link.up)
        yield GaugeMetricFamily("millrace_engine_up", "Whether the engine is there.", value=up)
        yield _by("millrace_stream_rows_per_second", "Rows a second of a stream.", "stream",
                  told["rows_by_stream"])  # fmt: skip
        yield _by("millrace_watermark_lag_seconds", "How far a watermark is behind.", "stream",
                  told["watermark_lag_seconds"])  # fmt: skip
        yield _by("millrace_sink_lag_epochs", "How many epochs a sink is behind.", "sink",
                  {each["name"]: each["lag_epochs"] for each in told["sinks"]})  # fmt: skip
        yield self._epochs()

    def _epochs(self) -> HistogramMetricFamily:
        seconds = [each.total_seconds for each in list(self._service.costs.epochs)]
        buckets = [(str(most), float(sum(each <= most for each in seconds))) for most in _SECONDS]
        buckets.append(("+Inf", float(len(seconds))))
        words = "How long the last epochs took."
        return HistogramMetricFamily(
            "millrace_epoch_seconds", words, buckets=buckets, sum_value=sum(seconds)
        )


def _by(name: str, words: str, label: str, values: dict[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


class Requests:
    """The requests of a gateway, counted from one look to the next."""

    def __init__(self, measured: Measured, service: Service) -> None:
        self._measured, self._service = measured, service
        self._at, self._count, self._sum = time.monotonic(), 0.0, 0.0

    def since_last(self) -> dict[str, float]:
        """Return how many there were since the last call, at which rate, and their mean time."""
        count = total = 0.0
        for family in self._measured.requests.collect():
            for sample in family.samples:
                count += sample.value if sample.name.endswith("_count") else 0.0
                total += sample.value if sample.name.endswith("_sum") else 0.0
        now, more = time.monotonic(), count - self._count
        told = {
            "requests": more,
            "rate": more / max(now - self._at, 1e-3),
            "seconds": (total - self._sum) / more if more else 0.0,
            "subscribers": float(len(self._service.fan_out)),
        }
        self._at, self._count, self._sum = now, count, total
        return told


class Timing:
    """Measures each request by its route."""

    def __init__(self, app: ASGIApp, measured: Measured) -> None:
        self._app, self._measured = app, measured

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"]
            self._measured.requests.labels(method, route).observe(time.perf_counter() - began)
            self._measured.answers.labels(method, route, str(status)).inc()
