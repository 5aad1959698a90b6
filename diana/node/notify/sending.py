"""One try to tell somebody: a call of a web address whose body is signed, or a mail by the operator's program.

A user's address must not become a way into the operator's network. The name is looked up once, each address it has must
be public, the connection goes to one of those and to no other, and a redirection is not followed.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from diana import __version__
from diana.adapters.trust.reading import certificates_in, key_of
from diana.errors import one_line
from diana.model.job.notices import MAIL
from diana.node.config.site_file import Notifying

CONNECT_S, TRY_S = 5.0, 15.0
"""Seconds for one step of a try, and for the whole of it."""
MAIL_S = 30.0
_MOST_SHOWN = 200
_MOST_SAID = 4096
"""Bytes read of what the program for mail says last."""


class CannotTell(Exception):
    """A try that came to nothing: why. `last`: another one would come to the same."""

    def __init__(self, why: str, *, last: bool = False) -> None:
        super().__init__(why)
        self.last = last


class Notice(NamedTuple):
    """A word about a group: what is said, and to whom."""

    target: str
    name: str
    """Name of the word, the same in each try, by which a receiver knows it again."""
    subject: str
    body: bytes
    """JSON."""


def tell(notice: Notice, notify: Notifying, keys: Path) -> None:
    """Tell it, once. Blocks. CannotTell."""
    if notice.target.startswith(MAIL):
        _mail(notice, notify)
    else:
        _call(notice, notify, keys)


def refusal(target: str, notify: Notifying) -> str:
    """Why this site tells that target nothing, as far as is known without a look at the network; empty: it does."""
    if target.startswith(MAIL):
        return "" if notify.sendmail else "this site sends no mail; its operator names no program (notify.sendmail)"
    host = urlsplit(target).hostname or ""
    with suppress(ValueError):
        return _private(host, [ipaddress.ip_address(host)], notify)
    return _private(host, [ipaddress.ip_address("127.0.0.1")], notify) if host == "localhost" else ""


# --- web addresses -------------------------------------------------------------------------------------------


def _call(notice: Notice, notify: Notifying, keys: Path) -> None:
    parts = urlsplit(notice.target)
    host, port = parts.hostname or "", parts.port or 443
    address = _public_address(host, port, notify)
    try:
        context = ssl.create_default_context(cafile=notify.certificates or None)
    except (OSError, ssl.SSLError) as fault:
        raise CannotTell(f"{notify.certificates}: {fault}") from None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    at = parts.netloc
    try:
        with socket.create_connection((address, port), timeout=CONNECT_S) as plain, plain.dup() as same:
            # Whoever answers a byte a second holds a try no longer than that. TLS takes the first descriptor over.
            clock = threading.Timer(TRY_S, _shut, (same,))
            clock.daemon = True
            clock.start()
            try:
                status = _post(plain, context, host, at, path, notice, keys)
            finally:
                clock.cancel()
    except ssl.SSLError as fault:
        raise CannotTell(f"{host}: {fault.reason or fault}") from None
    except (OSError, http.client.HTTPException) as fault:
        raise CannotTell(f"{host}: {said_by(fault)}") from None
    if 300 <= status < 400:
        raise CannotTell(f"{host}: redirects to another address, which is not followed", last=True)
    if status == 410:
        raise CannotTell(f"{host}: says that it is gone", last=True)
    if not 200 <= status < 300:
        raise CannotTell(f"{host}: answers {status}")


def said_by(fault: Exception) -> str:
    """Return the fault in one line: it may quote the answer."""
    return one_line(str(fault))[:_MOST_SHOWN] or type(fault).__name__


def _post(
    plain: socket.socket, context: ssl.SSLContext, host: str, at: str, path: str, notice: Notice, keys: Path
) -> int:
    with context.wrap_socket(plain, server_hostname=host) as secured:
        connection = http.client.HTTPConnection(at)
        connection.sock = secured
        connection.request(
            "POST",
            path,
            body=notice.body,
            headers={
                "Content-Type": "application/json",
                "User-Agent": f"diana/{__version__}",
                "Diana-Delivery": notice.name,
                **signature(notice.body, keys),
            },
        )
        return connection.getresponse().status


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def signature(body: bytes, keys: Path) -> dict[str, str]:
    """Headers: the site's signature (ECDSA over SHA-256, DER) of the body, and the certificate it is checked with."""
    chain = certificates_in(keys / "site.pem", most=4)
    signed = key_of(keys / "site.key", chain[0]).sign(body, ec.ECDSA(hashes.SHA256()))
    return {
        "Diana-Signature": base64.b64encode(signed).decode(),
        "Diana-Certificate": base64.b64encode(chain[0].public_bytes(Encoding.DER)).decode(),
    }


def _public_address(host: str, port: int, notify: Notifying) -> str:
    """Look the name up, once, and return an address of it. CannotTell."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as fault:
        raise CannotTell(f"{host}: {fault}") from None
    addresses = [str(row[4][0]) for row in found]
    why = _private(host, [ipaddress.ip_address(one.partition("%")[0]) for one in addresses], notify)
    if why or not addresses:
        raise CannotTell(why or f"{host}: has no address")
    return addresses[0]


def _private(host: str, addresses: Sequence[ipaddress.IPv4Address | ipaddress.IPv6Address], notify: Notifying) -> str:
    if host in notify.private_hosts:
        return ""
    for one in addresses:
        inner = _within(one)
        if not (one.is_global and inner.is_global) or one.is_multicast or inner.is_multicast:
            return f"{host}: {one} is no public address; its operator may allow it (notify.private_hosts in site.toml)"
    return ""


_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address of the fourth version that one of the sixth stands for; else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


# --- mail ----------------------------------------------------------------------------------------------------


def _mail(notice: Notice, notify: Notifying) -> None:
    if not notify.sendmail:
        raise CannotTell("no program for mail is named (notify.sendmail)", last=True)
    to = notice.target.removeprefix(MAIL)
    head = [*([f"From: {notify.sender}"] if notify.sender else []), f"To: {to}", f"Subject: {notice.subject}"]
    head += ["Auto-Submitted: auto-generated", f"X-Diana-Delivery: {notice.name}"]
    text = "\n".join([*head, "Content-Type: text/plain; charset=utf-8", "", _lines(notice.body), ""])
    try:
        # A file: whoever reads a pipe keeps all that is said.
        with TemporaryFile() as trouble:
            done = subprocess.run(
                [notify.sendmail, "-i", "--", to],
                input=text.encode(),
                stdout=subprocess.DEVNULL,
                stderr=trouble,
                timeout=MAIL_S,
                check=False,
                env={"PATH": "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/sbin:/bin"},
            )
            trouble.seek(max(0, trouble.seek(0, os.SEEK_END) - _MOST_SAID))
            said = trouble.read(_MOST_SAID).decode(errors="replace").strip().splitlines()
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise CannotTell(f"{notify.sendmail}: {fault}") from None
    if done.returncode:
        last = f": {one_line(said[-1])[:_MOST_SHOWN]}" if said else ""
        raise CannotTell(f"{notify.sendmail}: exit code {done.returncode}{last}")


def _lines(body: bytes) -> str:
    """The fields, a line each."""
    return "\n".join(f"{name}: {value}" for name, value in msgspec.json.decode(body).items())
