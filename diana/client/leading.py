"""A site that two machines keep: which of them leads now, asked before anything is said that may be said once only."""

from __future__ import annotations

import time

from msgspec.structs import replace

from diana.client.credential import Credential
from diana.client.grpc_parts import ResponseReader, credentials_of, error_from, grpc, options_of, path_of, write
from diana.errors import DianaError, Unreachable
from diana.wire.client.messages import Empty

WAIT_S = 3.0
"""Seconds for one machine."""
PATIENCE_S = 10.0
"""While one of them says that it follows: most takeovers are over by then."""
PAUSE_S = 0.5


def leading(credential: Credential) -> Credential:
    """`credential` with the address of the machine that leads the site, else of one that says what becomes of it; asked
    only where there are several. Blocks; Unreachable, at once, when none answers."""
    if not credential.others:
        return credential
    until_s = time.monotonic() + PATIENCE_S
    while True:
        failed: DianaError | None = None
        follows: Credential | None = None
        for address in (credential.address, *credential.others):
            one = replace(credential, address=address)
            try:
                if _durability(one):
                    return one
                follows = follows or one
            except Unreachable as error:
                failed = failed or error
            except DianaError:
                # What is wrong is told by the call itself.
                return one
        if follows is None:
            assert failed is not None
            raise failed
        if time.monotonic() > until_s:
            return follows
        time.sleep(PAUSE_S)


def _durability(credential: Credential) -> int:
    """0: the machine does not lead."""
    with grpc.secure_channel(credential.address, credentials_of(credential), options_of(credential)) as channel:
        try:
            info = channel.unary_unary(path_of("Info"), write, ResponseReader("Info"))(Empty(), timeout=WAIT_S)
        except grpc.RpcError as error:
            raise error_from(error, credential) from None
    return int(info.durability)
