"""The calls behind `diana dashboard` and its pictures."""

from __future__ import annotations

from typing import Protocol

from diana.errors import UsageError
from diana.model.trust.principal import Principal
from diana.node.activity import Activity
from diana.node.api.desk import Desk
from diana.wire.client import messages as wire


class Pages(Protocol):
    def let_in(self, caller: Principal, request: wire.DashboardRequest) -> wire.DashboardResponse:
        """`errors.UsageError` where the operator wants no dashboard, or for what it does not have."""
        ...


class Views:
    """The dashboard's pages and the site's activity; both stand from the node's start on."""

    def __init__(self, pages: Pages, activity: Activity) -> None:
        self.pages = pages
        self.activity = activity


async def dashboard(desk: Desk, caller: Principal, request: wire.DashboardRequest) -> wire.DashboardResponse:
    return _views(desk).pages.let_in(caller, request)


async def activity(desk: Desk, caller: Principal, request: wire.ActivityRequest) -> wire.ActivityResponse:
    return _views(desk).activity.since(request.after_wall_s)


def _views(desk: Desk) -> Views:
    if desk.views is None:
        raise UsageError("this machine shows no dashboard; ask the one that leads its site")
    return desk.views
