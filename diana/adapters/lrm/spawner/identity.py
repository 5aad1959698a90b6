"""The identity of a process. A pid alone is reused; pid plus start time on one boot of one machine is not (PROMISES
1.6)."""

from __future__ import annotations

import os
import time

import msgspec

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_START_TIME = 19
"""Position of `starttime` in /proc/PID/stat, counted after the command's closing parenthesis (proc(5), field 22)."""


class MachineIdentity(msgspec.Struct, frozen=True, array_like=True):
    """Identity of a machine; changes exactly when every process that ran here is gone: reboot, or a new container."""

    boot_id: str
    pid_namespace: int
    init_ticks: int
    """Start time of this namespace's pid 1, in clock ticks after boot."""


def machine() -> MachineIdentity:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot_id = file.read().strip()
    return MachineIdentity(boot_id, os.stat("/proc/self/ns/pid").st_ino, start_ticks(1) or 0)


def boot_s() -> float:
    """Seconds since boot, suspended time included; the clock of a process's start time."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_s() -> float:
    return time.time()


def start_ticks(pid: int) -> int | None:
    """Start time of a living process; None when there is none or only its zombie."""
    fields = stat_fields(pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[_START_TIME])


def stat_fields(pid: int) -> list[bytes] | None:
    """/proc/PID/stat from the state letter on (state, parent, group, session, ...)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def name_of(pid: int) -> bytes:
    """Return the name of the process's program, at most 15 bytes; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().rstrip(b"\n")
    except (FileNotFoundError, ProcessLookupError):
        return b""


def same_process(pid: int, before_s: float, after_s: float) -> bool:
    """True if `pid` lives and is the process started between the two readings of `boot_s`."""
    ticks = start_ticks(pid)
    return ticks is not None and int(before_s * _TICKS_PER_S) - 1 <= ticks <= int(after_s * _TICKS_PER_S) + 1


def by_marker(prefix: bytes) -> dict[bytes, list[int]]:
    """Return the living processes whose environment has an entry that begins with `prefix`: entry -> pids in rising
    order."""
    found: dict[bytes, list[int]] = {}
    for name in sorted(os.listdir("/proc")):
        if name.isdecimal():
            for entry in environment(int(name)).split(b"\0"):
                if entry.startswith(prefix):
                    found.setdefault(entry, []).append(int(name))
                    break
    return found


def environment(pid: int) -> bytes:
    """Return the NUL-terminated entries as the process was given them; empty when it may not be read or is gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""
