"""A site at rest holds no arrays: numpy is loaded by the first group, not by the site."""

from __future__ import annotations

import subprocess
import sys

AT_REST = """
import sys
from tests.engine.bench import Grid
from tests.engine.builders import spec

grid = Grid({"binding": "late"}, alpha=4, beta=2, gamma=3)
grid.pass_time(60.0)
assert grid.delivered > 10, "nobody spoke"
assert "numpy" not in sys.modules, "numpy is loaded"
grid["alpha"].submit(spec(), 10)
grid.settle()
assert grid["alpha"].running and "numpy" in sys.modules, "this test shows nothing"
"""


def test_a_site_that_only_hears_its_peers_loads_no_numpy_and_loads_it_with_its_first_group() -> None:
    done = subprocess.run([sys.executable, "-c", AT_REST], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
