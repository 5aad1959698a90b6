"""What stands in node.log is what an operator has to know."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.node.node_log import log_to


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


@pytest.mark.parametrize(("fault", "told"), [(asyncio.CancelledError(), False), (ValueError("odd"), True)])
def test_a_caller_that_is_gone_before_its_call_began_is_no_error(log: Path, fault: BaseException, told: bool) -> None:
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
