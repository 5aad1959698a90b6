"""Bringing files that several sites hold: the first source that answers, the next when it fails, going on where the
last one stopped, with patience for sites that are only away for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from diana.adapters.staging.limits import StagingLimits
from diana.adapters.staging.transfer.client import Away, FetchOutcome, FileFetcher, WantedFile
from diana.errors import Unreachable
from diana.model.ids import SiteId

_SPOILED_MOST = 3


class Silent(Unreachable):
    """A failure without a refusal: no source could be asked for long, or none kept on sending."""


class Refused(Unreachable):
    """Each source that was to have the file was asked and does not have it as it was promised."""

    def __init__(self, text: str, ref: str) -> None:
        super().__init__(text)
        self.ref = ref


@dataclass(eq=False, slots=True)
class Search:
    """One wanted file and what became of asking its sources."""

    wanted: WantedFile
    sources: tuple[SiteId, ...]
    """Sources, best first."""
    name: str = ""
    """Name in errors, instead of the reference."""
    at: int = 0
    tries: int = 0
    """Tries since there was progress."""
    spoiled: int = 0
    furthest: int = 0
    """Most bytes of it that were ever here."""
    refusals: dict[SiteId, str] = field(default_factory=dict)
    away: str = ""
    """Machine of a source that has the file and is away, expected back."""
    trouble: str = ""

    def source(self) -> SiteId | None:
        """Return the site to ask now; None when all have refused."""
        for step in range(len(self.sources)):
            site = self.sources[(self.at + step) % len(self.sources)]
            if site not in self.refusals:
                return site
        return None

    def went_further(self) -> bool:
        """True if more of it is here than ever before. Mere bytes are no progress: a liar sends some for ever."""
        here, best = self.wanted.part.offset, self.furthest
        self.furthest = max(here, best)
        return here > best

    def title(self) -> str:
        return self.name or self.wanted.ref

    def left(self) -> int:
        return sum(site not in self.refusals for site in self.sources)

    def why(self) -> str:
        known = f"{self.wanted.ref}: "
        said = [f"{site}: {text.removeprefix(known)}" for site, text in self.refusals.items()]
        if self.trouble and self.left():
            said.append(self.trouble)
        return "; ".join(said) or "no site holds a copy"


async def bring(fetcher: FileFetcher, searches: Sequence[Search], limits: StagingLimits) -> int:
    """Bring all files under their final names; return the bytes that travelled. Unreachable names the first file
    that cannot be had and what each source said (Away: a machine there has it; Silent); LocalFault when our disk
    refuses. Unfinished parts are then left, closed."""
    loop = asyncio.get_running_loop()
    pending = list(searches)
    moved = 0
    last_news_s = loop.time()
    pause_s = limits.retry_first_s
    while pending:
        rounds = await _ask_all(fetcher, pending)
        moved += sum(r.bytes_moved for r in rounds)
        done = {id(wanted) for r in rounds for wanted in r.done}
        pending = [s for s in pending if id(s.wanted) not in done]
        further = [search.went_further() for search in pending]
        for search in pending:
            if search.source() is None:
                text = f"{search.title()}: {search.why()}"
                raise Away(text, search.away) if search.away else Refused(text, search.wanted.ref)
        if done or any(further):
            last_news_s, pause_s = loop.time(), limits.retry_first_s
            for search in pending:
                search.tries = 0
        elif any(s.tries >= s.left() for s in pending):
            if loop.time() - last_news_s >= limits.patience_s:
                raise Silent(f"{pending[0].title()}: {pending[0].why()}")
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, limits.retry_most_s)
    return moved


async def _ask_all(fetcher: FileFetcher, pending: Sequence[Search]) -> list[FetchOutcome]:
    """Try once at each source that is next for some file, side by side."""
    turns: dict[SiteId, list[Search]] = {}
    for search in pending:
        site = search.source()
        if site is None:
            raise Unreachable(f"{search.title()}: {search.why()}")
        turns.setdefault(site, []).append(search)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_ask_one(fetcher, site, asked)) for site, asked in turns.items()]
    except BaseExceptionGroup as faults:
        raise faults.exceptions[0] from None
    return [task.result() for task in tasks]


async def _ask_one(fetcher: FileFetcher, site: SiteId, asked: Sequence[Search]) -> FetchOutcome:
    result = await fetcher.fetch(site, [s.wanted for s in asked])
    done = {id(w) for w in result.done}
    refused = {id(w): text for w, text in result.refused}
    spoiled = {id(w) for w in result.spoiled}
    for search in asked:
        key = id(search.wanted)
        if key in refused:
            search.refusals[site] = refused[key]
            search.away = result.away.get(key, search.away)
        elif key in spoiled:
            search.spoiled += 1
            if search.spoiled >= _SPOILED_MOST:
                search.refusals[site] = f"{search.wanted.ref}: wrong content again and again"
        elif key not in done:
            search.trouble = result.broken
            search.tries += 1
            search.at = (search.sources.index(site) + 1) % len(search.sources)
    return result
