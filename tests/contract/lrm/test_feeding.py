"""A program of another account is fed with patience and then left: its own jobs may stop it for ever."""

from __future__ import annotations

import subprocess
import time

import pytest

from diana.adapters.lrm.runas.feeding import Fed
from tests.runs import SOAK

MIB = b"x" * (1 << 20)


def program(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stderr=subprocess.PIPE)


def test_what_it_reads_it_gets_whole_and_its_words_come_back() -> None:
    code, lines = Fed(program("wc -c >&2; exit 3")).end([MIB] * 5)
    assert (code, lines) == (3, [str(5 << 20)])


def test_one_that_ends_early_says_why() -> None:
    code, lines = Fed(program("echo no >&2; exit 77")).end([MIB] * 64)
    assert (code, lines) == (77, ["no"])


def test_one_that_talks_without_end_is_not_kept_in_memory() -> None:
    code, lines = Fed(program("cat > /dev/null; yes | head -c 3000000 >&2")).end([MIB])
    assert code == 0 and sum(map(len, lines)) <= 1 << 16


@pytest.mark.parametrize("script", ["kill -STOP $$", "exec sleep 600", "cat > /dev/null; exec sleep 600"])
def test_one_that_stalls_is_given_up(script: str) -> None:
    begun = time.monotonic()
    stalled = program(script)
    with pytest.raises(TimeoutError):
        Fed(stalled, stalled_s=0.4).end([MIB] * 8)
    assert not SOAK or time.monotonic() - begun < 10
    assert stalled.wait(60) != 0


def test_a_slow_one_that_goes_on_is_not_given_up() -> None:
    code, _ = Fed(program("for i in 1 2 3 4 5 6; do sleep 0.2; head -c 300000 > /dev/null; done; cat > /dev/null")).end(
        [MIB] * 3
    )
    assert code == 0
