"""A node that is told to stop ends, whatever hangs, and says what did."""

import asyncio
import subprocess
import sys

import pytest

from diana.errors import StoreFull
from diana.node import ending
from diana.node.ending import GAVE_UP

_STOPS = """
import asyncio, logging
from diana.node.ending import Stop
logging.basicConfig(level="CRITICAL", format="%(message)s")

async def hangs():
    await asyncio.get_running_loop().create_future()

async def main(takes_s, then_s=0.0):
    stop = Stop(longest_s={longest})
    stop.set()
    if takes_s is None:
        async with asyncio.timeout(60):
            await hangs()
    await asyncio.sleep(takes_s)
    stop.ended()
    await asyncio.sleep(then_s)

asyncio.run(main({how}))
print("in order")
"""


def _run(how: str, longest_s: float) -> subprocess.CompletedProcess[str]:
    program = _STOPS.replace("{how}", how).replace("{longest}", str(longest_s))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)


def test_a_stop_that_hangs_ends_the_process_and_the_log_says_down_to_which_call_it_hung() -> None:
    done = _run("None", 0.2)
    assert done.returncode == GAVE_UP
    assert "in order" not in done.stdout
    assert "not ended 0.2 s after it was told to stop" in done.stderr
    assert "main (<string>:" in done.stderr and " > hangs (<string>:" in done.stderr


@pytest.mark.parametrize("how", ["0.0", "0.0, 2.0"], ids=["it ends", "it ends and the process goes on"])
def test_a_stop_in_time_is_left_alone(how: str) -> None:
    done = _run(how, 1.5)
    assert (done.returncode, done.stdout, done.stderr) == (0, "in order\n", "")


@pytest.mark.parametrize(("told", "code"), [(False, ending.AGAIN), (True, 0)])
async def test_a_node_that_found_no_room_does_not_begin_anew_at_once(
    monkeypatch: pytest.MonkeyPatch, told: bool, code: int
) -> None:
    """Free bytes may be counted that its account has no right to."""
    monkeypatch.setattr(ending, "ANEW_S", 0.05)
    stop: list[bool] = []
    work = asyncio.create_task(ending.begins_anew(StoreFull("the disk is full"), lambda: bool(stop)))
    await asyncio.sleep(0)
    assert not work.done()
    stop += [True] * told
    assert await work == code
