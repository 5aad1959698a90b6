"""A site that two machines keep: which of them leads now, asked before anything is said that may be said once only."""

from __future__ import annotations

import grpc
from msgspec.structs import replace

from diana.client.credential import Credential
from diana.client.grpc_parts import Reader, credentials_of, error_from, options_of, path_of, write
from diana.errors import DianaError, Unreachable
from diana.wire.client_messages import Empty

WAIT_S = 3.0


def leading(credential: Credential) -> Credential:
    """`credential` with the address that answers for the site; asked only where there are several. Blocks; Unreachable
    when none does."""
    if not credential.others:
        return credential
    failed: DianaError | None = None
    for address in (credential.address, *credential.others):
        one = replace(credential, address=address)
        with grpc.secure_channel(address, credentials_of(one), options_of(one)) as channel:
            try:
                # Sites, because a standby does answer Info.
                channel.unary_unary(path_of("Sites"), write, Reader("Sites"))(Empty(), timeout=WAIT_S)
            except grpc.RpcError as error:
                failed = error_from(error, one)
                if isinstance(failed, Unreachable):
                    continue
        return one
    assert failed is not None
    raise failed
