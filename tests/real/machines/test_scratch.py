"""SPEC J3: scratch space is a demand on real disks. A job that no disk can hold is refused with what the largest has;
one whose machine's disk others fill waits and says so."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.grid import Grid, until
from tests.real.members import add_member

MIB = 1 << 20
DISK = 64 * MIB


def job(scratch: str) -> dict[str, object]:
    script = 'echo "$DIANA_MACHINE"; df --output=size -B1 "$TMPDIR" | tail -1'
    return {"group": {"command": ["sh", "-c", script]}, "resources": {"work": 5.0, "scratch": scratch}}


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "diana", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_jobs_go_by_the_disks_of_machines_as_they_are_and_as_full_as_they_are(grid: Grid) -> None:
    root = grid.add("alpha", slots=0)
    grid.join()
    root.start()
    member = add_member(grid, root, "m1", slots=2)
    slots = member.data / "slots"
    with small_disk(slots), root.client() as client:
        member.start()
        row = next(one for one in client.peers().machines if one.machine == "m1")
        assert row.scratch_bytes == DISK and 0 < row.scratch_free_bytes <= DISK
        assert "MB of 67.1 MB" in grid.run(root, "peers", "--data", str(root.data)).stdout

        # Larger than any disk: refused by plan and submit alike, with the most there is.
        for verb in ("plan", "submit"):
            refused = grid.run(root, verb, "--data", str(root.data), "--set", "scratch=65M", "--", "true")
            told = refused.stdout + refused.stderr
            assert refused.returncode == 3, told
            assert "has 64.0 MiB of scratch, a job needs 65.0 MiB" in told and "scratch <= 64.0 MiB" in told, told

        first = client.submit(job("40M")).group
        assert client.wait(first, timeout_s=60).state == "done"
        told = b"".join(chunk.data for chunk in client.logs(f"{first}.0")).decode().split()
        assert told == ["m1", str(DISK)]

        # Others fill the disk: the next one waits, though slots are free, and says why.
        filler = slots / "filler"
        filler.write_bytes(bytes(30 * MIB))
        until(lambda: client.peers().machines[1].scratch_free_bytes < 35 * MIB, "the machine tells its disk", 30.0)
        later = client.submit(job("40M")).group
        small = client.submit(job("20M")).group
        assert client.wait(small, timeout_s=60).state == "done"
        notes = [one.note for one in client.explain(later).waiting]
        assert len(notes) == 1 and "others leave 34.0 MiB of it at machine m1" in notes[0], notes
        filler.unlink()
        assert client.wait(later, timeout_s=60).state == "done"
        member.terminate()
