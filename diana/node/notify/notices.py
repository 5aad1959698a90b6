"""Groups that are over, and who is still to be told.

A mark in `notices/` says that a group's end was told, or given up, and to whom; it is written after that. So a restart
between the two tells once more: a receiver knows a word again by its name. Ends of more than a day are told by nobody.
A mark of an end that was not taken up says so to those who ask, and leaves it to the next start of the node.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from diana.engine.journal import effects as fx
from diana.engine.journal import records as r
from diana.engine.journal.state import Group
from diana.model.durations import seconds
from diana.model.ids import GroupId
from diana.model.job.notices import MAIL
from diana.node.config.site_file import Notifying
from diana.node.notify.sending import CannotTell, Notice, refusal, tell
from diana.threads import in_thread

FIRST_S, MOST_S = 5.0, 1800.0
"""Seconds before a second try, doubled up to the most."""
GIVEN_UP_S = 86_400.0
MOST_AT_ONCE, MOST_AT_HOST = 8, 2
MOST_WAITING, MOST_OF_OWNER = 10_000, 1_000
"""Words that wait to be told, of all and of one user; of more, the newest are told to nobody."""
LOOK_S = 1.0
_NOT_TAKEN_UP = "not taken up"
"""First line of a mark in place of the end that it tells."""
MOST_SAID = 200
"""Characters that are kept of how a word fared."""

_log = logging.getLogger("diana.notices")


class _Due:
    __slots__ = ("at", "at_s", "closed_s", "group", "notice", "owner", "tries")

    def __init__(self, group: GroupId, owner: str, closed_s: float, at: int, notice: Notice) -> None:
        self.group = group
        self.owner = owner
        self.closed_s = closed_s
        self.at = at
        self.notice = notice
        self.tries = 0
        self.at_s = 0.0


class Notices:
    def __init__(
        self,
        folder: Path,
        keys: Path,
        vo: str,
        notify: Notifying,
        now_s: Callable[[], float],
        wall_s: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._keys = keys
        self._vo = vo
        self._now_s = now_s
        self._wall_s = wall_s
        self.notify = notify
        self._waiting: list[_Due] = []
        self._open: Counter[GroupId] = Counter()
        """Words of each group that are not settled."""
        self._stands: dict[GroupId, dict[tuple[float, int], str]] = {}
        """How far each word of such a group is, by the end it tells and the place of its target."""
        self._owners: Counter[str] = Counter()
        """Words of each user that are not settled."""
        self._hosts: Counter[str] = Counter()
        """Tries under way, by host."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._more = asyncio.Event()

    def refusal(self, targets: Iterable[str]) -> str:
        """Why this site would tell one of them nothing; empty: it tries."""
        return next((f"{one[:80]}: {why}" for one in targets if (why := refusal(one, self.notify))), "")

    def stands(self, group: GroupId) -> tuple[str, ...]:
        """Whether each of those to be told of a group's end was told, a line each; empty where nobody is, or it is not
        over. Reads a small file."""
        if (open_ones := self._stands.get(group)) is not None:
            return tuple(_of_last_end(open_ones))
        try:
            return tuple((self._folder / group).read_text(encoding="utf-8").splitlines()[1:])
        except (OSError, ValueError):
            return ()

    def begin(self, groups: Iterable[Group]) -> None:
        """Take up what was not told before the node started. Blocks for a few small files."""
        known = set()
        for group in groups:
            if group.notify:
                known.add(group.group)
                if group.state and self._now_s() - group.closed_s < GIVEN_UP_S and not self._is_told(group):
                    self.over(group)
        if self._folder.is_dir():
            for mark in self._folder.iterdir():
                if mark.name not in known:
                    with suppress(OSError):
                        mark.unlink()

    def saw(self, effects: Iterable[fx.Effect], group_of: Callable[[GroupId], Group | None]) -> None:
        """Note which groups were closed."""
        for effect in effects:
            if isinstance(effect, fx.Persist) and isinstance(effect.record, r.GroupClosed):
                group = group_of(effect.record.group)
                if group is not None and group.notify and group.state:
                    self.over(group)

    def over(self, group: Group) -> None:
        if len(self._waiting) >= MOST_WAITING or self._owners[group.owner] >= MOST_OF_OWNER:
            _log.warning("%s: nobody is told that it is over: too many words wait already", group.group)
            self._not_taken_up(group)
            return
        body = self._said(group)
        subject = f"{group.group} is {group.state}"
        for at, target in enumerate(group.notify):
            name = f"{group.group}-{group.closed_s:.0f}-{at}"
            notice = Notice(target, name, subject, body)
            self._waiting.append(_Due(group.group, group.owner, group.closed_s, at, notice))
            self._open[group.group] += 1
            self._stands.setdefault(group.group, {})[group.closed_s, at] = f"{host_of(target)}: not told yet"
            self._owners[group.owner] += 1
        self._more.set()

    def _said(self, group: Group) -> bytes:
        return msgspec.json.encode(
            {
                "event": "group.over",
                "vo": self._vo,
                "site": str(group.group.rpartition("-")[0]),
                "group": str(group.group),
                "name": group.spec.name,
                "owner": group.owner,
                "state": group.state,
                "jobs": group.jobs,
                "done": len(group.done),
                "failed": len(group.failed),
                "cancelled": len(group.cancelled),
                "held": len(group.held),
                "submitted_wall_s": group.wall_s,
                "took_s": round(max(0.0, group.closed_s - group.submitted_s), 3),
                "told_wall_s": round(self._wall_s(), 3),
                "note": group.note,
            }
        )

    async def run(self) -> None:
        """Tell, until cancelled."""
        while True:
            if not self._waiting:
                self._more.clear()
                await self._more.wait()
            self._start_due()
            await asyncio.sleep(LOOK_S)

    def _start_due(self) -> None:
        now_s = self._now_s()
        for due in [one for one in self._waiting if one.at_s <= now_s]:
            host = _host(due.notice.target)
            if len(self._tasks) >= MOST_AT_ONCE:
                return
            if self._hosts[host] >= MOST_AT_HOST:
                continue
            self._waiting.remove(due)
            self._hosts[host] += 1
            task = asyncio.get_running_loop().create_task(self._try(due, host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _try(self, due: _Due, host: str) -> None:
        try:
            await in_thread(lambda: tell(due.notice, self.notify, self._keys))
        except Exception as fault:
            # A thread for a try may be refused by the machine, too.
            self._failed(due, fault)
        else:
            self._settled(due, "told")
        finally:
            self._hosts[host] -= 1
            if not self._hosts[host]:
                del self._hosts[host]

    def _failed(self, due: _Due, fault: Exception) -> None:
        due.tries += 1
        pause_s = min(FIRST_S * 2.0 ** min(due.tries - 1, 20), MOST_S)
        ends = self._now_s() + pause_s - due.closed_s > GIVEN_UP_S or (isinstance(fault, CannotTell) and fault.last)
        after = "given up" if ends else f"again in {seconds(pause_s)}"
        if due.tries == 1 or ends:
            _log.warning("%s: could not be told to %s: %s; %s", due.group, host_of(due.notice.target), fault, after)
        if ends:
            self._settled(due, f"not told: {fault}; given up")
            return
        self._stand(due, f"not told yet: {fault}; again within {seconds(pause_s)}")
        due.at_s = self._now_s() + pause_s
        self._waiting.append(due)
        self._more.set()

    # --- marks -------------------------------------------------------------------------------------------

    def _not_taken_up(self, group: Group) -> None:
        """Say of each target that it is not told of the newest end, in place of what is said of an earlier one."""
        lines = {
            (group.closed_s, at): f"{host_of(target)}: not told: too many words waited already"[:MOST_SAID]
            for at, target in enumerate(group.notify)
        }
        if (open_ones := self._stands.get(group.group)) is not None:
            open_ones.update(lines)
        else:
            with suppress(OSError):
                # On a full disk that of an earlier end would stay, and be shown as this one's.
                (self._folder / group.group).unlink()
            self._mark(group.group, _NOT_TAKEN_UP, list(lines.values()))

    def _stand(self, due: _Due, how: str) -> None:
        line = " ".join(f"{host_of(due.notice.target)}: {how}".split())
        self._stands[due.group][due.closed_s, due.at] = line[:MOST_SAID]

    def _settled(self, due: _Due, how: str) -> None:
        self._stand(due, how)
        self._open[due.group] -= 1
        self._owners[due.owner] -= 1
        if not self._owners[due.owner]:
            del self._owners[due.owner]
        if self._open[due.group] > 0:
            return
        del self._open[due.group]
        stands = self._stands.pop(due.group)
        self._mark(due.group, repr(due.closed_s), _of_last_end(stands))

    def _mark(self, group: GroupId, end: str, lines: list[str]) -> None:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            new = self._folder / f"{group}.new"
            new.write_text("\n".join([end, *lines]) + "\n", encoding="utf-8")
            new.replace(self._folder / group)
        except OSError as fault:
            _log.warning("%s: how its word fared cannot be noted: %s", group, fault)

    def _is_told(self, group: Group) -> bool:
        try:
            said = (self._folder / group.group).read_text(encoding="utf-8")
            return said.partition("\n")[0].strip() == repr(group.closed_s)
        except (OSError, ValueError):
            return False


def _of_last_end(stands: dict[tuple[float, int], str]) -> list[str]:
    """A group that was tried again may have words of its earlier end under way."""
    last_s = max(closed_s for closed_s, _ in stands)
    return [stands[key] for key in sorted(stands) if key[0] == last_s]


def told_of(
    traced: Callable[[list[fx.Effect]], None] | None, saw: Callable[[list[fx.Effect]], None]
) -> Callable[[list[fx.Effect]], None]:
    """Tell both of effects that have left. One that only looks on must not end the node."""

    def left(effects: list[fx.Effect]) -> None:
        if traced is not None:
            traced(effects)
        try:
            saw(effects)
        except Exception:
            _log.exception("the end of a group could not be told")

    return left


def _host(target: str) -> str:
    return MAIL if target.startswith(MAIL) else urlsplit(target).netloc


def host_of(target: str) -> str:
    """Return the part of a target that a log may show: paths of web addresses are often secrets."""
    return target if target.startswith(MAIL) else _host(target)
