"""Clients' questions about queues, here and elsewhere: other sites are asked first, for a short time."""

from __future__ import annotations

from diana.engine.journal.effects import Refusal, Reply
from diana.engine.journal.events import Ask
from diana.engine.journal.state import Group, Step
from diana.engine.messages.messages import QueueReport, QueueRequest
from diana.engine.migration import swaps
from diana.engine.migration.table import MigrationBook
from diana.engine.placement.draft import Drafts
from diana.engine.placement.outcomes import outcomes, predicted
from diana.engine.site.context import Context
from diana.engine.site.timers import RequestTimer
from diana.engine.views import contracts, gangs, queues
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of, origin_of
from diana.model.trust.principal import Principal
from diana.model.views import views
from diana.model.views.queue import unranked
from diana.policy.trust.authorise import Action, authorise

WAIT_S = 3.0
"""Seconds that a site's answer is waited for."""
MOST_PARTS = 1000
"""Parts of a group that are asked about at one site."""


class Query:
    """A client's question until the sites it concerns have answered, or their time is over."""

    def __init__(self, event: Ask, sites: set[SiteId]) -> None:
        self.event = event
        self.waiting = sites
        self.reports: dict[SiteId, QueueReport] = {}


class OpenQueries:
    """Questions that other sites must answer first. Volatile: their clients ask again."""

    def __init__(self) -> None:
        self.open: dict[int, Query] = {}


def ask_queue(core: Context, event: Ask) -> None:
    """Answer `Ask(what="queue")`, authorised already: now, or when the other site has answered."""
    site = event.site or core.site
    if site == core.site:
        core.reply(Reply(event.request, queues.seen_by(queues.view(core), event.principal)))
    elif site not in core.view.peers:
        text = f"no site {site} known at {core.site}; see: diana sites"
        core.reply(Reply(event.request, Refusal(code="usage", text=text)))
    else:
        _send(core, Query(event, {site}), {site: QueueRequest(query=0, whole=True, parts=())})


def explain(core: Context, event: Ask, group: Group) -> None:
    """Answer why a group's jobs stand where they do: at once, unless jobs of it wait at other sites."""
    parts: dict[SiteId, list[SubgroupId]] = {}
    for part in sorted(group.subgroups):
        subgroup = group.subgroups[part]
        away = subgroup.site != core.site and subgroup.step is Step.COMMITTED
        if away and subgroup.open_jobs() and not subgroup.unreachable:
            parts.setdefault(subgroup.site, []).append(part)
    asked = {s: QueueRequest(query=0, whole=False, parts=tuple(some[:MOST_PARTS])) for s, some in parts.items()}
    _send(core, Query(event, set(asked)), asked)


def _send(core: Context, query: Query, asked: dict[SiteId, QueueRequest]) -> None:
    number = core.ticket()
    core.book(OpenQueries).open[number] = query
    for site in sorted(asked):
        if site in core.view.peers and core.view.peers[site].here:
            core.send(site, QueueRequest(query=number, whole=asked[site].whole, parts=asked[site].parts))
        else:
            query.waiting.discard(site)
    if query.waiting:
        core.after(RequestTimer("query", number), WAIT_S)
    else:
        _answer(core, number)


def on_report(core: Context, sender: SiteId, report: QueueReport) -> None:
    query = core.book(OpenQueries).open.get(report.query)
    if query is None or sender not in query.waiting:
        return
    if any(row.site != sender for row in report.parts) or (report.queue is not None and report.queue.site != sender):
        core.warn(f"{sender} tells of another site's queues")
        return
    query.waiting.discard(sender)
    query.reports[sender] = report
    if not query.waiting:
        _answer(core, report.query)


def on_peer_down(core: Context, site: SiteId) -> None:
    for number, query in list(core.book(OpenQueries).open.items()):
        if site in query.waiting:
            query.waiting.discard(site)
            if not query.waiting:
                _answer(core, number)


def due(core: Context, number: int) -> None:
    if number in core.book(OpenQueries).open:
        _answer(core, number)


# --- answers -----------------------------------------------------------------------------------------------


def _answer(core: Context, number: int) -> None:
    """Answer the client with the reports that have come."""
    query = core.book(OpenQueries).open.pop(number)
    core.timers.cancel(RequestTimer("query", number))
    event = query.event
    if event.what == "explain":
        group = core.state.groups.get(event.group or GroupId(""))
        gone = Refusal(code="usage", text=f"no group {event.group} at {core.site} any more")
        core.reply(Reply(event.request, _explanation(core, group, query) if group else gone))
        return
    report = query.reports.get(event.site or core.site)
    if report is None or report.queue is None:
        text = f"site {event.site} does not answer for its queues; see: diana sites"
        core.reply(Reply(event.request, Refusal(code="unreachable", text=text)))
    else:
        core.reply(Reply(event.request, queues.seen_by(report.queue, event.principal)))


def _explanation(core: Context, group: Group, query: Query) -> views.Explanation:
    """Return the decisions, and every place where jobs of the group wait."""
    home = [s.subgroup for s in group.subgroups.values() if s.site == core.site and s.step is Step.COMMITTED]
    rows = queues.waiting(core, home) if home else []
    for part in sorted(group.subgroups):
        subgroup = group.subgroups[part]
        if subgroup.site == core.site or not subgroup.open_jobs():
            continue
        report = query.reports.get(subgroup.site)
        if report is not None:
            rows += [row for row in report.parts if row.part == part]
            continue
        if subgroup.step is Step.OFFERED and group.spec.is_gang:
            # Told with its gang.
            continue
        note = "offered, not taken yet" if subgroup.step is Step.OFFERED else subgroup.unreachable
        note = note or f"{subgroup.site} does not answer just now"
        rows.append(unranked(subgroup.site, part, group.owner, subgroup.open_jobs(), note))
    held = len(group.holding)
    if held:
        rows.append(unranked(SiteId(""), "", group.owner, held, "held until they are released"))
    rest = len(group.unplaced) - held - len(gangs.spare(group))
    if rest > 0:
        note = core.waiting_notes.get(group.group) or group.on_hold or "not placed yet"
        rows.append(unranked(SiteId(""), "", group.owner, rest, note))
    achieved = group.ended_s() if group.state else -1.0
    said = predicted(group)
    return views.Explanation(
        group=group.group,
        decisions=tuple(group.decisions),
        achieved_s=achieved,
        waiting=tuple(rows),
        outcomes=outcomes(group),
        predicted_s=said.end_s,
        predicted_low_s=said.low_s,
        predicted_high_s=said.high_s,
        placed_s=group.foretold.at_s - group.submitted_s if group.foretold else -1.0,
        stays=() if group.state else core.book(MigrationBook).kept.get(group.group, ()),
        gangs=gangs.waiting(core, group, query.event.job),
        begun=gangs.begun(core, group, query.event.job),
        contracts=contracts.told(core, group),
        ways=group.ways,
        refused=core.book(Drafts).refused(group.group, core.waiting_notes.get(group.group, "")),
        exchanges=swaps.told(core, group),
    )


# --- for other sites ------------------------------------------------------------------------------------------


def answer(core: Context, sender: SiteId, asked: QueueRequest) -> None:
    """Answer another site: it may see the queues, and the parts that it handed over."""
    why = authorise(Principal.peer(sender), Action.QUOTE)
    if why:
        core.warn(why)
        return
    own = [part for part in asked.parts[:MOST_PARTS] if origin_of(group_of(part)) == sender]
    core.send(
        sender,
        QueueReport(
            query=asked.query,
            queue=queues.view(core) if asked.whole else None,
            parts=tuple(queues.waiting(core, own)) if own else (),
        ),
    )
