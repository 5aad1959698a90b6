"""A site that two machines keep: which of them leads now, asked before anything is said that may be said once only."""

from __future__ import annotations

import time

import grpc
from msgspec.structs import replace

from diana.client.credential import Credential
from diana.client.grpc_parts import Reader, credentials_of, error_from, options_of, path_of, said_by_node, write
from diana.errors import DianaError, Unreachable
from diana.wire.client_messages import Empty

WAIT_S = 3.0
"""For one machine."""
PATIENCE_S = 10.0
"""While one of them says that it follows: most takeovers are over by then."""
PAUSE_S = 0.5


def leading(credential: Credential) -> Credential:
    """`credential` with the address that answers for the site; asked only where there are several. Blocks; Unreachable
    when none does, at once if not even one that follows."""
    if not credential.others:
        return credential
    until_s = time.monotonic() + PATIENCE_S
    while True:
        failed: DianaError | None = None
        follows = False
        for address in (credential.address, *credential.others):
            one = replace(credential, address=address)
            error = _refusal(one)
            known = error_from(error, one) if error is not None else None
            if not isinstance(known, Unreachable):
                return one
            told = said_by_node(error)
            follows = follows or told
            # What a machine says of the other one is worth more than that the other is silent.
            failed = known if told or failed is None else failed
        if not follows or time.monotonic() > until_s:
            assert failed is not None
            raise failed
        time.sleep(PAUSE_S)


def _refusal(credential: Credential) -> grpc.RpcError | None:
    with grpc.secure_channel(credential.address, credentials_of(credential), options_of(credential)) as channel:
        try:
            # Sites, because a standby does answer Info.
            channel.unary_unary(path_of("Sites"), write, Reader("Sites"))(Empty(), timeout=WAIT_S)
        except grpc.RpcError as error:
            return error
    return None
