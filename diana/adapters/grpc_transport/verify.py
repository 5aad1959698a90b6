"""Does a named site answer at an address? A TLS handshake with full verification, and nothing more."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

from diana.model.ids import SiteId
from diana.wire.tls import server_name

VERIFY_WAIT_S = 3.0
MOST_RESOLVED = 4


async def resolved(address: str) -> tuple[str, ...]:
    """The IP:port that host:port stands for now; none where it stands for nothing."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(VERIFY_WAIT_S):
            found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError, TimeoutError):
        return ()
    ips = dict.fromkeys(str(to[0]) for *_, to in found)
    return tuple(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for ip in ips)[:MOST_RESOLVED]


async def verify_site(address: str, site: SiteId, vo: str, keys: Path) -> str:
    """Empty if the holder of this site's certificate answers at host:port within 3 s; else one line why not."""
    host, _, port = address.rpartition(":")
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(keys / "vo.pem")
        context.load_cert_chain(keys / "site.pem", keys / "site.key")
        context.set_alpn_protocols(["h2"])
        async with asyncio.timeout(VERIFY_WAIT_S):
            _, writer = await asyncio.open_connection(
                host.strip("[]"), int(port), ssl=context, server_hostname=server_name(site, vo)
            )
            writer.transport.abort()
    except TimeoutError:
        return "no answer in time"
    except OSError as error:
        # Never empty: asyncio's own reset says nothing at all.
        return error.strerror or str(error) or type(error).__name__
    except ValueError as error:
        return str(error) or "no address"
    return ""
