"""The client stub: the CLI, notebooks and plug-ins talk to a node with it, local or remote. Calls of the user come in
as methods; requests of `diana.wire.client` go out over the node's unix socket or over gRPC with the user's credential,
and answers come back as values, results in pages. Importing this imports neither asyncio nor grpc; `AsyncClient`,
`GridExecutor` and remote clients bring theirs when used. Read `client.py` first, then `steps.py`, the work that both
clients share.

    from diana.client import Client
    with Client() as client:
        group = client.submit("sweep.toml").group
        print(client.wait(group).state)

    with GridExecutor() as executor:
        print(sum(executor.map(pow, range(1000), range(1000), chunksize=50)))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from diana.client import lean as lean  # Before all that imports msgspec.  # isort: split
from diana.client.client import Client
from diana.client.results import JobResult

if TYPE_CHECKING:
    from diana.client.aio import AsyncClient
    from diana.client.calls.executor import GridExecutor

__all__ = ["AsyncClient", "Client", "GridExecutor", "JobResult"]


def __getattr__(name: str) -> object:
    if name == "AsyncClient":
        from diana.client.aio import AsyncClient

        return AsyncClient
    if name == "GridExecutor":
        from diana.errors import of_extra

        with of_extra("calls", "GridExecutor"):
            from diana.client.calls.executor import GridExecutor
        return GridExecutor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
