"""What stands in node.log is what an operator has to know."""

from __future__ import annotations

import asyncio
import logging
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
