"""Words between sites under the judge. They leave encrypted, so a word is known by what it made the other site write:
nothing that rests on a peer's record is written before that record was on the peer's disk, and its standby's."""

from __future__ import annotations

from functools import partial

from diana.engine.journal.records import CustodyTaken, Record
from tests.real.durable.journals import Row
from tests.real.durable.rules import Moment, SiteRules, Step, steps_of

CAUSE = {
    "CustodyTaken": "GroupPlaced",
    "TransferCommitted": "CustodyTaken",
    "CustodyRunnable": "TransferCommitted",
    "CommitAcked": "CustodyRunnable",
    "ResultAccepted": "RunsEnded",
    "BatchAcked": "ResultAccepted",
}
"""Record -> the other site's record that it rests on."""
AT_DESTINATION = ("CustodyTaken", "CustodyRunnable", "BatchAcked")
RULE = "a site acts upon what is on its peer's disk"


class Neighbours:
    """`sites`: the rules of each leading node, by site. `until_s`: when they were stopped."""

    def __init__(self, sites: dict[str, SiteRules], until_s: float = float("inf")) -> None:
        self._sites = sites
        self._until_s = until_s
        self._transfers: dict[tuple[str, int], tuple[str, str]] = {}
        """(subgroup, epoch) -> (origin, destination)."""
        for name, rules in sites.items():
            rules.taken.append(partial(self._taken, name))

    def _taken(self, site: str, row: Row, record: Record, moment: Moment) -> None:
        if moment[0] > self._until_s:
            return
        if isinstance(record, CustodyTaken) and record.origin != site:
            self._transfers[record.subgroup, record.epoch] = record.origin, site
        for step in steps_of(record):
            if step[0] in CAUSE and step[1:3] in self._transfers:
                origin, destination = self._transfers[step[1], step[2]]
                self._judge(site, origin if step[0] in AT_DESTINATION else destination, step, moment)

    def _judge(self, site: str, other: str, step: Step, moment: Moment) -> None:
        cause = (CAUSE[step[0]], *step[1:])
        rules = self._sites[other]
        rules.judge(RULE, f"{step} at {site}", rules.facts.steps.get(cause), moment)
        rules.told_steps.setdefault(cause, moment)
