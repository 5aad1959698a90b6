"""Named deadlines: at most one per key, the earliest known at once, ties by the text of the key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from diana.engine.site.timers import PartTimer, RequestTimer, SiteTimer, TimerKey, Timers
from diana.model.ids import SubgroupId

A = SubgroupId("alpha-1/0")
COMMIT_A, COMMIT_B = PartTimer("commit", A), PartTimer("commit", SubgroupId("alpha-1/1"))
keys = st.sampled_from(
    [
        COMMIT_A,
        COMMIT_B,
        PartTimer("offer", A),
        SiteTimer("summary"),
        RequestTimer("quotes", 9),
        RequestTimer("quotes", 10),
    ]
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), keys, st.integers(0, 20)),
        st.tuples(st.just("cancel"), keys, st.just(0)),
        st.tuples(st.just("pop"), keys, st.integers(0, 20)),
    ),
    max_size=60,
)


@given(steps)
def test_timers_are_a_dictionary_of_deadlines(script: list[tuple[str, TimerKey, int]]) -> None:
    timers, model = Timers(), dict[TimerKey, float]()
    for what, key, at in script:
        if what == "set":
            timers.set(key, float(at))
            model[key] = float(at)
        elif what == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            due = sorted(((d, k) for k, d in model.items() if d <= at), key=lambda one: (one[0], *map(str, one[1])))
            assert list(timers.pop_due(float(at))) == [k for _, k in due]
            for _, k in due:
                del model[k]
        assert timers.earliest() == min(model.values(), default=None)
        assert all((k in timers) == (k in model) for k in [COMMIT_A, SiteTimer("summary")])


def test_what_is_cancelled_or_moved_by_what_was_due_before_it_is_not_due_any_more() -> None:
    timers = Timers()
    for at in range(4):
        timers.set(RequestTimer("quotes", at), float(at))
    seen = []
    for key in timers.pop_due(9.0):
        seen.append(key)
        timers.cancel(RequestTimer("quotes", 1))
        if key == RequestTimer("quotes", 0):
            timers.set(RequestTimer("quotes", 2), 20.0)
    assert seen == [RequestTimer("quotes", 0), RequestTimer("quotes", 3)] and timers.earliest() == 20.0


def test_a_deadline_that_is_moved_for_ever_takes_no_memory() -> None:
    timers = Timers()
    for n in range(10_000):
        timers.set(COMMIT_A, float(n))
    assert len(timers._heap) < 200
