"""One MPI world over the components of a gang, by MPICH's launcher: this text is run by `python3 -c` within each
component, on machines that need nothing of diana, and uses the standard library alone.

The first component starts `mpiexec -launcher manual`, which prints a line for each: the proxy that starts the processes
there and comes back to it. The others ask the first one for theirs, at the address and with the token that all of the
gang were told. Words: the launcher; processors of each component, with commas between; the command.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Client, Listener

PATIENCE_S = 60.0
LINE, LAST = b"HYDRA_LAUNCH: ", b"HYDRA_LAUNCH_END"
# Each process begins where its component does, with the environment that this one has there.
BEGIN = ["/bin/sh", "-c", 'cd "$DIANA_GANG_FOLDER" && exec "$@"', "sh"]


def main() -> None:
    launcher, counts, command = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
    os.environ["DIANA_GANG_FOLDER"] = os.getcwd()
    host, port = os.environ["DIANA_GANG_HOSTS"].split(",")[0], int(os.environ["DIANA_GANG_PORT"])
    token, rank = os.environ["DIANA_GANG_TOKEN"].encode(), int(os.environ["DIANA_GANG_RANK"])
    if rank:
        words = asked(host, port, token, rank)
        os.execvp(words[0], words)
    # Bound before any other asks, and before the launcher takes ports of its own.
    door = Listener(("", port), backlog=len(counts), authkey=token)
    hosts = ",".join(f"c{at}:{count}" for at, count in enumerate(counts))
    words = [launcher, "-launcher", "manual", "-localhost", host, "-genvnone", "-wdir", "/", "-hosts", hosts]
    words += ["-n", str(sum(map(int, counts))), *BEGIN, *command]
    mpi = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)
    assert mpi.stdout is not None
    lines: list[bytes] = []
    for line in iter(mpi.stdout.readline, b""):
        if line.startswith(LAST):
            break
        if line.startswith(LINE):
            lines.append(line[len(LINE) :].strip())
        else:
            sys.stderr.buffer.write(line)
    if len(lines) != len(counts):
        mpi.kill()
        sys.exit(f"diana: {launcher} told how to start {len(lines)} of {len(counts)} components")
    threading.Thread(target=tell, args=(door, lines), daemon=True).start()
    subprocess.Popen(shlex.split(lines[0].decode()), stdin=subprocess.DEVNULL)
    while chunk := os.read(mpi.stdout.fileno(), 1 << 16):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    code = mpi.wait()
    sys.exit(code if code >= 0 else 128 - code)


def tell(door: Listener, lines: list[bytes]) -> None:
    """Tell each other component its line; whoever does not know the token is told nothing."""
    while True:
        try:
            with door.accept() as one:
                one.send_bytes(lines[int(one.recv_bytes(20))])
        except Exception as fault:
            print(f"diana: a stranger asked for a component: {fault!r}", file=sys.stderr, flush=True)


def asked(host: str, port: int, token: bytes, rank: int) -> list[str]:
    """Return the words of this component's proxy."""
    by_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            with Client((host, port), authkey=token) as first:
                first.send_bytes(b"%d" % rank)
                return shlex.split(first.recv_bytes(1 << 16).decode())
        except (OSError, EOFError) as fault:
            if time.monotonic() > by_s:
                sys.exit(f"diana: the first component cannot be reached at {host}:{port}: {fault}")
            time.sleep(0.2)


if __name__ == "__main__":
    main()
