"""Checks of this machine: the node, its spawner, their limits, and the owner of its port."""

from __future__ import annotations

import errno
import os
import re
import resource
import socket
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from diana.adapters.listeners import who_listens
from diana.adapters.lrm import launch
from diana.adapters.lrm.cgroups.per_job import noted
from diana.model.layout import DataDir
from diana.model.words import counted
from diana.node.config.site_file import SiteConfig, host_port, is_loopback
from diana.node.doctor.bounded import Results, fail, ok, warn
from diana.node.doctor.files import account

LEAST_DESCRIPTORS = 1024
_SPARE_DESCRIPTORS = 256


class Holder(NamedTuple):
    """The process that holds a lock."""

    pid: int
    stopped: bool
    """True if a signal stopped it: it keeps the lock and does nothing."""


def holder(lock: Path) -> Holder | None:
    """The process that holds the flock of this file; None: nobody does. Never takes it, not even for a moment, which
    would keep a starting node out."""
    try:
        inode = lock.stat().st_ino
        text = Path("/proc/locks").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            with suppress(OSError, ValueError):
                pid = int(lock.read_text())
                return Holder(pid, _state(pid) in "Tt")
    return None


def _state(pid: int) -> str:
    """As /proc has it; `?` for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2][:1] or "?"
    except OSError:
        return "?"


def node(paths: DataDir, held: Holder | None, problem: str) -> Results:
    """`problem`: what the control socket answered instead of an answer; empty: it answered, or was not asked."""
    if held is None:
        return [warn("node", "it does not run", f"start it with: diana node --data {paths.root}")]
    if held.stopped:
        mend = f"kill -CONT {held.pid}"
        return [fail("node", f"process {held.pid} is stopped by a signal: it answers nobody", mend)]
    if problem:
        mend = f"read {paths.node_log}; if it hangs, kill -9 {held.pid} and start it again: jobs run on"
        return [fail("node", f"process {held.pid} runs but does not answer: {problem}", mend)]
    return [ok("node", f"process {held.pid} runs, and answers on its socket")]


def spawner(paths: DataDir, held: Holder | None) -> Results:
    mine = holder(paths.spawner / "lock")
    if mine is not None and mine.stopped:
        found = f"process {mine.pid} is stopped by a signal: no job starts or is seen to end"
        return [fail("spawner", found, f"kill -CONT {mine.pid}")]
    sock = launch.connect(paths)
    if sock is not None:
        with closing(sock):
            who = f"process {mine.pid}" if mine else "one"
            return [ok("spawner", f"{who} runs and takes connections")]
    log = paths.spawner / "spawner.log"
    if held is not None and not held.stopped:
        return [fail("spawner", "none runs although the node does: no job can start", f"read {log}; restart the node")]
    if mine is not None:
        mend = f"read {log}; if it hangs, kill -9 {mine.pid}: the node starts another, running jobs are adopted"
        return [fail("spawner", f"process {mine.pid} runs and takes no connection", mend)]
    return [ok("spawner", "none runs; the node starts it")]


def cgroups(paths: DataDir) -> Results:
    """Tell of control groups for jobs, as the spawner found them at its start. Jobs run without them, too."""
    standing = noted(paths.spawner)
    if standing is None:
        return [ok("cgroups", "not looked for yet: the spawner does at its start")]
    sampled = "memory of jobs is sampled"
    if not standing.base:
        return [ok("cgroups", f"jobs have none, {sampled}: {standing.why}")]
    if not standing.held:
        return [ok("cgroups", f"each job has its own in {standing.base}, {sampled}: {standing.why}")]
    return [ok("cgroups", f"each job has its own in {standing.base}, the kernel holds its memory")]


def limits(config: SiteConfig, held: Holder | None) -> Results:
    """Open files: a slot wants two, each peer and client one or two."""
    wanted = max(LEAST_DESCRIPTORS, 2 * config.settings.slots + _SPARE_DESCRIPTORS)
    soft, hard = _open_files(held)
    slots = f"{counted(config.settings.slots, 'slot')} {'wants' if config.settings.slots == 1 else 'want'}"
    mend = f"raise it: ulimit -n {wanted}, or LimitNOFILE={wanted} in the node's unit; then start the node again"
    if hard < wanted:
        return [fail("limits", f"at most {hard:,} open files, {slots} {wanted:,}", mend)]
    if soft < min(wanted, LEAST_DESCRIPTORS):
        return [warn("limits", f"{soft:,} open files, {wanted:,} are wanted", mend)]
    return [ok("limits", f"{soft:,} open files, {hard:,} at most")]


def _open_files(held: Holder | None) -> tuple[int, int]:
    """Soft and hard limit of open files, of the node that runs, else of this process."""
    if held is not None:
        with suppress(OSError):
            text = Path(f"/proc/{held.pid}/limits").read_text()
            if found := re.search(r"^Max open files\s+(\w+)\s+(\w+)", text, re.MULTILINE):
                soft, hard = (1 << 30 if word == "unlimited" else int(word) for word in found.groups())
                return soft, hard
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return tuple(1 << 30 if n == resource.RLIM_INFINITY else n for n in (soft, hard))  # type: ignore[return-value]


def runs_as(paths: DataDir, held: Holder | None) -> Results:
    uid = os.geteuid()
    if held is not None:
        with suppress(OSError):
            uid = os.stat(f"/proc/{held.pid}").st_uid
    if uid != 0:
        return [ok("account", f"the node runs as {account(uid)}")]
    mend = f"give it an account of its own: useradd -r diana; chown -R diana {paths.root}; start it as that account"
    return [warn("account", "the node runs as root, and so do its jobs", mend)]


def listening(config: SiteConfig, held: Holder | None) -> Results:
    """Check that the port is the node's, or could be. A running node has bound it: it would not run otherwise."""
    if config.role == "member":
        return [ok("port", "a member listens nowhere: it dials its site")]
    host, port = host_port(config.listen)
    reach = "only this machine reaches it" if is_loopback(config.listen) else "the one port other sites need"
    if held is not None:
        return [ok("port", f"{config.listen} ({reach})")]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return [fail("port", f"listen = {config.listen}: no such host", "set listen to an address of this machine")]
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(address)
                trial.listen(1)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    mend = "set listen to an address of this machine"
                    return [fail("port", f"listen = {config.listen}: {error.strerror}", mend)]
                mend = f"stop that, or set listen in {config.site}'s site.toml to another port"
                return [fail("port", f"{config.listen} is taken by {who_listens(port)}", mend)]
    return [ok("port", f"{config.listen} is free ({reach})")]
