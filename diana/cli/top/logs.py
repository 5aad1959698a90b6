"""The screen with what one job writes, while it writes it."""

from __future__ import annotations

import asyncio
import codecs
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, Input, Log, Static

from diana.cli.shared import output
from diana.errors import DianaError

if TYPE_CHECKING:
    from diana.client import AsyncClient
    from diana.model.views.group import GroupStatus

TAIL = 1_000
"""Lines of a log that are shown of what it has already."""
MOST_LINES = 10_000
"""Lines that are kept; of more, the newest."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*[mK]")


def likely_job(status: GroupStatus, failed: int | None) -> int:
    """The job somebody wants to see first: one that failed, else the one that probably runs, as jobs start in order."""
    if failed is not None:
        return failed
    ended = status.done + status.failed + status.cancelled
    return 0 if status.final else min(ended, status.jobs - 1)


def plain_lines(text: str) -> str:
    """Return text for a terminal as it reads there: without colours, of a line that was written over the last
    form. All else that is no text is shown as `?`."""
    lines = _COLOURS.sub("", text.replace("\r\n", "\n")).expandtabs().split("\n")
    return "\n".join(output.clean(line.rstrip("\r").rpartition("\r")[2]) for line in lines)


class LogScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,backspace,left", "back", "back"),
        Binding("j", "another", "another job"),
        Binding("n", "turn(1)", "next job"),
        Binding("p", "turn(-1)", "job before"),
    ]
    CSS = """
    LogScreen > #title { height: 1; }
    LogScreen > #stand { height: 1; }
    LogScreen > Log { height: 1fr; }
    LogScreen > #job { display: none; height: 3; }
    LogScreen > #job.-asked { display: block; }
    """

    def __init__(self, group: str, jobs: int, index: int, client: AsyncClient, *, every_s: float) -> None:
        """`jobs`: of the group; `index`: the job that is shown first; `every_s`: seconds between two tries of a node
        that does not answer."""
        super().__init__()
        self._group = group
        self._jobs = jobs
        self._index = index
        self._client = client
        self._every_s = every_s
        self._title = Static(id="title")
        self._stand = Static(id="stand")
        self._log = Log(max_lines=MOST_LINES)
        self._asked = Input(id="job", type="integer", placeholder=f"number of a job, 0 to {jobs - 1}; Enter shows it")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._log
        yield self._stand
        yield self._asked
        yield Footer()

    def on_mount(self) -> None:
        self._show(self._index)

    # --- keys ----------------------------------------------------------------------------------------

    def action_another(self) -> None:
        self._asked.value = ""
        self._asked.add_class("-asked")
        self._asked.focus()

    def action_back(self) -> None:
        """Leave the question for a number, else the screen."""
        if self._asked.has_class("-asked"):
            self._asked.remove_class("-asked")
            self._log.focus()
        else:
            self.app.pop_screen()

    def action_turn(self, by: int) -> None:
        self._show(self._index + by)

    def on_input_changed(self, event: Input.Changed) -> None:
        # The page below has a word to filter by, and this is none.
        event.stop()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._asked.remove_class("-asked")
        self._show(int(event.value) if event.value.isdecimal() else self._index)

    # --- what it shows -------------------------------------------------------------------------------

    def _show(self, index: int) -> None:
        self._index = max(0, min(index, self._jobs - 1))
        self._log.clear()
        self._title.update(Text(f"Output of {self._group}.{self._index}", style="bold"))
        self._say("")
        self._log.focus()
        # Of the job before nothing comes any more.
        self.run_worker(self._follow(f"{self._group}.{self._index}"), name="log", group="log", exclusive=True)

    async def _follow(self, job: str) -> None:
        start = attempt = 0
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            try:
                stream = self._client.logs(job, follow=True, tail=0 if start else TAIL, start=start, attempt=attempt)
                async with aclosing(cast("Any", stream)) as chunks:
                    async for chunk in chunks:
                        if chunk.attempt != attempt and attempt and chunk.data:
                            self._write("\n--- the next attempt ---\n")
                        start, attempt = chunk.next or start, chunk.attempt or attempt
                        self._write(decoder.decode(chunk.data))
                        cut = "it wrote more than was kept" if chunk.truncated else ""
                        self._say(chunk.error or chunk.note or cut or ("runs" if chunk.running else ""))
            except (DianaError, TimeoutError) as error:
                self._say(f"{str(error) or 'the node does not answer'}; trying again")
                await asyncio.sleep(self._every_s)
                continue
            self._say(f"{self._said}; it has ended" if self._said not in ("", "runs") else "it has ended")
            return

    def _write(self, text: str) -> None:
        if text:
            self._log.write(plain_lines(text))

    def _say(self, text: str) -> None:
        self._said = text
        self._stand.update(Text(output.clean(text), style="dim", no_wrap=True, overflow="ellipsis"))
