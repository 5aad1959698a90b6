"""Outputs while the group still runs: each as soon as it was gathered, once, and what cannot be had is told last."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.adapters.staging import paths
from diana.client import Client
from diana.errors import DianaError, UsageError
from diana.model.facts import FactsKey, OutputFile
from diana.model.ids import GroupId, SubgroupId, subgroup_id
from diana.model.indexset import IndexSet
from diana.node.api import fetch
from diana.node.api.fetch_follow import MOST_RANGES, SMALL_BYTES
from tests.client.nodelike import InThread, facts, view

GROUP = GroupId("alpha-1")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[InThread]:
    with InThread(tmp_path / "alpha") as node:
        node.book.groups[GROUP] = view(GROUP, "x@lab", 10)
        yield node


def keep(node: InThread, batch: int, files: dict[int, bytes]) -> None:
    outputs = [OutputFile(k, f"o/{k}", len(data), hashlib.sha256(data).hexdigest()) for k, data in files.items()]
    node.book.keep(GROUP, batch, facts("beta", list(files), outputs=outputs))


def put(node: InThread, files: dict[int, bytes]) -> None:
    folder = node.node.data.gathered(GROUP) / "o"
    folder.mkdir(parents=True, exist_ok=True)
    for index, data in files.items():
        (folder / str(index)).write_bytes(data)


def names(client: Client, **options: str) -> list[str]:
    return [chunk.name for chunk in client.fetch_chunks(GROUP, follow=True, **options) if chunk.last]


def test_files_come_batch_by_batch_as_they_are_gathered(node: InThread, tmp_path: Path) -> None:
    big = b"b" * (SMALL_BYTES + 1)
    first, second = {0: b"zero", 1: big}, {2: b"", 3: b"three"}
    on_its_way = (FactsKey(GROUP, SubgroupId(subgroup_id(GROUP, 0)), 1, 1),)
    node.call(lambda: keep(node, 0, first))
    node.call(lambda: keep(node, 1, second))
    # It lies there, and is not durable yet.
    put(node, {**first, **second})
    node.call(lambda: node.book.change(GROUP, on_their_way=on_its_way))
    with Client(tmp_path / "alpha") as client:
        chunks = client.fetch_chunks(GROUP, follow=True)
        got: dict[str, bytes] = {}
        for chunk in chunks:
            got[chunk.name] = got.get(chunk.name, b"") + chunk.data
            if chunk.last and len(got) == 2:
                assert got == {"o/0": b"zero", "o/1": big}
                node.call(lambda: node.book.change(GROUP, on_their_way=()))
            if chunk.last and len(got) == 4:
                node.call(lambda: node.book.finish(GROUP))
        assert got == {"o/0": b"zero", "o/1": big, "o/2": b"", "o/3": b"three"}
        assert [path.name for path in client.fetch(GROUP, tmp_path / "out", follow=True)] == ["0", "2", "3", "1"]


def test_a_file_whose_result_is_known_before_it_came_is_waited_for(node: InThread, tmp_path: Path) -> None:
    node.call(lambda: keep(node, 0, {0: b"late"}))

    def arrive() -> None:
        put(node, {0: b"late"})
        node.book.change(GROUP, done=1)

    node.later(0.2, arrive)
    node.later(0.4, lambda: node.book.finish(GROUP))
    with Client(tmp_path / "alpha") as client:
        assert names(client) == ["o/0"]


def test_jobs_named_to_be_skipped_do_not_come_again(node: InThread, tmp_path: Path) -> None:
    files = {k: b"%d" % k for k in range(10)}
    put(node, files)
    node.call(lambda: (keep(node, 0, files), node.book.finish(GROUP)))
    with Client(tmp_path / "alpha") as client:
        assert names(client, skip="0-4,7") == ["o/5", "o/6", "o/8", "o/9"]
        assert names(client, pattern="8", skip="0") == ["o/8"]
        for wrong in ("x", "3-1", ",".join("0" for _ in range(MOST_RANGES + 1))):
            with pytest.raises(UsageError, match="skip"):
                names(client, skip=wrong)


def test_what_is_lost_or_changed_is_told_after_all_that_can_be_had(node: InThread, tmp_path: Path) -> None:
    put(node, {0: b"changed", 2: b"two"})
    node.call(lambda: (keep(node, 0, {0: b"zero", 1: b"gone", 2: b"two"}), node.book.finish(GROUP)))
    with Client(tmp_path / "alpha") as client:
        seen = []
        with pytest.raises(DianaError, match=r"output o/0 .* was changed"):
            for chunk in client.fetch_chunks(GROUP, follow=True):
                seen.append(chunk.name)
        assert seen[0] == "o/2" and "o/1" not in seen


def test_no_bad_file_keeps_others_from_coming_while_the_group_runs_and_the_first_is_told_at_the_end(
    node: InThread, tmp_path: Path
) -> None:
    big = b"b" * (SMALL_BYTES + 1)
    files = {0: b"link", 1: big, 2: big + b"2", 3: b"folder", 4: b"four", 5: b"link" + big}
    node.call(lambda: keep(node, 0, files))
    put(node, {1: big.replace(b"b", b"x"), 2: big + b"2", 4: b"four"})
    folder = node.node.data.gathered(GROUP) / "o"
    for name in ("0", "5"):
        (folder / name).symlink_to("4")
    (folder / "3").mkdir()
    node.call(lambda: keep(node, 1, {7: b"seven"}))
    with Client(tmp_path / "alpha") as client:
        seen = []
        with pytest.raises(DianaError, match=r"output o/\d in .* (is no regular file|was changed)"):
            for chunk in client.fetch_chunks(GROUP, follow=True):
                if chunk.last:
                    seen.append(chunk.name)
                if seen == ["o/4", "o/2"]:
                    node.call(lambda: (put(node, {7: b"seven"}), node.book.change(GROUP, done=1)))
                if seen == ["o/4", "o/2", "o/7"]:
                    node.call(lambda: node.book.finish(GROUP))
        assert seen == ["o/4", "o/2", "o/7"]
        with pytest.raises(DianaError, match=r"output o/\d in"):
            client.fetch(GROUP, tmp_path / "out", follow=True)
        assert sorted(path.name for path in (tmp_path / "out" / "o").iterdir()) == ["2", "4", "7"], "and nothing half"


@pytest.mark.parametrize("size", [4, SMALL_BYTES + 1])
def test_what_the_disk_does_not_give_is_a_bad_file_too(
    node: InThread, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests' user may be root, to whom every file is readable: the refusal is made where the system makes it."""
    put(node, {0: b"x" * size, 1: b"one"})
    node.call(lambda: keep(node, 0, {0: b"x" * size, 1: b"one"}))
    real = paths.open_file

    def refuses(folder: Path, parts: tuple[str, ...]) -> int:
        if parts[-1] == "0":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(folder, parts)

    monkeypatch.setattr(fetch, "open_file", refuses)
    with Client(tmp_path / "alpha") as client:
        seen = []
        with pytest.raises(DianaError, match=r"output o/0 in .* cannot be read: Permission denied"):
            for chunk in client.fetch_chunks(GROUP, follow=True):
                seen.append(chunk.name)
                node.call(lambda: node.book.finish(GROUP))
        assert seen == ["o/1"]


def test_results_of_jobs_that_were_retried_do_not_hold_up_the_end(node: InThread, tmp_path: Path) -> None:
    node.call(lambda: keep(node, 0, {0: b"old", 1: b"one"}))
    put(node, {1: b"one"})
    old = ((SubgroupId(subgroup_id(GROUP, 0)), IndexSet.span(0, 1)),)
    node.later(0.1, lambda: node.book.change(GROUP, superseded=old))
    node.later(0.2, lambda: node.book.finish(GROUP))
    with Client(tmp_path / "alpha") as client:
        assert names(client) == ["o/1"]
