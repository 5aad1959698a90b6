"""A serving site as a process of its own, to be killed: `python -m tests.adapters.staging_server ROOT SITE PORT`.

Says its port on standard output when it serves; port 0 picks one.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.adapters.staging_grid import TestSite


async def main() -> None:
    site = TestSite(sys.argv[2], Path(sys.argv[1]))
    print(await site.serve(int(sys.argv[3])), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
