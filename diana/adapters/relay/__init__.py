"""Tunnels through a neighbour to sites that can only dial out (SPEC D9)."""

from diana.adapters.relay.doors import Doors
from diana.adapters.relay.offering import Offering
from diana.adapters.relay.offers import TunnelOffers
from diana.adapters.relay.service import RelayService

__all__ = ["Doors", "Offering", "RelayService", "TunnelOffers"]
