"""Peer streams over gRPC: one long-lived stream of envelopes per pair of sites, whichever side can dial."""

from diana.adapters.grpc_transport.link import Counters
from diana.adapters.grpc_transport.transport import GrpcTransport

__all__ = ["Counters", "GrpcTransport"]
