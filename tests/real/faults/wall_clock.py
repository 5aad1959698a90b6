"""A wall clock of a node's own, to be moved while it runs: a library before the C library adds what a file says.
Time namespaces leave this clock alone."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

from tests.e2e.grid import Site

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static long long moved_s(void) {
    static volatile long long *said;
    static int looked;
    if (!looked) {
        const char *name = getenv("DIANA_TEST_CLOCK");
        int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0) {
            void *at = mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
            if (at != MAP_FAILED) said = at;
        }
        looked = 1;
    }
    return said ? *said : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, at);
    if (!done && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += moved_s();
    return done;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


class WallClock:
    """`move` it. Wants a C compiler."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        assert compiler is not None, "no C compiler is here; install the packages gcc and libc6-dev"
        source, self.library, self.file = folder / "clock.c", folder / "clock.so", folder / "clock"
        source.write_text(_SOURCE)
        words = [compiler, "-shared", "-fPIC", "-O1", "-o", os.fspath(self.library), os.fspath(source), "-ldl"]
        subprocess.run(words, check=True)
        self.file.write_bytes(struct.pack("q", 0))

    def move(self, seconds: int) -> None:
        """So many seconds from the machine's."""
        with self.file.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", seconds))


class WithWallClock(Site):
    clock: WallClock

    def environment(self) -> dict[str, str]:
        moved = {"LD_PRELOAD": str(self.clock.library), "DIANA_TEST_CLOCK": str(self.clock.file)}
        return {**super().environment(), **moved}
