"""Calls of operators: invite, drain, ban, remove a machine, the VO's policy; and what stands in the VO's ledger."""

from __future__ import annotations

import json
from typing import Any

from diana.bounds import json_of
from diana.engine.journal.events import Ask, DrainSite, GiveUpSite, GoOn, MachineRemoved, SayStatement
from diana.errors import DianaError, UsageError
from diana.model.ids import SiteId
from diana.model.maintenance import utc
from diana.model.trust.ledger import MOST_REASON, POLICY, checked_entry
from diana.model.trust.principal import Principal
from diana.model.views import views
from diana.model.views.ledger import LedgerView
from diana.model.words import counted
from diana.node.api.desk import Desk
from diana.wire.client import messages as wire
from diana.wire.client.enrol import InviteRequest, InviteResponse
from diana.wire.client.operators import LedgerResponse, OperateRequest, OperateResponse


async def operate(desk: Desk, caller: Principal, request: OperateRequest) -> OperateResponse:
    reason = request.reason.strip()
    if len(reason) > MOST_REASON or not reason.isprintable():
        raise UsageError(f"reason: want one line of at most {MOST_REASON} characters")
    match request.order:
        case "drain" | "undrain":
            if request.order == "drain" and request.to_wall_s:
                return await _maintenance(desk, caller, request.from_wall_s, request.to_wall_s, reason)
            return await _drain(desk, caller, request.order == "drain", reason)
        case "ban" | "unban":
            return await _ban(desk, caller, request.order == "ban", request.name, reason)
        case "remove-machine":
            await desk.request(
                views.Ok, lambda number: MachineRemoved(request=number, principal=caller, machine=request.name)
            )
            return OperateResponse(
                text=f"machine {request.name} is given up; what it ran counts as interrupted and follows on_crash"
            )
        case "give-up":
            return await _give_up(desk, caller, SiteId(request.name))
        case "go-on":
            site = SiteId(request.name)
            await desk.request(views.Ok, lambda number: GoOn(request=number, principal=caller, site=site))
            return OperateResponse(text=f"{desk.about.site} waits no longer for the word of {request.name}")
        case "set-policy":
            return await _policy(desk, caller, request.values_json)
    some = "drain, undrain, ban, unban, give-up, remove-machine, go-on or set-policy"
    raise UsageError(f"order {request.order!r}: want {some}")


async def _drain(desk: Desk, caller: Principal, on: bool, reason: str) -> OperateResponse:
    site = desk.about.site
    done = await desk.request(
        views.Ok, lambda number: DrainSite(request=number, principal=caller, on=on, reason=reason)
    )
    if not done.count:
        return OperateResponse(text=await _as_it_was(desk, caller, on))
    text = f"{site} takes no new work; what is here runs out" if on else f"{site} takes work again"
    return OperateResponse(text=text)


async def _maintenance(
    desk: Desk, caller: Principal, from_wall_s: float, to_wall_s: float, reason: str
) -> OperateResponse:
    await desk.request(
        views.Ok,
        lambda number: DrainSite(
            request=number, principal=caller, on=True, reason=reason, from_wall_s=from_wall_s, to_wall_s=to_wall_s
        ),
    )
    begin = utc(from_wall_s) if from_wall_s else "now"
    text = f"{desk.about.site} takes no work from {begin} to {utc(to_wall_s)}; what would not end before is not started"
    return OperateResponse(text=text)


async def _as_it_was(desk: Desk, caller: Principal, on: bool) -> str:
    found = await desk.request(LedgerView, lambda number: Ask(request=number, principal=caller, what="ledger"))
    if not on:
        still = f": {found.drained}; mend [[maintenance]] in site.toml" if found.drained else ""
        return f"{desk.about.site} is {'drained by its site.toml' if found.drained else 'not drained'}{still}"
    why = "" if found.drained in ("", "drained") else f" ({found.drained})"
    return f"{desk.about.site} is drained already{why}; diana site undrain ends it, --reason gives another reason"


async def _ban(desk: Desk, caller: Principal, on: bool, name: str, reason: str) -> OperateResponse:
    about = checked_about(name)
    await desk.request(
        views.Ok,
        lambda number: SayStatement(
            request=number,
            principal=caller,
            kind="revoke" if on else "lift",
            about=about,
            reason=reason,
            wall_s=desk.wall_s(),
        ),
    )
    if on:
        text = f"{about} is banned from {desk.about.vo}; all hear of it within a minute"
        if about.startswith("site:"):
            text += f"; to have what it took run elsewhere: diana site give-up {about.removeprefix('site:')}"
        return OperateResponse(text=text + await _unheard_of(desk, caller, about))
    return OperateResponse(text=f"{about} is trusted again in {desk.about.vo}")


async def _give_up(desk: Desk, caller: Principal, site: SiteId) -> OperateResponse:
    given = await desk.request(views.Ok, lambda number: GiveUpSite(request=number, principal=caller, site=site))
    jobs = counted(given.count, "job")
    return OperateResponse(text=f"{jobs} of {desk.about.site} at {site} are placed anew; what runs there may run twice")


async def _unheard_of(desk: Desk, caller: Principal, about: str) -> str:
    """A ban of a name that was mistyped bans nobody, and somebody should say so."""
    kind, _, name = about.partition(":")
    if kind == "user" and name.partition("@")[2] != desk.about.vo:
        return f" (this VO is {desk.about.vo}: check the name)"
    if kind != "site":
        return ""
    found = await desk.request(views.Sites, lambda number: Ask(request=number, principal=caller, what="sites"))
    return (
        "" if any(row.shown.site == name for row in found.sites) else f" (no site {name} is known here: check the name)"
    )


def checked_about(name: str) -> str:
    """A site by its bare name, or any entry of a ban in full."""
    try:
        return checked_entry(name if ":" in name else f"site:{name}")
    except ValueError as error:
        raise UsageError(f"ban: {error}") from None


async def _policy(desk: Desk, caller: Principal, values_json: str) -> OperateResponse:
    try:
        values: Any = json_of(values_json)
    except ValueError:
        raise UsageError("policy: not JSON; upgrade the client or the node") from None
    if not isinstance(values, dict):
        raise UsageError("policy: want a table of settings")
    await desk.request(
        views.Ok,
        lambda number: SayStatement(
            request=number, principal=caller, kind="policy", about=POLICY, values=values, wall_s=desk.wall_s()
        ),
    )
    what = ", ".join(sorted(values)) or "nothing: every site has its own again"
    return OperateResponse(text=f"the policy of {desk.about.vo} sets {what}")


async def ledger(desk: Desk, caller: Principal, request: wire.Empty) -> LedgerResponse:
    found = await desk.request(LedgerView, lambda number: Ask(request=number, principal=caller, what="ledger"))
    return LedgerResponse(
        values_json=json.dumps(found.values, sort_keys=True) if found.by else "",
        by=found.by,
        since_wall_s=found.since_wall_s,
        here=found.here,
        banned=found.banned,
        drained=found.drained,
    )


async def invite(desk: Desk, caller: Principal, request: InviteRequest) -> InviteResponse:
    """The token is nowhere kept: who lost it has another made."""
    if desk.inviter is None:
        raise DianaError("this node takes no part in enrolment")
    return await desk.inviter.invite(caller.name, request)
