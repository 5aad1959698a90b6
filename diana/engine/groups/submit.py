"""A user's submission: refused, known already, accepted at once, or accepted when its data were found."""

from __future__ import annotations

from diana.engine.journal.effects import Refusal, Reply
from diana.engine.journal.events import SubmitGroup
from diana.engine.placement import quote_round
from diana.engine.placement.accept import accept, known_key, refusal, surely_placeable
from diana.engine.placement.draft import Draft, Drafts, NewGroup, Placement, PlanOnly
from diana.engine.site.context import Context
from diana.model.indexset import IndexSet
from diana.policy.trust.authorise import Action, authorise


def submit(core: Context, event: SubmitGroup) -> None:
    why = authorise(event.principal, Action.PLAN if event.plan_only else Action.SUBMIT)
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return
    # A submission that stands already is answered even by a site that takes nothing new.
    if event.key and not event.plan_only and known_key(core, event):
        return
    why_not = refusal(core, event)
    if why_not:
        core.reply(Reply(event.request, why_not))
        return
    purpose = PlanOnly(event) if event.plan_only else NewGroup(event, [event.request])
    jobs = IndexSet.span(0, event.jobs)
    draft = Draft(core.ticket(), event.spec, jobs, event.refs, owner=event.principal.name, purpose=purpose)
    if isinstance(purpose, NewGroup) and not draft.sought() and surely_placeable(core, event.spec):
        draft.purpose = Placement(accept(core, purpose).group)
        # A peer that comes up for its quote would have the group priced a second time.
        core.book(Drafts).groups.add(draft.purpose.group)
    quote_round.ask(core, draft)
