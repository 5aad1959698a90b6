"""A probing site as a process of its own, to be killed mid-stream: `python -m tests.contract.link_prober KEYS ADDRESS`.

It fetches the largest probe over and over, several at a time, and says so when the first bytes came.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from diana.adapters.link_probe import MOST_PROBE_BYTES
from diana.wire.pb import data_pb2, data_pb2_grpc
from diana.wire.tls import load_credentials, open_channel


async def fetch(stub: data_pb2_grpc.ProbeStub) -> None:
    while True:
        async for _ in stub.Throughput(data_pb2.ThroughputRequest(size_bytes=MOST_PROBE_BYTES)):
            print("reading", flush=True)


async def main() -> None:
    async with open_channel(sys.argv[2], "alpha", "testvo", load_credentials(Path(sys.argv[1]))) as channel:
        stub = data_pb2_grpc.ProbeStub(channel)  # type: ignore[no-untyped-call]
        await asyncio.gather(*(fetch(stub) for _ in range(8)))


if __name__ == "__main__":
    asyncio.run(main())
