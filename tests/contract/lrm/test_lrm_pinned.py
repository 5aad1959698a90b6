"""Where the operator wants it, a job runs on the processors of its slots, from its first instruction on."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from diana.adapters.lrm.local import LocalLrm
from diana.model.facts import Outcome
from diana.model.job.spec import GroupSpec, Resources
from tests.contract.lrm_builders import ALPHA, RealSite

CODE = """
import os, subprocess, sys, time
out = sys.argv[1] + "/" + os.environ["DIANA_INDEX"]
mine = sorted(os.sched_getaffinity(0))
look = "import os; print(sorted(os.sched_getaffinity(0)))"
child = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True)
assert child.stdout.strip() == str(mine)
open(out + ".new", "w").write("%s %s" % (os.environ["DIANA_SLOT"], mine))
os.rename(out + ".new", out)
until = time.time() + 120
while time.time() < until and len([n for n in os.listdir(sys.argv[1]) if "." not in n]) < 2:
    time.sleep(0.05)
"""


class PinnedSite(RealSite):
    def _new(self) -> LocalLrm:
        return LocalLrm(self.data, ALPHA, self.slots, self.events.append, time.monotonic, pins=True)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="wants two processors")
async def test_two_jobs_at_once_have_a_processor_each_and_a_wide_one_has_both(tmp_path: Path) -> None:
    site = PinnedSite(tmp_path / "site", slots=2)
    out, wide = tmp_path / "out", tmp_path / "wide"
    out.mkdir()
    wide.mkdir()
    (wide / "x").touch()
    await site.up()
    try:
        first, second = sorted(os.sched_getaffinity(0))[:2]
        site.start(GroupSpec(argv=(sys.executable, "-c", CODE, str(out))), 0, 1)
        ends = await site.ended(2, 60.0)
        assert {end.outcome for end in ends} == {Outcome.DONE}
        assert sorted((out / str(k)).read_text() for k in range(2)) == [f"0 [{first}]", f"1 [{second}]"]
        both = GroupSpec(argv=(sys.executable, "-c", CODE, str(wide)), resources=Resources(processors=2))
        site.start(both, 2)
        await site.ended(3, 60.0)
        assert (wide / "2").read_text() == f"0 [{first}, {second}]"
    finally:
        await site.down()
