"""A subgroup is handed over and called back at the cost of its ranges, never of its jobs (SPEC J1, D6)."""

from __future__ import annotations

from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.views.views import Ok
from diana.wire import peer_codec
from tests.engine.bench import Grid
from tests.engine.builders import spec


class _Weighed(Grid):
    """Counts what goes from site to site about a transfer."""

    def __init__(self) -> None:
        self.messages = self.message_bytes = 0
        super().__init__(alpha=1, beta=1)
        for number, name in enumerate(("alpha", "beta")):
            # What keeps the slots, so that nothing else starts.
            self["alpha"].submit(spec(4, work_s=1e6, sites=(name,)), 4, number)

    def post(self, sender: SiteId, to: SiteId, message: ms.Message) -> None:
        if hasattr(message, "subgroup") and not isinstance(message, ms.Progress):
            self.messages += 1
            self.message_bytes += len(peer_codec.encode_message(message))
        super().post(sender, to, message)

    def there_and_back(self, jobs: int, indices: IndexSet | None = None) -> tuple[int, int, int]:
        """(messages, their bytes, records) of a group that is moved to beta and home again."""
        alpha, beta = self["alpha"], self["beta"]
        alpha.submit(spec(jobs, work_s=1e6), jobs, 3)
        alpha.move("alpha-3", "alpha", settle=True)
        self.messages = self.message_bytes = 0
        before = len(alpha.stored) + len(beta.stored)
        for to in ("beta", "alpha"):
            answer = alpha.move("alpha-3", to, indices)
            assert isinstance(answer, Ok) and answer.count == (len(indices) if indices else jobs), answer
        return self.messages, self.message_bytes, len(alpha.stored) + len(beta.stored) - before


def test_a_million_jobs_are_handed_over_and_back_like_ten() -> None:
    few = _Weighed().there_and_back(10)
    for jobs in (1_000, 100_000, 1_000_000):
        messages, size_bytes, written = _Weighed().there_and_back(jobs)
        assert (messages, written) == (few[0], few[2])
        assert size_bytes < few[1] + 100


def test_a_set_full_of_holes_costs_some_bytes_a_range() -> None:
    few, ranges = _Weighed().there_and_back(10), 10_000
    messages, size_bytes, _ = _Weighed().there_and_back(2 * ranges, IndexSet(tuple(range(2 * ranges))))
    assert messages == few[0]
    assert size_bytes < 15 * ranges, "told three times: offered, called back, given back"
