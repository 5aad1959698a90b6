"""Gangs whose components differ in what they ask and read (SPEC K1-K3)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.model.job.gang import COMPONENT
from diana.model.job.software import BARRIER
from diana.model.job.spec import Axis, ComponentSpec, GroupSpec, InputFile, Resources, Sweep
from diana.model.job.sweep import Parameters, refs_of
from tests.engine.bench import Grid
from tests.engine.builders import OPERATOR, dataset, spec
from tests.engine.handover.test_gangs import begun
from tests.engine.placement.test_gang_resources import planned, quotes

GIB = 1 << 30
SETTINGS = {"claim_wait_s": 20.0, "default_work_s": 30.0, "migration": "off", "binding": "early"}


def grid(slots: int = 4, fpgas: int = 0, **gib: int) -> Grid:
    """Sites of so many slots with so much memory; the last one has boards, too."""
    made = Grid(SETTINGS, **dict.fromkeys(gib, slots))
    for name, size in gib.items():
        made[name].settings = msgspec.structs.replace(made[name].settings, memory_bytes=size * GIB)
        made[name].handle(ev.SettingsLoaded(made[name].settings, software=(BARRIER,)))
        made[name].has = (("fpga", fpgas),) if fpgas and name == list(gib)[-1] else ()
        made[name].lrm_ready()
    made.settle()
    return made


def gang(*components: ComponentSpec, **more: object) -> GroupSpec:
    size = sum(each.count for each in components)
    axes = (Axis(name="job", start=0, stop=1), Axis(name=COMPONENT, start=0, stop=size))
    return msgspec.structs.replace(spec(1, **more), components=components, sweep=Sweep(axes=axes))


def sites(made: Grid, wanted: GroupSpec) -> list[str]:
    return [place.site for place in planned(made, wanted).components]


WIDE = ComponentSpec(name="wide", memory_bytes=64 * GIB)


def test_a_component_goes_where_a_machine_has_its_memory_and_the_others_anywhere() -> None:
    made = grid(alpha=4, beta=64, gamma=4)
    assert sites(made, gang(ComponentSpec(count=3), WIDE)) == ["alpha", "beta", "gamma", "beta"]
    group = made["alpha"].submit(gang(ComponentSpec(), WIDE), 2)
    assert isinstance(group, fx.GroupAccepted), group
    made.pass_time(1.0)
    assert [(site, index) for site, index in begun(made) if index == 1] == [("beta", 1)]
    (run,) = (run for run in made["beta"].gone if run.index == 1)
    assert made["beta"].running[run].spec.resources.memory_bytes == 64 * GIB
    made.finish()
    assert made["alpha"].group(group.group).state == "done"


def test_a_component_that_no_machine_could_run_is_refused_with_what_each_site_has() -> None:
    made = grid(alpha=4, beta=32)
    made["alpha"].submit(gang(ComponentSpec(), WIDE), 1, plan_only=True)
    made.pass_time(1.0)
    said = made["alpha"].replies[1]
    assert isinstance(said, fx.Refusal) and said.code == "unplaceable"
    assert (
        "component wide: no site has a machine for it (alpha: has 4.0 GiB of memory, a job needs 64.0 GiB" in said.text
    )
    assert "beta: has 32.0 GiB" in said.text and "\n" not in said.text


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ("site.slots >= 1", "no site has a machine for it (alpha: has 4.0 GiB of memory, a job needs 64.0 GiB; beta"),
        ("site.memory_bytes >= 32e9", "(alpha: 4294967296 >= 32000000000 does not hold; beta: has 32.0 GiB of memory"),
    ],
)
def test_a_component_whose_requirements_hold_where_no_machine_could_run_it_is_told_so(wish: str, told: str) -> None:
    made = grid(alpha=4, beta=32)
    wide = msgspec.structs.replace(WIDE, requirements=(wish,))
    made["alpha"].submit(gang(ComponentSpec(), wide), 1, plan_only=True)
    made.pass_time(1.0)
    said = made["alpha"].replies[1]
    assert isinstance(said, fx.Refusal) and told in said.text, said


def test_all_that_a_component_asks_is_looked_for_on_one_machine() -> None:
    made = grid(fpgas=1, alpha=64, beta=64, gamma=4)
    # The site with the board has too little memory for both together.
    both = msgspec.structs.replace(WIDE, others=(("fpga", 1),))
    made["alpha"].submit(gang(ComponentSpec(), both), 1, plan_only=True)
    made.pass_time(1.0)
    said = made["alpha"].replies[1]
    assert isinstance(said, fx.Refusal) and "gamma: has 4.0 GiB of memory" in said.text, said


def test_a_board_that_one_component_asks_for_is_told_and_waited_for() -> None:
    made = grid(fpgas=1, alpha=4, beta=4)
    board = ComponentSpec(others=(("fpga", 1),))
    busy = msgspec.structs.replace(spec(1, sites=("beta",)), resources=Resources(others=(("fpga", 1),), work_s=30.0))
    made["beta"].submit(busy, 1, 5)
    made.pass_time(1.0)
    plan = planned(made, gang(ComponentSpec(count=2), board))
    assert plan.components[2].site == "beta" and plan.components[2].resources == {"fpga": 1}
    assert 20.0 <= plan.wait_s <= 30.0 and not plan.components[0].resources
    two = made["alpha"]
    two.submit(gang(ComponentSpec(), msgspec.structs.replace(board, count=2)), 2, plan_only=True)
    made.pass_time(1.0)
    said = two.replies[1]
    assert isinstance(said, fx.Refusal) and "fpga" in said.text, "there is one board in all"


def test_a_peer_that_says_nothing_of_kinds_is_judged_by_what_it_says_otherwise() -> None:
    made = grid(alpha=4, beta=64)
    made.fate = quotes(lambda told: msgspec.structs.replace(told, unfit=()))
    assert "beta" in sites(made, gang(ComponentSpec(), WIDE))


@pytest.mark.parametrize("unfit", [("",) * 200, ("x" * 5000, "y"), ("", "", "z")])
def test_a_site_that_tells_nonsense_of_kinds_only_loses_its_own_components(unfit: tuple[str, ...]) -> None:
    made = grid(alpha=64, beta=64)
    made.fate = quotes(lambda told: msgspec.structs.replace(told, unfit=unfit))
    placed = sites(made, gang(ComponentSpec(), WIDE))
    assert placed == ["alpha", "alpha"] if unfit[0] else len(placed) == 2


def test_a_request_for_less_than_nothing_fits_nowhere() -> None:
    made = grid(alpha=4, beta=4)
    asked = ms.QuoteRequest(
        quote=1,
        refs=(),
        jobs=1,
        processors=1,
        coming=True,
        components=(ms.ComponentKind(0), ms.ComponentKind(9, {"fpga": -1})),
    )
    made.post("alpha", "beta", asked)
    made.fate = lambda _grid, _number, letter: "lose" if isinstance(letter[2], ms.Quote) else "deliver"
    told = [letter[2] for letter in made.post_box]
    assert told
    made.deliver_one()
    (quote,) = (letter[2] for letter in made.post_box if isinstance(letter[2], ms.Quote))
    assert quote.unfit == ("is asked for less than nothing", "has 4 of the 9 processors a job needs")


# --- files ---------------------------------------------------------------------------------------------------


def test_each_component_goes_close_to_the_files_that_it_reads_itself() -> None:
    made = grid(alpha=4, beta=4, gamma=4)
    for site, name in (("beta", "ocean"), ("gamma", "air")):
        made[site].handle(ev.AddDataset(request=5, principal=OPERATOR, dataset=dataset(name, "f", size_bytes=10**9)))
    made.pass_time(30.0)
    own = [
        ComponentSpec(inputs=(InputFile(source="dataset:ocean", path="ocean"),)),
        ComponentSpec(inputs=(InputFile(source="dataset:air", path="air"),)),
        ComponentSpec(),
    ]
    wanted = gang(*own)
    refs = refs_of(wanted, Parameters(wanted.sweep))
    made["alpha"].submit(wanted, 3, 1, refs=refs, plan_only=True)
    made.pass_time(30.0)
    plan = made["alpha"].replies[1]
    assert isinstance(plan, fx.DecisionMade) and plan.decision.gang is not None, plan
    ocean, air, none = plan.decision.gang.components
    assert (ocean.site, air.site) == ("beta", "gamma") and plan.decision.gang.policy == "close-to-files"
    assert plan.decision.gang.transfer_s == 0.0 and not any(each.bytes_in for each in (ocean, air, none))

    both = gang(*own, sites=("alpha",))
    made["alpha"].submit(both, 3, 2, refs=refs, plan_only=True)
    made.pass_time(30.0)
    plan = made["alpha"].replies[2]
    assert isinstance(plan, fx.DecisionMade) and plan.decision.gang is not None, plan
    moved = [(each.sources, each.bytes_in) for each in plan.decision.gang.components]
    assert moved == [(("beta",), 10**9), (("gamma",), 10**9), ((), 0)]


def test_a_part_brings_the_files_of_its_own_components_alone() -> None:
    made = grid(alpha=4, beta=4)
    made["beta"].handle(ev.AddDataset(request=5, principal=OPERATOR, dataset=dataset("d", "f")))
    made.pass_time(30.0)
    reads = (InputFile(source="dataset:d", path="d"),)
    wanted = gang(ComponentSpec(site="alpha", inputs=reads), ComponentSpec(site="alpha"))
    refs = refs_of(wanted, Parameters(wanted.sweep))
    assert [(ref, str(some)) for ref, some in refs] == [("dataset:d", "0")]
    group = made["alpha"].submit(wanted, 2, 1, refs=refs)
    assert isinstance(group, fx.GroupAccepted), group
    made.pass_time(1.0)
    (placed,) = made["alpha"].records(r.GroupPlaced)
    assert sorted((str(one.indices), [file.ref for file in one.files]) for one in placed.parts) == [
        ("0", ["dataset:d"]),
        ("1", []),
    ]
    specs = {str(one.indices): one.spec for one in made["alpha"].engine.state.custodies.values()}
    assert [file.path for file in specs["0"].inputs] == ["d"] and not specs["1"].inputs


@pytest.mark.parametrize("others", [30, 80])
@pytest.mark.parametrize(
    "own",
    [WIDE, ComponentSpec(others=(("fpga", 1),)), ComponentSpec(requirements=("site.memory_bytes >= 32e9",))],
    ids=["memory", "board", "requirement"],
)
def test_in_a_large_grid_the_few_sites_that_can_run_a_component_are_asked(others: int, own: ComponentSpec) -> None:
    made = grid(fpgas=1, alpha=4, **{f"s{n:02}": 4 for n in range(others)}, zulu=64)
    made.pass_time(20.0)
    assert sites(made, gang(ComponentSpec(count=3), own))[3] == "zulu"
