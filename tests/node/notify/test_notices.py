"""Who hangs delays nobody else, what is not told is told again for a day, and a mark keeps it from being told twice."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from diana.engine.journal.state import Group
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import encode_spec
from diana.node.config.site_file import Notifying
from diana.node.notify import notices
from diana.node.notify.notices import GIVEN_UP_S, Notices
from diana.node.notify.sending import CannotTell, Notice
from tests.engine.builders import authorisation, spec


class Desk:
    """Notices whose words go to `self.tell` instead of the network."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.said: list[str] = []
        self.hangs = threading.Event()
        self.folder = folder
        monkeypatch.setattr(notices, "tell", self.tell)
        monkeypatch.setattr(notices, "LOOK_S", 0.01)
        self.notices = self.fresh()

    def fresh(self) -> Notices:
        return Notices(self.folder / "notices", self.folder, "vo", Notifying(), lambda: self.now_s, lambda: 0.0)

    def tell(self, notice: Notice, notify: Notifying, keys: Path) -> None:
        if "hangs" in notice.target:
            self.hangs.wait(30.0)
        if "fails" in notice.target:
            self.said.append("failed")
            raise CannotTell("no")
        self.said.append(notice.target)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.said) < count:
                await asyncio.sleep(0.01)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def over(number: int, *targets: str, closed_s: float = 990.0, owner: str = "ann@vo") -> Group:
    name, body = GroupId(f"alpha-{number}"), encode_spec(spec(1))
    group = Group(
        group=name, owner=owner, key="", spec_bytes=body, jobs=1, refs=(), submitted_s=900.0, wall_s=0.0,
        authorisation=authorisation(owner, name, body), unplaced=IndexSet(), notify=targets,
    )  # fmt: skip
    group.state, group.closed_s = "done", closed_s
    return group


async def test_a_host_that_hangs_delays_no_other(desk: Desk) -> None:
    running = asyncio.create_task(desk.notices.run())
    for number in range(1, 20):
        desk.notices.over(over(number, "https://hangs.example.org/"))
    desk.notices.over(over(20, "https://fine.example.org/"))
    await desk.until(1)
    assert desk.said == ["https://fine.example.org/"]
    desk.hangs.set()
    await desk.until(20)
    running.cancel()


async def test_what_was_told_is_not_told_again_by_the_next_node_and_the_rest_is(desk: Desk) -> None:
    told, fails, old = over(1, "https://a/"), over(2, "https://fails/"), over(3, "https://b/", closed_s=-GIVEN_UP_S)
    running = asyncio.create_task(desk.notices.run())
    desk.notices.over(told)
    desk.notices.over(fails)
    await desk.until(2)
    async with asyncio.timeout(60):
        while not (desk.folder / "notices" / "alpha-1").exists():
            await asyncio.sleep(0.01)
    running.cancel()
    desk.said.clear()
    again = desk.fresh()
    again.begin([told, fails, old])
    running = asyncio.create_task(again.run())
    await desk.until(1)
    await asyncio.sleep(0.1)
    assert desk.said == ["failed"]
    running.cancel()
    # A group that was tried again has another end.
    told.closed_s = 995.0
    desk.said.clear()
    later = desk.fresh()
    later.begin([told])
    running = asyncio.create_task(later.run())
    await desk.until(1)
    assert desk.said == ["https://a/"]
    running.cancel()


async def test_it_is_given_up_after_a_day(desk: Desk) -> None:
    running = asyncio.create_task(desk.notices.run())
    desk.notices.over(over(1, "https://fails/"))
    await desk.until(1)
    desk.now_s += GIVEN_UP_S
    await desk.until(2)
    async with asyncio.timeout(60):
        while not (desk.folder / "notices" / "alpha-1").exists():
            await asyncio.sleep(0.01)
    assert desk.said == ["failed", "failed"]
    running.cancel()


def test_one_user_does_not_take_the_room_of_all(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "MOST_OF_OWNER", 3)
    for number in range(1, 10):
        desk.notices.over(over(number, "https://a/", owner="mallory@vo"))
    desk.notices.over(over(10, "https://a/"))
    assert len(desk.notices._waiting) == 4


def test_a_group_whose_words_were_too_many_says_so_until_a_restart_takes_them_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "MOST_OF_OWNER", 1)
    desk.notices.over(over(1, "https://a.example.org/"))
    second = over(2, "https://a.example.org/secret/path", "mail:ann@lab.org")
    desk.notices.over(second)
    assert desk.notices.stands(second.group) == (
        "a.example.org: not told: too many words waited already",
        "mail:ann@lab.org: not told: too many words waited already",
    )
    later = desk.fresh()
    later.begin([second])
    assert later.stands(second.group) == ("a.example.org: not told yet", "mail:ann@lab.org: not told yet")


def test_a_newer_end_that_is_not_taken_up_hides_the_word_of_the_older(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "MOST_OF_OWNER", 1)
    desk.notices.over(over(1, "https://a.example.org/"))
    desk.notices.over(over(1, "https://a.example.org/", closed_s=995.0))
    assert desk.notices.stands(GroupId("alpha-1")) == ("a.example.org: not told: too many words waited already",)


async def test_how_each_word_fared_is_known_at_once_and_after_a_restart(desk: Desk) -> None:
    group = over(1, "https://a.example.org/secret/path", "https://fails.example.org/")
    running = asyncio.create_task(desk.notices.run())
    desk.notices.over(group)
    assert desk.notices.stands(group.group) == (
        "a.example.org: not told yet",
        "fails.example.org: not told yet",
    )
    async with asyncio.timeout(60):
        while desk.notices.stands(group.group) != (
            "a.example.org: told",
            "fails.example.org: not told yet: no; again within 5.0 s",
        ):
            await asyncio.sleep(0.01)
    desk.now_s += GIVEN_UP_S
    async with asyncio.timeout(60):
        while not (desk.folder / "notices" / "alpha-1").exists():
            await asyncio.sleep(0.01)
    running.cancel()
    later = desk.fresh()
    later.begin([group])
    assert later.stands(group.group) == ("a.example.org: told", "fails.example.org: not told: no; given up")
    assert later.stands(GroupId("alpha-2")) == ()
    assert not later._waiting


async def test_an_older_end_that_is_still_told_does_not_speak_for_the_newest(desk: Desk) -> None:
    desk.notices.over(over(1, "https://hangs.example.org/"))
    desk.notices.over(over(1, "https://fails.example.org/", closed_s=995.0))
    assert desk.notices.stands(GroupId("alpha-1")) == ("fails.example.org: not told yet",)


def test_a_mark_without_lines_is_one_of_an_older_release(desk: Desk) -> None:
    folder = desk.folder / "notices"
    folder.mkdir()
    (folder / "alpha-1").write_text("990.0\n")
    desk.notices.begin([over(1, "https://a/")])
    assert not desk.notices._waiting
    assert desk.notices.stands(GroupId("alpha-1")) == ()
