"""Commands of a batch system, run in an environment of their own: nothing of the node's reaches a job by way of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from diana.adapters.batch.systems.system import BatchRefused, BatchUnreachable
from diana.errors import one_line

WAIT_S = 60.0
_MOST_WORDS = 300
_KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "PATH")


class Commands:
    """Runs commands. `environment` is added to what every account has, and to `keeps` of the node's own. Counts its
    calls: they are what a cluster's head pays."""

    def __init__(self, environment: Mapping[str, str], keeps: Sequence[str] = ()) -> None:
        kept = {name: os.environ[name] for name in (*_KEPT, *keeps) if name in os.environ}
        self.environment = {**kept, **environment}
        self.calls = 0

    def run(self, argv: Sequence[str], transient: Sequence[str], *, errors_too: bool = False, told: str = "") -> str:
        """Run a command and return its output, with `errors_too` its standard error as well; `told`: its standard
        input. Refused in its own words; Unreachable when it cannot be run, takes too long, or says one of
        `transient`."""
        program = shutil.which(argv[0], path=self.environment.get("PATH"))
        if program is None:
            raise BatchRefused(f"{argv[0]} is not in the PATH of the node; install it or correct the PATH", every=True)
        self.calls += 1
        try:
            done = subprocess.run(
                [program, *argv[1:]],
                input=told,
                capture_output=True,
                text=True,
                errors="replace",
                env=self.environment,
                timeout=WAIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BatchUnreachable(f"{argv[0]} said nothing for {WAIT_S:g} s") from None
        except OSError as fault:
            raise BatchUnreachable(f"{program}: {fault.strerror}") from None
        if done.returncode == 0:
            return done.stdout + done.stderr if errors_too else done.stdout
        words = one_line(done.stderr or done.stdout or f"exit {done.returncode}")[:_MOST_WORDS]
        if any(each in words for each in transient):
            raise BatchUnreachable(words)
        raise BatchRefused(words)
