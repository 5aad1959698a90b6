"""Histories made of a few words: what a site would tell, recorded as `diana history export` records it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from diana.model.ids import GroupId, SiteId
from diana.model.views.past import PastGroup, PastRows, PastSite
from diana.sim.past.merging import load
from diana.sim.past.recording import KnownSite, Owners, Recorded, Recorder
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.link_spec import LinkSpec
from diana.sim.specs.scenario_spec import Scenario

START_S = 1_800_000_000.0
VO = "lab"


class Ran(NamedTuple):
    """A group whose jobs ran one after another job's wait."""

    submit_s: float
    run_s: Sequence[float]
    site: str = "alpha"
    wait_s: float = 0.0
    user: str = "ann@lab"
    outcome: str = "DONE"
    more: Mapping[str, Any] = MappingProxyType({})


def told(
    folder: Path,
    groups: Sequence[Ran],
    home: str = "alpha",
    sites: Sequence[KnownSite] = (KnownSite("alpha", 2, 1.0), KnownSite("beta", 2, 2.0)),
    owners: Owners = "keep",
    start_s: float = START_S,
    datasets: Sequence[DatasetSpec] = (),
    links: Sequence[LinkSpec] = (),
    has: Mapping[str, Any] = MappingProxyType({}),
    hash_places: bool = False,
) -> Recorded:
    slots = next(one.slots for one in sites if one.site == home)
    site = PastSite(site=SiteId(home), slots=slots, speed=1.0, **has)
    with Recorder(folder, site, sites, VO, owners, hash_places=hash_places) as recorder:
        for number, ran in enumerate(groups, 1):
            at_s = start_s + ran.submit_s
            recorder.group(
                PastGroup(
                    group=GroupId(f"{home}-{number}"),
                    owner=ran.user,
                    jobs=len(ran.run_s),
                    submitted_wall_s=at_s,
                    submitted_s=at_s,
                    final=True,
                    processors=1,
                    **ran.more,
                )
            )
            starts = [at_s + ran.wait_s] * len(ran.run_s)
            recorder.rows(
                PastRows(
                    site=SiteId(ran.site),
                    indices=tuple(range(len(starts))),
                    attempts=(1,) * len(starts),
                    outcomes=(ran.outcome,) * len(starts),
                    started_s=tuple(starts),
                    ended_s=tuple(start + run_s for start, run_s in zip(starts, ran.run_s, strict=True)),
                    cpu_s=tuple(ran.run_s),
                    max_rss_bytes=(0,) * len(starts),
                    output_bytes=(0,) * len(starts),
                )
            )
        return recorder.close(links, datasets, {}, {})


def history(folder: Path, groups: Sequence[Ran], **more: Any) -> Scenario:
    told(folder, groups, **more)
    return load(folder)
