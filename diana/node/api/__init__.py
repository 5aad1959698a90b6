"""The client service, one implementation for both ways in (local socket and gRPC)."""

from diana.node.api.service import Api

__all__ = ["Api"]
