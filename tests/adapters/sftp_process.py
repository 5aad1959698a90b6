"""An SFTP server in a process: ROOT HOST_KEY USER_KEY.pub PORT (0: any). Says its port, serves ROOT as `/`."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import asyncssh


class _Server(asyncssh.SFTPServer):
    """Files in a folder `locked` are nobody's to read, whoever runs the tests."""

    def stat(self, path: bytes) -> Any:
        if b"/locked/" in path:
            raise asyncssh.SFTPPermissionDenied("locked")
        return super().stat(path)


async def serve(root: str, host_key: str, user_key: str, port: int) -> None:
    def factory(channel: Any) -> asyncssh.SFTPServer:
        return _Server(channel, chroot=os.fsencode(root))

    listening = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[host_key],
        authorized_client_keys=user_key,
        sftp_factory=factory,
        reuse_address=True,
    )
    print(listening.get_port(), flush=True)
    await listening.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
