"""Lines of node.log are those an operator has to know."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from grpc._cython.cygrpc import ExecuteBatchError  # type: ignore[import-untyped]

from diana.node.node_log import Format, log_to


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    log_to(tmp_path / "node.log")
    yield tmp_path / "node.log"
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.mark.parametrize(
    ("fault", "told"),
    [(asyncio.CancelledError(), False), (ExecuteBatchError("Failed"), False), (ValueError("odd"), True)],
)
def test_a_caller_that_is_gone_before_its_call_began_or_was_answered_is_no_error(
    log: Path, fault: BaseException, told: bool
) -> None:
    logging.getLogger("grpc._cython.cygrpc").error("Exception not handled", exc_info=fault)
    assert ("Exception not handled" in log.read_text()) is told


def test_a_full_disk_costs_no_traceback_and_the_line_is_there_once_there_is_room(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (handler,) = (one for one in logging.getLogger().handlers if getattr(one, "baseFilename", "") == str(log))
    assert isinstance(handler, logging.FileHandler)
    to = handler.stream.fileno()
    room, full = os.dup(to), os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, to)
    logging.getLogger().critical("the store failed")
    assert capsys.readouterr() == ("", "")
    os.dup2(room, to)
    logging.getLogger().info("it goes on")
    assert "the store failed" in log.read_text() and "it goes on" in log.read_text()
    os.close(room)
    os.close(full)


def told(form: Format, tmp_path: Path, *said: tuple[str, object], **more: Any) -> list[dict[str, str]]:
    """The content of a log of that form after these lines, each as an object."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    path = tmp_path / "json.log"
    try:
        log_to(path, form, "alpha", "main")
        # pytest's own hand what they caught to another process, which takes no text that is not Unicode.
        root.handlers = [handler for handler in root.handlers if handler not in before]
        for text, *values in said:
            logging.getLogger("diana.test").warning(text, *values, **more)
    finally:
        for handler in set(root.handlers) - set(before):
            handler.close()
        root.handlers = before
        root.setLevel(level)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_json_log_has_one_object_a_line_whatever_is_said(tmp_path: Path) -> None:
    rows = told("json", tmp_path, ('two\nlines, "quoted" %s', "\udcff"), ("%d of %s", 3, "beta"))
    assert [row["message"] for row in rows] == ['two\nlines, "quoted" \\udcff', "3 of beta"]
    for row in rows:
        assert (row["level"], row["logger"], row["site"], row["machine"]) == ("WARNING", "diana.test", "alpha", "main")
        assert abs(datetime.fromisoformat(row["time"]).timestamp() - time.time()) < 60 and row["time"].endswith(
            "+00:00"
        )
        assert not {"group", "job", "part", "trace"} & row.keys()


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("beta-2 reports of alpha-12/0: jobs it was not given", {"group": "alpha-12", "part": "alpha-12/0"}),
        ("the job big-site-7.31: outputs lost", {"group": "big-site-7", "job": "big-site-7.31"}),
        ("cannot reach a peer at node-1.example:7400", {}),
        ("/srv/alpha-1/0: no room; release 0.1.0; 10.0.0.1:7400", {}),
        ("machine m-2 of site site-9 is away for 3.5 s", {}),
    ],
)
def test_what_a_line_is_about_stands_beside_it(tmp_path: Path, text: str, about: dict[str, str]) -> None:
    (row,) = told("json", tmp_path, (text,))
    assert {key: row[key] for key in ("group", "part", "job") if key in row} == about


def test_who_says_what_it_is_about_is_believed_and_a_fault_brings_its_trace(tmp_path: Path) -> None:
    fault = ValueError("odd")
    (row,) = told("json", tmp_path, ("it waits",), extra={"group": "alpha-3"}, exc_info=fault)
    assert row["group"] == "alpha-3" and row["trace"].endswith("ValueError: odd")
