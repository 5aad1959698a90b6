"""Plays a scenario's workload and events on real nodes in their time, and sees every group to its end."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from diana.client import Client
from diana.engine.journal.events import CancelJobs, HoldJobs, ReleaseJobs, RetryJobs
from diana.errors import Denied, DianaError, Overloaded, Unplaceable, Unreachable, UsageError
from diana.model.ids import GroupId
from diana.model.views.group import GroupStatus
from diana.sim.load.workload import INSIST_S, PATIENCE, Submission, UserOrder
from diana.sim.specs.event_spec import EventSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.work_spec import MoveSpec
from diana.trial.ground import Testbed
from diana.trial.happenings import Happenings
from diana.trial.plan import job_file

HANDS = 16
"""Calls under way at once; one to a node that is stopped waits until it goes on."""
LOOK_S = 0.2
"""Seconds between two looks at the groups of one site."""
_LEAST_S = 0.2
"""Seconds between two tries of a user."""


class TrialOutcome(msgspec.Struct):
    """The outcome of a scenario on real nodes."""

    statuses: dict[str, GroupStatus] = {}
    """Submission -> its group as last seen."""
    began_wall_s: float = 0.0
    took_s: float = 0.0
    """Real seconds until the last group ended, or until time was over."""
    in_time: bool = True
    happened: dict[str, int] = {}
    """Events by kind."""


class Conductor:
    """`factor`: scenario seconds per real second."""

    def __init__(
        self,
        ground: Testbed,
        scenario: Scenario,
        submissions: Sequence[Submission],
        credentials: dict[str, Path],
        factor: float,
        tell: Callable[[str], None],
    ) -> None:
        self._ground = ground
        self._scenario = scenario
        self._submissions = list(submissions)
        self._factor = factor
        self._tell = tell
        self._clients: dict[tuple[str, str], Client] = {}
        self._credentials = credentials
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._asked = itertools.count()
        self._began_s = 0.0
        self._hands = ThreadPoolExecutor(HANDS, "users")
        self._busy: set[Future[None]] = set()
        self._ended = TrialOutcome()
        self._happenings = Happenings(ground, factor)
        self._jobs: dict[str, dict[str, object]] = {}

    def run(self, within_s: float) -> TrialOutcome:
        """Run until every group is final and every order answered; at most so many real seconds. Faults of ours
        meanwhile are raised."""
        for one in self._submissions:
            if not one.chain or one is one.chain[0]:
                # Made beforehand, so that drawing a large group's jobs delays no submission.
                self._jobs[one.name] = job_file(one.chain or (one,), self._scenario, self._factor)
        self._ended.began_wall_s, self._began_s = time.time(), time.monotonic()
        for one in self._submissions:
            if one.name in self._jobs:
                self._at(one.submit_s, partial(self._hand, self._submit, one))
            if one.orders:
                self._at(one.orders[0].at_s, partial(self._hand, self._order, one))
        for event in self._scenario.events:
            self._at(event.at_s, partial(self._happen, event))
        for site in dict.fromkeys(one.site for one in self._submissions):
            self._at(LOOK_S, partial(self._hand, self._look, str(site)))
        try:
            self._until_over(within_s)
        finally:
            self._ended.took_s = time.monotonic() - self._began_s
            self._ended.happened = dict(self._happenings.counts)
            self._happenings.all_whole()
            self._hands.shutdown(wait=True, cancel_futures=True)
        return self._ended

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    # --- time --------------------------------------------------------------------------------------------

    def _at(self, at_s: float, action: Callable[[], None]) -> None:
        """Scenario seconds after the beginning."""
        heapq.heappush(self._due, (self._began_s + at_s / self._factor, next(self._asked), action))

    def _after(self, real_s: float, action: Callable[[], None]) -> None:
        """Real seconds from now; may be called by any hand."""
        heapq.heappush(self._due, (time.monotonic() + real_s, next(self._asked), action))

    def _until_over(self, within_s: float) -> None:
        end = self._began_s + within_s
        while not self._over():
            now = time.monotonic()
            if now > end:
                self._ended.in_time = False
                return
            self._reap()
            if self._due and self._due[0][0] <= now:
                heapq.heappop(self._due)[2]()
                continue
            next_s = self._due[0][0] if self._due else now + LOOK_S
            time.sleep(max(0.001, min(next_s - now, 0.05)))

    def _hand(self, deed: Callable[..., None], *arguments: object) -> None:
        self._busy.add(self._hands.submit(deed, *arguments))

    def _reap(self) -> None:
        """Raise what a hand could not do: that is a fault of ours. A node's refusal was noted by the hand."""
        for done in [one for one in self._busy if one.done()]:
            self._busy.discard(done)
            done.result()
        self._happenings.reap()

    def _over(self) -> bool:
        final = self._ended.statuses
        return all(
            one.refused or (one.name in final and final[one.name].final and not one.orders) for one in self._submissions
        )

    # --- users -------------------------------------------------------------------------------------------

    def _client(self, one: Submission) -> Client:
        """The client of its user at the site where it is submitted."""
        machine, user = self._ground.main(one.site), one.principal.name
        if user not in self._credentials:
            return self._happenings.leader(one.site).client
        if (one.site, user) not in self._clients:
            client = Client(address=self._ground.dialled(machine), credential=self._credentials[user])
            self._clients[one.site, user] = client
        return self._clients[one.site, user]

    def _again_s(self) -> float:
        return max(_LEAST_S, INSIST_S / self._factor)

    def _submit(self, one: Submission) -> None:
        """Insists until it is answered."""
        chain = one.chain or (one,)
        try:
            made = self._client(one).submit(self._jobs[one.name], key=f"key-{one.name}")
        except (Unreachable, Overloaded) as error:
            one.why = str(error)
            self._after(self._again_s(), partial(self._hand, self._submit, one))
        except (UsageError, Denied, Unplaceable) as error:
            one.refusals += 1
            one.why = str(error)
            if one.refusals >= PATIENCE or isinstance(error, UsageError):
                for member in chain:
                    member.refused = one.why
            else:
                self._after(self._again_s(), partial(self._hand, self._submit, one))
        else:
            names = {group.name: group.group for group in made.groups} if one.chain else {one.name: made.group}
            for member in chain:
                member.group = GroupId(names[member.name])
                self._tell(f"{member.name}: {member.jobs:,} jobs submitted at {member.site} as {member.group}")

    def _order(self, one: Submission) -> None:
        """The next thing its user wants of it; refused is answered too."""
        if not one.orders or one.refused:
            return
        order = one.orders[0]
        if one.group is None:
            self._after(_LEAST_S, partial(self._hand, self._order, one))
            return
        try:
            _give(self._client(one), order, one.group)
        except (Unreachable, Overloaded):
            self._after(self._again_s(), partial(self._hand, self._order, one))
            return
        except DianaError as error:
            self._tell(f"{one.name}: {error}")
        one.orders.pop(0)
        if one.orders:
            self._at(one.orders[0].at_s, partial(self._hand, self._order, one))

    def _look(self, site: str) -> None:
        """Look at the groups of a site that are not final yet; again, until all are."""
        final = self._ended.statuses
        known = [one for one in self._submissions if one.site == site and not one.refused]
        open_ones = [one for one in known if one.name not in final or not final[one.name].final]
        asked = {one.group: one for one in open_ones if one.group is not None}
        with suppress(DianaError):
            client = self._happenings.leader(site).client
            for status in client.status([str(group) for group in asked]) if asked else ():
                one = asked[GroupId(status.group)]
                final[one.name] = status
                if status.final:
                    self._tell(f"{one.name}: {status.state}, {status.done:,} of {status.jobs:,} jobs done")
        if open_ones:
            self._after(LOOK_S, partial(self._hand, self._look, site))

    # --- events ------------------------------------------------------------------------------------------

    def _happen(self, event: EventSpec) -> None:
        self._tell(f"{event.at_s:g} s: {event.kind} {', '.join(event.sites) or 'all'}")
        self._happenings.happen(event)
        if event.for_s > 0:
            self._after(event.for_s / self._factor, partial(self._happenings.is_over, event))


def _give(client: Client, order: UserOrder, group: GroupId) -> None:
    kind = order.kind
    if isinstance(kind, MoveSpec):
        some = f".[{kind.first}-{kind.first + kind.jobs - 1}]" if kind.jobs else ""
        client.move(f"{group}{some}", kind.to)
    elif kind is CancelJobs:
        client.cancel(group)
    elif kind is HoldJobs:
        client.hold(group)
    elif kind is ReleaseJobs:
        client.release(group)
    elif kind is RetryJobs:
        client.retry(group)
