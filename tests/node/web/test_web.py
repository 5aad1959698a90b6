"""The dashboard's server: whom it lets in, what it lets them do, and what it tells pages that are open."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from diana.errors import UsageError
from diana.model.trust.principal import Principal, Role
from diana.model.views.link import LinkMap, LinkView
from diana.model.views.peers import Peers
from diana.model.views.views import Info
from diana.node.activity import COARSE_EVERY, FINE, Activity
from diana.node.ways_in.door import Views
from diana.node.ways_in.users import LocalUsers
from diana.node.web import connections, live
from diana.node.web.config import Web
from diana.node.web.drawn import MOST_LINES, drawn
from diana.node.web.server import WebServer
from diana.wire.client.dashboard import DashboardRequest
from diana.wire.client.peers import PeersResponse
from tests.client.nodelike import ALICE, HOME, ROOT, Nodelike, view

WALL_S = 1_000_000.0


class Insight:
    def describe(self, found: Peers) -> PeersResponse:
        return PeersResponse(site=HOME)

    def notes(self) -> dict[str, str]:
        return {}


class Shown:
    """A node with its dashboard, and a browser's half of it."""

    def __init__(self, node: Nodelike, http: aiohttp.ClientSession, settings: Web) -> None:
        self.node, self.http, self.wall_s = node, http, WALL_S
        self.server = self.another(settings)

    def another(self, settings: Web) -> WebServer:
        return WebServer(
            settings, self.node.data, self.node.api, loopback=True, advertise="127.0.0.1", wall_s=lambda: self.wall_s
        )

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def ticket(self, caller: Principal = ROOT) -> str:
        return self.server.let_in(caller, DashboardRequest()).url.partition("#enter=")[2]

    async def token(self, caller: Principal = ROOT) -> str:
        return str((await self.post("/api/session", "", {"ticket": self.ticket(caller)}))[1]["token"])

    async def post(self, path: str, token: str, body: object = None) -> tuple[int, Any]:
        data = body if isinstance(body, str | bytes) else json.dumps(body or {})
        headers = {"Authorization": f"Bearer {token}"}
        async with self.http.post(f"{self.base}{path}", headers=headers, data=data) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text else None


@asynccontextmanager
async def shown(root: Path, **settings: Any) -> AsyncIterator[Shown]:
    async with Nodelike(root) as node, aiohttp.ClientSession() as http:
        node.data.keys.mkdir(exist_ok=True)
        it = Shown(node, http, Web(**settings))
        node.api._desk.insight = Insight()  # type: ignore[assignment]
        node.api.show(Views(it.server, Activity(node.api.look)))
        it.server.start(0)
        try:
            yield it
        finally:
            await it.server.stop()


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Shown]:
    async with shown(tmp_path / "alpha") as one:
        yield one


# --- whom it lets in -----------------------------------------------------------------------------------------


async def test_pages_are_served_to_anybody_and_may_load_nothing_from_elsewhere(it: Shown) -> None:
    kinds = {"/": "text/html", "/main.js": "text/javascript", "/draw.js": "text/javascript", "/app.css": "text/css"}
    for path, kind in kinds.items():
        async with it.http.get(it.base + path) as answer:
            assert (answer.status, answer.content_type) == (200, kind)
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
    for path in ("/../config.py", "/%2e%2e/config.py", "/nothing.js", "/api"):
        async with it.http.get(it.base + path) as answer:
            assert answer.status in (404, 405)


async def test_a_ticket_lets_one_browser_in_once_and_soon(it: Shown) -> None:
    ticket = it.ticket(ALICE)
    status, content = await it.post("/api/session", "", {"ticket": ticket})
    assert status == 200
    status, info = await it.post("/api/Info", content["token"])
    assert (status, info["principal"], info["role"]) == (200, ALICE.name, "user")
    status, content = await it.post("/api/session", "", {"ticket": ticket})
    assert (status, content["failure"]["code"]) == (401, "denied")
    late = it.ticket()
    it.wall_s += 121
    assert (await it.post("/api/session", "", {"ticket": late}))[0] == 401
    assert (await it.post("/api/session", "", ["no ticket"]))[0] == 400


async def test_a_session_ends_when_its_time_is_over_and_holds_over_a_restart(it: Shown) -> None:
    token = await it.token()
    again = it.another(Web())
    assert again.sessions.of(token) is None, "what was heard at another port is void"
    again.sessions.port = it.server.port
    found = again.sessions.of(token)
    assert found is not None and found.caller == ROOT
    it.wall_s += 12 * 3600 + 1
    assert (await it.post("/api/Info", token))[0] == 401
    assert again.sessions.of(token) is None


@pytest.mark.parametrize("token", ["", "x", "gAAAAAB" + "A" * 100])
async def test_nobody_comes_in_with_a_token_that_is_not_ours(it: Shown, token: str) -> None:
    status, content = await it.post("/api/Info", token)
    assert status == 401
    assert "diana dashboard" in content["failure"]["text"]
    async with it.http.get(f"{it.base}/api/live", headers={"Authorization": f"Bearer {token}"}) as answer:
        assert answer.status == 401


async def test_a_token_for_the_metrics_opens_no_page(it: Shown) -> None:
    token = it.server.let_in(ROOT, DashboardRequest(scope="metrics", for_s=365 * 86400.0)).token
    status, content = await it.post("/api/Info", token)
    assert (status, content["failure"]["code"]) == (403, "denied")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (DashboardRequest(scope="all"), "no scope 'all'; want pages or metrics"),
        (DashboardRequest(for_s=1e6), "1e+06 s is out of range; want at most 43200"),
        (DashboardRequest(for_s=-1), "-1 s is out of range"),
    ],
)
async def test_what_cannot_be_given_is_refused_in_one_line(it: Shown, asked: DashboardRequest, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        it.server.let_in(ROOT, asked)


# --- what it lets them do ------------------------------------------------------------------------------------


async def test_a_page_does_what_its_user_may_and_no_more(it: Shown) -> None:
    book = it.node.book
    book.groups["alpha-1"] = view("alpha-1", ALICE.name, 10)
    book.groups["alpha-2"] = view("alpha-2", "bob@lab", 10)
    token = await it.token(ALICE)
    _, content = await it.post("/api/Status", token)
    assert [row["group"] for row in content["groups"]] == ["alpha-1"]
    assert (await it.post("/api/Cancel", token, {"target": "alpha-1"})) == (200, {"jobs": 10})
    assert (await it.post("/api/Cancel", token, {"target": "alpha-2"}))[0] == 403
    assert (await it.post("/api/Doctor", token))[0] == 403
    assert (await it.post("/api/Operate", token, {"order": "drain"}))[0] == 403


@pytest.mark.parametrize("call", ["Submit", "Upload", "Stop", "Invite", "Promote", "Dashboard", "Fetch", "nonsense"])
async def test_what_pages_do_not_do_they_cannot(it: Shown, call: str) -> None:
    status, content = await it.post(f"/api/{call}", await it.token())
    assert status == 400
    assert "not through the dashboard" in content["failure"]["text"]


async def test_orders_that_are_not_easily_undone_stay_with_the_command_line(it: Shown) -> None:
    token = await it.token()
    for order in ("ban", "set-policy", "remove-machine"):
        status, content = await it.post("/api/Operate", token, {"order": order, "name": "site:beta"})
        says = f"site {order}: not through the dashboard; use diana site {order}"
        assert (status, content["failure"]["text"]) == (400, says)


DEEP = '{"unknown": ' + "[" * 50_000


@pytest.mark.parametrize("body", ["{", "[]", '{"groups": 5}', '"x"', DEEP], ids=["{", "[]", "number", "text", "deep"])
async def test_nonsense_is_refused_in_one_line(it: Shown, body: str) -> None:
    status, content = await it.post("/api/Status", await it.token(), body)
    assert status == 400
    assert "\n" not in content["failure"]["text"]


async def test_a_body_beyond_the_limit_is_not_read(it: Shown) -> None:
    assert (await it.post("/api/Status", await it.token(), b"x" * (1 << 20)))[0] == 413


async def test_a_call_of_many_messages_may_fail_or_have_nothing_to_say(it: Shown) -> None:
    token = await it.token(ALICE)
    assert (await it.post("/api/Results", token, {"group": "alpha-9"}))[0] == 400
    it.node.book.groups["alpha-1"] = view("alpha-1", ALICE.name, 1, state="done", final=True)
    assert await it.post("/api/Results", token, {"group": "alpha-1"}) == (200, None)


async def test_who_is_trusted_no_more_is_out_at_once_and_who_is_no_operator_any_more_is_a_user(it: Shown) -> None:
    token = await it.token(ROOT)
    assert (await it.post("/api/Info", token))[1]["role"] == "operator"
    it.server.by_now = lambda was: Principal(Role.USER, was.name)
    assert (await it.post("/api/Info", token))[1]["role"] == "user"
    it.server.by_now = lambda was: None
    assert (await it.post("/api/Info", token))[0] == 401


def test_operators_are_asked_for_anew_by_account_and_by_name() -> None:
    users = LocalUsers("lab", operators=("nobody", "ann@lab"))
    for name, role in (("root@lab", Role.OPERATOR), ("nobody@lab", Role.OPERATOR), ("ann@lab", Role.OPERATOR)):
        assert users.by_now(Principal(Role.OPERATOR, name)).role is role
    assert users.by_now(Principal(Role.OPERATOR, "bob@lab")).role is Role.USER
    assert users.by_now(Principal(Role.USER, "ann@lab")).role is Role.USER


async def test_who_connects_and_says_nothing_is_let_go(it: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    await it.token()
    monkeypatch.setattr(connections, "FIRST_S", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", it.server.port)
    writer.write(b"GET / HTT")
    async with asyncio.timeout(60):
        with suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()


async def test_no_more_connect_than_are_served(it: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    await it.token()
    monkeypatch.setattr(connections, "MOST", 8)
    monkeypatch.setattr(connections, "FIRST_S", 600.0)
    open_ones = [await asyncio.open_connection("127.0.0.1", it.server.port) for _ in range(12)]
    reads = [asyncio.create_task(reader.read(1)) for reader, _ in open_ones]
    async with asyncio.timeout(60):
        while sum(read.done() for read in reads) < 4:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert sum(read.done() for read in reads) <= 5, "one of them may be that of the login"
    for _, writer in open_ones:
        writer.close()
    await asyncio.gather(*reads, return_exceptions=True)


# --- what it tells pages that are open -----------------------------------------------------------------------


class Viewer:
    """A page's half of the feed."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self, *wanted: str) -> tuple[str, Any]:
        """The next event, or the next of these names; EOFError at the feed's end."""
        async with asyncio.timeout(60):
            while True:
                first = await self._answer.content.readline()
                if not first:
                    raise EOFError
                name = first.decode().removeprefix("event: ").strip()
                data = (await self._answer.content.readline()).decode().removeprefix("data: ")
                await self._answer.content.readline()
                if not wanted or name in wanted:
                    return name, json.loads(data)


@asynccontextmanager
async def viewing(it: Shown, token: str) -> AsyncIterator[Viewer]:
    async with it.http.get(f"{it.base}/api/live", headers={"Authorization": f"Bearer {token}"}) as answer:
        assert answer.status == 200
        yield Viewer(answer)


async def test_an_open_page_is_told_all_first_and_then_what_changed(it: Shown) -> None:
    book = it.node.book
    for number in (1, 2):
        book.groups[f"alpha-{number}"] = view(f"alpha-{number}", ALICE.name, 10)
    token = await it.token()
    async with viewing(it, token) as page:
        _, first = await page.next("groups")
        assert (first["whole"], [row["group"] for row in first["rows"]]) == (True, ["alpha-1", "alpha-2"])
        book.groups["alpha-1"] = msgspec.structs.replace(book.groups["alpha-1"], done=3, age_s=7.0)
        _, then = await page.next("groups")
        assert (then["whole"], [(row["group"], row["done"]) for row in then["rows"]]) == (False, [("alpha-1", 3)])
        del book.groups["alpha-2"]
        _, later = await page.next("groups")
        assert (later["gone"], later["rows"]) == (["alpha-2"], [])
        # Who comes later is told all as it stands.
        async with viewing(it, token) as other:
            _, whole = await other.next("groups")
            assert (whole["whole"], [row["group"] for row in whole["rows"]]) == (True, ["alpha-1"])


async def test_what_cannot_be_told_now_is_said_and_the_rest_shows_all_the_same(it: Shown) -> None:
    async with viewing(it, await it.token()) as page:
        seen = set()
        while (event := await page.next())[0] != "trouble":
            seen.add(event[0])
        assert event[1] == {"text": "the queues cannot be told now"}
        assert seen >= {"info", "sites", "links", "peers", "groups", "now"}


async def test_looking_on_costs_a_user_no_calls_and_ends_with_the_trust_in_them(
    it: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.01)
    trusted = [True]
    it.server.by_now = lambda was: was if trusted else None
    token = await it.token(ALICE)
    async with viewing(it, token) as page:
        await page.next("groups")
        for number in range(10):
            it.node.book.groups["alpha-1"] = view("alpha-1", ALICE.name, 100, done=number)
            await page.next("groups")
        left = it.node.api._rates._left.get(ALICE.name)
        assert left is None or left[1] > 990
        trusted.clear()
        with pytest.raises(EOFError):
            await page.next("never")


async def test_ten_viewers_of_one_user_cost_the_engine_as_one(it: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.05)
    token = await it.token()
    look, feeds, turns = live.Feed._news, set[live.Feed](), list[int]()

    async def counted(feed: live.Feed) -> Any:
        before = it.node.book.requests
        feeds.add(feed)
        try:
            return await look(feed)
        finally:
            turns.append(it.node.book.requests - before)

    monkeypatch.setattr(live.Feed, "_news", counted)

    async def asked(viewers: int) -> int:
        """Requests of a turn of the only feed there is; what is looked at seldom left aside."""
        async with AsyncExitStack() as stack:
            for _ in range(viewers):
                page = await stack.enter_async_context(viewing(it, token))
                await page.next("now")
            feeds.clear()
            turns.clear()
            async with asyncio.timeout(60):
                while len(turns) < 6:
                    await asyncio.sleep(0.01)
            assert len(feeds) == 1
            return min(turns)

    assert 0 < await asked(1) == await asked(10)


async def test_nobody_looking_costs_nothing(it: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.05)
    async with viewing(it, await it.token()) as page:
        await page.next("now")
    # However late a busy machine hears that nobody looks any more.
    async with asyncio.timeout(60):
        before = -1
        while it.node.book.requests != before:
            before = it.node.book.requests
            await asyncio.sleep(0.5)


async def test_a_viewer_that_does_not_read_is_let_go(it: Shown) -> None:
    feed = live.Feed(it.node.api, ROOT, lambda: it.wall_s)
    events = feed.follow()
    await anext(events)
    for number in range(3 * live.WAITING):
        for queue in feed._viewers:
            live._tell(queue, ("now", b"%d" % number))
    left = [event async for event in events]
    assert len(left) <= live.WAITING
    assert feed.viewers == 0


# --- where -----------------------------------------------------------------------------------------------------


async def test_the_port_is_the_same_again_and_another_where_it_was_taken(it: Shown) -> None:
    await it.server.stop()
    port = it.server.port
    again = it.another(Web())
    assert again.start(port) == port
    await again.stop()
    with socket.create_server(("127.0.0.1", port)):
        other = it.another(Web())
        assert other.start(port) not in (0, port)
        await other.stop()
        with pytest.raises(UsageError, match=f'listen on 127.0.0.1:{port} .*; choose another, or "none"'):
            it.another(Web(listen=f"127.0.0.1:{port}")).start(0)


async def test_an_operator_may_want_no_dashboard(tmp_path: Path) -> None:
    async with shown(tmp_path / "alpha", listen="none") as it:
        with pytest.raises(UsageError, match="shows no dashboard; its operator says where"):
            it.server.let_in(ROOT, DashboardRequest())


def test_a_map_has_one_line_for_both_directions_and_the_site_s_own_first() -> None:
    def link(source: str, target: str, rtt_s: float, backlog: int = 0) -> LinkView:
        return LinkView(source=source, target=target, rtt_s=rtt_s, bytes_per_s=-1.0, loss=0.0, backlog_bytes=backlog)

    some = (link("c", "b", 0.001), link("b", "a", 0.2), link("a", "b", 0.3, 5), link("d", "c", 0.5, 9))
    lines = [
        (line.a, line.b, line.rtt_s, line.backlog_bytes, line.to) for line in drawn(LinkMap(site="a", links=some)).lines
    ]
    assert lines == [("a", "b", 0.3, 5, "b"), ("c", "d", 0.5, 9, "c"), ("b", "c", 0.001, 0, "")]
    many = tuple(link(f"x{n}", "y", 0.1) for n in range(MOST_LINES + 50))
    found = drawn(LinkMap(site="a", links=many, links_left_out=7))
    assert (len(found.lines), found.left_out) == (MOST_LINES, 57)


def test_samples_stay_fine_for_an_hour_and_coarse_for_two_days() -> None:
    async def never() -> Info:
        raise AssertionError

    activity = Activity(never)
    info = Info(site=HOME, db_uuid="", generation=1, groups=0, queued_jobs=0, running_jobs=2, slots=4, free_slots=1)
    for number in range(40_000):
        activity.note(msgspec.structs.replace(info, jobs_done=number), 10.0 * number)
    told = activity.since(0.0)
    at = list(told.at_wall_s)
    assert at == sorted(at)
    assert at[-FINE:] == [10.0 * n for n in range(40_000 - FINE, 40_000)]
    assert 1.9 * 86400 < at[-1] - at[0] < 2.1 * 86400
    assert at[1] - at[0] == 10.0 * COARSE_EVERY
    assert (told.done[-1], told.used_slots[-1], told.running[-1]) == (39_999, 3, 2)
    assert activity.since(at[-3]).at_wall_s == tuple(at[-2:])
