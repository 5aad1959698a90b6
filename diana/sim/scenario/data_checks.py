"""Checks of the datasets of a scenario, and of those that its entries draw."""

from __future__ import annotations

import math

from diana.sim.specs.names import known, unique
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.work_spec import WorkSpec

MOST_FILES = 10**7
"""Most files of a dataset; its catalogue knows each of them by name."""


def check_datasets(scenario: Scenario, names: tuple[str, ...]) -> None:
    """ValueError names the dataset, the key and the range."""
    for dataset in scenario.datasets:
        unique([dataset.site, *dataset.replicas], f"datasets {dataset.name}: site, replicas")
        for site_name in (dataset.site, *dataset.replicas):
            known(site_name, names, f"datasets {dataset.name}: site")
        if not (1 <= dataset.files <= MOST_FILES and 0 <= dataset.file_bytes <= 10**15):
            raise ValueError(
                f"datasets {dataset.name}: files = {dataset.files}, file_bytes = {dataset.file_bytes}: want 1 to "
                f"{MOST_FILES:g}, 0 to 1e+15"
            )


def check_data(work: WorkSpec, sites: int) -> None:
    """ValueError names the key, the value and the mend."""
    spec, at = work.data, f"workload {work.name}: data"
    if spec is None:
        return
    for key in ("forced", "after", "produces", "file_per_job"):
        if getattr(work, key):
            raise ValueError(f"{at} and {key}: which data a group reads is drawn; leave one of the two out")
    for key, low, high in (
        ("share", 0, 1),
        ("read_once", 0, 1),
        ("mean_reads", 1, 1e9),
        ("locality", 0, 1),
        ("replicas", 1, sites),
        ("mean_files", 1, 1e4),
        ("file_bytes", 1, 1e15),
        ("sigma", 0, 5),
    ):
        value = getattr(spec, key)
        if not (math.isfinite(value) and low <= value <= high):
            raise ValueError(f"{at}: {key} = {value}: want {low:g} to {high:g}")
    least = spec.read_once + 2 * (1 - spec.read_once)
    if spec.mean_reads < least - 1e-9:
        raise ValueError(
            f"{at}: mean_reads = {spec.mean_reads:g}: with read_once = {spec.read_once:g} it is {least:g} at least, "
            f"since the others are read twice or more"
        )
