"""What a submission says of the files that were sent before it counts for nothing: they are looked at."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diana.errors import UsageError
from diana.model.trust.principal import Principal, Role
from diana.node.api.submit import _parse_and_check, kept_blobs
from diana.wire.client import messages as wire

SHA = "0" * 64


UNCHECKED = wire.Option(name="check_command", value="false")
CHUNKS = ["1" * 64, "2" * 64]


def submitted(blob: Path, job: str) -> list[list[str]]:
    """Uploads kept for each group."""
    stager = SimpleNamespace(
        has_blob=lambda sha: True,
        blob_path=lambda sha: blob,
        put_blob_bytes=lambda data: SHA,
        cut_blob=lambda sha, chunks, by_lines: [(one, 5) for one in CHUNKS],
    )
    desk: Any = SimpleNamespace(stager=stager)
    file = wire.UploadedFile(path="big", sha256=SHA, size_bytes=10)
    request = wire.SubmitRequest(content=job.encode(), format="toml", files=(file,), options=(UNCHECKED,))
    return kept_blobs(_parse_and_check(desk, Principal(Role.USER, "ann@lab"), request), request.files)


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


def test_a_file_that_was_divided_is_kept_as_long_as_its_chunks_and_no_longer(tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_text("#!/bin/sh\n")
    job = """
        [[group]]
        name = "whole"
        command = "cat big"
        inputs = ["big"]
        [[group]]
        name = "divided"
        command = "cat big"
        components = [{ count = 2 }]
        inputs = [{ url = "big", split = true }]
    """
    assert submitted(blob, job) == [[SHA], CHUNKS]
    alone = job.replace('inputs = ["big"]', "")
    assert submitted(blob, alone) == [[SHA], CHUNKS]
    assert submitted(blob, 'group.script = "big"') == [[SHA]]
