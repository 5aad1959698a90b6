"""`make soak`: the long runs that the gate has no time for, under fresh seeds.

It goes on past a failure, prints a table (part, passed, failed, seconds) with the command that repeats each failure,
and ends with 1 if any part failed or was cut short; an interrupt ends the part at hand, and the run with 130.
`make soak PARTS="real torture" MINUTES=30 SEED=17` runs two parts, for half an hour at most, under the seed that it
named before. A seed that fails becomes a written one in `make test`, with its mend.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from tests.packages import install

OUT = Path("build/soak")
GRACE_S = 60.0
"""Seconds that a part has to end, and to tell of what it did, once the time is over."""
CLUSTERS = ("netns", "slurm", "gridengine", "containers", "mpi")
REAL = ("tests/e2e", "tests/real", "tests/clusters", "tests/web", "tests/smoke")


@dataclass(frozen=True)
class Part:
    """`pytest`: its words. `command`: one that passes or fails as a whole, where a part is no tests."""

    pytest: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


def _without(folders: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"--ignore={each}" for each in folders)


PARTS: dict[str, Part] = {
    "rules": Part(("-n2", "--dist=loadfile", "-m", "not wide", *_without(REAL), "tests")),
    "wide": Part(("-n2", "--dist=load", "--timeout=900", "-m", "wide", *_without(REAL), "tests")),
    "searches": Part(
        ("-n2", "--dist=load", "--timeout=3600", "tests/protocol", "tests/replica"), environment={"DIANA_FULL": "1"}
    ),
    "e2e": Part(("-n2", "--dist=loadfile", "tests/e2e")),
    "real": Part(("-n2", "--dist=loadfile", "--timeout=400", "-m", "not alone", "tests/real"), packages=("processes",)),
    "alone": Part(("--timeout=400", "-m", "alone", "tests/real"), packages=("processes",)),
    "web": Part(("--timeout=240", "tests/web"), packages=("browser",)),
    "clusters": Part(("--timeout=580", "-m", "not wide", "tests/clusters"), packages=CLUSTERS),
    "rough": Part(("--timeout=580", "-m", "wide", "tests/clusters"), packages=CLUSTERS),
    "netns": Part(command=("make", "test-netns"), packages=("netns",)),
    "compose": Part(command=("make", "test-compose"), packages=("docker",)),
    "torture": Part(command=("make", "torture", "SEEDS=1000", "KILLS=50", "JOBS=1000"), packages=("processes",)),
}


@dataclass
class Row:
    """The result of a part. `again`: the command that repeats each failure."""

    part: str
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    again: list[str] = field(default_factory=list)
    cut_short: bool = False


def run(part: str, seed: int, until: float) -> Row:
    """Run one part, at most until then by the monotonic clock. What it printed lies in build/soak/PART.log."""
    begun = time.monotonic()
    what, row = PARTS[part], Row(part)
    if begun >= until:
        row.cut_short = True
        return row
    try:
        install(what.packages)
    except (subprocess.CalledProcessError, OSError) as fault:
        row.failed, row.again = 1, [f"its packages cannot be had: {fault}"]
        return row
    report = (OUT / f"{part}.xml").absolute()
    report.unlink(missing_ok=True)
    words = [*what.command, f"FIRST_SEED={seed}"] if part == "torture" else list(what.command)
    if what.pytest:
        words = [sys.executable, "-m", "pytest", f"--junitxml={report}", f"--hypothesis-seed={seed}", *what.pytest]
    own = {**what.environment, "DIANA_SEED": str(seed)}
    with (OUT / f"{part}.log").open("w") as log:
        code, row.cut_short = _ended(words, {**os.environ, **own}, log, until)
    if what.pytest:
        row.passed, row.again = _told(report, own, [word for word in what.pytest if word.startswith("--timeout")])
        if code and not row.again and not row.cut_short:
            row.again = [f"pytest ended with {code}: see {log.name}"]
        row.failed = len(row.again)
    else:
        row.passed, row.failed = (1, 0) if code == 0 else (0, 0 if row.cut_short else 1)
        row.again = [f"{_said(own)} {shlex.join(words)}"] if row.failed else []
    row.seconds = time.monotonic() - begun
    return row


def _ended(words: list[str], environment: dict[str, str], log: TextIO, until: float) -> tuple[int, bool]:
    """Return the exit code, and whether the time was over before the part was."""
    # In the background a shell ignores SIGINT, and children inherit that. An interrupt that comes while the part begins
    # waits until it can be told of it.
    early: list[int] = []
    interrupted = signal.signal(signal.SIGINT, lambda number, _: early.append(number))
    try:
        process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, interrupted)
    try:
        if early:
            raise KeyboardInterrupt
        for patience, ending in ((until - time.monotonic(), signal.SIGINT), (GRACE_S, signal.SIGKILL)):
            try:
                return process.wait(max(0.0, patience)), ending is signal.SIGKILL
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, ending)
        return process.wait(), True
    except KeyboardInterrupt:
        # It has a session of its own, so a terminal's Ctrl-C does not reach it.
        os.killpg(process.pid, signal.SIGINT)
        process.wait(GRACE_S)
        raise


def _said(environment: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in environment.items())


def _told(report: Path, environment: dict[str, str], more: list[str]) -> tuple[int, list[str]]:
    """Return how many tests passed, and the command that repeats each that did not. Nothing where pytest left no whole
    report."""
    try:
        cases = list(ET.parse(report).iter("testcase"))
    except (FileNotFoundError, ET.ParseError):
        return 0, []
    passed, again = 0, []
    options = shlex.join([f"--hypothesis-seed={environment['DIANA_SEED']}", *more])
    for case in cases:
        if case.find("failure") is None and case.find("error") is None:
            passed += case.find("skipped") is None
            continue
        name = shlex.quote(_name(case))
        again.append(f"{_said(environment)} {sys.executable} -m pytest {options} {name}")
    return passed, again


def _name(case: ET.Element) -> str:
    """`tests.sim.test_x` and `test_y[3]` as pytest takes them; a file that could not be read has no class name."""
    of, name = case.get("classname", ""), case.get("name", "")
    folders, inside = (of or name).split("."), [name] if of else []
    while len(folders) > 1 and not Path(*folders).with_suffix(".py").exists():
        # A class within the file.
        inside.insert(0, folders.pop())
    return "::".join([f"{Path(*folders)}.py", *inside])


def told(rows: Sequence[Row]) -> Iterator[str]:
    """The table, a line each, and below it how each failure is repeated."""
    yield f"{'part':<10}{'passed':>8}{'failed':>8}{'seconds':>9}"
    for row in rows:
        cut = "  (time was over)" if row.cut_short else ""
        yield f"{row.part:<10}{row.passed:>8}{row.failed:>8}{row.seconds:>9.0f}{cut}"
    for row in rows:
        yield from (f"{row.part}: {line}" for line in row.again)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all of them if none is named")
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.parts if name not in PARTS]:
        parser.error(f"no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    seed = secrets.randbelow(1 << 24) if asked.seed is None else asked.seed
    print(f"soak: fresh seeds from {seed} (again: make soak SEED={seed}); logs in {OUT}", flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60.0 * asked.minutes
    rows: list[Row] = []
    interrupted = False
    try:
        for name in asked.parts or PARTS:
            rows.append(run(name, seed, until))
            print(*list(told(rows[-1:]))[1:], sep="\n", flush=True)
    except KeyboardInterrupt:
        interrupted = True
    print("", *told(rows), sep="\n")
    return 130 if interrupted else int(any(row.failed or row.cut_short for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
