"""A finished group's outputs become a dataset of its origin, whatever folder they were gathered in (SPEC J4)."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.adapters.staging.stager import FileStager
from diana.engine.journal.effects import RegisterOutputs
from diana.engine.journal.events import OutputsInCatalogue
from diana.model.facts import OutputFile
from diana.model.ids import GroupId, SiteId
from diana.model.layout import DataDir
from tests.adapters.staging_grid import QUICK, sha, write

GROUP = GroupId("alpha-7")
FILES = {"0.out": b"zero", "deep/1.out": b"one"}


def outputs() -> Iterator[OutputFile]:
    return (OutputFile(at, name, len(data), sha(data)) for at, (name, data) in enumerate(FILES.items()))


class Bench:
    """A stager whose every answer is to a registration."""

    def __init__(self, root: Path) -> None:
        self.data = DataDir(root / "alpha")
        self.data.root.mkdir(mode=0o700)
        self.answers: asyncio.Queue[OutputsInCatalogue] = asyncio.Queue()
        self.stager = FileStager(
            self.data,
            SiteId("alpha"),
            self.answers.put_nowait,  # type: ignore[arg-type]
            lambda _: None,
            lambda *_: None,
            QUICK,
        )

    @property
    def folder(self) -> Path:
        return self.data.gathered(GROUP)

    async def register(self, *, to: str = "", new_version: bool = False) -> OutputsInCatalogue:
        order = RegisterOutputs(ticket=4, group=GROUP, dataset="made", to=to, new_version=new_version)
        self.stager.register_outputs(order, outputs)
        answer = await asyncio.wait_for(self.answers.get(), 60)
        assert answer.ticket == 4
        return answer

    async def names(self) -> list[str]:
        return [file.ref async for page in self.stager.dataset_files("made") for file in page]


def lay(folder: Path) -> None:
    for name, data in FILES.items():
        write(folder / name, data)


def test_what_lies_in_the_groups_own_folder_is_registered_and_told_twice_changes_nothing(tmp_path: Path) -> None:
    async def go() -> None:
        bench = Bench(tmp_path)
        lay(bench.folder)
        write(bench.folder / "all", b"merged")
        first = await bench.register()
        assert (first.error, first.dataset and first.dataset.files) == ("", 3)
        assert await bench.names() == [f"dataset:made/{name}" for name in ("0.out", "all", "deep/1.out")]
        assert await bench.register() == first
        await bench.stager.close()

    asyncio.run(go())


@pytest.mark.parametrize("linked", [True, False], ids=["same file system", "another file system"])
def test_outputs_in_a_folder_of_the_users_are_registered_and_nothing_else_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    if not linked:

        def cannot(*_: object, **__: object) -> None:
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        monkeypatch.setattr(os, "link", cannot)

    async def go() -> None:
        bench = Bench(tmp_path)
        to = tmp_path / "mine"
        lay(to)
        write(to / "private", b"the user's own")
        first = await bench.register(to=str(to))
        assert (first.error, first.dataset and first.dataset.files) == ("", 2)
        assert await bench.names() == ["dataset:made/0.out", "dataset:made/deep/1.out"]
        assert await bench.register(to=str(to)) == first
        for name in FILES:
            (to / name).unlink()
        assert {name: (bench.folder / name).read_bytes() for name in FILES} == FILES
        await bench.stager.close()

    asyncio.run(go())


@pytest.mark.parametrize("swapped", ["mine", "mine/deep"])
def test_a_folder_of_the_users_that_became_a_link_is_not_read(tmp_path: Path, swapped: str) -> None:
    async def go() -> None:
        bench = Bench(tmp_path)
        lay(tmp_path / "mine")
        (tmp_path / swapped).rename(tmp_path / "secret")
        (tmp_path / swapped).symlink_to(tmp_path / "secret")
        refused = await bench.register(to=str(tmp_path / "mine"))
        assert refused.dataset is None and "is a link" in refused.error
        assert not (bench.folder / "deep" / "1.out").exists()
        await bench.stager.close()

    asyncio.run(go())


def test_other_content_is_a_new_version_or_refused_in_one_line(tmp_path: Path) -> None:
    async def go() -> None:
        bench = Bench(tmp_path)
        lay(bench.folder)
        await bench.register()
        write(bench.folder / "0.out", b"other")
        refused = await bench.register()
        assert refused.dataset is None
        assert "made" in refused.error and "other content" in refused.error and "\n" not in refused.error
        again = await bench.register(new_version=True)
        assert again.dataset is not None and again.dataset.version == 2
        await bench.stager.close()

    asyncio.run(go())


def test_a_missing_output_and_a_link_left_by_a_merge_are_told_by_name(tmp_path: Path) -> None:
    async def go() -> None:
        bench = Bench(tmp_path)
        missing = await bench.register(to=str(tmp_path / "gone"))
        assert missing.dataset is None and f"{tmp_path}/gone/0.out: No such file" in missing.error
        (bench.folder / "0.out").symlink_to("/etc/hostname")
        refused = await bench.register()
        assert refused.dataset is None and f"{bench.folder}/0.out" in refused.error
        await bench.stager.close()

    asyncio.run(go())
