"""The Prometheus metrics of a node: read where they stand when somebody asks, kept nowhere (docs/metrics.md)."""

from diana.node.metrics.exposing import CONTENT_TYPE, Metrics

__all__ = ["CONTENT_TYPE", "Metrics"]
