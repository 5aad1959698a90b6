"""The page itself: tables that are filled as answers come, keys, and what is done to a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.widgets import DataTable, Footer, Input, Static
from textual.worker import WorkerFailed

from diana.cli.shared import output
from diana.cli.top import tables
from diana.cli.top.orders import ORDERS, question
from diana.cli.top.reading import PageReader
from diana.cli.top.screens import Question, StoryScreen
from diana.cli.top.table import COLUMNS, RowTable
from diana.errors import DianaError, Overloaded
from diana.model.views.group import GroupStatus
from diana.wire.client import messages as wire

if TYPE_CHECKING:
    from diana.client import AsyncClient

SHORT = 30
"""Lines below which the page shows sites and groups only; the other tables fill it when asked for."""
_OF_THE_PAGE = frozenset(("show", "look_for", "active", "act", "whole_page"))
MOST_WAIT_S = 5.0
"""Seconds between two tries of a node that does not answer."""


class Top(App[None]):
    """`connect` makes the client within the app's event loop."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #line { height: 1; }
    RowTable { height: auto; border: round $primary; scrollbar-size-vertical: 1; }
    RowTable:focus { border: round $accent; }
    #sites { max-height: 30%; }
    #queue { max-height: 25%; }
    #groups { height: 1fr; min-height: 6; }
    #below { height: auto; max-height: 25%; }
    #machines, #peers { width: 1fr; max-height: 100%; }
    #word { display: none; height: 3; }
    #word.-asked { display: block; }
    .-short #queue, .-short #below { display: none; }
    .-one RowTable, .-one #below { display: none; }
    .-one RowTable.-this, .-one #below.-this { display: block !important; height: 1fr; max-height: 100% !important; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
        Binding("s", "show('sites')", "sites"),
        Binding("u", "show('queue')", "queue"),
        Binding("g", "show('groups')", "groups"),
        Binding("m", "show('machines')", "machines"),
        Binding("p", "show('peers')", "peers"),
        Binding("slash", "look_for", "filter"),
        Binding("a", "active", "open, all"),
        Binding("c", "act('cancel')", "cancel"),
        Binding("h", "act('hold')", "hold"),
        Binding("r", "act('again')", "release, retry"),
        Binding("escape", "whole_page", "whole page", show=False),
    ]

    def __init__(
        self, connect: Callable[[], AsyncClient], info: wire.InfoResponse, *, mine: bool = False, every_s: float = 1.0
    ) -> None:
        super().__init__()
        self.every_s = every_s
        self.fault: Exception | None = None
        """The fault of ours that ended the page; None: it was left."""
        self._connect = connect
        self._info = info
        self._mine = mine
        self._word = ""
        self._again = asyncio.Event()
        self._unheard_since_s: float | None = None
        # By name they would not be found any more while the page is taken away, and answers come then too.
        self._line = Static(id="line")
        self._tables = {name: RowTable(name) for name in COLUMNS}
        self._asked = Input(
            id="word", placeholder="only rows that hold this; Enter: back to the table, Escape: all rows"
        )

    def compose(self) -> ComposeResult:
        yield self._line
        for name in ("sites", "queue", "groups"):
            yield self._tables[name]
        with Horizontal(id="below"):
            yield self._tables["machines"]
            yield self._tables["peers"]
        yield self._asked
        yield Footer()

    def on_mount(self) -> None:
        self.client = self._connect()
        self._reader = PageReader(self.client, mine=self._mine, every_s=self.every_s)
        self._tables["groups"].focus()
        self._say("")
        self.run_worker(self._follow(), name="page")

    async def on_unmount(self) -> None:
        await self.client.close()

    def on_resize(self, event: Resize) -> None:
        self.screen_stack[0].set_class(event.size.height < SHORT, "-short")

    # --- what it shows -------------------------------------------------------------------------------

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            wait_s = self.every_s
            self._again.clear()
            try:
                self._fill(await self._reader.read(loop.time()))
            except (DianaError, TimeoutError) as error:
                wait_s = self._away(error, loop.time())
            else:
                self._unheard_since_s = None
                self._say("")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), wait_s)

    def _away(self, error: Exception, now_s: float) -> float:
        """Says so; the seconds until the next try."""
        since_s = self._unheard_since_s = self._unheard_since_s or now_s
        why = str(error) or "the node does not answer"
        self._say(f"unreachable for {output.seconds(max(1.0, now_s - since_s))}, trying again: {why}")
        if isinstance(error, Overloaded):
            return min(MOST_WAIT_S, max(self.every_s, error.retry_after_s))
        return min(MOST_WAIT_S, max(self.every_s, (now_s - since_s) / 4))

    def _say(self, away: str) -> None:
        info = self._info
        who = f"{info.site} of {info.vo}, as {info.principal} ({info.role})"
        shown = "my groups" if self._mine else "groups"
        which = f"{shown} that are not over" if self._reader.active else shown
        text = Text(output.clean(f"{who}: {which}, every {self.every_s:g} s"), style="bold")
        if away:
            text = Text(output.clean(f"{info.site}: {away}"), style="bold red")
        text.no_wrap = True
        text.overflow = "ellipsis"
        self._line.update(text)

    def _fill(self, anew: set[str]) -> None:
        look, word = self._reader.look, self._word
        made: dict[str, tables.TableContent] = {}
        if "groups" in anew:
            made["groups"] = tables.groups(look.groups, word)
        if "sites" in anew:
            made["sites"] = tables.sites(look.sites, word)
        if "queue" in anew and look.queue is not None:
            made["queue"] = tables.queue(look.queue, word)
        if "peers" in anew and look.peers is not None:
            made["machines"] = tables.machines(look.peers, word)
            made["peers"] = tables.peers(look.peers, word)
        for name, shown in made.items():
            self._tables[name].fill(shown)

    # --- keys ----------------------------------------------------------------------------------------

    def action_show(self, name: str) -> None:
        """Go to a table; if one is there already, or it is hidden, let it fill the page."""
        table = self._tables[name]
        fills = table.has_class("-this")
        hidden = self.screen.has_class("-short") and name in ("queue", "machines", "peers")
        alone = table.has_focus or hidden
        self.action_whole_page()
        if alone and not fills:
            self.screen.add_class("-one")
            table.add_class("-this")
            if table.parent is not self.screen:
                self.query_one("#below").add_class("-this")
        # A table that is shown from now on can take the focus only then.
        self.call_after_refresh(table.focus)

    def action_whole_page(self) -> None:
        self.screen.remove_class("-one")
        for one in self.query(".-this"):
            one.remove_class("-this")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the page are none of what lies over it."""
        return action == "quit" or len(self.screen_stack) == 1 or action not in _OF_THE_PAGE

    def action_active(self) -> None:
        self._reader.active = not self._reader.active
        self._reader.hurry()
        self._again.set()

    def action_look_for(self) -> None:
        self.action_whole_page()
        self._asked.add_class("-asked")
        self._asked.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._word = event.value.strip().casefold()
        if self._reader.searching != bool(self._word):
            self._reader.searching = bool(self._word)
            self._reader.hurry()
            self._again.set()
        self._fill({"groups", "sites", "queue", "peers"})

    def on_input_submitted(self) -> None:
        self._tables["groups"].focus()

    def on_key(self, event: Any) -> None:
        asked = self._asked
        if event.key == "escape" and asked.has_class("-asked") and len(self.screen_stack) == 1:
            asked.value = ""
            asked.remove_class("-asked")
            self._tables["groups"].focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if event.data_table.id == "groups" and (chosen := self._chosen()) is not None:
            self.push_screen(StoryScreen(chosen, self.client, self.act, every_s=self.every_s))

    def _chosen(self) -> GroupStatus | None:
        key = self._tables["groups"].cursor_key()
        return next((group for group in self._reader.look.groups.groups if group.group == key), None)

    # --- what is done to a group ---------------------------------------------------------------------

    def action_act(self, what: str) -> None:
        chosen = self._chosen()
        if chosen is None:
            self._tell("there is no group to do that to", "warning")
        else:
            self.act(what, chosen)

    def act(self, what: str, group: GroupStatus) -> None:
        """cancel, hold or again (release what is held, else retry what failed); asks first."""
        if self._info.role != "operator" and group.owner != self._info.principal:
            self._tell(f"{group.group} is {group.owner}'s: only that user or an operator may do that", "warning")
            return
        asked = question(what, group)
        if asked is None:
            self._tell(f"{group.group} has no jobs that are held or failed", "warning")
            return
        order, text = asked

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(self._carry_out(order, group.group), name=order)

        self.push_screen(Question(output.clean(text)), answered)

    async def _carry_out(self, order: str, group: str) -> None:
        try:
            done = await ORDERS[order](self.client, group)
        except DianaError as error:
            self._tell(str(error), "error")
        else:
            self._tell(done, "information")
        self._reader.hurry()
        self._again.set()

    def _tell(self, text: str, severity: Any) -> None:
        self.notify(output.clean(text), severity=severity, markup=False)

    # --- faults --------------------------------------------------------------------------------------

    def _handle_exception(self, error: Exception) -> None:
        """No traceback over the terminal: the caller makes one line of it."""
        cause = error.error if isinstance(error, WorkerFailed) and isinstance(error.error, Exception) else error
        self.fault = self.fault or cause
        super()._handle_exception(error)

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()
