"""Settings of the replicas of a site: the times they wait for each other."""

from __future__ import annotations

import msgspec


class ReplicaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times and limits of a replica. ValueError names the key, the value and the range."""

    lease_s: float = 6.0
    """Length of a leader's lease, counted from its request."""
    margin: float = 0.1
    """Share by which clocks may drift apart: the grantor of a lease waits lease_s * (1 + margin) from the request's
    arrival."""
    beat_s: float = 1.0
    """Seconds after which the leader asks for its lease again."""
    lost_after_s: float = 4.0
    """Seconds of silence after which a follower counts as lost, even if its connection stands."""
    ask_every_s: float = 1.0
    """Seconds after which the witness is asked again."""
    near: int = 10_000
    """Most records a follower may lag behind for the leader to wait for it and take it back."""

    def __post_init__(self) -> None:
        for key, value, low, high in (
            ("lease_s", self.lease_s, 0.05, 300.0),
            ("margin", self.margin, 0.01, 1.0),
            ("beat_s", self.beat_s, 0.001, self.lease_s / 3),
            ("lost_after_s", self.lost_after_s, 2 * self.beat_s, self.lease_s),
            ("ask_every_s", self.ask_every_s, 0.001, self.lease_s),
            ("near", self.near, 0, 10**9),
        ):
            if not low <= value <= high:
                raise ValueError(f"replica settings: {key} = {value}: want {low:g} to {high:g}")

    @property
    def wait_s(self) -> float:
        """Seconds after which a lease granted now has surely ended."""
        return self.lease_s * (1.0 + self.margin)
