"""A token goes once round all components of a gang, from site to site: the smallest program that needs its peers.

    diana submit --wait --components 3x1 -- python3 "$PWD/examples/koala/ring.py"

With a number behind it each component keeps the token for so many seconds.

Only one port is known to be free, that of the first component. So each opens one of its own and tells the first, which
tells everyone the address of the next; then each hands the token to the next, and the first has it back from the last.
Who does not know the gang's secret is not listened to. Only Python is needed.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener

PATIENCE_S = 30.0
"""Seconds for which another component is waited for."""
EVERYWHERE = "0.0.0.0"


class Silent(Exception):
    """Another component did not answer in time."""


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """Silent with this text if it takes longer, whatever it is that waits."""

    def over(*_: object) -> None:
        raise Silent(f"{what} within {seconds:g} s")

    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def say(to: Connection, what: object) -> None:
    to.send_bytes(json.dumps(what).encode())


def hear(of: Connection) -> list:
    return json.loads(of.recv_bytes())


def dialled(host: str, port: int, secret: bytes) -> Connection:
    """Return a connection to who listens there, as soon as somebody does."""
    while True:
        try:
            return Client((host, port), authkey=secret)
        except (OSError, EOFError):
            time.sleep(0.1)


def accepted(ear: Listener) -> Connection:
    """Return a connection from the next one who comes and knows the secret."""
    while True:
        try:
            return ear.accept()
        except (AuthenticationError, OSError, EOFError):
            continue


class Ring:
    """The neighbours of a component: it hears the one before it, and tells the one behind it."""

    def __init__(self, rank: int, hosts: list[str], port: int, secret: bytes) -> None:
        self.rank, self.size = rank, len(hosts)
        self._behind, self._before = (rank + 1) % self.size, (rank - 1) % self.size
        with Listener((EVERYWHERE, 0), authkey=secret) as ear:
            ports = self._ports(hosts[0], port, ear.address[1], secret)

            def dial() -> Connection:
                with within(PATIENCE_S, f"rank {self._behind} at {hosts[self._behind]} did not answer"):
                    return dialled(hosts[self._behind], ports[self._behind], secret)

            def accept() -> Connection:
                with within(PATIENCE_S, f"rank {self._before} at {hosts[self._before]} did not come"):
                    return accepted(ear)

            # Were all to dial first, each would wait for an answer of one who dials.
            if rank:
                self.next = dial()
                self.last = accept()
            else:
                self.last = accept()
                self.next = dial()

    def _ports(self, first: str, door: int, own: int, secret: bytes) -> list[int]:
        """Return the ports of all components by rank: the first one hears them, and tells all."""
        if self.rank:
            with within(PATIENCE_S, f"rank 0 at {first} did not answer"):
                to = dialled(first, door, secret)
                say(to, [self.rank, own])
                return hear(to)
        came: dict[int, tuple[int, Connection]] = {}
        with Listener((EVERYWHERE, door), backlog=self.size, authkey=secret) as ear:
            try:
                with within(PATIENCE_S, "not all others came"):
                    while len(came) < self.size - 1:
                        one = accepted(ear)
                        rank, port = hear(one)
                        came[rank] = port, one
            except Silent as error:
                away = [str(rank) for rank in range(1, self.size) if rank not in came]
                raise Silent(f"{error}: not rank {', '.join(away)}") from None
        ports = [own, *(came[rank][0] for rank in range(1, self.size))]
        for _, one in came.values():
            say(one, ports)
        return ports

    def pass_on(self, token: list[str]) -> None:
        say(self.next, token)

    def wait(self, seconds: float) -> list[str]:
        with within(seconds, f"rank {self._before} did not hand the token on"):
            return hear(self.last)


def go_round(ring: Ring, site: str, keep_s: float) -> None:
    """Have the token visit each component once. It carries the names of the sites where it was."""
    me, patience_s = f"rank {ring.rank} of {ring.size} at {site}", PATIENCE_S + keep_s * ring.size
    before = (ring.rank - 1) % ring.size
    began_s = time.monotonic()
    if ring.rank == 0:
        time.sleep(keep_s)
        ring.pass_on([site])
    token = ring.wait(patience_s)
    print(f"{me}: the token came from rank {before} at {token[-1]}", flush=True)
    if ring.rank:
        time.sleep(keep_s)
        ring.pass_on([*token, site])
    else:
        print(f"round {' '.join(token)} in {time.monotonic() - began_s:.3f} s", flush=True)


def main() -> None:
    told = os.environ.get
    try:
        keep_s = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
        rank, size, port = (int(told(f"DIANA_GANG_{name}", "")) for name in ("RANK", "SIZE", "PORT"))
    except ValueError:
        sys.exit("ring: run it as a gang: diana submit --components 3x1 -- python3 ring.py [SECONDS]")
    hosts, secret = told("DIANA_GANG_HOSTS", "").split(","), told("DIANA_GANG_TOKEN", "").encode()
    if size < 2 or not 0 <= keep_s <= 3600:
        sys.exit(f"ring: {size} components keep the token for {keep_s:g} s; want two at least, and 0 to 3600 s")
    try:
        go_round(Ring(rank, hosts, port, secret), told("DIANA_SITE", "?"), keep_s)
    except AuthenticationError:
        sys.exit(f"ring: rank {rank}: somebody who does not know the secret answers in a neighbour's place")
    except (Silent, OSError, EOFError, ValueError) as error:
        sys.exit(f"ring: rank {rank}: {str(error) or 'a neighbour went away'}")


if __name__ == "__main__":
    main()
