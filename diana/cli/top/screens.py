"""Screens that open over the page: a group's story, and the question before something is done to a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from rich.console import Group
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Static

from diana.cli.top.logs import LogScreen, likely_job
from diana.cli.top.reading import PATIENCE_S
from diana.cli.top.story import Cells, Failures, story
from diana.errors import DianaError
from diana.model.views.group import GroupStatus
from diana.wire.client import messages as wire

if TYPE_CHECKING:
    from diana.client import AsyncClient

EXPLAINED_EVERY_S = 5.0
"""The node asks other sites for it."""


class Question(ModalScreen[bool]):
    """True: yes. Everything but y means no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "say(True)", "yes"),
        Binding("n,escape,q,enter", "say(False)", "no"),
    ]
    CSS = """
    Question { align: center middle; }
    Question > Vertical { width: auto; max-width: 90%; height: auto; border: round $warning; padding: 1 2; }
    Question Static { width: auto; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(f"{self._text}\n\ny: yes    n: no"))

    def action_say(self, yes: bool) -> None:
        self.dismiss(yes)


class StoryScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,backspace,left", "app.pop_screen", "back"),
        Binding("c", "act('cancel')", "cancel"),
        Binding("h", "act('hold')", "hold"),
        Binding("r", "act('again')", "release, retry"),
        Binding("l", "log", "output of a job"),
    ]

    def __init__(
        self,
        status: GroupStatus,
        client: AsyncClient,
        act: Callable[[str, GroupStatus], None],
        *,
        every_s: float,
    ) -> None:
        """`act` does one of cancel, hold and again to the group; `every_s`: seconds between two looks at it."""
        super().__init__()
        self._status = status
        self._client = client
        self._act = act
        self._every_s = every_s
        self._explained: wire.ExplainResponse | None = None
        self._failures = Failures(status.group)
        # By name they would not be found any more while the screen is taken away, and answers come then too.
        self._story = Static(id="story")
        self._away = Static(id="away")

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield self._story
        yield self._away
        yield Footer()

    def on_mount(self) -> None:
        self._show()
        self.run_worker(self._follow(), name="story")

    def action_act(self, what: str) -> None:
        self._act(what, self._status)

    def action_log(self) -> None:
        status = self._status
        failed = self._failures.last[-1].index if self._failures.last else None
        first = likely_job(status, failed)
        self.app.push_screen(LogScreen(status.group, status.jobs, first, self._client, every_s=self._every_s))

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        explain_s = loop.time()
        while True:
            away = ""
            try:
                async with asyncio.timeout(PATIENCE_S):
                    (self._status,) = await self._client.status([self._status.group])
                    if loop.time() >= explain_s:
                        self._explained = await self._client.explain(self._status.group)
                        explain_s = loop.time() + EXPLAINED_EVERY_S
                    if self._status.failed or self._status.held:
                        await self._failures.read_on(self._client)
            except (DianaError, TimeoutError) as error:
                away = f"{str(error) or 'the node does not answer'}; trying again"
            self._show(away)
            await asyncio.sleep(self._every_s)

    def _show(self, away: str = "") -> None:
        lines = story(self._status, self._explained, self._failures)
        # A row of a table is cut where the terminal ends, prose goes on in the next line.
        texts = [Text(line, no_wrap=isinstance(line, Cells), overflow="ellipsis") for line in lines]
        self._story.update(Group(*texts))
        self._away.update(Text(away, style="bold red"))
