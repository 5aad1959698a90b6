"""Commands of a batch system, run in an environment of their own: nothing of the node's reaches a job by way of it."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, cast

from diana.adapters.batch.systems.system import BatchRefused, BatchUnreachable
from diana.bounds import MOST_OUTPUT_BYTES
from diana.errors import one_line

WAIT_S = 60.0
_MOST_WORDS = 300
_MOST_SHOWN = 10_000
_READ_BYTES = 1 << 18
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
            code, out, err = _ran([program, *argv[1:]], told.encode(), self.environment)
        except TimeoutError:
            raise BatchUnreachable(f"{argv[0]} said nothing for {WAIT_S:g} s") from None
        except OSError as fault:
            raise BatchUnreachable(f"{program}: {fault.strerror}") from None
        except ValueError as fault:
            raise BatchUnreachable(f"{argv[0]} said {fault}") from None
        if code == 0:
            return out + err if errors_too else out
        words = one_line((err or out)[:_MOST_SHOWN] or f"exit {code}")[:_MOST_WORDS]
        if any(each in words for each in transient):
            raise BatchUnreachable(words)
        raise BatchRefused(words)


def _ran(argv: Sequence[str], told: bytes, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """Run to the end; (exit code, standard output, standard error). OSError; TimeoutError; ValueError where it says
    more than MOST_OUTPUT_BYTES. Line ends are newlines."""
    with tempfile.TemporaryFile() as given:
        given.write(told)
        given.seek(0)
        with subprocess.Popen(
            argv, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        ) as process:
            try:
                until_s = time.monotonic() + WAIT_S
                out, err = _said(process, until_s)
                # One that closed its output may stay for ever.
                return process.wait(max(0.1, until_s - time.monotonic())), out, err
            except subprocess.TimeoutExpired:
                raise TimeoutError from None
            finally:
                # Too late or too much: nobody waits for the rest.
                if process.poll() is None:
                    process.kill()


def _said(process: subprocess.Popen[bytes], until_s: float) -> tuple[str, str]:
    assert process.stdout is not None and process.stderr is not None
    found: dict[IO[bytes], list[bytes]] = {process.stdout: [], process.stderr: []}
    left = MOST_OUTPUT_BYTES
    with selectors.DefaultSelector() as both:
        for stream in found:
            both.register(stream, selectors.EVENT_READ)
        while both.get_map():
            ready = both.select(max(0.0, until_s - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                piece = os.read(key.fd, _READ_BYTES)
                left -= len(piece)
                if left < 0:
                    raise ValueError(f"more than {MOST_OUTPUT_BYTES >> 20} MiB")
                if piece:
                    found[cast(IO[bytes], key.fileobj)].append(piece)
                else:
                    both.unregister(key.fileobj)
    out, err = (b"".join(pieces).decode(errors="replace").replace("\r\n", "\n") for pieces in found.values())
    return out, err
