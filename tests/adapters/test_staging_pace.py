"""The cap on a site's bytes per second (SPEC U8), and that it may change while streams move."""

from __future__ import annotations

import asyncio

from diana.adapters.staging.transfer.pace import TransferPace


async def took_s(pace: TransferPace, chunks: int) -> float:
    clock = asyncio.get_running_loop().time
    began_s = clock()
    for _ in range(chunks):
        await pace.take(1000)
    return clock() - began_s


async def test_streams_together_keep_to_the_cap_and_a_new_cap_counts_at_once() -> None:
    pace = TransferPace(100_000)
    spent_s = await asyncio.gather(*(took_s(pace, 10) for _ in range(3)))
    assert max(spent_s) >= 0.2
    pace.set(0)
    # More than three minutes under the cap before.
    async with asyncio.timeout(60):
        await took_s(pace, 20_000)
    pace.set(50_000)
    assert await took_s(pace, 20) >= 0.3
