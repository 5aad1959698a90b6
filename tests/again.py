"""Pytest, where few that fail among others are judged alone.

`python -m tests.again -n 4 ... tests/real` runs pytest with these words. A test of real processes waits for facts, and
on a machine that others use as well a wait can be too short. So where at most `FEW` tests fail, each runs `TIMES` times
more, under the same seed, with nothing of ours beside it. One that fails again fails the run; those that pass each time
are told by name in the last line.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

FEW = 5
TIMES = 3
LAST_FAILED = {"--lf", "--last-failed", "--ff", "--failed-first"}

Pytest = Callable[[Sequence[str]], int]


def run(words: Sequence[str], pytest: Pytest, failed: Callable[[], list[str]]) -> int:
    """Return the exit code of the run as a whole. `failed`: the tests that failed in the last call of `pytest`."""
    code = pytest(words)
    if code != 1:
        return code
    names = failed()
    if not 0 < len(names) <= FEW or not all("::" in name for name in names):
        return code
    alone = [*options(words), "-p", "no:cacheprovider"]
    for name in names:
        for _ in range(TIMES):
            if again := pytest([*alone, name]):
                print(f"again: failed among others and alone as well: {name}", flush=True)
                return again
    told = ", ".join(names)
    print(
        f"again: failed among others, passed {TIMES} times alone (a test or a node too slow for a busy machine): {told}"
    )
    return 0


def options(words: Sequence[str]) -> list[str]:
    """Return the words of a run without its paths, and without those that divide it among processes."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-n", "--dist", "--one-in"):
            next(rest, None)
        elif word.startswith("-") and word not in LAST_FAILED:
            kept.append(word)
            if word in ("-m", "-k", "-p", "-o", "--timeout", "--ignore"):
                kept.append(next(rest, ""))
    return kept


def _pytest(words: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode


def _failed() -> list[str]:
    return sorted(json.loads(_FAILED.read_text())) if _FAILED.exists() else []


_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main() -> int:
    if not LAST_FAILED & set(sys.argv):
        # Pytest keeps in it what failed in other folders before.
        _FAILED.unlink(missing_ok=True)
    os.environ.setdefault("DIANA_SEED", str(secrets.randbelow(1 << 24)))
    return run(sys.argv[1:], _pytest, _failed)


if __name__ == "__main__":
    sys.exit(main())
