"""The register of a site's two machines, kept at another site: the service there and the client here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc

from diana.adapters.grpc.words import told
from diana.errors import Denied, DianaError, Overloaded, Unreachable, UsageError
from diana.model.ids import SiteId
from diana.model.trust.register import Copy, Register
from diana.wire.pb import witness_pb2
from diana.wire.tls import load_credentials, open_channel, peer_identity

ANSWER_S = 3.0

Asked = Callable[[SiteId, int, Register | None], Awaitable[Register | None]]
"""(whose, expected term, wish) -> the register as it is now, durable. Denied, UsageError, Overloaded."""


class WitnessService:
    """Serves `diana.v1.Witness`: each site's machines touch that site's register only, since it is named by the
    certificate they show."""

    def __init__(self, vo: str, asked: Asked) -> None:
        self._vo = vo
        self._asked = asked

    def attach(self, server: grpc.aio.Server) -> None:
        handler = grpc.unary_unary_rpc_method_handler(
            self._touch, witness_pb2.TouchRequest.FromString, witness_pb2.TouchResponse.SerializeToString
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("diana.v1.Witness", {"Touch": handler}),))

    async def _touch(self, request: Any, context: Any) -> Any:
        identity = peer_identity(context)
        if identity.kind != "site" or identity.vo != self._vo:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "only machines of a site of the VO have a register")
        try:
            wish = from_proto(request.register) if request.HasField("register") else None
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        try:
            found = await self._asked(SiteId(identity.name), request.expect_term, wish)
        except Denied as error:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        except UsageError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except (Overloaded, DianaError) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        return witness_pb2.TouchResponse(register=None if found is None else to_proto(found))


class WitnessClient:
    """Asks the witness `site` at whichever of its addresses answers."""

    def __init__(self, site: str, vo: str, keys: Path, addresses: Callable[[], Sequence[str]]) -> None:
        self._site = site
        self._vo = vo
        self._keys = keys
        self._addresses = addresses
        self._open: dict[str, grpc.aio.Channel] = {}
        self.good = ""
        """The address that answered last."""

    async def touch(self, expect_term: int, wish: Register | None) -> Register | None:
        """The register after the question. Unreachable: no answer, and a change may have come to pass all the same."""
        request = witness_pb2.TouchRequest(register=None if wish is None else to_proto(wish), expect_term=expect_term)
        why = "no address of it is known"
        for address in sorted(self._addresses(), key=lambda one: one != self.good):
            try:
                response = await self._ask(address, request)
                self.good = address
                return from_proto(response.register) if response.HasField("register") else None
            except grpc.aio.AioRpcError as error:
                why = f"{address}: {told(error)}"
                # New channel, new look at the keys.
                await self._close(address)
            except (ValueError, OSError, DianaError) as error:
                why = f"{address}: {error}"
        raise Unreachable(f"witness {self._site} does not answer ({why}); check that its node runs")

    async def _ask(self, address: str, request: Any) -> Any:
        channel = self._open.get(address)
        if channel is None:
            channel = self._open[address] = open_channel(address, self._site, self._vo, load_credentials(self._keys))
        call = channel.unary_unary(
            "/diana.v1.Witness/Touch",
            witness_pb2.TouchRequest.SerializeToString,
            witness_pb2.TouchResponse.FromString,
        )
        return await call(request, timeout=ANSWER_S, wait_for_ready=False)

    async def _close(self, address: str) -> None:
        channel = self._open.pop(address, None)
        if channel is not None:
            await channel.close()

    async def close(self) -> None:
        await asyncio.gather(*(self._close(address) for address in list(self._open)), return_exceptions=True)


def to_proto(register: Register) -> Any:
    return witness_pb2.SiteRegister(
        term=register.term,
        leader=register.leader,
        in_sync=[witness_pb2.InSync(machine=c.machine, replica_uuid=c.replica_uuid) for c in register.in_sync],
        forced=register.forced,
    )


def from_proto(message: Any) -> Register:
    """ValueError when it cannot be a register."""
    copies = tuple(Copy(one.machine, one.replica_uuid) for one in message.in_sync)
    if any(not copy.replica_uuid or len(copy.replica_uuid) > 64 for copy in copies):
        raise ValueError("register: a copy without the uuid of its disk, or with one beyond 64 characters")
    return Register(message.term, message.leader, copies, message.forced)
