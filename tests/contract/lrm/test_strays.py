"""Processes that a job left outside its session are found, at whatever moment their parent dies."""

from __future__ import annotations

import subprocess
import sys

STALE = """
import os, signal, subprocess, time
from diana.adapters.lrm.spawner.processes import Children, become_subreaper

become_subreaper()
shell = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE)
sleeper = int(shell.stdout.readline())
children = Children()
read, listed = children._pids, []

def dies_after_it_was_listed(known):
    pids = read(known)
    if not listed:
        shell.kill()
        os.waitid(os.P_PID, shell.pid, os.WEXITED | os.WNOWAIT)
    listed.append(pids)
    return pids

children._pids = dies_after_it_was_listed
found = children.strays([])
os.kill(sleeper, signal.SIGKILL)
print(listed[0] == [shell.pid], list(found) == [sleeper])
"""


def test_a_child_of_a_stray_that_dies_while_it_is_looked_at_is_found_too() -> None:
    ended = subprocess.run([sys.executable, "-c", STALE], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "True True\n"
