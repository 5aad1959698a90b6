"""A machine that two sites invite joins the nearer one, measured over links of unlike length (SPEC D8), with real
nodes behind relays that hold back what they pass on."""

from __future__ import annotations

import re
import socket
import threading
import time
from contextlib import suppress

import pytest

from tests.e2e.grid import Grid, Site, free_port, until
from tests.real.joining import first, invited, joined
from tests.real.members import Machine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


class LongWay:
    """A relay on loopback before a node. All that passes, each way, is held back for `one_way_s`."""

    def __init__(self, to: str, one_way_s: float) -> None:
        host, _, port = to.rpartition(":")
        self._to, self._one_way_s = (host, int(port)), one_way_s
        self._server = socket.create_server(("127.0.0.1", free_port()))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._open = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(self._to)
                self._open += (near, far)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while some := one.recv(1 << 16):
                time.sleep(self._one_way_s)
                other.sendall(some)
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def test_a_lone_machine_joins_the_nearest_of_the_sites_that_invited_it(grid: Grid) -> None:
    alpha = first(grid)
    beta = joined(grid, alpha, "beta")
    beta.start()
    lone = Machine("lone", grid.root / "lone", 0, grid.mark)
    ways = [LongWay(alpha.address, 0.06), LongWay(beta.address, 0.01)]
    try:
        # By name, and by the order of the tokens, alpha would be first.
        tokens = [
            invited(grid, site, "--member", "--at", way.address) for site, way in zip((alpha, beta), ways, strict=True)
        ]
        said = join(grid, alpha, lone, tokens)
        told = re.search(r"^nearest is beta, ([\d.]+) ms; alpha ([\d.]+) ms$", said, re.MULTILINE)
        assert told and 20 <= float(told[1]) < 100 <= float(told[2]), said
        assert "machine lone, member of site beta of " in said
        grid.sites["lone"] = lone
        lone.start()
        until(lambda: "lone" in machines(grid, beta), "beta has it among its machines", 10, 0.5)
        assert "lone" not in machines(grid, alpha)
        lone.terminate()
    finally:
        for way in ways:
            way.close()


def join(grid: Grid, alpha: Site, lone: Machine, tokens: list[str]) -> str:
    words = ("join", tokens[0], "lone", "--or", tokens[1], "--data", str(lone.data), "--slots", "2")
    done = grid.run(alpha, *words, within_s=60.0)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def machines(grid: Grid, site: Site) -> str:
    return grid.run(site, "peers", "--data", str(site.data)).stdout.partition("MACHINE")[2]
