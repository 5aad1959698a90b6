"""Slots are never given twice, and what is given back is there again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from diana.adapters.lrm.spawner.jobs import SlotPool


@given(
    total=st.integers(0, 8), steps=st.lists(st.tuples(st.sampled_from(["take", "give", "resize"]), st.integers(0, 8)))
)
def test_a_slot_has_one_holder_and_none_is_lost(total: int, steps: list[tuple[str, int]]) -> None:
    slots = SlotPool(total)
    held: list[list[int]] = []
    for what, number in steps:
        if what == "take" and number:
            taken = slots.take(number)
            assert len(taken) in (0, number) and all(slot < slots.total for slot in taken)
            if taken:
                held.append(taken)
        elif what == "give" and held:
            slots.release(held.pop(number % len(held)))
        elif what == "resize":
            slots.resize(number)
        busy = [slot for taken in held for slot in taken]
        assert len(busy) == len(set(busy))
    for taken in held:
        slots.release(taken)
    if slots.total:
        assert slots.take(slots.total) == list(range(slots.total))
