"""Servers on loopback for URLs: HTTP that stalls, breaks off and lies on request; SFTP and S3 in processes."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import asyncssh


@dataclass
class Page:
    """One file of the HTTP server, and how it misbehaves."""

    content: bytes
    etag: str = '"1"'
    ranges: bool = True
    status: int = 200
    head_status: int = 200
    breaks_after: list[int] = field(default_factory=list)
    """For each coming GET: bytes after which the connection is cut; when used up, none is."""
    stalls_after: int = -1
    """Nothing comes of what lies behind so many bytes; -1: all does."""
    then: Page | None = None
    """Stands in its place once a GET has begun."""
    delay_s: float = 0.0
    """Before any answer."""
    sized: bool = True
    location: str = ""


class HttpServer:
    """Threads on a free port; `pages` by path, `asked` what came in: (method, path, Range header)."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.stop = threading.Event()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.port = self._server.server_address[1]

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def put(self, path: str, content: bytes, **how: Any) -> str:
        self.pages[path] = Page(content, **how)
        return self.url(path)

    def gets(self) -> list[tuple[str, str, str]]:
        return [asked for asked in self.asked if asked[0] == "GET"]

    def close(self) -> None:
        self.stop.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    owner: HttpServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        return

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        with self.owner.lock:
            self.owner.at_once += 1
            self.owner.most_at_once = max(self.owner.most_at_once, self.owner.at_once)
        try:
            self._answer(body=True)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with self.owner.lock:
                self.owner.at_once -= 1

    def _answer(self, *, body: bool) -> None:
        owner = self.owner
        asked_range = self.headers.get("Range", "")
        owner.asked.append((self.command, self.path, asked_range))
        owner.headers.append(dict(self.headers.items()))
        page = owner.pages.get(self.path)
        if page is not None:
            owner.stop.wait(page.delay_s)
        status = 404 if page is None else page.status if body else max(page.status, page.head_status)
        if page is None or status != 200:
            self.send_response(status)
            if page is not None and page.location:
                self.send_header("Location", page.location)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content, first = page.content, 0
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", asked_range)
        if found and page.ranges:
            first = int(found[1])
            if first >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = content[first : int(found[2]) + 1 if found[2] else None]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{first + len(content) - 1}/{len(page.content)}")
        else:
            self.send_response(200)
        if page.sized:
            self.send_header("Content-Length", str(len(content)))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        if page.etag:
            self.send_header("ETag", page.etag)
        self.end_headers()
        if body:
            self._send(page, content, first)

    def _send(self, page: Page, content: bytes, first: int) -> None:
        if page.then is not None:
            self.owner.pages[self.path] = page.then
        if page.breaks_after:
            self.wfile.write(content[: page.breaks_after.pop(0)])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if page.stalls_after >= 0:
            self.wfile.write(content[: max(0, page.stalls_after - first)])
            self.wfile.flush()
            self.owner.stop.wait(30.0)
            self.close_connection = True
            return
        self.wfile.write(content)


class SftpServer:
    """A process that serves `root` as `/`; `home` is its clients', with their key and known_hosts."""

    def __init__(self, root: Path, home: Path, *, known: bool = True) -> None:
        self.root, self.home = root, home
        root.mkdir(parents=True, exist_ok=True)
        ssh = home / ".ssh"
        ssh.mkdir(parents=True, mode=0o700)
        host_key, user_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        self._host_key = home / "host_key"
        host_key.write_private_key(self._host_key)
        user_key.write_private_key(ssh / "id_ed25519")
        user_key.write_public_key(ssh / "id_ed25519.pub")
        self.port = 0
        self.start()
        line = host_key.export_public_key().decode().strip()
        (ssh / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {line}\n" if known else "")

    def url(self, path: str) -> str:
        return f"sftp://127.0.0.1:{self.port}{path}"

    def start(self) -> None:
        """On the port it had before, if it had one."""
        keys = [str(self._host_key), str(self.home / ".ssh/id_ed25519.pub")]
        words = [sys.executable, "-m", "tests.adapters.sftp_process", str(self.root), *keys, str(self.port)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def pause(self) -> None:
        """It hears nothing any more, and its connections stand."""
        self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def s3_server() -> Iterator[str]:
    """An S3 store in a process of its own; gives its endpoint."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    endpoint = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 60.0
        while True:
            try:
                urllib.request.urlopen(f"{endpoint}/moto-api/", timeout=1.0).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < end, "the S3 server does not come up"
                time.sleep(0.05)
        yield endpoint
    finally:
        process.kill()
        process.wait()


def s3_environment(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class S3:
    """A test's own changes to the store, behind diana's back."""

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.endpoint = endpoint
        self.client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )

    def bucket(self, name: str) -> str:
        self.client.create_bucket(Bucket=name)
        return name

    def put(self, bucket: str, key: str, content: bytes) -> str:
        self.client.put_object(Bucket=bucket, Key=key, Body=content)
        return f"s3://{bucket}/{key}"

    def get(self, bucket: str, key: str) -> bytes:
        body: bytes = self.client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    def keys(self, bucket: str) -> list[str]:
        return sorted(each["Key"] for each in self.client.list_objects_v2(Bucket=bucket).get("Contents", ()))
