"""The runs that the site's workers were given, in that order: those on slots and those that wait there."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, islice, pairwise
from typing import NamedTuple

from diana.engine.journal.state import CustodyKey
from diana.engine.machines.slot_rows import SlotRows
from diana.model.ids import MAIN_MACHINE
from diana.model.job.resources import Amounts, devices, held, shared

_Name = tuple[CustodyKey, int]
"""(custody, index)."""


class GivenRun(NamedTuple):
    key: CustodyKey
    given_s: float
    """Site time at which it was given; unknown after a restart of the node: the restart."""
    processors: int
    held: Amounts = ()
    """Beside processors."""
    on_s: float = -1.0
    """Site time at which it got its slot, as far as the worker has told of those before it; negative: not yet."""
    run_s: float = 0.0
    """Seconds it was expected to run when it was given."""


class Lane:
    """The runs of one worker. It starts jobs in the order it is given them, so that as many of the first as fit are on
    its slots."""

    __slots__ = (
        "ahead",
        "ahead_s",
        "away",
        "delay_s",
        "held",
        "load",
        "looks",
        "moved_s",
        "name",
        "number",
        "on",
        "slots",
        "stalled",
        "used",
    )

    def __init__(self, name: str, slots: int, number: int) -> None:
        self.name = name
        self.number = number
        """In the order in which the site met its workers."""
        self.slots = slots
        self.used = 0
        self.load = 0
        """Processors of all it holds, as far as it has told."""
        self.held: Counter[str] = Counter()
        """Resource -> how much of it is promised to all it holds, licences too."""
        self.on: OrderedDict[_Name, GivenRun] = OrderedDict()
        self.ahead: OrderedDict[_Name, GivenRun] = OrderedDict()
        self.ahead_s = 0.0
        """Processor-seconds expected of those ahead."""
        self.moved_s = 0.0
        """Site time at which a run came onto a slot last."""
        self.stalled = False
        """True from when its runs took longer than those behind them were given for, until one of them is over."""
        self.away = False
        """True once it is away for so long that nothing is expected of it."""
        self.looks = False
        """True if a job on its slots may not have begun."""
        self.delay_s = 0.0
        """Seconds before which nothing starts or ends there, as the worker tells."""


class GivenRuns:
    """Volatile; kept in step run by run, so that nothing is counted anew at a question.

    A run whose end was told holds no slot, but counts as running until its end is durable.
    """

    def __init__(self, slots: int) -> None:
        self.main = Lane(MAIN_MACHINE, slots, 0)
        self.lanes: dict[str, Lane] = {MAIN_MACHINE: self.main}
        self.touched: dict[str, None] = {MAIN_MACHINE: None}
        """Workers whose load or slots changed since somebody looked."""
        self.rows = SlotRows()
        """The runs on slots once more, as columns."""
        self.shared: Counter[str] = Counter()
        """Licences of all that the workers hold, by name."""
        self.licensed: dict[str, dict[tuple[CustodyKey, float], int]] = {}
        """Licence -> (custody, site time it was given) -> how many of it are held."""
        self._elsewhere: dict[_Name, Lane] = {}
        """Lane of each run that is not in the main one: a site of one machine pays nothing for others."""
        self.recalling: dict[str, Lane] = {}
        """Lanes of workers that give back what they have not begun, by name."""
        self._told: dict[CustodyKey, set[int]] = {}
        self._running: dict[CustodyKey, int] = {}
        self._unsure: dict[CustodyKey, int] = {}
        """Those of `_running` on slots of workers that look."""
        self.running = 0
        """Jobs on slots, and those whose end was told."""
        self.changes = 0
        """Version counter: rises with everything that happens here, so that figures made of it are known to hold
        still."""

    def running_of(self, key: CustodyKey) -> int:
        """Return the custody's part of `running`."""
        return self._running.get(key, 0)

    def unsure_of(self, key: CustodyKey) -> int:
        """Return those of `running_of` of which nobody knows whether they have begun."""
        return self._unsure.get(key, 0)

    def on_slots(self) -> dict[CustodyKey, int]:
        """`running_of` of every custody that has any."""
        return dict(self._running)

    def lane(self, worker: str) -> Lane:
        lane = self.lanes.get(worker)
        if lane is None:
            lane = self.lanes[worker] = Lane(worker, 0, len(self.lanes))
        return lane

    def configure(self, slots: int, worker: str = MAIN_MACHINE) -> None:
        """Give the worker another number of slots."""
        lane = self.lane(worker)
        self.touched[worker] = None
        self.changes += 1
        if slots == lane.slots:
            return
        every = OrderedDict([*lane.on.items(), *lane.ahead.items()])
        for (key, index), run in lane.on.items():
            self._count(lane, run.key, -1)
            self.rows.drop(key, index)
        lane.slots, lane.used, lane.on, lane.ahead = slots, 0, OrderedDict(), every
        lane.ahead_s = sum((run.processors * run.run_s for run in every.values()), 0.0)
        self._advance(lane)

    def gives_back(self, worker: str, does: bool) -> None:
        """Note whether the worker gives back, when asked, the jobs it has not begun."""
        self.touched[worker] = None
        if does:
            self.recalling[worker] = self.lane(worker)
        else:
            self.recalling.pop(worker, None)

    def looks(self, worker: str, does: bool) -> None:
        """Note whether nobody tells when the jobs on the worker's slots begin."""
        lane = self.lanes.get(worker)
        if (lane is None and not does) or (lane is not None and lane.looks == does):
            return
        lane = self.lane(worker)
        for run in lane.on.values():
            self._count(lane, run.key, -1)
        lane.looks = does
        for run in lane.on.values():
            self._count(lane, run.key, 1)

    # --- what happens to runs ------------------------------------------------------------------------

    def give(
        self,
        key: CustodyKey,
        indices: Iterable[int],
        processors: int,
        now: float,
        worker: str = MAIN_MACHINE,
        amounts: Amounts = (),
        run_s: float = 0.0,
    ) -> None:
        """Note runs as given. `amounts`: what each asks beside processors."""
        lane = self.main if worker == MAIN_MACHINE else self.lane(worker)
        self.changes += 1
        holds = held(amounts) if amounts else ()
        for index in indices:
            run = lane.ahead[(key, index)] = GivenRun(key, now, processors, holds, run_s=run_s)
            lane.ahead_s += processors * run_s
            if holds:
                self._hold(lane, run, 1)
            lane.load += processors
            if lane is not self.main:
                self._elsewhere[(key, index)] = lane
        self._advance(lane, now)

    def told(self, key: CustodyKey, indices: Iterable[int], now: float) -> None:
        """Take runs off their slots whose end is known, and not durable yet."""
        self.changes += 1
        mine = self._told.setdefault(key, set())
        lanes: dict[str, Lane] = {}
        for index in indices:
            if self._leave((key, index), lanes):
                mine.add(index)
                self._count(None, key, 1)
        for lane in lanes.values():
            self._advance(lane, now)

    def forget(self, key: CustodyKey, indices: Iterable[int], now: float) -> None:
        """Forget runs whose end is durable, or that never started."""
        self.changes += 1
        mine = self._told.get(key, set())
        lanes: dict[str, Lane] = {}
        for index in indices:
            if index in mine:
                mine.discard(index)
                self._count(None, key, -1)
            else:
                self._leave((key, index), lanes)
        if not mine:
            self._told.pop(key, None)
        for lane in lanes.values():
            self._advance(lane, now)

    def learned(self, template: str, owner: str) -> None:
        """Expect anew how long jobs of a template and user take."""
        self.rows.learned(template, owner)
        self.changes += 1

    def expects_anew(self) -> None:
        """Expect anew how long every job takes."""
        self.rows.all_anew()
        self.changes += 1

    # --- questions -----------------------------------------------------------------------------------

    def all(self) -> Iterator[GivenRun]:
        """Yield the runs that workers hold and have not told the end of, each worker's in the order given."""
        for lane in self.lanes.values():
            yield from self.of(lane)

    @staticmethod
    def of(lane: Lane) -> Iterator[GivenRun]:
        yield from lane.on.values()
        yield from lane.ahead.values()

    def held_by(self, worker: str) -> dict[CustodyKey, list[int]]:
        """Return the jobs the worker holds and has not told the end of, by custody, in order."""
        lane, out = self.lane(worker), dict[CustodyKey, list[int]]()
        for key, index in (*lane.on, *lane.ahead):
            out.setdefault(key, []).append(index)
        return {key: out[key] for key in sorted(out)}

    def sample_ahead(self, most: int) -> tuple[list[GivenRun], int]:
        """(some given ahead of slots, each standing for so many): all of them, or at most `most`, evenly taken. Runs of
        workers that are away are left out."""
        lanes = [lane for lane in self.lanes.values() if lane.ahead and not lane.away]
        every = -(-sum(len(lane.ahead) for lane in lanes) // most) or 1
        ahead = chain.from_iterable(lane.ahead.values() for lane in lanes)
        return list(islice(ahead, every // 2, None, every)), every

    def licence_sample(self, name: str, most: int) -> list[tuple[CustodyKey, float, int]]:
        """(custody, when given, licences of the name) of what holds any, also of machines that are away: all, or at
        most `most`, evenly taken; together as many as are held."""
        every = self.licensed.get(name, {})
        step = -(-len(every) // most) or 1
        some = list(islice(every.items(), step // 2, None, step))
        # Each stands for its part of the whole.
        sums = list(accumulate((count for _, count in some), initial=0))
        upto = [one * self.shared[name] // sums[-1] if some else 0 for one in sums]
        return [(key, at_s, after - had) for ((key, at_s), _), (had, after) in zip(some, pairwise(upto), strict=True)]

    # --- inside --------------------------------------------------------------------------------------

    def _leave(self, name: _Name, lanes: dict[str, Lane]) -> bool:
        """Take a run out of its lane, which is added to `lanes`; False: it is in none."""
        lane = self._elsewhere.pop(name, self.main) if self._elsewhere else self.main
        run = lane.on.pop(name, None)
        if run is not None:
            lane.used -= run.processors
            self._count(lane, run.key, -1)
            self.rows.drop(*name)
            lane.stalled = False
        else:
            run = lane.ahead.pop(name, None)
            if run is None:
                return False
            _left_ahead(lane, run)
        lane.load -= run.processors
        if run.held:
            self._hold(lane, run, -1)
        lanes[lane.name] = lane
        return True

    def _hold(self, lane: Lane, run: GivenRun, sign: int) -> None:
        for name, count in run.held:
            lane.held[name] += sign * count
        for name, count in shared(run.held):
            self.shared[name] += sign * count
            licensed, of = self.licensed.setdefault(name, {}), (run.key, run.given_s)
            licensed[of] = licensed.get(of, 0) + sign * count
            if not licensed[of]:
                del licensed[of]
                if not licensed:
                    del self.licensed[name]

    def _advance(self, lane: Lane, now: float | None = None) -> None:
        """Move waiting runs onto free slots. `now` None: their slots may have been free ever since they were given."""
        self.touched[lane.name] = None
        while lane.ahead:
            name = next(iter(lane.ahead))
            run = lane.ahead[name]
            if lane.used + run.processors > lane.slots:
                return
            del lane.ahead[name]
            _left_ahead(lane, run)
            if now is not None:
                lane.moved_s = now
            if run.on_s < 0:
                run = run._replace(on_s=run.given_s if now is None else now)
            lane.on[name] = run
            self.rows.put(*name, lane.number, run.on_s, run.processors, devices(run.held) if run.held else ())
            lane.used += run.processors
            self._count(lane, run.key, 1)

    def _count(self, lane: Lane | None, key: CustodyKey, by: int) -> None:
        """`lane`: of runs on slots; None for those whose end was told."""
        self.running += by
        _add(self._running, key, by)
        if lane is not None and lane.looks:
            _add(self._unsure, key, by)


def _left_ahead(lane: Lane, run: GivenRun) -> None:
    # Sums of floats drift: an empty row has none.
    lane.ahead_s = lane.ahead_s - run.processors * run.run_s if lane.ahead else 0.0


def _add(counts: dict[CustodyKey, int], key: CustodyKey, by: int) -> None:
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        del counts[key]
