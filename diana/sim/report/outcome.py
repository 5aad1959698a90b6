"""The outcome of a run, as columns: a row per job that was done. Figures and pictures of a comparison are made of it,
whether the engine placed the jobs or a central bound did."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


class JobTimes(NamedTuple):
    """Rows in no particular order; times in seconds since the run began. Jobs of one submission share `user`, `home`
    and `submit_s`."""

    user: Ints
    """Place in `users`."""
    home: Ints
    """Place in `sites`: where it was submitted."""
    site: Ints
    """Place in `sites`: where it ran."""
    processors: Ints
    submit_s: Floats
    start_s: Floats
    """Start of the attempt that was done; its inputs were there."""
    end_s: Floats
    run_s: Floats
    """True run time at speed 1.0, wherever it ran."""
    users: tuple[str, ...]
    sites: tuple[str, ...]
    """All sites of the scenario, in its order."""
    bytes_moved: float
    """Bytes moved between sites: inputs and outputs."""
