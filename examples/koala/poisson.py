"""The Poisson equation on a square, by processes at several sites that need each other at each step: a small twin of
the solver of KOALA's communication-aware paper.

    diana submit --components 2x1 -- python3 "$PWD/examples/koala/poisson.py" 48
    python3 examples/koala/poisson.py 48        # the same answer, by one process

Each process has some rows of the square, and tells its neighbours the rows at its edges; red points change first, then
black ones, so that an answer is the same to the last bit however many processes there are. Only Python is needed.
"""

import hashlib
import os
import sys
import time
from array import array
from math import pi, sin
from multiprocessing.connection import Client, Connection, Listener

PATIENCE_S = 60.0
TOLERANCE = 1e-9
LOOK_EVERY = 10
"""Steps between two questions whether all points are still enough."""
Rows = dict[int, array]


class Gang:
    """The other processes: neighbours by rank, and the first process for what concerns all. What they say is trusted
    once it shows the gang's token."""

    def __init__(self) -> None:
        told = os.environ.get
        self.rank, self.size = int(told("DIANA_GANG_RANK", "0")), int(told("DIANA_GANG_SIZE", "1"))
        self.hosts = told("DIANA_GANG_HOSTS", "127.0.0.1").split(",")
        self._token = told("DIANA_GANG_TOKEN", "").encode()
        self.before: Connection | None = None
        """The process with the rows before ours."""
        self.behind: Connection | None = None
        self._first: Connection | None = None
        self._others: list[Connection] = []
        """Those the first process hears, by rank."""
        if self.size > 1:
            self._meet(int(told("DIANA_GANG_PORT", "0")))

    def _meet(self, port: int) -> None:
        ear = Listener(("0.0.0.0", 0), authkey=self._token)
        if self.rank:
            self._first = self._dial(self.hosts[0], port)
            self._first.send((self.rank, ear.address[1]))
            ports = self._first.recv()
        else:
            with Listener(("0.0.0.0", port), backlog=self.size, authkey=self._token) as door:
                came = [door.accept() for _ in range(self.size - 1)]
            met = sorted((one.recv(), at) for at, one in enumerate(came))
            self._others = [came[at] for _, at in met]
            ports = [ear.address[1], *(port for (_, port), _ in met)]
            for one in self._others:
                one.send(ports)
        # Everyone dials the process before it, then hears the one behind it.
        if self.rank:
            self.before = self._dial(self.hosts[self.rank - 1], ports[self.rank - 1])
        if self.rank + 1 < self.size:
            self.behind = ear.accept()
        ear.close()

    def _dial(self, host: str, port: int) -> Connection:
        by_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return Client((host, port), authkey=self._token)
            except (ConnectionError, EOFError, OSError):
                if time.monotonic() > by_s:
                    raise
                time.sleep(0.1)

    def largest(self, value: float) -> float:
        """Return the largest of what all processes say."""
        if self._first is not None:
            self._first.send(value)
            return self._first.recv()
        value = max(value, *(one.recv() for one in self._others)) if self._others else value
        for one in self._others:
            one.send(value)
        return value

    def gathered(self, rows: Rows) -> Rows:
        """Return the rows of all processes, at the first one."""
        if self._first is not None:
            self._first.send(rows)
            return rows
        for one in self._others:
            rows = rows | one.recv()
        return rows


def swap(gang: Gang, rows: Rows, first: int, last: int) -> None:
    """Tell the neighbours our edges, and take theirs."""
    for neighbour, mine in ((gang.before, first), (gang.behind, last)):
        if neighbour is not None:
            neighbour.send_bytes(rows[mine].tobytes())
    for neighbour, theirs in ((gang.before, first - 1), (gang.behind, last + 1)):
        if neighbour is not None:
            rows[theirs] = array("d", neighbour.recv_bytes())


def relax(rows: Rows, first: int, last: int, colour: int, points: int, weight: float) -> float:
    """Move the points of one colour of our rows; return the largest move."""
    step, most = 1.0 / (points + 1), 0.0
    for i in range(first, last + 1):
        above, row, below = rows[i - 1], rows[i], rows[i + 1]
        for j in range(1 + (i + colour) % 2, points + 1, 2):
            source = 2 * pi * pi * sin(pi * i * step) * sin(pi * j * step) * step * step
            move = weight * (0.25 * (above[j] + below[j] + row[j - 1] + row[j + 1] + source) - row[j])
            row[j] += move
            most = max(most, abs(move))
    return most


def solve(gang: Gang, points: int) -> tuple[Rows, int]:
    """Return the rows and the number of steps."""
    first, last = 1 + points * gang.rank // gang.size, points * (gang.rank + 1) // gang.size
    rows = {i: array("d", [0.0] * (points + 2)) for i in range(first - 1, last + 2)}
    weight, steps = 2.0 / (1.0 + sin(pi / (points + 1))), 0
    while True:
        most = 0.0
        for colour in (0, 1):
            swap(gang, rows, first, last)
            most = max(most, relax(rows, first, last, colour, points, weight))
        steps += 1
        if steps % LOOK_EVERY == 0 and gang.largest(most) < TOLERANCE:
            return gang.gathered({i: rows[i] for i in range(first, last + 1)}), steps


def main() -> None:
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 48
    gang = Gang()
    if gang.size > points:
        sys.exit(f"poisson: {gang.size} processes for {points} rows; want one row each at least")
    began_s = time.monotonic()
    rows, steps = solve(gang, points)
    site = os.environ.get("DIANA_SITE", "here")
    print(
        f"process {gang.rank} of {gang.size} at {site}: {steps} steps in {time.monotonic() - began_s:.2f} s", flush=True
    )
    if gang.rank == 0:
        step = 1.0 / (points + 1)
        off = max(abs(rows[i][j] - sin(pi * i * step) * sin(pi * j * step)) for i in rows for j in range(1, points + 1))
        answer = hashlib.sha256(b"".join(rows[i].tobytes() for i in sorted(rows))).hexdigest()
        print(f"answer {answer}, {off:.2e} from the exact solution")


if __name__ == "__main__":
    main()
