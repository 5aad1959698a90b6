"""A rendezvous as torch.distributed's: the process of rank 0 serves a table at MASTER_ADDR:MASTER_PORT, into which each
process writes and from which each waits for the others. It reads torchrun's variables and nothing of diana's.

    python3 tcp_store.py    # prints what all of the world wrote, by rank
"""

import json
import os
import socket
import socketserver
import threading
import time

PATIENCE_S = 30.0
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MASTER = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


class Store(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("", MASTER[1]), Asked)
        self.table: dict[str, str] = {}
        self.changed = threading.Condition()
        self.left = 0


class Asked(socketserver.StreamRequestHandler):
    """One process: it writes a row, asks for all rows, and says that it has them."""

    def handle(self) -> None:
        store = self.server
        assert isinstance(store, Store)
        key, value = json.loads(self.rfile.readline())
        with store.changed:
            store.table[key] = value
            store.changed.notify_all()
            store.changed.wait_for(lambda: len(store.table) == WORLD, PATIENCE_S)
            self.wfile.write(json.dumps(store.table).encode() + b"\n")
        self.rfile.readline()
        with store.changed:
            store.left += 1
            store.changed.notify_all()


def exchange(value: str) -> dict[str, str]:
    """Write this process's row and return those of all, once they are there."""
    by_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            with socket.create_connection(MASTER, timeout=PATIENCE_S) as way, way.makefile("rw") as lines:
                lines.write(json.dumps([str(RANK), value]) + "\n")
                lines.flush()
                found: dict[str, str] = json.loads(lines.readline())
                lines.write("taken\n")
                lines.flush()
                return found
        except ConnectionRefusedError:
            if time.monotonic() > by_s:
                raise
            time.sleep(0.05)


def main() -> None:
    store = Store() if RANK == 0 else None
    if store is not None:
        threading.Thread(target=store.serve_forever, daemon=True).start()
    own = f"{os.environ['NODE_RANK']}/{os.environ['NNODES']}@{os.environ['DIANA_SITE']}"
    found = exchange(own)
    print(" ".join(found[str(rank)] for rank in range(WORLD)), flush=True)
    if store is not None:
        with store.changed:
            store.changed.wait_for(lambda: store.left == WORLD, PATIENCE_S)


if __name__ == "__main__":
    main()
