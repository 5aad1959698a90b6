"""Resources by name: one predicate says what a machine lacks for a job, and one arithmetic counts what is left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.job import declared, resources
from diana.model.job.resources import ResourceOffer, ResourceRequest, fits, how_many, lacking, of
from diana.model.job.spec import GroupSpec, Resources

NAMES = ["gpus", "memory_bytes", "scratch_bytes", "licence:matlab", "fpga", "tape"]
COUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 6))
ABLE = st.lists(st.sampled_from(["containers", "module gcc/12", "mpi"]), unique=True).map(
    lambda some: tuple(sorted(some))
)
REQUESTS = st.builds(ResourceRequest, st.integers(1, 6), COUNTS.map(of), ABLE)
OFFERS = st.builds(
    ResourceOffer, st.integers(0, 6), COUNTS.map(lambda counts: dict(of(counts))), ABLE, st.sampled_from([0, 0, 12])
)


def would_run(request: ResourceRequest, offer: ResourceOffer) -> bool:
    """The rules, one by one, as a machine would find them."""
    pieces = {name for name, _ in request.amounts} & {"gpus", "fpga", "tape"}
    over_several = "mpi" in request.capabilities and not pieces and offer.spread > 0
    if request.processors > (offer.spread if over_several else offer.processors):
        return False
    for name, wanted in request.amounts:
        if name in ("memory_bytes", "scratch_bytes") and name not in offer.most:
            continue
        each = -(-wanted // request.processors) if name == "memory_bytes" and over_several else wanted
        if each > offer.most.get(name, 0):
            return False
    return set(request.capabilities) <= set(offer.capabilities)


@given(REQUESTS, OFFERS)
def test_nothing_lacks_just_where_a_job_would_run(request: ResourceRequest, offer: ResourceOffer) -> None:
    assert fits(request, offer) == (not lacking(request, offer)) == would_run(request, offer)


@given(REQUESTS, OFFERS)
def test_a_job_that_is_changed_as_told_is_no_longer_told_the_same(
    request: ResourceRequest, offer: ResourceOffer
) -> None:
    """The near miss is true: with what there is in place of what was asked, that lack is gone."""
    for lack in lacking(request, offer):
        if not lack.wanted:
            able = tuple(name for name in request.capabilities if name != lack.resource)
            changed = request._replace(capabilities=able)
        elif lack.resource == "processors":
            changed = request._replace(processors=lack.had)
        else:
            changed = request._replace(amounts=of({**dict(request.amounts), lack.resource: lack.had}))
        assert changed.processors < 1 or lack.resource not in [one.resource for one in lacking(changed, offer)]


@given(st.lists(COUNTS.map(of), max_size=8), COUNTS)
def test_what_is_left_is_what_there_was_less_what_is_held_and_never_below_nothing(
    jobs: list[resources.Amounts], has: dict[str, int]
) -> None:
    left, held = dict(has), []
    for asked in jobs:
        most = how_many(left, asked)
        one_by_one = 0
        while (
            asked
            and one_by_one < 10
            and all(
                sum(dict(other).get(name, 0) for other in held) + (one_by_one + 1) * count <= has[name]
                for name, count in asked
                if name in has
            )
        ):
            one_by_one += 1
        named = any(name in has for name, _ in asked)
        assert min(most, 10) == (one_by_one if named else 10)
        if most:
            resources.take(left, asked)
            held.append(asked)
        assert all(count >= 0 for count in left.values())
    for asked in held:
        resources.give_back(left, asked)
    assert left == has


@given(COUNTS)
def test_each_amount_is_the_machines_own_shared_or_a_bound_and_only_one_of_these(counts: dict[str, int]) -> None:
    asked = of(counts)
    assert asked == tuple(sorted((name, count) for name, count in counts.items() if count))
    assert sorted((*resources.of_machine(asked), *resources.shared(asked))) == sorted(resources.held(asked))
    assert {name for name, _ in asked} - {name for name, _ in resources.held(asked)} <= {"memory_bytes"}
    assert {name for name, _ in resources.devices(asked)} <= {"gpus", "fpga", "tape"}
    assert sorted((*resources.devices(asked), *resources.shared(asked))) == sorted(resources.countable(asked))


GIB, MIB = 1 << 30, 1 << 20
TOLD = {
    "hands out no GPUs, a job needs 2 -> gpus = 0": ("gpus", 2, 0),
    "has 1 GPU for one job, a job needs 2 -> gpus <= 1": ("gpus", 2, 1),
    "has no fpga -> ": ("fpga", 1, 0),
    "has 2 of the 3 fpga a job needs -> fpga <= 2": ("fpga", 3, 2),
    "has no licence of matlab -> ": ("licence:matlab", 1, 0),
    "has 2 of the 3 licences of matlab a job needs -> licences.matlab <= 2": ("licence:matlab", 3, 2),
    "has 1.0 GiB of memory, a job needs 2.0 GiB -> memory <= 1.0 GiB": ("memory_bytes", 2 * GIB, GIB),
    "has 512.0 MiB of scratch, a job needs 1.6 GiB -> scratch <= 512.0 MiB": ("scratch_bytes", 1537 * MIB, 512 * MIB),
}


@pytest.mark.parametrize("words", TOLD)
def test_what_lacks_is_told_with_the_near_miss(words: str) -> None:
    name, wanted, had = TOLD[words]
    (lack,) = lacking(ResourceRequest(1, ((name, wanted),)), ResourceOffer(1, {name: had}))
    assert f"{lack.why} -> {lack.mend}" == words


def test_a_capability_that_lacks_is_told_in_its_own_words() -> None:
    (lack,) = lacking(ResourceRequest(1, (), ("containers", "module gcc/12")), ResourceOffer(1))
    assert (lack.why, lack.mend) == ("runs no containers", "")


def test_what_a_machine_tells_is_bounded_whatever_it_tells() -> None:
    told = [("fpga", 2**63), ("gpus", 4), ("tape", 0), ("x y", 1), ("disk", -1), *((f"r{n}", 1) for n in range(100))]
    had = declared.sane(told)
    assert dict(had)["fpga"] == declared.MOST_AMOUNT and len(had) == declared.MOST_DECLARED
    assert not {"gpus", "tape", "x y", "disk"} & dict(had).keys()


def test_a_spec_asks_for_all_of_it_in_one_value() -> None:
    has = Resources(
        processors=2, memory_bytes=5, gpus=1, scratch_bytes=7, licences=(("matlab", 2),), others=(("fpga", 1),),
        time_limit_s=60.0,
    )  # fmt: skip
    request = resources.request_of(GroupSpec(argv=("true",), resources=has, container="i"))
    amounts = {"fpga": 1, "gpus": 1, "licence:matlab": 2, "memory_bytes": 5, "scratch_bytes": 7}
    assert request == ResourceRequest(2, of(amounts), ("containers",), 60.0)
    assert resources.shown(request) == (
        "2 processors and 0.0 GiB of memory and 0.1 MiB of scratch and 1 GPU and 1 fpga and 2 of matlab and containers"
    )
