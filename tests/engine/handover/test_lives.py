"""Random lives of three sites: whatever users, crashes and cuts do, the promises hold and the journal tells all."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.journal import codec, fold
from diana.engine.journal import events as ev
from diana.engine.journal.state import SiteState, decode_state, encode_state
from diana.model.facts import Outcome
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from tests.engine.bench import Grid, Site
from tests.engine.builders import OPERATOR, dataset, spec, whole

NAMES = ("alpha", "beta", "gamma")
ACTIONS = (
    "submit",
    "submit",
    "submit with data",
    "submit with merge",
    "end",
    "end",
    "end badly",
    "cancel",
    "cancel some",
    "hold",
    "release",
    "retry",
    "restart",
    "part",
    "heal",
    "time",
    "lrm",
    "lose all mail",
    "full",
)


class Life:
    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.grid = Grid(alpha=1, beta=3, gamma=2)
        self.requests = 0
        self.retried: Counter[tuple[str, int]] = Counter()
        for site in self.grid.sites.values():
            site.outputs = ("out",)
            site.handle(ev.AddDataset(request=0, principal=OPERATOR, dataset=dataset(site.name, "f")))

    def act(self, action: str) -> None:
        grid, draw = self.grid, self.data.draw
        site = grid[draw(st.sampled_from(NAMES))]
        match action:
            case "submit" | "submit with data" | "submit with merge":
                self._submit(site, action)
            case "end":
                site.end(draw(st.integers(1, 4)))
            case "end badly":
                site.end(1, draw(st.sampled_from((Outcome.FAILED, Outcome.UNKNOWN, Outcome.NOT_STARTED))))
            case "cancel" | "cancel some":
                self._cancel(site, action)
            case "hold" | "release" | "retry":
                self._control(site, action)
            case "restart":
                site.restart()
            case "part":
                if not grid.cut:
                    grid.part(site.name)
            case "heal":
                for name in sorted(grid.cut):
                    grid.heal(name)
            case "time":
                grid.pass_time(draw(st.sampled_from((0.01, 1.0, 12.0, 40.0))))
            case "lrm":
                site.lrm_ready()
            case "lose all mail":
                grid.post_box.clear()
            case "full":
                site.handle(ev.RoomChecked(low=draw(st.sampled_from(("", "disk is full")))))
        for _ in range(draw(st.integers(0, 6))):
            if grid.post_box:
                grid.deliver_one()

    def _submit(self, site: Site, action: str) -> None:
        jobs = self.data.draw(st.integers(1, 12))
        self.requests += 1
        refs = (("dataset:beta/f", whole(jobs)),) if action.endswith("data") else ()
        wanted = spec(
            jobs,
            work_s=30.0,
            merge=("sum",) if action.endswith("merge") else (),
            collect=("out",),
            on_crash=self.data.draw(st.sampled_from(("hold", "rerun"))),
            max_parallel=self.data.draw(st.sampled_from((0, 0, 2))),
        )
        site.submit(wanted, jobs, self.requests, key=f"k{self.requests}", refs=refs, settle=False)

    def _cancel(self, site: Site, action: str) -> None:
        groups = sorted(site.engine.core.state.groups)
        if groups:
            name = self.data.draw(st.sampled_from(groups))
            jobs = site.group(name).jobs
            some = None if action == "cancel" else IndexSet.span(0, self.data.draw(st.integers(0, jobs)))
            site.cancel(name, some, settle=False)

    def _control(self, site: Site, action: str) -> None:
        groups = sorted(site.engine.core.state.groups)
        if not groups:
            return
        name = self.data.draw(st.sampled_from(groups))
        low, high = sorted(self.data.draw(st.tuples(st.integers(0, 12), st.integers(0, 12))))
        some = None if high > 9 else IndexSet.span(low, min(high, site.group(name).jobs))
        if action == "retry":
            group = site.group(name)
            before = IndexSet.union(k.within(whole(group.jobs)) for k in (group.failed, group.held, group.cancelled))
            site.retry(name, some, settle=False, held=self.data.draw(st.booleans()), cancelled=True)
            for index in group.open_of(before):
                self.retried[name, index] += 1
        elif action == "hold":
            site.hold(name, some, settle=False)
        else:
            site.release_jobs(name, some, settle=False)

    def heal(self) -> None:
        for name in sorted(self.grid.cut):
            self.grid.heal(name)
        for site in self.grid.sites.values():
            site.handle(ev.RoomChecked(low=""))
            for group in sorted(site.engine.core.state.groups):
                site.release_jobs(group)
        self.grid.finish()


def check_promises(life: Life) -> None:
    for site in life.grid.sites.values():
        for name, group in site.engine.core.state.groups.items():
            jobs = whole(group.jobs)
            kinds = [kind.within(jobs) for kind in (group.done, group.failed, group.cancelled, group.held)]
            assert sum(map(len, kinds)) == group.jobs == len(IndexSet.union(kinds)), name
            assert group.state
            # Hold means: one start, and one more per retry. Rerun means: also one for each end nobody knows.
            if group.spec.on_crash == "hold":
                assert all(n <= 1 + life.retried[g, i] for (g, i), n in life.grid.claims().items() if g == name)
            assert all(life.grid.claims()[(name, i)] for i in group.done)
        assert not site.engine.core.state.custodies
        assert site.engine.core.workers.load() == 0
        assert not site.running


def check_journal(site: Site, cut: int) -> None:
    """fold(snapshot at any point + the rest) is fold(all) is what lives."""
    state = SiteState()
    for stored in site.stored[:cut]:
        fold.apply(state, codec.decode(stored), site.name)
    state = decode_state(encode_state(state))
    for stored in site.stored[cut:]:
        fold.apply(state, codec.decode(stored), site.name)
    assert encode_state(state) == site.engine.snapshot()


@pytest.mark.wide
@settings(max_examples=80)
@given(st.data())
def test_every_job_of_every_life_ends_once_and_the_journal_tells_it(data: st.DataObject) -> None:
    life = Life(data)
    for action in data.draw(st.lists(st.sampled_from(ACTIONS), min_size=3, max_size=25)):
        life.act(action)
    for site in life.grid.sites.values():
        check_journal(site, data.draw(st.integers(0, len(site.stored))))
    life.heal()
    check_promises(life)
    for site in life.grid.sites.values():
        check_journal(site, data.draw(st.integers(0, len(site.stored))))


def test_the_same_life_is_lived_twice_to_the_byte() -> None:
    """Determinism: no set is iterated into a decision, no clock or chance is asked."""

    def once() -> list[bytes]:
        grid = Grid(alpha=1, beta=3, gamma=2)
        for n in range(6):
            grid[NAMES[n % 3]].submit(spec(20, work_s=float(n + 1)), 20, n)
            grid.pass_time(0.5)
        grid["beta"].restart()
        grid.finish(count=2)
        return [b"".join(s.stored) + s.engine.snapshot() for s in grid.sites.values()]

    assert once() == once()


def test_group_ids_are_in_the_order_of_their_numbers() -> None:
    grid = Grid(alpha=1)
    for n in range(12):
        grid["alpha"].submit(spec(1), 1, n)
    assert fold.group_ids(grid["alpha"].engine.core.state) == [GroupId(f"alpha-{n}") for n in range(1, 13)]
