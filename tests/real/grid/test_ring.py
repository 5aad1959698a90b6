"""A token goes round the components of a gang at three nodes, from each to the next (`examples/koala/ring.py`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, free_port, outcomes
from tests.real.gangs import SITES

RING = Path(__file__).parents[3] / "examples" / "koala" / "ring.py"

pytestmark = pytest.mark.e2e


def test_a_token_visits_each_component_once_and_comes_back(grid: Grid) -> None:
    for name in SITES:
        grid.add(name, 1)
    grid.join()
    grid.start()
    with grid.sites["alpha"].client() as client:
        # The ranks are not in the order of the sites' names, so that a list of sites is no round.
        around = ("beta", "gamma", "alpha")
        components = [{"site": site, "cpus": 1} for site in around]
        group = client.submit({"group": {"command": [sys.executable, str(RING)]}, "components": components}).group
        assert client.wait(group, timeout_s=90).state == "done", grid.story()
        assert set(outcomes(client, group).values()) == {"done"}
        said = [b"".join(part.data for part in client.logs(f"{group}.{rank}")).decode() for rank in range(3)]
    for rank, text in enumerate(said):
        came = f"rank {rank} of 3 at {around[rank]}: the token came from rank {(rank - 1) % 3} at {around[rank - 1]}\n"
        assert text.startswith(came) and text.count("the token came") == 1, said
    assert re.search(r"^round beta gamma alpha in \d+\.\d{3} s\n\Z", said[0], re.MULTILINE), said


def ring(program: Path, rank: int, port: int, token: str) -> subprocess.Popen[str]:
    told = {"SIZE": 3, "RANK": rank, "PORT": port, "TOKEN": token, "HOSTS": ",".join(["127.0.0.1"] * 3)}
    environment = {f"DIANA_GANG_{name}": str(value) for name, value in told.items()}
    return subprocess.Popen(
        [sys.executable, program],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_who_does_not_know_the_secret_is_named_and_no_neighbour_is_waited_for_without_end(tmp_path: Path) -> None:
    # Its patience is shorter here, and nothing else.
    quick = tmp_path / "ring.py"
    quick.write_text(RING.read_text().replace("PATIENCE_S = 30.0", "PATIENCE_S = 3.0"))
    port = free_port()
    first, liar = ring(quick, 0, port, "secret"), ring(quick, 1, port, "guess")
    said = [(*one.communicate(timeout=60), one.returncode) for one in (first, liar)]
    assert said[0] == ("", "ring: rank 0: not all others came within 3 s: not rank 1, 2\n", 1)
    assert said[1] == ("", "ring: rank 1: somebody who does not know the secret answers in a neighbour's place\n", 1)
    done = subprocess.run([sys.executable, RING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1) and "run it as a gang" in done.stderr
