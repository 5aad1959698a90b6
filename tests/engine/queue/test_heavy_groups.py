"""Groups whose declared work or bytes exceed a threshold stand half a level lower, wherever they queue (SPEC D5)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch import forecast
from diana.engine.dispatch.turns import Turns
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.ids import GroupId
from diana.model.job.spec import InputFile, Outputs
from diana.model.settings import Settings
from diana.model.trust.ledger import under
from diana.model.views.queue import QueueView, Waiting
from diana.model.views.views import Explanation
from diana.policy.queueing.heavy import GroupLoad
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, OPERATOR, dataset, spec, whole
from tests.engine.queueing import Waiting as Queue
from tests.engine.queueing import entry

HOUR = 3600.0
GB = 10**9


def full(**settings: object) -> Grid:
    """Two sites of one slot, each taken by a job of a thousand seconds and with another claimed."""
    grid = Grid({"priority_mode": "paper", "claim_ahead": 1, "time_threshold_s": 0.0, **settings}, alpha=1, beta=1)
    for name in grid.sites:
        grid["alpha"].submit(spec(2, work_s=1000.0, sites=(name,)), 2, who=OPERATOR)
    return grid


def waits(site: Site, group: str) -> Waiting:
    site.handle(ev.Ask(request=997, principal=ALICE, what="explain", group=GroupId(group)))
    site.grid.settle()
    said = site.replies.pop(997)
    assert isinstance(said, Explanation)
    (row,) = (one for one in said.waiting if one.level)
    return row


def queue(site: Site) -> QueueView:
    view = site.ask("queue", who=OPERATOR)
    assert isinstance(view, QueueView)
    return view


def test_by_default_no_group_is_heavy() -> None:
    made = Queue(entry("a", jobs=2))
    one = entry("b", user="a", jobs=2)
    one.load = GroupLoad(1e15, 1 << 60)
    made.arrive(one)
    assert made.at("b").priority == made.at("a").priority == 0.0


@pytest.mark.parametrize(
    ("load", "down"),
    [
        (GroupLoad(HOUR, 0), 0.0),
        (GroupLoad(HOUR + 1, 0), 0.25),
        (GroupLoad(0, GB), 0.0),
        (GroupLoad(0, GB + 1), 0.25),
        (GroupLoad(2 * HOUR, 2 * GB), 0.25),
    ],
)
def test_a_load_beyond_either_threshold_takes_half_a_level_off_once(load: GroupLoad, down: float) -> None:
    """SPEC D5: half a queue's width is 0.25, whichever it exceeds, and both together."""
    made = Queue(work_threshold_s=HOUR, bytes_threshold=GB)
    one = entry("b", jobs=3)
    one.load = load
    made.arrive(one, entry("c", user="b"))
    assert made.at("c").priority - made.at("b").priority == pytest.approx(down)
    assert made.queues.prospect("d", 1, 1).priority - made.queues.prospect("d", 1, 1, load=load).priority == down


def test_it_adds_to_ageing_and_to_the_job_threshold() -> None:
    made = Queue(work_threshold_s=HOUR, job_threshold=1, time_threshold_s=100.0)
    one = entry("b", jobs=2)
    one.load = GroupLoad(2 * HOUR)
    made.arrive(one)
    within, beyond = made.standing(250.0)["b"]
    assert within.priority == pytest.approx(2 * 0.25 - 0.25)
    assert beyond.priority == pytest.approx(2 * 0.25 - 0.25 - 0.5)


def test_a_changed_threshold_counts_for_what_waits_already() -> None:
    made = Queue()
    one = entry("b", jobs=2)
    one.load = GroupLoad(2 * HOUR)
    made.arrive(one)
    made.queues.configure(Settings(priority_mode="paper", work_threshold_s=HOUR), 0.0)
    assert made.at("b").priority == -0.25
    made.queues.configure(Settings(priority_mode="paper"), 0.0)
    assert made.at("b").priority == 0.0


@pytest.mark.parametrize("site", ["alpha", "beta"])
def test_every_site_that_queues_a_heavy_group_says_so_and_still_does_after_a_restart(site: str) -> None:
    """SPEC D5: the group's spec travels with its part and stands in the journal, so the work counts everywhere;
    without it jobs with nobody else waiting stand at 0."""
    grid = full(work_threshold_s=HOUR, binding="early")
    grid["alpha"].submit(spec(3, work_s=HOUR / 2, sites=(site,)), 3, who=ALICE)
    for _ in range(2):
        row = waits(grid["alpha"], "alpha-3")
        assert (row.site, row.level, row.priority) == (site, "Q3", -0.25)
        assert row.heavy == "declared work 5400 s beyond work_threshold_s 3600"
        (rank,) = queue(grid[site]).classes
        assert (rank.heavy, rank.demoted, rank.priority) == (True, False, -0.25)
        grid[site].restart()
        grid.settle()


def test_a_reservation_stands_as_low_as_its_jobs_would() -> None:
    """SPEC D5: under late binding the group waits at several sites, at each by the threshold that counts there."""
    grid = full(work_threshold_s=HOUR, binding="late")
    grid["alpha"].submit(spec(6, work_s=HOUR / 2), 6, who=ALICE)
    for site in grid.sites.values():
        assert site.engine.core.book(Turns).reserved[GroupId("alpha-3")].told.group_work_s == 3 * HOUR
        assert {c.priority for c in queue(site).classes} == {-0.25}


def test_a_site_quotes_a_heavy_group_at_the_priority_it_would_get() -> None:
    grid = full(work_threshold_s=HOUR)
    core = grid["beta"].engine.core
    asked = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=3, refs=(), owner=ALICE.name)
    assert forecast.place_of(core, asked).priority == 0.0
    heavy = ms.QuoteRequest(
        quote=1, processors=1, memory_bytes=0, jobs=3, refs=(), owner=ALICE.name, group_work_s=2 * HOUR
    )
    assert forecast.place_of(core, heavy).priority == -0.25


def test_bytes_are_the_inputs_that_a_part_reads_and_the_outputs_that_its_group_declares() -> None:
    """SPEC D5: a dataset of 2 GB, read by all; then three jobs with outputs of 400 MB each."""
    grid = full(bytes_threshold=GB, binding="early")
    alpha = grid["alpha"]
    alpha.handle(ev.AddDataset(request=90, principal=OPERATOR, dataset=dataset("events", "f", size_bytes=2 * GB)))
    read = InputFile(source="dataset:events", path="events")
    alpha.submit(spec(3, inputs=(read,), sites=("alpha",)), 3, refs=(("dataset:events", whole(3)),))
    writes = msgspec.structs.replace(spec(4, sites=("alpha",)), outputs=Outputs(size_bytes=300_000_000))
    alpha.submit(writes, 4)
    alpha.submit(msgspec.structs.replace(writes, outputs=Outputs(size_bytes=200_000_000)), 4)
    assert {c.parts: c.heavy for c in queue(alpha).classes} == {
        ("alpha-3/0", "alpha-4/0"): True,
        ("alpha-5/0",): False,
    }


@pytest.mark.parametrize("value", [-1, 1e16, float("nan")])
@pytest.mark.parametrize("key", ["work_threshold_s", "bytes_threshold"])
def test_a_threshold_out_of_range_is_refused_with_its_range(key: str, value: float) -> None:
    """SPEC section 6: in a site's settings and in a VO's policy alike."""
    value = int(1e19) if key == "bytes_threshold" and value > 0 else -1 if value != value else value
    with pytest.raises(ValueError, match=f"{key} = .*: want 0 to 1e"):
        Settings(**{key: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"{key} = .*: want 0 to 1e"):
        under(Settings(), {key: value})


def test_a_vo_sets_the_thresholds_for_all_its_sites() -> None:
    assert under(Settings(), {"work_threshold_s": HOUR, "bytes_threshold": GB}).bytes_threshold == GB


def test_a_peers_nonsense_about_a_groups_load_makes_it_light_or_heavy_and_nothing_else() -> None:
    grid = full(work_threshold_s=HOUR)
    core = grid["beta"].engine.core
    for told in (float("nan"), float("inf"), -1.0):
        asked = ms.QuoteRequest(
            quote=1, processors=1, memory_bytes=0, jobs=3, refs=(), owner=ALICE.name, group_work_s=told
        )
        assert forecast.place_of(core, asked).priority in (0.0, -0.25)
