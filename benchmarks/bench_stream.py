"""Node-to-node streaming on loopback against a plain Python TLS + sha256 file-to-file loop, in the same run (P10).

    python -m benchmarks.bench_stream [--mib 256] [--rounds 3] [--json FILE]

Both sides are two processes with mutual TLS: one reads a file, the other verifies its SHA-256 as it comes, writes it
and makes it durable. What is judged is the ratio of the medians; the rounds alternate. `small` is 2,000 files of 4 KiB
in one stream.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import grpc

from diana.adapters.grpc.server import make_server, peer_identity
from diana.adapters.staging.catalogue.holdings import DataReader
from diana.adapters.staging.stager import FileStager
from diana.adapters.trust.certificates import issue_site, make_vo
from diana.engine.journal.effects import StageIn
from diana.engine.journal.events import Event, StageDone
from diana.model.data import Fetch
from diana.model.ids import SiteId, SubgroupId
from diana.model.layout import DataDir
from diana.model.views.datasets import Dataset
from diana.wire.pb import data_pb2_grpc
from diana.wire.tls import load_credentials, open_channel, server_name

VO = "bench"
CHUNK_BYTES = 1 << 20
SMALL_FILES, SMALL_BYTES = 2000, 4096


def stager(root: Path, site: str, emit: asyncio.Queue[Event], way: grpc.aio.Channel | None) -> FileStager:
    root.mkdir(parents=True, exist_ok=True)
    return FileStager(DataDir(root), SiteId(site), emit.put_nowait, lambda _: way, lambda *_: None)


async def serve(folder: Path) -> None:
    """The sending node: registers both datasets, says its port, serves until its standard input ends."""
    node = stager(folder / "beta", "beta", asyncio.Queue(), None)
    await node.register("big", [folder / "big"])
    await node.register("small", [folder / "small"])
    server, port = make_server("127.0.0.1:0", folder / "keys-beta")
    service = node.service(lambda context: DataReader(*peer_identity(context)[:2]))
    data_pb2_grpc.add_DataServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    await server.start()
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)
    await node.close()


def serve_plain(folder: Path) -> None:
    """The baseline's sender: one connection after the other gets the file's bytes."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "keys-beta" / "vo.pem"))
    context.load_cert_chain(folder / "keys-beta" / "site.pem", folder / "keys-beta" / "site.key")
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            with context.wrap_socket(listener.accept()[0], server_side=True) as peer:
                peer.recv(1)
                with open(folder / "big" / "data", "rb", buffering=0) as file:
                    while chunk := file.read(CHUNK_BYTES):
                        peer.sendall(chunk)
                with suppress(OSError):
                    peer.unwrap()


def plain_connect(folder: Path, port: int) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(folder / "keys-alpha" / "vo.pem"))
    context.load_cert_chain(folder / "keys-alpha" / "site.pem", folder / "keys-alpha" / "site.key")
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname=server_name("beta", VO))


def plain_round(folder: Path, port: int, expected: str) -> float:
    """Seconds for the file with the plain loop."""
    target = folder / "plain-copy"
    digest, buffer = hashlib.sha256(), memoryview(bytearray(CHUNK_BYTES))
    began = time.perf_counter()
    with plain_connect(folder, port) as peer, open(target, "wb", buffering=0) as file:
        peer.sendall(b"g")
        while count := peer.recv_into(buffer):
            digest.update(buffer[:count])
            file.write(buffer[:count])
        os.fsync(file.fileno())
    took_s = time.perf_counter() - began
    if digest.hexdigest() != expected:
        raise SystemExit("the plain loop brought other bytes")
    target.unlink()
    return took_s


async def node_round(folder: Path, port: int, dataset: Dataset) -> float:
    """Seconds for a dataset from node to node, connection included, into an empty cache."""
    root = folder / "alpha"
    events: asyncio.Queue[Event] = asyncio.Queue()
    way = open_channel(f"127.0.0.1:{port}", "beta", VO, load_credentials(folder / "keys-alpha"))
    node = stager(root, "alpha", events, way)
    files = (Fetch(dataset.unit, (SiteId("beta"),)),)
    began = time.perf_counter()
    node.stage_in(StageIn(ticket=1, subgroup=SubgroupId("alpha-1/0"), files=files))
    done = await events.get()
    took_s = time.perf_counter() - began
    if not isinstance(done, StageDone) or done.error or done.bytes_moved < dataset.size_bytes:
        raise SystemExit(f"staging failed: {done}")
    await node.close()
    await way.close()
    shutil.rmtree(root)
    return took_s


def prepare(folder: Path, size_mib: int) -> str:
    """Keys and files; gives the big file's SHA-256."""
    make_vo(VO, folder / "vo")
    for site in ("alpha", "beta"):
        issue_site(folder / "vo", site, folder / f"keys-{site}")
    (folder / "big").mkdir()
    digest = hashlib.sha256()
    with open(folder / "big" / "data", "wb") as file:
        for _ in range(size_mib):
            block = os.urandom(CHUNK_BYTES)
            digest.update(block)
            file.write(block)
    (folder / "small").mkdir()
    for number in range(SMALL_FILES):
        (folder / "small" / f"{number:05}").write_bytes(os.urandom(SMALL_BYTES))
    return digest.hexdigest()


def start(folder: Path, mode: str) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "benchmarks.bench_stream", mode, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


async def measure(folder: Path, size_mib: int, rounds: int) -> dict[str, float]:
    expected = prepare(folder, size_mib)
    index = stager(folder / "index", "beta", asyncio.Queue(), None)
    big = await index.register("big", [folder / "big"])
    small = await index.register("small", [folder / "small"])
    await index.close()
    node, node_port = start(folder, "--serve")
    plain, plain_port = start(folder, "--serve-plain")
    took: dict[str, list[float]] = {"plain": [], "node": [], "small": []}
    try:
        for _ in range(rounds):
            took["plain"].append(await asyncio.to_thread(plain_round, folder, plain_port, expected))
            took["node"].append(await node_round(folder, node_port, big))
            took["small"].append(await node_round(folder, node_port, small))
    finally:
        for process in (node, plain):
            process.terminate()
            process.communicate()
    median = {name: statistics.median(times) for name, times in took.items()}
    return {
        "size_mib": size_mib,
        "rounds": rounds,
        "plain_mib_per_s": size_mib / median["plain"],
        "node_mib_per_s": size_mib / median["node"],
        "ratio": median["plain"] / median["node"],
        "ratio_worst": min(took["plain"]) / max(took["node"]),
        "ratio_best": max(took["plain"]) / min(took["node"]),
        "small_files_per_s": SMALL_FILES / median["small"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--serve-plain", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve))
        return
    if arguments.serve_plain:
        serve_plain(arguments.serve_plain)
        return
    with tempfile.TemporaryDirectory(prefix="diana-bench-", dir=os.environ.get("TMPDIR")) as folder:
        figures = asyncio.run(measure(Path(folder), arguments.mib, arguments.rounds))
    for name, value in figures.items():
        print(f"{name:20} {value:12.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
