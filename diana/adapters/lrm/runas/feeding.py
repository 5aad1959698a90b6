"""A program that reads what it is given and may stop doing so: fed with patience, and then left."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress

STALLED_S = 60.0
"""Seconds without any progress after which the program is given up."""

MOST_SAID = 1 << 16


class Fed:
    """A process with pipes for its input and its errors. Blocks, no longer than `STALLED_S` at one place."""

    def __init__(self, process: subprocess.Popen[bytes], stalled_s: float = STALLED_S) -> None:
        assert process.stdin is not None and process.stderr is not None
        self._process = process
        self._in, self._err = process.stdin.fileno(), process.stderr.fileno()
        self._stalled_s = stalled_s
        self._said = b""
        os.set_blocking(self._in, False)
        os.set_blocking(self._err, False)

    def end(self, pieces: Iterable[bytes]) -> tuple[int, list[str]]:
        """Give it all pieces and wait for its end. Return its exit code and the lines of its errors. TimeoutError where
        it stalls: it is killed if that is allowed, and nobody waits for it."""
        process = self._process
        try:
            for piece in pieces:
                if not self._give(piece):
                    # It ended early, and says why.
                    break
            self._close_input()
            while self._listen(self._stalled_s):
                pass
            return process.wait(self._stalled_s), self._said.decode(errors="replace").strip().splitlines()
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            if process.poll() is None:
                # Under sudo it is root's, and the signal is refused.
                with suppress(PermissionError):
                    process.kill()
            self._close_input()
            assert process.stderr is not None
            process.stderr.close()

    def _give(self, piece: bytes) -> bool:
        left = memoryview(piece)
        until_s = time.monotonic() + self._stalled_s
        while left:
            try:
                done = os.write(self._in, left)
            except BlockingIOError:
                self._wait_for_room(until_s)
                continue
            except BrokenPipeError:
                return False
            left, until_s = left[done:], time.monotonic() + self._stalled_s
        return True

    def _wait_for_room(self, until_s: float) -> None:
        with selectors.DefaultSelector() as both:
            both.register(self._in, selectors.EVENT_WRITE)
            both.register(self._err, selectors.EVENT_READ)
            ready = both.select(max(0.0, until_s - time.monotonic()))
        if not ready:
            raise TimeoutError
        if any(key.fd == self._err for key, _ in ready) and not self._read():
            # It closed its errors; room for input is all that can still come.
            time.sleep(0.01)

    def _listen(self, most_s: float) -> bool:
        with selectors.DefaultSelector() as one:
            one.register(self._err, selectors.EVENT_READ)
            if not one.select(most_s):
                raise TimeoutError
        return self._read()

    def _read(self) -> bool:
        piece = os.read(self._err, MOST_SAID)
        self._said = (self._said + piece)[:MOST_SAID]
        return bool(piece)

    def _close_input(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
