"""What a submission says of the files that were sent before it counts for nothing: they are looked at."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diana.errors import UsageError
from diana.model.trust.principal import Principal, Role
from diana.node.api.submit import _parse_and_check
from diana.wire.client import messages as wire

SHA = "0" * 64


def submitted(blob: Path, job: str) -> None:
    stager = SimpleNamespace(
        has_blob=lambda sha: True,
        blob_path=lambda sha: blob,
        put_blob_bytes=lambda data: SHA,
        cut_blob=lambda sha, chunks, by_lines: [],
    )
    desk: Any = SimpleNamespace(stager=stager)
    file = wire.UploadedFile(path="big", sha256=SHA, size_bytes=10)
    request = wire.SubmitRequest(content=job.encode(), format="toml", files=(file,))
    _parse_and_check(desk, Principal(Role.USER, "ann@lab"), request)


@pytest.mark.parametrize(
    ("job", "line"),
    [
        ('group.command = "e {a}"\nsweep.from = "big"', "big: a table of more than 256 MiB"),
        ('group.script = "big"', "big: a script of more than 1 MiB"),
    ],
)
def test_a_file_of_gigabytes_that_is_said_to_be_small_is_refused_unread(tmp_path: Path, job: str, line: str) -> None:
    blob = tmp_path / "blob"
    blob.touch()
    os.truncate(blob, 20 << 30)
    with pytest.raises(UsageError, match=line):
        submitted(blob, job)
