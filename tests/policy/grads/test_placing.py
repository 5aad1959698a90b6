"""The search for the machines of a gang, its annealing and the order of its ranks (SPEC G3, G4)."""

from __future__ import annotations

from itertools import combinations

import msgspec

from diana.model.ids import SiteId
from diana.model.job.spec import ComponentSpec
from diana.policy.gang.requests import Component, GangPlacement, Rooms, SiteRoom
from diana.policy.grads.gang_model import GangModel, MachineBlock
from diana.policy.grads.placing import GangChoice, place
from tests.engine.builders import spec

# Machines of 2 GB suit the program, and neither the fastest nor the largest do.
ODD = (("time_s", "component.memory_bytes == 2e9 ? 10.0 : 1000.0"),)


def choice(blocks: list[MachineBlock], components: int, model: tuple[tuple[str, str], ...], anneal: str) -> GangChoice:
    wanted = msgspec.structs.replace(spec(1), components=(ComponentSpec(count=components),), model=model)
    names = sorted({block.site for block in blocks})
    rooms = Rooms([SiteRoom(name, 8, 8, 8) for name in names])
    rtt_s = {frozenset(pair): 0.1 * abs(int(pair[0][1:]) - int(pair[1][1:])) for pair in combinations(names, 2)}
    made = GangModel(
        wanted, {SiteId(name): {} for name in names}, lambda a, b: {"link.rtt_s": rtt_s[frozenset((a, b))]}
    )
    return place([Component(1)] * components, rooms, blocks, made, lambda source, site, size: 0.0, anneal=anneal)


def kinds() -> list[MachineBlock]:
    return [
        MachineBlock("s1/fast", "s1", 9.0, 1e9, 1, 1),
        MachineBlock("s1/large", "s1", 1.0, 9e9, 1, 1),
        MachineBlock("s1/both", "s1", 5.0, 5e9, 1, 1),
        MachineBlock("s1/odd", "s1", 2.0, 2e9, 1, 1),
    ]


def test_annealing_finds_machines_that_no_affinity_leads_to() -> None:
    aware, cooled = choice(kinds(), 1, ODD, ""), choice(kinds(), 1, ODD, "seed")
    assert aware.prediction.seconds == 1000.0 and cooled.prediction.seconds == 10.0
    assert aware.models <= aware.most_models < cooled.most_models
    assert aware.models < cooled.models <= cooled.most_models
    assert choice(kinds(), 1, ODD, "seed") == cooled, "the same seed finds the same"


def test_components_of_a_site_have_ranks_in_a_row_and_near_sites_follow_each_other() -> None:
    blocks = [MachineBlock(f"s{n}/{at}", f"s{n}", 3.0 - at, 1e9, 1, 1) for at in range(2) for n in (1, 3, 2)]
    found = choice(blocks, 6, (("time_s", "component.share + 1.0"),), "").placement
    assert isinstance(found, GangPlacement)
    placed = [part.site for part in sorted(found.parts, key=lambda part: part.component)]
    assert placed in (["s1", "s1", "s2", "s2", "s3", "s3"], ["s3", "s3", "s2", "s2", "s1", "s1"])


def test_components_that_are_unlike_keep_their_machines() -> None:
    blocks = [MachineBlock("s1/a", "s1", 9.0, 1e9, 1, 1), MachineBlock("s2/a", "s2", 1.0, 1e9, 2, 2)]
    wanted = msgspec.structs.replace(
        spec(1),
        components=(ComponentSpec(count=1, processors=2), ComponentSpec(count=1)),
        model=(("time_s", "component.share + 1.0"),),
    )
    made = GangModel(wanted, {SiteId("s1"): {}, SiteId("s2"): {}}, lambda a, b: {"link.rtt_s": 0.1})
    rooms = Rooms([SiteRoom("s1", 1, 1, 1), SiteRoom("s2", 2, 2, 2)])
    found = place([Component(2), Component(1)], rooms, blocks, made, lambda source, site, size: 0.0)
    assert isinstance(found.placement, GangPlacement)
    assert {part.component: part.site for part in found.placement.parts} == {0: "s2", 1: "s1"}
