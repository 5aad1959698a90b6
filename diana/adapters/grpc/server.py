"""The one gRPC server of a node: TLS, limits and the port, shared by the Peer, Data, Probe and Client services.

Every caller shows a certificate of the VO; what it may then do is each service's question to ask, with
`peer_identity`.
"""

from __future__ import annotations

import errno
import resource
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509

from diana.adapters.grpc.callers import is_loopback
from diana.adapters.listeners import who_listens
from diana.adapters.trust.admission import Admission, Refused
from diana.errors import UsageError
from diana.wire.tls import (
    KEEPALIVE_OPTIONS,
    UNUSED_S,
    Credentials,
    load_credentials,
    out_of_date,
    peer_identity,
    server_credentials,
)

__all__ = ["TAKEN", "PortTaken", "cannot_bind", "make_server", "peer_identity"]

TAKEN = "taken"

MOST_CONNECTIONS = 1024
"""Connections that are open at once, whoever made them: some 75 KiB each."""
DESCRIPTORS_SHARE = 0.5
"""Most of the process's descriptors that connections may take; the rest is for the node's files and its own calls."""
SILENT_S = UNUSED_S + 15.0
"""Seconds after which a connection without a call is ended; our own clients end theirs before."""
HANDSHAKE_S = 20.0
"""Seconds that a caller has to show its certificate."""

_OPTIONS: list[tuple[str, Any]] = [
    *KEEPALIVE_OPTIONS,
    # Two nodes on one port would each get half of the calls: a taken port must be an error.
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", 256),
    # Bulk flows from servers to callers, who do find out their bandwidth. Here that cost an idle node a ping with its
    # answer and two window updates for every other message; what comes in gets a fixed window that fills a wide link.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.max_metadata_size", 16 << 10),
]


def _bounds() -> list[tuple[str, Any]]:
    """Options that bound what connections cost, of callers whom nobody knows yet too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, int(soft * DESCRIPTORS_SHARE))
    return [
        ("grpc.max_allowed_incoming_connections", most),
        ("grpc.max_connection_idle_ms", int(SILENT_S * 1000)),
        ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_S * 1000)),
    ]


class PortTaken(UsageError):
    """The address to listen on is in use."""


def make_server(
    listen: str,
    keys: Path | None,
    distrust: Callable[[bytes], str] | None = None,
    *,
    kind: str = "site",
    extra_roots: Callable[[], Iterable[bytes]] = tuple,
    invited: Callable[[bytes], str] | None = None,
    refused: Refused = lambda *_: None,
) -> tuple[grpc.aio.Server, int]:
    """A server bound to `listen` (host:port; port 0 picks one) but not started, and its port.

    `distrust` is asked of each caller's chain, also of streams that have been open for long (`trust/admission.py`).
    Connections are bounded in number and time.
    `kind` names the files below `keys`, which are looked at again at each handshake. `extra_roots` (PEM) are those of
    open invitations, told to gRPC's threads at each handshake; `invited` says of a certificate why there is no open
    one for it, or nothing. `refused` hears of every call that is turned away.
    Without keys there is no TLS, nobody is identified, and only loopback is served. UsageError for a bad address or
    bad keys, PortTaken for a port in use. Call it inside the event loop that will run the server.
    """
    host, port = _split(listen)
    if distrust is None and (invited or extra_roots is not tuple):
        raise ValueError("invitations need somebody who judges all other callers: give distrust")
    credentials = None
    if keys is None:
        _want_loopback(host)
    else:
        _want_fresh(load_credentials(keys, kind), keys / f"{kind}.pem")
        credentials = server_credentials(keys, kind, extra_roots)
    _want_free(host, port, keys)
    interceptors = [Admission(distrust, invited, refused)] if distrust and keys else []
    server = grpc.aio.server(options=[*_OPTIONS, *_bounds()], interceptors=interceptors)
    try:
        bound = server.add_insecure_port(listen) if credentials is None else server.add_secure_port(listen, credentials)
    except RuntimeError:
        bound = 0
    if not bound:
        raise PortTaken(taken(host, port, keys and keys.parent))
    return server, bound


def taken(host: str, port: int, data: Path | None) -> str:
    """Return the line for an operator whose port another process has. `data`: the data directory of the node."""
    where = f" in {data / 'site.toml'}" if data else ""
    return f"port {port} on {host} is taken by {who_listens(port)}; stop that, or set listen{where}"


def _split(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"listen = {listen!r}: want HOST:PORT, such as 127.0.0.1:7400")
    return host.strip("[]"), int(port)


def _want_loopback(host: str) -> None:
    if not is_loopback(host):
        raise UsageError(f"listen on {host} without TLS: only loopback is served so; put the site's keys back")


def _want_fresh(credentials: Credentials, file: Path) -> None:
    certificate = x509.load_pem_x509_certificate(credentials.certificate)
    if why := out_of_date(certificate, f"{file}:", time.time()):
        raise UsageError(f"{why}; diana doctor --data {file.parent.parent} says how")


def _want_free(host: str, port: int, keys: Path | None) -> None:
    why = cannot_bind(host, port)
    if why == TAKEN:
        raise PortTaken(taken(host, port, keys and keys.parent))
    if why:
        raise UsageError(f"listen on {host}:{port}: {why}; set listen to an address of this machine")


def cannot_bind(host: str, port: int) -> str:
    """Why a server cannot be bound there just now, `TAKEN` for a port in use; empty: it can. Tried by ourselves: gRPC
    tells every failure alike, and prints to stderr."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return "no such host"
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as trial:
            # A port whose old connections are still fading is free; a listening one is not.
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(address)
            except OSError as error:
                return TAKEN if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return ""
