"""Metrics for Prometheus, and the numbers that the page shows."""

import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .model import ServedModel

_BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_RECENT = 1000  # predictions
_SHOWN = (("p50", 0.5), ("p99", 0.99))
_GAUGES = {
    "learned": "Rows learned since the start, replayed ones included.",
    "refused": "Rows of the journal that could not be learned.",
    "backlog": "Rows of the journal that wait to be learned.",
    "version": "The version that learns.",
    "accuracy": "Share of the last 1,000 learned rows that were predicted right before they were learned.",
    "drift": "Distance of the label shares of the last 1,000 learned rows from those of the training rows, 0 to 1.",
    "new_labels": "Share of the last 1,000 learned rows whose label was new.",
}


class Metrics:
    """Counters of a service. Each process has its own."""

    def __init__(self, models: Sequence[ServedModel]):
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "manyclass_requests", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self._latency = Histogram(
            "manyclass_request_seconds", "Time to the response.", ["route"], buckets=_BUCKETS, registry=self.registry
        )
        for name, text in _GAUGES.items():
            gauge = Gauge(f"manyclass_{name}", text, ["model"], registry=self.registry)
            for model in models:
                gauge.labels(model.name).set_function(partial(_gauge, model, name))
        self._children: dict[tuple[str, int], tuple[Any, Any]] = {}  # by route and status: finding them takes a while
        self._seconds: deque[float] = deque(maxlen=_RECENT)
        self._work: deque[Sequence[int]] = deque(maxlen=_RECENT)
        self.n_predicted, self.started = 0, time.time()

    def request(self, route: str, status: int, seconds: float) -> None:
        """Note a response."""
        if (route, status) not in self._children:
            self._children[route, status] = self.requests.labels(route, str(status)), self._latency.labels(route)
        counter, histogram = self._children[route, status]
        counter.inc()
        histogram.observe(seconds)
        if route == "/predict" and status == 200:
            self._seconds.append(seconds)

    def predicted(self, work: Iterable[Sequence[int]]) -> None:
        """Note predictions by the work that they took."""
        for one in work:
            self._work.append(one)
            self.n_predicted += 1

    def text(self) -> bytes:
        """The metrics in the format of Prometheus."""
        return generate_latest(self.registry)

    def summary(self, model: ServedModel) -> dict[str, Any]:
        """The numbers that the page shows."""
        seconds, work = np.array(self._seconds or [np.nan]), np.array(self._work)
        found = {
            "predicted": self.n_predicted,
            "latency_ms": {name: _finite(1e3 * np.quantile(seconds, q)) for name, q in _SHOWN},
            "work": _finite(work[:, 2:].sum(axis=1).mean()) if len(work) else None,
            "seconds": time.time() - self.started,
        }
        return {**found, **numbers_of(model)}


def numbers_of(model: ServedModel) -> dict[str, Any]:
    """What a model has learned, and how well."""
    return {
        "model": model.name,
        "version": model.version,
        "learned": model.n_learned,
        "refused": model.n_refused,
        "backlog": model.backlog,
        "accuracy": _finite(model.recent.accuracy),
        "drift": _finite(model.recent.drift),
        "new_labels": _finite(model.recent.new_labels),
        "unsaved": model.unsaved or None,
        "error": model.error or model.journal.error or None,
    }


def _gauge(model: ServedModel, name: str) -> float:
    value = numbers_of(model)[name]
    return math.nan if value is None else value


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
