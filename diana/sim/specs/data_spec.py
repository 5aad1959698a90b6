"""Datasets of a scenario: those it names, and those that are drawn by how often they are read, how large they are and
where they lie.

All that is drawn is synthetic, and so are its names: ENTRY-synthetic-1, ... The shape is that of what was published:
reads per file at CERN's EOS ("Analysis and workload characterization of the CERN EOS storage system", CHEOPS 2022, doi
10.1145/3503646.3524293: 56 % of the files read once, 12.6 reads in the mean), input files per job and their size as of
ATLAS jobs on NorduGrid in 2011 (6.6 of 338 MB).
"""

from __future__ import annotations

import msgspec


class DataSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Each group of an entry reads one dataset that is drawn, beside its `inputs`; all its jobs read all of it."""

    share: float = 1.0
    """Share of the groups that read a dataset."""
    read_once: float = 0.56
    """Share of the datasets that one group reads."""
    mean_reads: float = 12.6
    """Groups that read a dataset, in the mean; it says how many datasets there are. Those that are read more than once
    follow Zipf's law, reads falling with a power of the rank."""
    locality: float = 0.5
    """Probability that a dataset lies where one of its readers is at home; else where the seed draws, by slots."""
    replicas: int = 1
    """Sites that hold it, drawn by slots beyond the first."""
    mean_files: float = 6.6
    """Mean number of files of a dataset; at least 1, the rest by Poisson."""
    file_bytes: float = 338e6
    """Mean size of a file; those of one dataset are equal."""
    sigma: float = 1.0
    """Standard deviation of the logarithm of that size, which is normal; 0: all the same."""


class DatasetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`files` files named f0, f1, ... of `file_bytes` each."""

    name: str
    """Name by which `inputs` call it."""
    site: str
    """Site where it was registered."""
    files: int = 1
    """Number of files."""
    file_bytes: int = 1_000_000
    """Size of each."""
    replicas: tuple[str, ...] = ()
    """Other sites that hold it too."""
