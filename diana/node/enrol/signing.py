"""Gets a certificate signed: by this site where it is a signer, else by one that is.

The right to it is decided before (`policy/trust/enrolment.py`, invitations); this decides who signs, and for how long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc

from diana import errors
from diana.adapters.trust.authority import Authority, sign_request
from diana.errors import Denied, Unreachable, UsageError
from diana.model.ids import SiteId
from diana.model.trust.identity import Identity
from diana.node.config.site_file import Trust
from diana.node.enrol.signers import SignerBook
from diana.wire.pb import enrol_pb2

ASK_S = 10.0
"""Seconds one signer may take."""
LEARN_S = 2.0
MOST_ASKED = 8
_METHOD = "/diana.v1.Enrol/Sign"

ChannelFor = Callable[[SiteId], "grpc.aio.Channel | None"]


Proof = tuple[bytes, bytes]
"""(certificate chain, its key's signature of the request): a user asked the caller to."""
NO_PROOF = (b"", b"")


class Signing:
    """`peers` names the sites linked now; `channel_for` reaches one. Times of certificates by `wall_s`."""

    def __init__(
        self,
        *,
        keys: Path,
        site: str,
        trust: Trust,
        book: SignerBook,
        channel_for: ChannelFor,
        peers: Callable[[], Iterator[str]],
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._site = site
        self._trust = trust
        self.book = book
        self._channel_for = channel_for
        self._peers = peers
        self._wall_s = wall_s
        self._tries = 0

    @property
    def is_signer(self) -> bool:
        return is_signer(self._keys)

    async def sign(self, wanted: Identity, request: bytes, proof: Proof = NO_PROOF) -> bytes:
        """PEM chain for `wanted` and the key of `request`. Denied when it is no request or the signers refuse,
        Unreachable when none answers."""
        if self.is_signer:
            return await asyncio.to_thread(self.sign_here, wanted, request)
        return await self._ask_around(wanted, request, proof)

    def sign_here(self, wanted: Identity, request: bytes) -> bytes:
        return sign_request(
            Authority.load(self._keys),
            request,
            wanted,
            valid_days=self._trust.user_days if wanted.kind == "user" else self._trust.leaf_days,
            wall_s=self._wall_s(),
        )

    def make_signer(self, wanted: Identity, request: bytes) -> bytes:
        """Chain of a new signer; empty where this site may make none."""
        try:
            return sign_request(Authority.for_signers(self._keys), request, wanted, wall_s=self._wall_s())
        except UsageError:
            return b""

    async def learn_signers(self) -> None:
        """Learn the signers that the sites linked now know. A site that does not answer is left out."""
        channels = [c for site in sorted(self._peers())[:MOST_ASKED] if (c := self._channel_for(SiteId(site)))]
        answers = await asyncio.gather(*(_signers_at(channel) for channel in channels), return_exceptions=True)
        for answer in answers:
            if not isinstance(answer, BaseException):
                await asyncio.to_thread(self.book.learn, ((one.site, one.address) for one in answer.signers))

    async def _ask_around(self, wanted: Identity, request: bytes, proof: Proof) -> bytes:
        signers = list(self.book.all())
        others = [site for site in sorted(self._peers()) if site not in signers]
        # Anybody may have told of signers that are none: who cannot be reached is passed over, and each time another
        # begins, so that in time all are asked.
        asked = [*signers, *others]
        begin = self._tries % max(1, len(asked))
        self._tries += MOST_ASKED
        refusals: list[str] = []
        left = MOST_ASKED
        for site in (*asked[begin:], *asked[:begin]):
            channel = None if site == self._site or not left else self._channel_for(SiteId(site))
            if channel is None:
                continue
            left -= 1
            try:
                return await self._ask(channel, wanted, request, proof)
            except grpc.aio.UsageError:
                # The transport closed it meanwhile; the next try gets another.
                continue
            except grpc.aio.AioRpcError as error:
                if error.code() not in _SILENT:
                    refusals.append(f"{site}: {errors.one_line(error.details() or error.code().name)}")
        if refusals:
            raise Denied(f"{wanted.kind} {wanted.name} was not signed for; {refusals[0]}")
        known = ", ".join(signers) or "none is known"
        raise Unreachable(f"no signer of VO {wanted.vo} answers ({known}); it is tried again")

    async def _ask(self, channel: grpc.aio.Channel, wanted: Identity, request: bytes, proof: Proof) -> bytes:
        call: Any = channel.unary_unary(
            _METHOD,
            request_serializer=enrol_pb2.SignRequest.SerializeToString,
            response_deserializer=enrol_pb2.SignResponse.FromString,
        )
        message = enrol_pb2.SignRequest(
            kind=wanted.kind,
            name=wanted.name,
            request=request,
            wall_s=self._wall_s(),
            certificate=proof[0],
            signature=proof[1],
        )
        answer = await call(message, timeout=ASK_S)
        self.book.learn((one.site, one.address) for one in answer.signers)
        return bytes(answer.certificate)


async def _signers_at(channel: grpc.aio.Channel) -> enrol_pb2.SignersResponse:
    call: Any = channel.unary_unary(
        "/diana.v1.Enrol/Signers",
        request_serializer=enrol_pb2.SignersRequest.SerializeToString,
        response_deserializer=enrol_pb2.SignersResponse.FromString,
    )
    answer: enrol_pb2.SignersResponse = await call(enrol_pb2.SignersRequest(), timeout=LEARN_S)
    return answer


_SILENT = frozenset((grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNIMPLEMENTED))


def is_signer(keys: Path) -> bool:
    return (keys / "signer.key").is_file() and (keys / "signer.pem").is_file()
