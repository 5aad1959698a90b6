"""The paper's cost model (SPEC D1; papers/diana-bulk-scheduling section IV): three numbers without a common unit.

    network     = losses / bandwidth
    computation = Qi/Pi W5 + Q/Pi W6 + SiteLoad W7
    transfer    = (input + output + executables), each its bytes times that link's network cost

Their raw units do not add, so each is divided by its mean over the candidates (0 where that mean is 0) before they
are weighted and summed. Losses are at least `sites.LEAST_LOSS`, since a link that lost nothing yet would move any
number of bytes for nothing. `raw` leaves the formula as it is, in both.
"""

from __future__ import annotations

import msgspec

from diana.model.arrays import Floats, np
from diana.policy.pricing.grid import Grid
from diana.policy.pricing.turnaround import Weights


class PaperTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The paper's terms at each of S sites; arrays (S,)."""

    network: Floats
    computation: Floats
    transfer: Floats
    cost: Floats
    """Their weighted sum."""


class PaperCost:
    """The costs of one placement, and what has been placed so far: costs are recomputed after each placement."""

    def __init__(self, grid: Grid, weights: Weights, raw: bool, waiting_elsewhere: int = 0) -> None:
        """Begin with nothing placed. `waiting_elsewhere`: jobs waiting at known sites that are not in the grid's
        table."""
        table, demand = grid.table, grid.demand
        self.weights, self.raw = weights, raw
        self.capability: Floats = table.slots * table.speed
        """(S,) Pi: processors times speed."""
        self.queued: Floats = table.queued_jobs.copy()
        self.all_queued = float(table.queued_jobs.sum()) + waiting_elsewhere
        self.load = table.busy_fraction
        losses_per_rate = "losses_per_rate" if raw else "least_losses_per_rate"
        self.to_origin: Floats = getattr(table.link, losses_per_rate)
        self.network: Floats = self.to_origin
        self.moves: Floats | None = None
        """(K, S) network cost of the link each kind of data comes over."""
        if grid.data is not None:
            self.moves = grid.data.of_link(losses_per_rate, table)
            bytes_of = (grid.data.shared + grid.data.own)[:, None] * grid.data.missing
            moved = bytes_of.sum(axis=0)
            mean = (bytes_of * self.moves).sum(axis=0) / np.maximum(moved, 1.0)
            self.network = np.where(moved > 0, mean, self.to_origin)
        self.unreachable = (
            np.zeros(len(table), dtype=bool) if grid.data is None else np.isinf(grid.data.s_per_byte).any(axis=0)
        )
        self.output_bytes, self.executable_bytes = demand.output_bytes, demand.executable_bytes

    def price(self, jobs: int, input_bytes: Floats) -> PaperTerms:
        """Price `jobs` jobs at every site. `input_bytes`: (K, S) bytes that each site still lacks for them; (0, S)
        without data."""
        with np.errstate(divide="ignore", invalid="ignore"):
            computation = (
                self.queued / self.capability * self.weights.queue
                + self.all_queued / self.capability * self.weights.all_queues
                + self.load * self.weights.load
            )
        transfer = (jobs * self.output_bytes + self.executable_bytes) * self.to_origin
        if self.moves is not None:
            transfer = transfer + (input_bytes * self.moves).sum(axis=0)
        network = self.network
        if not self.raw:
            network, computation, transfer = _relative(network), _relative(computation), _relative(transfer)
        cost = (
            network * self.weights.network + computation * self.weights.computation + transfer * self.weights.transfer
        )
        return PaperTerms(network=network, computation=computation, transfer=transfer, cost=cost)

    def placed(self, jobs: int, row: int) -> None:
        """Count `jobs` more jobs as waiting at the site."""
        self.queued[row] += jobs
        self.all_queued += jobs


def _relative(term: Floats) -> Floats:
    """Divide a term by its mean over the candidates where it is finite; 0 where that mean is 0."""
    known = np.isfinite(term)
    mean = float(term[known].mean()) if known.any() else 0.0
    out: Floats = term / mean if mean > 0 else np.where(known, 0.0, term)
    return out
