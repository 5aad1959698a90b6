"""The submit description of one array, for `condor_submit`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.system import Array

TOKEN, TASK = "DianaToken", "DianaTask"
"""Attributes of a job: its array's token, its number in the array."""
TASK_VARIABLE, JOB_VARIABLE = "DIANA_TASK", "DIANA_CLUSTER"
"""Variables in a job's environment; HTCondor itself tells a job neither."""
NAME_PREFIX = "diana."
_OURS = (
    *("universe", "executable", "transfer_executable", "arguments", "initialdir", "input", "output", "error", "hold"),
    *("environment", "env", "getenv", "request_cpus", "allowed_job_duration", "periodic_remove", "queue"),
    *("max_materialize", "max_idle", "materialize_max_idle", f"+{TOKEN}", f"+{TASK}", f"my.{TOKEN}", f"my.{TASK}"),
)
_KEY = re.compile(r"[+\w.]+", re.ASCII)
_ACCOUNT = re.compile(r"[\w.@+-]*", re.ASCII)
_PLAIN = re.compile(r"[\w./:,+@%=~ -]*", re.ASCII)
_EXTRA_S = 60
"""Seconds for what happens around the command: the limit is never shorter than the script's own."""
PERIODIC_REMOVE = (
    "JobStatus == 1 && NumJobStarts > 0 || JobStatus == 5 && "
    "(NumJobStarts > 0 || HoldReasonCode =!= 1 && HoldReasonCode =!= 15 && HoldReasonCode =!= 16)"
)
"""Expression by which jobs are removed: an evicted job would begin anew, one held for a fault would stay held for
ever, and neither may happen. A job that somebody holds before it began is theirs to release."""


def check(options: tuple[str, ...], account: str = "") -> None:
    """Check the operator's lines and account. ValueError for a line that is none, or would take from us what we
    follow jobs by."""
    if not _ACCOUNT.fullmatch(account):
        raise ValueError(f"account: {account!r} is no accounting group; write letters, digits and . _ @ + - alone")
    for line in options:
        key, equals, _ = line.partition("=")
        key = key.strip()
        # One that ends in a backslash goes on in the next, which is ours.
        whole = line.isprintable() and not line.rstrip().endswith("\\")
        if not equals or not whole or not _KEY.fullmatch(key) or key.lower() in {word.lower() for word in _OURS}:
            raise ValueError(
                f"options: {line!r} is no line of a submit description, or one diana writes itself; "
                "write KEY = VALUE, of another key than executable, environment, queue and the like"
            )


def transfers(options: tuple[str, ...]) -> bool:
    """True if jobs may run on machines of another FILESYSTEM_DOMAIN."""
    said = dict(line.lower().replace(" ", "").split("=", 1) for line in options if "=" in line)
    return said.get("should_transfer_files", "no") != "no"


def description(array: Array, settings: ClusterSettings, environment: Mapping[str, str]) -> str:
    """Return the submit description. `environment`: variables that jobs find there, as far as their values are
    plain; those that name diana's own are ours."""
    here = {name: value for name, value in environment.items() if not name.startswith(("CONDOR_", "_CONDOR_"))}
    pairs = [f"'{name}={value}'" for name, value in here.items() if _PLAIN.fullmatch(value)]
    pairs += [f"{TASK_VARIABLE}=$({TASK})", f"{JOB_VARIABLE}=$(ClusterId)"]
    lines = [
        "should_transfer_files = NO",
        f"batch_name = {NAME_PREFIX}{array.token}",
        "notification = Never",
        *settings.options,
        "universe = vanilla",
        f"executable = {_literal(array.script)}",
        "transfer_executable = False",
        f"initialdir = {_literal(str(Path(array.script).parent))}",
        *(f"{stream} = /dev/null" for stream in ("input", "output", "error")),
        f'environment = "{" ".join(pairs)}"',
        f"request_cpus = {array.processors}",
        *([f"request_memory = {-(-array.memory_bytes // 2**20)}"] if array.memory_bytes else []),
        *([f"request_gpus = {array.gpus}"] if array.gpus else []),
        *([f"allowed_job_duration = {int(array.time_limit_s) + _EXTRA_S}"] if array.time_limit_s else []),
        *([f"accounting_group = {settings.account}"] if settings.account else []),
        f"periodic_remove = {PERIODIC_REMOVE}",
        f'+{TOKEN} = "{array.token}"',
        f"+{TASK} = $({TASK})",
        f"queue {TASK} from (",
        *map(str, array.tasks),
        ")",
    ]
    return "\n".join(lines) + "\n"


def _literal(path: str) -> str:
    """Return the path with each `$(NAME)` kept from being a macro."""
    return path.replace("$(", "$(DOLLAR)(")
