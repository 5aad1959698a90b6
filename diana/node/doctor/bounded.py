"""Checks that run side by side, each for a limited time, whatever hangs beneath them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from diana.errors import DianaError, one_line
from diana.threads import in_thread
from diana.wire.client.peers import CheckResult

LIMIT_S = 2.0
"""Seconds for one check."""

Results = list[CheckResult]


def ok(name: str, found: str) -> CheckResult:
    return CheckResult(name=name, state="ok", found=one_line(found))


def warn(name: str, found: str, mend: str) -> CheckResult:
    return CheckResult(name=name, state="warn", found=one_line(found), mend=one_line(mend))


def fail(name: str, found: str, mend: str) -> CheckResult:
    return CheckResult(name=name, state="fail", found=one_line(found), mend=one_line(mend))


class Check(NamedTuple):
    name: str
    run: Callable[[], Awaitable[Results]]
    hangs: str
    """Words for a check that does not end: the meaning and the mend."""


async def run_all(checks: Iterable[Check], limit_s: float = LIMIT_S) -> Results:
    """Run all checks at once; their results in the order given. Never raises for what a check meets."""
    return [row for rows in await asyncio.gather(*(_run(check, limit_s) for check in checks)) for row in rows]


async def _run(check: Check, limit_s: float) -> Results:
    try:
        async with asyncio.timeout(limit_s):
            return await check.run()
    except TimeoutError:
        return [warn(check.name, f"not done within {limit_s:g} s", check.hangs)]
    except DianaError as error:
        found, _, mend = str(error).rpartition("; ")
        return [fail(check.name, found or mend, mend if found else "")]
    except OSError as error:
        found = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return [fail(check.name, found, "make it usable for the node's account")]
    except Exception as error:
        return [fail(check.name, f"the check itself failed: {type(error).__name__}: {error}", "report this")]


def blocking(name: str, work: Callable[[], Results], hangs: str) -> Check:
    return Check(name, lambda: in_thread(work), hangs)
