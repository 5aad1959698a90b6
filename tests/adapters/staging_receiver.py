"""A receiving site as a process of its own, to be killed: `python -m tests.adapters.staging_receiver ROOT SITE PORT`.

The source listens at PORT of loopback and is called beta. What to stage is read as JSON from standard input.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from diana.model.data import Fetch
from diana.model.ids import SiteId
from tests.adapters.staging_grid import TestSite


async def main() -> None:
    site = TestSite(sys.argv[2], Path(sys.argv[1]))
    site.ways[SiteId("beta")] = f"127.0.0.1:{sys.argv[3]}"
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Fetch])
    await site.stage(*wanted)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
