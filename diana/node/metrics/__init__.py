"""What a node tells a Prometheus server: read where it stands when somebody asks, kept nowhere (docs/metrics.md)."""

from diana.node.metrics.exposing import CONTENT_TYPE, Metrics

__all__ = ["CONTENT_TYPE", "Metrics"]
