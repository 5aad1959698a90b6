"""The cost that a lost or old database of a site may have, and no more (PROMISES sections 1 and 2).

Groups that the site had accepted since the copy was made are gone with it, but for those that its peers show again; no
promise covers what is gone. Every job of the other groups it had to do with stays in sight, perhaps held or
unreachable; its records may contradict what was said before. Two rules hold for these jobs as for all: no job really
starts twice, and none is done that did not run to its end. Only a user's own word, a release after the restore or a
retry, has something run again."""

from __future__ import annotations

from diana.engine.journal import records as r
from diana.engine.journal.records import HoldLifted, PartDisowned
from diana.engine.journal.state import SiteState
from diana.model.facts import Outcome
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of, origin_of
from diana.model.views.views import GroupView
from diana.sim.checks.stories import GroupStory, Transfer, TransferStory


class Aftermath:
    """`touched` are the groups whose records may contradict themselves, `gone` those that nobody knows any more."""

    __slots__ = ("gone", "lifted", "sites", "touched")

    def __init__(self) -> None:
        self.touched: set[GroupId] = set()
        self.gone: set[GroupId] = set()
        self.lifted: set[GroupId] = set()
        """Groups whose users released them after the restore."""
        self.sites: set[SiteId] = set()

    def put_back(
        self,
        site: SiteId,
        state: SiteState,
        groups: dict[GroupId, GroupStory],
        transfers: dict[Transfer, TransferStory],
    ) -> None:
        """`state` is what the site's store gives now."""
        self.sites.add(site)
        own = {name for name in groups if origin_of(name) == site}
        self.gone |= own - state.groups.keys()
        self.touched |= own
        self.touched |= {group_of(part) for (part, _), story in transfers.items() if story.site == site}

    def excuses(self, record: r.Record) -> bool:
        """True if the record is of a group that was touched."""
        if not self.touched:
            return False
        part: SubgroupId = getattr(record, "subgroup", SubgroupId(""))
        return getattr(record, "group", group_of(part)) in self.touched

    def look(
        self, record: r.Record, groups: dict[GroupId, GroupStory], transfers: dict[Transfer, TransferStory]
    ) -> tuple[GroupId, int, str] | None:
        """Note a record of a group that was touched; returns group, job and what is wrong all the same, or None."""
        match record:
            case r.ResultAccepted():
                name = group_of(record.subgroup)
                for job in record.saved:
                    stopped = groups[name].lives.get(job.index)
                    if stopped is not None and (stopped.run.subgroup, stopped.run.epoch) == (
                        record.subgroup,
                        record.epoch,
                    ):
                        stopped.again = stopped.outcome in (Outcome.CHECKPOINTED, Outcome.CANCELLED)
                for index in record.done:
                    # Another life of it may have begun since, which this journal does not know of.
                    if index not in groups[name].ran_well.get((record.subgroup, record.epoch), ()):
                        life = groups[name].lives.get(index)
                        how = life.outcome if life else "nowhere"
                        return name, index, f"accepted as done, but it ended {how}"
            case r.GroupSubmitted():
                if record.group not in self.gone or record.jobs != groups[record.group].jobs:
                    return record.group, -1, "came back, and was not gone so"
                self.gone.discard(record.group)
            case r.JobsRetried():
                # A job that runs may not run beside itself, whoever asks.
                lives = groups[record.group].lives
                for index in record.indices:
                    if index in lives:
                        lives[index].again = lives[index].outcome is not None
            case PartDisowned():
                group = groups[group_of(record.subgroup)]
                if group.gang_size:
                    _closes(group, record, transfers)
                # Any other old copy is to be dead by now (promise 7).
                lives = group.lives
                for index in record.indices:
                    if index in lives:
                        lives[index].again = lives[index].outcome is not None
            case HoldLifted():
                self.lifted.add(record.group)
                for life in groups[record.group].lives.values():
                    life.again = life.again or (life.site in self.sites and life.outcome is not None)
        return None

    def rests(self, view: GroupView, held_away: int = 0) -> bool:
        """True if the group was touched and nothing more can come of it by itself: all its jobs are over, held, or out
        of reach. `held_away`: jobs under their user's hold at other sites, of which the origin may not have heard."""
        # A site that was put back takes work until it is told that it fell; what it took is held with the rest.
        taken = any(share.site in self.sites and share.state == "unreachable" for share in view.shares)
        if view.group not in self.touched and not taken:
            return False
        queued = max(0, view.queued - held_away)
        still = view.running + queued + view.staging + (0 if view.state == "held" else view.unplaced)
        return view.final or not still


def _closes(group: GroupStory, record: PartDisowned, transfers: dict[Transfer, TransferStory]) -> None:
    """Note components that are to end before the next attempt of their gang begins: a broken gang is placed anew after
    a restore as at any time."""
    transfer: Transfer = (record.subgroup, record.epoch)
    if transfer in transfers:
        transfers[transfer].disowned = transfers[transfer].disowned | record.indices
    for index in record.indices:
        life = group.lives.get(index)
        if life is not None and (life.run.subgroup, life.run.epoch) == transfer and not life.again:
            group.closing[index] = group.lives.pop(index)
