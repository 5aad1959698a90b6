"""A full disk costs no job its end: the claim log has room of its own behind its end, and stays when there is none to
write it anew."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from diana.adapters.lrm.spawner.claims import claimlog
from tests.contract.lrm.test_claim_links import CLAIM, OPENED


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    if os.getuid():
        pytest.skip("mounting takes root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "diana", str(tmp_path)], check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def fill(disk: Path) -> Path:
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return disk / "filler"


def add(log: claimlog.ClaimLog, bytes_: int) -> int:
    """Write claims of so many bytes in all, one by one; how many there were."""
    end, count = log.size_bytes + bytes_, 0
    while log.size_bytes < end:
        log.add(CLAIM)
        log.sync()
        count += 1
    return count


def test_ends_find_room_on_a_disk_that_others_filled(disk: Path) -> None:
    path = disk / "claims.log"
    log = claimlog.ClaimLog(path, [OPENED])
    count = add(log, claimlog.RESERVE_BYTES)
    fill(disk)
    count += add(log, claimlog.RESERVE_BYTES // 2 - 4096)
    log.close()
    found = claimlog.find(path)
    assert found.records == [OPENED] + [CLAIM] * count and found.lost == ""


def test_a_log_that_cannot_be_written_anew_goes_on_as_it_was(disk: Path) -> None:
    path = disk / "claims.log"
    log = claimlog.ClaimLog(path, [OPENED])
    count = add(log, 100_000)
    filler = fill(disk)
    log.add(CLAIM)
    anew = [msgspec.structs.replace(OPENED, before=log.count), *[CLAIM] * 100]
    with pytest.raises(claimlog.NoRoom):
        log.rewrite(anew)
    assert not path.with_suffix(".new").exists()
    log.sync()
    count += 1 + add(log, 10_000)
    found = claimlog.find(path)
    assert found.records == [OPENED] + [CLAIM] * count and found.lost == "", found.lost
    filler.unlink()
    log.rewrite([msgspec.structs.replace(OPENED, before=log.count), *[CLAIM] * 100])
    log.close()
    found = claimlog.find(path)
    assert len(found.records) == 101 and found.lost == ""
