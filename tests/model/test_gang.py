"""Gangs as stretches of a group's indices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from diana.model.indexset import IndexSet
from diana.model.job import gang
from diana.model.job.components import components_of
from diana.model.job.spec import GroupSpec

SPECS = st.integers(1, 5).map(lambda count: GroupSpec(argv=("x",), components=components_of(f"{count}x2")))
SOME = st.sets(st.integers(0, 40)).map(IndexSet.of)


@given(SPECS, SOME)
def test_gangs_are_whole_or_ragged_and_nothing_else(spec: GroupSpec, indices: IndexSet) -> None:
    whole = IndexSet.union(gang.members(spec, number) for number in gang.gangs_in(spec, indices))
    ragged = gang.ragged(spec, indices)
    assert whole | ragged == indices and whole.isdisjoint(ragged)
    for index in ragged:
        assert not gang.whole_gangs(spec, IndexSet.of([index])).issubset(indices)
    around = gang.whole_gangs(spec, indices)
    assert indices.issubset(around) and around == IndexSet.of(
        i for i in range(60) if any(i // spec.gang_size == j // spec.gang_size for j in indices)
    )


def test_a_part_runs_by_the_processors_of_its_own_components() -> None:
    spec = GroupSpec(argv=("x",), components=components_of("2x16+1x8@vu"))
    sizes = [gang.of_part(spec, IndexSet.of([index])).resources.processors for index in range(6)]
    assert sizes == [16, 16, 8, 16, 16, 8] and spec.component(5).site == "vu"


def test_each_component_is_told_the_others_and_its_own_place() -> None:
    told = dict(gang.of_rank(gang.met(("a", "b"), 7, "s"), 1, 2))
    assert (told["DIANA_GANG_HOSTS"], told["MASTER_ADDR"], told["MASTER_PORT"]) == ("a,b", "a", "7")
    assert (told["DIANA_GANG_RANK"], told["RANK"], told["WORLD_SIZE"], told["DIANA_GANG_TOKEN"]) == ("1", "1", "2", "s")
