"""The messages that two machines of one site, leader and standby, exchange over gRPC with each other and their
witness."""

from diana.adapters.replica_link.link import ReplicaLink
from diana.adapters.replica_link.saved import DurableFile
from diana.adapters.replica_link.seeds import SeedFetcher, SeedService
from diana.adapters.replica_link.witness import WitnessClient, WitnessService

__all__ = ["DurableFile", "ReplicaLink", "SeedFetcher", "SeedService", "WitnessClient", "WitnessService"]
